"""May a side thread ask a running iterator for its model, while iterators are made and end by the thousand?

A side thread calls `IteratorGetModelProto` on the iterator. The main thread is inside TensorFlow, which has let go of the GIL. Each
case runs in a process of its own with a deadline. A crash or a hang is a row of the table. A case fails if a poll raises, too.
Runs on any TensorFlow from 2.17 on.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.paired import arguments, middle, save, show

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# An iterator of these cases is made by Python, which takes longer.
MADE_BY_PYTHON, BY_PYTHON_RATIO = ("passes", "abandoned", "raising", "generators"), 4
INNER = 4  # elements of an inner iterator
COLUMNS = ("case", "iterators", "polls", "poll ms (median / max)", "failures", "ended")


@dataclass(slots=True)
class Poller:
    """Poll the given iterator, one poll at a time, from a thread of its own."""

    per_s: float
    polls_ms: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    iterator: Any = None
    _is_over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Poller:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        assert self._thread is not None
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(1 / self.per_s):
            iterator = self.iterator
            if iterator is not None:
                self._poll(iterator)
            del iterator

    def _poll(self, iterator: Any) -> None:
        began_s = time.perf_counter()
        try:
            model_bytes(iterator)
        except Exception as error:
            self.failures[f"{type(error).__name__}: {str(error).splitlines()[0][:160]}"] += 1
        else:
            self.polls_ms.append((time.perf_counter() - began_s) * 1e3)


def model_bytes(iterator: Any) -> bytes:
    """Return the iterator's model as TensorFlow serialized it."""
    from tensorflow.python.ops import gen_experimental_dataset_ops as ops

    return ops.iterator_get_model_proto(iterator._iterator_resource).numpy()  # type: ignore[no-any-return]


def drained() -> Callable[[Any], Any]:
    """Return a function of the graph that takes an iterator's elements to its end."""
    import tensorflow as tf

    @tf.function(reduce_retracing=True)
    def drain(iterator: Any) -> Any:
        count = tf.constant(0)
        for _ in iterator:
            count += 1
        return count

    return drain


def taking(count: int) -> Callable[[Any], Any]:
    """Return a function of the graph that takes so many elements."""
    import tensorflow as tf

    return tf.function(lambda iterator: [iterator.get_next() for _ in range(count)], reduce_retracing=True)  # type: ignore[no-any-return]


# --- cases: each makes and ends so many iterators -----------------------------------------------------------------------------


def small(elements: int = 8) -> Any:
    import tensorflow as tf

    return tf.data.Dataset.range(elements).map(lambda number: number + 1).batch(2).prefetch(tf.data.AUTOTUNE)


def one_by_one(poller: Poller, dataset: Any, times: int, take: Callable[[Any], Any]) -> None:
    """Make an iterator as often as asked, take elements of it, and end it.

    A poll may be in flight then: the side thread destroys it.
    """
    import tensorflow as tf

    for _ in range(times):
        poller.iterator = iter(dataset)
        with contextlib.suppress(tf.errors.InvalidArgumentError):  # of `raising`
            take(poller.iterator)
        poller.iterator = None


def whole(poller: Poller, dataset: Any) -> None:
    poller.iterator = iter(dataset)
    int(drained()(poller.iterator))
    poller.iterator = None


def passes(poller: Poller, iterators: int) -> None:
    """Make an iterator for each pass, drain it, and end it."""
    one_by_one(poller, small(), iterators, drained())


def abandoned(poller: Poller, iterators: int) -> None:
    """End each iterator after two elements, with its buffers full and its threads at work."""
    import tensorflow as tf

    endless = small(1000).repeat().map(lambda numbers: numbers * 2, num_parallel_calls=tf.data.AUTOTUNE).prefetch(4)
    one_by_one(poller, endless, iterators, taking(2))


def raising(poller: Poller, iterators: int) -> None:
    """End each pass by an error in the middle."""
    import tensorflow as tf

    def fails_at_five(number: Any) -> Any:
        with tf.control_dependencies([tf.debugging.assert_less(number, tf.constant(5, tf.int64))]):
            return tf.identity(number)

    one_by_one(poller, tf.data.Dataset.range(8).map(fails_at_five, num_parallel_calls=2).batch(2), iterators, drained())


def generators(poller: Poller, iterators: int) -> None:
    """End iterators whose generator still runs, which needs the GIL to end."""
    import tensorflow as tf

    def numbers() -> Any:
        yield from range(1000)

    dataset = tf.data.Dataset.from_generator(numbers, output_signature=tf.TensorSpec((), tf.int64)).batch(2).prefetch(4)
    one_by_one(poller, dataset, max(10, iterators // 5), taking(1))


def inner(start: Any) -> Any:
    import tensorflow as tf

    return tf.data.Dataset.range(start, start + INNER).map(lambda number: number * 2)


def flat_map(poller: Poller, iterators: int) -> None:
    """Make each inner iterator of four elements inside one pass."""
    import tensorflow as tf

    whole(poller, tf.data.Dataset.range(iterators).flat_map(inner).batch(8))


def interleave(poller: Poller, iterators: int) -> None:
    """Make the inner iterators of a parallel interleave, whose threads end them."""
    import tensorflow as tf

    outer = tf.data.Dataset.range(iterators).interleave(inner, cycle_length=16, num_parallel_calls=tf.data.AUTOTUNE)
    whole(poller, outer.batch(8).prefetch(tf.data.AUTOTUNE))


def restarted(poller: Poller, iterators: int) -> None:
    """Repeat short passes inside one iterator: each pass makes the ops behind `repeat` anew."""
    whole(poller, small().repeat(iterators))


CASES: dict[str, Callable[[Poller, int], None]] = {
    "passes": passes,
    "abandoned": abandoned,
    "raising": raising,
    "generators": generators,
    "repeat": restarted,
    "flat_map": flat_map,
    "interleave": interleave,
}


def run_case(name: str, iterators: int, per_s: float) -> dict[str, Any]:
    """Run one case in this process, and return its row."""
    import tensorflow as tf

    model_bytes(iter(small()))  # the first poll of a process makes the op's kernel
    count = iterators // BY_PYTHON_RATIO if name in MADE_BY_PYTHON else iterators
    with Poller(per_s) as poller:
        CASES[name](poller, count)
    times = poller.polls_ms or [0.0]
    numbers = {"iterators": count, "polls": len(poller.polls_ms), "median_ms": middle(times), "max_ms": max(times)}
    return {"tensorflow": tf.__version__, **numbers, "failures": dict(poller.failures)}


# --- in the parent ----------------------------------------------------------------------------------------------------------------


def in_child(command: Sequence[str], deadline_s: float) -> dict[str, Any]:
    """Return the row that a process of its own printed, with `ended`: ok, hung, a signal or an exit code."""
    root = Path(__file__).resolve().parents[1]
    child = subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, errors = child.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGABRT)  # faulthandler then prints each thread's stack
        try:
            _, errors = child.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            child.kill()
            _, errors = child.communicate()
        return {"ended": f"hung, {deadline_s:g} s", "stderr": errors[-4000:]}
    lines = [line for line in out.splitlines() if line.startswith("{")]
    row = json.loads(lines[-1]) if lines else {}
    code = child.returncode
    ended = "ok" if code == 0 and row else signal.Signals(-code).name if code < 0 else f"exit {code}"
    return {**row, "ended": ended, **({} if ended == "ok" else {"stderr": errors[-4000:]})}


def measured(names: Sequence[str], iterators: int, per_s: float, deadline_s: float) -> dict[str, dict[str, Any]]:
    """Run cases, each in a process of its own, and return their rows by name."""
    command = (sys.executable, "-m", "benchmarks.poll_stress", "--iterators", str(iterators), "--rate", str(per_s), "--case")
    return {name: in_child((*command, name), deadline_s) for name in names}


def is_good(row: dict[str, Any]) -> bool:
    """Return whether a case ended by itself, was polled, and no poll raised."""
    return row["ended"] == "ok" and not row["failures"] and row["polls"] > 0


def cells(name: str, row: dict[str, Any]) -> tuple[str, ...]:
    """Return the row of the table; a case that crashed or hung has no numbers."""
    if "polls" not in row:
        return (name, *["–"] * (len(COLUMNS) - 2), row["ended"])
    wall_ms = f"{row['median_ms']:.3g} / {row['max_ms']:.3g}"
    failures = ", ".join(f"{count} {what}" for what, count in row["failures"].items()) or "none"
    return (name, str(row["iterators"]), str(row["polls"]), wall_ms, failures, row["ended"])


def main() -> int:
    """Run all cases, or in a child the given one."""
    options = arguments(
        __doc__,
        iterators=(int, 10_000, "made and ended inside one pass; a quarter where Python makes them"),
        rate=(float, 50.0, "polls a second"),
        deadline=(float, 120.0, "seconds until a case counts as hung"),
        case=(str, "", "the one case to run in this process"),
    )
    if options.case:
        faulthandler.enable()
        print(json.dumps(run_case(options.case, options.iterators, options.rate)), flush=True)
        return 0
    rows = measured(tuple(CASES), options.iterators, options.rate, options.deadline)
    show(f"Polls from a side thread, {options.rate:g} a second", COLUMNS, [cells(name, row) for name, row in rows.items()])
    save(options.json, {"cases": rows})
    return 0 if all(map(is_good, rows.values())) else 1


if __name__ == "__main__":
    sys.exit(main())

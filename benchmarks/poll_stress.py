"""May a side thread ask a running iterator for its model, while iterators are made and end by the thousand?

A side thread calls `IteratorGetModelProto` on the iterator. The main thread is inside TensorFlow, which has let go of the GIL. Each
case runs in a process of its own with a deadline. A crash or a hang is a row of the table. A case fails if a poll raises, too.

Protos are kept as bytes and parsed after the case, because parsing holds the GIL. Runs on any TensorFlow from 2.17 on.
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

import numpy as np

from benchmarks.paired import arguments, save, show

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

KEPT_PROTOS = 5000
MADE_BY_PYTHON = ("passes", "passes, not joined", "abandoned", "raising")
INNER = 4  # elements of an inner iterator
COLUMNS = ("case", "iterators", "polls", "inside a call", "poll ms (median / max)", "CPU µs", "nodes", "failures", "ended")


@dataclass(slots=True)
class Poll:
    began_s: float
    wall_s: float
    cpu_s: float
    is_inside: bool  # one call of TensorFlow by the main thread


@dataclass(slots=True)
class Poller:
    """Poll the given iterator, one poll at a time, from a thread of its own."""

    per_s: float
    polls: list[Poll] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    calls: int = 0  # odd while the main thread is inside TensorFlow
    _iterator: Any = None
    _in_flight: threading.Lock = field(default_factory=threading.Lock)
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

    def watch(self, iterator: Any) -> None:
        self._iterator = iterator

    def release(self, joined: bool = True) -> None:
        """Forget the iterator; `joined` waits for the poll in flight, as a worker must."""
        if joined:
            with self._in_flight:
                self._iterator = None
        else:
            self._iterator = None

    def inside(self, call: Callable[[], Any]) -> Any:
        """Call TensorFlow for the main thread, so that polls know that it is inside."""
        self.calls += 1
        try:
            return call()
        finally:
            self.calls += 1

    def _run(self) -> None:
        while not self._is_over.wait(1 / self.per_s):
            with self._in_flight:
                iterator = self._iterator
                if iterator is not None:
                    self._poll(iterator)
                del iterator

    def _poll(self, iterator: Any) -> None:
        call, began_s, began_cpu_s = self.calls, time.perf_counter(), time.thread_time()
        try:
            raw = model_bytes(iterator)
        except Exception as error:
            self.failures[f"{type(error).__name__}: {str(error).splitlines()[0][:160]}"] += 1
            return
        wall_s, cpu_s = time.perf_counter() - began_s, time.thread_time() - began_cpu_s
        self.polls.append(Poll(began_s, wall_s, cpu_s, is_inside=call == self.calls and call % 2 == 1))
        if len(self.raw) < KEPT_PROTOS:
            self.raw.append(raw)


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


# --- cases: each returns the number of iterators that it made and ended ---------------------------------------------------------


def small(elements: int = 8) -> Any:
    import tensorflow as tf

    return tf.data.Dataset.range(elements).map(lambda number: number + 1).batch(2).prefetch(tf.data.AUTOTUNE)


def one_by_one(
    poller: Poller,
    dataset: Any,
    times: int,
    take: Callable[[Any], Any],
    joined: bool = True,
    raises: tuple[type[Exception], ...] = (),
) -> int:
    """Make an iterator as often as asked, take elements of it, and end it."""
    for _ in range(times):
        iterator = iter(dataset)
        poller.watch(iterator)
        with contextlib.suppress(*raises):
            poller.inside(lambda held=iterator: take(held))
        poller.release(joined=joined)
        del iterator
    return times


def taking(count: int) -> Callable[[Any], Any]:
    """Return a function of the graph that takes so many elements."""
    import tensorflow as tf

    return tf.function(lambda iterator: [iterator.get_next() for _ in range(count)], reduce_retracing=True)  # type: ignore[no-any-return]


def passes(poller: Poller, iterators: int) -> int:
    """Make an iterator for each pass, drain it, and end it."""
    return one_by_one(poller, small(), iterators, drained())


def passes_not_joined(poller: Poller, iterators: int) -> int:
    """End each iterator whether a poll is in flight or not: then the side thread destroys it."""
    return one_by_one(poller, small(), iterators, drained(), joined=False)


def abandoned(poller: Poller, iterators: int) -> int:
    """End each iterator after two elements, with its buffers full and its threads at work."""
    import tensorflow as tf

    endless = small(1000).repeat().map(lambda numbers: numbers * 2, num_parallel_calls=tf.data.AUTOTUNE).prefetch(4)
    return one_by_one(poller, endless, iterators, taking(2))


def whole(poller: Poller, dataset: Any) -> None:
    iterator, drain = iter(dataset), drained()
    poller.watch(iterator)
    poller.inside(lambda: int(drain(iterator)))
    poller.release()


def inner(start: Any) -> Any:
    import tensorflow as tf

    return tf.data.Dataset.range(start, start + INNER).map(lambda number: number * 2)


def flat_map(poller: Poller, iterators: int) -> int:
    """Make each inner iterator of four elements inside one pass."""
    import tensorflow as tf

    whole(poller, tf.data.Dataset.range(iterators).flat_map(inner).batch(8))
    return iterators


def interleave(poller: Poller, iterators: int) -> int:
    """Make the inner iterators of a parallel interleave, whose threads end them."""
    import tensorflow as tf

    outer = tf.data.Dataset.range(iterators).interleave(inner, cycle_length=16, num_parallel_calls=tf.data.AUTOTUNE)
    whole(poller, outer.batch(8).prefetch(tf.data.AUTOTUNE))
    return iterators


def group_by_window(poller: Poller, iterators: int) -> int:
    """Make a dataset, and an iterator of it, for each window."""
    import tensorflow as tf

    numbers = tf.data.Dataset.range(iterators * INNER)
    whole(poller, numbers.group_by_window(lambda number: number % 4, lambda _, window: window.batch(INNER), window_size=INNER))
    return iterators


def restarted(poller: Poller, iterators: int) -> int:
    """Repeat short passes inside one iterator: each pass makes the ops behind `repeat` anew."""
    whole(poller, small().repeat(iterators))
    return iterators


def raising(poller: Poller, iterators: int) -> int:
    """End each pass by an error in the middle."""
    import tensorflow as tf

    def fails_at_five(number: Any) -> Any:
        with tf.control_dependencies([tf.debugging.assert_less(number, tf.constant(5, tf.int64))]):
            return tf.identity(number)

    dataset = tf.data.Dataset.range(8).map(fails_at_five, num_parallel_calls=2).batch(2)
    return one_by_one(poller, dataset, iterators, drained(), raises=(tf.errors.InvalidArgumentError,))


def long_fill(poller: Poller, iterators: int) -> int:
    """Fill a shuffle with the whole data inside one `get_next`, for about a second a pass."""
    import tensorflow as tf

    def work(number: Any) -> Any:
        values = tf.random.uniform([100_000])
        for _ in range(4):
            values = tf.sin(values)
        return number + tf.cast(tf.reduce_sum(values) * 0.0, tf.int64)

    elements = max(20, iterators // 20)
    iterator = iter(tf.data.Dataset.range(elements).map(work).shuffle(elements + 1).batch(8).repeat())
    poller.watch(iterator)
    step = taking(1)
    calls = 3 * (elements // 8 + 1)
    for _ in range(calls):
        poller.inside(lambda: step(iterator))
    poller.release()
    return 3


def generators_abandoned(poller: Poller, iterators: int) -> int:
    """End iterators whose generator still runs, which needs the GIL to end, with a poll in flight or not."""
    import tensorflow as tf

    def numbers() -> Any:
        yield from range(1000)

    dataset = tf.data.Dataset.from_generator(numbers, output_signature=tf.TensorSpec((), tf.int64)).batch(2).prefetch(4)
    return one_by_one(poller, dataset, max(10, iterators // 20), taking(1), joined=False)


def generator_holding_the_gil(poller: Poller, iterators: int) -> int:
    """Run a generator that holds the GIL for about 0.1 s an element: a poll needs the GIL before and after."""
    import tensorflow as tf

    def slow() -> Any:
        for _ in range(max(3, iterators // 500)):
            yield sum(range(5_000_000))

    whole(poller, tf.data.Dataset.from_generator(slow, output_signature=tf.TensorSpec((), tf.int64)))
    return 1


CASES: dict[str, Callable[[Poller, int], int]] = {
    "passes": passes,
    "passes, not joined": passes_not_joined,
    "abandoned": abandoned,
    "raising": raising,
    "repeat": restarted,
    "flat_map": flat_map,
    "interleave": interleave,
    "group_by_window": group_by_window,
    "long fill": long_fill,
    "generators, not joined": generators_abandoned,
    "generator holding the GIL": generator_holding_the_gil,
}


# --- in the child ---------------------------------------------------------------------------------------------------------------


def run_case(name: str, iterators: int, per_s: float) -> dict[str, Any]:
    """Run one case in this process, and return its row."""
    import tensorflow as tf
    from tensorflow.core.framework import model_pb2

    model_bytes(iter(small()))  # the first poll of a process makes the op's kernel
    with Poller(per_s) as poller:
        made = CASES[name](poller, iterators // len(MADE_BY_PYTHON) if name in MADE_BY_PYTHON else iterators)
    wall_ms = [poll.wall_s * 1e3 for poll in poller.polls] or [0.0]
    return {
        "tensorflow": tf.__version__,
        "iterators": made,
        "polls": len(poller.polls),
        "inside": sum(poll.is_inside for poll in poller.polls),
        "wall_ms": {"median": float(np.median(wall_ms)), "max": max(wall_ms)},
        "cpu_us": float(np.median([poll.cpu_s * 1e6 for poll in poller.polls] or [0.0])),
        "most_nodes": max((len(model_pb2.ModelProto.FromString(raw).nodes) for raw in poller.raw), default=0),
        "failures": dict(poller.failures),
    }


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
    wall_ms = f"{row['wall_ms']['median']:.3g} / {row['wall_ms']['max']:.3g}"
    counts = (str(row[key]) for key in ("iterators", "polls", "inside"))
    failures = str(sum(row["failures"].values()))
    return (name, *counts, wall_ms, f"{row['cpu_us']:.0f}", str(row["most_nodes"]), failures, row["ended"])


def verdict(rows: dict[str, dict[str, Any]]) -> str:
    """Return how many cases are good, and a line for each thing that went wrong."""
    wrong = [f"{name}: {row['ended']}, {row.get('failures', {})}" for name, row in rows.items() if not is_good(row)]
    good = len(rows) - len(wrong)
    return "\n".join((f"{good} of {len(rows)} cases without a failure, a crash or a hang", *wrong))


def main() -> int:
    """Run all cases, or in a child the given one."""
    options = arguments(
        __doc__,
        iterators=(int, 10_000, "made and ended inside one pass; the cases of Python share it"),
        rate=(float, 50.0, "polls a second"),
        deadline=(float, 120.0, "seconds until a case counts as hung"),
        only=(str, ";".join(CASES), "cases, separated by semicolons"),
        case=(str, "", "the one case to run in this process"),
    )
    if options.case:
        faulthandler.enable()
        print(json.dumps(run_case(options.case, options.iterators, options.rate)), flush=True)
        return 0
    rows = measured(options.only.split(";"), options.iterators, options.rate, options.deadline)
    show(f"Polls from a side thread, {options.rate:g} a second", COLUMNS, [cells(name, row) for name, row in rows.items()])
    print(verdict(rows))
    save(options.json, {"cases": rows})
    return 0 if all(map(is_good, rows.values())) else 1


if __name__ == "__main__":
    sys.exit(main())

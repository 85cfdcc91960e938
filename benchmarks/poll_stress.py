"""May a side thread ask a running iterator for its model, while iterators are made and end by the thousand?

A side thread reads the model as a worker's does. The main thread is inside TensorFlow, which has let go of the GIL. Each case runs
in a process of its own, which ends itself with the stacks of its threads when it hangs. A crash or a hang is a row of the table. A
case fails if a poll gives no model, too. Runs on any TensorFlow from 2.17 on.
"""

from __future__ import annotations

import contextlib
import faulthandler
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from benchmarks.in_process import FreshError, fresh
from benchmarks.paired import arguments, middle, save, show
from cs_input_analyzer.worker.meter import model_of

# An iterator of these cases is made by Python, which takes longer.
MADE_BY_PYTHON, BY_PYTHON_RATIO = ("passes", "abandoned", "raising", "generators"), 4
INNER = 4  # elements of an inner iterator
HANGS_S = 120.0


class Poller:
    """Poll the given iterator, one poll at a time, from a thread of its own."""

    def __init__(self, per_s: float) -> None:
        self.iterator: Any = None
        self.polls_ms: list[float] = []
        self.failures = 0
        self._per_s = per_s
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Poller:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(1 / self._per_s):
            iterator, began_s = self.iterator, time.perf_counter()
            if iterator is None:
                continue
            if model_of(iterator) is None:
                self.failures += 1
            else:
                self.polls_ms.append((time.perf_counter() - began_s) * 1e3)
            del iterator


@tf.function(reduce_retracing=True)
def drain(iterator: Any) -> Any:
    """Take an iterator's elements to its end."""
    count = tf.constant(0)
    for _ in iterator:
        count += 1
    return count


@tf.function(reduce_retracing=True)
def take_one(iterator: Any) -> Any:
    return iterator.get_next()


# --- cases: each makes and ends so many iterators -----------------------------------------------------------------------------


def small(elements: int = 8) -> Any:
    return tf.data.Dataset.range(elements).map(lambda number: number + 1).batch(2).prefetch(tf.data.AUTOTUNE)


def one_by_one(poller: Poller, dataset: Any, times: int, take: Callable[[Any], Any] = drain) -> None:
    """Make an iterator as often as asked, take elements of it, and end it.

    A poll may be in flight then: the side thread destroys it.
    """
    for _ in range(times):
        poller.iterator = iter(dataset)
        with contextlib.suppress(tf.errors.InvalidArgumentError):  # of `raising`
            take(poller.iterator)
        poller.iterator = None


def passes(poller: Poller, iterators: int) -> None:
    """Make an iterator for each pass, drain it, and end it."""
    one_by_one(poller, small(), iterators)


def abandoned(poller: Poller, iterators: int) -> None:
    """End each iterator after one element, with its buffers full and its threads at work."""
    endless = small(1000).repeat().map(lambda numbers: numbers * 2, num_parallel_calls=tf.data.AUTOTUNE).prefetch(4)
    one_by_one(poller, endless, iterators, take_one)


def raising(poller: Poller, iterators: int) -> None:
    """End each pass by an error in the middle."""

    def fails_at_five(number: Any) -> Any:
        with tf.control_dependencies([tf.debugging.assert_less(number, tf.constant(5, tf.int64))]):
            return tf.identity(number)

    one_by_one(poller, tf.data.Dataset.range(8).map(fails_at_five, num_parallel_calls=2).batch(2), iterators)


def generators(poller: Poller, iterators: int) -> None:
    """End iterators whose generator still runs, which needs the GIL to end."""
    numbers = tf.data.Dataset.from_generator(lambda: iter(range(1000)), output_signature=tf.TensorSpec((), tf.int64))
    one_by_one(poller, numbers.batch(2).prefetch(4), max(10, iterators // 5), take_one)


def inner(start: Any) -> Any:
    return tf.data.Dataset.range(start, start + INNER).map(lambda number: number * 2)


def flat_map(poller: Poller, iterators: int) -> None:
    """Make each inner iterator of four elements inside one pass."""
    one_by_one(poller, tf.data.Dataset.range(iterators).flat_map(inner).batch(8), 1)


def interleave(poller: Poller, iterators: int) -> None:
    """Make the inner iterators of a parallel interleave, whose threads end them."""
    outer = tf.data.Dataset.range(iterators).interleave(inner, cycle_length=16, num_parallel_calls=tf.data.AUTOTUNE)
    one_by_one(poller, outer.batch(8).prefetch(tf.data.AUTOTUNE), 1)


def restarted(poller: Poller, iterators: int) -> None:
    """Repeat short passes inside one iterator: each pass makes the ops behind `repeat` anew."""
    one_by_one(poller, small().repeat(iterators), 1)


CASES: dict[str, Callable[[Poller, int], None]] = {
    "passes": passes,
    "abandoned": abandoned,
    "raising": raising,
    "generators": generators,
    "repeat": restarted,
    "flat_map": flat_map,
    "interleave": interleave,
}


# --- a process for each ---------------------------------------------------------------------------------------------------------


def run_case(name: str, iterators: int, per_s: float) -> dict[str, Any]:
    """Run one case in this process, and return its row."""
    faulthandler.enable()
    faulthandler.dump_traceback_later(HANGS_S, exit=True)
    model_of(iter(small()))  # the first poll of a process makes the op's kernel
    count = iterators // BY_PYTHON_RATIO if name in MADE_BY_PYTHON else iterators
    with Poller(per_s) as poller:
        CASES[name](poller, count)
    times = poller.polls_ms or [0.0]
    numbers = {"iterators": count, "polls": len(poller.polls_ms), "median_ms": middle(times), "max_ms": max(times)}
    return {"tensorflow": tf.__version__, **numbers, "failures": poller.failures}


def measured(names: Sequence[str], iterators: int, per_s: float) -> dict[str, dict[str, Any]]:
    """Run each case in a process of its own. Return the rows by name.

    The row of a case that crashed or hung holds its last output.
    """
    found = {}
    for name in names:
        try:
            found[name] = fresh(run_case, name, iterators, per_s)
        except FreshError as error:
            found[name] = {"problem": str(error)}
    return found


def is_good(row: dict[str, Any]) -> bool:
    """Return whether a case ended by itself and was polled, and whether each poll gave a model."""
    return "problem" not in row and not row["failures"] and row["polls"] > 0


def cells(name: str, row: dict[str, Any]) -> tuple[str, ...]:
    """Return the row of the table; a case that crashed or hung has no numbers."""
    if "problem" in row:
        return (name, "-", "-", "-", row["problem"].partition("\n")[0])
    return (name, str(row["iterators"]), str(row["polls"]), f"{row['median_ms']:.3g} / {row['max_ms']:.3g}", str(row["failures"]))


def main() -> int:
    """Run all cases."""
    options = arguments(
        __doc__,
        iterators=(int, 10_000, "made and ended inside one pass; a quarter where Python makes them"),
        rate=(float, 50.0, "polls a second"),
    )
    rows = measured(tuple(CASES), options.iterators, options.rate)
    columns = ("case", "iterators", "polls", "poll ms (median / max)", "failures")
    show(f"Polls from a side thread, {options.rate:g} a second", columns, [cells(name, row) for name, row in rows.items()])
    save(options.json, {"cases": rows})
    return 0 if all(map(is_good, rows.values())) else 1


if __name__ == "__main__":
    sys.exit(main())

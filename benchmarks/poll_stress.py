"""Ask a running iterator for its model from a side thread, while iterators are made and end by the thousand.

A side thread calls `IteratorGetModelProto` on the iterator. The main thread is inside TensorFlow, which has let go of the GIL. Each
case runs in a process of its own with a deadline. A crash or a hang is a row of the table. A case fails if a poll raises, too.

Protos are kept as bytes and parsed after the case, because parsing holds the GIL. `waited` is a poll's time by the clock, less the
CPU time of its thread, for polls that began and ended inside one call of TensorFlow. A busy host adds waiting for a CPU.
The longest gap is between the starts of two polls: a generator that holds the GIL holds the next poll back.

The second table is the price of a poll by the size of the model. The last column is the rate at which polls cost 1 % of the time.
A poll after a pause of 20 ms finds cold caches: it costs several times a poll that follows another at once.

This file imports TensorFlow, numpy and the standard library only: run it with any TensorFlow from 2.17 on.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

KEPT_PROTOS = 5000
MADE_BY_PYTHON = ("passes", "passes, not joined", "abandoned", "raising")
SIZES = (5, 50, 500)
POLLS_BY_SIZE = 150
INNER = 4  # elements of an inner iterator
MOST_RATIO = 0.01


@dataclass(slots=True)
class Poll:
    began_s: float
    wall_s: float
    cpu_s: float
    is_inside: bool  # one call of TensorFlow by the main thread


@dataclass(slots=True)
class Poller:
    """Polls the iterator that it is told, one poll at a time, from a thread of its own."""

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


def passes(poller: Poller, iterators: int, joined: bool = True) -> int:
    """Make an iterator for each pass, drain it, and end it."""
    dataset, drain = small(), drained()
    for _ in range(iterators):
        iterator = iter(dataset)
        poller.watch(iterator)
        poller.inside(lambda held=iterator: int(drain(held)))
        poller.release(joined=joined)
        del iterator
    return iterators


def passes_not_joined(poller: Poller, iterators: int) -> int:
    """End each iterator whether a poll is in flight or not: then the side thread destroys it."""
    return passes(poller, iterators, joined=False)


def abandoned(poller: Poller, iterators: int) -> int:
    """End each iterator after two elements, with its buffers full and its threads at work."""
    import tensorflow as tf

    endless = small(1000).repeat().map(lambda numbers: numbers * 2, num_parallel_calls=tf.data.AUTOTUNE).prefetch(4)

    @tf.function(reduce_retracing=True)
    def two(iterator: Any) -> Any:
        return iterator.get_next(), iterator.get_next()

    for _ in range(iterators):
        iterator = iter(endless)
        poller.watch(iterator)
        poller.inside(lambda held=iterator: two(held))
        poller.release()
        del iterator
    return iterators


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

    dataset, drain = tf.data.Dataset.range(8).map(fails_at_five, num_parallel_calls=2).batch(2), drained()
    for _ in range(iterators):
        iterator = iter(dataset)
        poller.watch(iterator)
        try:
            poller.inside(lambda held=iterator: int(drain(held)))
        except tf.errors.InvalidArgumentError:
            pass
        poller.release()
        del iterator
    return iterators


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
    step = tf.function(lambda held: held.get_next(), reduce_retracing=True)
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
    step = tf.function(lambda held: held.get_next(), reduce_retracing=True)
    made = max(10, iterators // 20)
    for _ in range(made):
        iterator = iter(dataset)
        poller.watch(iterator)
        poller.inside(lambda held=iterator: step(held))
        poller.release(joined=False)
        del iterator
    return made


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

    model_bytes(iter(small()))  # the first poll of a process makes the op's kernel
    began_s = time.perf_counter()
    with Poller(per_s) as poller:
        made = CASES[name](poller, iterators // len(MADE_BY_PYTHON) if name in MADE_BY_PYTHON else iterators)
    seconds = time.perf_counter() - began_s
    parse_us, nodes = parsed(poller.raw)
    inside = [poll for poll in poller.polls if poll.is_inside]
    return {
        "tensorflow": tf.__version__,
        "iterators": made,
        "seconds": seconds,
        "polls": len(poller.polls),
        "inside": len(inside),
        "wall_ms": spread([poll.wall_s * 1e3 for poll in poller.polls]),
        "inside_waited_ms": spread([max(0.0, poll.wall_s - poll.cpu_s) * 1e3 for poll in inside]),
        "cpu_us": spread([poll.cpu_s * 1e6 for poll in poller.polls]),
        "gap_ms": spread([1e3 * (later.began_s - poll.began_s) for poll, later in pairwise(poller.polls)]),
        "parse_us": spread(parse_us),
        "most_nodes": max(nodes, default=0),
        "failures": dict(poller.failures),
    }


def parsed(raw: Sequence[bytes]) -> tuple[list[float], list[int]]:
    """Return the µs of CPU that parsing took and the number of nodes, for each proto."""
    from tensorflow.core.framework import model_pb2

    times_us, nodes = [], []
    for one in raw:
        began_s = time.thread_time()
        model = model_pb2.ModelProto.FromString(one)
        times_us.append((time.thread_time() - began_s) * 1e6)
        nodes.append(len(model.nodes))
    return times_us, nodes


def spread(values: Sequence[float]) -> dict[str, float] | None:
    if not values:
        return None
    return {"median": float(np.median(values)), "p99": float(np.percentile(values, 99)), "max": float(max(values))}


def run_price(nodes: int, polls: int, per_s: float) -> dict[str, Any]:
    """Measure what a poll of a model of about `nodes` nodes costs, while the main thread takes elements."""
    import tensorflow as tf

    endless = tf.data.Dataset.range(1 << 40)
    if nodes <= SIZES[0]:
        dataset = endless.map(lambda number: number + 1).batch(4)
    else:
        cycle = (nodes - 5) // 2  # an inner iterator has two nodes; those of the outer ones are five
        dataset = endless.interleave(lambda _: endless.map(lambda number: number + 1), cycle_length=cycle).batch(4)
    iterator = iter(dataset)

    @tf.function(reduce_retracing=True)
    def advance(held: Any) -> None:
        for _ in tf.range(2000):
            held.get_next()

    with Poller(per_s) as poller:
        advance(iterator)
        poller.watch(iterator)
        while len(poller.polls) < polls and not poller.failures:
            poller.inside(lambda: advance(iterator))
        poller.release()
    parse_us, counted = parsed(poller.raw)
    return {
        "tensorflow": tf.__version__,
        "nodes": max(counted, default=0),
        "bytes": max((len(one) for one in poller.raw), default=0),
        "polls": len(poller.polls),
        "cpu_us": spread([poll.cpu_s * 1e6 for poll in poller.polls]),
        "wall_ms": spread([poll.wall_s * 1e3 for poll in poller.polls]),
        "parse_us": spread(parse_us),
        "failures": dict(poller.failures),
    }


def exit_while_polling() -> None:
    """End this process by returning from `main` while a daemon thread polls without a pause."""
    iterator = iter(small(1000).repeat())
    poller = Poller(per_s=1e6)
    poller.__enter__()
    poller.watch(iterator)
    time.sleep(0.2)
    print(json.dumps({"polls": len(poller.polls), "failures": dict(poller.failures)}), flush=True)


# --- in the parent ----------------------------------------------------------------------------------------------------------------


def this_module(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "benchmarks.poll_stress", *arguments)


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


def exits(times: int, deadline_s: float) -> dict[str, Any]:
    rows = [in_child(this_module("--exit"), deadline_s) for _ in range(times)]
    return {
        "processes": times,
        "polls": sum(row.get("polls", 0) for row in rows),
        "ended": dict(Counter(row["ended"] for row in rows)),
        "failures": dict(sum((Counter(row.get("failures", {})) for row in rows), Counter())),
        "stderr": next((row["stderr"] for row in rows if "stderr" in row), ""),
    }


def is_good(row: dict[str, Any]) -> bool:
    """Return whether a case ended by itself, was polled, and no poll raised."""
    return row["ended"] == "ok" and not row["failures"] and row["polls"] > 0


def shown(values: dict[str, float] | None, *keys: str) -> str:
    return " / ".join(f"{values[key]:.3g}" for key in keys) if values else "–"


def case_cells(name: str, row: dict[str, Any]) -> tuple[str, ...]:
    failures = sum(row.get("failures", {}).values())
    return (
        name,
        str(row.get("iterators", "–")),
        str(row.get("polls", "–")),
        str(row.get("inside", "–")),
        shown(row.get("wall_ms"), "median", "p99", "max"),
        shown(row.get("inside_waited_ms"), "median", "p99", "max"),
        shown(row.get("gap_ms"), "max"),
        shown(row.get("cpu_us"), "median"),
        shown(row.get("parse_us"), "median"),
        str(row.get("most_nodes", "–")),
        str(failures),
        row["ended"],
    )


def price_cells(row: dict[str, Any]) -> tuple[str, ...]:
    cpu_us = row.get("cpu_us")
    return (
        str(row.get("nodes", "–")),
        str(row.get("bytes", "–")),
        str(row.get("polls", "–")),
        shown(cpu_us, "median", "p99"),
        shown(row.get("parse_us"), "median"),
        f"{MOST_RATIO / (cpu_us['median'] * 1e-6):.0f}" if cpu_us else "–",
        row["ended"],
    )


CASE_COLUMNS = (
    "case",
    "iterators",
    "polls",
    "inside a call",
    "poll ms (median / p99 / max)",
    "waited inside ms (same)",
    "longest gap ms",
    "CPU µs",
    "parse µs",
    "nodes",
    "failures",
    "ended",
)
PRICE_COLUMNS = ("nodes", "bytes", "polls", "CPU µs (median / p99)", "parse µs", "polls/s for 1 %", "ended")


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[index]) for row in (columns, *rows)) for index in range(len(columns))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (columns, *rows)]
    return "\n".join((title, *lines))


@dataclass(frozen=True, slots=True)
class Options:
    iterators: int
    rate: float
    deadline: float
    exits: int
    only: tuple[str, ...]


def measured(options: Options) -> dict[str, Any]:
    """Run all cases, sizes and exits that are asked for, each in a process of its own."""
    names = [name for name in CASES if not options.only or name in options.only]
    common = ("--iterators", str(options.iterators), "--rate", str(options.rate))
    cases = {name: in_child(this_module(*common, "--case", name), options.deadline) for name in names}
    prices = [] if options.only else [in_child(this_module(*common, "--price", str(nodes)), options.deadline) for nodes in SIZES]
    ends = exits(options.exits, options.deadline) if options.exits else None
    return {"options": asdict(options), "cases": cases, "prices": prices, "exits": ends}


def report(result: dict[str, Any]) -> str:
    """Return the tables of a result, and a line for each thing that went wrong."""
    rows = list(result["cases"].values())
    version = next((row["tensorflow"] for row in rows if "tensorflow" in row), "?")
    cells = [case_cells(name, row) for name, row in result["cases"].items()]
    parts = [table(f"Polls from a side thread, TensorFlow {version}, {result['options']['rate']:g} a second", CASE_COLUMNS, cells)]
    if result["prices"]:
        parts.append(table("What a poll costs", PRICE_COLUMNS, [price_cells(row) for row in result["prices"]]))
    if (ends := result["exits"]) is not None:
        parts.append(f"{ends['processes']} processes that ended while a daemon thread polled: {ends['ended']}")
    wrong = [f"{name}: {row['ended']}, {row.get('failures', {})}" for name, row in result["cases"].items() if not is_good(row)]
    good = len(rows) - len(wrong)
    return "\n\n".join((*parts, "\n".join((f"{good} of {len(rows)} cases without a failure, a crash or a hang", *wrong))))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="write the numbers there too")
    parser.add_argument(
        "--iterators", type=int, default=10_000, help="made and ended inside one pass; those of Python share it (default 10000)"
    )
    parser.add_argument("--rate", type=float, default=50.0, help="polls a second (default 50)")
    parser.add_argument("--deadline", type=float, default=120.0, help="seconds until a case counts as hung (default 120)")
    parser.add_argument("--exits", type=int, default=5, help="processes that end while they are polled (default 5)")
    parser.add_argument("--only", default="", help="cases, separated by semicolons, and no prices")
    parser.add_argument("--case", choices=tuple(CASES), help=argparse.SUPPRESS)
    parser.add_argument("--price", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--exit", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    only = tuple(filter(None, given.only.split(";")))
    if unknown := set(only) - set(CASES):
        parser.error(f"no such case: {', '.join(sorted(unknown))}; there are: {'; '.join(CASES)}")
    if given.case or given.price or given.exit:
        faulthandler.enable()
        if given.exit:
            exit_while_polling()
        else:
            row = (
                run_case(given.case, given.iterators, given.rate)
                if given.case
                else run_price(given.price, POLLS_BY_SIZE, given.rate)
            )
            print(json.dumps(row), flush=True)
        return 0
    result = measured(Options(given.iterators, given.rate, given.deadline, given.exits, only))
    print(report(result))
    if given.json:
        host = {"cpus": len(os.sched_getaffinity(0)), "machine": platform.machine(), "python": platform.python_version()}
        Path(given.json).write_text(json.dumps({"host": host, **result}, indent=1) + "\n")
    return 0 if all(is_good(row) for row in result["cases"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())

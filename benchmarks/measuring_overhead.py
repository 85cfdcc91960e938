"""How much measuring slows a pipeline: what the worker does beside taking batches, part by part, and against a bare loop.

The parts are counted where they are spent, on the thread's own clocks: pauses between two calls of the sampling loop (counters,
cost polls, journal), the stamp of each batch (the sampling loop against the bare loop, in turns, on a dataset that only hands out
ready elements), and the reference loop beside it. Their sum is what measuring takes of the CPU time and of the clock, to a tenth of
a percent: pauses in which the buffers fill cost the pipeline less.

The pairs are the check: both loops read the same running iterator, alternately, in an order that is turned every time. Before each
half the bare loop drains what the buffers gathered in the pause. The slowdown is the ratio of seconds per batch, of the clock and
of the CPU (which a neighbour on the host disturbs less), with its one-sided upper 90 % bound.
"""

from __future__ import annotations

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import math
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

import tensorflow as tf
import yaml

from benchmarks.paired import arguments, ratio_bounds, save, show
from cs_input_analyzer.machines.reference import WATCH_EVERY_S, SpeedWatch
from cs_input_analyzer.pipeline import graph
from cs_input_analyzer.records import SamplesPerElement
from cs_input_analyzer.worker import load, sampler
from cs_input_analyzer.worker.journal import JournalWriter, read_journal
from cs_input_analyzer.worker.sampler import Sampling, sample
from cs_input_analyzer.worker.sampling import CAPACITY, Loop, sampling_loop
from sample_pipelines import find, write_sample


def bare_loop(iterator: Any) -> Any:
    @tf.function
    def loop(batches: Any) -> Any:
        def body(index: Any) -> Any:
            element = iterator.get_next()
            with tf.control_dependencies(tf.nest.flatten(element)):
                return index + 1

        return tf.while_loop(lambda index: index < batches, body, [tf.constant(0)], parallel_iterations=1)

    return loop


def measured(dataset: Any, iterator: Any, ops: Any, seconds: float) -> tuple[float, float]:
    """Wall and CPU seconds per batch while the worker's own sampling runs; its first quarter drains the buffers."""
    with tempfile.TemporaryDirectory() as folder:
        counted = SamplesPerElement(value=1, source="made so")
        sampling = Sampling(
            dataset=dataset, iterator=iterator, ops=ops, samples=counted, min_window_s=seconds, max_window_s=seconds
        )
        sample(JournalWriter(Path(folder)), sampling)
        journal = read_journal(Path(folder))
    stamps, ends = journal.stamps_s, journal.chunk_counters()
    (first, begin), (last, end) = ends[len(ends) // 4], ends[-1]
    steady = stamps[len(stamps) // 4 :]
    return float(steady[-1] - steady[0]) / (len(steady) - 1), (end.cpu_s - begin.cpu_s) / (last - first)


def bare(loop: Any, batches: int) -> tuple[float, float]:
    """The same of the bare loop."""
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    loop(tf.constant(batches))
    return (time.perf_counter() - began_s) / batches, (time.process_time() - began_cpu_s) / batches


@dataclass(slots=True)
class Parts:
    """What one run of sampling spent, in seconds of the clock and of the CPU: in all from the first batch to the last, in pauses
    between two calls of the loop, and, CPU alone, in the thread of the reference loop."""

    began: tuple[float, float] | None = None
    ended: tuple[float, float] = (0.0, 0.0)
    left: tuple[float, float] | None = None
    pauses_s: float = 0.0
    pauses_cpu_s: float = 0.0
    reference_cpu_s: float = 0.0
    calls: int = 0
    batches: int = 0

    def timed(self, loop: Loop) -> Loop:
        """The loop of the worker; what passes between two calls of it is a pause."""

        def run(iterator: Any, batches: int = CAPACITY, until_s: float = math.inf) -> Any:
            if batches == 0:  # only traces
                return loop(iterator, batches, until_s)
            if self.left is not None:
                self.pauses_s += time.perf_counter() - self.left[0]
                self.pauses_cpu_s += time.thread_time() - self.left[1]
            self.began = self.began or (time.perf_counter(), time.process_time())
            chunk = loop(iterator, batches, until_s)
            self.calls += 1
            self.batches += len(chunk.stamps_s)
            self.left = time.perf_counter(), time.thread_time()
            self.ended = time.perf_counter(), time.process_time()
            return chunk

        return run


def parts_of(dataset: Any, iterator: Any, ops: Any, seconds: float) -> dict[str, dict[str, float]]:
    """Each part of measuring, in percent of the clock and of the CPU time of the process, in one run of the worker's sampling."""
    parts = Parts()
    watch = SpeedWatch._watch

    def watched(self: SpeedWatch) -> None:
        watch(self)
        parts.reference_cpu_s = time.thread_time()

    with (
        mock.patch.object(sampler, "sampling_loop", lambda *args, **named: parts.timed(sampling_loop(*args, **named))),
        mock.patch.object(SpeedWatch, "_watch", watched),
    ):
        measured(dataset, iterator, ops, seconds)
        time.sleep(2 * WATCH_EVERY_S)  # the thread ends
    assert parts.began is not None
    wall_s, cpu_s = parts.ended[0] - parts.began[0], parts.ended[1] - parts.began[1]
    stamp_s, call_s, call_cpu_s = stamp_and_call_s()
    costs = {
        "pauses": (parts.pauses_s + parts.calls * call_s, parts.pauses_cpu_s + parts.calls * call_cpu_s),
        "stamps": (parts.batches * stamp_s, parts.batches * stamp_s),
        "reference loop": (0.0, parts.reference_cpu_s),  # beside the pipeline
    }
    costs["sum"] = sum(wall for wall, _ in costs.values()), sum(cpu for _, cpu in costs.values())
    return {name: {"wall": 100 * wall / wall_s, "cpu": 100 * cpu / cpu_s} for name, (wall, cpu) in costs.items()}


def stamp_and_call_s(rounds: int = 15, batches: int = 5000) -> tuple[float, float, float]:
    """Seconds that a stamp adds to a batch, by the median of interleaved rounds on a dataset that only hands out ready elements;
    and seconds of a call of the loop that takes no batch, by the clock and of the CPU."""
    dataset = tf.data.Dataset.from_tensors((tf.constant(0), tf.constant(0))).repeat()
    iterator = iter(dataset)
    without, stamped = bare_loop(iterator), sampling_loop()
    added, calls, calls_cpu = [], [], []
    for turn in range(rounds + 1):
        began_s = time.perf_counter()
        without(tf.constant(batches))
        between_s = time.perf_counter()
        stamped(iterator, batches)
        ended_s, ended_cpu_s = time.perf_counter(), time.thread_time()
        stamped(iterator, 0)
        empty_s = time.perf_counter() - ended_s
        if turn:  # the first one traces
            added.append(((ended_s - between_s) - (between_s - began_s) - empty_s) / batches)
            calls.append(empty_s)
            calls_cpu.append(time.thread_time() - ended_cpu_s)
    return median(added), median(calls), median(calls_cpu)


def main() -> None:
    options = arguments(
        __doc__,
        pairs=(int, 40, "pairs"),
        seconds=(float, 1.5, "seconds of each half"),
        samples=(str, "fc_mnist,resnet50", "sample pipelines"),
    )
    rows, result, part_rows = [], dict[str, object](), []
    for name in options.samples.split(","):
        with tempfile.TemporaryDirectory() as folder:
            params = yaml.safe_load(write_sample(name, folder).read_text())
            call = load.Call(params=params, mode="train", num_workers=1, worker_index=0)
            with graph.recorded_sources() as log:
                dataset = load.build_dataset(load.find_object(load.parse_target(find(name).target)), call)
            ops = graph.read_graph(dataset, log, target=name).ops
            iterator = iter(dataset)
            loop = bare_loop(iterator)
            loop(tf.constant(20))
            per_batch_s, _ = measured(dataset, iterator, ops, 2.0)  # warm-up, and how many batches fill a half
            result[f"{name}, parts"] = parts = parts_of(dataset, iterator, ops, 4 * options.seconds)
            part_rows += [(f"{name}, {part}", f"{share['wall']:.2f}", f"{share['cpu']:.2f}") for part, share in parts.items()]
            batches = max(2, int(options.seconds / per_batch_s))
            pairs: list[list[tuple[float, float]]] = [[], []]
            for pair in range(options.pairs):
                for half in (0, 1) if pair % 2 else (1, 0):
                    loop(tf.constant(max(2, batches // 4)))
                    pairs[half].append(measured(dataset, iterator, ops, options.seconds) if half else bare(loop, batches))
        for number, unit in enumerate(("wall time", "CPU time")):
            bounds = ratio_bounds([seen[number] for seen in pairs[1]], [seen[number] for seen in pairs[0]])
            percent = {key: (bounds[key] - 1) * 100 for key in ("ratio", "low", "high", "upper_bound")}
            verdict = "≤ 2 %" if percent["upper_bound"] <= 2 else "> 2 %" if percent["low"] > 2 else "inconclusive"
            interval = f"{percent['low']:+.2f} to {percent['high']:+.2f}"
            rows.append((f"{name}, {unit}", f"{percent['ratio']:+.2f}", interval, f"{percent['upper_bound']:+.2f}", verdict))
            result[f"{name}, {unit}"] = bounds
    show("Parts of measuring, percent of the pipeline's time", ("part", "clock", "CPU time"), part_rows)
    show("Slowdown by measuring, percent", ("pipeline", "mean", "90 % interval", "upper 90 % bound", "target"), rows)
    save(options.json, result)


if __name__ == "__main__":
    main()

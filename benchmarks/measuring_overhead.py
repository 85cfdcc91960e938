"""How much measuring slows a pipeline: the worker's whole sampling (stamps, counters, cost polls, journal) against a bare loop.

Both read the same running iterator of a sample pipeline, alternately, in pairs whose order is turned every time. Before each half
the bare loop drains what the buffers gathered in the pause. The slowdown is the ratio of seconds per batch, of the clock and of the
CPU (which a neighbour on the host disturbs less); what counts is its one-sided upper 90 % bound.
"""

from __future__ import annotations

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import tempfile
import time
from pathlib import Path
from typing import Any

import tensorflow as tf
import yaml

from benchmarks.paired import arguments, ratio_bounds, save, show
from cs_input_analyzer.pipeline import graph
from cs_input_analyzer.records import SamplesPerElement
from cs_input_analyzer.worker import load
from cs_input_analyzer.worker.journal import JournalWriter, read_journal
from cs_input_analyzer.worker.sampler import Sampling, sample
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


def main() -> None:
    options = arguments(
        __doc__,
        pairs=(int, 40, "pairs"),
        seconds=(float, 1.5, "seconds of each half"),
        samples=(str, "fc_mnist,resnet50", "sample pipelines"),
    )
    rows, result = [], {}
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
            batches = max(2, int(options.seconds / per_batch_s))
            pairs: list[list[tuple[float, float]]] = [[], []]
            for pair in range(options.pairs):
                for half in (0, 1) if pair % 2 else (1, 0):
                    loop(tf.constant(max(2, batches // 4)))
                    pairs[half].append(measured(dataset, iterator, ops, options.seconds) if half else bare(loop, batches))
        for number, unit in enumerate(("wall time", "CPU time")):
            bounds = ratio_bounds([seen[number] for seen in pairs[1]], [seen[number] for seen in pairs[0]])
            percent = {key: (bounds[key] - 1) * 100 for key in ("ratio", "low", "high", "upper_bound")}
            verdict = "≤ 1 %" if percent["upper_bound"] <= 1 else "> 1 %" if percent["low"] > 1 else "inconclusive"
            interval = f"{percent['low']:+.2f} to {percent['high']:+.2f}"
            rows.append((f"{name}, {unit}", f"{percent['ratio']:+.2f}", interval, f"{percent['upper_bound']:+.2f}", verdict))
            result[f"{name}, {unit}"] = bounds
    show("Slowdown by measuring, percent", ("pipeline", "mean", "90 % interval", "upper 90 % bound", "target"), rows)
    save(options.json, result)


if __name__ == "__main__":
    main()

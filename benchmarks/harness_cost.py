"""What one batch costs the measurer: our in-graph loop, Python's next(), and a timed for loop as tfds.benchmark has it.

All three read the same ready element again and again, so what is left is the harness (and tf.data's own hand-over). Interleaved
rounds.
"""

from __future__ import annotations

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import time
from collections.abc import Callable

import tensorflow as tf

from benchmarks.paired import arguments, middle, ratio_bounds, save, show
from cs_input_analyzer.worker.sampling import SamplingLoop

ELEMENTS = {
    "2 tensors": (tf.zeros([256, 784], tf.float16), tf.zeros([256], tf.int32)),
    "dict of 8": {f"feature_{number}": tf.zeros([256, 128], tf.int32) for number in range(8)},
}


def in_graph(dataset: tf.data.Dataset) -> Callable[[int], float]:
    iterator, loop = iter(dataset), SamplingLoop()
    loop(iterator, 10)

    def run(batches: int) -> float:
        began_s = time.perf_counter()
        loop(iterator, batches)
        return (time.perf_counter() - began_s) / batches

    return run


def python_next(dataset: tf.data.Dataset) -> Callable[[int], float]:
    iterator = iter(dataset)

    def run(batches: int) -> float:
        began_s = time.perf_counter()
        for _ in range(batches):
            next(iterator)
        return (time.perf_counter() - began_s) / batches

    return run


def timed_for_loop(dataset: tf.data.Dataset) -> Callable[[int], float]:
    def run(batches: int) -> float:
        stamps = []
        began_s = time.perf_counter()
        for _ in dataset.take(batches):
            stamps.append(time.perf_counter())  # noqa: PERF401 - as the tool it imitates
        return (stamps[-1] - began_s) / batches

    return run


def main() -> None:
    options = arguments(__doc__, rounds=(int, 12, "interleaved rounds"), batches=(int, 3000, "batches a round and harness"))
    rows, result = [], {}
    for name, element in ELEMENTS.items():
        dataset = tf.data.Dataset.from_tensors(element).repeat()
        harnesses = {"in-graph loop": in_graph(dataset), "next()": python_next(dataset), "timed for loop": timed_for_loop(dataset)}
        times: dict[str, list[float]] = {harness: [] for harness in harnesses}
        for _ in range(options.rounds):
            for harness, run in harnesses.items():
                times[harness].append(run(options.batches))
        for harness, seen in times.items():
            bounds = ratio_bounds(seen, times["in-graph loop"])
            us = middle(seen) * 1e6
            times_more = (
                "1" if harness == "in-graph loop" else f"{bounds['ratio']:.1f} ({bounds['low']:.1f} to {bounds['high']:.1f})"
            )
            rows.append((name, harness, f"{us:.1f}", times_more))
            result[f"{name}, {harness}"] = {"us_per_batch": us, "times_the_loop": bounds}
    show("Harness cost per batch", ("element", "harness", "µs (median)", "times the loop, 90 %"), rows)
    save(options.json, result)


if __name__ == "__main__":
    main()

"""The slowdown of a pipeline by measuring with everything on, against a bare loop.

Both loops read the same running iterator in turns. Both halves count the same number of batches: whole passes if a pass is short.
A window of a fixed time would end in a long gap more often than a window of fixed batches. The slowdown is the ratio of seconds per
batch, of the clock and of the CPU (which a neighbour on the host disturbs less), with its one-sided upper 90 % bound.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import yaml

from benchmarks.in_process import bare_loop, built, in_turns, sampled
from benchmarks.paired import arguments, ratio_bounds, save, show
from sample_pipelines import find, write_sample

TARGETS = {"wall time": 3.0, "CPU time": 1.0}
# How much longer than its batches should take a measured half is, of which the last ones count.
LONGER_RATIO = 1.4


def generator() -> Any:
    """Batches of a Python generator, some 50 µs a sample."""

    def rows() -> Any:
        for number in range(10**9):
            yield np.sort(np.random.default_rng(number % 97).random(1000)).astype(np.float32)

    return tf.data.Dataset.from_generator(rows, output_signature=tf.TensorSpec((1000,), tf.float32)).batch(32).prefetch(2)


def py_function() -> Any:
    """Return a map that calls Python for each sample."""

    def work(value: Any) -> Any:
        return np.sort(np.random.default_rng(int(value) % 97).random(1000)).astype(np.float32)

    dataset = tf.data.Dataset.range(10**9).map(lambda x: tf.py_function(work, [x], tf.float32), num_parallel_calls=tf.data.AUTOTUNE)
    return dataset.map(lambda x: tf.ensure_shape(x, (1000,))).batch(32).prefetch(2)


def slices() -> Any:
    """Return a pipeline with iterators that live for milliseconds."""

    def frames(start: Any) -> Any:
        inner = tf.data.Dataset.range(start, start + 20)
        return inner.map(lambda i: tf.reduce_sum(tf.sin(tf.range(20000, dtype=tf.float32) + tf.cast(i, tf.float32)))).batch(20)

    return tf.data.Dataset.range(200).flat_map(frames).shuffle(40).batch(4, drop_remainder=True).repeat()


# Batches of a pass, where its buffers fill anew.
PASSES = {"slices": 50}
MADE_HERE: dict[str, Callable[[], Any]] = {"generator": generator, "py_function": py_function, "slices": slices}


def pipeline_of(name: str, folder: str) -> tuple[Any, Any]:
    """Return a dataset and its ops."""
    if name in MADE_HERE:
        dataset, read = built(MADE_HERE[name], {})
    else:
        dataset, read = built(find(name).target, yaml.safe_load(write_sample(name, folder).read_text()))
    return dataset, read.ops


def measured(dataset: Any, iterator: Any, ops: Any, seconds: float, batches: int | None = None) -> tuple[float, float]:
    """Return wall and CPU seconds per batch while the worker's own sampling runs: of its last `batches`, or three quarters."""
    with tempfile.TemporaryDirectory() as folder:
        journal, _ = sampled(Path(folder), dataset, iterator, ops, 1, seconds)
    stamps = journal.stamps_s[-1 - min(batches or len(journal.stamps_s) * 3 // 4, len(journal.stamps_s) - 1) :]
    times, cpu_s = zip(*((at_s, counters.cpu_s) for at_s, counters in journal.readings()), strict=True)
    spent_s = float(np.diff(np.interp([stamps[0], stamps[-1]], times, cpu_s))[0])
    return float(stamps[-1] - stamps[0]) / (len(stamps) - 1), spent_s / (len(stamps) - 1)


def main() -> None:
    options = arguments(
        __doc__,
        pairs=(int, 40, "pairs"),
        seconds=(float, 1.5, "seconds of each half"),
        samples=(str, "fc_mnist,resnet50,generator,py_function,slices", "sample pipelines, or those made here"),
    )
    rows, result = [], dict[str, object]()
    for name in options.samples.split(","):
        with tempfile.TemporaryDirectory() as folder:
            dataset, ops = pipeline_of(name, folder)
            iterator = iter(dataset)
            loop = bare_loop(iterator)
            loop(20)
            per_batch_s, _ = measured(dataset, iterator, ops, 2.0)  # warm-up, and how many batches fill a half
            of_pass = PASSES.get(name, 1)
            batches = max(2, of_pass * -(-int(options.seconds / per_batch_s) // of_pass))
            window_s = LONGER_RATIO * batches * per_batch_s
            ours, bare = in_turns(partial(measured, dataset, iterator, ops, window_s, batches), loop, batches, options.pairs)
        for number, (unit, target) in enumerate(TARGETS.items()):
            bounds = ratio_bounds([seen[number] for seen in ours], [seen[number] for seen in bare])
            percent = {key: (bounds[key] - 1) * 100 for key in ("ratio", "low", "high", "upper_bound")}
            is_met, is_missed = percent["upper_bound"] <= target, percent["low"] > target
            verdict = f"≤ {target:g} %" if is_met else f"> {target:g} %" if is_missed else f"inconclusive about {target:g} %"
            interval = f"{percent['low']:+.2f} to {percent['high']:+.2f}"
            rows.append((f"{name}, {unit}", f"{percent['ratio']:+.2f}", interval, f"{percent['upper_bound']:+.2f}", verdict))
            result[f"{name}, {unit}"] = bounds
    show("Slowdown by measuring, percent", ("pipeline", "mean", "90 % interval", "upper 90 % bound", "target"), rows)
    save(options.json, result)


if __name__ == "__main__":
    main()

"""The time of findings and fixes: the rules alone on graphs of growing length, and the fixes of a pipeline of ten ops."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import tensorflow as tf

import cs_input_analyzer as csia
from benchmarks.paired import middle, show
from benchmarks.tuning.pipelines import BATCH, Mistake, params_of
from cs_input_analyzer import rules
from cs_input_analyzer.records import Case, Cluster
from cs_input_analyzer.tfdata import graph

CPUS = 2
FINDINGS_S = 2.0
FIXES_S = 40.0
REPEATS = 5
LENGTHS = (10, 100, 500)


def ten_ops(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Ten ops, of which several can be done better."""
    dataset = tf.data.Dataset.list_files(params["files"], shuffle=False)
    dataset = dataset.flat_map(tf.data.TFRecordDataset)
    dataset = dataset.map(lambda record: tf.io.decode_jpeg(record, channels=3))
    dataset = dataset.filter(lambda picture: tf.shape(picture)[0] > 8)
    dataset = dataset.map(lambda picture: tf.cast(tf.reduce_mean(tf.cast(picture, tf.float32), axis=0), tf.float16))
    dataset = dataset.shuffle(64, seed=1)
    dataset = dataset.repeat()
    dataset = dataset.map(lambda row: row + tf.constant(1, tf.float16))
    return dataset.batch(BATCH, drop_remainder=True)


def run(budget_s: float) -> dict[str, Any]:
    static = {length: _static_s(length) for length in LENGTHS}
    show(
        f"The rules alone, graph reading included (target: {FINDINGS_S:g} s)",
        ("ops", "seconds"),
        [(str(length), f"{seconds:.3f}") for length, seconds in static.items()],
    )
    with params_of(Mistake(name="ten ops", function="ten_ops")) as params:
        analysis = csia.analyze("benchmarks.tuning.times:ten_ops", params, max_seconds=budget_s + FIXES_S, cpus=CPUS)
    tried = [finding for finding in analysis.findings if finding.edits]
    show(
        f"Proving and measuring the fixes of ten ops (target: {FIXES_S:g} s)",
        ("fixes tried", "kept", "seconds", "not measured"),
        [
            (
                str(len(tried)),
                ", ".join(analysis.fixes.codes) if analysis.fixes else "none",
                f"{analysis.budget.fixes_s:.1f}",
                ", ".join(analysis.budget.not_measured) or "nothing",
            )
        ],
    )
    return {"static_s": static, "fixes_s": analysis.budget.fixes_s, "tried": len(tried)}


def _static_s(length: int) -> float:
    """Seconds from a dataset that is there to the findings about its graph; the median of some repeats."""
    with graph.recorded_sources() as log:
        dataset = tf.data.Dataset.range(1 << 20)
        for number in range(length - 3):
            dataset = dataset.map(lambda value, step=number: value + step)
        dataset = dataset.repeat().batch(BATCH)
    case = Case(
        pipeline=graph.read_graph(dataset, log, target="ops"),
        mode="train",
        is_sharded=False,
        measurements=(),
        profile=None,
        plan=None,
        cluster=Cluster(nodes=8, cpus_per_node=16, memory_bytes_per_node=2**36),
    )
    seconds = []
    for _ in range(REPEATS):
        began_s = time.perf_counter()
        rules.sift(replace(case, pipeline=graph.read_graph(dataset, log, target="ops")))
        seconds.append(time.perf_counter() - began_s)
    return middle(seconds)

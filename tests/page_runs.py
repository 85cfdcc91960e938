"""Runs for the pages and pictures: one as users have it, with all that can be drawn, and two that are very large."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from builders import (
    MIB,
    SOURCE,
    make_alternative,
    make_analysis,
    make_capacity_model,
    make_cluster,
    make_consumption,
    make_estimate,
    make_finding,
    make_graph,
    make_host,
    make_layout,
    make_measurement,
    make_op,
    make_op_cost,
    make_plan,
    make_profile,
    make_runtime_cost,
    make_worker,
)

from cs_input_analyzer.records import Analysis, Comparison, Fixes, Measurement, Options, Tool, WorkerResult
from cs_input_analyzer.workflows.compare import compare

CHARTS = ("pipeline", "supply-demand", "batch-gaps", "rate-over-time")


def gaps(count: int = 300, mean_s: float = 0.25, phase: float = 0.0) -> tuple[float, ...]:
    """Times between batches with a slow one now and then: the same at each call."""
    return tuple(mean_s * (1 + 0.08 * math.sin(1.7 * place + phase) + (0.9 if place % 37 == 5 else 0.0)) for place in range(count))


def busy_worker(rate: float = 1000.0, *, index: int = 0, **overrides: Any) -> WorkerResult:
    blocks = tuple(rate * (1 + 0.02 * math.sin(place + index)) for place in range(24))
    return make_worker(
        rate, index=index, batch_gaps_s=gaps(mean_s=256 / rate, phase=index), block_samples_per_s=blocks, **overrides
    )


def busy_measurement(
    layout: str = "1x4x2", rates: tuple[float, ...] = (940.0, 930.0, 900.0, 950.0), **overrides: Any
) -> Measurement:
    workers = tuple(busy_worker(rate, index=index) for index, rate in enumerate(rates))
    return make_measurement(layout, rates, workers=workers, **overrides)


def usual_run(**overrides: Any) -> Analysis:
    """A run that holds all there is to show, fixes with their code and their gains too."""
    before = "    ds = ds.map(decode)\n    ds = ds.batch(256)"
    after = "    ds = ds.map(decode, num_parallel_calls=tf.data.AUTOTUNE)\n    ds = ds.batch(256)"
    findings = (
        make_finding("CSI502", severity="info", op=None, source=None, fix=None, measured_gain=None, proven=False),
        make_finding("CSI101", before=before, after=after),
        make_finding(
            "CSI204",
            op="prefetch",
            source=f"{SOURCE}:27",
            message="nothing is prefetched, so the accelerator waits while a batch is made",
            measured_gain=make_estimate(2.4, spread=0.06),
        ),
    )
    given: dict[str, Any] = {
        "findings": findings,
        "capacity": make_capacity_model(private_bytes=1_310 * MIB),
        "measurements": (
            make_measurement("1x1x1", (520.0,)),
            make_measurement("1x1x2", (1000.0,)),
            busy_measurement(num_workers=16),
        ),
        "fixes": Fixes(
            codes=("CSI204", "CSI101"),
            edits=(),
            measured_gain=make_estimate(3.1, spread=0.05),
            layout=make_layout("1x1x2"),
            plan=make_alternative(
                "2x6x2", note="", predicted_samples_per_s=make_estimate(15_100.0), memory_bytes_per_node=9 * 2**30
            ),
            elements=512,
        ),
        "options": Options(
            params_json='{"batch_size": 256}',
            demand_samples_per_s=7000.0,
            nodes=8,
            cpus_per_node=64,
            current=make_layout("2x4x2"),
        ),
    }
    return make_analysis(**(given | overrides))


def run_of_many_workers(count: int = 1_000) -> Analysis:
    """One measurement of so many workers, each with its traces; one in a thousand lost."""
    workers = tuple(
        replace(busy_worker(900.0 + index % 97, index=index), node=f"node-{index // 64:04d}")
        if index % 1000 != 999
        else make_worker(None, index=index)
        for index in range(count)
    )
    tasks = 100
    many = make_measurement(f"{max(1, count // tasks)}x{min(tasks, count)}x1", (1.0,), workers=workers, num_workers=count)
    plan = make_plan("120x100x1", confirmed_by=0)
    return usual_run(
        measurements=(many,),
        recommendation=plan,
        verdict_layout=plan.layout,
        cluster=make_cluster(nodes=200, cpus_per_node=128),
        consumption=make_consumption(8e6),
        capacity=make_capacity_model(file_count=100_000),
    )


def run_of_a_long_pipeline() -> Analysis:
    """A pipeline of 500 ops, with a cost for each."""
    count = 500
    maps = [
        make_op("map", name=f"map_{place}", source=f"{SOURCE}:{place}", inputs=(f"map_{place - 1}",) if place else ("tf_record",))
        for place in range(count - 2)
    ]
    ops = (make_op("tf_record"), *maps, make_op("batch", inputs=(maps[-1].name,)))
    share = 1 / (count + 1)
    costs = tuple(
        make_op_cost(
            op.name, kind=op.kind, self_cpu_s_per_sample=0.002 * share * (1 + place % 7), share_ratio=share, source=op.source
        )
        for place, op in enumerate(ops)
    )
    findings = tuple(make_finding("CSI101", op=f"map_{place}", source=f"{SOURCE}:{place}") for place in range(0, count - 2, 50))
    profile = make_profile(ops=(*costs, make_runtime_cost(share)))
    return usual_run(pipeline=make_graph("batch", ops=ops), profile=profile, stations=(), findings=findings)


def comparison() -> Comparison:
    """Two runs of which one launch is slower, one faster and one alike, on two versions of TensorFlow."""
    slower, faster = ({"rates": (rate,), "samples_per_s": make_estimate(rate)} for rate in (200.0, 3000.0))
    new = make_analysis(
        measurements=(
            make_measurement("1x1x1", **slower),
            make_measurement("1x1x2", **faster),
            make_measurement("1x4x2", (940.0, 930.0, 900.0, 950.0), num_workers=16),
        ),
        profile=make_profile(ops=(make_op_cost("map", self_cpu_s_per_sample=0.01), make_op_cost("fresh"))),
        findings=(make_finding("CSI104", op="map_7"),),
        host=make_host(tensorflow_version="2.21.0"),
        verdict="input_bound",
    )
    return compare(make_analysis(), new, tool=Tool(name="cs_input_analyzer", version="0"), old_path="old.json", new_path="new.json")

"""How long planning takes on a cluster of 10,000 nodes, over every (tasks, CPUs) that fits a node of 128 CPUs.

The whole answer is timed: the plan, its alternatives, its what-if rows (each of which plans again) and its reasons, from a model as
`fit` makes it, with the replicates of its bootstrap. Nothing that was worked out before is there. `predictions` is how many
launches were predicted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from unittest import mock

import numpy as np

from benchmarks.paired import arguments, middle, save, show
from cs_input_analyzer.planning import capacity
from cs_input_analyzer.planning.recommend import recommend
from cs_input_analyzer.records import CapacityModel, Cluster, Consumption, ContentionPoint, Estimate, Options, WorkerPoint
from cs_input_analyzer.stats.estimates import REPLICATES
from wafer_model import from_rate

TARGET_S = 1.0
GIB = 2**30
SPREAD_RATIO = 0.02
CPUS = (1, 2, 4, 8, 16, 32, 64, 128)


def measured(value: float, draw: np.random.Generator) -> tuple[Estimate, tuple[float, ...]]:
    """A number with its interval and its replicates."""
    values = value * (1 + SPREAD_RATIO * draw.standard_normal(REPLICATES))
    low, high = np.quantile(values, (0.05, 0.95))
    return Estimate(estimate=value, low=min(float(low), value), high=max(float(high), value), count=6), tuple(map(float, values))


def a_model(exponent: float) -> CapacityModel:
    """Workers whose rate grows with this power of their CPUs."""
    draw = np.random.default_rng(0)
    rates = [measured(100 * cpus**exponent, draw) for cpus in CPUS]
    kept = {(tasks, cpus): measured(1 - 0.02 * tasks, draw) for tasks, cpus in ((2, 1), (4, 1), (2, 2))}
    return CapacityModel(
        workers=tuple(
            WorkerPoint(cpus=cpus, samples_per_s=rate, cpu_s_per_sample=0.01, replicates=replicates)
            for cpus, (rate, replicates) in zip(CPUS, rates, strict=True)
        ),
        contention=tuple(
            ContentionPoint(tasks=tasks, cpus=cpus, busy_ratio=tasks * cpus / 128, kept_ratio=ratio, replicates=replicates)
            for (tasks, cpus), (ratio, replicates) in kept.items()
        ),
        shard_ratio=Estimate.exact(1.0),
        slowest_ratio=0.97,
        spread_ratio=0.02,
        host_cpus=128,
        host_threads_per_core=2,
        private_bytes=GIB,
        shared_bytes=GIB // 2,
        bytes_read_per_sample=1e5,
        bytes_out_per_sample=2e5,
        is_sharded=True,
        file_count=1_000_000,
    )


def cases() -> Iterator[tuple[str, CapacityModel, Cluster, Consumption | None]]:
    """A fine-grained pipeline and one that scales, each under several demands and limits."""
    plain = Cluster(nodes=10_000, cpus_per_node=128, memory_bytes_per_node=512 * GIB, threads_per_core=2)
    flat, scaling = a_model(0.1), a_model(0.95)
    one, thousands, impossible = from_rate(5e3), from_rate(5e6), from_rate(1e12)
    yield "no demand", scaling, plain, None
    yield "one node is enough", scaling, plain, one
    yield "thousands of nodes", scaling, plain, thousands
    yield "more than there is", scaling, plain, impossible
    yield "fine-grained, no demand", flat, plain, None
    yield "fine-grained, thousands of nodes", flat, plain, thousands
    yield "fine-grained, more than there is", flat, plain, impossible
    stored = replace(plain, storage_bytes_per_s=4e11)
    yield "storage-bound", scaling, stored, thousands
    yield "storage-bound, no demand", scaling, stored, None
    linked = replace(plain, network_bytes_per_s_per_node=1.2e8)
    yield "network-bound", scaling, linked, thousands
    yield "network-bound, no demand", scaling, linked, None
    yield "memory-bound", replace(flat, private_bytes=20 * GIB), plain, thousands
    yield "files-bound", replace(flat, file_count=5000), plain, thousands


def main() -> None:
    options = arguments(__doc__, runs=(int, 3, "runs of each; the middle one is shown"))
    rows, result = [], {}
    launches = 10_000 * sum(128 // cpus for cpus in range(1, 129))
    for name, model, cluster, consumption in cases():
        seconds = []
        for _ in range(options.runs):
            with mock.patch.object(capacity, "predict", wraps=capacity.predict) as predict:
                began_s = time.perf_counter()
                plan = recommend(model, consumption, cluster, Options())
                seconds.append(time.perf_counter() - began_s)
        result[name] = {"seconds": middle(seconds), "predictions": predict.call_count, "plan": str(plan.layout)}
        took = f"{middle(seconds):.2f}"
        rows.append((name, took, "yes" if middle(seconds) <= TARGET_S else "NO", f"{predict.call_count:,}", str(plan.layout)))
    show(
        f"Seconds to plan among {launches:,} launches (target: {TARGET_S:g})",
        ("question", "seconds", "in time", "predictions", "plan"),
        rows,
    )
    save(options.json, {"launches": launches, "target_s": TARGET_S, "cases": result})


if __name__ == "__main__":
    main()

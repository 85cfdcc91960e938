"""For a surer answer: how wide the interval of the plan is, and would be without one of its terms. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from cs_input_analyzer.model.capacity.assumptions import ASSUMED, THIS_HOST
from cs_input_analyzer.model.capacity.worker import far_error_log
from cs_input_analyzer.model.estimates import NORMAL_95
from cs_input_analyzer.model.recommend.problem import PlanningProblem, predicted_launch
from cs_input_analyzer.records import CapacityModel, Cluster, Estimate, Layout, Surer

LEAST_GAIN_RATIO = 0.01
"""A term that narrows the half-width by less is not worth a line."""


def surer(problem: PlanningProblem, layout: Layout) -> tuple[Surer, ...]:
    """Return what would narrow the interval of a launch, most first, each computed by setting its term to zero."""

    def half_width(model: CapacityModel, cluster: Cluster, *, is_near: bool = False) -> float:
        found = predicted_launch(model, problem.consumption, cluster, problem.options, layout)
        rate = found.samples_per_s
        width = rate.relative_half_width_ratio or 0.0
        if not is_near or rate.low <= 0:
            return width
        half, far = math.log(rate.high / rate.low) / 2, NORMAL_95 * far_error_log(found.extrapolation_ratio)
        return width * math.sinh(math.sqrt(max(0.0, half**2 - far**2))) / math.sinh(half) if half else width

    now = half_width(problem.model, problem.cluster)
    rows = [Surer(how=how, half_width_ratio=half_width(*changed, is_near=how == "node")) for how, changed in _changes(problem)]
    kept = [row for row in rows if row.half_width_ratio < now - LEAST_GAIN_RATIO]
    return tuple(sorted(kept, key=lambda row: row.half_width_ratio))


def _changes(problem: PlanningProblem) -> Iterator[tuple[str, tuple[CapacityModel, Cluster]]]:
    model, cluster = problem.model, problem.cluster
    exact = tuple(replace(point, samples_per_s=Estimate.exact(point.samples_per_s.estimate)) for point in model.points)
    if cluster.source != THIS_HOST and not cluster.is_measured:
        # Slurm has said that this host is one of the nodes, so measuring on one was done.
        is_node = cluster.partition is not None and cluster.speed_ratio is not None and cluster.speed_basis == "this host"
        quiet = replace(
            model,
            launch_spread_ratio=min(model.launch_spread_ratio, ASSUMED.launch),
            run_spread_ratio=ASSUMED.host,
            host_threads_per_core=cluster.threads_per_core or model.host_threads_per_core,
        )
        threads = cluster.threads_per_core or 1
        if not is_node:
            yield "node", (quiet, replace(cluster, speed_ratio=Estimate.exact(1.0), threads_per_core=threads))
        if cluster.speed_ratio is None:
            yield "node speed", (model, replace(cluster, speed_ratio=Estimate.exact(1.0)))
        if cluster.threads_per_core is None:
            yield "threads per core", (model, replace(cluster, threads_per_core=1))
    yield "launches", (replace(model, points=exact), cluster)

"""Measurements of one host -> CapacityModel."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.model.capacity.assumptions import UNEVEN_RATIO
from cs_input_analyzer.model.capacity.idle import host_ratio, on_idle_cpus
from cs_input_analyzer.model.capacity.rates import LogRate, Spreads, Surface, log_rate_of, spreads_of
from cs_input_analyzer.model.estimates import NORMAL_95, from_log, standard_error
from cs_input_analyzer.records import CapacityModel, Estimate, Measurement, PipelineGraph, RatePoint, others_ratio
from cs_input_analyzer.tfdata.lineage import deals_out_files

SAME = Estimate.exact(1.0)


def fit(
    pipeline: PipelineGraph,
    measurements: Sequence[Measurement],
    host_cpus: int,
    *,
    is_virtual: bool = False,
    site_errors: Sequence[float] = (),
) -> CapacityModel:
    """Return the capacity model of one pipeline from probes of one host, at the rates of idle CPUs.

    Launches that announced more workers than ran read only their shard, and show its effect on the rate. Only those
    count that announced the number of the last one, which is nearest to the plan. Runs of role `validate`, runs inside the
    user's process, and launches whose tasks shared CPUs never feed the model.

    Args:
        host_cpus: CPUs of the measuring host that the workers could use.
        is_virtual: the host is a virtual machine, whose neighbours no counter shows.
        site_errors: errors of validated predictions on this site, natural logarithms.

    Raises:
        UsageError: no probe holds the rate of a worker that ran alone.
    """
    measured = [m for m in measurements if m.layout.nodes == 1 and m.role == "probe" and m.isolation == "process" and _has_rate(m)]
    measured = [m for m in measured if m.layout.tasks == 1 or m.layout.cpus_per_node <= host_cpus]
    whole, on_shards = _whole_and_shards([on_idle_cpus(launch) for launch in measured])
    if not any(len(launch.measured_workers) == 1 for launch in whole):
        raise UsageError(
            "no probe measured the rate of a worker that ran alone, so nothing can be predicted; "
            "include a layout such as 1x1x1 in --probe-layouts, or give --max-seconds more time"
        )
    probes = [*whole, *on_shards]
    slowest, slowest_shard = (min(map(_slowest_ratio, launches), default=1.0) for launches in (whole, on_shards))
    alike = whole  # unequal shards show nothing about equal processes
    if slowest_shard >= UNEVEN_RATIO:
        alike, (whole, on_shards) = probes, _by_known_shapes(whole, on_shards)
    spreads = spreads_of(
        alike,
        others_ratio(measured) or 0.0,
        is_virtual=is_virtual,
        over_nodes=[m for m in measurements if m.layout.nodes > 1 and m.role == "probe" and _has_rate(m)],
        site_errors=site_errors,
    )
    shard_ratio = _shard_ratio(_points(whole, spreads), on_shards, spreads, host_cpus)
    return CapacityModel(
        # Shards that show no difference are more launches of the same kind, unless they are unequal.
        points=_points(alike if shard_ratio == SAME else whole, spreads),
        shard_ratio=shard_ratio,
        slowest_ratio=min(slowest, slowest_shard),
        whole_slowest_ratio=slowest,
        spread_ratio=spreads.process,
        launch_spread_ratio=spreads.launch,
        run_spread_ratio=spreads.host,
        host_ratio=host_ratio(measured),
        host_cpus=host_cpus,
        **_sizes(probes),
        is_sharded=deals_out_files(pipeline.ops),
        file_count=pipeline.files.count if pipeline.files is not None else None,
    )


def _sizes(probes: Sequence[Measurement]) -> dict[str, Any]:
    """Return the memory and the bytes of a sample, as reported by the workers."""
    workers = [worker for launch in probes for worker in launch.measured_workers]
    return {
        "private_bytes": max((worker.private_bytes or worker.peak_rss_bytes or 0 for worker in workers), default=0) or None,
        "shared_bytes": max((launch.shared_bytes for launch in probes if launch.shared_bytes is not None), default=None),
        "bytes_read_per_sample": _mean(worker.bytes_read_per_sample for worker in workers),
        "bytes_out_per_sample": _mean(worker.bytes_out_per_sample for worker in workers),
    }


def _has_rate(launch: Measurement) -> bool:
    return bool(launch.measured_workers) and all(w.samples_per_s and w.samples_per_s.estimate > 0 for w in launch.measured_workers)


def _whole_and_shards(launches: Sequence[Measurement]) -> tuple[list[Measurement], list[Measurement]]:
    """Return launches whose workers read the data of a launch of their size, and launches on shards of the planned launch.

    A cache that holds only a shard was full in the latter alone. Then they are all that is known of a worker.
    """
    whole = [launch for launch in launches if launch.num_workers <= launch.layout.tasks]
    on_shards = [launch for launch in launches if launch.num_workers > launch.layout.tasks]
    on_shards = [launch for launch in on_shards if launch.num_workers == on_shards[-1].num_workers]
    return (whole, on_shards) if whole else (on_shards, [])


def _by_known_shapes(whole: Sequence[Measurement], on_shards: Sequence[Measurement]) -> tuple[list[Measurement], list[Measurement]]:
    """Return the launches with those on shards moved to the whole ones, if no whole launch has their shape.

    Otherwise an error of the line between other shapes would count as a difference of shards.
    """
    shapes = {_shape(launch) for launch in whole}
    known = [launch for launch in on_shards if _shape(launch) in shapes]
    return [*whole, *(launch for launch in on_shards if _shape(launch) not in shapes)], known


def _shape(launch: Measurement) -> tuple[int, int]:
    """Return the number of workers that ran, and their CPUs. A lost worker left its CPUs to the others."""
    return len(launch.measured_workers), launch.layout.cpus_per_task


def _points(launches: Sequence[Measurement], spreads: Spreads) -> tuple[RatePoint, ...]:
    """Return a point for each shape."""
    shapes: dict[tuple[int, int], list[Measurement]] = defaultdict(list)
    for launch in launches:
        shapes[_shape(launch)].append(launch)
    return tuple(_point(tasks, cpus, alike, spreads) for (tasks, cpus), alike in sorted(shapes.items()))


def _point(tasks: int, cpus: int, launches: Sequence[Measurement], spreads: Spreads) -> RatePoint:
    rate = log_rate_of(launches, spreads)
    costs = (worker.cpu_s_per_sample for launch in launches for worker in launch.measured_workers)
    return RatePoint(
        tasks=tasks,
        cpus=cpus,
        samples_per_s=from_log(rate.mean, NORMAL_95 * math.sqrt(rate.variance), tasks * len(launches)),
        cpu_s_per_sample=_mean(costs),
    )


def _shard_ratio(points: Sequence[RatePoint], on_shards: Sequence[Measurement], spreads: Spreads, host_cpus: int) -> Estimate:
    """Return the rate of workers on their shards over that of the probes.

    Return exactly 1 if none showed a difference.
    """
    if not on_shards:
        return SAME
    surface = Surface(points, host_cpus)
    ratios = []
    for launch in on_shards:
        rate = log_rate_of([launch], spreads)
        expected = surface.at(len(launch.measured_workers), launch.layout.cpus_per_task, host_cpus)
        ratios.append(LogRate(rate.mean - expected.mean, rate.variance + expected.variance))
    mean = math.fsum(ratio.mean for ratio in ratios) / len(ratios)
    error = math.sqrt(math.fsum(ratio.variance for ratio in ratios)) / len(ratios)
    return SAME if abs(mean) <= NORMAL_95 * error else from_log(mean, NORMAL_95 * error, len(ratios))


def _slowest_ratio(launch: Measurement) -> float:
    """Return the slowest over the mean rate of workers that ran together, without the noise of their windows; at most 1.

    The deviation of the slowest is shrunk by the lasting part of the variance of all workers.
    """
    known = [worker.samples_per_s for worker in launch.measured_workers if worker.samples_per_s is not None]
    rates = np.array([rate.estimate for rate in known])
    if len(rates) < 2:
        return 1.0
    seen, windows = float(rates.var(ddof=1)), math.fsum(standard_error(rate) ** 2 for rate in known) / len(known)
    if seen <= windows:
        return 1.0
    return min(1.0, float(1 - (rates.mean() - rates.min()) / rates.mean() * math.sqrt(1 - windows / seen)))


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def without_shards(model: CapacityModel) -> CapacityModel:
    """Return the model of workers that read the data of the probes."""
    whole = model.whole_slowest_ratio
    return replace(model, shard_ratio=Estimate.exact(1.0), slowest_ratio=model.slowest_ratio if whole is None else whole)

"""Measurements of one host -> CapacityModel.

Log rate = layout + launch + process + window (Kalibera & Jones, "Rigorous Benchmarking in Reasonable Time", ISMM 2013). The workers
of one launch share the state of their host, so of that the launch is the observation. How far launches and processes lie apart is
pooled over all layouts with an assumption that is worth four observations: those that happen to agree may not claim to be exact.

A vector is one estimate (place 0) followed by its draws; formulas are applied to whole vectors, so that what two factors have in
common cancels: the rate of two workers is that of one times what they keep of it, and the error of the one falls out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.model.capacity.assumptions import (
    LAUNCH_SPREAD_RATIO,
    LAUNCH_SPREAD_WEIGHT,
    PROCESS_SPREAD_RATIO,
    PROCESS_SPREAD_WEIGHT,
    RUN_SPREAD_RATIO,
    UNEVEN_RATIO,
)
from cs_input_analyzer.model.capacity.quiet import at_quiet_level, host_ratio
from cs_input_analyzer.model.capacity.worker import alone, kept, used_cpus
from cs_input_analyzer.model.estimates import (
    REPLICATES,
    Vector,
    estimate_of_draws,
    log_error,
    standard_error,
)
from cs_input_analyzer.records import (
    CapacityModel,
    ContentionPoint,
    Estimate,
    Measurement,
    PipelineGraph,
    WorkerPoint,
    WorkerResult,
)
from cs_input_analyzer.tfdata.lineage import deals_out_files

SIGNIFICANT_DIGITS = 6


def mean_rate(launches: Sequence[Sequence[WorkerResult]], launch_spread: float, seed: Sequence[int]) -> Vector:
    """Mean rate of a fresh process and its draws, shape [1 + REPLICATES], samples/s.

    Args:
        launches: of one layout, the processes of each that delivered a rate; at least one in all.
        launch_spread: what `launch_spread_ratio` says of this pipeline and host.
        seed: the same numbers give the same draws.
    """
    rates = [worker.samples_per_s for launch in launches for worker in launch if worker.samples_per_s is not None]
    logs = [np.log([worker.samples_per_s.estimate for worker in launch if worker.samples_per_s]) for launch in launches]
    degrees = len(rates) - len(launches) + PROCESS_SPREAD_WEIGHT
    apart = sum(float(np.sum((launch - launch.mean()) ** 2)) for launch in logs) + PROCESS_SPREAD_WEIGHT * PROCESS_SPREAD_RATIO**2
    own = float(np.mean([log_error(rate) ** 2 for rate in rates]))
    variance = max(apart / degrees, own) / len(rates) + launch_spread**2 / len(launches)
    mean = float(np.mean([rate.estimate for rate in rates]))
    errors = np.random.default_rng([*seed]).standard_normal(REPLICATES) * np.sqrt(variance)
    return np.concatenate([[mean], mean * np.exp(errors)])


def spread_ratio(groups: Sequence[Sequence[WorkerResult]]) -> float:
    """Standard deviation over mean of what persists in a process, over launches; 0 where only noise was seen.

    Variance components: what is seen is what persists plus the squared standard error of each process.
    """
    above, degrees = 0.0, 0
    for group in groups:
        rates = [worker.samples_per_s for worker in group if worker.samples_per_s is not None]
        if len(rates) < 2:
            continue
        estimates = np.array([rate.estimate for rate in rates])
        noise = float(np.mean([standard_error(rate) ** 2 for rate in rates]))
        above += (len(rates) - 1) * (float(estimates.var(ddof=1)) - noise) / float(estimates.mean()) ** 2
        degrees += len(rates) - 1
    return float(np.sqrt(max(0.0, above / degrees))) if degrees else 0.0


def launch_spread_ratio(layouts: Sequence[Sequence[Sequence[WorkerResult]]]) -> float:
    """Standard deviation over mean of the rates of fresh launches alike, on a host that nobody else uses.

    Variance components, pooled over layouts that were launched more than once: what is seen is what launches differ by plus the
    squared error of each. What is assumed of launches is worth some of them.

    Args:
        layouts: of each the launches, of each launch the processes that delivered a rate, at the quiet level; at least one in all.
    """
    squares, degrees = 0.0, 0
    for launches in layouts:
        rates = [[worker.samples_per_s for worker in launch if worker.samples_per_s is not None] for launch in launches]
        logs = np.log([np.mean([rate.estimate for rate in launch]) for launch in rates])
        own = float(np.mean([np.mean([log_error(rate) ** 2 for rate in launch]) / len(launch) for launch in rates]))
        squares += float(np.sum((logs - logs.mean()) ** 2)) - (len(logs) - 1) * own
        degrees += len(logs) - 1
    assumed = LAUNCH_SPREAD_WEIGHT * LAUNCH_SPREAD_RATIO**2
    return float(np.sqrt((max(0.0, squares) + assumed) / (degrees + LAUNCH_SPREAD_WEIGHT)))


def stored(values: Vector) -> tuple[float, ...]:
    """Replicates as they go into a record, in the digits that they are good for."""
    return tuple(float(f"{value:.{SIGNIFICANT_DIGITS}g}") for value in values[1:])


# Replicates of a share that was hardly measured reach down to nothing; over that, a lone worker would be boundless.
LEAST_SHARE_RATIO = 0.5
# Streams of random numbers: the same measurements give the same replicates.
LONE_SEED, TOGETHER_SEED, SHARD_SEED = 1, 2, 3


def fit(pipeline: PipelineGraph, measurements: Sequence[Measurement], host_cpus: int) -> CapacityModel:
    """The capacity model of one pipeline from probes of one host, at that host's quiet level.

    Lone workers (layouts 1x1xC) give the rate at C CPUs, over fresh processes; workers that ran together (1xTxC) give the
    share of that rate they keep and how far the slowest stays behind; workers to which more workers were announced than ran beside
    them read only their shard, and give what that does to the rate; of them those count that had as many announced as the last,
    which is nearest to the plan. Runs of role `validate` and runs inside the user's process never feed the model.

    Args:
        host_cpus: CPUs of the measuring host that the workers could use.

    Raises:
        UsageError: no probe holds the rate of a worker that ran alone.
    """
    measured = [m for m in measurements if m.layout.nodes == 1 and m.role == "probe" and m.isolation == "process"]
    probes = at_quiet_level(measured)
    whole = [m for m in probes if m.num_workers <= m.layout.tasks]
    on_shards = [m for m in probes if m.num_workers > m.layout.tasks and m.measured_workers]
    on_shards = [m for m in on_shards if m.num_workers == on_shards[-1].num_workers]
    # A cache that only holds a shard was full in these alone: what they did is all that is known of a worker.
    if not any(m.measured_workers for m in whole):
        whole, on_shards = on_shards, []
    model = _fit(pipeline, whole, host_cpus)
    whole_slowest_ratio = model.slowest_ratio
    if on_shards:
        values = _shard_ratio(model, on_shards)
        ratio = estimate_of_draws(values, len(on_shards))
        slowest = min(_persistent_slowest_ratio(m.measured_workers) for m in on_shards)
        # No difference seen, neither from the whole nor from each other: they are more processes of the same kind.
        if ratio.low <= 1 <= ratio.high and slowest >= UNEVEN_RATIO:
            model = _fit(pipeline, [*whole, *on_shards], host_cpus)
        else:
            slowest = min(model.slowest_ratio, slowest)
            model = replace(model, shard_ratio=ratio, shard_replicates=stored(values), slowest_ratio=slowest)
    return replace(model, whole_slowest_ratio=whole_slowest_ratio, host_ratio=host_ratio(measured, probes))


def _fit(pipeline: PipelineGraph, probes: Sequence[Measurement], host_cpus: int) -> CapacityModel:
    by_layout: dict[tuple[int, int], list[list[WorkerResult]]] = defaultdict(list)
    for measurement in probes:
        workers = [w for w in measurement.measured_workers if w.samples_per_s is not None and w.samples_per_s.estimate > 0]
        # A lost worker left its CPUs to the others: what they show is the sharing of those that ran.
        if workers:
            by_layout[len(workers), measurement.layout.cpus_per_task].append(workers)
    lone_cpus = sorted(cpus for tasks, cpus in by_layout if tasks == 1)
    if not lone_cpus:
        raise UsageError(
            "no probe measured the rate of a worker that ran alone, so nothing can be predicted; "
            "include a layout such as 1x1x1 in --probe-layouts, or give --max-seconds more time"
        )
    launch_spread = launch_spread_ratio([*by_layout.values()])
    rates = _rates_that_fall(by_layout, launch_spread)
    points = tuple(_worker_point(cpus, by_layout[1, cpus], rates[1, cpus]) for cpus in lone_cpus)
    together = {key: runs for key, runs in by_layout.items() if key[0] > 1}
    beside = {key: runs for key, runs in together.items() if key[1] in lone_cpus}
    kept_by_lone = tuple(_contention_point(points, key, runs, rates[key], host_cpus) for key, runs in sorted(beside.items()))
    points = _with_sizes_seen_together(points, kept_by_lone, together, rates, host_cpus)
    contention = tuple(_contention_point(points, key, runs, rates[key], host_cpus) for key, runs in sorted(together.items()))
    everyone = [worker for runs in by_layout.values() for run in runs for worker in run]
    return CapacityModel(
        workers=points,
        contention=contention,
        shard_ratio=Estimate.exact(1.0),
        slowest_ratio=min((_persistent_slowest_ratio(run) for runs in together.values() for run in runs), default=1.0),
        launch_spread_ratio=launch_spread,
        run_spread_ratio=RUN_SPREAD_RATIO,
        spread_ratio=spread_ratio([run for runs in by_layout.values() for run in runs]),
        host_cpus=host_cpus,
        private_bytes=max((w.private_bytes or w.peak_rss_bytes or 0 for w in everyone), default=0) or None,
        shared_bytes=max((m.shared_bytes for m in probes if m.shared_bytes is not None), default=None),
        bytes_read_per_sample=_mean(w.bytes_read_per_sample for w in everyone),
        bytes_out_per_sample=_mean(w.bytes_out_per_sample for w in everyone),
        is_sharded=deals_out_files(pipeline.ops),
        file_count=pipeline.files.count if pipeline.files is not None else None,
    )


def _with_sizes_seen_together(
    points: tuple[WorkerPoint, ...],
    contention: tuple[ContentionPoint, ...],
    together: Mapping[tuple[int, int], Sequence[Sequence[WorkerResult]]],
    rates: Mapping[tuple[int, int], Vector],
    host_cpus: int,
) -> tuple[WorkerPoint, ...]:
    """Also those sizes of which only several workers ran. Alone they give what the line between other sizes says, but no less than
    what each gave over the share that workers of those sizes kept: a line may not overrule what was seen of this one. The share is
    not carried beyond what was measured of it: the rest of a small share would grow into a multiple of the rate."""
    found = {point.cpus: point for point in points}
    measured = max(((point.tasks - 1) * used_cpus(points, point.cpus) / host_cpus for point in contention), default=0.0)
    for tasks, cpus in sorted(together):
        if cpus not in found:
            neighbours_ratio = min((tasks - 1) * used_cpus(points, cpus) / host_cpus, measured)
            share = kept(points, contention, neighbours_ratio)
            values = rates[tasks, cpus] / np.maximum(share, LEAST_SHARE_RATIO * share[0])
            values = np.maximum(alone(points, cpus), values)
            found[cpus] = _worker_point(cpus, together[tasks, cpus], values)
    return tuple(found[cpus] for cpus in sorted(found))


def _shard_ratio(model: CapacityModel, on_shards: Sequence[Measurement]) -> Vector:
    """Rate of workers on their shards over what the model of the whole expects of them; the runs' ratios averaged."""
    ratios = []
    for number, measurement in enumerate(on_shards):
        workers, cpus = measurement.measured_workers, measurement.layout.cpus_per_task
        neighbours_ratio = (len(workers) - 1) * used_cpus(model.workers, cpus) / model.host_cpus
        expected = alone(model.workers, cpus) * kept(model.workers, model.contention, neighbours_ratio)
        ratios.append(mean_rate([workers], model.launch_spread_ratio, (SHARD_SEED, number, len(workers), cpus)) / expected)
    return np.asarray(np.mean(ratios, axis=0))


def _rates_that_fall(
    by_layout: Mapping[tuple[int, int], Sequence[Sequence[WorkerResult]]], launch_spread: float
) -> dict[tuple[int, int], Vector]:
    """Mean rate of a worker by (tasks, CPUs per task), shape [1 + replicates] each, never rising with tasks.

    Neighbours do not speed a worker up: where those together were faster than the lone one, the host was slow just then, and both
    are observations of one rate. It is the least-squares fit under that order (Barlow et al., "Statistical Inference under Order
    Restrictions", 1972), each process of equal weight.
    """
    from scipy.optimize import isotonic_regression

    rates: dict[tuple[int, int], Vector] = {}
    for cpus in {cpus for _, cpus in by_layout}:
        keys = sorted(key for key in by_layout if key[1] == cpus)
        launches = [by_layout[key] for key in keys]
        seeds = [(LONE_SEED, cpus) if tasks == 1 else (TOGETHER_SEED, tasks, cpus) for tasks, _ in keys]
        values = np.stack([mean_rate(group, launch_spread, seed) for group, seed in zip(launches, seeds, strict=True)])
        weights = np.array([float(sum(map(len, group))) for group in launches])
        fallen = [isotonic_regression(draw, weights=weights, increasing=False).x for draw in values.T]
        rates |= zip(keys, np.stack(fallen, axis=1), strict=True)
    return rates


def _worker_point(cpus: int, runs: Sequence[Sequence[WorkerResult]], values: Vector) -> WorkerPoint:
    workers = [worker for run in runs for worker in run]
    return WorkerPoint(
        cpus=cpus,
        samples_per_s=estimate_of_draws(values, len(workers)),
        cpu_s_per_sample=_mean(w.cpu_s_per_sample for w in workers),
        replicates=stored(values),
    )


def _contention_point(
    points: tuple[WorkerPoint, ...], key: tuple[int, int], runs: Sequence[Sequence[WorkerResult]], values: Vector, host_cpus: int
) -> ContentionPoint:
    tasks, cpus = key
    workers = [worker for run in runs for worker in run]
    ratio = values / alone(points, cpus)
    return ContentionPoint(
        tasks=tasks,
        cpus=cpus,
        busy_ratio=tasks * cpus / host_cpus,
        kept_ratio=estimate_of_draws(ratio, len(workers)),
        replicates=stored(ratio),
    )


def _persistent_slowest_ratio(run: Sequence[WorkerResult]) -> float:
    """Slowest over mean of workers that ran together, without the distance that sampling noise alone would show; at most 1.

    The deviation of the slowest is shrunk as that of all workers is: by what persists over what is seen.
    """
    persists = spread_ratio([run])
    rates = [worker.samples_per_s.estimate for worker in run if worker.samples_per_s is not None]
    # The mean of equal rates may be rounded to less than each of them.
    return 1 - max(0.0, float((np.mean(rates) - min(rates)) / np.std(rates, ddof=1))) * persists if persists else 1.0


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None

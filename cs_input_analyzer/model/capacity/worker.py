"""One worker on a node: its rate alone at any CPU count, and what neighbours leave it of that."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cs_input_analyzer.model.capacity.assumptions import (
    ALIKE_BUSY_RATIO,
    CEILING_ERROR_RATIO,
    FAR_ERROR_LOG_PER_DOUBLING,
    LATENCY,
    MOST_LIKELY_THREADS,
    SHAPE_ERROR_LOG,
    SMT_GAIN_RATIO,
    THIS_HOST,
    UNKNOWN_SPEED_RATIO,
)
from cs_input_analyzer.model.estimates import REPLICATES, SMALLEST_LOW_RATIO, Vector, draws, estimate_of_draws
from cs_input_analyzer.records import CapacityModel, Cluster, ContentionPoint, Estimate, Limit, WorkerPoint

GROWTH_SEED, SPEED_SEED, SMT_SEED = 11, 12, 13


def worker_rate(model: CapacityModel, cluster: Cluster, tasks: int, cpus: int) -> tuple[Estimate, float]:
    """Rate of one of `tasks` streaming workers of `cpus` CPUs on a node, and how far that lies outside what was probed (>= 1).

    Its interval holds the errors of the lone rate, of the contention, of the shards, of the nodes' speed and of hardware threads;
    what two of them have in common cancels. The error of the model itself is added.
    """
    neighbours_ratio = (tasks - 1) * used_cpus(model.workers, cpus) / cluster.cpus_per_node
    rate = alone(model.workers, cpus) * kept(model.workers, model.contention, neighbours_ratio)
    rate = rate * vector(model.shard_ratio, model.shard_replicates, GROWTH_SEED)
    rate = rate * _node_ratio(model, cluster, tasks, cpus)
    inner, extrapolation = estimate_of_draws(rate, model.workers[0].samples_per_s.count), _extrapolation(model, tasks, cpus)
    factor = math.exp(model_error_log(extrapolation) + shape_error_log(model, tasks, cpus))
    found = replace(inner, low=max(inner.low / factor, SMALLEST_LOW_RATIO * inner.estimate), high=inner.high * factor)
    return _below(found, worker_ceilings(model, cluster, tasks, cpus)), extrapolation


def worker_ceilings(model: CapacityModel, cluster: Cluster, tasks: int, cpus: int) -> tuple[Limit, ...]:
    """Return what one of these workers cannot exceed there: as measured on the host that measured, else on an idle node."""
    if not model.ceilings:
        return ()
    ratio, is_here = float(_node_ratio(model, cluster, tasks, cpus)[0]), cluster.source == THIS_HOST

    def there(limit: Limit) -> float:
        rate = limit.samples_per_s * (1.0 if limit.name.startswith(LATENCY) else ratio)
        return rate if not is_here or limit.measured_samples_per_s is None else min(rate, limit.measured_samples_per_s)

    return tuple(Limit(name=limit.name, samples_per_s=there(limit)) for limit in model.ceilings)


def _below(rate: Estimate, limits: Sequence[Limit]) -> Estimate:
    """Return the rate at the lowest ceiling where it is above it, the interval no higher than ceilings may be off."""
    most = min((limit.samples_per_s for limit in limits), default=math.inf)
    factor = min(1.0, most / rate.estimate) if rate.estimate > 0 else 1.0
    middle = min(rate.estimate, most)
    high = min(rate.high * factor, CEILING_ERROR_RATIO * most)
    return replace(rate, estimate=middle, low=min(middle, rate.low * factor), high=max(middle, high))


def model_error_log(extrapolation: float) -> float:
    """The model's own error, natural logarithm, of a launch `extrapolation` times outside what was probed."""
    return FAR_ERROR_LOG_PER_DOUBLING * max(math.log2(extrapolation) - 1, 0.0)


def _extrapolation(model: CapacityModel, tasks: int, cpus: int) -> float:
    ratio = max(1.0, cpus / model.largest_cpus_probed, model.workers[0].cpus / cpus)
    # CPUs that the probes filled at once: with workers together, or with the one worker where only lone workers ran.
    filled = max((min(point.tasks * point.cpus, model.host_cpus) for point in model.contention), default=cpus)
    return max(ratio, tasks * cpus / filled) if tasks > 1 else ratio


def shape_error_log(model: CapacityModel, tasks: int, cpus: int) -> float:
    """What is not known of a size between two probes, natural logarithm; 0 at a probe, and outside of them, where the extrapolation
    counts.

    Straight lines, those of the logarithms and Amdahl's law through the same two probes lie apart by this much at most: 6 % halfway
    where the probes are a factor 4 apart, 24 % where 16. Workers that ran together are probes of their size, too: what they kept is
    relative to the curve, whose error cancels there.
    """
    if not model.workers[0].cpus < cpus < model.largest_cpus_probed:
        return 0.0
    probed = {point.cpus for point in model.workers} | {point.cpus for point in model.contention if tasks > 1}
    below, above = max(size for size in probed if size <= cpus), min(size for size in probed if size >= cpus)
    return SHAPE_ERROR_LOG * math.log2(cpus / below) * math.log2(above / cpus)


# --- another machine -------------------------------------------------------------------------------------------------------------


def _node_ratio(model: CapacityModel, cluster: Cluster, tasks: int, cpus: int) -> Vector:
    """Return the rate of a worker there over that on the measuring host if it were idle, neighbours left out."""
    return _where_busy(model.workers, cpus, _speed(model, cluster) * _threads(model, cluster, tasks, cpus))


def _where_busy(points: tuple[WorkerPoint, ...], cpus: int, cpu_speed: Vector) -> Vector:
    """What a rate is multiplied by where CPUs run at `cpu_speed` times the probed speed: waiting takes as long as before.

    Of the time T of a sample a share u is CPU time that the speed s changes: T (u / s + 1 - u) (Amdahl's law). Idle CPUs may all
    wait for data: then u is their utilization, which counts where CPUs are faster. Or one thread computes what the others wait for:
    then u is 1 as soon as one CPU's worth is busy, which counts where they are slower. So no plan rests on what may not be.
    """
    used = used_cpus(points, cpus)
    busy = np.where(cpu_speed > 1, used / cpus, min(1.0, used))
    return np.asarray(cpu_speed / (busy + (1 - busy) * cpu_speed))


def _speed(model: CapacityModel, cluster: Cluster) -> Vector:
    """Speed of one CPU of a node over one of this host at its quiet level: as stated or measured; unknown, anything around 1. Here,
    what workers get of that level."""
    unknown = Estimate(estimate=1.0, low=1 / UNKNOWN_SPEED_RATIO, high=UNKNOWN_SPEED_RATIO)
    speed = model.host_ratio if cluster.source == THIS_HOST else cluster.speed_ratio or unknown
    return vector(speed, (), SPEED_SEED)


def _threads(model: CapacityModel, cluster: Cluster, tasks: int, cpus: int) -> Vector:
    """Speed of a busy CPU over one that has its core to itself; where the threads per core are unknown, anything between one and
    two of them."""
    ratio = hardware_thread_ratio(model, cluster, tasks, cpus)
    if cluster.threads_per_core is not None:
        return np.full(1 + REPLICATES, ratio)
    return np.concatenate([[math.sqrt(ratio)], np.random.default_rng(SMT_SEED).uniform(ratio, 1.0, size=REPLICATES)])


def hardware_thread_ratio(model: CapacityModel, cluster: Cluster, tasks: int, cpus: int) -> float:
    """Speed of a busy CPU over one that has its core to itself, as a hardware thread is not a core.

    1 while there are no more busy CPUs than cores, and where the probes paid for it already: they kept as many CPUs and as large a
    share of their host busy, and there, too, cores were shared.
    """
    # More tasks than CPUs wait for each other, which is another matter.
    busy = min(tasks * used_cpus(model.workers, cpus), cluster.cpus_per_node)
    cores = cluster.cpus_per_node / (cluster.threads_per_core or MOST_LIKELY_THREADS)
    probed = ALIKE_BUSY_RATIO * _kept_busy(model, cpus)
    is_probed = busy <= probed and busy / cluster.cpus_per_node <= probed / model.host_cpus
    if busy <= cores or (is_probed and _shared_cores(model, cluster)):
        return 1.0
    return (cores + SMT_GAIN_RATIO * (busy - cores)) / busy


def _kept_busy(model: CapacityModel, cpus: int) -> float:
    """CPUs that the probes kept busy at once: workers together, or the lone one of this size."""
    together = (min(point.tasks * used_cpus(model.workers, point.cpus), float(model.host_cpus)) for point in model.contention)
    return max(used_cpus(model.workers, min(cpus, model.largest_cpus_probed)), *together, 0.0)


def _shared_cores(model: CapacityModel, cluster: Cluster) -> bool:
    """Whether the CPUs of the measuring host share cores as those of the nodes do.

    Where it is not known of the host: only of a node that is this very host, and where it is not known of the nodes either (a host
    that is like them then is as likely as any).
    """
    if model.host_threads_per_core is None:
        return cluster.threads_per_core is None or cluster.source == THIS_HOST
    return model.host_threads_per_core >= (cluster.threads_per_core or MOST_LIKELY_THREADS)


def vector(estimate: Estimate, replicates: Sequence[float], seed: int) -> Vector:
    """An estimate and its replicates as one vector; replicates that are not there are drawn from the interval."""
    if len(replicates) == REPLICATES:
        return np.concatenate([[estimate.estimate], replicates])
    return draws(estimate, (seed, REPLICATES))


# --- alone -----------------------------------------------------------------------------------------------------------------------


def alone(points: tuple[WorkerPoint, ...], cpus: int) -> Vector:
    """Rate of a lone worker at any CPU count: between probes, straight lines of log rate over log2(CPUs), which never overshoot.

    Beyond the largest probe the estimate follows Amdahl's law (Gunther's universal scalability law without coherency) through the
    first and the last point, below the smallest the rate is in proportion to the CPUs; the interval is all between that proportion
    and the rate of the nearest probe.
    """
    first, last = points[0], points[-1]
    if cpus < first.cpus or cpus > last.cpus:
        nearest = first if cpus < first.cpus else last
        least, most = sorted((1.0, cpus / nearest.cpus))
        # Either bound may be the truth, and not only what lies between: half of the replicates are of each.
        at_most = np.random.default_rng(GROWTH_SEED).permutation(REPLICATES) % 2 == 1
        return np.asarray(_rates(nearest) * np.concatenate([[_change(points, cpus)], np.where(at_most, most, least)]))
    if cpus == first.cpus:
        return _rates(first)
    upper = next(index for index, point in enumerate(points) if point.cpus >= cpus)
    left, right = points[upper - 1], points[upper]
    share = math.log2(cpus / left.cpus) / math.log2(right.cpus / left.cpus)
    if share == 1:
        return _rates(right)
    # The errors of the two ends are independent, so between them they would cancel: surest just where nothing was measured. So the
    # high draws of one are put to those of the other.
    below, above = np.log(_rates(left)), np.log(_rates(right))
    above[1:] = np.sort(above[1:])[np.argsort(np.argsort(below[1:]))]
    return np.asarray(np.exp((1 - share) * below + share * above))


def rate_alone(points: tuple[WorkerPoint, ...], cpus: int) -> float:
    """The estimate of `alone`, without its replicates: planning asks for it thousands of times."""
    inside = min(max(cpus, points[0].cpus), points[-1].cpus)
    logs = [math.log(point.samples_per_s.estimate) for point in points]
    rate = math.exp(np.interp(math.log2(inside), [math.log2(point.cpus) for point in points], logs))
    return rate if inside == cpus else rate * _change(points, cpus)


def _rates(point: WorkerPoint) -> Vector:
    return vector(point.samples_per_s, point.replicates, point.cpus)


def _change(points: tuple[WorkerPoint, ...], cpus: int) -> float:
    """Rate over that of the nearest probe outside of what was probed, as estimated; exactly 1 at that probe.

    Above, X(c) ~ c / (1 + s (c - 1)), c in units of the first point's CPUs; 1 with one point or no growth.
    """
    first, last = points[0], points[-1]
    if cpus <= first.cpus:
        return cpus / first.cpus
    measured = last.samples_per_s.estimate / first.samples_per_s.estimate
    size = last.cpus / first.cpus
    if size == 1 or measured <= 1:
        return 1.0
    serial = max(0.0, (size / measured - 1) / (size - 1))
    larger = cpus / first.cpus
    return (larger / (1 + serial * (larger - 1))) / (size / (1 + serial * (size - 1)))


def used_cpus(points: tuple[WorkerPoint, ...], cpus: int) -> float:
    """CPUs that a lone worker keeps busy (utilization law, U = X · D), at most those it has; all of them where its cost is unknown.

    It is what neighbours lose to it: a worker that waits for storage leaves its CPUs to them.
    """
    known = [(math.log2(point.cpus), point.cpu_s_per_sample) for point in points if point.cpu_s_per_sample is not None]
    if not known:
        return float(cpus)
    # CPU seconds per sample rise with CPUs: straight lines over log2, flat outside of what was probed.
    cost = float(np.interp(math.log2(cpus), [at for at, _ in known], [cost for _, cost in known]))
    return min(float(cpus), rate_alone(points, cpus) * cost)


# --- together -------------------------------------------------------------------------------------------------------------------


def kept(points: tuple[WorkerPoint, ...], contention: tuple[ContentionPoint, ...], neighbours_ratio: float) -> Vector:
    """Share of its lone rate that a worker keeps when its neighbours keep `neighbours_ratio` of the node's CPUs busy; at most 1.

    Straight lines through the measured points, starting at (0, 1) and never rising; beyond the last point the hyperbola
    1 / (1 + a x) through it (contention term of the universal scalability law). Without a measured point: 1.
    """
    whole = np.ones(1 + REPLICATES)
    if neighbours_ratio <= 0 or not contention:
        return whole
    curve: list[tuple[float, Vector]] = [(0.0, whole)]
    for point in sorted(contention, key=lambda point: (_neighbours(points, point), point.kept_ratio.estimate)):
        at, before = _neighbours(points, point), curve[-1][1]
        values = np.minimum(vector(point.kept_ratio, point.replicates, point.tasks), before)
        curve[-1 if at == curve[-1][0] else len(curve) :] = [(at, values)]
    above = next((index for index, (at, _) in enumerate(curve) if at >= neighbours_ratio), None)
    if above is None:
        at, values = curve[-1]
        return np.asarray(1 / (1 + (1 / values - 1) * (neighbours_ratio / at)))
    (left_at, left), (right_at, right) = curve[above - 1], curve[above]
    share = (neighbours_ratio - left_at) / (right_at - left_at)
    return np.asarray(left + share * (right - left))


def _neighbours(points: tuple[WorkerPoint, ...], point: ContentionPoint) -> float:
    return (point.tasks - 1) * used_cpus(points, point.cpus) / (point.tasks * point.cpus / point.busy_ratio)

"""One worker on a node of another cluster: its rate there, with its interval, and what it cannot exceed."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cs_input_analyzer.model.capacity.assumptions import (
    ALIKE_BUSY_RATIO,
    ASSUMED,
    CEILING_ERROR_RATIO,
    LATENCY,
    MOST_LIKELY_THREADS,
    SMT_GAIN_RATIO,
    THIS_HOST,
)
from cs_input_analyzer.model.capacity.rates import LogRate, Surface
from cs_input_analyzer.model.estimates import NORMAL_95, from_log, log_error
from cs_input_analyzer.records import CapacityModel, Cluster, Estimate, Limit


@functools.lru_cache(maxsize=1 << 16)
def worker_rate(model: CapacityModel, cluster: Cluster, tasks: int, cpus: int) -> tuple[Estimate, float]:
    """Return the rate of one of `tasks` streaming workers of `cpus` CPUs on a node, and how far beyond the probes it is (>= 1)."""
    rate = Surface(model.points, model.host_cpus).at(tasks, cpus, cluster.cpus_per_node)
    there, shard = _node_ratio(model, cluster, tasks, cpus), model.shard_ratio
    extrapolation = _extrapolation(model, tasks, cpus)
    variance = rate.variance + there.variance + log_error(shard) ** 2 + far_error_log(extrapolation) ** 2
    found = from_log(rate.mean + there.mean + math.log(shard.estimate), NORMAL_95 * math.sqrt(variance))
    return _below(found, worker_ceilings(model, cluster, tasks, cpus)), extrapolation


def far_error_log(extrapolation: float) -> float:
    """Return the error of a launch beyond the probes: half of that of a shape between two of them."""
    return ASSUMED.shape / 2 * math.sqrt(max(math.log2(extrapolation), 0.0))


@functools.lru_cache(maxsize=1 << 16)
def worker_ceilings(model: CapacityModel, cluster: Cluster, tasks: int, cpus: int) -> tuple[Limit, ...]:
    """Return what one of these workers cannot exceed there. Only the latency of the storage is no matter of the CPUs."""
    ratio = math.exp(_node_ratio(model, cluster, tasks, cpus).mean) if model.ceilings else 1.0
    return tuple(limit if limit.name.startswith(LATENCY) else limit.scaled(ratio) for limit in model.ceilings)


def _below(rate: Estimate, limits: Sequence[Limit]) -> Estimate:
    """Return the rate, lowered to the lowest ceiling.

    Its interval reaches no higher than the error of ceilings allows.
    """
    most = min((limit.samples_per_s for limit in limits), default=math.inf)
    factor = min(1.0, most / rate.estimate) if rate.estimate > 0 else 1.0
    middle = min(rate.estimate, most)
    high = min(rate.high * factor, CEILING_ERROR_RATIO * most)
    return replace(rate, estimate=middle, low=min(middle, rate.low * factor), high=max(middle, high))


def _extrapolation(model: CapacityModel, tasks: int, cpus: int) -> float:
    """Return the factor by which a launch lies beyond the probes: in the CPUs of a worker, or in those in use at once."""
    ratio = max(1.0, cpus / model.largest_cpus_probed, model.points[0].cpus / cpus)
    filled = max(min(point.tasks * point.cpus, model.host_cpus) for point in model.points)
    return max(ratio, tasks * cpus / max(filled, cpus))


# --- another machine -------------------------------------------------------------------------------------------------------------


def _node_ratio(model: CapacityModel, cluster: Cluster, tasks: int, cpus: int) -> LogRate:
    """Return the rate of a worker there over that on the measuring host if it were idle: waiting takes as long as before.

    Of the time T of a sample a share u is CPU time that the speed s changes: T (u / s + 1 - u) (Amdahl's law). Idle CPUs may all
    wait for data: then u is their utilization, which counts where CPUs are faster. Or one thread computes what the others wait for:
    then u is 1 as soon as one CPU's worth is busy, which counts where they are slower. So no plan rests on what may not be.
    """
    speed = _speed(model, cluster)
    threads, error = _threads(model, cluster, tasks, cpus)
    middle = speed.estimate * threads
    used = used_cpus(model, cpus)
    busy = used / cpus if middle > 1 else min(1.0, used)
    ratio = middle / (busy + (1 - busy) * middle)
    return LogRate(math.log(ratio), busy**2 * (log_error(speed) ** 2 + error**2))


def _speed(model: CapacityModel, cluster: Cluster) -> Estimate:
    """Return the speed of one CPU of a node over one of this host if it were idle. Here, what workers get of an idle host."""
    if cluster.source == THIS_HOST:
        return model.host_ratio
    return cluster.speed_ratio or from_log(0.0, NORMAL_95 * ASSUMED.node)


def _threads(model: CapacityModel, cluster: Cluster, tasks: int, cpus: int) -> tuple[float, float]:
    """Return the speed of a busy CPU over one that has its core to itself, and the standard deviation of its logarithm.

    Where the threads per core are unknown, it is anything between one and two of them.
    """
    ratio = hardware_thread_ratio(model, cluster, tasks, cpus)
    if cluster.threads_per_core is not None:
        return ratio, 0.0
    return math.sqrt(ratio), -math.log(ratio) / math.sqrt(12)


def hardware_thread_ratio(model: CapacityModel, cluster: Cluster, tasks: int, cpus: int) -> float:
    """Return the speed of a busy CPU over one that has its core to itself, as a hardware thread is not a core.

    Return 1 if there are at most as many busy CPUs as cores. Return 1, too, if the probes kept as large a share of
    their host busy and shared its cores: then their rates include it.
    """
    # More tasks than CPUs wait for each other, which is another matter.
    busy = min(tasks * used_cpus(model, cpus), cluster.cpus_per_node)
    cores = cluster.cpus_per_node / (cluster.threads_per_core or MOST_LIKELY_THREADS)
    is_probed = busy / cluster.cpus_per_node <= ALIKE_BUSY_RATIO * _kept_busy(model) / model.host_cpus
    if busy <= cores or (is_probed and _shared_cores(model, cluster)):
        return 1.0
    return (cores + SMT_GAIN_RATIO * (busy - cores)) / busy


def _kept_busy(model: CapacityModel) -> float:
    """Return the CPUs that the probes kept busy at once."""
    return max(min(point.tasks * used_cpus(model, point.cpus), float(model.host_cpus)) for point in model.points)


def _shared_cores(model: CapacityModel, cluster: Cluster) -> bool:
    """Return whether the CPUs of the measuring host share cores as those of the nodes do.

    If it is not known of the host: only of a node that is this very host, and if it is not known of the nodes either (a host that
    is like them then is as likely as any).
    """
    if model.host_threads_per_core is None:
        return cluster.threads_per_core is None or cluster.source == THIS_HOST
    return model.host_threads_per_core >= (cluster.threads_per_core or MOST_LIKELY_THREADS)


def used_cpus(model: CapacityModel, cpus: int) -> float:
    """Return the CPUs that a lone worker keeps busy (utilization law, U = X · D); all that it has if its cost is unknown."""
    lone = [point for point in model.points if point.tasks == 1 and point.cpu_s_per_sample is not None]
    if not lone:
        return float(cpus)
    sizes = [math.log2(point.cpus) for point in lone]
    # CPU seconds per sample rise with CPUs: straight lines over log2, flat outside of what was probed.
    cost = float(np.interp(math.log2(cpus), sizes, [point.cpu_s_per_sample or 0.0 for point in lone]))
    rate = math.exp(float(np.interp(math.log2(cpus), sizes, [math.log(point.samples_per_s.estimate) for point in lone])))
    return min(float(cpus), rate * cost)

"""The rate of one worker on a node: `r(cpus) × k(occupancy)`, from the launches of one host. Pure.

A launch of T workers of c CPUs is one observation of the logarithm of the mean rate of its workers, on idle CPUs:

    log rate = lone(c) + u · (full(c) - lone(c)) + launch + process,        u = log T / log(CPUs of the node / c)

`lone` is a worker that has the node to itself, `full` one among as many as fill it: the clock falls, memory and cores are shared.
Both are curves over the CPUs of a worker. They go through the launches that were measured, by Amdahl's law between two of them.
A launch that fills a part of the node stands for the full one, which it weighs less.

Errors are normal in the logarithm, and there are four: processes, launches, the host at another hour, and shapes that were not
measured. Workers of one launch share the state of their host, so the launch is the observation (Kalibera & Jones, "Rigorous
Benchmarking in Reasonable Time", ISMM 2013).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cs_input_analyzer.model.capacity.assumptions import ASSUMED, assumed_spread
from cs_input_analyzer.model.estimates import log_error
from cs_input_analyzer.records import Measurement, RatePoint, WorkerResult

EXACT = 1e-12
"""The variance of a rate that is known exactly."""

PRIOR_WEIGHT = 4
"""An assumed spread is worth as many observed differences."""


class LogRate(NamedTuple):
    """The logarithm of a rate, and its variance."""

    mean: float
    variance: float


class Spreads(NamedTuple):
    """Standard deviations of the logarithm of a rate: of fresh processes, of fresh launches, of the host from hour to hour."""

    process: float
    launch: float
    host: float


def spreads_of(
    launches: Sequence[Measurement],
    others_ratio: float,
    *,
    is_virtual: bool,
    over_nodes: Sequence[Measurement] = (),
    site_errors: Sequence[float] = (),
) -> Spreads:
    """Return the spread of processes, launches and host, each pooled over all layouts with the assumed spread.

    Args:
        launches: at the rates of an idle node.
        others_ratio: the share of the CPUs that other programs used; their effect is not known exactly.
        is_virtual: the host is a virtual machine, whose neighbours no counter shows.
        over_nodes: launches over several nodes; their spread counts if it is larger than that of launches.
        site_errors: natural logarithms of the errors of validated predictions on this site; they replace the assumed spread.
    """
    squares, degrees = 0.0, 0
    shapes: dict[tuple[int, int, int], list[LogRate]] = defaultdict(list)
    for launch in launches:
        logs = [math.log(rate) for rate in _rates(launch.measured_workers)]
        own = _window_variance(launch.measured_workers)
        mean = math.fsum(logs) / len(logs)
        squares += max(0.0, math.fsum((log - mean) ** 2 for log in logs) - (len(logs) - 1) * own)
        degrees += len(logs) - 1
        shapes[len(logs), launch.layout.cpus_per_task, launch.num_workers].append(LogRate(mean, own / len(logs)))
    process = _pooled(squares, degrees, ASSUMED.process)
    squares, degrees = 0.0, 0
    for (tasks, _, _), means in shapes.items():
        middle = math.fsum(one.mean for one in means) / len(means)
        own = math.fsum(one.variance for one in means) / len(means) + process**2 / tasks
        squares += max(0.0, math.fsum((one.mean - middle) ** 2 for one in means) - (len(means) - 1) * own)
        degrees += len(means) - 1
    assumed = assumed_spread(ASSUMED.launch, others_ratio)
    between = max(_pooled(squares, degrees, assumed), _node_spread(over_nodes, process, assumed))
    host = assumed_spread(ASSUMED.virtual_host if is_virtual else ASSUMED.host, others_ratio)
    return Spreads(process, between, _pooled(math.fsum(error**2 for error in site_errors), len(site_errors), host))


def _node_spread(launches: Sequence[Measurement], process: float, assumed: float) -> float:
    """Return how far nodes of one launch lie apart, without what their processes do; 0 without such launches."""
    squares, degrees = 0.0, 0
    for launch in launches:
        nodes: dict[str, list[float]] = defaultdict(list)
        for worker in launch.measured_workers:
            nodes[worker.node] += _rates([worker])
        means = [math.log(math.fsum(rates) / len(rates)) for rates in nodes.values()]
        middle = math.fsum(means) / len(means)
        own = process**2 * len(means) / len(launch.measured_workers)
        squares += max(0.0, math.fsum((mean - middle) ** 2 for mean in means) - (len(means) - 1) * own)
        degrees += len(means) - 1
    return _pooled(squares, degrees, assumed) if degrees else 0.0


def _pooled(squares: float, degrees: int, assumed: float) -> float:
    return math.sqrt((squares + PRIOR_WEIGHT * assumed**2) / (degrees + PRIOR_WEIGHT))


def log_rate_of(launches: Sequence[Measurement], spreads: Spreads) -> LogRate:
    """Return the mean of launches of one shape."""
    rates = [_rates(launch.measured_workers) for launch in launches]
    means = [math.log(math.fsum(each) / len(each)) for each in rates]
    workers = sum(map(len, rates))
    own = math.fsum(_window_variance(launch.measured_workers) for launch in launches) / len(launches)
    variance = spreads.launch**2 / len(launches) + (spreads.process**2 + own) / workers
    return LogRate(math.fsum(means) / len(means), variance)


def _rates(workers: Iterable[WorkerResult]) -> list[float]:
    return [worker.samples_per_s.estimate for worker in workers if worker.samples_per_s is not None]


def _window_variance(workers: Sequence[WorkerResult]) -> float:
    """Return the mean squared error of one worker's own window."""
    errors = [log_error(worker.samples_per_s) ** 2 for worker in workers if worker.samples_per_s is not None]
    return math.fsum(errors) / len(errors)


# --- the two curves -------------------------------------------------------------------------------------------------------------


class Curve:
    """A rate over the CPUs of a worker, through points that were measured."""

    def __init__(self, points: dict[int, LogRate]) -> None:
        self.points = sorted(points.items())

    def at(self, cpus: float) -> LogRate:
        """Return the rate at any number of CPUs: Amdahl's law between two points, in proportion below, Amdahl's law beyond.

        Between two points the variance is that of the line through them, and of what is not known of the shape (a Brownian bridge).
        """
        sizes = [size for size, _ in self.points]
        if cpus <= sizes[0]:
            size, point = self.points[0]
            # A smaller worker may wait as long as this one does: anything between its rate and a proportional one.
            return LogRate(point.mean + math.log(cpus / size), point.variance + (math.log(size / cpus) / 2) ** 2)
        if cpus >= sizes[-1]:
            return self._beyond(cpus)
        upper = next(index for index, size in enumerate(sizes) if size >= cpus)
        (left, below), (right, above) = self.points[upper - 1], self.points[upper]
        doublings, share = math.log2(right / left), math.log2(cpus / left) / math.log2(right / left)
        mean = below.mean + _amdahl(right / left, math.exp(above.mean - below.mean), cpus / left)
        line = (1 - share) ** 2 * below.variance + share**2 * above.variance
        return LogRate(mean, line + ASSUMED.shape**2 * doublings * share * (1 - share))

    def _beyond(self, cpus: float) -> LogRate:
        (first, lowest), (last, highest) = self.points[0], self.points[-1]
        if cpus == last:
            return highest
        doublings = math.log2(cpus / last)
        growth = 0.0
        if last > first:
            grown = math.exp(highest.mean - lowest.mean)
            growth = max(0.0, _amdahl(last / first, grown, cpus / first) - math.log(grown))
        return LogRate(highest.mean + growth, highest.variance + (2 * ASSUMED.shape) ** 2 * doublings)


def _amdahl(size: float, grown: float, larger: float) -> float:
    """Return the logarithm of the growth at `larger`, by the law X(n) = n / (1 + s (n - 1)) through X(size) = grown.

    A growth of more than `size` follows a power of the size.
    """
    serial = (size / grown - 1) / (size - 1)
    if serial <= 0:
        return math.log(grown) * math.log(larger) / math.log(size)
    return math.log(larger / (1 + serial * (larger - 1)))


class Surface:
    """The rate of one of several workers on a node."""

    def __init__(self, points: Sequence[RatePoint], host_cpus: int) -> None:
        lone = {point.cpus: _log_rate(point) for point in points if point.tasks == 1}
        self.lone = Curve(lone)
        full: dict[int, list[LogRate]] = defaultdict(list)
        for point in points:
            if point.tasks == 1:
                continue
            alone, share = self.lone.at(point.cpus), occupancy(point.tasks, point.cpus, host_cpus)
            rate = _log_rate(point)
            mean = alone.mean + (rate.mean - alone.mean) / share
            full[point.cpus].append(LogRate(mean, (rate.variance + (1 - share) ** 2 * alone.variance) / share**2))
        together = {cpus: _weighted(found) for cpus, found in full.items()}
        if host_cpus in lone:
            together[host_cpus] = lone[host_cpus]
        self.has_neighbours = bool(full)
        self.full = Curve(together) if together else self.lone

    def at(self, tasks: int, cpus: int, node_cpus: int) -> LogRate:
        """Return the rate of one of `tasks` workers of `cpus` CPUs on a node of `node_cpus` CPUs."""
        lone, share = self.lone.at(cpus), occupancy(tasks, cpus, node_cpus)
        if not share or not self.has_neighbours:
            return LogRate(lone.mean, lone.variance + (share * ASSUMED.shape) ** 2)
        full = self.full.at(cpus)
        mean = lone.mean + share * (full.mean - lone.mean)
        return LogRate(mean, (1 - share) ** 2 * lone.variance + share**2 * full.variance + share * (1 - share) * ASSUMED.shape**2)


def _log_rate(point: RatePoint) -> LogRate:
    return LogRate(math.log(point.samples_per_s.estimate), log_error(point.samples_per_s) ** 2)


def occupancy(tasks: int, cpus: int, node_cpus: int) -> float:
    """Return how full a node is, 0 for a lone worker, 1 if its workers have all CPUs: as the clock falls, with the logarithm."""
    if tasks <= 1:
        return 0.0
    return min(1.0, math.log(tasks) / math.log(node_cpus / cpus)) if node_cpus > cpus else 1.0


def _weighted(found: Sequence[LogRate]) -> LogRate:
    weights = [1 / max(one.variance, EXACT) for one in found]
    mean = math.fsum(weight * one.mean for weight, one in zip(weights, found, strict=True)) / math.fsum(weights)
    return LogRate(mean, 1 / math.fsum(weights))

"""What workers would have delivered on CPUs that they had to themselves: the level that plans for exclusive nodes rest on. Pure.

Two things that are not the pipeline's make a worker slower, and both are measured while it runs. Others had a share of its CPUs
(the kernel's own account). And its CPUs were slower than they can be: a neighbour on the same core, which no counter of a virtual
machine shows, the clock, a throttled host; a reference loop beside the pipeline meets what the pipeline meets. Of a loop that takes
x times as long a pipeline feels x to the power of `FELT_EXPONENT`: it was between 0.5 and 0.9 in four pipelines
(docs/measurements.md).

The loop is compared with its fastest in launches that use as many CPUs of a node, or more: what workers of one launch do to each
other is the pipeline's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from cs_input_analyzer.model.estimates import NORMAL_95, from_log, log_error, student_t, total
from cs_input_analyzer.records import Estimate, Layout, Measurement, Noise, QuietLoop, WorkerResult

FELT_EXPONENT, FELT_ERROR = 0.75, 0.15
# Of what others had, such a share is not known to have been the worker's loss: one standard deviation. Where they had more than
# half of the CPUs, rates at the quiet level were off by 13 to 29 % (docs/measurements.md).
OTHERS_ERROR_RATIO = 0.2
# A worker that was left less says nothing of a quiet host.
MOST_TAKEN_RATIO = 0.9
# Assumption: at another hour the same host gives so much more or less (one standard deviation); where it is busy now, it may then
# be quiet, or as much busier again.
HOUR_SPREAD_RATIO = 0.05


def with_known_loops(launch: Measurement, known: Sequence[QuietLoop]) -> Measurement:
    """The same launch, its loops compared with the fastest that earlier runs saw on this host, too."""
    fastest_s = min((loop.cpu_s for loop in known if loop.cpus >= launch.layout.cpus_per_node), default=math.inf)

    def compared(noise: Noise | None) -> Noise | None:
        if noise is None or noise.undisturbed_s is None or noise.reference_s is None or noise.undisturbed_s <= fastest_s:
            return noise
        return replace(noise, undisturbed_s=fastest_s, reference_ratio=fastest_s / noise.reference_s)

    workers = tuple(replace(worker, noise=compared(worker.noise)) for worker in launch.workers)
    return replace(launch, workers=workers, noise=compared(launch.noise))


def at_quiet_level(measurements: Sequence[Measurement], *, is_compared: bool = False) -> tuple[Measurement, ...]:
    """The same launches at the rates and the CPU times that their workers would have had; as they are where nothing was seen.

    Args:
        is_compared: with others that the same correction is made to: what is not known of it is no part of the intervals.
    """
    fastest_s = fastest_loops_s(measurements)
    return tuple(
        _launch(launch, min((s for cpus, s in fastest_s.items() if cpus >= launch.layout.cpus_per_node), default=None), is_compared)
        for launch in measurements
    )


def fastest_loops_s(measurements: Iterable[Measurement]) -> dict[int, float]:
    """CPU seconds of the fastest reference loop that workers met, by the CPUs of a node that their launches used."""
    fastest_s: dict[int, float] = {}
    for launch in measurements:
        for worker in launch.workers:
            loop_s = worker.noise.undisturbed_s if worker.noise is not None else None
            if loop_s is not None:
                cpus = launch.layout.cpus_per_node
                fastest_s[cpus] = min(loop_s, fastest_s.get(cpus, math.inf))
    return fastest_s


def _launch(launch: Measurement, undisturbed_s: float | None, is_compared: bool) -> Measurement:
    workers = tuple(_quiet(worker, launch.layout, undisturbed_s, is_compared) for worker in launch.workers)
    rates = [worker.samples_per_s for worker in workers if worker.samples_per_s is not None]
    is_as_it_was = workers == launch.workers or not rates
    return launch if is_as_it_was else replace(launch, workers=workers, samples_per_s=total(rates))


def _quiet(worker: WorkerResult, layout: Layout, undisturbed_s: float | None, is_compared: bool) -> WorkerResult:
    rate, noise = worker.samples_per_s, worker.noise
    if rate is None or rate.estimate <= 0 or noise is None:
        return worker
    used_ratio = 1.0 if worker.cpu_s_per_sample is None else rate.estimate * worker.cpu_s_per_sample / layout.cpus_per_task
    taken = _taken(used_ratio, noise, undisturbed_s)
    if taken.left_ratio == 1 and not taken.slow_log:
        return worker
    own_error = log_error(rate) if noise.quiet_error_log is None else min(noise.quiet_error_log, log_error(rate))
    error = math.hypot(own_error, 0.0 if is_compared else taken.error_log)
    return replace(
        worker,
        samples_per_s=from_log(math.log(rate.estimate / taken.kept_ratio), NORMAL_95 * error, rate.count),
        cpu_s_per_sample=None if worker.cpu_s_per_sample is None else worker.cpu_s_per_sample * taken.speed_ratio,
    )


class _Taken(NamedTuple):
    """What others took from a worker: the share of its CPUs that they left it, how much slower those ran (natural logarithm), and
    the part of a sample's time that the CPUs had to do with."""

    left_ratio: float
    slow_log: float
    busy_ratio: float

    @property
    def speed_ratio(self) -> float:
        return math.exp(-FELT_EXPONENT * self.slow_log)

    @property
    def error_log(self) -> float:
        """What is not known of that, one standard deviation of the logarithm of the rate at the quiet level."""
        return self.busy_ratio * math.hypot(FELT_ERROR * self.slow_log, OTHERS_ERROR_RATIO * math.log(self.left_ratio))

    @property
    def kept_ratio(self) -> float:
        """The rate over that at the quiet level (Amdahl's law)."""
        return 1 - self.busy_ratio + self.busy_ratio * self.left_ratio * self.speed_ratio


def _taken(used_ratio: float, noise: Noise, undisturbed_s: float | None) -> _Taken:
    """`used_ratio`: of its CPUs' time, what the worker used.

    The CPUs had to do with as much as the worker used of what others left, and with no more than it ran, queued for one, or had it
    taken by the hypervisor: a worker that waits for its storage leaves others all they want, and loses nothing to them.
    """
    slow_log = max(0.0, math.log(noise.reference_s / undisturbed_s)) if noise.reference_s and undisturbed_s else 0.0
    left_ratio = 1 - min(noise.others_ratio or 0.0, MOST_TAKEN_RATIO)
    queued_ratio = math.inf if noise.run_queue_wait_ratio is None else noise.run_queue_wait_ratio
    wanted_ratio = used_ratio * (1 + queued_ratio) + (noise.steal_ratio or 0.0)
    return _Taken(left_ratio, slow_log, min(1.0, used_ratio / left_ratio, wanted_ratio))


def kept_ratio(used_ratio: float, noise: Noise) -> float:
    """What a worker got of its quiet level in a time in which it used this share of its CPUs."""
    return _taken(used_ratio, noise, noise.undisturbed_s).kept_ratio


def slowed_log(launches: Sequence[Measurement]) -> float | None:
    """Natural logarithm of what CPUs that others use, and that run slower, leave of a busy worker's rate, mean of all workers of
    the launches; None where it was not recorded."""
    found = [
        math.log(1 - min(noise.others_ratio, MOST_TAKEN_RATIO)) + FELT_EXPONENT * math.log(noise.reference_ratio or 1.0)
        for launch in launches
        for worker in launch.workers
        if (noise := worker.noise) is not None and noise.others_ratio is not None
    ]
    return math.fsum(found) / len(found) if found else None


def host_ratio(measured: Sequence[Measurement], quiet: Sequence[Measurement]) -> Estimate:
    """What launches on this host get of their quiet level, now and at another hour; exactly 1 where nothing was seen.

    Args:
        quiet: the same launches `at_quiet_level`.
    """
    logs = [
        math.log(mine.samples_per_s.estimate / theirs.samples_per_s.estimate)
        for one, other in zip(measured, quiet, strict=True)
        for mine, theirs in zip(one.workers, other.workers, strict=True)
        if mine.samples_per_s is not None
        and theirs.samples_per_s is not None
        and theirs.samples_per_s.estimate > 0
        and mine.noise
        and mine.noise.others_ratio is not None
    ]
    if not logs:
        return Estimate.exact(1.0)
    mean = math.fsum(logs) / len(logs)
    apart = math.sqrt(math.fsum((log - mean) ** 2 for log in logs) / max(1, len(logs) - 1))
    error = math.hypot(apart, max(HOUR_SPREAD_RATIO, abs(mean) / NORMAL_95))
    found = from_log(mean, student_t(len(logs)) * error, len(logs))
    return replace(found, high=max(found.estimate, min(found.high, 1.0)))  # no host gives more than its quiet level


def at_other_hours(now: Estimate, earlier: Sequence[float]) -> Estimate:
    """What launches get of the quiet level, with an interval that holds what those of earlier runs got, too: a host that is quiet
    now may have been busy all day. As it is where nothing was seen now or before."""
    logs = [math.log(ratio) for ratio in earlier if 0 < ratio <= 1]
    if not logs or now.low == now.high or now.low <= 0:
        return now
    mean = math.log(now.estimate)
    apart = NORMAL_95 * math.sqrt(math.fsum((log - mean) ** 2 for log in logs) / len(logs))
    low = math.exp(mean - math.hypot(mean - math.log(now.low), apart))
    return replace(now, low=low, high=max(now.high, min(1.0, math.exp(mean + apart))))

"""How long the accelerator stood still for want of input. Pure.

A framework that dispatches asynchronously lets the host run ahead: the host may wait at `next()` while the accelerator is still
busy with the batches before. So the host's wait says something only over an interval that begins and ends with an idle
accelerator, at the user's synchronisations or log steps. There, dispatches d_1 … d_n and the end E are known, and with a step of
c seconds the accelerator ends at max_j (d_j + (n - j + 1) c) (Lindley 1952). That this is E gives c = min_j (E - d_j) / (n - j +
1), and what remains of the interval, T - n c, it stood still: for input, as far as the host was waiting for input meanwhile. Where
every step is synchronous this is the host's wait exactly; where the accelerator is always behind, it is nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from cs_input_analyzer.monitoring.phases import Phase, Step
from cs_input_analyzer.records import Estimate
from cs_input_analyzer.stats.estimates import NORMAL_95

KEPT_DISPATCHES = 4096
"""Of an interval that nothing ends; the bound on c from the last ones stays true."""

COMPUTE_ERROR_RATIO = 0.15
"""An interval of several steps takes c from one or two of them; a busy host changes those by about as much."""

MOST_BLOCKS = 32
ENOUGH_BLOCKS = 5


class Interval(NamedTuple):
    """Between two synchronisations, steady throughout and on a clock that ran forwards.

    Attributes:
        steps: training steps; `duration_s`: from the first ask for input to the end; `wait_s`: of the host, for input.
        compute_s: the accelerator's time for one step, as this interval shows it.
    """

    steps: int
    duration_s: float
    wait_s: float
    compute_s: float


@dataclass(slots=True)
class OpenInterval:
    """An interval in the making, on a clock that stands still while the data begin again.

    `is_sound`: all of it was seen, on a clock that ran forwards, and all steady; otherwise it does not count.
    """

    began_s: float | None = None
    dispatches: list[tuple[float, int]] = field(default_factory=list)
    steps: int = 0
    wait_s: float = 0.0
    removed_s: float = 0.0
    is_sound: bool = True

    def reset(self) -> None:
        """Begins the next one."""
        self.began_s, self.steps = None, 0
        self.dispatches.clear()
        self.wait_s = self.removed_s = 0.0
        self.is_sound = True


def add(interval: OpenInterval, step: Step, phase: Phase) -> Interval | None:
    """Adds a step, in order; gives the interval where the step ended it and it counts.

    The first step of the run is left out. Of one that opens a pass only the wait is: the interval goes on around it.
    """
    if phase in ("start_up", "fill") or step.wait_s is None:
        interval.reset()
        return None
    if interval.began_s is None:
        interval.began_s = step.asked_s
    if phase == "epoch_edge":
        interval.removed_s += step.wait_s
    else:
        interval.wait_s += step.wait_s
        interval.is_sound &= phase == "steady"
    interval.steps += step.steps
    interval.dispatches.append((step.asked_s + step.wait_s - interval.removed_s, step.steps))
    if len(interval.dispatches) > KEPT_DISPATCHES:
        del interval.dispatches[: KEPT_DISPATCHES // 2]
    if step.ended_by not in ("sync", "log"):
        return None
    closed = _closed(interval, step)
    interval.reset()
    return closed


def _closed(interval: OpenInterval, step: Step) -> Interval | None:
    assert interval.began_s is not None
    end = step.asked_s + step.duration_s - interval.removed_s
    duration = end - interval.began_s
    if not interval.is_sound or duration <= 0:
        return None
    return Interval(interval.steps, duration, interval.wait_s, _compute_s(interval.dispatches, end))


def _compute_s(dispatches: Sequence[tuple[float, int]], end_s: float) -> float:
    """The longest step that is over by `end_s`: the least mean time from any dispatch to the end, over the steps from there on."""
    least, steps = math.inf, 0
    for dispatched_s, count in reversed(dispatches):
        steps += count
        least = min(least, (end_s - dispatched_s) / steps)
    return max(0.0, least)


def starved_s(intervals: Sequence[Interval]) -> tuple[float, ...]:
    """Seconds of each interval in which the accelerator stood still for want of input.

    In an interval of one step its own c is the truth. In longer ones c leans on one or two steps, so the median over all counts.
    """
    longer = [interval.compute_s for interval in intervals if interval.steps > 1]
    typical = median(longer) if longer else 0.0
    return tuple(
        min(one.wait_s, max(0.0, one.duration_s - one.steps * (typical if one.steps > 1 else one.compute_s))) for one in intervals
    )


def wait_share(intervals: Sequence[Interval]) -> Estimate | None:
    """Share of time that the accelerator waited for input; `count` is how many intervals it is of. None without one.

    The interval of the share: of a ratio of means over blocks of neighbouring intervals (Cochran 1977, ch. 6), Student's t. Fewer
    than five show too little of their own scatter: there it is what c may be off by, up to what the host waited.
    """
    if not intervals:
        return None
    total, count = math.fsum(interval.duration_s for interval in intervals), len(intervals)
    starved = starved_s(intervals)
    share = min(1.0, math.fsum(starved) / total)
    if count >= ENOUGH_BLOCKS:
        half = _between(list(zip(starved, (one.duration_s for one in intervals), strict=True)), share)
        return Estimate(estimate=share, low=max(0.0, share - half), high=min(1.0, share + half), count=count)
    busy = math.fsum(one.steps * one.compute_s for one in intervals if one.steps > 1) / total
    half = COMPUTE_ERROR_RATIO * busy / math.sqrt(count)
    waited = min(1.0, math.fsum(one.wait_s for one in intervals) / total)
    return Estimate(estimate=share, low=max(0.0, share - half), high=max(share, min(share + half, waited)), count=count)


def _between(pairs: Sequence[tuple[float, float]], share: float) -> float:
    size = -(-len(pairs) // MOST_BLOCKS)
    blocks = [pairs[at : at + size] for at in range(len(pairs) % size, len(pairs), size)]
    residuals = [math.fsum(wait - share * time for wait, time in block) for block in blocks]
    total = math.fsum(time for block in blocks for _, time in block)
    count = len(blocks)
    variance = count / (count - 1) * math.fsum(residual * residual for residual in residuals)
    return student_t(count - 1) * math.sqrt(variance) / total


def student_t(degrees: int) -> float:
    """Two-sided 90 % quantile of Student's t from 4 degrees on, within 0.1 % (Abramowitz and Stegun 1964, 26.7.5).

    Not SciPy's: its import would stop a training for tenths of a second.
    """
    z = NORMAL_95
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / degrees + second / degrees**2 + third / degrees**3

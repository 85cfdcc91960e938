"""Steps and times -> rates: how fast the run trained, how fast it did between its stalls, and whether its own Rate agrees. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median

import numpy as np

from cs_input_analyzer.measure.steady_state import rate_of, steady_window
from cs_input_analyzer.monitor.rates import SMOOTHING
from cs_input_analyzer.monitor.reading.grammar import Finished
from cs_input_analyzer.monitor.reading.steps import Interval, RatePoint, StepSeries
from cs_input_analyzer.records import Estimate

STALL_RATIO = 2.0
"""Steps that take this many times the usual time each hold a stall."""

REGULAR_SPREAD_RATIO = 0.25
"""Stalls come at regular steps where the standard deviation of their distances is below this share of the mean."""

ROUNDED = 0.005
"""Rates are printed with two decimals."""

FINE_STAMP_RATIO = 1e-4
LEAST_FIT_POINTS = 3
FIT_ERROR_RATIO = 0.02
WHOLE_RATIO = 0.005
MOST_BATCH = 10**7


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """What a series of steps says about speed. Steps per second; samples where a batch size is known.

    Attributes:
        usual_steps_per_s: what half of the steps reach; between stalls, that is.
        burst_ratio: Rate as logged over the throughput from line to line, the middle one: well above 1 where the steps of one
            interval come in a burst and Rate, sampled at each of them, tells of the burst alone. None without a batch size.
        stalls: the longest, by start; `stall_count` and `stall_lost_s` all of them, as far as bins of 2 % tell.
        stall_every_steps: their distance where it is regular.
        explained: intervals that hold a checkpoint, an evaluation or a set-up.
    """

    batch_size: float | None
    steady_steps_per_s: Estimate | None
    usual_steps_per_s: float | None
    burst_ratio: float | None
    plain_s: float
    plain_steps: int
    stalls: tuple[Interval, ...]
    stall_count: int
    stall_lost_s: float
    stall_every_steps: float | None
    explained: tuple[Interval, ...]
    rate_error_ratio: float | None
    rate_lines: int

    @property
    def stall_share_ratio(self) -> float | None:
        """Share of the plain time that the stalls took beyond the usual time of their steps."""
        return self.stall_lost_s / self.plain_s if self.plain_s > 0 else None


def pace_of(series: StepSeries, finished: Finished | None, *, batch_size: float | None = None) -> Pace:
    """The summary of a series; everything in it that was not seen is None or empty. `batch_size`: where it is known."""
    batch_size = batch_size or batch_size_of(series, finished)
    intervals = series.plain_intervals()
    usual = series.usual_pace_s()
    stalls, count, lost_s = _stalls(series, usual)
    points = series.rate_points
    bursts = [point.rate * point.seconds / point.steps / batch_size for point in points] if batch_size else []
    errors = _rate_errors(points, batch_size) if batch_size else []
    return Pace(
        batch_size=batch_size,
        steady_steps_per_s=_steady(intervals),
        usual_steps_per_s=1 / usual if usual else None,
        burst_ratio=median(bursts) if bursts else None,
        plain_s=sum(seconds for _, seconds in intervals),
        plain_steps=sum(steps for steps, _ in intervals),
        stalls=stalls,
        stall_count=count,
        stall_lost_s=lost_s,
        stall_every_steps=_regular_distance(stalls) if count == len(stalls) else None,
        explained=tuple(series.explained),
        rate_error_ratio=max(errors) if errors else None,
        rate_lines=len(errors),
    )


def batch_size_of(series: StepSeries, finished: Finished | None) -> float | None:
    """Samples of a step, from the totals of the run, or from GlobalRate and the time stamps; None where neither tells."""
    rough = _fitted_batch_size(series)
    samples = finished.samples if finished is not None else 0
    if samples > 0 and series.first is not None and series.last is not None:
        whole = samples / max(1, series.last.step - _steps_before(series))
        is_near = rough is None or abs(whole / rough - 1) < FIT_ERROR_RATIO
        if whole == int(whole) and is_near:
            return whole
        rough = rough or _stated_batch_size(series, finished)
        if rough is not None and 1 <= rough < MOST_BATCH:
            return _divisor_near(samples, rough) or rough
    if rough is None:
        return None
    return float(round(rough)) if round(rough) >= 1 and abs(rough - round(rough)) <= WHOLE_RATIO * rough else rough


def _steps_before(series: StepSeries) -> int:
    """The step that the run began from: one log interval before its first line (not known better), and not below 0."""
    assert series.first is not None
    return max(0, series.first.step - series.first_gap_steps) if series.first_gap_steps else 0


def _stated_batch_size(series: StepSeries, finished: Finished | None) -> float | None:
    """Of an Estimator: samples per second of the whole training over its last steps per second."""
    if finished is None or not series.last_steps_per_s:
        return None
    stated = finished.samples_per_s or (finished.samples / finished.seconds if finished.seconds else None)
    return stated / series.last_steps_per_s if stated else None


def _divisor_near(samples: int, rough: float) -> float | None:
    """A run has a whole number of steps, so the batch size divides its samples."""
    low, high = math.ceil(rough * (1 - FIT_ERROR_RATIO / 2)), math.floor(rough * (1 + FIT_ERROR_RATIO / 2))
    divisors = [number for number in range(max(1, low), high + 1) if samples % number == 0]
    return float(min(divisors, key=lambda number: abs(number - rough))) if divisors else None


def _fitted_batch_size(series: StepSeries) -> float | None:
    """GlobalRate = step × batch / elapsed (where steps count from 0), so stamps grow by the batch size with step / GlobalRate."""
    if len(series.elapsed) < LEAST_FIT_POINTS:
        return None
    stamps, per_sample = np.asarray(series.elapsed, dtype=np.float64).T
    x, y = per_sample - per_sample.mean(), stamps - stamps.mean()
    spread = float(np.dot(x, x))
    if not spread > 0:
        return None
    slope = float(np.dot(x, y)) / spread
    residual = float(np.abs(y - slope * x).max())
    span = float(stamps.max() - stamps.min())
    return slope if math.isfinite(slope) and slope > 0 and residual <= FIT_ERROR_RATIO * span else None


def _steady(intervals: list[tuple[int, float]]) -> Estimate | None:
    """Steps per second with its interval: the intervals as equal portions of steps, their transient cut, in batch means."""
    if not intervals:
        return None
    steps, seconds = (np.concatenate(([0.0], np.cumsum(column))) for column in zip(*intervals, strict=True))
    # No more portions than the widest interval allows: within one nothing was seen, and equal parts of it would seem to agree.
    count = max(1, int(steps[-1] // max(each for each, _ in intervals)))
    window = steady_window(np.interp(np.linspace(0.0, steps[-1], count + 1), steps, seconds))
    if window is None or not window.gap_s.low > 0:
        return None
    return rate_of(window.gap_s, float(steps[-1]) / count)


def _stalls(series: StepSeries, usual_s: float | None) -> tuple[tuple[Interval, ...], int, float]:
    if usual_s is None:
        return (), 0, 0.0
    limit_s = STALL_RATIO * usual_s
    count, lost_s = 0, 0.0
    for steps, seconds, number in series.slower_than(limit_s):
        count += int(number)
        lost_s += seconds - steps * usual_s
    slow = [interval for _, _, interval in series.longest if interval.pace_s > limit_s]
    return tuple(sorted(slow, key=lambda interval: interval.step)), max(count, len(slow)), lost_s


def _regular_distance(stalls: tuple[Interval, ...]) -> float | None:
    if len(stalls) < 4:
        return None
    distances = np.diff([interval.step for interval in stalls]).astype(np.float64)
    mean = float(distances.mean())
    return mean if mean > 0 and float(distances.std()) <= REGULAR_SPREAD_RATIO * mean else None


def _rate_errors(points: list[RatePoint], batch_size: float) -> list[float]:
    """How far each logged Rate is from the smoothed local rate, beyond what rounding to two decimals explains."""
    errors = []
    for point in points:
        if point.resolution_s > FINE_STAMP_RATIO * point.seconds:
            continue
        again = (1 - SMOOTHING) * batch_size * point.steps / point.seconds + SMOOTHING * point.before
        errors.append(max(0.0, abs(again - point.rate) - (1 + SMOOTHING) * ROUNDED) / point.rate)
    return errors

"""Step lines of a log -> samples of a step, how fast the run trained, and how fast it did between its gaps. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from cs_input_analyzer.records import Estimate, Stall, StallCause, StepSpan
from cs_input_analyzer.runs.console_log import StepTable, Writer
from cs_input_analyzer.runs.grammar import Line
from cs_input_analyzer.runs.rates import SMOOTHING
from cs_input_analyzer.runs.table import (
    CAUSES,
    CHECKPOINT,
    GAP_RATIO,
    Booleans,
    Floats,
    Integers,
    Intervals,
    Kind,
    kinds_of,
    steady_rate,
    usual_pace_s,
)

# Rates are printed with two decimals.
ROUNDED = 0.005
FIT_ERROR_RATIO = 0.02
WHOLE_RATIO = 0.005
# Any two lines would fit.
FEWEST_LINES = 3


def batch_size_of(table: StepTable, finished: Line | None) -> float | None:
    """Return the samples of a step, from the totals of the run, or from its rates and stamps; None if neither shows them.

    Totals need the step that the run began from. A log whose first lines were cut does not have it, nor does a run that went on
    from a checkpoint. So both are tried, and the rates decide.
    """
    # After a restart GlobalRate counts anew: then the lines on one side of it agree.
    rough = _seen_batch_size(table) or _seen_batch_size(_longest_piece(table)) or _stated_batch_size(table, finished)
    samples = finished.samples or 0 if finished is not None else 0
    if samples > 0 and len(table.step):
        steps = table.step
        # The run began from no step, or one log interval before its first line.
        began = {0, *([max(0, int(steps[0] - (steps[1] - steps[0])))] if len(steps) > 1 else [])}
        whole = {samples / (float(steps[-1]) - first) for first in began if steps[-1] > first}
        near = [each for each in whole if each == int(each) and (rough is None or abs(each / rough - 1) < FIT_ERROR_RATIO)]
        if len(near) == 1:
            return near[0]
    if rough is None or round(rough) < 1 or abs(rough - round(rough)) > WHOLE_RATIO * rough:
        return rough
    return float(round(rough))


def _longest_piece(table: StepTable) -> StepTable:
    """Return the most lines in a row without a gap between them; none if that are fewer than three."""
    with np.errstate(divide="ignore", invalid="ignore"):
        pace_s = np.diff(table.clock[0]) / np.diff(table.step)
    known = pace_s[np.isfinite(pace_s)]
    is_even = (pace_s > 0) & (pace_s <= GAP_RATIO * (np.median(known) if len(known) else 0.0))
    pieces = np.split(np.arange(len(table.step)), np.flatnonzero(~is_even) + 1)
    longest = max(pieces, key=len)
    return table.rows(longest if len(longest) >= FEWEST_LINES else longest[:0])


def _stated_batch_size(table: StepTable, finished: Line | None) -> float | None:
    """Return those of an Estimator: samples per second of the whole training over its last steps per second."""
    printed = table.steps_per_s[np.isfinite(table.steps_per_s)]
    stated = average_rate(finished)
    return stated / float(printed[-1]) if stated and len(printed) and printed[-1] > 0 else None


def average_rate(finished: Line | None) -> float | None:
    """Return samples per second of a whole training: as its last line states them, else its samples over its seconds."""
    if finished is None:
        return None
    return finished.rate or (
        finished.samples / finished.duration_s if finished.samples is not None and finished.duration_s else None
    )


def _seen_batch_size(table: StepTable) -> float | None:
    """Return the samples of a step as the printed rates imply them: beside rates in steps, else beside the time stamps.

    GlobalRate = step × batch / elapsed (where steps count from 0), so stamps grow by the batch size with step / GlobalRate.
    """
    (at_s, resolution_s), step, total = table.clock, table.step, table.global_rate
    per_step = total / np.where(table.steps_per_s > 0, table.steps_per_s, np.nan)
    if np.isfinite(per_step).any():
        return float(np.median(per_step[np.isfinite(per_step)]))
    known = np.isfinite(at_s) & (total > 0)
    if known.sum() < 2:
        return None
    stamps, per_sample = at_s[known], step[known] / total[known]
    x, y = per_sample - per_sample.mean(), stamps - stamps.mean()
    spread, span = float(np.dot(x, x)), float(np.ptp(stamps))
    # What is rounded off the stamps and the rates, as a share of what they span.
    rounding = (per_sample * ROUNDED / total[known]).max() / np.ptp(per_sample) if spread > 0 else math.inf
    coarse = resolution_s[known].max() / span if span > 0 else math.inf
    if not rounding + coarse < FIT_ERROR_RATIO:
        return None
    slope = float(np.dot(x, y)) / spread
    residual = float(np.abs(y - slope * x).max())
    if not (math.isfinite(slope) and slope > 0 and residual <= FIT_ERROR_RATIO * span):
        return None
    if known.sum() > 2:
        return slope
    # Any two points lie on a line, so Rate has to agree. It is 0.6 of the local rate and 0.4 of the Rate before.
    local = (table.rate - SMOOTHING * table.before["rate"]) / (1 - SMOOTHING)
    by_rate = (local * (table.t_s - table.before["t_s"]) / (step - table.before["step"]))[known][-1]
    return slope if abs(by_rate / slope - 1) < 2 * (FIT_ERROR_RATIO + coarse) else None


# A checkpoint in a gap is a small part of it if the gap takes no longer than the longest lost one by this factor.
LIKE_GAP_RATIO = 1.5
MOST_SHOWN = 20
# Spans of a picture that the eye can tell apart.
MOST_SPANS = 120
# A steady rate above every printed rate, or below half of them, contradicts them. One line's local rate is at most Rate / 0.6.
PRINTED_RATIO, PRINTED_LOW_RATIO = 1.1, 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The speed of a series of steps. Steps per second; samples if a batch size is known and nothing contradicts it.

    Attributes:
        usual_steps_per_s: what half of the steps reach.
        burst_ratio: the middle of Rate over the throughput from line to line. It is well above 1 if the steps of an interval come
            in a burst and Rate shows the burst alone. None without a batch size.
        spans: all steps, for a picture.
        pauses: the longest gaps, by start, on the scale of the stamps; the counts and seconds are of all.
        stall_share_ratio: share of the plain time that lost gaps took beyond the usual time of their steps.
        holds_checkpoints: whether every interval has one, so that the steady rate includes them.
    """

    batch_size: float | None
    steady_steps_per_s: Estimate | None
    usual_steps_per_s: float | None
    burst_ratio: float | None
    plain_steps: int
    pauses: tuple[Stall, ...]
    spans: tuple[StepSpan, ...]
    causes: tuple[StallCause, ...]
    stall_count: int
    stall_share_ratio: float
    explained_s: float
    made_up_count: int
    made_up_s: float
    holds_checkpoints: bool
    contradiction: str
    backward_stamps: int


def pace_of(writer: Writer, finished: Line | None, *, batch_size: float | None = None, saved: tuple[int, ...] = ()) -> Pace:
    """Return the pace of a writer's steps.

    Args:
        batch_size: as the monitor states it.
        saved: steps of the checkpoints that lie beside the log, rising.
    """
    table = writer.table()
    intervals, backward_stamps = table.intervals()
    usual_s = usual_pace_s(intervals)
    if usual_s is not None:
        intervals = replace(intervals, cause=_with_saved(intervals, usual_s, saved))
    # Without a plain interval, each one has something that explains it.
    kinds = kinds_of(intervals, usual_s) if usual_s is not None else np.full(len(intervals.seconds), Kind.EXPLAINED)
    plain, lost, made_up, explained = kinds <= Kind.LOST, kinds == Kind.LOST, kinds == Kind.READ_LATE, kinds == Kind.EXPLAINED
    lost_s = intervals.seconds - (usual_s or 0.0) * intervals.steps
    counted = plain | _counted_with_checkpoints(intervals, kinds, lost_s)
    steady = steady_rate(intervals.steps[counted], intervals.seconds[counted])
    batch, contradiction = _batch_size(table, finished, batch_size, steady)
    plain_s = float(intervals.seconds[plain].sum())
    return Pace(
        batch_size=batch,
        steady_steps_per_s=steady,
        usual_steps_per_s=1 / usual_s if usual_s else None,
        burst_ratio=_burst_ratio(table, intervals, kinds, batch),
        plain_steps=int(intervals.steps[plain].sum()),
        pauses=_longest(intervals, kinds, lost_s),
        spans=_spans(intervals),
        causes=tuple(CAUSES[cause] for cause in np.unique(intervals.cause[explained])),
        stall_count=int(lost.sum()),
        stall_share_ratio=float(lost_s[lost].sum()) / plain_s if plain_s > 0 else 0.0,
        explained_s=float(intervals.seconds[explained].sum()),
        made_up_count=int(made_up.sum()),
        made_up_s=float(intervals.seconds[made_up].sum()),
        holds_checkpoints=steady is not None and not plain.any(),
        contradiction=contradiction,
        backward_stamps=backward_stamps,
    )


def _with_saved(intervals: Intervals, usual_s: float, saved: tuple[int, ...]) -> Integers:
    """Return the causes, with a checkpoint in each slow interval that holds a saved step.

    From the first step to the last, both included: a step is saved before its line is written, or after it.
    """
    slow = intervals.seconds > GAP_RATIO * usual_s * intervals.steps
    last = intervals.step + intervals.steps.astype(np.int64)
    is_saved = np.searchsorted(saved, last, side="right") > np.searchsorted(saved, intervals.step, side="left")
    return np.where((intervals.cause == 0) & slow & is_saved, CHECKPOINT, intervals.cause)


def _counted_with_checkpoints(intervals: Intervals, kinds: Integers, lost_s: Floats) -> Booleans:
    """Return the intervals with a checkpoint that count for the steady rate all the same.

    If every interval has one, there is nothing else. In a run with lost gaps, intervals that took little longer than these count,
    or the gaps in them would be missing.
    """
    saved: Booleans = intervals.cause == CHECKPOINT
    left_out: Booleans = kinds == Kind.LEFT_OUT
    if not (kinds <= Kind.LOST).any():
        return saved | left_out
    lost = lost_s[kinds == Kind.LOST]
    if len(lost) == 0:
        return np.zeros(len(kinds), dtype=bool)
    alike: Booleans = (kinds == Kind.EXPLAINED) & saved & (lost_s <= LIKE_GAP_RATIO * lost.max())
    return alike | left_out


def _longest(intervals: Intervals, kinds: Integers, lost_s: Floats) -> tuple[Stall, ...]:
    """Return the gaps that lost most, by start."""
    places = np.flatnonzero(((kinds == Kind.LOST) | (kinds >= Kind.READ_LATE)) & (lost_s > 0))
    chosen = sorted(places[np.argsort(-lost_s[places], kind="stable")][:MOST_SHOWN])
    return tuple(
        Stall(
            start_s=float(intervals.start_s[place]),
            duration_s=float(intervals.seconds[place]),
            lost_s=float(lost_s[place]),
            step=int(intervals.step[place]),
            cause="read late" if kinds[place] == Kind.READ_LATE else CAUSES[intervals.cause[place]],
        )
        for place in chosen
    )


def _spans(intervals: Intervals) -> tuple[StepSpan, ...]:
    """Return the intervals in order; of many, neighbours are taken together."""
    count = len(intervals.seconds)
    ends = np.unique(np.linspace(0, count, min(count, MOST_SPANS) + 1).astype(np.int64))
    return tuple(
        StepSpan(
            step=int(intervals.step[low]),
            steps=float(intervals.steps[low:high].sum()),
            duration_s=float(intervals.seconds[low:high].sum()),
        )
        for low, high in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    )


def _batch_size(table: StepTable, finished: Line | None, stated: float | None, steady: Estimate | None) -> tuple[float | None, str]:
    """Return the samples of a step, and what contradicts them. None if nothing says it, or the printed rates contradict it."""
    batch = stated or batch_size_of(table, finished)
    rates, totals = table.rate[np.isfinite(table.rate)], table.global_rate[np.isfinite(table.global_rate)]
    printed = np.concatenate((rates, totals))
    if batch is None or steady is None or len(printed) == 0 or printed.max() <= 0:
        return batch, ""
    found = steady.estimate * batch
    highest = PRINTED_RATIO * max(float(rates.max(initial=0.0)) / (1 - SMOOTHING), float(totals.max(initial=0.0)))
    if PRINTED_LOW_RATIO * printed.min() <= found <= highest:
        return batch, ""
    return None, (
        f"its steps, times and {batch:,.0f} samples a step give {found:,.0f} samples/s, {'above' if found > highest else 'below'} "
        f"each Rate and GlobalRate that it printed ({printed.min():,.0f} to {printed.max():,.0f}): not believed"
    )


def _burst_ratio(table: StepTable, intervals: Intervals, kinds: Integers, batch: float | None) -> float | None:
    """Return the middle of Rate over the throughput since the line before, without what a gap and its burst touch.

    If Rate is sampled when it is printed, 0.4 of it is the Rate before, which may be that of a burst: that part is taken off. If
    it is sampled at every step, the rest shows the bursts all the same.
    """
    if batch is None:
        return None
    before_step, before = table.before["step"], table.before["rate"]
    aside = intervals.step[kinds > Kind.LOST]
    ends = aside + intervals.steps[kinds > Kind.LOST].astype(np.int64)
    plain = np.ones(len(table.step), dtype=bool)
    if len(aside):
        nearest = np.searchsorted(aside, before_step, side="right") - 1
        plain = (nearest < 0) | (before_step >= ends[nearest])
    seconds, steps, rate = table.t_s - table.before["t_s"], table.step - before_step, table.rate
    ratio = np.minimum(rate, (rate - SMOOTHING * before) / (1 - SMOOTHING)) * seconds / steps / batch
    known = ratio[plain & (seconds > 0) & (steps > 0) & np.isfinite(ratio) & (rate > 0)]
    return float(np.median(known)) if len(known) else None

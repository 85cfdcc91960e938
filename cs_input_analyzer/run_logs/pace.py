"""Intervals between step lines -> rates: how fast the run trained, and how fast it did between its stalls. Pure.

A wafer computes on while its host downloads a checkpoint, or is slow for another reason. The host then reads what was made
meanwhile faster than it was made. So a pause is one of two things: time that is lost for good, or results that were read late and
that a burst makes up for. Only the first says something about the input. The pause and its burst are left out of the steady rate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from cs_input_analyzer.monitoring.rates import SMOOTHING
from cs_input_analyzer.records import Estimate, Stall, StallCause
from cs_input_analyzer.run_logs.batch_size import batch_size_of
from cs_input_analyzer.run_logs.grammar import Line
from cs_input_analyzer.run_logs.steps import CAUSES, Floats, Intervals, StepTable, Writer, weighted_median
from cs_input_analyzer.stats.estimates import half_width_of_mean
from cs_input_analyzer.stats.steady_state import block_means, rate_of

# Steps that take this many times the usual time each hold a stall.
STALL_RATIO = 2.0
# Below this share of the usual pace a step was made before it was read.
QUICK_RATIO = 0.95
# A burst that brings back this share of the pause's time shows that the steps were made during the pause. What is left of it may
# be the checkpoint itself, during which the wafer does stop.
MADE_UP_RATIO = 0.5
# A burst may bring back so much more: the usual pace is known only about.
OVER_RATIO = 0.1
LIKE_STALL_RATIO = 1.5
FEW_PLAIN_RATIO = 1 / 3
MOST_SHOWN = 20
MOST_PORTIONS = 4096
PRINTED_RATIO = 1.1
# A steady rate above every rate that was printed, or below half of them, contradicts them. One line's local rate is at most Rate
# / 0.6.
PRINTED_LOW_RATIO = 0.5
# How near values are to be called equal, how near to the mean of a log that may end in a pause; shares of steps and of lines.
CLUSTER_RATIO, MEAN_RATIO, CLUSTER_SHARE_RATIO, EVEN_LINES_RATIO = 1.05, 1.1, 0.1, 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """What a series of steps says about speed. Steps per second; samples where a batch size is known and nothing contradicts it.

    Attributes:
        usual_steps_per_s: what half of the steps reach; between stalls, that is.
        burst_ratio: Rate as logged over the throughput from line to line, the middle one: well above 1 where the steps of one
            interval come in a burst and Rate, sampled at each of them, shows the burst alone. None without a batch size.
        pauses: the longest, by start, which is on the scale of the stamps: stalls, pauses that `causes` explain, those that only
            their burst explains. `stall_count`, `explained_s`, `made_up_count` and `made_up_s` are of all of them;
            `stall_share_ratio` is the share of the plain time that stalls took beyond the usual time of their steps.
        holds_checkpoints: whether no interval is free of them, so that the steady rate has them in it.
    """

    batch_size: float | None
    steady_steps_per_s: Estimate | None
    usual_steps_per_s: float | None
    burst_ratio: float | None
    plain_steps: int
    pauses: tuple[Stall, ...]
    causes: tuple[StallCause, ...]
    stall_count: int
    stall_share_ratio: float
    explained_s: float
    made_up_count: int
    made_up_s: float
    holds_checkpoints: bool = False
    contradiction: str = ""
    backward_stamps: int = 0


def pace_of(writer: Writer, finished: Line | None, *, batch_size: float | None = None, saved: tuple[int, ...] = ()) -> Pace:
    """The summary of a writer's steps; what was not seen is None or empty.

    Args:
        batch_size: as the monitor states it.
        saved: steps of the checkpoints that the run left behind beside its log, rising.
    """
    table = writer.table
    intervals = table.intervals()
    usual_s = _usual_pace_s(intervals)
    if usual_s is not None:
        # A saved step explains a pause; it makes none of an interval that is as long as others.
        slow = intervals.seconds > STALL_RATIO * usual_s * intervals.steps
        # From the first step to the last, both included: it may be saved before or after the step's line.
        last = intervals.step + intervals.steps.astype(np.int64)
        is_saved = np.searchsorted(saved, last, side="right") > np.searchsorted(saved, intervals.step, side="left")
        causes = np.where((intervals.cause == 0) & slow & is_saved, CAUSES.index("checkpoint"), intervals.cause)
        intervals = replace(intervals, cause=causes)
    # Without a plain interval each one has something that explains it.
    kinds = _kinds(intervals, usual_s) if usual_s is not None else np.full(len(intervals.seconds), _EXPLAINED)
    plain = kinds <= _STALL
    counted = plain | _like_stalls(intervals, kinds, usual_s)
    steady = _steady(intervals.steps[counted], intervals.seconds[counted])
    batch, contradiction = _batch_size(table, finished, batch_size, steady)
    stalled = np.flatnonzero(kinds == _STALL)
    lost = intervals.seconds[stalled] - (usual_s or 0.0) * intervals.steps[stalled]
    made_up = kinds == _MADE_UP
    plain_s = float(intervals.seconds[plain].sum())
    bursts = _bursts(table, intervals, kinds, batch) if batch else np.empty(0)
    return Pace(
        batch_size=batch,
        steady_steps_per_s=steady,
        usual_steps_per_s=1 / usual_s if usual_s else None,
        burst_ratio=_burst_ratio(bursts),
        plain_steps=int(intervals.steps[plain].sum()),
        pauses=_longest(intervals, kinds, usual_s),
        causes=tuple(CAUSES[cause] for cause in np.unique(intervals.cause[kinds == _EXPLAINED])),
        stall_count=len(stalled),
        stall_share_ratio=float(lost.sum()) / plain_s if plain_s > 0 else 0.0,
        explained_s=float(intervals.seconds[kinds == _EXPLAINED].sum()),
        made_up_count=int(made_up.sum()),
        made_up_s=float(intervals.seconds[made_up].sum()),
        holds_checkpoints=steady is not None and not plain.any(),
        contradiction=contradiction,
        backward_stamps=intervals.backward_stamps,
    )


# What an interval is. Up to `_STALL` it counts for the steady rate; from `_MADE_UP` on it is a pause that something explains.
_PLAIN, _STALL, _LEFT_OUT, _MADE_UP, _EXPLAINED = range(5)


def _usual_pace_s(intervals: Intervals) -> float | None:
    """Seconds per step that half of the plain steps keep below.

    Where a host pauses often, about half of the steps may come in the bursts after its pauses. Then the steps between a burst and
    the next pause go at the mean pace of the whole run, since nothing was lost, and that is the wafer's.
    """
    plain = intervals.cause == 0
    if not plain.any():
        return None
    if intervals.steps[plain].sum() < FEW_PLAIN_RATIO * intervals.steps.sum():  # hardly one is free of checkpoints
        plain = intervals.cause <= CAUSES.index("checkpoint")
    steps, seconds = intervals.steps[plain], intervals.seconds[plain]
    usual_s = weighted_median(seconds / steps, steps)
    mean_s = float(intervals.seconds.sum() / intervals.steps.sum())
    at_mean = (seconds / steps < mean_s * MEAN_RATIO) & (seconds / steps > mean_s / MEAN_RATIO)
    if mean_s < CLUSTER_RATIO * usual_s or steps[at_mean].sum() < CLUSTER_SHARE_RATIO * steps.sum():
        return usual_s
    middle_s = weighted_median(seconds[at_mean] / steps[at_mean], steps[at_mean])
    kinds = _kinds(intervals, middle_s)
    return middle_s if (kinds >= _MADE_UP).any() and not (kinds == _STALL).any() else usual_s


def _kinds(intervals: Intervals, usual_s: float) -> npt.NDArray[np.int64]:
    """Of each interval what it is. A pause goes on as long as intervals are slow or explained; its burst as long as they are quick
    and it has something to make up for."""
    expected = usual_s * intervals.steps
    late = intervals.seconds - expected
    causes, follows = intervals.cause, intervals.follows
    is_pause = (causes > 0) | (intervals.seconds > STALL_RATIO * expected)
    is_quick = intervals.seconds < QUICK_RATIO * expected
    kinds = np.zeros(len(late), dtype=np.int64)
    count, place, last = len(late), 0, 0
    while place < count:
        if not is_pause[place]:
            place += 1
            continue
        end = place + 1
        while end < count and follows[end] and is_pause[end]:
            end += 1
        lost_s = left_s = float(late[place:end].sum())
        after = end
        while after < count and follows[after] and is_quick[after] and left_s > -OVER_RATIO * lost_s:
            left_s += float(late[after])
            after += 1
        if end < after < count and follows[after] and not is_pause[after] and late[after] < 0 < left_s:
            after += 1  # the burst ended within it
        # Where the log ends within a burst, nobody saw whether it makes up for the rest.
        is_open = after > end and (after == count or not follows[after])
        made_up = lost_s > 0 and (lost_s - left_s >= MADE_UP_RATIO * lost_s or is_open)
        explained = causes[place:end] > 0
        kinds[place:end] = np.where(explained, _EXPLAINED, _MADE_UP if made_up else _STALL)
        if made_up or explained.any():
            kinds[end:after] = _LEFT_OUT
        place = max(end, after)
        last = end
    if last == count and kinds[-1] == _STALL:  # the log ends with a pause: in a run with others like it that is one more
        began = int(np.flatnonzero(~is_pause)[-1]) + 1 if not is_pause.all() else 0
        if not (kinds[:began] == _STALL).any():
            kinds[began:] = _LEFT_OUT
    return kinds


def _like_stalls(intervals: Intervals, kinds: npt.NDArray[np.int64], usual_s: float | None) -> npt.NDArray[np.bool_]:
    """Intervals with a checkpoint that count for the steady rate all the same.

    Where every interval has one, there is nothing else to go by. In a run with stalls, those that took little longer than its
    stalls do: a checkpoint is a small part of them, and without them the stalls that fell into the same interval would be missing.
    """
    saved: npt.NDArray[np.bool_] = intervals.cause == CAUSES.index("checkpoint")
    left_out: npt.NDArray[np.bool_] = kinds == _LEFT_OUT
    if usual_s is None or not (kinds <= _STALL).any():
        return saved | left_out
    late = intervals.seconds - usual_s * intervals.steps
    stalls = late[kinds == _STALL]
    if len(stalls) == 0:
        return np.zeros(len(kinds), dtype=bool)
    alike: npt.NDArray[np.bool_] = (kinds == _EXPLAINED) & saved & (late <= LIKE_STALL_RATIO * stalls.max())
    return alike | left_out


def _longest(intervals: Intervals, kinds: npt.NDArray[np.int64], usual_s: float | None) -> tuple[Stall, ...]:
    """Those that lost most, by start."""
    lost_s = intervals.seconds - (usual_s or 0.0) * intervals.steps
    places = np.flatnonzero(((kinds == _STALL) | (kinds >= _MADE_UP)) & (lost_s > 0))
    chosen = sorted(places[np.argsort(-lost_s[places], kind="stable")][:MOST_SHOWN])
    return tuple(
        Stall(
            start_s=float(intervals.start_s[place]),
            duration_s=float(intervals.seconds[place]),
            lost_s=float(lost_s[place]),
            step=int(intervals.step[place]),
            cause="read late" if kinds[place] == _MADE_UP else CAUSES[intervals.cause[place]],
        )
        for place in chosen
    )


def _steady(steps: Floats, seconds: Floats) -> Estimate | None:
    """Steps per second with its interval: the intervals as equal portions of steps, in batch means."""
    if len(steps) == 0:
        return None
    all_steps, all_seconds = (np.concatenate(([0.0], np.cumsum(column))) for column in (steps, seconds))
    # No more portions than the widest interval allows: within one nothing was seen, and equal parts of it would seem to agree.
    count = min(MOST_PORTIONS, max(1, int(all_steps[-1] // steps.max())))
    portions_s = np.diff(np.interp(np.linspace(0.0, all_steps[-1], count + 1), all_steps, all_seconds))
    blocks, _ = block_means(portions_s)
    mean = float(portions_s.mean())
    half = half_width_of_mean(blocks, of_one=mean)
    gap_s = Estimate(estimate=mean, low=max(mean - half, mean / 10), high=mean + half, count=len(blocks))
    return rate_of(gap_s, float(all_steps[-1]) / count) if mean > 0 else None


def _batch_size(table: StepTable, finished: Line | None, stated: float | None, steady: Estimate | None) -> tuple[float | None, str]:
    """Samples of a step, and what contradicts it. None where nothing says it, or the printed rates contradict it."""
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


def _burst_ratio(ratios: Floats) -> float | None:
    """The middle one; where some lines have just the throughput as their Rate, the middle one of those.

    A host that is late now and then has both kinds of lines: those of its bursts, and those of steps that come as they are made. In
    a run that waits in every interval nothing goes at the throughput: steps come faster, or not at all.
    """
    if len(ratios) == 0:
        return None
    even = ratios[(ratios < CLUSTER_RATIO) & (ratios > 1 / CLUSTER_RATIO)]
    return float(np.median(even if len(even) >= EVEN_LINES_RATIO * len(ratios) else ratios))


def _bursts(table: StepTable, intervals: Intervals, kinds: npt.NDArray[np.int64], batch: float) -> Floats:
    """Rate over the throughput since the line before, without what a pause and its burst touch.

    Where Rate is sampled when it is printed, 0.4 of it is the Rate before, which may be that of a burst: that part is taken off.
    Where it is sampled at every step, both are what the bursts of a run have, and so is what is left.
    """
    before_step, before = table.before["step"], table.before["rate"]
    aside = intervals.step[kinds > _STALL]
    ends = aside + intervals.steps[kinds > _STALL].astype(np.int64)
    if len(aside):
        nearest = np.searchsorted(aside, before_step, side="right") - 1
        plain = (nearest < 0) | (before_step >= ends[nearest])
    else:
        plain = np.ones(len(table.step), dtype=bool)
    seconds, steps, rate = table.t_s - table.before["t_s"], table.step - before_step, table.rate
    ratio = np.minimum(rate, (rate - SMOOTHING * before) / (1 - SMOOTHING)) * seconds / steps / batch
    return ratio[plain & (seconds > 0) & (steps > 0) & np.isfinite(ratio) & (rate > 0)]

"""The step table of a run, and the one rule for its batch gaps. Pure.

The table has a row for each interval between two points at which the progress of training is known. A log fills it from line to
line, a monitor from one synchronisation to the next. All rates and verdicts come from it.

The rule: an accelerator computes on while its host saves a checkpoint or is slow. Afterwards the host reads the results faster than
they were made. So a gap is one of two things: lost time, or results that were read late. A burst of quick steps shows the second.
Only lost time can be the fault of the input.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cs_input_analyzer.model.estimates import half_width_of_mean
from cs_input_analyzer.model.steady_state import block_means, rate_of
from cs_input_analyzer.records import Estimate, StallCause

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

# A later cause explains more: after a new start, no steps of a checkpoint are left over.
CAUSES: tuple[StallCause, ...] = ("none known", "checkpoint", "evaluation", "set-up")
CHECKPOINT = CAUSES.index("checkpoint")
MOST_PORTIONS = 4096


class Interval(NamedTuple):
    """One row of the table.

    Attributes:
        step: the last step before it.
        cause: what the run did in it besides training, as an index into CAUSES.
        follows: whether it starts where the row before ended.
        wait_s: how long the host waited for input in it; 0 if unknown.
        compute_s: the accelerator's time for one step, if a monitor saw it.
    """

    start_s: float
    seconds: float
    steps: float
    step: float
    cause: int = 0
    follows: bool = True
    wait_s: float = 0.0
    compute_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """The table as columns, in order. Shape of each: [n]."""

    start_s: Floats
    seconds: Floats
    steps: Floats
    step: Integers
    cause: Integers
    follows: Booleans
    wait_s: Floats
    compute_s: Floats

    @property
    def own_s(self) -> Floats:
        """Seconds without the wait for input that was seen."""
        return self.seconds - self.wait_s


def intervals_of(rows: Iterable[Interval]) -> Intervals:
    """Return the rows as columns."""
    columns = np.asarray(list(rows), dtype=np.float64).reshape(-1, len(Interval._fields)).T
    start_s, seconds, steps, step, cause, follows, wait_s, compute_s = columns
    return Intervals(
        start_s=start_s,
        seconds=seconds,
        steps=steps,
        step=step.astype(np.int64),
        cause=cause.astype(np.int64),
        follows=follows.astype(bool),
        wait_s=wait_s,
        compute_s=compute_s,
    )


def steady_rate(steps: Floats, seconds: Floats) -> Estimate | None:
    """Return steps per second with a 90 % interval, or None without a row. Shapes: [n].

    The rows are laid end to end and cut into equal portions of steps. The interval comes from batch means of these.
    """
    if len(steps) == 0:
        return None
    all_steps, all_seconds = (np.concatenate(([0.0], np.cumsum(column))) for column in (steps, seconds))
    # Nobody looked inside the widest row, and equal parts of it would seem to agree: so no more portions than it allows.
    count = min(MOST_PORTIONS, max(1, int(all_steps[-1] // steps.max())))
    portions_s = np.diff(np.interp(np.linspace(0.0, all_steps[-1], count + 1), all_steps, all_seconds))
    blocks, _ = block_means(portions_s)
    mean = float(portions_s.mean())
    if mean <= 0:
        return None
    half = half_width_of_mean(blocks, of_one=mean)
    gap_s = Estimate(estimate=mean, low=max(mean - half, mean / 10), high=mean + half, count=len(blocks))
    return rate_of(gap_s, float(all_steps[-1]) / count)


def weighted_median(values: Floats, weights: Floats) -> float:
    """Return the smallest value that half of the weight does not exceed. Shapes: [n >= 1]."""
    order = np.argsort(values, kind="stable")
    passed = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(passed, passed[-1] / 2)])


# Steps that take this many times the usual time each hold a gap.
GAP_RATIO = 2.0
# A step below this share of the usual time was made before it was read.
QUICK_RATIO = 0.95
# A burst that brings back this share of a gap's time shows that the steps were made during the gap. The accelerator may have
# stood still for the rest, as in a checkpoint.
MADE_UP_RATIO = 0.5
# A burst may bring back more than the gap by this share, as the usual time is known only roughly.
OVER_RATIO = 0.1
# If less than this share of the steps is free of checkpoints, the others count for the usual time, too.
FEW_PLAIN_RATIO = 1 / 3
# How near to each other, and to the mean of a run, times count as equal. The share of steps at the mean that decides.
CLUSTER_RATIO, MEAN_RATIO, CLUSTER_SHARE_RATIO = 1.05, 1.1, 0.1
# A gap that a monitor sees is at least this long. Below, other programs may have taken the CPU.
SHORTEST_SEEN_S = 0.2
# Gaps that take more of the time than this are how a run works, and no exception.
MOST_GAPS_RATIO = 0.5


class Kind(IntEnum):
    """The kind of an interval. Up to LOST it counts for the steady rate. From READ_LATE on it is a gap that something explains."""

    PLAIN = 0
    LOST = 1
    LEFT_OUT = 2
    READ_LATE = 3
    EXPLAINED = 4


def usual_pace_s(table: Intervals) -> float | None:
    """Return the seconds per step that half of the plain steps keep below, or None without a plain interval.

    If a host pauses often, about half of the steps may come in the bursts after its pauses. The steps between a burst and the
    next pause then go at the mean pace of the run, and that is the accelerator's.
    """
    plain = table.cause == 0
    if not plain.any():
        return None
    if table.steps[plain].sum() < FEW_PLAIN_RATIO * table.steps.sum():
        plain = table.cause <= CHECKPOINT
    steps, pace_s = table.steps[plain], table.own_s[plain] / table.steps[plain]
    usual_s = weighted_median(pace_s, steps)
    mean_s = float(table.own_s.sum() / table.steps.sum())
    at_mean = (pace_s < mean_s * MEAN_RATIO) & (pace_s > mean_s / MEAN_RATIO)
    if mean_s < CLUSTER_RATIO * usual_s or steps[at_mean].sum() < CLUSTER_SHARE_RATIO * steps.sum():
        return usual_s
    middle_s = weighted_median(pace_s[at_mean], steps[at_mean])
    kinds = kinds_of(table, middle_s)
    return middle_s if (kinds >= Kind.READ_LATE).any() and not (kinds == Kind.LOST).any() else usual_s


def kinds_of(table: Intervals, usual_s: float, shortest_s: float = 0.0) -> Integers:
    """Return the `Kind` of each interval.

    A gap goes on as long as intervals are slow or explained. Its burst goes on as long as they are quick and time is missing.

    Args:
        shortest_s: a gap takes this much longer than its steps usually do.
    """
    expected = usual_s * table.steps
    late = table.own_s - expected
    is_gap = (table.cause > 0) | ((table.own_s > GAP_RATIO * expected) & (late > shortest_s))
    is_quick = table.own_s < QUICK_RATIO * expected
    kinds = np.zeros(len(late), dtype=np.int64)
    place = 0
    while place < len(late):
        if not is_gap[place]:
            place += 1
            continue
        end = place + 1
        while end < len(late) and table.follows[end] and is_gap[end]:
            end += 1
        after, left_s = _burst_end(table.follows, is_gap, is_quick, late, place, end)
        lost_s = float(late[place:end].sum())
        # If the log ends within a burst, it is unknown whether it makes up for the rest.
        is_open = after > end and (after == len(late) or not table.follows[after])
        is_made_up = lost_s > 0 and (lost_s - left_s >= MADE_UP_RATIO * lost_s or is_open)
        explained = table.cause[place:end] > 0
        kinds[place:end] = np.where(explained, Kind.EXPLAINED, Kind.READ_LATE if is_made_up else Kind.LOST)
        if is_made_up or explained.any():
            kinds[end:after] = Kind.LEFT_OUT
        elif end == len(late) and not (kinds[:place] == Kind.LOST).any():
            kinds[place:end] = Kind.LEFT_OUT  # the table ends with its first gap: its sequel is unknown
        place = max(end, after)
    return kinds


def _burst_end(follows: Booleans, is_gap: Booleans, is_quick: Booleans, late: Floats, place: int, end: int) -> tuple[int, float]:
    """Return where the burst after a gap ends, and the time that it does not bring back."""
    lost_s = left_s = float(late[place:end].sum())
    after, count = end, len(late)
    while after < count and follows[after] and is_quick[after] and left_s > -OVER_RATIO * lost_s:
        left_s += float(late[after])
        after += 1
    if end < after < count and follows[after] and not is_gap[after] and late[after] < 0 < left_s:
        after += 1  # the burst ended within it
    return after, left_s


def monitored(table: Intervals) -> Booleans:
    """Return which rows of a monitor's table count: all but the gaps. If gaps are the rule, they count, too. Shape: [n]."""
    usual_s = usual_pace_s(table)
    if usual_s is None:
        return np.zeros(len(table.steps), dtype=bool)
    kinds = kinds_of(table, usual_s, SHORTEST_SEEN_S)
    plain: Booleans = kinds == Kind.PLAIN
    unmarked: Booleans = kinds < Kind.EXPLAINED
    are_the_rule = table.own_s[plain].sum() < (1 - MOST_GAPS_RATIO) * table.own_s[unmarked].sum()
    return unmarked if are_the_rule else plain

"""From batch arrival times to a rate with an interval: cut the transient, form batch means, say how sure.

Transient: MSER-5 (White, Cobb & Spratt, "A comparison of five steady-state truncation heuristics", WSC 2000): of all truncation
points in the first half, take the one that minimizes the standard error of what is left, on means of five. Interval:
nonoverlapping batch means (Law & Kelton, ch. 9) of the gaps, with fewer blocks while neighbours are still correlated. Numbers in,
numbers out: no clock here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cs_input_analyzer.model.estimates import half_width_of_mean
from cs_input_analyzer.records import BatchGap, Estimate

Floats = npt.NDArray[np.float64]

MSER_GROUP = 5
MAX_BLOCKS = 32
MIN_BLOCKS = 8
MOST_CORRELATED = 0.9
CORRELATED = 0.25  # lag-1 autocorrelation of block means above which blocks are joined
MIN_PASSES = 4  # whole passes over the data, from which on each is a block


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The steady part of a run.

    Attributes:
        first: index of the stamp that opens the window; the gaps after it count.
        gap_s: mean seconds per batch, with its 90 % interval.
        block_gap_s: mean gap of each block, in time order.
        lag1_autocorrelation: of the block means; None with fewer than 4 blocks.
    """

    first: int
    batches: int
    window_s: float
    gap_s: Estimate
    block_gap_s: tuple[float, ...]
    lag1_autocorrelation: float | None


# Batches that buffers gathered before the window come at once. MSER-5 misses them if they are few among many, or if there are too
# few batches for it.
BUFFERED_S = 0.2
BURST_RATIO = 0.5
LEAST_CUT_DIVISOR = 8
# Gaps of this many times the median one that stand alone and take half of the time are fills: a shuffle buffer that is filled at
# the start of each pass of a `repeat` gives its elements in bursts.
FILL_FACTOR = 10
FILL_SHARE_RATIO = 0.5


def steady_window(stamps_s: Floats, passes: Sequence[int] = ()) -> Window | None:
    """Return the steady window of batch arrival times, shape [n] in seconds; None with fewer than two stamps (no gap, no rate).

    `passes`: how many batches had come when each pass over the data ended. A window in which two or more of them end is made of the
    whole passes between them: a shuffle buffer that fills at the start of each is part of the pipeline, and a piece of a pass has
    too much or too little of it. A pass is a block of the interval where there are four or more. Passes that end inside the
    pipeline, unseen, show by the fills between their bursts.
    """
    if len(stamps_s) < 2:
        return None
    ends = np.array([batches - 1 for batches in dict.fromkeys(passes) if 0 < batches <= len(stamps_s)])
    gaps = np.diff(stamps_s)
    if len(ends) > MIN_PASSES:
        pass_gaps = np.diff(stamps_s[ends]) / np.diff(ends)
        cut = mser5(pass_gaps)
        return _window(stamps_s, int(ends[cut]), int(ends[-1]), *block_means(pass_gaps[cut:]))
    if len(ends) > 1:
        return _window(stamps_s, int(ends[0]), int(ends[-1]), *block_means(gaps[ends[0] : ends[-1]]))
    fills = _fills(gaps)
    if len(fills) > 2:
        return _window(stamps_s, int(fills[0]), int(fills[-1]), *block_means(np.diff(stamps_s[fills]) / np.diff(fills)))
    if len(fills):  # too few for an interval: use all since the first fill began, which no cut may remove
        last = int(fills[-1]) if len(fills) > 1 else len(gaps)
        return _window(stamps_s, int(fills[0]), last, *block_means(gaps[fills[0] : last].mean(keepdims=True)))
    cut = max(mser5(gaps), _buffered(stamps_s))
    return _window(stamps_s, cut, len(gaps), *block_means(gaps[cut:]))


def _fills(gaps_s: Floats) -> npt.NDArray[np.int64]:
    """Return the places of the gaps in which a buffer was filled; none if batches come evenly."""
    places = np.flatnonzero(gaps_s > FILL_FACTOR * np.median(gaps_s))
    are_alone = len(places) > 0 and bool(np.all(np.diff(places) > 1))
    return places if are_alone and gaps_s[places].sum() >= FILL_SHARE_RATIO * gaps_s.sum() else places[:0]


def _window(stamps_s: Floats, first: int, last: int, blocks: Floats, correlation: float | None) -> Window:
    window_s = float(stamps_s[last] - stamps_s[first])
    mean = window_s / (last - first)
    half = half_width_of_series(blocks, of_one=mean)
    return Window(
        first=first,
        batches=last - first,
        window_s=window_s,
        gap_s=Estimate(estimate=mean, low=max(mean - half, mean / 10), high=mean + half, count=len(blocks)),
        block_gap_s=tuple(float(block) for block in blocks),
        lag1_autocorrelation=correlation,
    )


def half_width_of_series(blocks: Floats, of_one: float = 0.0) -> float:
    """Return half the 90 % interval of the mean of values in time order, wider if they depend on each other.

    Return `of_one` for fewer than two values.
    """
    half, correlation = half_width_of_mean(blocks, of_one), _lag1(blocks)
    if correlation is None or correlation <= CORRELATED:
        return half
    return half * math.sqrt((1 + correlation) / (1 - min(correlation, MOST_CORRELATED)))


def _buffered(stamps_s: Floats) -> int:
    """Return the number of gaps to cut for batches that may have waited in full buffers.

    Cut all the first batches if they came in a burst, at less than half the mean gap of later ones; else at most an
    eighth of all.
    """
    count = len(stamps_s) - 1
    filled = int(np.searchsorted(stamps_s, stamps_s[0] + BUFFERED_S))
    if 1 < filled < count:
        burst_s = (stamps_s[filled - 1] - stamps_s[0]) / (filled - 1)
        if burst_s < BURST_RATIO * (stamps_s[-1] - stamps_s[filled]) / (count - filled):
            return filled
    return min(filled, count // LEAST_CUT_DIVISOR)


def rate_of(gap_s: Estimate, samples_per_batch: float) -> Estimate:
    """Return samples per second from seconds per batch; the interval turns over with the reciprocal."""
    return Estimate(
        estimate=samples_per_batch / gap_s.estimate,
        low=samples_per_batch / gap_s.high,
        high=samples_per_batch / gap_s.low,
        count=gap_s.count,
    )


def mser5(gaps_s: Floats) -> int:
    """Return the number of gaps to cut from the start: 0 up to half of them, always a multiple of five."""
    groups = len(gaps_s) // MSER_GROUP
    if groups < 4:
        return 0
    means = gaps_s[: groups * MSER_GROUP].reshape(groups, MSER_GROUP).mean(axis=1)
    left = np.arange(groups, 0, -1)
    # Sums over means[d:] for every d at once; centred first, because the difference of two large sums loses digits.
    centred = means - means.mean()
    total = np.cumsum(centred[::-1])[::-1]
    squares = np.cumsum((centred**2)[::-1])[::-1]
    statistic = (squares - total**2 / left) / left**2
    candidates = statistic[: groups // 2 + 1]
    return int(np.argmin(candidates)) * MSER_GROUP


def block_means(gaps_s: Floats) -> tuple[Floats, float | None]:
    """Means of equal blocks, as many as stay uncorrelated (8 to 32), and their lag-1 autocorrelation."""
    count = min(MAX_BLOCKS, len(gaps_s))
    while True:
        size = len(gaps_s) // count
        used = gaps_s[len(gaps_s) - size * count :]  # the odd ones are left out at the start, next to the transient
        blocks = used.reshape(count, size).mean(axis=1)
        correlation = _lag1(blocks)
        if correlation is None or correlation <= CORRELATED or count // 2 < MIN_BLOCKS:
            return blocks, correlation
        count //= 2


def batch_gap(gaps_s: Floats) -> BatchGap:
    """Percentiles of the gaps between batches, shape [n >= 1]; outliers included."""
    p50, p95, p99 = np.percentile(gaps_s, (50, 95, 99))
    return BatchGap(p50=float(p50), p95=float(p95), p99=float(p99), max=float(gaps_s.max()))


def _lag1(blocks: Floats) -> float | None:
    if len(blocks) < 4:
        return None
    centred = blocks - blocks.mean()
    variance = float(np.dot(centred, centred))
    return float(np.dot(centred[:-1], centred[1:])) / variance if variance > 0 else 0.0

"""The rate of a layout from several fresh processes: a bootstrap on two levels, process, then block inside it.

The largest variance is between processes (where AUTOTUNE lands, which threads share a core), so blocks of one process must not be
counted as so many independent observations. Resampling units at both levels: Davison & Hinkley, "Bootstrap Methods and their
Application" (1997), section 3.8. Few units: a percentile interval of n units is too narrow by sqrt((n - 1)/n), and by the normal
quantile where Student's belongs; it is stretched by both factors (Hesterberg, "What Teachers Should Know About the Bootstrap",
The American Statistician 69 (2015), section 4). Numbers in, numbers out: no clock here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from cs_input_analyzer.records import Estimate

Floats = npt.NDArray[np.float64]

CONFIDENCE = 0.90
NORMAL_95 = 1.6448536269514722
# One block of one process: as little is known as `steady_state` says of one gap, half to ten times the rate.
UNKNOWN_LOW, UNKNOWN_HIGH = 0.5, 10.0


def rate_over_processes(blocks: Sequence[Sequence[float]], *, draws: int = 2000, seed: int = 0) -> Estimate:
    """The mean rate of fresh processes of one layout, with its 90 % interval; `count` is the number of processes.

    Args:
        blocks: for each process the rates of equal blocks of its steady window (the same number of batches each, at least five
            autocorrelation times long), in any order. A process's rate is the harmonic mean of its blocks: samples over seconds.
        draws: resamples. `seed`: of their random numbers; the same input gives the same interval, in whatever order it comes.

    With a single process the interval holds what its blocks tell and nothing else: one process knows nothing of the spread between
    processes, and the caller adds what it assumes of that. Where blocks are noisier than processes differ the interval is wider
    than 90 %, because the noise of the blocks is already in the spread of the processes' means.

    Raises:
        ValueError: no process, a process without blocks, or a rate that is not positive and finite.
    """
    gaps = _canonical(blocks)
    estimate = math.fsum(1 / float(process.mean()) for process in gaps) / len(gaps)
    units = len(gaps) if len(gaps) > 1 else len(gaps[0])
    if units == 1:
        return Estimate(estimate=estimate, low=estimate * UNKNOWN_LOW, high=estimate * UNKNOWN_HIGH, count=1)
    means = _resampled_means(gaps, draws, np.random.default_rng(seed))
    below, above = np.quantile(np.log(means / estimate), ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2))
    # On the logarithm, so that a wide interval stays positive and scaling all rates scales it.
    stretch = _stretch(units)
    return Estimate(
        estimate=estimate,
        low=estimate * math.exp(stretch * min(0.0, float(below))),
        high=estimate * math.exp(stretch * max(0.0, float(above))),
        count=len(gaps),
    )


def _canonical(blocks: Sequence[Sequence[float]]) -> list[Floats]:
    """Seconds per sample, shape [blocks] for each process; sorted, so that the order they came in cannot change the draws."""
    gaps = []
    for process in blocks:
        rates = np.asarray(process, np.float64)
        if len(rates) == 0 or not np.all(np.isfinite(rates)) or rates.min() <= 0:
            raise ValueError("each process needs blocks, and each block a positive, finite rate")
        gaps.append(np.sort(1 / rates))
    if not gaps:
        raise ValueError("no process was measured")
    return sorted(gaps, key=lambda process: tuple(process.tolist()))


def _resampled_means(gaps: Sequence[Floats], draws: int, random: np.random.Generator) -> Floats:
    """Mean rates of `draws` resamples, shape [draws]: as many processes, each with as many of its own blocks, with replacement."""
    chosen = random.integers(len(gaps), size=(draws, len(gaps)))
    rates = np.empty(chosen.shape)
    for index, process in enumerate(gaps):
        places = chosen == index
        picked = random.integers(len(process), size=(int(places.sum()), len(process)))
        rates[places] = 1 / process[picked].mean(axis=1)
    return np.asarray(rates.mean(axis=1), np.float64)


def _stretch(units: int) -> float:
    """sqrt(n/(n - 1)) · t(n - 1)/z: what a percentile interval over `units` >= 2 lacks."""
    from scipy.special import stdtrit

    quantile = float(stdtrit(units - 1, 0.5 + CONFIDENCE / 2))
    return math.sqrt(units / (units - 1)) * quantile / NORMAL_95

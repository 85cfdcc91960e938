"""The one place for intervals: of means, of sums, of products and ratios. Pure.

An `Estimate` holds a 90 % interval, whose two sides may differ. Independent errors add in quadrature: those of a sum as they are,
those of a product or a ratio as logarithms, so that no interval of a rate reaches below zero.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from cs_input_analyzer.records import Estimate

Vector = npt.NDArray[np.float64]

CONFIDENCE = 0.90
"""The probability of the intervals of all estimates."""

NORMAL_95 = 1.6448536269514722
"""95 % quantile of the normal: half of a 90 % interval in standard deviations."""

SIMPSON_POINTS = 1001
"""An odd number: of where the density of Student's t is looked at."""

NEARLY_NORMAL = 1e7
"""Degrees of freedom from which on Student's t is the normal distribution."""

SMALLEST_LOW_RATIO = 0.01
"""No interval of a rate reaches down to zero: a measured rate was more than nothing."""

MOST_LOG = 300.0
"""The largest argument of an exponential: an edited run can hold rates of any size."""


@functools.lru_cache(maxsize=1024)
def student_t(degrees: float, statements: int = 1) -> float:
    """Return the two-sided 90 % quantile of Student's t; the relative error is below 1e-5 from 2 degrees on.

    For several `statements` that must hold together, each gets its share (Bonferroni).

    With t = sqrt(degrees) * tan(a) the density is cos(a)^(degrees - 1): smooth, on a finite interval. So Simpson's rule
    gives the probability, and halving the interval the quantile.
    """
    degrees = min(degrees, NEARLY_NORMAL)
    wanted = (1 - (1 - CONFIDENCE) / max(1, statements)) / 2
    low, high = 0.0, min(math.pi / 2, 40 / math.sqrt(degrees))  # of many degrees the density is a narrow peak
    for _ in range(60):
        middle = (low + high) / 2
        if _between_0_and(middle, degrees) < wanted:
            low = middle
        else:
            high = middle
    return math.sqrt(degrees) * math.tan(low)


def _between_0_and(angle: float, degrees: float) -> float:
    density = np.cos(np.linspace(0, angle, SIMPSON_POINTS)) ** (degrees - 1)
    area = (density[0] + density[-1] + 4 * density[1:-1:2].sum() + 2 * density[2:-1:2].sum()) * angle / (SIMPSON_POINTS - 1) / 3
    return float(area) * math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(math.pi)


def half_width_of_mean(values: Sequence[float] | Vector, of_one: float = 0.0) -> float:
    """Return half the 90 % interval (Student's t) of the mean of independent values; `of_one` for fewer than two."""
    count = len(values)
    if count < 2:
        return of_one
    return student_t(count - 1) * float(np.std(values, ddof=1)) / math.sqrt(count)


def from_log(middle: float, half: float, count: int | None = None) -> Estimate:
    """Return the estimate whose logarithm is `middle`, give or take `half`."""
    low, estimate, high = (math.exp(min(max(value, -MOST_LOG), MOST_LOG)) for value in (middle - half, middle, middle + half))
    return Estimate(estimate=estimate, low=min(low, estimate), high=max(high, estimate), count=count)


def paired_ratio(above: Sequence[float], below: Sequence[float]) -> Estimate | None:
    """Geometric mean of above/below, pair by pair, with its interval (Student's t on the logarithms); None of fewer than two."""
    logs = [math.log(one / other) for one, other in zip(above, below, strict=False)]
    if len(logs) < 2:
        return None
    return from_log(math.fsum(logs) / len(logs), half_width_of_mean(logs), len(logs))


# --- independent estimates, combined -------------------------------------------------------------------------------------------


def total(estimates: Sequence[Estimate]) -> Estimate:
    """Return the sum of independent estimates, at least one; `count` is the smallest of theirs. It does not reach below zero."""
    middle = math.fsum(one.estimate for one in estimates)
    below = math.hypot(*(one.estimate - one.low for one in estimates))
    above = math.hypot(*(one.high - one.estimate for one in estimates))
    counts = [one.count for one in estimates if one.count is not None]
    return Estimate(
        estimate=middle, low=min(max(0.0, middle - below), middle), high=middle + above, count=min(counts, default=None)
    )


def mean_of(estimates: Sequence[Estimate]) -> Estimate:
    """Return the mean of independent estimates of one number, at least one.

    Its interval comes from their own intervals, not from the differences between them.
    """
    return total(estimates).scaled(1 / len(estimates))


def product(*factors: Estimate) -> Estimate:
    """Return the product of independent estimates above zero; `count` is that of the first."""
    return _multiplied(factors, (1,) * len(factors))


def quotient(above: Estimate, below: Estimate) -> Estimate:
    """Return the ratio of two independent estimates above zero; `count` is that of `above`."""
    return _multiplied((above, below), (1, -1))


def _multiplied(factors: Sequence[Estimate], powers: Sequence[int]) -> Estimate:
    middle, downs, ups = 1.0, [], []
    for factor, power in zip(factors, powers, strict=True):
        middle *= factor.estimate**power
        down, up = log_halves(factor)
        downs.append(down if power > 0 else up)
        ups.append(up if power > 0 else down)
    low, high = middle * math.exp(-math.hypot(*downs)), middle * math.exp(math.hypot(*ups))
    return Estimate(estimate=middle, low=min(low, middle), high=max(high, middle), count=factors[0].count)


def log_halves(rate: Estimate) -> tuple[float, float]:
    """Return how far the interval reaches down and up, natural logarithms."""
    middle = math.log(rate.estimate)
    down = middle - math.log(rate.low) if rate.low > 0 else math.inf
    return min(down, -math.log(SMALLEST_LOW_RATIO)), math.log(rate.high) - middle


def standard_error(rate: Estimate) -> float:
    """Return standard error of an estimate from its 90 % interval."""
    return (rate.high - rate.low) / 2 / NORMAL_95


def log_error(rate: Estimate) -> float:
    """Return standard error of the logarithm of an estimate above zero from its 90 % interval."""
    return sum(log_halves(rate)) / 2 / NORMAL_95

"""What observations alike differ by, on a log scale: the law by which a change is distinguished from noise.

The variance is pooled over all groups of observations alike that both runs hold. For when few were seen, the error of each and an
assumption are mixed in; that may only widen, and nothing seen makes it smaller than that error. Two runs are also taken at two
times, of which neither shows the other: each adds `RUN_SPREAD_RATIO`, once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cs_input_analyzer.stats.estimates import student_t

__all__ = ["RUN_SPREAD_RATIO", "Spread", "mean", "pooled"]

# Assumption: fresh launches alike differ by so much (one standard deviation), which is worth so many observations. More, and
# lighter, than the capacity model assumes: who compares must not cry wolf on a host that nothing is known of. On simulated launches
# that differ by 0.3 to 15 %, two or three on a side, this called equal runs different in 0 to 11 comparisons of a hundred.
SPREAD_RATIO, SPREAD_WEIGHT = 0.05, 2
# Assumption: the same code on the same quiet host, minutes or days apart, differs by so much (one standard deviation) in what holds
# for a whole run: clock, neighbours, where files lie.
RUN_SPREAD_RATIO = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Variance of one observation on a log scale, and the observations that it rests on."""

    variance: float
    degrees: float

    def t(self, places: int) -> float:
        """Student's t of an interval that holds 90 %, for `places` statements together (Bonferroni)."""
        return student_t(self.degrees, places)


def pooled(groups: Iterable[Sequence[float]], error_variance: float) -> Spread:
    """Of logarithms, alike within each group; `error_variance` is the mean square of their own errors."""
    squares, degrees = 0.0, 0
    for group in groups:
        if group:
            middle = mean(group)
            squares += math.fsum((value - middle) ** 2 for value in group)
            degrees += len(group) - 1
    mixed = (squares + SPREAD_WEIGHT * (SPREAD_RATIO**2 + error_variance)) / (degrees + SPREAD_WEIGHT)
    seen = squares / degrees if degrees else 0.0
    return Spread(variance=max(mixed, seen, error_variance), degrees=degrees + SPREAD_WEIGHT)


def mean(values: Sequence[float]) -> float:
    """Of at least one; of large numbers, too."""
    return math.fsum(value / len(values) for value in values)

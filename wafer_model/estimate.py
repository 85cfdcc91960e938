"""A number with its error: the one type in which every estimate of this project travels."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Estimate:
    """A point estimate inside its 90 % interval.

    `count` is the number of independent observations behind it (blocks, processes). It is None if the number was declared.
    An exact declaration has `low == estimate == high`.
    """

    estimate: float
    low: float
    high: float
    count: int | None = None

    def __post_init__(self) -> None:
        for value in (self.estimate, self.low, self.high):
            if not math.isfinite(value):
                raise ValueError(f"an estimate must be finite, got {value}")
        if not self.low <= self.estimate <= self.high:
            raise ValueError(f"an estimate must lie inside its interval, got {self.low} <= {self.estimate} <= {self.high}")

    def __repr__(self) -> str:
        interval = "" if self.low == self.high else f" ({self.low:,.6g} to {self.high:,.6g})"
        return f"<Estimate {self.estimate:,.6g}{interval}>"

    @classmethod
    def exact(cls, value: float) -> Estimate:
        """Return a declared number: no interval, no observations."""
        return cls(estimate=value, low=value, high=value)

    @property
    def relative_half_width_ratio(self) -> float | None:
        """Return half the interval over the estimate, or None at an estimate of zero."""
        if self.estimate == 0:
            return None
        return (self.high - self.low) / 2 / abs(self.estimate)

    def scaled(self, factor: float) -> Estimate:
        """Return the estimate of `factor` times the same quantity (factor >= 0)."""
        return Estimate(estimate=self.estimate * factor, low=self.low * factor, high=self.high * factor, count=self.count)

    def capped(self, ceiling: float) -> Estimate:
        """Return the estimate of min(quantity, ceiling)."""
        return Estimate(
            estimate=min(self.estimate, ceiling), low=min(self.low, ceiling), high=min(self.high, ceiling), count=self.count
        )

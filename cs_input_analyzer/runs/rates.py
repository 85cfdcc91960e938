"""Rate and GlobalRate, as model-zoo runs print them. Pure: the time is an argument.

GlobalRate is all samples over all time since the executable was loaded. Rate is sampled at each log step: 0.6 of the local rate
since the last sampling point, and 0.4 of the Rate before. The first Rate is the local one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

SMOOTHING = 0.4
"""Weight of the Rate before, as in model-zoo runs."""

ALL_KEPT_BITS = 18


def is_kept(number: int, bits: int | None = None) -> bool:
    """Return whether the `number`-th of its kind (from 1) is kept, where there may be any number of them.

    The first 2^bits all are, then every second one up to twice as many, every fourth up to four times as many, and so on.
    """
    return number % (1 << max(0, (number - 1).bit_length() - (ALL_KEPT_BITS if bits is None else bits))) == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """The progress up to the last sampling point.

    Attributes:
        since_s: that point, on the caller's clock; at first, when the executable was loaded.
        total_samples: the caller's count at that point. Earlier samples are part of no rate.
        samples, elapsed_s: of all accepted intervals; GlobalRate is made of them.
        rate_per_s: Rate; None until an interval was seen.
    """

    since_s: float
    total_samples: float = 0.0
    samples: float = 0.0
    elapsed_s: float = 0.0
    rate_per_s: float | None = None

    @property
    def global_per_s(self) -> float | None:
        """GlobalRate; None until an interval was seen."""
        return self.samples / self.elapsed_s if self.elapsed_s > 0 else None


def sampled(rates: Rates, total_samples: float, now_s: float) -> Rates:
    """Return the rates after a sampling point at `now_s`, by when `total_samples` were received in all.

    Without a new sample or any time, the interval goes on. If the clock or the count went backwards, the next interval begins
    here, and what lies between is part of no rate.
    """
    gained, passed_s = total_samples - rates.total_samples, now_s - rates.since_s
    if not math.isfinite(passed_s) or not math.isfinite(gained):
        return rates
    if passed_s < 0 or gained < 0:
        return replace(rates, since_s=now_s, total_samples=total_samples)
    if gained == 0 or passed_s == 0:
        return rates
    local = gained / passed_s
    if not math.isfinite(local):
        return rates
    before = rates.rate_per_s
    return replace(
        rates,
        since_s=now_s,
        total_samples=total_samples,
        samples=rates.samples + gained,
        elapsed_s=rates.elapsed_s + passed_s,
        rate_per_s=local if before is None else (1 - SMOOTHING) * local + SMOOTHING * before,
    )

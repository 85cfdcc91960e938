"""How the time between two batches scatters: a wafer stalls on the tail, so the mean says little."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cs_input_analyzer.records import Analysis

__all__ = ["GapBin", "gap_bins", "wanted_gap_s"]

MOST_BINS = 40
# Clocks give no shorter times; a gap of 0 has no place on a log scale.
SHORTEST_S = 1e-7
# A span below this is one value, as far as the eye is concerned.
LEAST_SPAN_RATIO = 1.02


@dataclass(frozen=True, slots=True, kw_only=True)
class GapBin:
    """Batches whose gap lies in [low_s, high_s). `share_ratio`: of all batches."""

    low_s: float
    high_s: float
    count: int
    share_ratio: float


def gap_bins(gaps_s: Sequence[float]) -> tuple[GapBin, ...]:
    """Bins of equal width on a log scale over all the gaps (seconds, at least 0); empty without any.

    Their number is the square root of that of the gaps, up to 40: enough to see a second mode, too few to see noise as one.
    """
    if not gaps_s:
        return ()
    logs = [math.log(max(gap, SHORTEST_S)) for gap in gaps_s]
    first, last = min(logs), max(logs)
    widened = max(0.0, math.log(LEAST_SPAN_RATIO) - (last - first)) / 2
    first, last = first - widened, last + widened
    bins = max(1, min(MOST_BINS, round(math.sqrt(len(logs)))))
    width = (last - first) / bins
    counts = [0] * bins
    for value in logs:
        counts[min(bins - 1, int((value - first) / width))] += 1
    return tuple(
        GapBin(
            low_s=math.exp(first + place * width),
            high_s=math.exp(first + (place + 1) * width),
            count=count,
            share_ratio=count / len(logs),
        )
        for place, count in enumerate(counts)
    )


def wanted_gap_s(analysis: Analysis) -> float | None:
    """The gap at which the workers of the plan just feed the accelerator: each owes it a batch once in so many steps as there are
    workers. None without a demand, a plan or a batch size."""
    plan, consumption, batch = analysis.recommendation, analysis.consumption, analysis.pipeline.batch_size
    if plan is None or consumption is None or not batch or consumption.samples_per_s.estimate <= 0 or plan.input_workers < 1:
        return None
    return plan.input_workers * batch / consumption.samples_per_s.estimate

"""Does a supply feed the accelerator, and how sure is that."""

from __future__ import annotations

import math

from cs_input_analyzer.records import Consumption, Estimate, Prediction, VerdictName
from cs_input_analyzer.stats.estimates import NORMAL_95

__all__ = ["judge", "needed_per_s", "utilization"]


WORTH_SAYING = 0.6
"""Below this probability a statement is none: both intervals, or one of them, reach too far."""


def needed_per_s(consumption: Consumption, headroom_ratio: float) -> Estimate:
    """What a supply must reach to feed the accelerator: the demand × (1 + headroom)."""
    return consumption.samples_per_s.scaled(1 + headroom_ratio)


def judge(
    supply: Prediction | Estimate, consumption: Consumption | None, headroom_ratio: float
) -> tuple[VerdictName, float | None]:
    """The verdict on a supply, and the probability of that statement (0.6 to 1); (`unknown`, None) where that is lower, without a
    demand, or for a launch that cannot run.

    `input_bound` where the whole interval lies below the demand, `accelerator_bound` where all of it lies at or above the demand
    with headroom, else `balanced`. Supply and demand are taken as independent normals with these 90 % intervals.
    """
    if consumption is None or (isinstance(supply, Prediction) and supply.problem is not None):
        return "unknown", None
    rate = supply.samples_per_s if isinstance(supply, Prediction) else supply
    demand = consumption.samples_per_s
    enough = needed_per_s(consumption, headroom_ratio)
    below, below_enough = _probability_below(rate, demand), _probability_below(rate, enough)
    verdict: tuple[VerdictName, float] = ("balanced", below_enough - below)
    if rate.high < demand.estimate:
        verdict = "input_bound", below
    elif rate.low >= enough.estimate:
        verdict = "accelerator_bound", 1 - below_enough
    return verdict if verdict[1] >= WORTH_SAYING else ("unknown", None)


def _probability_below(supply: Estimate, threshold: Estimate) -> float:
    """P(supply < threshold). Each side of an uneven interval has its own spread: the side that faces the other number counts."""
    gap = threshold.estimate - supply.estimate
    mine = supply.high - supply.estimate if gap > 0 else supply.estimate - supply.low
    theirs = threshold.estimate - threshold.low if gap > 0 else threshold.high - threshold.estimate
    spread = math.hypot(mine, theirs) / NORMAL_95
    if spread == 0:
        return 1.0 if gap > 0 else 0.0
    return (1 + math.erf(gap / spread / math.sqrt(2))) / 2


def utilization(supply: Estimate, consumption: Consumption) -> Estimate:
    demand = consumption.samples_per_s
    return Estimate(
        estimate=min(1.0, supply.estimate / demand.estimate),
        low=min(1.0, supply.low / demand.high),
        high=min(1.0, supply.high / demand.low) if demand.low > 0 else 1.0,
    )

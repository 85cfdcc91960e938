"""Does a supply feed the accelerator, and how sure is that. Pure.

Supply and demand are taken as independent log-normals whose 90 % intervals are known; an interval whose sides differ has a spread
of its own on each side, and the side that faces the other number counts.
"""

from __future__ import annotations

import math

from cs_input_analyzer.model.estimates import NORMAL_95, log_halves
from cs_input_analyzer.records import Consumption, Estimate, Prediction, VerdictName

ENOUGH = 0.9
"""A launch feeds the accelerator where its supply reaches the demand with headroom at this probability."""

WORTH_SAYING = 0.6
"""Below this probability no verdict is given: one interval or both are too wide."""

LEAST_LOG_SPREAD = 1e-9
"""Exact numbers are compared as numbers."""


def needed_per_s(consumption: Consumption, headroom_ratio: float) -> Estimate:
    """Return the supply that feeds the accelerator: the demand × (1 + headroom)."""
    return consumption.samples_per_s.scaled(1 + headroom_ratio)


def chance(supply: Estimate, needed: Estimate) -> float:
    """P(supply >= needed); 0 for no supply."""
    if supply.estimate <= 0:
        return 0.0
    gap = math.log(supply.estimate / needed.estimate)
    (down, up), (below, above) = log_halves(supply), log_halves(needed)
    mine, theirs = (down, above) if gap > 0 else (up, below)
    spread = max(math.hypot(mine, theirs) / NORMAL_95, LEAST_LOG_SPREAD)
    # Equal numbers reach each other.
    return (1 + math.erf((gap + 5 * LEAST_LOG_SPREAD) / spread / math.sqrt(2))) / 2


def feeds(supply: Estimate, consumption: Consumption | None, headroom_ratio: float) -> bool | None:
    """Return whether a supply is enough for the demand with headroom; None without a demand."""
    return None if consumption is None else chance(supply, needed_per_s(consumption, headroom_ratio)) >= ENOUGH


def judge(
    supply: Prediction | Estimate, consumption: Consumption | None, headroom_ratio: float
) -> tuple[VerdictName, float | None]:
    """Return the verdict on a supply, and the probability of that statement.

    `input_bound` if the supply is below the demand at a probability of 0.9 or more, `accelerator_bound` if it reaches
    the demand with headroom at that probability, else `balanced`. Return (`unknown`, None) if the probability is below
    0.6, without a demand, or for a launch that cannot run.
    """
    if consumption is None or (isinstance(supply, Prediction) and supply.problem is not None):
        return "unknown", None
    rate = supply.samples_per_s if isinstance(supply, Prediction) else supply
    reaches, is_enough = chance(rate, consumption.samples_per_s), chance(rate, needed_per_s(consumption, headroom_ratio))
    if 1 - reaches >= ENOUGH:
        return "input_bound", 1 - reaches
    if is_enough >= ENOUGH:
        return "accelerator_bound", is_enough
    return ("balanced", reaches - is_enough) if reaches - is_enough >= WORTH_SAYING else ("unknown", None)


def utilization(supply: Estimate, consumption: Consumption, stalled_ratio: float = 0.0) -> Estimate:
    """Return the share of the time in which the accelerator works: min(1, supply / demand), less the time of stalls.

    The low end is that of the low supply and the high demand; the high end is the other way round.

    Args:
        stalled_ratio: share of the time in which no batch comes, as while shuffles are filled again at each pass.
    """
    demand = consumption.samples_per_s
    fed = Estimate(
        estimate=min(1.0, supply.estimate / demand.estimate),
        low=min(1.0, supply.low / demand.high),
        high=min(1.0, supply.high / demand.low) if demand.low > 0 else 1.0,
    )
    return fed.scaled(1 - stalled_ratio)

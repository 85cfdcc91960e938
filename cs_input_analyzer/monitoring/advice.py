"""Which launch would help a run that waits for its input: what a saved analysis predicts for the demand that was seen. Pure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from cs_input_analyzer.errors import AnalyzerError
from cs_input_analyzer.monitoring.outputs import LOG
from cs_input_analyzer.monitoring.verdict import accelerator_rate
from cs_input_analyzer.records import Analysis, Consumption, Estimate, LaunchPlan
from cs_input_analyzer.units import counted, format_estimate

MOST_WHAT_IFS = 2


def saved_run(analysis: Any) -> Analysis | None:
    """The run that a path or a record stands for. What cannot be read is said on the log: a training does without."""
    if analysis is None or isinstance(analysis, Analysis):
        return analysis
    try:
        from cs_input_analyzer import report

        return report.load(Path(analysis))
    except (AnalyzerError, TypeError) as error:
        LOG.warning("the input monitor does without advice: %s", error)
        return None


def expected_per_s(found: Analysis | None) -> float | None:
    """What the saved run expects the accelerator to take."""
    return None if found is None or found.consumption is None else found.consumption.samples_per_s.estimate


def of_run(found: Analysis, rate_per_s: float | None, wait_ratio: Estimate | None, workers: int) -> str:
    """Advice for a run that one of `workers` watches: its rate, and the share of time that its accelerator waited."""
    demand = None
    if rate_per_s is not None and wait_ratio is not None:
        demand = accelerator_rate(Estimate.exact(rate_per_s * workers), wait_ratio)
    return advise(found, demand)


def advise(found: Analysis, demand: Estimate | None) -> str:
    """One paragraph: the launch that feeds the accelerator, and what else would change that.

    Args:
        demand: what the accelerator took, or would have taken without waiting, of all workers together, in samples per second; the
            demand of the analysis counts where it is larger (a run that starves shows only part of its demand), or alone.
    """
    from cs_input_analyzer.planning import recommend

    if found.capacity is None:
        return "the saved analysis holds no capacity model; analyze again with more --max-seconds for advice"
    wanted = _larger(demand, found.consumption)
    if wanted is None:
        return "no demand is known: pass log steps that read the loss, or analyze with --demand"
    try:
        plan = recommend.recommend(found.capacity, wanted, found.cluster, found.options)
    except AnalyzerError as error:
        return f"no launch of the saved analysis fits: {error}"
    return _sentence(found, plan, wanted)


def _larger(seen: Estimate | None, declared: Consumption | None) -> Consumption | None:
    if seen is None:
        return declared
    if declared is not None and declared.samples_per_s.estimate >= seen.estimate:
        return declared
    base = declared or Consumption(samples_per_s=seen, source="declared")
    return replace(base, samples_per_s=seen, source="declared", limited_by=None)


def _sentence(found: Analysis, plan: LaunchPlan, wanted: Consumption) -> str:
    today = found.options.current
    change = f"{plan.layout}" if today is None else f"{today} -> {plan.layout}"
    workers = f"{counted(plan.input_workers, 'input worker')}"
    predicted = format_estimate(plan.predicted_samples_per_s)
    demand = format_estimate(wanted.samples_per_s)
    if today == plan.layout:
        start = f"the launch {plan.layout} is what the analysis would choose, and predicts {predicted}"
    else:
        start = f"launch {change} ({workers}): predicted {predicted}"
    start += f" for a demand of {demand}"
    if not plan.meets_demand:
        start += f", which it does not meet: {plan.limited_by} limits it"
    helping = [row for row in plan.what_if if row.meets_demand and not plan.meets_demand] or [
        row for row in plan.what_if if row.note not in ("", "changes nothing")
    ]
    rows = "; ".join(f"{row.name}: {row.layout}, {row.note}" for row in helping[:MOST_WHAT_IFS] if not plan.meets_demand)
    return f"{start}. {rows}".strip().rstrip(".") + "."

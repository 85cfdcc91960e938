"""Which launch would help a run that waits for its input: what a saved analysis predicts for the demand that was seen. Pure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from cs_input_analyzer.errors import AnalyzerError
from cs_input_analyzer.monitoring.outputs import LOG
from cs_input_analyzer.monitoring.verdict import accelerator_rate
from cs_input_analyzer.records import Analysis, Consumption, Estimate, LaunchPlan, Layout
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


def of_run(found: Analysis, rate_per_s: float | None, wait_ratio: Estimate | None, workers: int) -> str:
    """One paragraph: the launch that feeds the accelerator, and what else would change that.

    Args:
        rate_per_s: of this worker, one of `workers`; with the share of time waited it says what the accelerator would take. The
            demand of the analysis counts where it is larger (a run that starves shows only part of its demand), or alone.
    """
    if found.capacity is None:
        return "the saved analysis holds no capacity model; analyze again with more --max-seconds for advice"
    wanted, demand = found.consumption, None
    if rate_per_s is not None and wait_ratio is not None:
        demand = accelerator_rate(Estimate.exact(rate_per_s * workers), wait_ratio)
    if demand is not None and (wanted is None or wanted.samples_per_s.estimate < demand.estimate):
        base = wanted or Consumption(samples_per_s=demand, source="declared")
        wanted = replace(base, samples_per_s=demand, source="declared", limited_by=None)
    if wanted is None:
        return "no demand is known: pass log steps that read the loss, or analyze with --demand"
    return planned(found, wanted, found.options.current)[1]


def planned(found: Analysis, wanted: Consumption, current: Layout | None) -> tuple[LaunchPlan | None, str]:
    """The launch that the capacity model of an analysis plans for a demand, in place of `current`, and the sentence about it."""
    from cs_input_analyzer.planning import recommend
    from cs_input_analyzer.report.wording import plan_currency

    assert found.capacity is not None
    try:
        plan = recommend.recommend(found.capacity, wanted, found.cluster, replace(found.options, current=current))
    except AnalyzerError as error:
        return None, f"no launch of the saved analysis fits: {error}"
    return plan, _sentence(plan, wanted, current, plan_currency(found))


def _sentence(plan: LaunchPlan, wanted: Consumption, current: Layout | None, currency: str) -> str:
    change = f"{plan.layout}" if current is None else f"{current} -> {plan.layout}"
    predicted = " ".join(filter(None, (format_estimate(plan.predicted_samples_per_s), currency)))
    if current == plan.layout:
        start = f"the launch {plan.layout} is what the analysis would choose, and its capacity model predicts {predicted}"
    else:
        workers = counted(plan.input_workers, "input worker")
        start = f"launch {change} ({workers}): by the capacity model predicted {predicted}"
    start += f" for a demand of {format_estimate(wanted.samples_per_s)}"
    if plan.meets_demand:
        return f"{start}."
    helping = [row for row in plan.what_if if row.meets_demand] or [
        row for row in plan.what_if if row.note not in ("", "changes nothing")
    ]
    rows = "; ".join(f"{row.name}: {row.layout}, {row.note}" for row in helping[:MOST_WHAT_IFS])
    return f"{start}, which it does not meet: {plan.limited_by} limits it. {rows}".strip().rstrip(".") + "."

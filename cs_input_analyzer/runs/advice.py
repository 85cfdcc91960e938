"""A run, a demand -> the launch that would feed it: by a saved analysis and its capacity model, or in proportion. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import count

from cs_input_analyzer.errors import AnalyzerError
from cs_input_analyzer.model import recommend
from cs_input_analyzer.records import Analysis, Consumption, LaunchPlan, Layout, Options, PlanChange, VerdictName, feeding
from cs_input_analyzer.report.wording import plan_currency
from cs_input_analyzer.units import counted, format_count, format_estimate, format_rate
from wafer_model import from_rate

# A run this far above what an analysis says is possible, or this far below its demand, is hardly of the same network and input.
ABOVE_RATIO, BELOW_RATIO = 1.25, 1 / 50
# Below this factor more input gains nothing that one would notice.
ENOUGH_RATIO = 1.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The rate that the accelerator would take, and its source."""

    samples_per_s: float
    source: str


def first_demand(*rates: tuple[float | None, str]) -> Demand | None:
    """Return the first demand whose rate is known. `rates`: (samples per second, source), the best source first."""
    return next((Demand(samples_per_s=rate, source=source) for rate, source in rates if rate), None)


def doubt_of(analysis: Analysis, rate: float | None, batch_size: float | None) -> str:
    """Return why the analysis can hardly be of this run's network and input; empty if nothing speaks against it."""
    demand = analysis.consumption
    samples = analysis.pipeline.samples_per_element
    element = demand.batch_size if demand is not None and demand.batch_size else samples.value if samples is not None else None
    if batch_size and element and batch_size % element and element % batch_size:
        return f"the run has {format_count(batch_size)} samples a step, and the analysis {format_count(element)}"
    if rate is None or demand is None:
        return ""
    expected = demand.samples_per_s
    if BELOW_RATIO * expected.low <= rate <= ABOVE_RATIO * expected.high:
        return ""
    return f"the run took {format_rate(rate)}, and the analysis' demand is {format_rate(expected.estimate)}"


def change_of(
    verdict: VerdictName, rate: float | None, demand: Demand | None, current: Layout | None, analysis: Analysis | None
) -> PlanChange:
    """Return what to do about the launch.

    Args:
        rate: samples per second that the run took.
        analysis: a saved run of `analyze` for the same input function.
    """
    if current is None and analysis is not None:
        current = analysis.options.current
    factor = demand.samples_per_s / rate if demand is not None and rate else None
    change = PlanChange(
        demand_samples_per_s=demand.samples_per_s if demand is not None else None,
        demand_source=demand.source if demand is not None else "",
        input_factor=factor,
        current=current,
        layout=None,
        predicted_samples_per_s=None,
        text="",
    )
    text = _nothing_to_change(verdict, demand, factor)
    if text or factor is None or demand is None:
        return replace(change, text=text)
    if analysis is None or analysis.capacity is None:
        return _in_proportion(change, factor, verdict)
    mode = analysis.consumption.mode if analysis.consumption is not None else None
    plan, text = planned(analysis, from_rate(demand.samples_per_s, mode=mode), current)
    predicted = plan.predicted_samples_per_s if plan is not None else None
    layout = plan.layout if plan is not None else None
    return replace(change, layout=layout, predicted_samples_per_s=predicted, text=f"{text[0].upper()}{text[1:]}")


def _nothing_to_change(verdict: VerdictName, demand: Demand | None, factor: float | None) -> str:
    if verdict == "accelerator_bound":
        return "None: the accelerator had what it could take, and more input would gain nothing."
    if demand is None:
        is_bound = verdict == "input_bound"
        start = "The input held the run back, but" if is_bound else "Nothing here says how fast the accelerator is, so"
        return (
            f"{start} how much more it would take is not in these files: performance.json with est_samples_per_sec, a compile "
            "report, or --analysis RUN.json of an analysis with a demand would say."
        )
    if factor is None:
        return "The files hold no rate of training, so how much more input it needs cannot be said."
    return "None: the run took what the accelerator takes." if factor < ENOUGH_RATIO else ""


def planned(found: Analysis, wanted: Consumption, current: Layout | None) -> tuple[LaunchPlan | None, str]:
    """Return the launch that the capacity model of an analysis plans for a demand, and the sentence about it."""
    assert found.capacity is not None
    try:
        plan = recommend.recommend(found.capacity, wanted, found.cluster, replace(found.options, current=current))
    except AnalyzerError as error:
        return None, f"no launch of the saved analysis fits: {error}"
    change = f"{plan.layout}" if current is None else f"{current} -> {plan.layout}"
    predicted = " ".join(filter(None, (format_estimate(plan.predicted_samples_per_s), plan_currency(found))))
    start = f"launch {change} ({counted(plan.input_workers, 'input worker')}): by the capacity model predicted {predicted}"
    if current == plan.layout:
        start = f"the launch {plan.layout} is what the analysis would choose, and its capacity model predicts {predicted}"
    start += f" for a demand of {format_estimate(wanted.samples_per_s)}"
    if plan.meets_demand:
        return plan, f"{start}."
    return plan, f"{start}. It {feeding(plan)}: {plan.limited_by} limits it."


def _in_proportion(change: PlanChange, factor: float, verdict: VerdictName) -> PlanChange:
    it = "It" if verdict == "input_bound" else "If its input is what holds it back, it"
    needs = f"{it} needs {factor:.2f} times the input rate"
    if change.current is None:
        return replace(change, text=f"{needs}: --current NxTxC says in nodes, --analysis RUN.json with what was measured.")
    tasks = change.current.tasks_per_node
    workers = max(1, _input_workers(change.current.nodes, tasks))
    wanted = math.ceil(workers * factor)
    nodes = next(nodes for nodes in count(change.current.nodes) if _input_workers(nodes, tasks) >= wanted)
    layout = replace(change.current, nodes=nodes)
    text = (
        f"{needs}: {format_count(wanted)} input workers instead of {format_count(workers)}, so {layout} at least. That "
        "holds where each further worker adds as much as those there are; --analysis RUN.json says whether it does."
    )
    return replace(change, layout=layout, text=text)


def _input_workers(nodes: int, tasks: int) -> int:
    """Return the workers of a pipelined launch, without the node or the task of the chief."""
    alone = recommend.single_task_nodes(nodes, None, Options())
    return (nodes - alone) * tasks - (1 if alone == 0 else 0)

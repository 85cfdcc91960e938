"""A run that was read, a demand -> the change of its launch: by a saved analysis and its capacity model, or in proportion. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from cs_input_analyzer.monitoring.advice import planned
from cs_input_analyzer.planning.recommend import predict_current, single_task_nodes
from cs_input_analyzer.records import Analysis, Estimate, Layout, Options, PlanChange, VerdictName
from cs_input_analyzer.units import format_count, format_rate
from wafer_model import from_rate

ABOVE_RATIO, BELOW_RATIO = 1.25, 1 / 50
"""A run this far above what an analysis says is possible, or this far below its demand, is hardly of the same network and input."""

ENOUGH_RATIO = 1.05
"""Below this factor more input gains nothing that one would notice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What the accelerator would take, and how that is known."""

    samples_per_s: float
    source: str


def supply_of_launch(analysis: Analysis | None, current: Layout | None) -> Estimate | None:
    """What the capacity model says of the launch of the run; None without a model, a launch, or where it could not run."""
    if analysis is None or analysis.capacity is None:
        return None
    layout = current or analysis.options.current
    if layout is None:
        return None
    options = replace(analysis.options, current=layout)
    prediction = predict_current(analysis.capacity, analysis.consumption, analysis.cluster, options)
    return prediction.samples_per_s if prediction.problem is None else None


def doubt_of(analysis: Analysis, rate: float | None, batch_size: float | None, supply: Estimate | None) -> str:
    """Why the analysis can hardly be of this run's network and input; empty where nothing speaks against it."""
    demand = analysis.consumption
    samples = analysis.pipeline.samples_per_element
    element = demand.batch_size if demand is not None and demand.batch_size else samples.value if samples is not None else None
    if batch_size and element and batch_size % element and element % batch_size:
        return f"the run has {format_count(batch_size)} samples a step, and the analysis {format_count(element)}"
    if rate is None:
        return ""
    if demand is not None and rate > ABOVE_RATIO * demand.samples_per_s.high:
        return f"the run took {format_rate(rate)}, more than the {format_rate(demand.samples_per_s.high)} of the analysis' demand"
    if supply is not None and rate > ABOVE_RATIO * supply.high:
        return (
            f"the run took {format_rate(rate)}, more than the {format_rate(supply.high)} that the analysis says its launch can give"
        )
    if demand is not None and rate < BELOW_RATIO * demand.samples_per_s.low and (supply is None or rate < BELOW_RATIO * supply.low):
        return (
            f"the run took {format_rate(rate)}, a small part of the {format_rate(demand.samples_per_s.low)} of the analysis' demand"
        )
    return ""


def change_of(
    verdict: VerdictName, rate: float | None, demand: Demand | None, current: Layout | None, analysis: Analysis | None
) -> PlanChange:
    """What to do about the launch.

    Args:
        rate: samples per second that the run took.
        analysis: a saved run of `analyze` for the same input function.
    """
    if current is None and analysis is not None:
        current = analysis.options.current
    factor = demand.samples_per_s / rate if demand is not None and rate else None
    nothing = PlanChange(
        demand_samples_per_s=demand.samples_per_s if demand is not None else None,
        demand_source=demand.source if demand is not None else "",
        input_factor=factor,
        current=current,
        layout=None,
        predicted_samples_per_s=None,
        text="",
    )
    if verdict == "accelerator_bound":
        return replace(nothing, text="None: the accelerator had what it could take, and more input would gain nothing.")
    if demand is None:
        return replace(nothing, text=_without_demand(verdict))
    if factor is None:
        return replace(nothing, text="The files hold no rate of training, so how much more input it needs cannot be said.")
    if factor < ENOUGH_RATIO:
        return replace(nothing, text="None: the run took what the accelerator takes.")
    if analysis is not None and analysis.capacity is not None:
        return _planned(nothing, demand, analysis)
    return _in_proportion(nothing, factor, verdict)


def _without_demand(verdict: VerdictName) -> str:
    held = "The input held the run back, but" if verdict == "input_bound" else "Nothing here says how fast the accelerator is, so"
    return (
        f"{held} how much more it would take is not in these files: performance.json with est_samples_per_sec, a compile report, "
        "or --analysis RUN.json of an analysis with a demand would say."
    )


def _planned(change: PlanChange, demand: Demand, analysis: Analysis) -> PlanChange:
    mode = analysis.consumption.mode if analysis.consumption is not None else None
    plan, text = planned(analysis, from_rate(demand.samples_per_s, mode=mode), change.current)
    text = f"{text[0].upper()}{text[1:]}"
    if plan is None:
        return replace(change, text=text)
    return replace(change, layout=plan.layout, predicted_samples_per_s=plan.predicted_samples_per_s, text=text)


def _in_proportion(change: PlanChange, factor: float, verdict: VerdictName) -> PlanChange:
    needs = f"{factor:.2f} times the input rate"
    condition = "" if verdict == "input_bound" else "If its input is what holds it back, it"
    if change.current is None:
        start = f"It needs {needs}" if verdict == "input_bound" else f"{condition} needs {needs}"
        return replace(change, text=f"{start}: --current NxTxC says in nodes, --analysis RUN.json with what was measured.")
    layout, workers, wanted = _scaled(change.current, factor)
    start = "It needs" if verdict == "input_bound" else f"{condition} needs"
    text = (
        f"{start} {needs}: {format_count(wanted)} input workers instead of {format_count(workers)}, so {layout} at least. That "
        "holds where each further worker adds as much as those there are; --analysis RUN.json says whether it does."
    )
    return replace(change, layout=layout, text=text)


def _scaled(current: Layout, factor: float) -> tuple[Layout, int, int]:
    """The launch with so many times the input workers, by nodes; those now, and those then."""
    single = single_task_nodes(current.nodes, None, Options())
    chief = 1 if single == 0 else 0
    workers = max(1, (current.nodes - single) * current.tasks_per_node - chief)
    wanted = math.ceil(workers * factor)
    for nodes in range(current.nodes, current.nodes + wanted + 2):
        alone = single_task_nodes(nodes, None, Options())
        if (nodes - alone) * current.tasks_per_node - (1 if alone == 0 else 0) >= wanted:
            return replace(current, nodes=nodes), workers, wanted
    return replace(current, nodes=current.nodes + wanted + 2), workers, wanted

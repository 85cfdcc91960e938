"""A run that was read, a demand -> the change of its launch: by a saved analysis and its capacity model, or in proportion. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import count

from cs_input_analyzer.monitoring.advice import planned
from cs_input_analyzer.planning.recommend import single_task_nodes
from cs_input_analyzer.records import Analysis, Layout, Options, PlanChange, VerdictName
from cs_input_analyzer.units import format_count, format_rate
from wafer_model import from_rate

# A run this far above what an analysis says is possible, or this far below its demand, is hardly of the same network and input.
ABOVE_RATIO, BELOW_RATIO = 1.25, 1 / 50
# Below this factor more input gains nothing that one would notice.
ENOUGH_RATIO = 1.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What the accelerator would take, and how that is known."""

    samples_per_s: float
    source: str


def doubt_of(analysis: Analysis, rate: float | None, batch_size: float | None) -> str:
    """Why the analysis can hardly be of this run's network and input; empty where nothing speaks against it."""
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
    """What to do about the launch.

    Args:
        rate: samples per second that the run took.
        analysis: a saved run of `analyze` for the same input function.
    """
    if current is None and analysis is not None:
        current = analysis.options.current
    factor = demand.samples_per_s / rate if demand is not None and rate else None
    plan, text = None, ""
    if verdict == "accelerator_bound":
        text = "None: the accelerator had what it could take, and more input would gain nothing."
    elif demand is None:
        bound = (
            "The input held the run back, but" if verdict == "input_bound" else "Nothing here says how fast the accelerator is, so"
        )
        text = (
            f"{bound} how much more it would take is not in these files: performance.json with est_samples_per_sec, a compile "
            "report, or --analysis RUN.json of an analysis with a demand would say."
        )
    elif factor is None:
        text = "The files hold no rate of training, so how much more input it needs cannot be said."
    elif factor < ENOUGH_RATIO:
        text = "None: the run took what the accelerator takes."
    elif analysis is not None and analysis.capacity is not None:
        mode = analysis.consumption.mode if analysis.consumption is not None else None
        plan, text = planned(analysis, from_rate(demand.samples_per_s, mode=mode), current)
        text = f"{text[0].upper()}{text[1:]}"
    change = PlanChange(
        demand_samples_per_s=demand.samples_per_s if demand is not None else None,
        demand_source=demand.source if demand is not None else "",
        input_factor=factor,
        current=current,
        layout=plan.layout if plan is not None else None,
        predicted_samples_per_s=plan.predicted_samples_per_s if plan is not None else None,
        text=text,
    )
    return change if text or factor is None else _in_proportion(change, factor, verdict)


def _in_proportion(change: PlanChange, factor: float, verdict: VerdictName) -> PlanChange:
    it = "It" if verdict == "input_bound" else "If its input is what holds it back, it"
    needs = f"{it} needs {factor:.2f} times the input rate"
    if change.current is None:
        return replace(change, text=f"{needs}: --current NxTxC says in nodes, --analysis RUN.json with what was measured.")
    tasks = change.current.tasks_per_node
    workers = max(1, _input_workers(change.current.nodes, tasks))
    wanted = math.ceil(workers * factor)
    layout = replace(
        change.current, nodes=next(nodes for nodes in count(change.current.nodes) if _input_workers(nodes, tasks) >= wanted)
    )
    text = (
        f"{needs}: {format_count(wanted)} input workers instead of {format_count(workers)}, so {layout} at least. That "
        "holds where each further worker adds as much as those there are; --analysis RUN.json says whether it does."
    )
    return replace(change, layout=layout, text=text)


def _input_workers(nodes: int, tasks: int) -> int:
    """Those of a pipelined launch: without the node, or the task, of the chief."""
    alone = single_task_nodes(nodes, None, Options())
    return (nodes - alone) * tasks - (1 if alone == 0 else 0)

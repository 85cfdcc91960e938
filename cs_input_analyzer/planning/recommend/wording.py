"""Why this launch, and why not one node fewer, in two or three sentences."""

from __future__ import annotations

import math

from cs_input_analyzer.planning.capacity.assumptions import THIS_HOST
from cs_input_analyzer.planning.capacity.worker import probe_distances, smt_ratios
from cs_input_analyzer.planning.recommend.choice import Choice, limit_on
from cs_input_analyzer.planning.recommend.launch_table import fastest
from cs_input_analyzer.planning.recommend.problem import PlanningProblem
from cs_input_analyzer.records import Prediction
from cs_input_analyzer.units import counted, format_rate, format_ratio

__all__ = ["why"]

PER_NODE = "samples/s per node"
# Launches that differ by less (one standard deviation) are nothing to speak of.
UNEVEN_LAUNCHES_RATIO = 0.1


def why(problem: PlanningProblem, choice: Choice) -> str:
    """What decided, why not one node fewer, and which assumptions widened the interval."""
    parts = (_decided(problem, choice), _fewer(problem, choice), _doubts(problem, choice))
    return " ".join(part for part in parts if part)


def _decided(problem: PlanningProblem, choice: Choice) -> str:
    low, target = choice.best.samples_per_s.low, problem.target_per_s
    if target is None:
        per_node = format_rate(low / choice.best.layout.nodes, PER_NODE)
        return f"No demand was given: no launch has a higher rate per node, at least {per_node}; {choice.limited_by} limits it."
    wanted = f"{format_rate(target)} (demand with {format_ratio(problem.options.headroom_ratio)} headroom)"
    if choice.meets:
        return f"The cheapest launch that reaches {wanted}: it streams at least {format_rate(low)}."
    text = f"No launch on this cluster reaches {wanted}: the best streams at least {format_rate(low)}"
    return f"{text}, {format_ratio(1 - low / target)} short; {choice.limited_by} limits it."


def _fewer(problem: PlanningProblem, choice: Choice) -> str:
    """The fastest launch on one node fewer; where none runs there, because single-task nodes take them all, on one node."""
    nodes = choice.best.layout.nodes
    if nodes == 1:
        return ""
    fewer, text = fastest(problem, nodes - 1), ""
    if fewer is None:
        text = f"No launch runs on {counted(nodes - 1, 'node')}, single-task nodes counted."
        fewer = fastest(problem, 1) if nodes > 2 else None
        if fewer is None:
            return text
    where = "One node fewer" if not text else "One node alone"
    return f"{text} {where} {_guarantees(problem, fewer)}".strip()


def _guarantees(problem: PlanningProblem, fewer: Prediction) -> str:
    rate = fewer.samples_per_s.low
    if problem.target_per_s is None:
        return f"would guarantee only {format_rate(rate / fewer.layout.nodes, PER_NODE)}."
    return f"would guarantee only {format_rate(rate)} ({limit_on(problem, fewer)})."


def _doubts(problem: PlanningProblem, choice: Choice) -> str:
    """Assumptions that widened the interval of this plan."""
    best, cluster, doubts = choice.best, problem.cluster, []
    if best.extrapolation_ratio > 1:
        doubts.append(f"it lies {best.extrapolation_ratio:.3g} times outside what was probed")
    streaming = best.layout.tasks_per_node - (1 if best.layout.nodes == 1 else 0)
    if any(probe_distances(problem.model, streaming, best.layout.cpus_per_task)):
        doubts.append(f"{best.layout.cpus_per_task} CPUs per task lie between those that were probed")
    if smt_ratios(problem.model, cluster, streaming, best.layout.cpus_per_task)[1] < 1:
        is_known = cluster.threads_per_core is not None
        doubts.append("its tasks share cores by hardware threads" if is_known else "the nodes' threads per core are unknown")
    if cluster.speed_ratio is None and cluster.source != THIS_HOST:
        doubts.append("the speed of the nodes' CPUs is unknown")
    apart = problem.model.launch_spread_ratio
    if apart / math.sqrt(best.layout.nodes - best.single_task_nodes) >= UNEVEN_LAUNCHES_RATIO:
        doubts.append(f"one launch differs from the next by {format_ratio(apart)} on this host")
    said = " and ".join([*([", ".join(doubts[:-1])] if doubts[1:] else []), *doubts[-1:]])
    return f"The interval is widened: {said}." if doubts else ""

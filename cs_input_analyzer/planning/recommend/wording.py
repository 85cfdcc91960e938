"""Why this launch, and why not one node fewer, in two or three sentences."""

from __future__ import annotations

import math

from cs_input_analyzer.planning.capacity.assumptions import THIS_HOST
from cs_input_analyzer.planning.capacity.worker import probe_distances, smt_ratios
from cs_input_analyzer.planning.recommend.launches import Choice, limit_on, on_nodes
from cs_input_analyzer.planning.recommend.problem import PlanningProblem
from cs_input_analyzer.planning.recommend.verdict import ENOUGH, chance
from cs_input_analyzer.records import Prediction
from cs_input_analyzer.units import counted, format_probability, format_rate, format_ratio

PER_NODE = "samples/s per node"
# Launches that differ by less (one standard deviation) are nothing to speak of.
UNEVEN_LAUNCHES_RATIO = 0.1


def why(problem: PlanningProblem, choice: Choice) -> str:
    """What decided, why not one node fewer, and which assumptions widened the interval."""
    parts = (_decided(problem, choice), _fewer(problem, choice), _doubts(problem, choice))
    return " ".join(part for part in parts if part)


def _decided(problem: PlanningProblem, choice: Choice) -> str:
    best = choice.best
    if problem.needed is None or choice.chance is None:
        per_node = format_rate(best.samples_per_s.low / best.layout.nodes, PER_NODE)
        return f"No demand was given: no launch has a higher rate per node, at least {per_node}; {choice.limited_by} limits it."
    wanted = f"{format_rate(problem.needed.estimate)} (demand with {format_ratio(problem.options.headroom_ratio)} headroom)"
    sure = f"with a probability of {format_probability(choice.chance)}"
    if best.layout == problem.options.previous:
        return f"The plan of before: it still reaches {wanted} {sure}."
    if choice.meets:
        return (
            f"The fewest nodes that reach {wanted} with a probability of {format_probability(ENOUGH)}; this launch does so {sure}."
        )
    text = f"No launch on this cluster is sure to reach {wanted}: the best reaches it {sure}"
    return f"{text}, and streams at least {format_rate(best.samples_per_s.low)}; {choice.limited_by} limits it."


def _fewer(problem: PlanningProblem, choice: Choice) -> str:
    """What one node fewer would do; where none runs there, because single-task nodes take them all, one node."""
    nodes = choice.best.layout.nodes
    if nodes == 1:
        return ""
    fewer, text = on_nodes(problem, nodes - 1), ""
    if fewer is None:
        text = f"No launch runs on {counted(nodes - 1, 'node')}, single-task nodes counted."
        fewer = on_nodes(problem, 1) if nodes > 2 else None
        if fewer is None:
            return text
    where = "One node fewer" if not text else "One node alone"
    return f"{text} {where} {_would(problem, fewer)}".strip()


def _would(problem: PlanningProblem, fewer: Prediction) -> str:
    if problem.needed is None:
        return f"would guarantee only {format_rate(fewer.samples_per_s.low / fewer.layout.nodes, PER_NODE)}."
    sure = format_probability(chance(fewer.samples_per_s, problem.needed))
    return f"would do so with a probability of only {sure} ({limit_on(problem, fewer)})."


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

"""Why this launch, and why not one node fewer, in two sentences."""

from __future__ import annotations

from cs_input_analyzer.planning.recommend.launches import Choice, limit_on, on_nodes
from cs_input_analyzer.planning.recommend.problem import PlanningProblem
from cs_input_analyzer.planning.recommend.verdict import ENOUGH, chance
from cs_input_analyzer.units import counted, format_probability, format_rate, format_ratio

PER_NODE = "samples/s per node"


def why(problem: PlanningProblem, choice: Choice) -> str:
    """What decided, and why not one node fewer."""
    return f"{_decided(problem, choice)} {_fewer(problem, choice)}".strip()


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
    """What one node fewer would do."""
    fewer = choice.best.layout.nodes - 1
    if fewer == 0:
        return ""
    best = on_nodes(problem, fewer)
    if best is None:
        return f"No launch runs on {counted(fewer, 'node')}, single-task nodes counted."
    if problem.needed is None:
        return f"One node fewer would guarantee only {format_rate(best.samples_per_s.low / fewer, PER_NODE)}."
    sure = format_probability(chance(best.samples_per_s, problem.needed))
    return f"One node fewer would do so with a probability of only {sure} ({limit_on(problem, best)})."

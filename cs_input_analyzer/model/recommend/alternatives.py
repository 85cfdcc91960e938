"""The launches around a plan, on more and on fewer nodes, and the reasons for the plan. Pure."""

from __future__ import annotations

from dataclasses import replace

from cs_input_analyzer.model.recommend.launches import Choice, limit_on, on_nodes, smallest
from cs_input_analyzer.model.recommend.problem import PlanningProblem
from cs_input_analyzer.model.recommend.verdict import ENOUGH, chance
from cs_input_analyzer.records import Alternative, Prediction
from cs_input_analyzer.units import counted, format_rate, format_ratio

PER_NODE = "samples/s per node"


def alternatives(problem: PlanningProblem, choice: Choice, today: Prediction | None) -> tuple[Alternative, ...]:
    """Return the launch in use today, if any, then launches on node counts around the plan's.

    They include the smallest launch on the plan's nodes that meets the demand.
    """
    plan, most = choice.best.layout, problem.cluster.nodes
    counts = {plan.nodes + step for step in (-2, -1, 1, 2)} | {2 * plan.nodes, most}
    found = [(nodes, on_nodes(problem, nodes)) for nodes in sorted(counts) if 1 <= nodes <= most]
    named = {plan.nodes - 1: "one node fewer", plan.nodes + 1: "one node more", most: "all nodes"}
    rows = [(row, named.get(nodes, "")) for nodes, row in found if row is not None and row.layout.nodes == nodes]
    least = smallest(problem, plan.nodes)
    if least is not None:
        rows.append((least, "the smallest that will do"))
    hidden = {plan} if today is None else {plan, today.layout}
    shown = sorted((row for row in rows if row[0].layout not in hidden), key=lambda row: (row[0].layout.nodes, row[0].layout.cpus))
    table = [alternative(problem, row, limit_on(problem, row), note) for row, note in shown]
    if today is not None:
        note = "current launch" if today.problem is None else f"current launch: cannot run as given, {today.problem}"
        table.insert(0, replace(alternative(problem, today, today.limited_by, note), is_current=True))
    return tuple(table)


def alternative(problem: PlanningProblem, prediction: Prediction, limited_by: str, note: str = "") -> Alternative:
    """Return a launch as an alternative, judged by the demand of the problem."""
    sure = None if problem.needed is None else 0.0 if prediction.problem else chance(prediction.samples_per_s, problem.needed)
    return Alternative.of(
        prediction,
        predicted_samples_per_s=prediction.samples_per_s,
        limited_by=limited_by,
        meets_demand=None if sure is None else sure >= ENOUGH,
        probability=sure,
        note=note,
    )


def why(problem: PlanningProblem, choice: Choice) -> str:
    """Return the deciding limit, and why one node fewer is not enough."""
    return f"{_decided(problem, choice)} {_fewer(problem, choice)}".strip()


def _decided(problem: PlanningProblem, choice: Choice) -> str:
    best = choice.best
    if problem.needed is None or choice.chance is None:
        per_node = format_rate(best.samples_per_s.low / best.layout.nodes, PER_NODE)
        return f"No demand was given: no launch has a higher rate per node, at least {per_node}; {choice.limited_by} limits it."
    wanted = f"{format_rate(problem.needed.estimate)} (demand with {format_ratio(problem.options.headroom_ratio)} headroom)"
    if best.layout == problem.kept:
        return f"The plan of an earlier run: it still reaches {wanted}."
    if choice.meets:
        return f"The fewest nodes that reach {wanted}."
    text = f"No launch on this cluster is sure to reach {wanted}: the best streams at least {format_rate(best.samples_per_s.low)}"
    return f"{text}; {choice.limited_by} limits it."


def _fewer(problem: PlanningProblem, choice: Choice) -> str:
    """Return the rate of one node fewer, in words."""
    fewer = choice.best.layout.nodes - 1
    if fewer == 0:
        return ""
    best = on_nodes(problem, fewer)
    if best is None:
        return f"No launch runs on {counted(fewer, 'node')}, single-task nodes counted."
    if problem.needed is None:
        return f"One node fewer would guarantee only {format_rate(best.samples_per_s.low / fewer, PER_NODE)}."
    return f"One node fewer is not sure to reach it ({limit_on(problem, best)})."

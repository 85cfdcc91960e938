"""The launches around a plan, on more and on fewer nodes. Pure."""

from __future__ import annotations

from dataclasses import replace

from cs_input_analyzer.model.recommend.launches import Choice, on_nodes, smallest, that_feed
from cs_input_analyzer.model.recommend.problem import PlanningProblem
from cs_input_analyzer.model.recommend.verdict import ENOUGH, chance
from cs_input_analyzer.records import Alternative, Prediction


def alternatives(problem: PlanningProblem, choice: Choice, today: Prediction | None) -> tuple[Alternative, ...]:
    """Return the launch in use today, if any, then those on one node fewer, one node more and all nodes.

    They include the smallest launch on the plan's nodes that meets the demand.
    """
    plan, most = choice.best.layout, problem.cluster.nodes
    named = {most: "all nodes", plan.nodes - 1: "one node fewer", plan.nodes + 1: "one node more"}
    found = [(on_nodes(problem, nodes), note) for nodes, note in named.items() if 1 <= nodes <= most]
    rows = [(row, note) for row, note in found if row is not None]
    if feeding := that_feed(problem, plan.nodes):
        rows.append((smallest(problem, feeding), "the smallest that will do"))
    hidden = {plan} if today is None else {plan, today.layout}
    shown = sorted((row for row in rows if row[0].layout not in hidden), key=lambda row: (row[0].layout.nodes, row[0].layout.cpus))
    table = [alternative(problem, row, note) for row, note in shown]
    if today is not None:
        note = "current launch" if today.problem is None else f"current launch: cannot run as given, {today.problem}"
        table.insert(0, replace(alternative(problem, today, note), is_current=True))
    return tuple(table)


def alternative(problem: PlanningProblem, prediction: Prediction, note: str = "") -> Alternative:
    """Return a launch as an alternative, judged by the demand of the problem."""
    sure = None if problem.needed is None else 0.0 if prediction.problem else chance(prediction.samples_per_s, problem.needed)
    return Alternative.of(
        prediction,
        predicted_samples_per_s=prediction.samples_per_s,
        meets_demand=None if sure is None else sure >= ENOUGH,
        probability=sure,
        note=note,
    )

"""The alternatives to a plan: launches around it, none of which is beaten by any other launch.

One launch beats another when it has at most as many nodes and CPUs and at least the rate (low end), and is better in one of them
(Pareto dominance). A launch that is beaten, or faster by rounding only, gives its place to one that is not beaten.
"""

from __future__ import annotations

from dataclasses import replace

from cs_input_analyzer.planning.recommend.choice import Choice, limit_on
from cs_input_analyzer.planning.recommend.launch_table import EQUAL_RATIO, fastest, leanest, unbeaten
from cs_input_analyzer.planning.recommend.problem import PlanningProblem
from cs_input_analyzer.records import Alternative, Prediction

__all__ = ["MOST_ALTERNATIVES", "alternatives"]

MOST_ALTERNATIVES = 12


def alternatives(problem: PlanningProblem, choice: Choice, today: Prediction | None) -> tuple[Alternative, ...]:
    """The launch in use today, if any, then by nodes: the fastest at node counts around the plan's, and with more nodes than it
    needs those that meet the demand with the fewest CPUs."""
    plan, most, target = choice.best.layout, problem.cluster.nodes, problem.target_per_s
    counts = {plan.nodes + step for step in (-2, -1, 0, 1, 2)} | {2 * plan.nodes, most}
    found = [fastest(problem, nodes) for nodes in sorted(counts) if 1 <= nodes <= most]
    if target is not None:
        wider = sorted(nodes for nodes in counts if plan.nodes < nodes <= min(2 * plan.nodes, most))
        found += [leanest(problem, nodes, target) for nodes in wider]
    rows = {row.layout: row for row in (_unbeaten(problem, one) for one in found if one is not None)}
    hidden = {plan} if today is None else {plan, today.layout}
    shown = sorted((row for row in rows.values() if row.layout not in hidden), key=lambda row: (row.layout.nodes, row.layout.cpus))
    table = [_alternative(row, limit_on(problem, row), target, _note(row, choice, target, most)) for row in shown]
    if today is not None:
        note = "current launch" if today.problem is None else f"current launch: cannot run as given, {today.problem}"
        table.insert(0, replace(_alternative(today, today.limited_by, target, note), is_current=True))
    return tuple(table[:MOST_ALTERNATIVES])


def _alternative(prediction: Prediction, limited_by: str, target: float | None, note: str) -> Alternative:
    return Alternative(
        layout=prediction.layout,
        input_workers=prediction.input_workers,
        predicted_samples_per_s=prediction.samples_per_s,
        limited_by=limited_by,
        memory_bytes_per_node=prediction.memory_bytes_per_node,
        meets_demand=None if target is None else prediction.samples_per_s.low >= target,
        note=note,
    )


def _unbeaten(problem: PlanningProblem, row: Prediction) -> Prediction:
    """A launch as fast as this one that none beats."""
    return unbeaten(problem, EQUAL_RATIO * row.samples_per_s.low, row.layout.nodes, row.layout.cpus) or row


def _note(row: Prediction, choice: Choice, target: float | None, most: int) -> str:
    plan, more = choice.best, row.layout.nodes - choice.best.layout.nodes
    named = {-1: "one node fewer", 0: "as many nodes", 1: "one node more"}
    notes = [named.get(more, "all nodes" if row.layout.nodes == most else "")]
    enough = EQUAL_RATIO * plan.samples_per_s.low if target is None else min(target, EQUAL_RATIO * plan.samples_per_s.low)
    if row.layout.cpus < plan.layout.cpus and row.samples_per_s.low >= enough:
        notes.append("fewer CPUs")
    elif more == 0:
        notes.append("faster" if row.samples_per_s.low > plan.samples_per_s.low else "slower")
    return ", ".join(note for note in notes if note)

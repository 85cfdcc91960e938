"""Other launches worth a look: around the plan, and none of them beaten by any other launch.

One launch beats another when it has at most as many nodes and CPUs and at least the rate (low end), and is better in one of them
(Pareto dominance). A launch that turns out to be beaten, or to be faster by crumbs only, gives its place to one that is not beaten.
"""

from __future__ import annotations

from cs_input_analyzer.planning.recommend.answer import Answer, binding
from cs_input_analyzer.planning.recommend.question import Question
from cs_input_analyzer.planning.recommend.search import EQUAL_RATIO, cheapest, fastest, leanest
from cs_input_analyzer.records import Alternative, Prediction

__all__ = ["MOST_ALTERNATIVES", "alternative", "alternatives", "limit_on"]

MOST_ALTERNATIVES = 12


def alternatives(question: Question, answer: Answer, target: float | None, today: Prediction | None) -> tuple[Alternative, ...]:
    """The launch in use today, if any, then by nodes: the fastest at node counts around the plan's, and with more nodes than it
    needs those that meet the demand with the fewest CPUs."""
    plan, most = answer.best.layout, question.cluster.nodes
    counts = {plan.nodes + step for step in (-2, -1, 0, 1, 2)} | {2 * plan.nodes, most}
    found = [fastest(question, nodes) for nodes in sorted(counts) if 1 <= nodes <= most]
    if target is not None:
        wider = sorted(nodes for nodes in counts if plan.nodes < nodes <= min(2 * plan.nodes, most))
        found += [leanest(question, nodes, target) for nodes in wider]
    rows = {row.layout: row for row in (_unbeaten(question, one) for one in found if one is not None)}
    hidden = {plan} if today is None else {plan, today.layout}
    shown = sorted((row for row in rows.values() if row.layout not in hidden), key=lambda row: (row.layout.nodes, row.layout.cpus))
    told = [alternative(row, limit_on(question, row), target, _note(row, answer, target, most)) for row in shown]
    if today is not None:
        note = "current launch" if today.problem is None else f"current launch: cannot run as given, {today.problem}"
        told.insert(0, alternative(today, today.limited_by, target, note))
    return tuple(told[:MOST_ALTERNATIVES])


def alternative(prediction: Prediction, limited_by: str, target: float | None, note: str) -> Alternative:
    return Alternative(
        layout=prediction.layout,
        input_workers=prediction.input_workers,
        predicted_samples_per_s=prediction.samples_per_s,
        limited_by=limited_by,
        memory_bytes_per_node=prediction.memory_bytes_per_node,
        meets_demand=None if target is None else prediction.samples_per_s.low >= target,
        note=note,
    )


def limit_on(question: Question, prediction: Prediction) -> str:
    """What to add for more than this launch on as many nodes: where it is the fastest there, that may be files or memory."""
    nodes = prediction.layout.nodes
    top = fastest(question, nodes)
    if top is None or top.layout != prediction.layout:
        return prediction.limited_by
    return binding(question, prediction, lambda relaxed: fastest(relaxed, nodes))


def _unbeaten(question: Question, row: Prediction) -> Prediction:
    """A launch that none beats: of those as fast as this one with no more nodes and CPUs, the one with the fewest nodes, then
    CPUs."""

    def cost(prediction: Prediction) -> tuple[float, ...]:
        layout = prediction.layout
        rest = prediction.memory_bytes_per_node or 0, layout.cpus_per_task
        return (layout.nodes, layout.cpus_per_node, -prediction.samples_per_s.low, *rest)

    nodes, cpus = row.layout.nodes, row.layout.cpus
    return cheapest(question, EQUAL_RATIO * row.samples_per_s.low, most_nodes=nodes, most_cpus=cpus, cost=cost) or row


def _note(row: Prediction, answer: Answer, target: float | None, most: int) -> str:
    plan, more = answer.best, row.layout.nodes - answer.best.layout.nodes
    named = {-1: "one node fewer", 0: "as many nodes", 1: "one node more"}
    notes = [named.get(more, "all nodes" if row.layout.nodes == most else "")]
    enough = EQUAL_RATIO * plan.samples_per_s.low if target is None else min(target, EQUAL_RATIO * plan.samples_per_s.low)
    if row.layout.cpus < plan.layout.cpus and row.samples_per_s.low >= enough:
        notes.append("fewer CPUs")
    elif more == 0:
        notes.append("faster" if row.samples_per_s.low > plan.samples_per_s.low else "slower")
    return ", ".join(note for note in notes if note)

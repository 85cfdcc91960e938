"""The launch to use, whether it feeds the accelerator, and what holds it back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from cs_input_analyzer.planning import capacity
from cs_input_analyzer.planning.recommend.launch_table import (
    EQUAL_RATIO,
    best_possible,
    cheapest,
    fastest,
    highest,
    highest_per_node,
)
from cs_input_analyzer.planning.recommend.problem import PlanningProblem
from cs_input_analyzer.records import Prediction

__all__ = ["Choice", "choose", "limit_on"]

PER_NODE_LIMITS = (capacity.MEMORY_BANDWIDTH, capacity.HOST_STORAGE, capacity.NETWORK_IN, capacity.NETWORK_OUT)
"""What a busy node lets through whoever streams on it."""


class Choice(NamedTuple):
    """`meets`: whether the low end reaches the target; None without one. `limited_by`: what to add for more."""

    best: Prediction
    meets: bool | None
    limited_by: str


def choose(problem: PlanningProblem) -> Choice | None:
    """The cheapest launch whose low end reaches the target; where none does, the cheapest of those with the highest low end.
    Without a target, the one with the highest low end per node. None where no launch runs."""
    target = problem.target_per_s
    if target is None:
        best = highest_per_node(problem)
        return None if best is None else Choice(best, None, best.limited_by)
    best = cheapest(problem, target)
    if best is not None:
        return Choice(best, True, best.limited_by)
    best = best_possible(problem)
    return None if best is None else Choice(best, False, _binding(problem, best, highest))


def limit_on(problem: PlanningProblem, prediction: Prediction) -> str:
    """What to add for more than this launch on as many nodes: where it is the fastest there, that may be files or memory."""
    nodes = prediction.layout.nodes
    top = fastest(problem, nodes)
    if top is None or top.layout != prediction.layout:
        return prediction.limited_by
    return _binding(problem, prediction, lambda relaxed: fastest(relaxed, nodes))


def _binding(problem: PlanningProblem, best: Prediction, fastest_of: Callable[[PlanningProblem], Prediction | None]) -> str:
    """What to add for more than `best`, the fastest of its kind: the term of the law that binds, or the files or the memory without
    whose limit another launch of that kind would be faster."""
    if best.limited_by == capacity.STORAGE or best.limited_by in PER_NODE_LIMITS:
        return best.limited_by
    without_files = replace(problem, model=replace(problem.model, file_count=None))
    without_memory = replace(problem, model=replace(problem.model, private_bytes=None))
    others = ((capacity.FILES, fastest_of(without_files)), (capacity.MEMORY, fastest_of(without_memory)))
    lows = [(name, found.samples_per_s.low) for name, found in others if found is not None]
    name, low = max(lows, key=lambda pair: pair[1], default=(best.limited_by, 0.0))
    return name if low * EQUAL_RATIO > best.samples_per_s.low else best.limited_by

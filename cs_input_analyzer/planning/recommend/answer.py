"""The launch to use, whether it feeds the accelerator, and what holds it back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from cs_input_analyzer.planning import capacity
from cs_input_analyzer.planning.recommend.question import PER_NODE_LIMITS, Question, related
from cs_input_analyzer.planning.recommend.search import EQUAL_RATIO, best_possible, cheapest, highest, highest_per_node
from cs_input_analyzer.records import Prediction

__all__ = ["Answer", "binding", "needs_files", "needs_memory", "solve"]


class Answer(NamedTuple):
    """`meets`: whether the low end reaches the target; None without one. `limited_by`: what to add for more."""

    best: Prediction
    meets: bool | None
    limited_by: str


def solve(question: Question, target: float | None) -> Answer | None:
    """The cheapest launch whose low end reaches `target`; where none does, the cheapest of those with the highest low end; without
    a target, the one with the highest low end per node. None where no launch runs."""
    if target is None:
        best = highest_per_node(question)
        return None if best is None else Answer(best, None, best.limited_by)
    best = cheapest(question, target)
    if best is not None:
        return Answer(best, True, best.limited_by)
    best = best_possible(question)
    return None if best is None else Answer(best, False, binding(question, best, highest))


def binding(question: Question, best: Prediction, rival: Callable[[Question], Prediction | None]) -> str:
    """What to add for more than `best`, the fastest of its kind: the term of the law that binds, or the files or the memory without
    whose limit another launch of that kind (`rival`) would be faster."""
    if best.limited_by == capacity.STORAGE or best.limited_by in PER_NODE_LIMITS:
        return best.limited_by
    rivals = ((name, rival(relaxed)) for name, relaxed in _relaxed(question))
    lows = [(name, found.samples_per_s.low) for name, found in rivals if found is not None]
    name, low = max(lows, key=lambda pair: pair[1], default=(best.limited_by, 0.0))
    return name if low * EQUAL_RATIO > best.samples_per_s.low else best.limited_by


def _relaxed(question: Question) -> Iterator[tuple[str, Question]]:
    """The question without the limit of files, and of memory, where that keeps any launch from running."""
    if needs_files(question):
        yield capacity.FILES, related(question, model=replace(question.model, file_count=None))
    if needs_memory(question):
        yield capacity.MEMORY, related(question, model=replace(question.model, private_bytes=None))


def needs_files(question: Question) -> bool:
    """Whether there are launches with more input workers than files."""
    model, cluster = question.model, question.cluster
    return model.is_sharded and model.file_count is not None and model.file_count < cluster.nodes * cluster.cpus_per_node


def needs_memory(question: Question) -> bool:
    """Whether there are launches that hold more memory than a node has."""
    model, cluster = question.model, question.cluster
    full = cluster.cpus_per_node * (model.private_bytes or 0) + (model.shared_bytes or 0)
    return bool(model.private_bytes) and full > cluster.memory_bytes_per_node

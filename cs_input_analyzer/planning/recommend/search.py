"""The best of all launches in one respect or another: exact, without predicting each.

Two laws spare most predictions. For given tasks and CPUs more streaming nodes are never slower, but where one worker becomes
several, so the fewest nodes that reach a rate are found by bisection. And no launch is faster than the low ends of its workers
together, or than what its nodes and the storage let through (`ceiling`, which is cheap): a launch whose ceiling is too low is never
predicted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from cs_input_analyzer.planning.recommend.question import (
    ROUNDING_RATIO,
    Pair,
    Question,
    at,
    ceiling,
    node_ceiling,
    pairs,
    rising_ranges,
)
from cs_input_analyzer.records import Prediction

__all__ = ["EQUAL_RATIO", "best_possible", "cheapest", "fastest", "highest", "highest_per_node", "leanest", "price"]

EQUAL_RATIO = 0.999
"""Where no launch meets the demand, rates within 0.1 % of the best count as equal, and the one with fewer nodes wins."""

Price = tuple[float, ...]


def price(prediction: Prediction) -> Price:
    """What a launch costs, dearest resource first; the last two only settle ties, for the faster and for smaller tasks."""
    layout = prediction.layout
    memory = prediction.memory_bytes_per_node or 0
    return (layout.nodes, layout.cpus_per_node, memory, -prediction.samples_per_s.low, layout.cpus_per_task)


def cheapest(
    question: Question,
    target: float,
    *,
    most_nodes: int | None = None,
    most_cpus: float = math.inf,
    cost: Callable[[Prediction], Price] = price,
) -> Prediction | None:
    """The launch of the least `cost` whose low end reaches `target`; None where none does.

    Args:
        most_nodes, most_cpus: it may have at most so many, CPUs counted over all nodes.
        cost: what is compared, nodes before CPUs before anything else.
    """
    nodes_left = question.cluster.nodes if most_nodes is None else min(most_nodes, question.cluster.nodes)
    best: Prediction | None = None
    for pair in _strongest_first(question, nodes_left):
        size = pair[0] * pair[1]
        most = nodes_left if best is None else best.layout.nodes - (size > best.layout.cpus_per_node)
        if most_cpus < math.inf:
            most = min(most, int(most_cpus) // size)
        found = _fewest_nodes(question, pair, target, most)
        if found is not None and (best is None or cost(found) < cost(best)):
            best = found
    return best


def _strongest_first(question: Question, nodes: int) -> list[Pair]:
    """So that the first ones found leave little for the others to beat."""
    return sorted(pairs(question), key=lambda pair: (-ceiling(question, nodes, pair), pair[0] * pair[1], pair[1]))


def _fewest_nodes(question: Question, pair: Pair, target: float, most: int) -> Prediction | None:
    """The prediction with the fewest nodes, at most `most`, whose low end reaches `target`; None where none does."""

    def may_reach(nodes: int) -> bool:
        return ceiling(question, nodes, pair) >= target

    def reaches(nodes: int) -> bool:
        prediction = at(question, nodes, *pair)
        return prediction.problem is None and prediction.samples_per_s.low >= target

    for nodes in rising_ranges(question, pair[0]):
        last = min(nodes[-1], most)
        if nodes[0] > last or not may_reach(last):
            continue
        low = _first(nodes[0], last, may_reach)
        if reaches(low):
            return at(question, low, *pair)
        if low < last and reaches(last):
            return at(question, _first(low + 1, last, reaches), *pair)
    return None


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The smallest number for which it holds, where it holds for `high` and for all numbers after the first."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


def fastest(question: Question, nodes: int) -> Prediction | None:
    """The launch on so many nodes with the highest low end, the cheapest of equals; None where none runs."""
    return _highest_of(question, ((nodes, pair) for pair in pairs(question)))


def highest(question: Question) -> Prediction | None:
    """The launch with the highest low end, whatever it costs; None where none runs."""
    candidates = ((nodes[-1], pair) for pair in pairs(question) for nodes in rising_ranges(question, pair[0]))
    return _highest_of(question, candidates)


def highest_per_node(question: Question) -> Prediction | None:
    """The launch with the highest low end per node, the cheapest of equals; None where none runs.

    Per (tasks, CPUs) it rises with nodes, as the share of those that do not stream shrinks, until a ceiling is hit or the slowest
    of many workers weighs more, and falls from there.
    """
    ranked = [
        (ceiling(question, 1, pair) if nodes[0] == 1 else node_ceiling(question, pair), pair, nodes)
        for pair in pairs(question)
        for nodes in rising_ranges(question, pair[0])
    ]
    ranked.sort(key=lambda row: (-row[0], row[1][0] * row[1][1], row[1]))
    best: Prediction | None = None
    for most, pair, nodes in ranked:
        if best is not None and most < _per_node(best):
            break
        prediction = _peak(question, pair, nodes, best)
        if prediction is not None and (
            best is None or (-_per_node(prediction), *price(prediction)) < (-_per_node(best), *price(best))
        ):
            best = prediction
    return best


def _peak(question: Question, pair: Pair, nodes: range, best: Prediction | None) -> Prediction | None:
    """The launch of these tasks and CPUs with the highest rate per node; None where it cannot run, or not take the place of the
    best."""

    def may_be_highest(count: int) -> bool:
        return ceiling(question, count + 1, pair) / (count + 1) <= ceiling(question, count, pair) / count

    def is_highest(count: int) -> bool:
        return _per_node(at(question, count + 1, *pair)) <= _per_node(at(question, count, *pair))

    top = _first(nodes[0], nodes[-1], may_be_highest)
    if best is not None and _is_beaten(ceiling(question, top, pair) / top, top, pair, best, _per_node(best)):
        return None
    prediction = at(question, _first(nodes[0], nodes[-1], is_highest), *pair)
    return prediction if prediction.problem is None else None


def _per_node(prediction: Prediction) -> float:
    return prediction.samples_per_s.low / prediction.layout.nodes


def _highest_of(question: Question, candidates: Iterable[tuple[int, Pair]]) -> Prediction | None:
    """The launch with the highest low end, the cheapest of equals; None where none runs."""
    ranked = [(ceiling(question, nodes, pair), nodes, pair) for nodes, pair in candidates]
    ranked.sort(key=lambda row: (-row[0], row[1], row[2][0] * row[2][1], row[2]))
    best: Prediction | None = None
    for most, nodes, pair in ranked:
        if best is not None and _is_beaten(most, nodes, pair, best, best.samples_per_s.low):
            continue
        prediction = at(question, nodes, *pair)
        if prediction.problem is None and (
            best is None or (-prediction.samples_per_s.low, *price(prediction)) < (-best.samples_per_s.low, *price(best))
        ):
            best = prediction
    return best


def _is_beaten(most: float, nodes: int, pair: Pair, best: Prediction, worth: float) -> bool:
    """Whether a launch that is worth at most `most` cannot take the place of the best: it is worth less, or as much and dearer."""
    is_dearer = (nodes, pair[0] * pair[1]) > (best.layout.nodes, best.layout.cpus_per_node)
    return most < worth or (is_dearer and most <= worth * ROUNDING_RATIO**2)


def leanest(question: Question, nodes: int, target: float) -> Prediction | None:
    """The launch on so many nodes with the fewest CPUs whose low end reaches `target`; None where none does."""
    for pair in sorted(pairs(question), key=lambda pair: (pair[0] * pair[1], pair[0])):
        if ceiling(question, nodes, pair) >= target:
            prediction = at(question, nodes, *pair)
            if prediction.problem is None and prediction.samples_per_s.low >= target:
                return prediction
    return None


def best_possible(question: Question) -> Prediction | None:
    """The cheapest launch that is as fast as any, but for rounding crumbs; None where none runs."""
    top = highest(question)
    return None if top is None else cheapest(question, EQUAL_RATIO * top.samples_per_s.low)

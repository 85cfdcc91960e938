"""The table of all launches, (tasks, CPUs per task) x nodes, and the best of them in one respect or another. Exact.

Only the columns that a question needs are worked out, each for all rows at once. In every row the low end of the rate rises with
nodes, but where one worker, which waits for no other, becomes several: so the fewest nodes of each row are found by bisection over
all rows together, in twenty columns for a million nodes. Only what is chosen is predicted in full.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from cs_input_analyzer.planning.capacity.prediction import supply
from cs_input_analyzer.planning.recommend.problem import Floats, Ints, PlanningProblem, predicted
from cs_input_analyzer.records import Prediction

__all__ = ["EQUAL_RATIO", "best_possible", "cheapest", "fastest", "highest", "highest_per_node", "leanest", "low_ends", "unbeaten"]

Bools = npt.NDArray[np.bool_]

EQUAL_RATIO = 0.999
"""Where no launch meets the demand, rates within 0.1 % of the best count as equal, and the one with fewer nodes wins."""


def low_ends(problem: PlanningProblem, nodes: Ints | int) -> Floats:
    """Low ends of the rates of all rows on so many nodes, which broadcast against shape [rows]; -inf where a launch cannot run."""
    launches = problem.launches(nodes)
    workers = launches.input_workers
    runs = (launches.nodes >= 1) & (launches.nodes <= problem.cluster.nodes) & (launches.streaming_nodes >= 1) & (workers >= 1)
    if problem.model.is_sharded and problem.model.file_count is not None:
        runs &= workers <= problem.model.file_count
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = supply(problem.model, problem.cluster, launches, problem.rates_of_workers(launches), problem.options.feed)
    return np.where(runs, rates.low, -np.inf)


def cheapest(problem: PlanningProblem, target: float) -> Prediction | None:
    """The launch whose low end reaches `target` with the fewest nodes, then CPUs, then memory; None where none does."""
    nodes = _fewest_nodes(problem, target, problem.last_nodes)
    return _first(problem, nodes, nodes > 0, lambda lows: (*_price(problem, nodes), -lows, problem.cpus))


def unbeaten(problem: PlanningProblem, target: float, most_nodes: int, most_cpus: int) -> Prediction | None:
    """The launch of at most so many nodes and CPUs whose low end reaches `target` with the fewest nodes, then CPUs; of several with
    as many, the fastest."""
    size = problem.tasks * problem.cpus
    nodes = _fewest_nodes(problem, target, np.minimum(most_nodes, most_cpus // size))
    return _first(problem, nodes, nodes > 0, lambda lows: (nodes, size, -lows, problem.memory_bytes, problem.cpus))


def fastest(problem: PlanningProblem, nodes: int) -> Prediction | None:
    """The launch on so many nodes with the highest low end, the cheapest of equals; None where none runs."""
    return _highest_of(problem, np.full(problem.tasks.shape, nodes))


def highest(problem: PlanningProblem) -> Prediction | None:
    """The launch with the highest low end, whatever it costs; None where none runs."""
    return _highest_of(problem, _columns(problem, problem.last_nodes))


def highest_per_node(problem: PlanningProblem) -> Prediction | None:
    """The launch with the highest low end per node, the cheapest of equals; None where none runs.

    In each row it rises with nodes, as the share of those that do not stream shrinks, until a ceiling is hit or the slowest of many
    workers weighs more, and falls from there.
    """

    def is_past_peak(nodes: Ints) -> Bools:
        return low_ends(problem, nodes + 1) / (nodes + 1) <= low_ends(problem, nodes) / nodes

    nodes = _columns(problem, _first_where(problem.first_nodes + 1, problem.last_nodes, is_past_peak))
    return _highest_of(problem, nodes, per=nodes)


def leanest(problem: PlanningProblem, nodes: int, target: float) -> Prediction | None:
    """The launch on so many nodes with the fewest CPUs whose low end reaches `target`; None where none does."""
    lows = low_ends(problem, nodes)
    return _first(problem, np.full(lows.shape, nodes), lows >= target, lambda _: (problem.tasks * problem.cpus, problem.tasks))


def best_possible(problem: PlanningProblem) -> Prediction | None:
    """The cheapest launch within `EQUAL_RATIO` of the highest low end; None where none runs."""
    top = highest(problem)
    return None if top is None else cheapest(problem, EQUAL_RATIO * top.samples_per_s.low)


# --- selections over all rows ----------------------------------------------------------------------------------------------------


def _price(problem: PlanningProblem, nodes: Ints) -> tuple[Ints, ...]:
    """What a launch costs, the costliest resource first."""
    return nodes, problem.tasks * problem.cpus, problem.memory_bytes


def _columns(problem: PlanningProblem, nodes: Ints) -> Ints:
    """One node, the first of several, and in each row `nodes`, shape [3, rows]: between the second and the third rates rise."""
    return np.stack([np.full(nodes.shape, 1), np.full(nodes.shape, problem.first_nodes), nodes])


def _fewest_nodes(problem: PlanningProblem, target: float, most: Ints) -> Ints:
    """In each row the fewest nodes, at most `most`, whose low end reaches `target`; 0 where none does."""
    most = np.minimum(most, problem.last_nodes)
    risen = _first_where(problem.first_nodes + 1, most, lambda nodes: low_ends(problem, nodes) >= target)
    columns = _columns(problem, risen)
    reaches = (low_ends(problem, columns) >= target) & (columns <= most)
    return np.where(reaches.any(axis=0), np.take_along_axis(columns, reaches.argmax(axis=0)[None], axis=0)[0], 0)


def _first_where(first: int, last: Ints, holds: Callable[[Ints], Bools]) -> Ints:
    """In each row the first number, from `first` to `last`, for which it holds, where it holds for all after the first; `last`, or
    `first` where that is more, where it holds for none."""
    low, high = np.full(last.shape, first), np.maximum(last, first)
    while (low < high).any():
        middle = (low + high) // 2
        is_there = holds(middle)
        low, high = np.where(is_there | (low == high), low, middle + 1), np.where(is_there, middle, high)
    return low


def _highest_of(problem: PlanningProblem, nodes: Ints, per: Ints | int = 1) -> Prediction | None:
    is_any = np.full(nodes.shape, True)
    return _first(problem, nodes, is_any, lambda lows: (-lows / per, *_price(problem, nodes), problem.cpus))


def _first(
    problem: PlanningProblem, nodes: Ints, is_wanted: Bools, order: Callable[[Floats], tuple[Floats | Ints, ...]]
) -> Prediction | None:
    """The first launch by `order`, which is given the low ends; of those wanted that can run, None where there are none."""
    lows = low_ends(problem, nodes)
    keys = [np.broadcast_to(key, lows.shape).ravel() for key in reversed(order(lows))]
    places = np.lexsort(keys)
    places = places[(is_wanted & (lows > -math.inf)).ravel()[places]]
    if not len(places):
        return None
    row = places[0] % problem.tasks.size
    return predicted(problem, int(nodes.ravel()[places[0]]), int(problem.tasks[row]), int(problem.cpus[row]))

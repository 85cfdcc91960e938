"""The table of all launches, tasks and CPUs per task x nodes, and the launch that is chosen from it. Pure.

The launch lines ask for whole nodes, so all CPUs of a node are free to use. Then there is one row for each number of tasks, which
share all CPUs of the node. The numbers are those that a person would choose (1, 2, 4, 8 and the most that fit), because finer steps
would follow the noise of the measurement. On shared nodes, each pair of tasks and CPUs is a row, and the fewest CPUs win.

Only the columns that a question needs are computed, each for all rows at once. In every row the rate rises with nodes, except from
one worker, which waits for no other, to several. So the fewest nodes of each row are found by bisection over all rows together, in
twenty columns for a million nodes. Only the chosen launch is predicted in full.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cs_input_analyzer.model.capacity import assumptions as limits
from cs_input_analyzer.model.capacity.prediction import Rates, supply
from cs_input_analyzer.model.recommend.problem import Floats, Ints, PlanningProblem, predicted
from cs_input_analyzer.model.recommend.verdict import ENOUGH, chance, chances
from cs_input_analyzer.records import Prediction

Bools = npt.NDArray[np.bool_]

KNEE_RATIO = 0.97
"""The knee is the fewest tasks with so much of the best supply of their nodes: more tasks hardly add anything."""

KEPT = 0.8
"""The plan of an earlier run is kept while it feeds the accelerator at this probability."""

EQUAL_RATIO, EQUAL_TASKS_RATIO = 0.999, 0.98
"""If no launch meets the demand, rates within 0.1 % of the best count as equal, and the one with fewer nodes wins; on these
nodes those within 2 %, and the one with fewer tasks wins. More sureness than 2 % is not bought by tasks, either."""

PER_NODE_LIMITS = (limits.MEMORY_BANDWIDTH, limits.HOST_STORAGE, limits.NETWORK_IN, limits.NETWORK_OUT)
"""The limits of a busy node, whatever streams on it."""


class Choice(NamedTuple):
    """A launch that may be chosen.

    Attributes:
        chance: the probability that it reaches the target; None without one.
        limited_by: the resource to add for more.
    """

    best: Prediction
    chance: float | None
    limited_by: str

    @property
    def meets(self) -> bool | None:
        """Return whether the launch meets the demand; None without a demand."""
        return None if self.chance is None else self.chance >= ENOUGH


def choose(problem: PlanningProblem) -> Choice | None:
    """Return the launch to use: that of an earlier run while it feeds the accelerator, else one on the fewest nodes that do.

    If none feeds it: the one with the highest low end; without a demand, the one with the highest low end per node. Return None if
    no launch runs.
    """
    if problem.needed is None:
        best = _highest(problem, is_per_node=True)
        return None if best is None else Choice(best, None, best.limited_by)
    before = problem.kept
    if before is not None:
        found = predicted(problem, before.nodes, before.tasks_per_node, before.cpus_per_task)
        sure = _chance(problem, found)
        if sure >= KEPT:
            return Choice(found, sure, found.limited_by)
    fewest = _fewest_nodes(problem, lambda nodes: _chances(problem, nodes) >= ENOUGH, problem.last_nodes)
    if (fewest > 0).any():
        nodes = int(fewest[fewest > 0].min())
        # Of thousands of nodes a few more are no price for a number of tasks that a person would choose.
        usual = fewest[(fewest > 0) & _ladder(problem, fewest > 0)]
        best = on_nodes(problem, int(usual.min()) if len(usual) and EQUAL_TASKS_RATIO * usual.min() <= nodes else nodes)
        assert best is not None
        return Choice(best, _chance(problem, best), best.limited_by)
    best = _highest(problem)
    return None if best is None else Choice(best, _chance(problem, best), _binding(problem, best))


def on_nodes(problem: PlanningProblem, nodes: int) -> Prediction | None:
    """Return the launch to use on `nodes` nodes, whether or not it meets the demand; None if none runs."""
    rates = rates_on(problem, nodes)
    runs = np.isfinite(rates.low)
    if not runs.any():
        return None
    sure = np.zeros(runs.shape) if problem.needed is None else chances(rates, problem.needed)
    least = _least(problem, sure >= ENOUGH)
    if least is not None and problem.options.shared_nodes:
        return _predicted(problem, nodes, least)
    if least is None:
        return _predicted(problem, nodes, _first_of_best(problem, rates.low, _ladder(problem, runs)))
    rungs = np.flatnonzero(_ladder(problem, runs) & (sure >= ENOUGH))
    if not len(rungs):
        return _predicted(problem, nodes, least)
    # An idle accelerator is worse than idle CPUs, so not the fewest tasks; and beyond the knee they are of no use: the middle.
    knee = problem.tasks[rates.estimate >= KNEE_RATIO * rates.estimate.max()].min()
    middle = math.sqrt(float(problem.tasks[least]) * float(knee))
    inside = rungs[problem.tasks[rungs] <= middle]
    return _predicted(problem, nodes, int(inside[-1] if len(inside) else rungs[0]))


def tasks_that_feed(problem: PlanningProblem, nodes: int) -> tuple[int, int] | None:
    """Return the fewest and the most tasks per node that feed the accelerator on `nodes` nodes; None if none does."""
    if problem.needed is None:
        return None
    tasks = problem.tasks[_chances(problem, nodes) >= ENOUGH]
    return (int(tasks.min()), int(tasks.max())) if len(tasks) else None


def smallest(problem: PlanningProblem, nodes: int) -> Prediction | None:
    """Return the launch on `nodes` nodes with the fewest tasks (on shared nodes: CPUs) that meets the demand, or None."""
    if problem.needed is None:
        return None
    least = _least(problem, _chances(problem, nodes) >= ENOUGH)
    return None if least is None else _predicted(problem, nodes, least)


def _binding(problem: PlanningProblem, best: Prediction) -> str:
    """Return the resource to add for more than `best`, the fastest launch.

    It is the binding term of the law, or the files or memory without whose limit another launch would be faster.
    """
    if best.limited_by == limits.STORAGE or best.limited_by in PER_NODE_LIMITS:
        return best.limited_by
    without_files = replace(problem, model=replace(problem.model, file_count=None))
    without_memory = replace(problem, model=replace(problem.model, private_bytes=None))
    others = ((limits.FILES, _highest(without_files)), (limits.MEMORY, _highest(without_memory)))
    lows = [(name, found.samples_per_s.low) for name, found in others if found is not None]
    name, low = max(lows, key=lambda pair: pair[1], default=(best.limited_by, 0.0))
    return name if low * EQUAL_TASKS_RATIO > best.samples_per_s.low else best.limited_by


# --- the table -------------------------------------------------------------------------------------------------------------------


def rates_on(problem: PlanningProblem, nodes: Ints | int) -> Rates:
    """Return the rates of all rows on `nodes` nodes, which broadcast against shape [rows].

    A launch that cannot run has -inf, 0 and 0.
    """
    launches = problem.launches(nodes)
    workers = launches.input_workers
    runs = (launches.nodes >= 1) & (launches.nodes <= problem.cluster.nodes) & (launches.streaming_nodes >= 1) & (workers >= 1)
    if problem.model.is_sharded and problem.model.file_count is not None:
        runs &= workers <= problem.model.file_count
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = supply(problem.model, problem.cluster, launches, problem.rates_of_workers(launches), problem.options.feed)
    return Rates(np.where(runs, rates.estimate, 0.0), np.where(runs, rates.low, -np.inf), np.where(runs, rates.high, 0.0))


def _chances(problem: PlanningProblem, nodes: Ints | int) -> Floats:
    assert problem.needed is not None
    return chances(rates_on(problem, nodes), problem.needed)


def _chance(problem: PlanningProblem, prediction: Prediction) -> float:
    assert problem.needed is not None
    return chance(prediction.samples_per_s, problem.needed) if prediction.problem is None else 0.0


def _highest(problem: PlanningProblem, *, is_per_node: bool = False) -> Prediction | None:
    """Return the launch with the highest low end, or low end per node; None if none runs.

    In each row the low end per node rises with nodes, as the share of those that do not stream shrinks, until a ceiling is hit or
    the slowest of many workers weighs more, and falls from there.
    """

    def low_ends(nodes: Ints) -> Floats:
        return rates_on(problem, nodes).low / (nodes if is_per_node else 1)

    last = problem.last_nodes
    if is_per_node:
        last = _first_where(problem.first_nodes + 1, last, lambda nodes: low_ends(nodes + 1) <= low_ends(nodes))
    columns = _columns(problem, last)
    lows = low_ends(columns)
    top = float(lows.max(initial=-math.inf))
    if top == -math.inf:
        return None
    if is_per_node:
        nodes = int(columns[lows >= EQUAL_RATIO * top].min())
    else:
        fewest = _fewest_nodes(problem, lambda nodes: low_ends(nodes) >= EQUAL_RATIO * top, problem.last_nodes)
        nodes = int(fewest[fewest > 0].min())
    on_these = rates_on(problem, nodes).low
    return _predicted(problem, nodes, _first_of_best(problem, on_these, _ladder(problem, np.isfinite(on_these))))


def _first_of_best(problem: PlanningProblem, lows: Floats, wanted: Bools) -> int:
    """Return the row with the fewest tasks among the wanted rows within some percent of the fastest of all, else of the fastest."""
    good = lows >= EQUAL_TASKS_RATIO * lows.max()
    rows = np.flatnonzero(good & wanted) if (good & wanted).any() else np.flatnonzero(good)
    return int(min(rows, key=lambda row: (problem.tasks[row], problem.cpus[row])))


def _least(problem: PlanningProblem, will_do: Bools) -> int | None:
    """Return the row with the fewest tasks that meets the demand, or, on shared nodes, the fewest CPUs."""
    rows = np.flatnonzero(will_do)
    size = problem.tasks * problem.cpus if problem.options.shared_nodes else problem.tasks
    return int(min(rows, key=lambda row: (size[row], problem.memory_bytes[row], problem.cpus[row]))) if len(rows) else None


def _ladder(problem: PlanningProblem, runs: Bools) -> Bools:
    """Rows whose number of tasks is a power of two, or the largest that runs."""
    tasks = problem.tasks
    rungs: Bools = ((tasks & (tasks - 1)) == 0) | (tasks == np.where(runs, tasks, 0).max(initial=0))
    return runs & rungs


def _predicted(problem: PlanningProblem, nodes: int, row: int) -> Prediction:
    return predicted(problem, nodes, int(problem.tasks[row]), int(problem.cpus[row]))


def _columns(problem: PlanningProblem, nodes: Ints) -> Ints:
    """Return one node, the first of several, and in each row `nodes`, shape [3, rows]: between the second and third, rates rise."""
    return np.stack([np.full(nodes.shape, 1), np.full(nodes.shape, problem.first_nodes), nodes])


def _fewest_nodes(problem: PlanningProblem, will_do: Callable[[Ints], Bools], most: Ints) -> Ints:
    """Return in each row the fewest nodes, at most `most`, that meet the demand; 0 if none do."""
    risen = _first_where(problem.first_nodes + 1, most, will_do)
    columns = _columns(problem, risen)
    reaches: Bools = will_do(columns) & (columns <= most)
    fewest: Ints = np.take_along_axis(columns, reaches.argmax(axis=0)[None], axis=0)[0]
    return np.where(reaches.any(axis=0), fewest, 0)


def _first_where(first: int, last: Ints, holds: Callable[[Ints], Bools]) -> Ints:
    """Return in each row the first number, from `first` to `last`, from which on the condition holds.

    Return `last`, or `first` if that is more, in a row where it never holds.
    """
    low, high = np.full(last.shape, first), np.maximum(last, first)
    while (low < high).any():
        middle = (low + high) // 2
        is_there = holds(middle)
        low, high = np.where(is_there | (low == high), low, middle + 1), np.where(is_there, middle, high)
    return low

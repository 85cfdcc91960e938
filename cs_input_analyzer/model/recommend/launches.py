"""The launch that is chosen among all shapes, tasks per node and CPUs per task, on each number of nodes. Pure.

The launch lines ask for whole nodes, so all CPUs of a node are free to use. Then there is one shape for each number of tasks, which
share all CPUs of the node. The numbers are those that a person would choose (1, 2, 4, 8 and the most that fit), because finer steps
would follow the noise of the measurement. On shared nodes, each pair of tasks and CPUs is a shape, and the fewest CPUs win.

In every shape the rate rises with nodes, except from one worker, which waits for no other, to several. So the fewest nodes of a
shape are found by bisection.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from cs_input_analyzer.model.capacity import assumptions as limits
from cs_input_analyzer.model.recommend.problem import PlanningProblem, Shape, predicted
from cs_input_analyzer.model.recommend.verdict import ENOUGH, chance
from cs_input_analyzer.records import Prediction

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
    nodes = _fewest_nodes(problem, lambda found: _chance(problem, found) >= ENOUGH)
    if nodes is not None:
        best = on_nodes(problem, nodes)
        assert best is not None
        return Choice(best, _chance(problem, best), best.limited_by)
    best = _highest(problem)
    return None if best is None else Choice(best, _chance(problem, best), _binding(problem, best))


def on_nodes(problem: PlanningProblem, nodes: int) -> Prediction | None:
    """Return the launch to use on `nodes` nodes, whether or not it meets the demand; None if none runs."""
    launches = _that_run(problem, nodes)
    if not launches:
        return None
    feeding = that_feed(problem, nodes)
    if not feeding:
        return _first_of_best(launches)
    least, most = smallest(problem, feeding), max(map(_tasks, launches))
    rungs = [launch for launch in feeding if _is_usual(_tasks(launch), most)]
    if problem.options.shared_nodes or not rungs:
        return least
    # An idle accelerator is worse than idle CPUs, so not the fewest tasks; and beyond the knee they are of no use: the middle.
    enough = KNEE_RATIO * max(launch.samples_per_s.estimate for launch in launches)
    knee = min(_tasks(launch) for launch in launches if launch.samples_per_s.estimate >= enough)
    middle = math.sqrt(_tasks(least) * knee)
    return max((launch for launch in rungs if _tasks(launch) <= middle), key=_tasks, default=rungs[0])


def that_feed(problem: PlanningProblem, nodes: int) -> list[Prediction]:
    """Return the launches on `nodes` nodes that meet the demand; none without a demand."""
    if problem.needed is None:
        return []
    return [launch for launch in _that_run(problem, nodes) if _chance(problem, launch) >= ENOUGH]


def smallest(problem: PlanningProblem, launches: Iterable[Prediction]) -> Prediction:
    """Return the launch with the fewest tasks, or, on shared nodes, the fewest CPUs."""

    def size(launch: Prediction) -> tuple[int, int, int]:
        layout = launch.layout
        least = layout.cpus_per_node if problem.options.shared_nodes else layout.tasks_per_node
        return least, launch.memory_bytes_per_node or 0, layout.cpus_per_task

    return min(launches, key=size)


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


# --- all launches ----------------------------------------------------------------------------------------------------------------


def _that_run(problem: PlanningProblem, nodes: int) -> list[Prediction]:
    launches = (predicted(problem, nodes, *shape) for shape in problem.shapes)
    return [launch for launch in launches if launch.problem is None]


def _chance(problem: PlanningProblem, prediction: Prediction) -> float:
    assert problem.needed is not None
    return chance(prediction.samples_per_s, problem.needed) if prediction.problem is None else 0.0


def _tasks(launch: Prediction) -> int:
    return launch.layout.tasks_per_node


def _is_usual(tasks: int, most: int) -> bool:
    """Return whether a person would choose this number of tasks: a power of two, or the largest that runs."""
    return tasks & (tasks - 1) == 0 or tasks == most


def _highest(problem: PlanningProblem, *, is_per_node: bool = False) -> Prediction | None:
    """Return the launch with the highest low end, or low end per node; None if none runs.

    In each shape the low end per node rises with nodes, as the share of those that do not stream shrinks, until a ceiling is hit or
    the slowest of many workers weighs more, and falls from there.
    """

    def low_end(shape: Shape, nodes: int) -> float:
        found = predicted(problem, nodes, *shape)
        return -math.inf if found.problem else found.samples_per_s.low / (nodes if is_per_node else 1)

    lows: dict[tuple[Shape, int], float] = {}
    for shape in problem.shapes:
        first, last = problem.first_nodes, problem.last_nodes(shape[0])
        if is_per_node:
            risen = range(first + 1, last)
            last = first + 1 + bisect_left(risen, True, key=lambda nodes: low_end(shape, nodes + 1) <= low_end(shape, nodes))
        lows |= {(shape, nodes): low_end(shape, nodes) for nodes in (1, first, last) if 1 <= nodes <= problem.cluster.nodes}
    top = max(lows.values(), default=-math.inf)
    if top == -math.inf:
        return None
    if is_per_node:
        nodes = min(nodes for (_, nodes), low in lows.items() if low >= EQUAL_RATIO * top)
    else:
        nodes = _fewest_nodes(problem, lambda found: found.samples_per_s.low >= EQUAL_RATIO * top) or problem.cluster.nodes
    return _first_of_best(_that_run(problem, nodes))


def _first_of_best(launches: Sequence[Prediction]) -> Prediction:
    """Return the launch with the fewest tasks of those within some percent of the fastest, a usual number where there is one."""
    enough = EQUAL_TASKS_RATIO * max(launch.samples_per_s.low for launch in launches)
    good = [launch for launch in launches if launch.samples_per_s.low >= enough]
    usual = [launch for launch in good if _is_usual(_tasks(launch), max(map(_tasks, launches)))]
    return min(usual or good, key=lambda launch: (_tasks(launch), launch.layout.cpus_per_task))


def _fewest_nodes(problem: PlanningProblem, will_do: Callable[[Prediction], bool]) -> int | None:
    """Return the fewest nodes on which a launch will do; None if none does.

    Of thousands of nodes a few more are no price for a number of tasks that a person would choose.
    """
    most = max((tasks for tasks, _ in problem.shapes), default=0)
    usual = _fewest_of(problem, [shape for shape in problem.shapes if _is_usual(shape[0], most)], will_do, problem.cluster.nodes)
    limit = problem.cluster.nodes if usual is None else math.ceil(EQUAL_TASKS_RATIO * usual) - 1
    return _fewest_of(problem, problem.shapes, will_do, limit) or usual


def _fewest_of(problem: PlanningProblem, shapes: Iterable[Shape], will_do: Callable[[Prediction], bool], most: int) -> int | None:
    """Return the fewest nodes, at most `most`, on which one of the shapes will do; each is asked whether it needs fewer yet."""
    first, fewest = problem.first_nodes, None
    for tasks, cpus in shapes:

        def does(nodes: int, shape: Shape = (tasks, cpus)) -> bool:
            return will_do(predicted(problem, nodes, *shape))

        last = min(most, problem.last_nodes(tasks))
        found = next((nodes for nodes in (1, first, last) if 1 <= nodes <= last and does(nodes)), None)
        if found == last and last > first:
            found = bisect_left(range(last), True, lo=first + 1, key=does)
        if found is not None:
            fewest, most = found, found - 1
    return fewest

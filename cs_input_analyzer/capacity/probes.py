"""Which layouts to measure next."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise

from cs_input_analyzer.capacity.terms import MOST_CONTENTION_TASKS
from cs_input_analyzer.records import CapacityModel, Cluster, Layout

__all__ = ["next_probes"]


def next_probes(model: CapacityModel | None, cluster: Cluster, cpu_budget: int, planned: Layout | None) -> tuple[Layout, ...]:
    """One-node layouts worth measuring next, the most telling first; empty when the probes cover the plan.

    Without a model: one worker on one CPU, on all CPUs, several of one CPU together, and halfway in between on a large host.
    With a model: the planned CPUs per task, the planned tasks together as far as the host has CPUs for them, and the middle of any
    gap of more than a factor of two next to the planned CPUs.

    Args:
        cpu_budget: CPUs of the measuring host that may be used. More than a node of the cluster has teaches nothing.
    """
    budget = max(1, min(cpu_budget, cluster.cpus_per_node))
    if model is None:
        wanted = [(1, 1), (1, budget), (min(budget, MOST_CONTENTION_TASKS), 1)]
        if budget >= 8:
            wanted.append((1, _middle(1, budget)))
        measured: set[tuple[int, int]] = set()
    else:
        measured = {(1, point.cpus) for point in model.workers} | {(point.tasks, point.cpus) for point in model.contention}
        wanted = [] if planned is None else [*_around(model, planned, budget)]
    fresh = [key for key in dict.fromkeys(wanted) if key not in measured and key[0] * key[1] <= budget]
    return tuple(Layout(nodes=1, tasks_per_node=tasks, cpus_per_task=cpus) for tasks, cpus in fresh)


def _around(model: CapacityModel, planned: Layout, budget: int) -> Iterable[tuple[int, int]]:
    cpus = min(planned.cpus_per_task, budget)
    yield 1, cpus
    tasks = min(planned.tasks_per_node, budget // cpus, MOST_CONTENTION_TASKS)
    if tasks > 1:
        yield tasks, cpus
    probed = sorted({point.cpus for point in model.workers} | {cpus})
    for left, right in pairwise(probed):
        if right / left > 2 and cpus in (left, right):
            yield 1, _middle(left, right)


def _middle(left: int, right: int) -> int:
    """The power of two nearest the geometric middle, strictly between."""
    return max(left + 1, min(right - 1, int(2 ** round(math.log2(left * right) / 2))))

"""Which layouts to measure first."""

from __future__ import annotations

from cs_input_analyzer.planning.capacity.assumptions import MOST_CONTENTION_TASKS
from cs_input_analyzer.records import Cluster, Layout

__all__ = ["first_probes"]


def first_probes(cluster: Cluster, cpu_budget: int) -> tuple[Layout, ...]:
    """One-node layouts, the most telling first: one worker on one CPU, on all CPUs, and several of one CPU together. What lies
    between is left to `rival`, which knows what these gave.

    Args:
        cpu_budget: CPUs of the measuring host that may be used. More than a node of the cluster has teaches nothing.
    """
    budget = max(1, min(cpu_budget, cluster.cpus_per_node))
    wanted = [(1, 1), (1, budget), (min(budget, MOST_CONTENTION_TASKS), 1)]
    return tuple(Layout(nodes=1, tasks_per_node=tasks, cpus_per_task=cpus) for tasks, cpus in dict.fromkeys(wanted))

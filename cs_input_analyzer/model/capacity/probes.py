"""Which layouts to measure: the first ones, and the next one, which may be faster than all that were measured."""

from __future__ import annotations

from dataclasses import replace

from cs_input_analyzer.model.capacity.assumptions import MOST_CONTENTION_TASKS, THIS_HOST
from cs_input_analyzer.model.capacity.prediction import predict
from cs_input_analyzer.records import CapacityModel, Cluster, Layout

# More workers together are left to the launch that confirms the plan.
MOST_TASKS = 16


def first_probes(cluster: Cluster, cpu_budget: int) -> tuple[Layout, ...]:
    """One-node layouts, the most informative first: one worker on one CPU, on all CPUs, and several of one CPU together. What lies
    between is left to `next_probe`, which is given what these showed.

    Args:
        cpu_budget: CPUs of the measuring host that may be used. More than a node of the cluster has would be of no use.
    """
    budget = max(1, min(cpu_budget, cluster.cpus_per_node))
    layouts = [(1, 1), (1, budget), (min(budget, MOST_CONTENTION_TASKS), 1)]
    return tuple(Layout(nodes=1, tasks_per_node=tasks, cpus_per_task=cpus) for tasks, cpus in dict.fromkeys(layouts))


def next_probe(model: CapacityModel, cluster: Cluster, cpu_budget: int) -> Layout | None:
    """The layout that fills the measuring host, was not measured, and has the highest rate at the high end of its interval.

    None where no other than the best of all may be so fast: then one more probe of this host would change no plan. What lies
    between two probed sizes is interpolated, and a pipeline need not follow: the interval says how far it may be off, and this
    asks where that matters most (optimism in the face of uncertainty, as bandits have it).

    Args:
        cpu_budget: as for `first_probes`.
    """
    budget = max(1, min(cpu_budget, cluster.cpus_per_node))
    here = replace(cluster, nodes=1, cpus_per_node=budget, threads_per_core=model.host_threads_per_core, source=THIS_HOST)
    # How far one launch may lie from another makes no layout faster.
    deterministic = replace(model, spread_ratio=0.0, launch_spread_ratio=0.0)
    # Of the sizes of which as many fit, the largest: smaller ones leave CPUs idle.
    sizes = sorted({min(budget // tasks, model.largest_cpus_probed) for tasks in range(1, budget + 1)})
    layouts = [Layout(nodes=1, tasks_per_node=budget // cpus, cpus_per_task=cpus) for cpus in sizes]
    rates = {
        layout: predict(deterministic, here, layout, single_task_nodes=0, feed="first-come", has_chief=False).samples_per_s
        for layout in layouts
    }
    measured = {(point.tasks, point.cpus) for point in model.contention} | {(1, point.cpus) for point in model.workers}
    few = [layout for layout in layouts if layout.tasks_per_node <= MOST_TASKS]
    open_ = [layout for layout in few if (layout.tasks_per_node, layout.cpus_per_task) not in measured]
    if not open_:
        return None
    next_one = max(open_, key=lambda layout: (rates[layout].high, -layout.cpus_per_task))
    others = max((rates[layout].estimate for layout in layouts if layout != next_one), default=0.0)
    return next_one if rates[next_one].high > others else None

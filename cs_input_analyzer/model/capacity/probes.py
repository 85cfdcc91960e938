"""The layouts to measure: one worker, the full node in both shapes, and the layouts that may be the fastest on this host."""

from __future__ import annotations

from dataclasses import replace

from cs_input_analyzer.model.capacity.assumptions import THIS_HOST
from cs_input_analyzer.model.capacity.prediction import predict
from cs_input_analyzer.records import CapacityModel, Cluster, Layout

WIDE_TASKS = 8
"""The full node is measured with workers of one CPU, and with workers of this number."""


def lone_probes(cluster: Cluster, cpu_budget: int) -> tuple[Layout, ...]:
    """Return one worker on all CPUs, and one on one CPU.

    Args:
        cpu_budget: CPUs of the measuring host that may be used. More than a node of the cluster has would be of no use.
    """
    budget = max(1, min(cpu_budget, cluster.cpus_per_node))
    return tuple(Layout(nodes=1, tasks_per_node=1, cpus_per_task=cpus) for cpus in dict.fromkeys((budget, 1)))


def full_probes(cluster: Cluster, cpu_budget: int, most_tasks: int) -> tuple[Layout, ...]:
    """Return the layouts that fill the measuring host as a launch would, with narrow and with wide workers.

    Where not as many workers fit, fewer and wider ones fill it.

    Args:
        most_tasks: that memory and files allow on this host.
    """
    budget = max(1, min(cpu_budget, cluster.cpus_per_node))
    counts = [min(count, most_tasks) for count in (budget, budget // WIDE_TASKS) if count > 1]
    layouts = [Layout(nodes=1, tasks_per_node=count, cpus_per_task=budget // count) for count in counts if count > 1]
    return tuple(dict.fromkeys(layouts))


def next_probe(model: CapacityModel, cluster: Cluster, cpu_budget: int, most_tasks: int) -> Layout | None:
    """Return the layout that fills the measuring host, was not measured, and has the highest rate at the high end of its interval.

    Return None if no other than the best of all may be as fast: then one more probe of this host would change no plan. The interval
    says how far the shape between two probes may be off. This asks where that matters most (optimism in the face of uncertainty, as
    bandits have it).

    Args:
        cpu_budget, most_tasks: as for `full_probes`.
    """
    budget = max(1, min(cpu_budget, cluster.cpus_per_node))
    here = replace(cluster, nodes=1, cpus_per_node=budget, threads_per_core=model.host_threads_per_core, source=THIS_HOST)
    # How far one launch may lie from another makes no layout faster.
    deterministic = replace(model, spread_ratio=0.0, launch_spread_ratio=0.0, run_spread_ratio=0.0)
    sizes = sorted({budget // tasks for tasks in (1 << power for power in range(budget.bit_length())) if tasks <= most_tasks})
    layouts = [Layout(nodes=1, tasks_per_node=budget // cpus, cpus_per_task=cpus) for cpus in sizes if budget // cpus <= most_tasks]
    rates = {
        layout: predict(deterministic, here, layout, single_task_nodes=0, feed="first-come", has_chief=False).samples_per_s
        for layout in layouts
    }
    measured = {(point.tasks, point.cpus) for point in model.points}
    open_ = [layout for layout in layouts if (layout.tasks_per_node, layout.cpus_per_task) not in measured]
    if not open_:
        return None
    next_one = max(open_, key=lambda layout: (rates[layout].high, -layout.cpus_per_task))
    others = max((rates[layout].estimate for layout in layouts if layout != next_one), default=0.0)
    return next_one if rates[next_one].high > others else None

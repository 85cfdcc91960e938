"""The launch to use: the fewest nodes that feed the accelerator, or the best there is. Pure.

A launch feeds the accelerator if its supply reaches the demand with headroom at a probability of 0.9 (`verdict.ENOUGH`). Nodes are
the price, so they are the fewest that feed it. Tasks on them are a range; recommended is its middle.

`problem` says what is planned for, and `launches` chooses one. `alternatives` are those around the plan, `fixed` is the plan
with fixes, `verdict` judges a supply.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.model.capacity.assumptions import THIS_HOST
from cs_input_analyzer.model.recommend.alternatives import alternatives
from cs_input_analyzer.model.recommend.fixed import with_gain
from cs_input_analyzer.model.recommend.launches import Choice, choose, that_feed
from cs_input_analyzer.model.recommend.problem import (
    STREAMING_SINGLE_TASK_NODES,
    PlanningProblem,
    predict_current,
    predicted,
    predicted_launch,
    single_task_nodes,
    streams_weights,
)
from cs_input_analyzer.model.recommend.surer import surer
from cs_input_analyzer.model.recommend.verdict import ENOUGH, feeds, judge, needed_per_s, utilization
from cs_input_analyzer.records import (
    CapacityModel,
    Cluster,
    Consumption,
    Estimate,
    KeptPlan,
    LaunchPlan,
    Options,
    Prediction,
    StorageBasis,
)
from cs_input_analyzer.units import counted, format_bytes

__all__ = [
    "ENOUGH",
    "THIS_HOST",
    "check_cluster",
    "check_single_task_nodes",
    "check_streaming_nodes",
    "feeds",
    "judge",
    "needed_per_s",
    "predict_current",
    "recommend",
    "single_task_nodes",
    "utilization",
    "with_gain",
]

ROOM = "a launch needs room for the chief and at least one input worker, as two tasks on one node or on more nodes"


def recommend(
    model: CapacityModel,
    consumption: Consumption | None,
    cluster: Cluster,
    options: Options,
    *,
    kept: KeptPlan | None = None,
) -> LaunchPlan:
    """Return the launch of the fewest nodes that reaches the demand × (1 + headroom); without a demand, the highest rate per node.

    If none reaches it: the one with the highest low end, `meets_demand` False, and `limited_by` names what to add. It never uses
    more CPUs per task than were probed: a plan grows by tasks and nodes. The plan of an earlier run stays while it feeds the
    accelerator.

    Args:
        kept: the plan of an earlier run of the same.

    Raises:
        UsageError: no launch can run on this cluster at all.
    """
    check_cluster(cluster, options)
    if streams_weights(consumption, options) and single_task_nodes(cluster.nodes, consumption, options) >= cluster.nodes:
        raise UsageError(_too_few_to_stream(cluster))
    _check_memory(model, cluster)
    problem = PlanningProblem(
        model=model, consumption=consumption, cluster=cluster, options=options, kept=None if kept is None else kept.layout
    )
    choice = _choose(problem)
    best = choice.best
    today = None if options.current is None else predict_current(model, consumption, cluster, options, options.current)
    plan = _planned(problem, choice)
    return replace(
        plan,
        **_kept(problem, choice, kept),
        alternatives=alternatives(problem, choice, today),
        surer=surer(problem, best.layout),
    )


def _planned(problem: PlanningProblem, choice: Choice) -> LaunchPlan:
    """Return the plan of a launch, without the tables around it."""
    best, consumption = choice.best, problem.consumption
    feeding = that_feed(problem, best.layout.nodes) if choice.meets else []
    tasks = [launch.layout.tasks_per_node for launch in feeding]
    return LaunchPlan(
        nodes=best.layout.nodes,
        tasks_per_node=best.layout.tasks_per_node,
        cpus_per_task=best.layout.cpus_per_task,
        single_task_nodes=best.single_task_nodes,
        input_workers=best.input_workers,
        predicted_samples_per_s=best.samples_per_s,
        extrapolation_ratio=best.extrapolation_ratio,
        limited_by=choice.limited_by,
        meets_demand=choice.meets,
        probability=choice.chance,
        quiet_samples_per_s=_at_quiet_level(problem, best),
        headroom_ratio=None if consumption is None else best.samples_per_s.low / consumption.samples_per_s.estimate - 1,
        memory_bytes_per_node=best.memory_bytes_per_node,
        storage=_storage_basis(problem, best.layout.nodes),
        expected_accelerator_utilization=None if consumption is None else utilization(best.samples_per_s, consumption),
        alternatives=(),
        fewest_tasks=min(tasks, default=None),
        most_tasks=max(tasks, default=None),
    )


def _kept(problem: PlanningProblem, choice: Choice, kept: KeptPlan | None) -> dict[str, Any]:
    """Return the fields of a plan that say whether it is that of an earlier run, and what a fresh one would be."""
    if kept is None or choice.best.layout != kept.layout:
        return {}
    anew = choose(replace(problem, kept=None))
    return {"kept_from": kept, "fresh": None if anew is None else anew.best.layout}


def _choose(problem: PlanningProblem) -> Choice:
    """Return the launch to use. Raise UsageError if none can run."""
    choice = choose(problem)
    if choice is None:
        cluster = problem.cluster
        fullest = predicted(problem, cluster.nodes, min(2, cluster.cpus_per_node), 1)
        where = f"{cluster.nodes} node(s) of {cluster.cpus_per_node} CPUs"
        raise UsageError(f"no launch fits {where} ({fullest.limited_by}: {fullest.problem}): {ROOM}")
    return choice


def _storage_basis(problem: PlanningProblem, nodes: int) -> StorageBasis:
    """Return how the ceiling of the storage is known: one node that is the measuring host read the same files as its probes."""
    if problem.cluster.measured_storage_bytes_per_s is not None:
        return "measured"
    if problem.cluster.storage_bytes_per_s is not None and problem.model.bytes_read_per_sample is not None:
        return "declared"
    return "measured" if problem.cluster.source == THIS_HOST and nodes == 1 else "unverified"


def _at_quiet_level(problem: PlanningProblem, best: Prediction) -> Estimate:
    """Return the rate of a launch on idle CPUs. It differs from the planned rate only on the host that measured."""
    if problem.cluster.source != THIS_HOST:
        return best.samples_per_s
    quiet = replace(problem.model, host_ratio=Estimate.exact(1.0))
    return predicted_launch(quiet, problem.consumption, problem.cluster, problem.options, best.layout).samples_per_s


def check_cluster(cluster: Cluster, options: Options) -> None:
    """Raise UsageError for a cluster or options on which no launch of any pipeline can run: worth asking before measuring."""
    check_single_task_nodes(cluster, options)
    if streams_weights(None, options) and cluster.source != THIS_HOST and cluster.nodes <= STREAMING_SINGLE_TASK_NODES:
        raise UsageError(_too_few_to_stream(cluster))
    if cluster.nodes == 1 and cluster.cpus_per_node < 2:
        raise UsageError(f"no launch fits one node of one CPU: {ROOM}")


def check_single_task_nodes(cluster: Cluster, options: Options) -> None:
    """Raise UsageError if the single-task nodes leave no node to stream."""
    single = options.single_task_nodes
    if single is not None and not 0 <= single < cluster.nodes:
        raise UsageError(
            f"--single-task-nodes {single} must be 0 or more and less than the cluster's {counted(cluster.nodes, 'node')}: "
            "single-task nodes do not stream, give it more nodes or fewer of them"
        )


def check_streaming_nodes(options: Options) -> None:
    """Raise UsageError for fewer single-task nodes than weight streaming needs."""
    asked = options.single_task_nodes
    if asked is not None and asked < STREAMING_SINGLE_TASK_NODES and streams_weights(None, options):
        raise UsageError(f"--single-task-nodes {asked}: weight streaming needs {STREAMING_SINGLE_TASK_NODES} at least")


def _too_few_to_stream(cluster: Cluster) -> str:
    single = STREAMING_SINGLE_TASK_NODES
    name = THIS_HOST if cluster.source == THIS_HOST else "the cluster"
    return (
        f"weight streaming needs {single + 1} nodes at least, {single} that run a single task and one that streams, and "
        f"{name} has {counted(cluster.nodes, 'node')}: give more by --nodes N (with --cpus-per-node N and "
        "--memory-per-node SIZE) or by --cluster"
    )


def _check_memory(model: CapacityModel, cluster: Cluster) -> None:
    need, have = (model.private_bytes or 0) + (model.shared_bytes or 0), cluster.memory_bytes_per_node
    if need > have:
        raise UsageError(
            f"one input worker of this pipeline holds {format_bytes(need)}, but a node has {format_bytes(have)}: "
            "use nodes with more memory, or smaller shuffle buffers, caches and prefetches"
        )

"""The launch to use: the fewest nodes that feed the accelerator, or the best there is. Pure.

A launch feeds the accelerator where its supply reaches the demand with headroom at a probability of 0.9 (`verdict.ENOUGH`). On its
nodes, tasks are added up to a probability of 0.99, at most twice what would do.

`problem` says what is planned for, `launches` is the table of all launches and takes one of them; `alternatives` and `whatif` are
the plan's tables and reasons, `verdict` judges a supply.
"""

from __future__ import annotations

from dataclasses import replace

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.model.capacity.assumptions import THIS_HOST
from cs_input_analyzer.model.recommend.alternatives import alternatives, why
from cs_input_analyzer.model.recommend.launches import choose
from cs_input_analyzer.model.recommend.problem import (
    STREAMING_SINGLE_TASK_NODES,
    PlanningProblem,
    predicted,
    predicted_launch,
    single_task_nodes,
    streams_weights,
)
from cs_input_analyzer.model.recommend.verdict import ENOUGH, capped, feeds, judge, needed_per_s, utilization
from cs_input_analyzer.model.recommend.whatif import what_if
from cs_input_analyzer.records import (
    CapacityModel,
    Cluster,
    Consumption,
    Estimate,
    LaunchPlan,
    Layout,
    Options,
    Prediction,
    StorageBasis,
)
from cs_input_analyzer.units import counted, format_bytes

__all__ = [
    "ENOUGH",
    "THIS_HOST",
    "capped",
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
]

ROOM = "a launch needs room for the chief and at least one input worker, as two tasks on one node or on more nodes"


def recommend(
    model: CapacityModel,
    consumption: Consumption | None,
    cluster: Cluster,
    options: Options,
    *,
    storage: StorageBasis | None = None,
    gain: Estimate | None = None,
    gain_cpus: int = 1,
) -> LaunchPlan:
    """The launch of the fewest nodes that reaches the demand × (1 + headroom); without a demand, the highest rate per node.

    Where none reaches it: the one with the highest low end, `meets_demand` False, and `limited_by` names what to add. Never uses
    more CPUs per task than were probed: a plan grows by tasks and nodes. With `Options.previous`, the plan of before, while it will
    do.

    Args:
        storage: how the shared file system's ceiling is known; None: `declared` where the cluster states it, `measured` for one
            node that is the measuring host itself (its probes read the same files), else `unverified`.
        gain, gain_cpus: for the what-if rows; as in `whatif.what_if`.

    Raises:
        UsageError: no launch can run on this cluster at all.
    """
    check_cluster(cluster, options)
    if streams_weights(consumption, options) and single_task_nodes(cluster.nodes, consumption, options) >= cluster.nodes:
        raise UsageError(_too_few_to_stream(cluster))
    _check_memory(model, cluster)
    problem = PlanningProblem(model=model, consumption=consumption, cluster=cluster, options=options)
    choice = choose(problem)
    if choice is None:
        fullest = predicted(problem, cluster.nodes, min(2, cluster.cpus_per_node), 1)
        where = f"{cluster.nodes} node(s) of {cluster.cpus_per_node} CPUs"
        raise UsageError(f"no launch fits {where} ({fullest.limited_by}: {fullest.problem}): {ROOM}")
    best = choice.best
    if storage is None:
        is_ours = cluster.source == THIS_HOST and best.layout.nodes == 1
        is_declared = cluster.storage_bytes_per_s is not None and model.bytes_read_per_sample is not None
        storage = "declared" if is_declared else "measured" if is_ours else "unverified"
    today = None if options.current is None else predict_current(model, consumption, cluster, options, options.current)
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
        storage=storage,
        expected_accelerator_utilization=None if consumption is None else utilization(best.samples_per_s, consumption),
        alternatives=alternatives(problem, choice, today),
        why=why(problem, choice),
        what_if=what_if(problem, choice, gain=gain, gain_cpus=gain_cpus),
    )


def _at_quiet_level(problem: PlanningProblem, best: Prediction) -> Estimate:
    """What a launch delivers on CPUs that nobody else uses: only on the host that measured is that not what is planned with."""
    if problem.cluster.source != THIS_HOST:
        return best.samples_per_s
    quiet = replace(problem.model, host_ratio=Estimate.exact(1.0))
    return predicted_launch(quiet, problem.consumption, problem.cluster, problem.options, best.layout).samples_per_s


def predict_current(
    model: CapacityModel, consumption: Consumption | None, cluster: Cluster, options: Options, current: Layout
) -> Prediction:
    """What the launch in use today (`--current`) delivers. It runs, so the cluster has at least its nodes."""
    wide_enough = replace(cluster, nodes=max(cluster.nodes, current.nodes))
    return predicted_launch(model, consumption, wide_enough, options, current)


def check_cluster(cluster: Cluster, options: Options) -> None:
    """Raises UsageError for a cluster or options on which no launch of any pipeline can run: worth asking before measuring."""
    check_single_task_nodes(cluster, options)
    if streams_weights(None, options) and cluster.source != THIS_HOST and cluster.nodes <= STREAMING_SINGLE_TASK_NODES:
        raise UsageError(_too_few_to_stream(cluster))
    if cluster.nodes == 1 and cluster.cpus_per_node < 2:
        raise UsageError(f"no launch fits one node of one CPU: {ROOM}")


def check_single_task_nodes(cluster: Cluster, options: Options) -> None:
    """Raises UsageError where more single-task nodes are asked for than can be beside one that streams."""
    single = options.single_task_nodes
    if single is not None and not 0 <= single < cluster.nodes:
        raise UsageError(
            f"--single-task-nodes {single} must be 0 or more and less than the cluster's {counted(cluster.nodes, 'node')}: "
            "single-task nodes do not stream, give it more nodes or fewer of them"
        )


def check_streaming_nodes(options: Options) -> None:
    """Raises UsageError where fewer single-task nodes are asked for than weight streaming needs."""
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

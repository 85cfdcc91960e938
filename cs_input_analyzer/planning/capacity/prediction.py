"""Any launch: the bottleneck law over everything that a sample passes, and what stops a launch outright."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

from cs_input_analyzer import units
from cs_input_analyzer.planning.capacity.assumptions import (
    BUSY_UTILIZATION_RATIO,
    CPUS,
    FILES,
    HOST_STORAGE,
    INPUT_WORKERS,
    MEMORY,
    MEMORY_BANDWIDTH,
    NETWORK_IN,
    NETWORK_OUT,
    NODE_CPU,
    NODES,
    NORMAL_95,
    ROUND_ROBIN,
    SCALING_ELASTICITY,
    SMALLEST_LOW_RATIO,
    STORAGE,
    UNEVEN_RATIO,
    WORKER_CPU,
    WORKER_SERIAL,
)
from cs_input_analyzer.planning.capacity.worker import cost_at, worker_rate
from cs_input_analyzer.records import (
    CapacityModel,
    Cluster,
    Estimate,
    Feed,
    FileSet,
    LaunchPlan,
    Layout,
    Limit,
    Prediction,
)

__all__ = ["dataset_bytes_per_node", "predict", "slowest_ratio"]


def dataset_bytes_per_node(files: FileSet, plan: LaunchPlan, *, is_sharded: bool) -> float:
    """What the page cache of one node would have to hold: all files, or the share of those that its workers divide among them."""
    return files.bytes * min(1.0, plan.tasks_per_node / plan.input_workers) if is_sharded else float(files.bytes)


class _Tasks(NamedTuple):
    """How a launch's tasks are used: `input_workers` stream, at most `on_one_node` of them on one node."""

    input_workers: int
    on_one_node: int


def predict(
    model: CapacityModel,
    cluster: Cluster,
    layout: Layout,
    *,
    single_task_nodes: int,
    feed: Feed,
    has_chief: bool = True,
    may_oversubscribe: bool = False,
) -> Prediction:
    """What `layout` would deliver on `cluster`, by the bottleneck law; the estimate never exceeds any of its `limits`.

    Args:
        single_task_nodes: nodes of the layout that run one task which does not stream (the chief, and its helpers).
        feed: `round-robin` waits for the slowest worker, `first-come` takes the sum.
        has_chief: whether one task of a launch without single-task nodes is the chief and does not stream. False describes a
            measurement, where every started task streams.
        may_oversubscribe: whether tasks may ask for more CPUs than a node has: they then share them.

    A launch that cannot run has a `problem`, and delivers 0. Reads are assumed to come over the network from shared storage, also
    where the page cache of a node would hold the files.
    """
    tasks = _tasks(layout, single_task_nodes, has_chief)
    memory = _memory(model, layout.tasks_per_node)
    problem = _problem(model, cluster, layout, single_task_nodes, tasks, memory, may_oversubscribe)
    if problem is not None:
        name, text = problem
        limits: tuple[Limit, ...] = (Limit(name=name, samples_per_s=0.0),)
        rate, extrapolation = Estimate.exact(0.0), 1.0
    else:
        text = None
        worker, extrapolation = worker_rate(model, cluster, tasks.on_one_node, layout.cpus_per_task)
        slowest = slowest_ratio(model, tasks.input_workers) if feed == "round-robin" else 1.0
        supply = _with_launch_noise(worker, model, layout.nodes - single_task_nodes, tasks.input_workers).scaled(
            tasks.input_workers * slowest
        )
        hard = _hard_limits(model, cluster, layout, tasks)
        limits = (*hard, *_streams(model, layout, worker.estimate * tasks.input_workers, slowest))
        limits = tuple(sorted(limits, key=lambda limit: limit.samples_per_s))
        rate = _capped(supply, hard, model, cluster)
    return Prediction(
        layout=layout,
        single_task_nodes=single_task_nodes,
        input_workers=max(tasks.input_workers, 0),
        samples_per_s=rate,
        limited_by=limits[0].name,
        limits=limits,
        extrapolation_ratio=extrapolation,
        memory_bytes_per_node=memory,
        problem=text,
    )


def _tasks(layout: Layout, single_task_nodes: int, has_chief: bool) -> _Tasks:
    chief = 1 if single_task_nodes == 0 and has_chief else 0
    streaming_nodes = layout.nodes - single_task_nodes
    workers = streaming_nodes * layout.tasks_per_node - chief
    return _Tasks(workers, layout.tasks_per_node - (chief if streaming_nodes == 1 else 0))


def _memory(model: CapacityModel, tasks: int) -> int | None:
    """Every task holds its private memory, the chief's too; what they share is there once per node."""
    return None if model.private_bytes is None else tasks * model.private_bytes + (model.shared_bytes or 0)


def _worker_limit_name(model: CapacityModel, cpus: int) -> str:
    """Whether more CPUs would speed a worker up: by the slope of the measured curve, or by utilization where there is no curve."""
    points = model.workers
    if len(points) == 1:
        cost = points[0].cpu_s_per_sample
        # Utilization law: U = X · D / m.
        is_busy = cost is None or points[0].samples_per_s.estimate * cost / points[0].cpus >= BUSY_UTILIZATION_RATIO
        return WORKER_CPU if is_busy else WORKER_SERIAL
    upper = next((index for index, point in enumerate(points) if point.cpus >= cpus and index > 0), len(points) - 1)
    left, right = points[upper - 1], points[upper]
    elasticity = math.log(right.samples_per_s.estimate / left.samples_per_s.estimate) / math.log(right.cpus / left.cpus)
    return WORKER_CPU if elasticity >= SCALING_ELASTICITY else WORKER_SERIAL


def slowest_ratio(model: CapacityModel, workers: int) -> float:
    """Slowest over mean of the persistent rates of `workers` workers, as expected: what a feed in strict turns is left with. One
    waits for no other: 1. So two may deliver less than one, where the slowest stays behind by more than half.

    Of workers alike that is the expected minimum of so many draws of one log-normal (Blom, "Statistical Estimates and Transformed
    Beta Variables", 1958, for its order statistic); where the largest and the smallest shard ran together, not above what they
    showed.
    """
    if workers <= 1:
        return 1.0
    deviations = NormalDist().inv_cdf((workers - 0.375) / (workers + 0.25))
    return min(model.slowest_ratio, math.exp(-model.spread_ratio * deviations))


def _with_launch_noise(worker: Estimate, model: CapacityModel, streaming_nodes: int, workers: int) -> Estimate:
    """The mean of `workers` fresh processes is one draw: the interval is that of what a launch will show, not of a long-run mean.

    Processes of a node share its mood; that one node's says nothing of another's is an assumption.
    """
    if worker.estimate <= 0:
        return worker
    spread_ratio = max(model.spread_ratio / math.sqrt(workers), model.launch_spread_ratio / math.sqrt(streaming_nodes))
    noise = NORMAL_95 * spread_ratio
    down, up = 1 - worker.low / worker.estimate, worker.high / worker.estimate - 1
    low = worker.estimate * max(1 - math.hypot(down, noise), SMALLEST_LOW_RATIO)
    return Estimate(
        estimate=worker.estimate,
        low=min(low, worker.low),
        high=max(worker.high, worker.estimate * (1 + math.hypot(up, noise))),
        count=worker.count,
    )


def _streams(model: CapacityModel, layout: Layout, all_alike_per_s: float, slowest: float) -> list[Limit]:
    """What the workers themselves deliver: it is an estimate with an interval, not a wall."""
    name = _worker_limit_name(model, layout.cpus_per_task)
    if slowest >= UNEVEN_RATIO:
        return [Limit(name=name, samples_per_s=all_alike_per_s * slowest)]
    return [Limit(name=name, samples_per_s=all_alike_per_s), Limit(name=ROUND_ROBIN, samples_per_s=all_alike_per_s * slowest)]


def _hard_limits(model: CapacityModel, cluster: Cluster, layout: Layout, tasks: _Tasks) -> list[Limit]:
    """Terms that no launch of this shape can pass, whatever its workers do."""
    limits = _node_limits(model, cluster, layout, tasks)
    if cluster.storage_bytes_per_s is not None and model.bytes_read_per_sample:
        limits.append(Limit(name=STORAGE, samples_per_s=cluster.storage_bytes_per_s / model.bytes_read_per_sample))
    if layout.cpus_per_task > model.largest_cpus_probed:  # inside, the probes ran into them
        limits += [Limit(name=limit.name, samples_per_s=limit.samples_per_s * tasks.input_workers) for limit in model.ceilings]
    return limits


def _capped(supply: Estimate, hard: list[Limit], model: CapacityModel, cluster: Cluster) -> Estimate:
    """No more than the limits allow. Tasks that share CPUs are as uncertain as those that need not: what a sample costs was
    measured, too. A storage's ceiling that was measured has an interval of its own, which it passes on."""
    shared = min((limit.samples_per_s for limit in hard if limit.name == NODE_CPU), default=math.inf)
    if shared < supply.estimate:
        supply = supply.scaled(shared / supply.estimate)
    hard = [limit for limit in hard if limit.name != NODE_CPU]
    storage, read = cluster.measured_storage_bytes_per_s, model.bytes_read_per_sample
    if storage is None or not read:
        return supply.capped(min((limit.samples_per_s for limit in hard), default=math.inf))
    rate = supply.capped(min((limit.samples_per_s for limit in hard if limit.name != STORAGE), default=math.inf))
    return Estimate(
        estimate=min(rate.estimate, storage.estimate / read),
        low=min(rate.low, storage.low / read),
        high=min(rate.high, storage.high / read),
        count=rate.count,
    )


def _node_limits(model: CapacityModel, cluster: Cluster, layout: Layout, tasks: _Tasks) -> list[Limit]:
    """What one node can do, times how many the launch keeps busy: the busiest node fills first, when the launch as a whole moves
    `input_workers / on_one_node` times its rate.

    CPU by the utilization law (X <= m / D), bytes in each direction of the link by itself (full duplex), bytes through memory.
    """
    nodes = tasks.input_workers / tasks.on_one_node
    speed = cluster.speed_ratio.estimate if cluster.speed_ratio is not None else 1.0
    busy = min(layout.cpus_per_node, cluster.cpus_per_node)
    read, out = model.bytes_read_per_sample, model.bytes_out_per_sample
    link = cluster.network_bytes_per_s_per_node
    terms = (
        (NODE_CPU, busy * speed, _shared_cost(model, cluster, layout)),
        (MEMORY_BANDWIDTH, cluster.memory_bandwidth_bytes_per_s_per_node, model.moved_bytes_per_sample),
        (HOST_STORAGE, model.host_read_bytes_per_s, read),
        (NETWORK_IN, link, read),
        (NETWORK_OUT, link, out),
    )
    return [Limit(name=name, samples_per_s=nodes * rate / demand) for name, rate, demand in terms if rate is not None and demand]


def _shared_cost(model: CapacityModel, cluster: Cluster, layout: Layout) -> float | None:
    """CPU seconds per sample where tasks have to share CPUs; None where they need not.

    It rises as it does with more CPUs per task (more threads than CPUs hand the same locks and wake-ups around), in proportion to
    how many tasks want each CPU. Seen: pipelines of fine grain lose 15 to 30 % at two tasks a CPU, others next to nothing.
    """
    cost = cost_at(model.workers, layout.cpus_per_task)
    wanted = layout.cpus_per_node / cluster.cpus_per_node
    if cost is None or wanted <= 1:
        return None
    first, last = model.workers[0], model.workers[-1]
    alone, doubled = cost_at(model.workers, first.cpus), cost_at(model.workers, 2 * first.cpus)
    growth = doubled / alone - 1 if alone and doubled and last.cpus >= 2 * first.cpus else 0.0
    return cost * (1 + max(0.0, growth) * (wanted - 1)) if layout.cpus_per_task == first.cpus else cost


def _problem(
    model: CapacityModel,
    cluster: Cluster,
    layout: Layout,
    single_task_nodes: int,
    tasks: _Tasks,
    memory: int | None,
    may_oversubscribe: bool,
) -> tuple[str, str] | None:
    """What stops this launch (name of the resource, sentence), or None."""
    if layout.nodes > cluster.nodes:
        return NODES, f"needs {layout.nodes} nodes, the cluster has {cluster.nodes}"
    if layout.cpus_per_node > cluster.cpus_per_node and not may_oversubscribe:
        return CPUS, f"needs {layout.cpus_per_node} CPUs per node, a node has {cluster.cpus_per_node}"
    if single_task_nodes and single_task_nodes >= layout.nodes:
        return NODES, f"{single_task_nodes} single-task nodes leave none of {layout.nodes} nodes to stream"
    if tasks.input_workers < 1:
        return INPUT_WORKERS, "its only task is the chief, which does not stream"
    if memory is not None and memory > cluster.memory_bytes_per_node:
        have = units.format_bytes(cluster.memory_bytes_per_node)
        return MEMORY, f"needs {units.format_bytes(memory)} of memory per node, a node has {have}"
    if model.is_sharded and model.file_count is not None and tasks.input_workers > model.file_count:
        return FILES, f"{tasks.input_workers} input workers share {model.file_count} files: some would have nothing to stream"
    return None

"""The prediction of any launch: the bottleneck law over all resources of a sample, and the limits that make it impossible."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist
from typing import NamedTuple

from cs_input_analyzer import units
from cs_input_analyzer.model.capacity.assumptions import (
    CPU_LIMITED_RATIO,
    CPUS,
    FILES,
    HOST_STORAGE,
    INPUT_WORKERS,
    MEMORY,
    MEMORY_BANDWIDTH,
    NETWORK_IN,
    NETWORK_OUT,
    NODES,
    ROUND_ROBIN,
    SCALING_ELASTICITY,
    STORAGE,
    UNEVEN_RATIO,
    WORKER_CPU,
    WORKER_SERIAL,
)
from cs_input_analyzer.model.capacity.worker import worker_ceilings, worker_rate
from cs_input_analyzer.model.estimates import NORMAL_95, log_halves
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


def dataset_bytes_per_node(files: FileSet, plan: LaunchPlan, *, is_sharded: bool) -> float:
    """Return the bytes that the page cache of one node must hold: all files, or the share that its workers read."""
    return files.bytes * min(1.0, plan.tasks_per_node / plan.input_workers) if is_sharded else float(files.bytes)


class Streaming(NamedTuple):
    """The nodes of a launch that stream, its workers, and the most of them on one node."""

    nodes: int
    workers: int
    on_one_node: int

    @classmethod
    def of(cls, layout: Layout, single_task_nodes: int, has_chief: bool) -> Streaming:
        """Return the part of a launch that streams: without single-task nodes one task is the chief, if it has one."""
        nodes, chief = layout.nodes - single_task_nodes, int(has_chief and single_task_nodes == 0)
        tasks = layout.tasks_per_node
        return cls(nodes, nodes * tasks - chief, tasks - chief if nodes == 1 else tasks)


def predict(
    model: CapacityModel,
    cluster: Cluster,
    layout: Layout,
    *,
    single_task_nodes: int,
    feed: Feed,
    has_chief: bool = True,
) -> Prediction:
    """Return the rate of `layout` on `cluster` by the bottleneck law. The estimate never exceeds any of its `limits`.

    A launch that cannot run has a `problem`, and delivers 0. Reads are assumed to come over the network from shared
    storage, even if the page cache of a node could hold the files.

    Args:
        model: the capacity model of the pipeline.
        cluster, layout: the nodes, and the launch on them.
        single_task_nodes: nodes of the layout that run one task which does not stream (the chief, and its helpers).
        feed: `round-robin` waits for the slowest worker, `first-come` takes the sum.
        has_chief: whether one task of a launch without single-task nodes is the chief and does not stream. False describes a
            measurement, where every started task streams.
    """
    launch = Streaming.of(layout, single_task_nodes, has_chief)
    memory = _memory_bytes(model, layout.tasks_per_node)
    problem = _problem(model, cluster, layout, single_task_nodes, launch.workers, memory)
    if problem is not None:
        name, text = problem
        limits: tuple[Limit, ...] = (Limit(name=name, samples_per_s=0.0),)
        rate, extrapolation = Estimate.exact(0.0), 1.0
    else:
        text = None
        worker, extrapolation = worker_rate(model, cluster, launch.on_one_node, layout.cpus_per_task)
        slowest = slowest_ratio(model, launch.nodes, launch.workers) if feed == "round-robin" else 1.0
        hard = _hard_limits(model, cluster, launch)
        rate = _with_launch_noise(worker, model, launch).scaled(launch.workers * slowest)
        for _, most in hard:
            rate = _capped(rate, most)
        lasting = worker_ceilings(model, cluster, launch.on_one_node, layout.cpus_per_task)
        binding = next((limit for limit in lasting if limit.samples_per_s <= worker.estimate), None)
        name = _worker_limit_name(model, layout.cpus_per_task) if binding is None else binding.name
        streams = _streams(name, worker.estimate * launch.workers, slowest)
        others = [limit.scaled(launch.workers) for limit in lasting if limit is not binding]
        known = [Limit(name=name, samples_per_s=most.estimate) for name, most in hard]
        limits = tuple(sorted((*streams, *known, *others), key=lambda limit: limit.samples_per_s))
    return Prediction(
        layout=layout,
        single_task_nodes=single_task_nodes,
        input_workers=max(launch.workers, 0),
        samples_per_s=rate,
        limited_by=limits[0].name,
        limits=limits,
        extrapolation_ratio=extrapolation,
        memory_bytes_per_node=memory,
        problem=text,
    )


def _memory_bytes(model: CapacityModel, tasks: int) -> int | None:
    """Return the memory of a node: private memory for every task, the chief too, and shared memory once."""
    return None if model.private_bytes is None else tasks * model.private_bytes + (model.shared_bytes or 0)


def _worker_limit_name(model: CapacityModel, cpus: int) -> str:
    """Return the limit of a worker: CPU if more CPUs would speed it up, else scaling.

    The slope of the measured curve decides, or utilization if there is no curve.
    """
    points = [point for point in model.points if point.tasks == 1]
    if len(points) == 1:
        cost = points[0].cpu_s_per_sample
        # Utilization law: U = X · D / m.
        is_busy = cost is None or points[0].samples_per_s.estimate * cost / points[0].cpus >= CPU_LIMITED_RATIO
        return WORKER_CPU if is_busy else WORKER_SERIAL
    upper = next((index for index, point in enumerate(points) if point.cpus >= cpus and index > 0), len(points) - 1)
    left, right = points[upper - 1], points[upper]
    elasticity = math.log(right.samples_per_s.estimate / left.samples_per_s.estimate) / math.log(right.cpus / left.cpus)
    return WORKER_CPU if elasticity >= SCALING_ELASTICITY else WORKER_SERIAL


def slowest_ratio(model: CapacityModel, nodes: int, workers: int) -> float:
    """Return the slowest over the mean of `workers` workers on `nodes` nodes, for a feed in strict turns.

    A single worker waits for no other: 1. For equal workers it is the expected minimum of that number of draws of
    processes, and of nodes (Blom, "Statistical Estimates and Transformed Beta Variables", 1958). If the largest and the
    smallest shard ran together, it is at most their measured ratio.
    """
    if workers <= 1:
        return 1.0
    logs = math.hypot(_expected_least(model.spread_ratio, workers), _expected_least(model.launch_spread_ratio, nodes))
    return min(model.slowest_ratio, math.exp(-logs))


def _expected_least(spread: float, count: int) -> float:
    """Return how far the minimum of `count` normal draws lies below their mean."""
    return spread * NormalDist().inv_cdf((count - 0.375) / (count + 0.25)) if count > 1 else 0.0


def _with_launch_noise(worker: Estimate, model: CapacityModel, launch: Streaming) -> Estimate:
    """Return the rate with the interval of one launch, not of a long-run mean.

    A launch is one draw of launches, and of processes; the run that measured is one draw of runs. Processes of a node
    are correlated by their host; hosts are assumed to be independent.
    """
    drawn = model.spread_ratio**2 / launch.workers + model.launch_spread_ratio**2 / launch.nodes
    noise = NORMAL_95 * math.sqrt(drawn + model.run_spread_ratio**2)
    down, up = (math.hypot(half, noise) for half in log_halves(worker))
    return replace(worker, low=worker.estimate * math.exp(-down), high=worker.estimate * math.exp(up))


def _capped(rate: Estimate, most: Estimate) -> Estimate:
    """Return the rate, no end of it above that of another one."""
    ends = {name: min(getattr(rate, name), getattr(most, name)) for name in ("estimate", "low", "high")}
    return replace(rate, **ends)


def _streams(name: str, all_alike_per_s: float, slowest: float) -> list[Limit]:
    """Return the limits of the workers themselves, which are estimates with an interval.

    `name` is the limit of one worker.
    """
    if slowest >= UNEVEN_RATIO:
        return [Limit(name=name, samples_per_s=all_alike_per_s * slowest)]
    return [Limit(name=name, samples_per_s=all_alike_per_s), Limit(name=ROUND_ROBIN, samples_per_s=all_alike_per_s * slowest)]


def _hard_limits(model: CapacityModel, cluster: Cluster, launch: Streaming) -> list[tuple[str, Estimate]]:
    """Return the limits that no launch of this shape can pass, whatever its workers do.

    The busiest node fills first, when the launch as a whole moves `workers / on_one_node` times its rate. Each direction
    of the link counts by itself (full duplex), and so do bytes through memory. A storage's ceiling may have an interval.
    """
    read, out = model.bytes_read_per_sample, model.bytes_out_per_sample
    link = cluster.network_bytes_per_s_per_node
    terms = (
        (MEMORY_BANDWIDTH, cluster.memory_bandwidth_bytes_per_s_per_node, model.moved_bytes_per_sample),
        (HOST_STORAGE, model.host_read_bytes_per_s, read),
        (NETWORK_IN, link, read),
        (NETWORK_OUT, link, out),
    )
    busy_nodes = launch.workers / launch.on_one_node
    limits = [(name, Estimate.exact(busy_nodes * (rate / demand))) for name, rate, demand in terms if rate is not None and demand]
    storage = cluster.measured_storage_bytes_per_s
    if storage is None and cluster.storage_bytes_per_s is not None:
        storage = Estimate.exact(cluster.storage_bytes_per_s)
    return [*limits, (STORAGE, storage.scaled(1 / read))] if storage is not None and read else limits


def _problem(
    model: CapacityModel,
    cluster: Cluster,
    layout: Layout,
    single_task_nodes: int,
    input_workers: int,
    memory: int | None,
) -> tuple[str, str] | None:
    """Return the reason why this launch cannot run (name of the resource, sentence). Return None if it can."""
    if layout.nodes > cluster.nodes:
        return NODES, f"needs {layout.nodes} nodes, the cluster has {cluster.nodes}"
    if layout.cpus_per_node > cluster.cpus_per_node:
        return CPUS, f"needs {layout.cpus_per_node} CPUs per node, a node has {cluster.cpus_per_node}"
    if single_task_nodes and single_task_nodes >= layout.nodes:
        return NODES, f"{single_task_nodes} single-task nodes leave none of {layout.nodes} nodes to stream"
    if input_workers < 1:
        return INPUT_WORKERS, "its only task is the chief, which does not stream"
    if memory is not None and memory > cluster.memory_bytes_per_node:
        have = units.format_bytes(cluster.memory_bytes_per_node)
        return MEMORY, f"needs {units.format_bytes(memory)} of memory per node, a node has {have}"
    if model.is_sharded and model.file_count is not None and input_workers > model.file_count:
        return FILES, f"{input_workers} input workers share {model.file_count} files: some would have nothing to stream"
    return None

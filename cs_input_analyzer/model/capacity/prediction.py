"""The prediction of any launch: the bottleneck law over all resources of a sample, and the limits that make it impossible."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

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
from cs_input_analyzer.model.estimates import NORMAL_95, SMALLEST_LOW_RATIO
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

# SciPy's costs a third of a second of import, which a page would wait for.
_normal_quantile = np.vectorize(NormalDist().inv_cdf, otypes=[float])

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def dataset_bytes_per_node(files: FileSet, plan: LaunchPlan, *, is_sharded: bool) -> float:
    """Return the bytes that the page cache of one node must hold: all files, or the share that its workers read."""
    return files.bytes * min(1.0, plan.tasks_per_node / plan.input_workers) if is_sharded else float(files.bytes)


class Rates(NamedTuple):
    """Rates with their 90 % intervals, samples/s: as arrays, one place a launch."""

    estimate: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, rate: Estimate) -> Rates:
        """Return an estimate as arrays."""
        return cls(np.array(rate.estimate), np.array(rate.low), np.array(rate.high))

    def scaled(self, factor: npt.NDArray[np.floating[Any]] | float) -> Rates:
        """Return the rates times a factor."""
        return Rates(self.estimate * factor, self.low * factor, self.high * factor)

    def capped(self, most: Rates) -> Rates:
        """Return the rates, none above another one."""
        return Rates(*(np.minimum(mine, theirs) for mine, theirs in zip(self, most, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Launches:
    """Launches side by side, as arrays that broadcast against each other.

    Attributes:
        tasks, cpus: tasks per node, CPUs per task.
        single_task_nodes: nodes of a launch that run one task which does not stream (the chief, and its helpers).
        has_chief: whether one task of a launch without single-task nodes is the chief and does not stream.
    """

    nodes: Ints
    tasks: Ints
    cpus: Ints
    single_task_nodes: Ints
    has_chief: bool = True

    @property
    def streaming_nodes(self) -> Ints:
        """Return the nodes without single-task nodes."""
        return self.nodes - self.single_task_nodes

    @property
    def input_workers(self) -> Ints:
        """Return the tasks that stream on all nodes."""
        return self.streaming_nodes * self.tasks - self._chief

    @property
    def on_one_node(self) -> Ints:
        """Return the most tasks that stream on one node."""
        return self.tasks - np.where(self.streaming_nodes == 1, self._chief, 0)

    @property
    def _chief(self) -> Ints:
        return np.where(self.single_task_nodes == 0, int(self.has_chief), 0)


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
    numbers = (layout.nodes, layout.tasks_per_node, layout.cpus_per_task, single_task_nodes)
    nodes, tasks, cpus, single = (np.array(number) for number in numbers)
    launch = Launches(nodes=nodes, tasks=tasks, cpus=cpus, single_task_nodes=single, has_chief=has_chief)
    workers = int(launch.input_workers)
    memory = memory_bytes(model, layout.tasks_per_node)
    problem = _problem(model, cluster, layout, single_task_nodes, workers, memory)
    if problem is not None:
        name, text = problem
        limits: tuple[Limit, ...] = (Limit(name=name, samples_per_s=0.0),)
        rate, extrapolation = Estimate.exact(0.0), 1.0
    else:
        text = None
        worker, extrapolation = worker_rate(model, cluster, int(launch.on_one_node), layout.cpus_per_task)
        middle, low, high = map(float, supply(model, cluster, launch, Rates.of(worker), feed))
        rate = Estimate(estimate=middle, low=low, high=high, count=worker.count)
        hard = [Limit(name=name, samples_per_s=float(most.estimate)) for name, most in _hard_limits(model, cluster, launch)]
        slowest = float(slowest_ratio(model, int(launch.streaming_nodes), workers)) if feed == "round-robin" else 1.0
        lasting = worker_ceilings(model, cluster, int(launch.on_one_node), layout.cpus_per_task)
        binding = next((limit for limit in lasting if limit.samples_per_s <= worker.estimate), None)
        name = _worker_limit_name(model, layout.cpus_per_task) if binding is None else binding.name
        streams = _streams(name, worker.estimate * workers, slowest)
        others = [limit.scaled(workers) for limit in lasting if limit is not binding]
        limits = tuple(sorted((*streams, *hard, *others), key=lambda limit: limit.samples_per_s))
    return Prediction(
        layout=layout,
        single_task_nodes=single_task_nodes,
        input_workers=max(workers, 0),
        samples_per_s=rate,
        limited_by=limits[0].name,
        limits=limits,
        extrapolation_ratio=extrapolation,
        memory_bytes_per_node=memory,
        problem=text,
    )


def supply(model: CapacityModel, cluster: Cluster, launches: Launches, worker: Rates, feed: Feed) -> Rates:
    """Return the rates of launches that can run. `worker` is the rate of one of their workers, by `worker_rate`."""
    workers = launches.input_workers
    slowest = slowest_ratio(model, launches.streaming_nodes, workers) if feed == "round-robin" else 1.0
    rate = _with_launch_noise(worker, model, launches.streaming_nodes, workers).scaled(workers * slowest)
    for _, most in _hard_limits(model, cluster, launches):
        rate = rate.capped(most)
    return rate


def memory_bytes(model: CapacityModel, tasks: int) -> int | None:
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


def slowest_ratio(model: CapacityModel, nodes: Ints | int, workers: Ints | int) -> Floats:
    """Return the slowest over the mean of `workers` workers on `nodes` nodes, for a feed in strict turns.

    A single worker waits for no other: 1. For equal workers it is the expected minimum of that number of draws of
    processes, and of nodes (Blom, "Statistical Estimates and Transformed Beta Variables", 1958). If the largest and the
    smallest shard ran together, it is at most their measured ratio.
    """
    logs = np.hypot(_expected_least(model.spread_ratio, workers), _expected_least(model.launch_spread_ratio, nodes))
    return np.where(np.asarray(workers) <= 1, 1.0, np.minimum(model.slowest_ratio, np.exp(-logs)))


def _expected_least(spread: float, count: Ints | int) -> Floats:
    """Return how far the minimum of `count` normal draws lies below their mean."""
    several = np.maximum(count, 1)
    return np.where(several == 1, 0.0, spread * _normal_quantile((several - 0.375) / (several + 0.25)))


def _with_launch_noise(worker: Rates, model: CapacityModel, streaming_nodes: Ints, workers: Ints) -> Rates:
    """Return the rate with the interval of one launch, not of a long-run mean.

    A launch is one draw of launches, and of processes; the run that measured is one draw of runs. Processes of a node
    are correlated by their host; hosts are assumed to be independent.
    """
    launch = model.spread_ratio**2 / workers + model.launch_spread_ratio**2 / streaming_nodes
    noise = NORMAL_95 * np.sqrt(launch + model.run_spread_ratio**2)
    middle, least = worker.estimate, np.maximum(worker.low, SMALLEST_LOW_RATIO * worker.estimate)
    low = middle * np.exp(-np.hypot(np.log(middle / least), noise))
    return Rates(middle, low, middle * np.exp(np.hypot(np.log(worker.high / middle), noise)))


def _streams(name: str, all_alike_per_s: float, slowest: float) -> list[Limit]:
    """Return the limits of the workers themselves, which are estimates with an interval.

    `name` is the limit of one worker.
    """
    if slowest >= UNEVEN_RATIO:
        return [Limit(name=name, samples_per_s=all_alike_per_s * slowest)]
    return [Limit(name=name, samples_per_s=all_alike_per_s), Limit(name=ROUND_ROBIN, samples_per_s=all_alike_per_s * slowest)]


def _hard_limits(model: CapacityModel, cluster: Cluster, launches: Launches) -> list[tuple[str, Rates]]:
    """Return the limits that no launch of this shape can pass, whatever its workers do.

    A storage's ceiling may have an interval.
    """
    limits = _node_limits(model, cluster, launches)
    read, storage = model.bytes_read_per_sample, cluster.measured_storage_bytes_per_s
    if storage is None and cluster.storage_bytes_per_s is not None:
        storage = Estimate.exact(cluster.storage_bytes_per_s)
    if storage is not None and read:
        limits.append((STORAGE, Rates.of(storage).scaled(1 / read)))
    return limits


def _node_limits(model: CapacityModel, cluster: Cluster, launches: Launches) -> list[tuple[str, Rates]]:
    """Return the limits of one node, times the number of nodes that the launch keeps busy.

    The busiest node fills first, when the launch as a whole moves `input_workers / on_one_node` times its rate. Each
    direction of the link counts by itself (full duplex), and so do bytes through memory.
    """
    read, out = model.bytes_read_per_sample, model.bytes_out_per_sample
    link = cluster.network_bytes_per_s_per_node
    terms = (
        (MEMORY_BANDWIDTH, cluster.memory_bandwidth_bytes_per_s_per_node, model.moved_bytes_per_sample),
        (HOST_STORAGE, model.host_read_bytes_per_s, read),
        (NETWORK_IN, link, read),
        (NETWORK_OUT, link, out),
    )
    busy_nodes = launches.input_workers / launches.on_one_node
    found = [(name, busy_nodes * (rate / demand)) for name, rate, demand in terms if rate is not None and demand]
    return [(name, Rates(most, most, most)) for name, most in found]


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

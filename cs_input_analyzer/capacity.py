"""How fast any launch streams: measurements of one host in, throughput of `nodes × tasks_per_node × cpus_per_task` out.

The law is the bottleneck law of operational analysis (Denning & Buzen, "The operational analysis of queueing network models",
ACM Computing Surveys 10(3), 1978): no system is faster than its slowest station, X <= min over stations. The stations here:

    workers            input workers × rate of one at `cpus_per_task`, times what neighbours on the node leave it
    round-robin feed   input workers × the slowest of them: the accelerator takes batches in turn and waits for each
    network in, out    each node's link, in each direction by itself
    shared storage     one ceiling for the whole cluster

and three things that stop a launch outright: CPUs per node, memory per node, fewer files than workers.

Where numbers are not measured but assumed, a constant below says so; each assumption only ever widens the interval.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from cs_input_analyzer import units
from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.records import (
    CapacityModel,
    Cluster,
    ContentionPoint,
    Estimate,
    Feed,
    FileSet,
    LaunchPlan,
    Layout,
    Limit,
    Measurement,
    PipelineGraph,
    Prediction,
    WorkerPoint,
    WorkerResult,
)

__all__ = ["dataset_bytes_per_node", "fit", "next_probes", "predict", "smt_low_ratio", "worker_rate"]

# Names of the limits: what `limited_by` says.
WORKER_CPU = "worker CPU"
WORKER_SERIAL = "worker scaling"
ROUND_ROBIN = "round-robin feed"
NETWORK_IN = "network in"
NETWORK_OUT = "network out"
STORAGE = "shared storage"
# Names of what stops a launch.
NODES = "nodes"
CPUS = "CPUs per node"
MEMORY = "memory per node"
FILES = "files"
INPUT_WORKERS = "input workers"

NORMAL_95 = 1.6448536269514722
"""95 % quantile of the normal: half of a 90 % interval in standard deviations."""

# Student's t, 95 % quantile, for 1..30 degrees of freedom; the normal's above.
_STUDENT_95 = (
    *(6.3138, 2.9200, 2.3534, 2.1318, 2.0150, 1.9432, 1.8946, 1.8595, 1.8331, 1.8125),
    *(1.7959, 1.7823, 1.7709, 1.7613, 1.7531, 1.7459, 1.7396, 1.7341, 1.7291, 1.7247),
    *(1.7207, 1.7171, 1.7139, 1.7109, 1.7081, 1.7056, 1.7033, 1.7011, 1.6991, 1.6973),
)

# Assumption: fresh processes of one pipeline differ by 3 % (one standard deviation) until they are seen to differ by more. It is
# worth as much as four observed differences. Without it two processes that happen to agree would claim to be exact.
PROCESS_SPREAD_RATIO = 0.03
PROCESS_SPREAD_WEIGHT = 4

# Assumption: outside what was probed, the interval grows by this power of the distance on each side: 16 % down and 19 % up at twice
# the probed CPUs. To be replaced by the error that leaving whole pipelines out shows.
WIDENING_EXPONENT = 0.25

# Assumption: the second hardware thread of a core adds a quarter of the core's rate (Marr et al., Intel Technology Journal 6(1),
# 2002, saw 16 to 28 % on servers).
SMT_GAIN_RATIO = 0.25

# A worker "does not scale" where doubling its CPUs gives less than 10 %; or, with one CPU count probed, where it leaves 30 % idle.
SCALING_ELASTICITY = math.log2(1.1)
BUSY_UTILIZATION_RATIO = 0.7

UNEVEN_RATIO = 0.9
"""A slowest worker below this share of the mean is a limit of its own; above, it is part of what a worker delivers."""

SMALLEST_LOW_RATIO = 0.01
"""No interval reaches down to zero: a measured rate was more than nothing."""

MOST_CONTENTION_TASKS = 4
"""Each worker costs seconds of import and half a GiB; four show how they share a host."""


# --- from measurements to the model ---------------------------------------------------------------------------------------------


def fit(
    pipeline: PipelineGraph, measurements: Sequence[Measurement], host_cpus: int, *, num_workers: int | None = None
) -> CapacityModel:
    """The capacity model of one pipeline from probes of one host.

    Lone workers (layouts 1x1xC) give the rate at C CPUs, pooled over fresh processes; workers that ran together (1xTxC) give the
    share of that rate they keep and how far the slowest stays behind; workers that were told of more workers than ran beside them
    read only their shard, and give what that does to the rate. Runs of role `validate` and runs inside the user's process never
    feed the model.

    Args:
        host_cpus: CPUs of the measuring host that the workers could use.
        num_workers: worker count that is planned; of the runs on shards those nearest to it count. None: the last run.

    Raises:
        UsageError: no probe holds the rate of a worker that ran alone.
    """
    probes = [m for m in measurements if m.layout.nodes == 1 and m.role == "probe" and m.isolation == "process"]
    whole = [m for m in probes if m.num_workers <= m.layout.tasks]
    on_shards = _nearest([m for m in probes if m.num_workers > m.layout.tasks and m.measured_workers], num_workers)
    model = _fit(pipeline, whole, host_cpus)
    if not on_shards:
        return model
    ratio = _shard_ratio(model, on_shards)
    if ratio.low <= 1 <= ratio.high:  # no difference seen: they are more processes of the same kind
        return _fit(pipeline, [*whole, *on_shards], host_cpus)
    return replace(
        model,
        shard_ratio=ratio,
        slowest_ratio=min([model.slowest_ratio, *(_persistent_slowest_ratio(m.measured_workers) for m in on_shards)]),
    )


def _fit(pipeline: PipelineGraph, probes: Sequence[Measurement], host_cpus: int) -> CapacityModel:
    by_layout: dict[tuple[int, int], list[list[WorkerResult]]] = defaultdict(list)
    for measurement in probes:
        workers = [w for w in measurement.measured_workers if w.samples_per_s is not None and w.samples_per_s.estimate > 0]
        # A lost worker left its CPUs to the others: what they show is the sharing of those that ran.
        if workers:
            by_layout[len(workers), measurement.layout.cpus_per_task].append(workers)
    lone_cpus = sorted(cpus for tasks, cpus in by_layout if tasks == 1)
    if not lone_cpus:
        raise UsageError(
            "no probe measured the rate of a worker that ran alone, so nothing can be predicted; "
            "include a layout such as 1x1x1 in --probe-layouts, or give --max-seconds more time"
        )
    points = tuple(_worker_point(cpus, [w for run in by_layout[1, cpus] for w in run]) for cpus in lone_cpus)
    together = {key: runs for key, runs in by_layout.items() if key[0] > 1}
    contention = tuple(_contention_point(points, key, runs, host_cpus) for key, runs in sorted(together.items()))
    everyone = [worker for runs in by_layout.values() for run in runs for worker in run]
    return CapacityModel(
        workers=points,
        contention=contention,
        shard_ratio=Estimate.exact(1.0),
        slowest_ratio=min((_persistent_slowest_ratio(run) for runs in together.values() for run in runs), default=1.0),
        host_cpus=host_cpus,
        private_bytes=max((_private(w) for w in everyone if _private(w)), default=0) or None,
        shared_bytes=max((m.shared_bytes for m in probes if m.shared_bytes is not None), default=None),
        bytes_read_per_sample=_mean(w.bytes_read_per_sample for w in everyone),
        bytes_out_per_sample=_mean(w.bytes_out_per_sample for w in everyone),
        is_sharded=pipeline.is_sharded,
        file_count=pipeline.files.count if pipeline.files is not None else None,
    )


def _nearest(on_shards: Sequence[Measurement], num_workers: int | None) -> list[Measurement]:
    """The runs whose announced worker count is nearest to the planned one, in ratio."""
    if not on_shards:
        return []
    wanted = on_shards[-1].num_workers if num_workers is None else max(1, num_workers)
    best = min(abs(math.log(m.num_workers / wanted)) for m in on_shards)
    return [m for m in on_shards if abs(math.log(m.num_workers / wanted)) == best]


def _shard_ratio(model: CapacityModel, on_shards: Sequence[Measurement]) -> Estimate:
    """Rate of workers on their shards over what the model of the whole expects of them; the runs' ratios averaged."""
    ratios = []
    for measurement in on_shards:
        workers = measurement.measured_workers
        neighbours_ratio = (len(workers) - 1) * measurement.layout.cpus_per_task / model.host_cpus
        alone, kept = _alone(model.workers, measurement.layout.cpus_per_task), _kept(model, neighbours_ratio)
        expected = Estimate(
            estimate=alone.estimate * kept.estimate, low=alone.low * kept.low, high=alone.high * kept.high, count=alone.count
        )
        ratios.append(_quotient(_pooled(workers), expected))
    count = len(ratios)
    return Estimate(
        estimate=sum(r.estimate for r in ratios) / count,
        low=sum(r.low for r in ratios) / count,
        high=sum(r.high for r in ratios) / count,
        count=count,
    )


def _worker_point(cpus: int, workers: Sequence[WorkerResult]) -> WorkerPoint:
    return WorkerPoint(cpus=cpus, samples_per_s=_pooled(workers), cpu_s_per_sample=_mean(w.cpu_s_per_sample for w in workers))


def _pooled(workers: Sequence[WorkerResult]) -> Estimate:
    """The mean rate of a process, over processes; 90 %.

    Two sources of error in quadrature: processes differ from each other (Student's t on their spread, not below the assumed one),
    and each was seen for a while only. So the result is never narrower than either.
    """
    rates = [w.samples_per_s for w in workers if w.samples_per_s is not None]
    count = len(rates)
    mean = sum(r.estimate for r in rates) / count
    spread = math.sqrt(sum((r.estimate - mean) ** 2 for r in rates) / (count - 1)) if count > 1 else 0.0
    degrees = count - 1 + PROCESS_SPREAD_WEIGHT
    student = _STUDENT_95[degrees - 1] if degrees <= len(_STUDENT_95) else NORMAL_95
    # The assumed spread counts as observations too: t of `count - 1` alone would be 6.3 for two processes that agree.
    between = student * max(spread, PROCESS_SPREAD_RATIO * mean) / math.sqrt(count)
    within = math.sqrt(sum(max(r.estimate - r.low, r.high - r.estimate) ** 2 for r in rates)) / count
    half = math.hypot(between, within)
    return Estimate(estimate=mean, low=max(mean - half, SMALLEST_LOW_RATIO * mean), high=mean + half, count=count)


def _contention_point(
    points: tuple[WorkerPoint, ...], key: tuple[int, int], runs: Sequence[Sequence[WorkerResult]], host_cpus: int
) -> ContentionPoint:
    tasks, cpus = key
    together = _pooled([worker for run in runs for worker in run])
    alone = _alone(points, cpus)
    return ContentionPoint(tasks=tasks, cpus=cpus, busy_ratio=tasks * cpus / host_cpus, kept_ratio=_quotient(together, alone))


def _quotient(above: Estimate, below: Estimate) -> Estimate:
    """Ratio of two independent estimates: relative errors add in quadrature (first-order propagation, covariance 0)."""
    ratio = above.estimate / below.estimate
    down = math.hypot(1 - above.low / above.estimate, below.high / below.estimate - 1)
    up = math.hypot(above.high / above.estimate - 1, 1 - below.low / below.estimate)
    return Estimate(estimate=ratio, low=ratio * max(1 - down, SMALLEST_LOW_RATIO), high=ratio * (1 + up), count=above.count)


def _persistent_slowest_ratio(run: Sequence[WorkerResult]) -> float:
    """Slowest over mean of workers that ran together, without the distance that sampling noise alone would show; at most 1.

    Variance components: what is seen = what persists + mean squared standard error. The deviation of the slowest is shrunk by the
    square root of the share that persists.
    """
    rates = [w.samples_per_s for w in run if w.samples_per_s is not None]
    if len(rates) < 2:
        return 1.0
    mean = sum(r.estimate for r in rates) / len(rates)
    seen = sum((r.estimate - mean) ** 2 for r in rates) / (len(rates) - 1)
    noise = sum(((r.high - r.low) / 2 / NORMAL_95) ** 2 for r in rates) / len(rates)
    if seen <= noise:
        return 1.0
    return 1 - (1 - min(r.estimate for r in rates) / mean) * math.sqrt(1 - noise / seen)


def _private(worker: WorkerResult) -> int:
    return worker.private_bytes or worker.peak_rss_bytes or 0


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def dataset_bytes_per_node(files: FileSet, plan: LaunchPlan, *, is_sharded: bool) -> float:
    """What the page cache of one node would have to hold: all files, or the share of those that its workers divide among them."""
    return files.bytes * min(1.0, plan.tasks_per_node / plan.input_workers) if is_sharded else float(files.bytes)


# --- one worker ---------------------------------------------------------------------------------------------------------------


def worker_rate(model: CapacityModel, cluster: Cluster, tasks: int, cpus: int) -> tuple[Estimate, float]:
    """Rate of one of `tasks` streaming workers of `cpus` CPUs on a node, and how far that lies outside what was probed (>= 1).

    The interval holds the errors of the lone rate, of the contention and of the shards (in quadrature), of extrapolating, and of
    hardware threads.
    """
    alone = _alone(model.workers, cpus)
    kept = _kept(model, (tasks - 1) * cpus / cluster.cpus_per_node)
    extrapolation = max(1.0, cpus / model.largest_cpus_probed, model.workers[0].cpus / cpus)
    if tasks > 1:
        extrapolation = max(extrapolation, tasks * cpus / _busy_probed(model, tasks, cpus))
    widening = extrapolation**WIDENING_EXPONENT
    threads = smt_low_ratio(model, cluster, tasks, cpus)
    factors = (alone, kept, model.shard_ratio)
    rate = math.prod(factor.estimate for factor in factors)
    down = math.hypot(*(1 - factor.low / factor.estimate for factor in factors))
    up = math.hypot(*(factor.high / factor.estimate - 1 for factor in factors))
    low = rate * max(1 - down, SMALLEST_LOW_RATIO) / widening * threads
    return Estimate(estimate=rate, low=low, high=rate * (1 + up) * widening, count=alone.count), extrapolation


def smt_low_ratio(model: CapacityModel, cluster: Cluster, tasks: int, cpus: int) -> float:
    """What the low end of the rate is multiplied by because a hardware thread is not a core.

    1 while no core is shared, and where the probes kept as many CPUs and as large a share of their host busy: they paid for it.
    With a known number of threads per core: cores count 1, further threads `SMT_GAIN_RATIO`. Unknown: half of that on a log scale,
    as if two threads per core were as likely as one.
    """
    busy, probed = tasks * cpus, _busy_probed(model, tasks, cpus)
    cores = cluster.cpus_per_node / (cluster.threads_per_core or 2)
    is_probed = busy <= probed and busy / cluster.cpus_per_node <= probed / model.host_cpus
    if busy <= cores or is_probed:
        return 1.0
    ratio = (cores + SMT_GAIN_RATIO * (busy - cores)) / busy
    return math.sqrt(ratio) if cluster.threads_per_core is None else ratio


def _busy_probed(model: CapacityModel, tasks: int, cpus: int) -> int:
    """CPUs that the probes kept busy at once: by workers together, or by the one worker where only lone workers ran."""
    if tasks == 1:
        return cpus
    return max((min(point.tasks * point.cpus, model.host_cpus) for point in model.contention), default=cpus)


def _alone(points: tuple[WorkerPoint, ...], cpus: int) -> Estimate:
    """Rate of a lone worker at any CPU count: between probes, straight lines of log rate over log2(CPUs), which never overshoot.

    Beyond the largest probe: Amdahl's law (Gunther's universal scalability law without coherency) through the first and last point;
    low stays at the last point (more CPUs never promised more), high grows in proportion. Below the smallest: in proportion, which
    is pessimistic, since the cost of a sample falls with fewer CPUs.
    """
    last = points[-1]
    if cpus <= points[0].cpus:
        return points[0].samples_per_s.scaled(cpus / points[0].cpus)
    if cpus >= last.cpus:
        rate = last.samples_per_s
        estimate = rate.estimate * _amdahl_growth(points, cpus)
        # max, here and below: rounding must not push the middle past an end.
        return Estimate(estimate=estimate, low=rate.low, high=max(rate.high * cpus / last.cpus, estimate), count=rate.count)
    upper = next(index for index, point in enumerate(points) if point.cpus >= cpus)
    left, right = points[upper - 1], points[upper]
    share = math.log2(cpus / left.cpus) / math.log2(right.cpus / left.cpus)

    def between(a: float, b: float) -> float:
        return math.exp((1 - share) * math.log(a) + share * math.log(b)) if share < 1 else b

    a, b = left.samples_per_s, right.samples_per_s
    estimate = between(a.estimate, b.estimate)
    low, high = min(between(a.low, b.low), estimate), max(between(a.high, b.high), estimate)
    return Estimate(estimate=estimate, low=low, high=high, count=min(a.count or 1, b.count or 1))


def _amdahl_growth(points: tuple[WorkerPoint, ...], cpus: int) -> float:
    """X(cpus) / X(last) with X(c) ~ c / (1 + s (c - 1)), c in units of the first point's CPUs; 1 with one point or no growth."""
    first, last = points[0], points[-1]
    measured = last.samples_per_s.estimate / first.samples_per_s.estimate
    size = last.cpus / first.cpus
    if size == 1 or measured <= 1:
        return 1.0
    serial = max(0.0, (size / measured - 1) / (size - 1))
    larger = cpus / first.cpus
    return (larger / (1 + serial * (larger - 1))) / (size / (1 + serial * (size - 1)))


def _kept(model: CapacityModel, neighbours_ratio: float) -> Estimate:
    """Share of its lone rate that a worker keeps when its neighbours occupy `neighbours_ratio` of the node's CPUs; at most 1.

    Straight lines through the measured points, starting at (0, 1) and never rising; beyond the last point the hyperbola
    1 / (1 + a x) through it (contention term of the universal scalability law). Without a measured point: 1.
    """
    if neighbours_ratio <= 0 or not model.contention:
        return Estimate.exact(1.0)
    curve = [(0.0, 1.0, 1.0, 1.0)]
    for point in sorted(model.contention, key=lambda p: (_neighbours(p), p.kept_ratio.estimate)):
        kept, before = point.kept_ratio, curve[-1]
        row = (_neighbours(point), min(kept.estimate, before[1]), min(kept.low, before[2]), min(kept.high, 1.0, before[3]))
        curve[-1 if row[0] == before[0] else len(curve) :] = [row]
    above = next((index for index, row in enumerate(curve) if row[0] >= neighbours_ratio), None)
    if above is None:
        factor = neighbours_ratio / curve[-1][0]
        values = [1 / (1 + (1 / value - 1) * factor) for value in curve[-1][1:]]
    else:
        left, right = curve[above - 1], curve[above]
        share = (neighbours_ratio - left[0]) / (right[0] - left[0])
        values = [a + share * (b - a) for a, b in zip(left[1:], right[1:], strict=True)]
    estimate, low, high = values
    return Estimate(estimate=estimate, low=min(low, estimate), high=max(high, estimate))


def _neighbours(point: ContentionPoint) -> float:
    return point.busy_ratio * (point.tasks - 1) / point.tasks


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


# --- any layout ---------------------------------------------------------------------------------------------------------------


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
) -> Prediction:
    """What `layout` would deliver on `cluster`, by the bottleneck law; the estimate never exceeds any of its `limits`.

    Args:
        single_task_nodes: nodes of the layout that run one task which does not stream (the chief, and its helpers).
        feed: `round-robin` waits for the slowest worker, `first-come` takes the sum.
        has_chief: whether one task of a launch without single-task nodes is the chief and does not stream. False describes a
            measurement, where every started task streams.

    A launch that cannot run has a `problem`, and delivers 0. Reads are assumed to come over the network from shared storage, also
    where the page cache of a node would hold the files.
    """
    tasks = _tasks(layout, single_task_nodes, has_chief)
    memory = _memory(model, layout.tasks_per_node)
    problem = _problem(model, cluster, layout, single_task_nodes, tasks, memory)
    if problem is not None:
        name, text = problem
        limits: tuple[Limit, ...] = (Limit(name=name, samples_per_s=0.0),)
        rate, extrapolation = Estimate.exact(0.0), 1.0
    else:
        text = None
        worker, extrapolation = worker_rate(model, cluster, tasks.on_one_node, layout.cpus_per_task)
        declared = _declared_limits(model, cluster, tasks)
        slowest = model.slowest_ratio if feed == "round-robin" else 1.0
        supply = worker.scaled(tasks.input_workers * slowest)
        name = _worker_limit_name(model, layout.cpus_per_task)
        if slowest < UNEVEN_RATIO:
            all_alike = Limit(name=name, samples_per_s=worker.estimate * tasks.input_workers)
            streams = [all_alike, Limit(name=ROUND_ROBIN, samples_per_s=supply.estimate)]
        else:
            streams = [Limit(name=name, samples_per_s=supply.estimate)]
        limits = tuple(sorted([*streams, *declared], key=lambda limit: limit.samples_per_s))
        rate = supply.capped(min((limit.samples_per_s for limit in declared), default=math.inf))
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


def _declared_limits(model: CapacityModel, cluster: Cluster, tasks: _Tasks) -> list[Limit]:
    """Terms that were declared, not measured. A node's link carries each direction by itself (full duplex); the busiest node's
    link fills first, when the launch as a whole moves `input_workers / on_one_node` times its rate."""
    limits = []
    link, read, out = cluster.network_bytes_per_s_per_node, model.bytes_read_per_sample, model.bytes_out_per_sample
    nodes = tasks.input_workers / tasks.on_one_node
    if link is not None and read:
        limits.append(Limit(name=NETWORK_IN, samples_per_s=nodes * link / read))
    if link is not None and out:
        limits.append(Limit(name=NETWORK_OUT, samples_per_s=nodes * link / out))
    if cluster.storage_bytes_per_s is not None and read:
        limits.append(Limit(name=STORAGE, samples_per_s=cluster.storage_bytes_per_s / read))
    return limits


def _problem(
    model: CapacityModel, cluster: Cluster, layout: Layout, single_task_nodes: int, tasks: _Tasks, memory: int | None
) -> tuple[str, str] | None:
    """What stops this launch (name of the resource, sentence), or None."""
    if layout.nodes > cluster.nodes:
        return NODES, f"needs {layout.nodes} nodes, the cluster has {cluster.nodes}"
    if layout.cpus_per_node > cluster.cpus_per_node:
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


# --- what to measure next -------------------------------------------------------------------------------------------------------


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

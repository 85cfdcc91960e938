"""The bottleneck of one worker: every resource that a sample uses, and the rate that each alone would allow.

The law is the bottleneck law of operational analysis (Denning & Buzen, "The operational analysis of queueing network models",
ACM Computing Surveys 10(3), 1978). For every station X <= m / D, servers over service demand, so the lowest ceiling is the
bottleneck. The utilization law U = X · D / m says how near the worker comes to it. The stations of one worker:

    CPU                 CPUs over the CPU time of a sample
    serial op           1 over the time that one thread spends on a sample in all its ops
    fixed parallelism   k over the thread time of a sample in an op that makes k calls at a time
    Python (GIL)        1 over the CPU time of a sample in all Python functions: they share the interpreter's lock
    readers             the reading of the files as the code does it, measured alone
    storage bandwidth   bytes/s of the file system over the bytes of a sample
    storage latency     bytes/s that the readers' own number of streams draws, if more streams would draw more
    slowest shard       the slowest of several workers, if the accelerator takes batches in turn

No ceiling is below the measured rate. A ceiling a little below it is raised to it. A ceiling far below it is refuted and left
out, and so is one that was not measured. Two ceilings can show the same limit (a slow disk, and the reader that waits for it). Then
the cause comes first, even if its own number is slightly higher.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cs_input_analyzer.model.capacity.assumptions import CEILING_ERROR_RATIO, UNEVEN_RATIO
from cs_input_analyzer.records import (
    CACHED_RATIO,
    UNATTRIBUTED,
    CapacityModel,
    Feed,
    Layout,
    Limit,
    Measurement,
    Op,
    OpCost,
    PipelineGraph,
    Profile,
    Station,
    StationKind,
    Storage,
    WorkerResult,
)
from cs_input_analyzer.tfdata.folding import costliest
from cs_input_analyzer.tfdata.op_kinds import THREADED
from cs_input_analyzer.tfdata.threads import as_run, inside, python_ops, reader_ops, segments

# `CEILING_ERROR_RATIO` of the kinds of station that have their own. The CPU time of Python functions includes the runtime's, which
# no op accounts for. The CPUs are those that the kernel gave, so this ceiling is exact.
REFUTED_RATIOS: Mapping[StationKind, float] = {"CPU": math.inf, "Python (GIL)": 1.6}
# Ceilings within this ratio can be the same limit. A pipeline reads a little slower than a bare loop of reads.
SAME_LIMIT_RATIO = 1.4
# Above this share of its CPUs, threads of one worker slow each other down.
CROWDED_RATIO = 0.85
# An op with as many calls as CPUs is limited by the CPUs, unless its calls wait for this share of their time.
WAITING_RATIO = 0.2
# A shard is heavier if its samples need this many times the CPU or bytes of other shards.
HEAVIER_RATIO = 1.1
# More streams would read more if the readers' own number draws less than this share of the best.
LATENCY_RATIO = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Worker:
    """The facts about the worker; a mapping is by op name.

    Attributes:
        ops: as TensorFlow runs them.
        thread_s: thread time of one sample, without the time spent waiting to get a CPU back.
        cpu_s: the part of it that ran.
        parallelism: the number that AUTOTUNE chose, or the user wrote.
        unseen: ops that hold the CPU that could not be attributed, `unseen_cpu_s` of a sample.
    """

    ops: tuple[Op, ...]
    samples_per_s: float
    cpus: int
    cpu_s_per_sample: float
    bytes_read_per_sample: float | None
    thread_s: Mapping[str, float]
    cpu_s: Mapping[str, float]
    parallelism: Mapping[str, float]
    unseen: frozenset[str]
    unseen_cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ceiling:
    """One ceiling of the worker, named after `op`.

    Attributes:
        members: the ops of the station.
        costliest: the member that takes most time.
        cpu_samples_per_s: the rate that the CPU time in it would allow without any waiting.
    """

    kind: StationKind
    samples_per_s: float
    op: Op | None = None
    members: tuple[Op, ...] = ()
    costliest: Op | None = None
    servers: float = 1
    cpu_samples_per_s: float = math.inf


def stations_of(
    pipeline: PipelineGraph,
    profile: Profile,
    measurement: Measurement,
    *,
    storage: Storage | None = None,
    capacity: CapacityModel | None = None,
    measurements: Sequence[Measurement] = (),
    feed: Feed = "round-robin",
) -> tuple[Station, ...]:
    """Return the stations of one worker, the bottleneck first. Return nothing if the worker gave no rate.

    Args:
        pipeline: the pipeline of the worker.
        profile: of the first worker of `measurement`.
        measurement: the launch of the worker.
        storage: its `source_samples_per_s` is taken to be of a worker with as many CPUs.
        capacity: gives the distance of the slowest of several workers; None if unknown.
        measurements: all of the run; launches of several workers show whether the slowest has a heavier shard.
        feed: only a feed in turn makes the accelerator wait for the slowest worker.
    """
    worker = _worker(pipeline, profile, measurement)
    if worker is None:
        return ()
    kept = _kept(worker, measurement, storage)
    bounds = [*_slowest_shard(worker, capacity, measurements, feed), *_causes_first(kept)]
    return tuple(_station(bound, worker.samples_per_s, profile.layout) for bound in bounds)


def _kept(worker: _Worker, measurement: Measurement, storage: Storage | None) -> list[_Ceiling]:
    """Return the ceilings of the worker itself that its rate does not refute."""
    # Bottleneck law with m = CPUs, D = CPU time of the whole process for one sample.
    cpu = _Ceiling(kind="CPU", samples_per_s=worker.cpus / worker.cpu_s_per_sample, servers=worker.cpus)
    found = [cpu, *_serial(worker), *_fixed(worker), *_python(worker)]
    if storage is not None:
        found += [*_readers(worker, storage), *_storage(worker, storage, measurement)]
    most = [(one, one.samples_per_s * REFUTED_RATIOS.get(one.kind, CEILING_ERROR_RATIO)) for one in found]
    return [one for one, bound in most if math.isfinite(one.samples_per_s) and worker.samples_per_s <= bound]


def _worker(pipeline: PipelineGraph, profile: Profile, measurement: Measurement) -> _Worker | None:
    first = next(iter(measurement.workers), None)
    if first is None or first.samples_per_s is None or first.samples_per_s.estimate <= 0 or not profile.cpu_s_per_sample:
        return None
    cpus = profile.layout.cpus_per_task
    # Waiting to get a CPU back is the CPU station's queue, not an op's service. It comes from the worker's own threads only if
    # they fill its CPUs; and as in `tfdata.costs`, not on one CPU.
    is_full = first.samples_per_s.estimate * profile.cpu_s_per_sample >= CROWDED_RATIO * cpus
    preempted = first.noise.preempted_ratio if first.noise and is_full and cpus > 1 else None
    rows = {row.name: row for row in profile.ops if row.self_cpu_s_per_sample is not None}
    cpu_s = {name: _own_cpu_s(row) for name, row in rows.items()}
    wall_s = {name: cpu_s[name] + (row.wait_s_per_sample or 0.0) for name, row in rows.items()}
    parallelism = {name: row.parallelism for name, row in rows.items() if row.parallelism is not None}
    return _Worker(
        ops=as_run(pipeline.ops, parallelism),
        samples_per_s=first.samples_per_s.estimate,
        cpus=cpus,
        cpu_s_per_sample=profile.cpu_s_per_sample,
        bytes_read_per_sample=first.bytes_read_per_sample,
        thread_s={name: max(cpu_s[name], wall / (1 + (preempted or 0.0))) for name, wall in wall_s.items()},
        cpu_s=cpu_s,
        parallelism=parallelism,
        unseen=frozenset(row.name for row in profile.ops if row.merged_into == UNATTRIBUTED),
        unseen_cpu_s=cpu_s.get(UNATTRIBUTED, 0.0),
    )


def _own_cpu_s(row: OpCost) -> float:
    """Return the CPU of a sample on the op's own threads, without threads inside it if its own were seen at work."""
    whole_s = row.self_cpu_s_per_sample or 0.0
    return whole_s if row.wait_s_per_sample is None else whole_s - (row.told_apart_cpu_s_per_sample or 0.0)


# --- inside the process -------------------------------------------------------------------------------------------------------


def _serial(worker: _Worker) -> Iterator[_Ceiling]:
    """Yield the ceiling of each thread by the bottleneck law: m = 1, D summed over its ops."""
    for members in segments(worker.ops):
        is_whole = worker.unseen and worker.unseen <= {op.name for op in members}
        unseen_s = worker.unseen_cpu_s if is_whole else 0.0  # all of it is spent on this thread
        demand_s = _sum(worker.thread_s, members) + unseen_s
        if demand_s > 0:
            hidden = [op for op in members if op.name in worker.unseen]
            is_hidden = worker.unseen_cpu_s > max(worker.thread_s.get(op.name, 0.0) for op in members)
            op = hidden[0] if hidden and is_hidden else costliest(members, worker.thread_s)
            by_cpu = _rate(1, _sum(worker.cpu_s, members) + unseen_s)
            yield _Ceiling(
                kind="serial op", samples_per_s=1 / demand_s, op=op, members=members, costliest=op, cpu_samples_per_s=by_cpu
            )


def _fixed(worker: _Worker) -> Iterator[_Ceiling]:
    """Yield the ceilings of ops with a fixed number of calls.

    By Little's law N = X · R with N = k calls at a time: X <= k / R. R is thread time, waiting included.
    """
    for op in worker.ops:
        calls = _written_width(op) if op.kind in THREADED else None
        members = (*inside(op, worker.ops), op)
        thread_s, cpu_s = _sum(worker.thread_s, members), _sum(worker.cpu_s, members)
        if calls is None or thread_s <= 0:
            continue
        if calls < worker.cpus or thread_s - cpu_s > WAITING_RATIO * thread_s:
            yield _Ceiling(
                kind="fixed parallelism",
                samples_per_s=calls / thread_s,
                op=op,
                members=members,
                costliest=costliest(members, worker.thread_s),
                servers=calls,
                cpu_samples_per_s=_rate(calls, cpu_s),
            )


def _python(worker: _Worker) -> Iterator[_Ceiling]:
    """Yield the ceiling of the interpreter's lock: the bottleneck law with m = 1.

    The lock counts as held for the CPU time of the functions; functions that release it refute this ceiling.
    """
    members = python_ops(worker.ops)
    demand_s = _sum(worker.cpu_s, members)
    if demand_s > 0:
        op = members[0] if len(members) == 1 else None
        rate = 1 / demand_s
        yield _Ceiling(kind="Python (GIL)", samples_per_s=rate, op=op, members=members, cpu_samples_per_s=rate)


# --- files ------------------------------------------------------------------------------------------------------------------


def _readers(worker: _Worker, storage: Storage) -> Iterator[_Ceiling]:
    """Yield the measured rate of the pipeline cut after its readers."""
    alone = storage.source_samples_per_s
    if alone is not None and alone.estimate > 0:
        members = tuple(member for op in reader_ops(worker.ops) for member in (op, *_holders(op, worker.ops)))
        yield _Ceiling(kind="readers", samples_per_s=alone.estimate, op=_reading_op(worker), members=members)


def _storage(worker: _Worker, storage: Storage, measurement: Measurement) -> Iterator[_Ceiling]:
    """Yield the ceilings of the storage: X <= bytes/s over bytes per sample. Yield nothing if the files are cached.

    Latency: by Little's law N streams, each with one outstanding read, draw N · read size / time of a read. The
    measured rate of N streams is that product with the kernel's read-ahead, which a bare latency leaves out.
    """
    demand_bytes = worker.bytes_read_per_sample
    is_cached = measurement.cache_state == "warm" or (measurement.page_cache_ratio or 0.0) >= CACHED_RATIO
    state = "as-is" if storage.evicted is False else measurement.cache_state
    drawn = {read.streams: read.bytes_per_s for read in storage.reads if read.cache_state == state and read.bytes_per_s > 0}
    if is_cached or not demand_bytes or not drawn:
        return
    best, streams = max(drawn.values()), _streams(worker, reader_ops(worker.ops))
    is_open = is_growing(drawn) and streams is not None and streams > max(drawn)
    if not is_open:  # else the readers have more streams than were tried, and their higher rate is unknown
        yield _Ceiling(kind="storage bandwidth", samples_per_s=best / demand_bytes)
    if streams is None:
        return
    own = _drawn_by(drawn, streams)
    if is_open or own < LATENCY_RATIO * best:
        op = _reading_op(worker)
        yield _Ceiling(kind="storage latency", samples_per_s=own / demand_bytes, op=op, servers=streams)


def is_growing(drawn: Mapping[int, float]) -> bool:
    """Return whether the most streams drew clearly more than any smaller number of them."""
    most = max(drawn)
    return drawn[most] * LATENCY_RATIO > max((rate for streams, rate in drawn.items() if streams < most), default=0.0)


def _drawn_by(drawn: Mapping[int, float], streams: float) -> float:
    """Return the bytes/s of a number of streams.

    They are in proportion to the nearest smaller number, and at most those of the nearest larger one. N streams draw at
    most N times the rate of one. A window below its share of a wider one was disturbed, so the share counts.
    """
    least = {count: max(rate * count / wider for wider, rate in drawn.items() if wider >= count) for count in drawn}
    fewer = max((count for count in least if count <= streams), default=min(least))
    more = min((count for count in least if count >= streams), default=None)
    proportional = least[fewer] * streams / fewer
    return proportional if more is None else min(proportional, least[more])


def _streams(worker: _Worker, readers: Sequence[Op]) -> float | None:
    """Return the reads that are outstanding at a time: 1 if files are read one after the other; None if unknown."""
    if len(readers) != 1:
        return None
    streams = 1.0
    for op in (readers[0], *_holders(readers[0], worker.ops)):
        if op.kind in THREADED:
            width = _written_width(op) or worker.parallelism.get(op.name)
            if width is None:
                return None
            streams *= width
    return streams


def _reading_op(worker: _Worker) -> Op | None:
    """Return the op that decides how files are read: the outermost op around the reader, else the reader."""
    readers = reader_ops(worker.ops)
    if len(readers) != 1:
        return None
    return (readers[0], *_holders(readers[0], worker.ops))[-1]


def _holders(op: Op, ops: Sequence[Op]) -> tuple[Op, ...]:
    """Return the ops whose functions hold `op`, the nearest first."""
    holder = next((other for other in ops if other.name == op.within and other.name != op.name), None)
    return () if holder is None else (holder, *_holders(holder, ops))


def _written_width(op: Op) -> float | None:
    """Return the calls at a time in the user's code. Return None if TensorFlow chooses.

    An interleave makes at most as many calls as its cycle is long.
    """
    values = [op.parameters.get("num_parallel_calls"), op.parameters.get("cycle_length")]
    numbers = [float(value) for value in values if isinstance(value, int) and not isinstance(value, bool) and value > 0]
    return min(numbers, default=None)


# --- several workers ----------------------------------------------------------------------------------------------------------


def _slowest_shard(
    worker: _Worker, capacity: CapacityModel | None, measurements: Iterable[Measurement], feed: Feed
) -> Iterator[_Ceiling]:
    """Yield the ceiling of a feed that takes batches in turn: the slowest worker's rate from each of them.

    It limits the launch and not the worker, so the rate of one worker alone does not refute it. A slow worker without
    more work was disturbed by a neighbour on the host.
    """
    if capacity is None or feed != "round-robin" or not 0 < capacity.slowest_ratio < UNEVEN_RATIO:
        return
    if any(_is_heavier(measurement) for measurement in measurements):
        yield _Ceiling(kind="slowest shard", samples_per_s=worker.samples_per_s * capacity.slowest_ratio)


def _is_heavier(measurement: Measurement) -> bool:
    """Return whether a sample of the slowest worker costs clearly more CPU or bytes than one of the others."""
    workers = sorted(measurement.measured_workers, key=lambda worker: worker.samples_per_s.estimate if worker.samples_per_s else 0)
    if len(workers) < 2:
        return False
    slowest, *others = workers

    def is_more(demand: Callable[[WorkerResult], float | None]) -> bool:
        known = [value for other in others if (value := demand(other))]
        return bool(known) and (demand(slowest) or 0.0) >= HEAVIER_RATIO * sum(known) / len(known)

    return is_more(lambda one: one.cpu_s_per_sample) or is_more(lambda one: one.bytes_read_per_sample)


# --- order ------------------------------------------------------------------------------------------------------------------


def _station(ceiling: _Ceiling, samples_per_s: float, layout: Layout) -> Station:
    bound = ceiling.samples_per_s if ceiling.kind == "slowest shard" else max(ceiling.samples_per_s, samples_per_s)
    return Station(
        kind=ceiling.kind,
        op=ceiling.op.name if ceiling.op else None,
        source=ceiling.op.source if ceiling.op else None,
        samples_per_s=bound,
        utilization_ratio=min(1.0, samples_per_s / bound),
        layout=layout,
    )


def _causes_first(ceilings: Iterable[_Ceiling]) -> list[_Ceiling]:
    """Return the ceilings from the lowest up; if two show the same limit, the cause comes first."""
    order = sorted(ceilings, key=lambda ceiling: ceiling.samples_per_s)
    for explains in _EXPLANATIONS:
        for cause in list(order):
            place = next((index for index, other in enumerate(order) if other is not cause and explains(cause, other)), None)
            here = next(index for index, other in enumerate(order) if other is cause)
            if place is not None and place < here and cause.samples_per_s <= SAME_LIMIT_RATIO * order[place].samples_per_s:
                order.insert(place, order.pop(here))
    return order


def _ops_explain_readers(cause: _Ceiling, other: _Ceiling) -> bool:
    """Return whether the readers' rate follows from a thread or a fixed number of calls that reads."""
    return other.kind == "readers" and cause.kind in ("serial op", "fixed parallelism") and cause.op in other.members


def _the_lock_explains_python_calls(cause: _Ceiling, other: _Ceiling) -> bool:
    """Return whether calls at a time all wait for the lock."""
    return cause.kind == "Python (GIL)" and other.kind == "fixed parallelism" and other.servers > 1 and other.op in cause.members


def _storage_explains_reading(cause: _Ceiling, other: _Ceiling) -> bool:
    """Return whether the storage limits the readers, or a thread that mostly reads."""
    if cause.kind not in ("storage bandwidth", "storage latency"):
        return False
    return other.kind == "readers" or (other.costliest is not None and other.costliest in reader_ops(other.members))


_EXPLANATIONS: tuple[Callable[[_Ceiling, _Ceiling], bool], ...] = (
    _ops_explain_readers,
    _the_lock_explains_python_calls,
    _storage_explains_reading,
)
"""From the least to the most specific: the ceiling that moves last comes first."""


def _sum(seconds: Mapping[str, float], members: Iterable[Op]) -> float:
    return sum(seconds.get(op.name, 0.0) for op in members)


def _rate(servers: float, demand_s: float) -> float:
    return servers / demand_s if demand_s > 0 else math.inf


LASTING: tuple[StationKind, ...] = ("serial op", "fixed parallelism", "Python (GIL)", "storage latency")


def ceilings(
    pipeline: PipelineGraph,
    profile: Profile,
    measurement: Measurement,
    idle: WorkerResult,
    *,
    storage: Storage | None = None,
    measurements: Iterable[Measurement] = (),
) -> tuple[Limit, ...]:
    """Return the ceilings that no number of CPUs lifts a worker above, on an idle node.

    Idle CPUs lift a ceiling as they lift the worker, but not above the rate that the CPU time of a station allows.
    Other programs take no CPU time from a sample; they only make it wait. Storage is not faster on an idle node.

    Args:
        pipeline, storage: as for `stations_of`.
        profile, measurement: those of the worker of the stations.
        idle: the same worker as it would be on an idle node.
        measurements: no ceiling is below the rate of any of their workers.
    """
    worker = _worker(pipeline, profile, measurement)
    if worker is None or idle.samples_per_s is None:
        return ()
    faster = idle.samples_per_s.estimate / worker.samples_per_s
    speed_ratio = (idle.cpu_s_per_sample or worker.cpu_s_per_sample) / worker.cpu_s_per_sample
    rates = [one.samples_per_s.estimate for launch in measurements for one in launch.measured_workers if one.samples_per_s]
    least = max([worker.samples_per_s, *rates])
    found = [one for one in _causes_first(_kept(worker, measurement, storage)) if one.kind in LASTING]
    limits = []
    for one in found:
        measured = max(one.samples_per_s, least)
        lifted = one.samples_per_s if one.kind == "storage latency" else min(measured * faster, one.cpu_samples_per_s / speed_ratio)
        name = f"{one.kind}{f' {one.op.name}' if one.op else ''}"
        limits.append(Limit(name=name, samples_per_s=max(measured, lifted)))
    return tuple(limits)

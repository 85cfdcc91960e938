"""The ceilings of one worker: every resource that a sample uses, and the rate that each alone would allow.

For every station X <= m / D, servers over service demand (bottleneck law). The stations of one worker:

    CPU                 CPUs over the CPU time of a sample
    serial op           1 over the time that one thread spends on a sample in all its ops
    fixed parallelism   k over the thread time of a sample in an op that makes k calls at a time
    Python (GIL)        1 over the CPU time of a sample in all Python functions: they share the interpreter's lock
    readers             the reading of the files as the code does it, measured alone
    storage bandwidth   bytes/s of the file system over the bytes of a sample
    storage latency     bytes/s that the readers' own number of streams draws, if more streams would draw more
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cs_input_analyzer.model.capacity.assumptions import CEILING_ERROR_RATIO
from cs_input_analyzer.records import (
    CACHED_RATIO,
    UNATTRIBUTED,
    Measurement,
    Op,
    OpCost,
    PipelineGraph,
    Profile,
    StationKind,
    Storage,
)
from cs_input_analyzer.tfdata.folding import costliest
from cs_input_analyzer.tfdata.op_kinds import THREADED
from cs_input_analyzer.tfdata.op_traits import WIDTHS, number_of
from cs_input_analyzer.tfdata.threads import as_run, inside, python_ops, reader_ops, segments

# `CEILING_ERROR_RATIO` of the kinds of station that have their own. The CPU time of Python functions includes the runtime's, which
# no op accounts for. The CPUs are those that the kernel gave, so this ceiling is exact.
REFUTED_RATIOS: Mapping[StationKind, float] = {"CPU": math.inf, "Python (GIL)": 1.6}
# Above this share of its CPUs, threads of one worker slow each other down.
CROWDED_RATIO = 0.85
# An op with as many calls as CPUs is limited by the CPUs, unless its calls wait for this share of their time.
WAITING_RATIO = 0.2
# More streams would read more if the readers' own number draws less than this share of the best.
LATENCY_RATIO = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
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
class Ceiling:
    """One ceiling of the worker, named after `op`.

    Attributes:
        members: the ops of the station.
        costliest: the member that takes most time.
        cpu_samples_per_s: the rate that the CPU time in it would allow without any waiting.
        growth_ratio: this ceiling on a node of many CPUs over the one here, as the code or TensorFlow takes `servers` from them.
    """

    kind: StationKind
    samples_per_s: float
    op: Op | None = None
    members: tuple[Op, ...] = ()
    costliest: Op | None = None
    servers: float = 1
    cpu_samples_per_s: float = math.inf
    growth_ratio: float = 1.0


def worker_of(pipeline: PipelineGraph, profile: Profile, measurement: Measurement) -> Worker | None:
    """Return the facts of the first worker of a launch; None if it gave no rate, or if its CPU time is not known."""
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
    return Worker(
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


def kept_ceilings(
    worker: Worker, measurement: Measurement, storage: Storage | None, *, has_more_cpus: bool = False
) -> list[Ceiling]:
    """Return the ceilings of the worker itself that its rate does not refute.

    `has_more_cpus`: also those that only a worker of more CPUs than this one can reach.
    """
    # Bottleneck law with m = CPUs, D = CPU time of the whole process for one sample.
    cpu = Ceiling(kind="CPU", samples_per_s=worker.cpus / worker.cpu_s_per_sample, servers=worker.cpus)
    found = [cpu, *_serial(worker), *_fixed(worker, has_more_cpus), *_python(worker)]
    if storage is not None:
        found += [*_readers(worker, storage), *_storage(worker, storage, measurement)]
    most = [(one, one.samples_per_s * REFUTED_RATIOS.get(one.kind, CEILING_ERROR_RATIO)) for one in found]
    return [one for one, bound in most if math.isfinite(one.samples_per_s) and worker.samples_per_s <= bound]


# --- inside the process -------------------------------------------------------------------------------------------------------


def _serial(worker: Worker) -> Iterator[Ceiling]:
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
            yield Ceiling(
                kind="serial op", samples_per_s=1 / demand_s, op=op, members=members, costliest=op, cpu_samples_per_s=by_cpu
            )


def _fixed(worker: Worker, has_more_cpus: bool) -> Iterator[Ceiling]:
    """Yield the ceilings of ops with a fixed number of calls.

    By Little's law N = X · R with N = k calls at a time: X <= k / R. R is thread time, waiting included. Calls that fill the CPUs
    wait for one another, so R is only their CPU time, and a worker of these CPUs does not get that far.
    """
    for op in worker.ops:
        calls = _written_width(op) if op.kind in THREADED else None
        members = (*inside(op, worker.ops), op)
        thread_s, cpu_s = _sum(worker.thread_s, members), _sum(worker.cpu_s, members)
        if calls is None:
            continue
        has_idle_cpus = calls < worker.cpus or thread_s - cpu_s > WAITING_RATIO * thread_s
        busy_s = thread_s if has_idle_cpus else cpu_s
        if busy_s > 0 and (has_idle_cpus or has_more_cpus):
            yield Ceiling(
                kind="fixed parallelism",
                samples_per_s=calls / busy_s,
                op=op,
                members=members,
                costliest=costliest(members, worker.thread_s),
                servers=calls,
                cpu_samples_per_s=_rate(calls, cpu_s),
                growth_ratio=_widest(op) / calls,
            )


def _python(worker: Worker) -> Iterator[Ceiling]:
    """Yield the ceiling of the interpreter's lock: the bottleneck law with m = 1.

    The lock counts as held for the CPU time of the functions; functions that release it refute this ceiling.
    """
    members = python_ops(worker.ops)
    demand_s = _sum(worker.cpu_s, members)
    if demand_s > 0:
        op = members[0] if len(members) == 1 else None
        rate = 1 / demand_s
        yield Ceiling(kind="Python (GIL)", samples_per_s=rate, op=op, members=members, cpu_samples_per_s=rate)


# --- files ------------------------------------------------------------------------------------------------------------------


def _readers(worker: Worker, storage: Storage) -> Iterator[Ceiling]:
    """Yield the measured rate of the pipeline cut after its readers."""
    alone = storage.source_samples_per_s
    if alone is not None and alone.estimate > 0:
        members = tuple(member for op in reader_ops(worker.ops) for member in (op, *_holders(op, worker.ops)))
        yield Ceiling(kind="readers", samples_per_s=alone.estimate, op=_reading_op(worker), members=members)


def _storage(worker: Worker, storage: Storage, measurement: Measurement) -> Iterator[Ceiling]:
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
    best, streams = max(drawn.values()), _streams(worker)
    is_open = is_growing(drawn) and streams is not None and streams > max(drawn)
    if not is_open:  # else the readers have more streams than were tried, and their higher rate is unknown
        yield Ceiling(kind="storage bandwidth", samples_per_s=best / demand_bytes)
    if streams is None:
        return
    own = _drawn_by(drawn, streams)
    if is_open or own < LATENCY_RATIO * best:
        growth = math.prod(map(_widest, _parallel_readers(worker))) / streams  # N streams draw at most N times the rate of one
        op = _reading_op(worker)
        yield Ceiling(kind="storage latency", samples_per_s=own / demand_bytes, op=op, servers=streams, growth_ratio=growth)


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


def _streams(worker: Worker) -> float | None:
    """Return the reads that are outstanding at a time: 1 if files are read one after the other; None if unknown."""
    widths = [_written_width(op) or worker.parallelism.get(op.name, 0) for op in _parallel_readers(worker)]
    return math.prod(widths) or None if len(reader_ops(worker.ops)) == 1 else None


def _parallel_readers(worker: Worker) -> list[Op]:
    """Return the ops that read several files at a time: of the reader and the ops around it, those with threads."""
    return [op for reader in reader_ops(worker.ops) for op in (reader, *_holders(reader, worker.ops)) if op.kind in THREADED]


def _reading_op(worker: Worker) -> Op | None:
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
    numbers = [number for name in WIDTHS if (number := number_of(op, name) or 0) > 0]
    return min(numbers, default=None)


def _widest(op: Op) -> float:
    """Return the calls at a time on a node of many CPUs. AUTOTUNE makes as many as there are CPUs."""
    numbers = [op.by_cpus.get(name, number) for name in WIDTHS if (number := number_of(op, name) or 0) > 0]
    return min(numbers, default=math.inf)


def _sum(seconds: Mapping[str, float], members: Iterable[Op]) -> float:
    return sum(seconds.get(op.name, 0.0) for op in members)


def _rate(servers: float, demand_s: float) -> float:
    return servers / demand_s if demand_s > 0 else math.inf

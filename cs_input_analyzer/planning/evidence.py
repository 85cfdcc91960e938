"""What the measurements of a Case say about an op or a resource; None where nothing was measured. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from cs_input_analyzer.pipeline.lineage import without_end
from cs_input_analyzer.pipeline.op_kinds import kinds_with
from cs_input_analyzer.pipeline.op_traits import cost_of
from cs_input_analyzer.pipeline.threads import inside, reader_ops
from cs_input_analyzer.records import (
    Case,
    Edit,
    Finding,
    Measurement,
    Mode,
    Op,
    PipelineGraph,
    Scalar,
    Severity,
    Station,
    StationKind,
    SteadyState,
)

# Stations that are reading: what the pipeline draws from its files, and what the storage gives.
READING: tuple[StationKind, ...] = ("readers", "storage bandwidth", "storage latency")
# From this utilization on a station holds the worker back.
BUSY_RATIO = 0.8
# No more reads are opened at once: each holds a thread and a buffer.
MOST_READS = 64
# With just as many reads as keep the CPUs busy on average, both wait for each other in turn; twice as many leave the CPUs to set
# the pace (asymptotic bounds of a closed network: the knee, and well beyond it).
PAST_THE_KNEE_RATIO = 2


def finding(
    op: Op | str | None,
    message: str,
    fix: str | None,
    evidence: Mapping[str, Scalar],
    *,
    is_warning: bool = False,
    severity: Severity | None = None,
    edits: tuple[Edit, ...] = (),
    after: str | None = None,
) -> Finding:
    """What a rule found at an op, for the user's information where it is no warning. `after`: the op's statement, changed."""
    return Finding(
        severity=severity or ("warning" if is_warning else "info"),
        message=message,
        op=op.name if isinstance(op, Op) else op,
        evidence=evidence,
        fix=fix,
        before=op.code if isinstance(op, Op) and after is not None else None,
        after=after,
        edits=edits,
    )


def is_endless(pipeline: PipelineGraph) -> bool:
    """Return whether the pipeline claims that its elements never end."""
    # Where the names of files are repeated, TensorFlow does not know that their records never end.
    return pipeline.is_infinite or (bool(pipeline.ops) and pipeline.ops[-1].name in without_end(pipeline.ops))


def last_end(pipeline: PipelineGraph, measurements: Iterable[Measurement], mode: Mode) -> SteadyState | None:
    """Return the window of a worker that saw the data end for good: they claim to be endless, or gave nothing when read again. In
    evaluation, where one pass is meant, only the first counts. None if no worker saw that."""
    states = [worker.steady_state for m in measurements for worker in m.workers if worker.steady_state is not None]
    claims = is_endless(pipeline)
    ended = [
        one for one in states if one.pass_elements is not None and (claims or (one.stopped_by == "data_end" and mode == "train"))
    ]
    return min(ended, key=lambda one: one.pass_elements or math.inf, default=None)


def share_of(case: Case, ops: Iterable[Op]) -> float | None:
    """Share of the worker's CPU time that these ops take together."""
    if case.profile is None:
        return None
    names = {op.name for op in ops}
    shares = [cost.share_ratio for cost in case.profile.ops if cost.name in names and cost.share_ratio is not None]
    return sum(shares) if shares else None


def station_of(case: Case, kinds: tuple[StationKind, ...]) -> Station | None:
    """The busiest station of these kinds."""
    found = [station for station in case.stations if station.kind in kinds]
    return max(found, key=lambda station: station.utilization_ratio, default=None)


def bottleneck(case: Case, kinds: tuple[StationKind, ...]) -> Station | None:
    """The station of these kinds that holds the worker back: first of all, and busy."""
    first = case.stations[0] if case.stations else None
    return first if first is not None and first.kind in kinds and first.utilization_ratio >= BUSY_RATIO else None


def reads_at_once(case: Case, now: float = 1) -> int | None:
    """Files to read at once, so that the CPUs and no longer the waiting set the pace; None where reads do not wait for an answer.

    Little's law: outstanding reads = rate x latency, here those of `now` times the rate that the CPUs allow over the one that they
    draw; and some to spare. AUTOTUNE stops at the number of CPUs, which is too early for reads that only wait. Readers of an object
    store wait for its answers: they are measured alone.
    """
    is_store = case.pipeline.files is not None and case.pipeline.files.store is not None
    slow, cpu = bottleneck(case, ("storage latency", "readers") if is_store else ("storage latency",)), station_of(case, ("CPU",))
    if slow is None or cpu is None or slow.samples_per_s <= 0:
        return None
    files = case.pipeline.files.count if case.pipeline.files else MOST_READS
    wanted = min(files, MOST_READS, math.ceil(PAST_THE_KNEE_RATIO * now * cpu.samples_per_s / slow.samples_per_s))
    return wanted if wanted > now else None


# By the Filesystem Hierarchy Standard 3.0 and systemd's `file-hierarchy(7)`: each host's own, whatever lies below them elsewhere.
_NODE_LOCAL = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/proc")


def node_local_folder(path: str) -> str | None:
    """The folder above `path` that is each node's own by its name; None where the name does not tell."""
    return next((folder for folder in _NODE_LOCAL if f"{path}/".startswith(f"{folder}/")), None)


def cpus_of_task(case: Case) -> int | None:
    """CPUs of one task of the plan; without one, of the widest worker that was measured."""
    return widest_cpus(case) if case.plan is None else case.plan.cpus_per_task


def workers_of(case: Case) -> int | None:
    """Workers that stream in the plan; None without one."""
    return None if case.plan is None else case.plan.input_workers


def rate_of_worker(case: Case, more_cpus_than: int = 0) -> float | None:
    """Samples/s of the fastest worker that was measured, of those with more CPUs than so many."""
    launches = [launch for launch in case.measurements if launch.layout.cpus_per_task > more_cpus_than]
    rates = [worker.samples_per_s.estimate for m in launches for worker in m.measured_workers if worker.samples_per_s]
    return max(rates, default=None)


def widest_cpus(case: Case) -> int | None:
    """CPUs of the widest task, planned or measured: what an op could use, whatever the plan makes of its being slow."""
    planned = (case.plan.cpus_per_task,) if case.plan else ()
    return max((*planned, *(measurement.layout.cpus_per_task for measurement in case.measurements)), default=None)


def files_read(case: Case, op: Op) -> int | None:
    """Files that the readers inside `op` read; all of the pipeline's where the graph does not say who reads which, and no other op
    reads."""
    files, own = case.pipeline.files, (op, *inside(op, case.pipeline.ops))
    named = [one.files.count for one in own if one.files is not None]
    if named:
        return sum(named)
    is_alone = all(reader in own for reader in reader_ops(case.pipeline.ops))
    return files.count if files is not None and is_alone else None


def samples_of_worker(case: Case) -> float | None:
    """Samples in the files of one worker of the plan (of all files, without one): their bytes over those read for a sample.

    None where not all samples come from readers of files: what a generator reads, and how often, is not known. None, too, where
    a file is read in slices, each by a `skip` over those before it: then its bytes are read more than once in a pass.
    """
    ops = case.pipeline.ops
    is_read_again = any(op.kind == "Skip" and op.within is not None for op in ops)
    if is_read_again or any(op.kind in kinds_with("python") for op in ops) or not reader_ops(ops):
        return None
    read = [worker.bytes_read_per_sample for m in case.measurements for worker in m.measured_workers]
    known = [size for size in read if size]
    if case.pipeline.files is None or not known:
        return None
    workers = (workers_of(case) or 1) if case.is_sharded else 1
    return case.pipeline.files.bytes * len(known) / sum(known) / workers


def busy_ratio(case: Case, op: Op, calls: int = 1) -> float | None:
    """Share of the time in which `op` computes in `calls` calls at a time, on workers with more CPUs than that.

    Utilization law, U = X · D / m, with the CPU time of the op as D: without its waiting it is too small rather than too large.
    """
    rate, cost = rate_of_worker(case, calls), cost_of(op, case.profile)
    demand_s = cost.self_cpu_s_per_sample if cost is not None else None
    return rate * demand_s / calls if rate is not None and demand_s is not None else None


def cache_bytes_per_node(case: Case, op: Op) -> float | None:
    """Memory that a cache after `op` takes on a node of the plan: what one pass gives there, for each of its workers."""
    samples, cost = samples_of_worker(case), cost_of(op, case.profile)
    if samples is None or cost is None or cost.bytes_out_per_sample is None:
        return None
    taken = op.parameters.get("count") if op.kind == "Take" else None
    if isinstance(taken, int) and taken >= 0 and cost.elements_per_sample:
        samples = min(samples, taken / cost.elements_per_sample)
    return samples * cost.bytes_out_per_sample * (case.plan.tasks_per_node if case.plan else 1)


def free_bytes_per_node(case: Case) -> float:
    """Memory of a node that the plan's workers leave."""
    used = (case.plan.memory_bytes_per_node or 0) if case.plan else 0
    return max(0.0, float(case.cluster.memory_bytes_per_node - used))

"""The measured facts of a Case about an op or a resource; None if nothing was measured. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping

from cs_input_analyzer.records import (
    BUSY_RATIO,
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
from cs_input_analyzer.tfdata.lineage import upstream, without_end
from cs_input_analyzer.tfdata.op_kinds import HANDS_ON, IDLE
from cs_input_analyzer.tfdata.op_traits import cost_of
from cs_input_analyzer.tfdata.threads import as_run, inside, reader_ops, segments

# Stations of reading: the readers of the pipeline, and the storage.
READING: tuple[StationKind, ...] = ("readers", "storage bandwidth", "storage latency")
# No more reads are opened at once: each holds a thread and a buffer.
MOST_READS = 64
# With just as many reads as keep the CPUs busy on average, both wait for each other in turn; twice as many leave the CPUs to set
# the pace (asymptotic bounds of a closed network: the knee, and well beyond it).
PAST_THE_KNEE_RATIO = 2
# More calls pay if there are this many times more.
PAYING_RATIO = 1.2
# Above this share of the CPU time, the work of ops is worth moving or avoiding.
COSTLY_RATIO = 0.2


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
    """Return a finding at an op, for the user's information unless it is a warning.

    `after` is the op's statement, changed.
    """
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


def more_of_call(alike: int) -> str:
    """Return ` (and 149 more of this call)` for a finding about 150 ops that one call makes; empty for one op."""
    return f" (and {alike - 1} more of this call)" if alike > 1 else ""


def is_endless(pipeline: PipelineGraph) -> bool:
    """Return whether the pipeline claims that its elements never end."""
    # Where the names of files are repeated, TensorFlow does not know that their records never end.
    return pipeline.is_infinite or (bool(pipeline.ops) and pipeline.ops[-1].name in without_end(pipeline.ops))


def last_end(pipeline: PipelineGraph, measurements: Iterable[Measurement], mode: Mode) -> SteadyState | None:
    """Return the window of a worker that saw the data end for good. Return None if no worker saw that.

    The data claim to be endless, or gave nothing when read again. In evaluation, which needs one pass, only the first
    counts.
    """
    claims = is_endless(pipeline)
    ended = [
        window
        for window in windows_of(measurements)
        if window.pass_elements is not None and (claims or (window.stopped_by == "data_end" and mode == "train"))
    ]
    return min(ended, key=lambda one: one.pass_elements or math.inf, default=None)


def windows_of(measurements: Iterable[Measurement]) -> list[SteadyState]:
    """Return the windows of all workers that have one."""
    return [worker.steady_state for m in measurements for worker in m.workers if worker.steady_state is not None]


def share_of(case: Case, ops: Iterable[Op]) -> float | None:
    """Return share of the worker's CPU time that these ops take together."""
    if case.profile is None:
        return None
    names = {op.name for op in ops}
    shares = [cost.share_ratio for cost in case.profile.ops if cost.name in names and cost.share_ratio is not None]
    return sum(shares) if shares else None


def station_of(case: Case, kinds: tuple[StationKind, ...]) -> Station | None:
    """Return the busiest station of these kinds."""
    found = [station for station in case.stations if station.kind in kinds]
    return max(found, key=lambda station: station.utilization_ratio, default=None)


def bottleneck(case: Case, kinds: tuple[StationKind, ...], at: Collection[str | None] | None = None) -> Station | None:
    """Return the station of these kinds that holds the worker back: first of all, and busy.

    Args:
        at: names of ops, one of which must be the station; None among them for a station that is no single op.
    """
    first = case.stations[0] if case.stations else None
    if first is None or first.kind not in kinds or first.utilization_ratio < BUSY_RATIO:
        return None
    return first if at is None or first.op in at else None


def reads_at_once(case: Case, now: float = 1) -> int | None:
    """Files to read at once, so that the CPUs and no longer the waiting set the pace; None if reads do not wait for an answer.

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


def visits(case: Case, op: Op) -> float | None:
    """Return the elements that `op` gave for a sample of the output.

    Return None if its work was not seen: then its row has at best the elements of its neighbours.
    """
    cost = cost_of(op, case.profile)
    return cost.elements_per_sample if cost is not None and cost.self_cpu_s_per_sample is not None else None


def is_idle(case: Case, op: Op) -> bool:
    """Return whether `op` was measured to give nothing and take no CPU, as before a full cache.

    An op whose work stands in another row may run.
    """
    cost = cost_of(op, case.profile)
    return cost is not None and cost.elements_per_sample == 0 and not cost.self_cpu_s_per_sample and cost.merged_into is None


def is_full(case: Case, cache: Op) -> bool:
    """Return whether a cache was measured to give its elements alone: no op before it did anything."""
    before = [op for op in upstream(cache, case.pipeline.ops) if cost_of(op, case.profile) is not None]
    return bool(before) and all(is_idle(case, op) for op in before) and not is_idle(case, cache)


def waits(case: Case, op: Op) -> bool:
    """Return whether the calls of an op were measured to wait longer than they compute."""
    cost = cost_of(op, case.profile)
    return cost is not None and (cost.wait_s_per_sample or 0.0) > (cost.self_cpu_s_per_sample or 0.0)


def calls_at_once(case: Case, op: Op, now: int = 1) -> int | None:
    """Return how many calls of `op` would keep the CPUs busy, by Little's law as in `reads_at_once`.

    None unless its calls hold the worker back and were measured to wait longer than they compute.
    """
    slow = bottleneck(case, ("fixed parallelism", "serial op"), at=(op.name,))
    others = [station.samples_per_s for station in case.stations if station.kind in ("CPU", "Python (GIL)")]
    if slow is None or not waits(case, op) or not others or slow.samples_per_s <= 0:
        return None
    wanted = min(MOST_READS, math.ceil(PAST_THE_KNEE_RATIO * now * min(others) / slow.samples_per_s))
    return wanted if wanted >= PAYING_RATIO * now else None


def seconds_before(case: Case, op: Op, elements: float) -> float | None:
    """Return the seconds in which the ops before `op` make so many elements for it, by their own measured costs.

    The rate of the whole pipeline does not show it, because it includes the ops after `op`. No more than the quickest first
    batch took. None if the cost of one of these ops, or how many elements it gives, is not known.
    """
    before, profile = upstream(op, case.pipeline.ops), case.profile
    rows = {row.name: row for row in profile.ops} if profile is not None else {}
    given = rows.get(op.inputs[0]) if op.inputs else None
    if profile is None or given is None or not given.elements_per_sample:
        return None
    names = {one.name for one in before}
    thread_s: dict[str, float] = {}
    for one in before:
        row = rows.get(one.name)
        if one.kind in IDLE or one.kind in HANDS_ON or (row is not None and row.merged_into in names):
            continue
        if row is None or row.self_cpu_s_per_sample is None:
            return None
        thread_s[one.name] = row.self_cpu_s_per_sample + (row.wait_s_per_sample or 0.0)
    running = as_run(before, {name for name in names if name in rows and rows[name].parallelism is not None})
    cpu_s = sum(rows[name].self_cpu_s_per_sample or 0.0 for name in thread_s) / profile.layout.cpus_per_task
    one_thread_s = (sum(thread_s.get(one.name, 0.0) for one in members) for members in segments(running))
    calls_s = (thread_s[one.name] / max(1.0, rows[one.name].parallelism or 1.0) for one in running if one.name in thread_s)
    firsts = [w.first_batch_s for m in case.measurements for w in m.measured_workers if w.first_batch_s is not None]
    return min(max(cpu_s, *one_thread_s, *calls_s, 0.0) * elements / given.elements_per_sample, *firsts, math.inf)


# By the Filesystem Hierarchy Standard 3.0 and systemd's `file-hierarchy(7)`: each host's own, whatever lies below them elsewhere.
_NODE_LOCAL = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/proc")


def node_local_folder(path: str) -> str | None:
    """Return the folder above `path` that is each node's own by its name; None if the name does not tell."""
    return next((folder for folder in _NODE_LOCAL if f"{path}/".startswith(f"{folder}/")), None)


def cpus_of_task(case: Case) -> int | None:
    """CPUs of one task of the plan; without one, of the widest worker that was measured."""
    return widest_cpus(case) if case.plan is None else case.plan.cpus_per_task


def tasks_per_node(case: Case) -> int:
    """Return the tasks of a node of the plan, 1 without a plan."""
    return case.plan.tasks_per_node if case.plan is not None else 1


def bytes_per_task(case: Case) -> float:
    """Return the memory of a node for each of its tasks."""
    return case.cluster.memory_bytes_per_node / tasks_per_node(case)


def workers_of(case: Case) -> int | None:
    """Workers that stream in the plan; None without one."""
    return None if case.plan is None else case.plan.input_workers


def rate_of_worker(case: Case, more_cpus_than: int = 0) -> float | None:
    """Return the samples/s of the fastest measured worker, of those with more CPUs than the given number."""
    launches = [launch for launch in case.measurements if launch.layout.cpus_per_task > more_cpus_than]
    rates = [worker.samples_per_s.estimate for m in launches for worker in m.measured_workers if worker.samples_per_s]
    return max(rates, default=None)


def widest_cpus(case: Case) -> int | None:
    """CPUs of the widest task, planned or measured: what an op could use, whatever the plan makes of its being slow."""
    planned = (case.plan.cpus_per_task,) if case.plan else ()
    return max((*planned, *(measurement.layout.cpus_per_task for measurement in case.measurements)), default=None)


def files_read(case: Case, op: Op) -> int | None:
    """Return the number of files that the readers inside `op` read.

    Return that of the whole pipeline if the graph does not say who reads which, and no other op reads.
    """
    files, own = case.pipeline.files, (op, *inside(op, case.pipeline.ops))
    named = [one.files.count for one in own if one.files is not None]
    if named:
        return sum(named)
    is_alone = all(reader in own for reader in reader_ops(case.pipeline.ops))
    return files.count if files is not None and is_alone else None


def busy_ratio(case: Case, op: Op, calls: int = 1) -> float | None:
    """Return share of the time in which `op` computes in `calls` calls at a time, on workers with more CPUs than that.

    Utilization law, U = X · D / m, with the CPU time of the op as D: without its waiting it is too small rather than too large.
    """
    rate, cost = rate_of_worker(case, calls), cost_of(op, case.profile)
    demand_s = cost.self_cpu_s_per_sample if cost is not None else None
    return rate * demand_s / calls if rate is not None and demand_s is not None else None


def seconds_of_call(case: Case, op: Op) -> float | None:
    """Return the CPU time of one call of a map's function. None if its work was not seen."""
    cost, each = cost_of(op, case.profile), visits(case, op)
    return (cost.self_cpu_s_per_sample or 0.0) / each if cost is not None and each else None


def free_bytes_per_node(case: Case) -> float:
    """Memory of a node that the plan's workers leave."""
    used = (case.plan.memory_bytes_per_node or 0) if case.plan else 0
    return max(0.0, float(case.cluster.memory_bytes_per_node - used))

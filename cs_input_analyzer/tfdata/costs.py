"""Split the CPU over ops: turn the wall time that the model of the running pipeline counted into CPU per sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from cs_input_analyzer.records import CACHED_RATIO, RESTART, RUNTIME, UNATTRIBUTED, Layout, Op, OpCost, Profile, TunedParameter
from cs_input_analyzer.tfdata.folding import costliest, joint_of
from cs_input_analyzer.tfdata.function_ops import calls
from cs_input_analyzer.tfdata.lineage import upstream
from cs_input_analyzer.tfdata.op_kinds import IDLE, LIGHT, OPENS, READERS, TRANSFORMS
from cs_input_analyzer.tfdata.threads import as_run, inside, is_serial
from cs_input_analyzer.tfdata.visits import PerSample

# Wall time above the process's CPU by at most this is threads that wait for a CPU, not for storage.
NOISE_RATIO = 0.1
ROUNDING_RATIO = 1e-9
# The loop's cost differs by this factor between pipelines.
LOOP_NOISE_RATIO = 0.5
# Wall time of seen ops hides unseen ops, if these take more than this many times the rest.
FILLED_FACTOR = 2.0
# Snapshots that end amid a pass count the start of an op's input and not the elements that follow. No thread works longer on a
# sample than the sample takes: a wall time above this multiple of it is not that of a sample.
IMPOSSIBLE_FACTOR = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEvidence:
    """Hold the evidence on the costs of one worker's window.

    Attributes:
        spent: by op, for one sample of the output.
        merged: op -> the op whose row holds its cost.
        preempted_ratio: not used on one CPU. There a thread hands its CPU on only by its own wake-up call, in the runtime and not
            inside an op (docs/measurements.md).
        marginal: op -> CPU of one sample that the pipeline cut behind it takes beyond the parts before it.
        has_all_parts: whether all heavy ops are in `marginal`.
        elements_per_sample: of the last op.
        elapsed_s_per_sample: wall time of the worker for one sample; None if it is unknown.
        start_s_per_sample: wall time in which the shuffles of later passes started their inputs, inside `get_next`.
    """

    layout: Layout
    ops: Sequence[Op]
    spent: Mapping[str, PerSample]
    cpu_s_per_sample: float
    tuned: Sequence[TunedParameter] = ()
    harness_us: float | None = None
    merged: Mapping[str, str] = field(default_factory=dict)
    absent: Set[str] = frozenset()
    restart_cpu_s_per_sample: float = 0.0
    buffered: Mapping[str, float] = field(default_factory=dict)
    cached_ratio: float | None = None
    preempted_ratio: float | None = None
    marginal: Mapping[str, float] = field(default_factory=dict)
    has_all_parts: bool = True
    elements_per_sample: float = 0.0
    elapsed_s_per_sample: float | None = None
    start_s_per_sample: float = 0.0

    @property
    def walls(self) -> dict[str, float]:
        """Return the wall time per sample of the ops that were seen at work."""
        return {op.name: wall for op in self.ops if op.name in self.spent and (wall := self.spent[op.name].wall_s) is not None}

    @property
    def harness_s(self) -> float:
        """Return the cost of the loop that takes the batches, for one sample."""
        return (self.harness_us or 0.0) * 1e-6 * self.elements_per_sample

    @property
    def restart_cpu_s(self) -> float:
        """Return the CPU per sample of beginning passes; 0 if none was seen."""
        return min(self.restart_cpu_s_per_sample, self.cpu_s_per_sample)


def profile_of(given: CostEvidence) -> Profile:
    """Return per-op CPU such that ops + `restart` + `runtime` = process CPU, by identity.

    The model counts wall time on the thread. The time that a thread waited for its CPU is taken off first, in proportion. If the
    result is below the process's CPU, it is CPU, and the rest is the runtime's. If it is above, threads waited: a tenth is noise,
    and all shares shrink alike. More is taken from the ops that can block. If ops were not seen at work, the rest is
    `unattributed`.
    """
    walls = given.walls
    cpus, held_by = _cpus(given, walls), _held_by(given, walls)
    more = _told_apart(given, cpus, held_by)
    whole_s = given.cpu_s_per_sample
    parallelism = {value.op: value.value for value in given.tuned if value.parameter == "parallelism"}
    running = as_run(given.ops, parallelism)
    rows = [
        _row(op, op_as_run, running, given, cpus.get(op.name), more.get(op.name), held_by.get(op.name), parallelism.get(op.name))
        for op, op_as_run in zip(given.ops, running, strict=True)
        if op.kind != "Options"
    ]
    rest = whole_s - given.restart_cpu_s - sum(cpus.values()) - sum(more.values())
    if rest < ROUNDING_RATIO * whole_s:  # the rows of the ops were scaled to the whole: the difference is rounding, not runtime
        rest = 0.0
    started_s = min(given.start_s_per_sample, rest)  # wall time: on a busy host more than its CPU
    rest, restart_s = rest - started_s, given.restart_cpu_s + started_s
    rows += [_no_op(RESTART, restart_s, whole_s)] if restart_s > 0 else []
    rows.append(_no_op(UNATTRIBUTED if UNATTRIBUTED in held_by.values() else RUNTIME, rest, whole_s))
    return Profile(layout=given.layout, harness_us_per_batch=given.harness_us, cpu_s_per_sample=whole_s, ops=tuple(rows))


_NOT_SEEN = PerSample(wall_s=None, elements=None, bytes_in=None, bytes_out=None)


def _cpus(given: CostEvidence, walls: Mapping[str, float]) -> dict[str, float]:
    """Return the CPU per sample of the ops that were seen at work. Together they are at most the process's CPU."""
    on_cpu_ratio = 1 / (1 + (given.preempted_ratio or 0.0)) if given.layout.cpus_per_task > 1 else 1.0
    walls = {name: wall * on_cpu_ratio for name, wall in walls.items()}
    is_on_disk = given.cached_ratio is None or given.cached_ratio < CACHED_RATIO
    reads = {op.name for op in given.ops if op.kind in READERS or calls(op, "reads")}
    can_block = (reads if is_on_disk else set()) | {op.name for op in given.ops if calls(op, "python")}
    blocked = sum(wall for name, wall in walls.items() if name in can_block)
    cpu_s = given.cpu_s_per_sample - given.restart_cpu_s
    excess = sum(walls.values()) - cpu_s
    if excess > NOISE_RATIO * cpu_s and blocked > 0:
        kept = 1 - min(excess, blocked) / blocked
        walls = {name: wall * kept if name in can_block else wall for name, wall in walls.items()}
    total = sum(walls.values())
    scale = min(1.0, cpu_s / total) if total > 0 else 0.0
    return {name: wall * scale for name, wall in walls.items()}


def _told_apart(given: CostEvidence, cpus: dict[str, float], held_by: dict[str, str]) -> dict[str, float]:
    """Share out the CPU that the snapshots left, by the parts of the pipeline that ran alone. Return CPU of a sample by op.

    Unseen ops of one part get one row, which holds the others (`held_by` is changed). All branches that a loop made are one part.
    Light ops get at most the CPU that the parts leave. Snapshots count wall time, which fills the whole on a busy host. Then the
    CPU of the unseen ops is taken off the seen ops of other parts (`cpus` is changed).
    """
    whole_s = given.cpu_s_per_sample - given.restart_cpu_s
    rest = whole_s - sum(cpus.values())
    left = rest - given.harness_s
    if rest > whole_s / 2 and left <= LOOP_NOISE_RATIO * given.harness_s:  # no op took it: the loop did
        for name in [name for name, holder in held_by.items() if holder == UNATTRIBUTED]:
            del held_by[name]
        return {}
    whole = sum(given.marginal.values())
    if whole <= ROUNDING_RATIO * given.cpu_s_per_sample:
        return {}
    by_name = {op.name: op for op in given.ops}
    light = [name for name in cpus if by_name[name].kind in LIGHT]
    light_s, room = sum(cpus[name] for name in light), max(0.0, whole_s - given.harness_s - whole)
    if given.has_all_parts and light_s > room + NOISE_RATIO * whole_s:  # the model counts the start of a light op's input for it
        cpus.update({name: cpus[name] * room / light_s for name in light})
        left += light_s - room
    # The parts ran at another time, and without each other. If some are missing, the others must not get their CPU.
    scale = whole_s / whole if given.has_all_parts else 1.0
    joint, wanted = joint_of(given.ops), dict[str, float]()
    hidden_s, fixed = 0.0, set[str]()  # the CPU of unseen ops, and the ops of their parts
    for name, cpu_s in given.marginal.items():
        before = upstream(by_name[name], given.ops) if joint is not None and name == joint.name else ()
        members = [*before, *inside(by_name[name], given.ops), by_name[name]]
        beyond = cpu_s * scale - sum(cpus.get(member.name, 0.0) for member in members)
        if beyond <= 0:
            continue
        unseen = [member for member in members if held_by.get(member.name) == UNATTRIBUTED]
        holder = costliest(members, cpus) if before else None
        if holder is None or holder.name not in cpus:
            holder = next((op for op in unseen if op.kind in TRANSFORMS), None) or next(iter(reversed(unseen)), None)
        if holder is None:
            holder = max(members, key=lambda member: cpus.get(member.name, -1.0))
        names = {member.name for member in unseen}
        held_by.update({other: holder.name for other, at in held_by.items() if other in names or at in names})
        held_by.pop(holder.name, None)
        wanted[holder.name] = beyond
        if unseen:
            hidden_s, fixed = hidden_s + beyond, fixed | {member.name for member in members}
    if given.has_all_parts and hidden_s > FILLED_FACTOR * left:
        others = [name for name in cpus if name not in fixed]
        room = whole_s - given.harness_s - hidden_s - sum(cpus[name] for name in cpus if name in fixed)
        kept = min(1.0, max(0.0, room) / max(sum(cpus[name] for name in others), ROUNDING_RATIO * whole_s))
        cpus.update({name: cpus[name] * kept for name in others})
        left = whole_s - given.harness_s - sum(cpus.values())
    share = min(1.0, max(0.0, left) / sum(wanted.values())) if wanted else 0.0
    return {name: beyond * share for name, beyond in wanted.items()}


def _row(
    op: Op,
    op_as_run: Op,
    running: Sequence[Op],
    given: CostEvidence,
    seen_cpu_s: float | None,
    more_cpu_s: float | None,
    held_by: str | None,
    parallelism: float | None,
) -> OpCost:
    fixed = op.parameters.get("num_parallel_calls")
    if not parallelism and isinstance(fixed, int | float) and not isinstance(fixed, bool):
        parallelism = float(fixed)
    seen = given.spent.get(op.name, _NOT_SEEN)
    cpu_s = seen_cpu_s if more_cpu_s is None else (seen_cpu_s or 0.0) + more_cpu_s
    serial = is_serial(op_as_run, running) if cpu_s is not None else None
    threads = parallelism or (1.0 if serial else None)
    return OpCost(
        name=op.name,
        kind=op.kind,
        self_cpu_s_per_sample=cpu_s,
        told_apart_cpu_s_per_sample=more_cpu_s,
        wait_s_per_sample=_wait_s(seen.wall_s, seen_cpu_s, threads, given.elapsed_s_per_sample),
        share_ratio=cpu_s / given.cpu_s_per_sample if cpu_s is not None and given.cpu_s_per_sample > 0 else None,
        parallelism=parallelism,
        source=op.source,
        library_source=op.library_source,
        elements_per_sample=seen.elements,
        bytes_in_per_sample=seen.bytes_in,
        bytes_out_per_sample=seen.bytes_out,
        buffered_elements=given.buffered.get(op.name),
        is_serial=serial,
        merged_into=held_by,
    )


def _wait_s(wall_s: float | None, cpu_s: float | None, threads: float | None, elapsed_s: float | None) -> float | None:
    """Return the wall time of a sample without its CPU. Return None if it is unknown, or more than the threads had."""
    if wall_s is None or cpu_s is None:
        return None
    is_possible = threads is None or elapsed_s is None or wall_s <= IMPOSSIBLE_FACTOR * threads * elapsed_s
    return max(0.0, wall_s - cpu_s) if is_possible else None


def _no_op(name: str, cpu_s: float, whole_s: float) -> OpCost:
    """Return a row of CPU that belongs to no op."""
    return OpCost(
        name=name,
        kind=name,
        self_cpu_s_per_sample=cpu_s,
        wait_s_per_sample=None,
        share_ratio=cpu_s / whole_s if whole_s > 0 else None,
        parallelism=None,
        source=None,
    )


def _held_by(given: CostEvidence, walls: Mapping[str, float]) -> dict[str, str]:
    """Return the row that holds the cost of each op without a measured one. Leave out ops that did not run, or do nothing."""
    by_name = {op.name: op for op in given.ops if op.name not in given.absent}
    found = {}
    for op in by_name.values():
        if op.name in walls:
            continue
        holder = by_name.get(op.within or "")
        if op.name in given.merged:
            found[op.name] = given.merged[op.name]
        elif holder is not None and holder.kind not in OPENS and holder.name in walls:  # its function iterates them itself
            found[op.name] = holder.name
        elif (given.spent.get(op.name, _NOT_SEEN).elements or 0.0) > 0 and op.kind not in IDLE:
            found[op.name] = UNATTRIBUTED
    return found

"""Where the CPU time of one worker goes: the table of ops, and the sentences around it."""

from __future__ import annotations

from cs_input_analyzer.records import RUNTIME, UNATTRIBUTED, OpCost, Profile
from cs_input_analyzer.report.tables import SOURCE, Column, Table, bare_rate, source_text
from cs_input_analyzer.report.wording import one_line
from cs_input_analyzer.units import MISSING, format_bytes, format_rate, format_ratio, format_seconds

# What `SerialStation.op` says where the station is the interpreter's lock.
GIL = "GIL"
# A runtime row under this share, beside waiting ops, was squeezed out by their rows.
HIDDEN_RATIO = 0.005
# Ops with less of the CPU stand in one line together.
MINOR_RATIO = 0.01
# Ops that a sentence names; the table has all.
NAMES_SHOWN = 4
# Lines shorter than this show the six columns that a reader needs first.
WIDE = 120

NARROW = (
    Column(name="op", meaning="the op; runtime is CPU of no op, unattributed the same with that of ops not seen at work"),
    Column(name="share", meaning="share of the worker's CPU time; in …: its cost is in that row", is_number=True),
    Column(name="CPU per\nsample", meaning="CPU time in this op itself for one sample", is_number=True),
    Column(
        name="wait per\nsample",
        meaning="time threads were in this op without running (waiting for a CPU, storage, a lock), for one sample",
        is_number=True,
    ),
    Column(name="parallel", meaning="calls that ran at the same time; serial: on one thread, whatever the CPUs", is_number=True),
)
DETAILS = (
    Column(
        name="elements\nper sample",
        meaning="elements that it gave for each sample that came out of the pipeline",
        is_number=True,
        needs_width=WIDE,
    ),
    Column(name="bytes out\nper sample", meaning="bytes of those elements", is_number=True, needs_width=WIDE),
    Column(
        name="buffered\nelements",
        meaning="elements that waited in its buffer when measuring ended",
        is_number=True,
        needs_width=WIDE,
    ),
    Column(
        name="prefix Δ,\nnot additive",
        meaning=(
            "CPU for one sample of the pipeline cut after this op, less that of the one cut before it: what the op adds. These "
            "differences do not sum to the whole, because a shorter pipeline overlaps differently"
        ),
        is_number=True,
        needs_width=WIDE,
    ),
)


def op_cost_table(profile: Profile) -> Table:
    """The ops in the order in which elements pass, the costliest one standing out. Details that no op has are left out."""
    details = [_details(op) for op in profile.ops]
    known = [place for place in range(len(DETAILS)) if any(cells[place] != MISSING for cells in details)]
    rows = tuple(
        (
            one_line(op.name),
            format_ratio(op.share_ratio) if op.merged_into is None else f"in {one_line(op.merged_into)}",
            format_seconds(op.self_cpu_s_per_sample),
            format_seconds(op.wait_s_per_sample),
            _parallel(op),
            *(cells[place] for place in known),
            source_text(op),
        )
        for op, cells in zip(profile.ops, details, strict=True)
    )
    costliest = costliest_op(profile)
    return Table(
        title=f"Cost of each op (one worker of {profile.layout})",
        columns=(*NARROW, *(DETAILS[place] for place in known), SOURCE),
        rows=rows,
        strong=profile.ops.index(costliest) if costliest is not None else None,
        minor=tuple(place for place, op in enumerate(profile.ops) if _is_minor(op)),
    )


def _is_minor(op: OpCost) -> bool:
    """Whether it costs so little that a short line says enough."""
    return op.merged_into is None and op.share_ratio is not None and op.share_ratio < MINOR_RATIO and not op.wait_s_per_sample


def _details(op: OpCost) -> tuple[str, ...]:
    return (
        bare_rate(op.elements_per_sample),
        format_bytes(op.bytes_out_per_sample),
        bare_rate(op.buffered_elements),
        format_seconds(op.prefix_cpu_s_per_sample),
    )


def _parallel(op: OpCost) -> str:
    parts = ["" if op.parallelism is None else bare_rate(op.parallelism), "serial" if op.is_serial else ""]
    return " ".join(part for part in parts if part) or MISSING


def costliest_op(profile: Profile) -> OpCost | None:
    """The op with the largest share of the CPU; None where no share is known. `runtime` and its like are none."""
    shares = [(op.share_ratio, op) for op in profile.ops if op.is_op and op.share_ratio is not None]
    return max(shares, key=lambda pair: pair[0])[1] if shares else None


def costliest_sentence(profile: Profile) -> str:
    """Which op to look at first; empty where no share is known."""
    costliest = costliest_op(profile)
    unseen = _unseen_sentence(profile)
    if costliest is None:
        return unseen
    parts = [f"costliest op: {one_line(costliest.name)}, {format_ratio(costliest.share_ratio)} of the CPU{_at(costliest)}"]
    parts += [
        f"more of it, {format_ratio(op.share_ratio)}, belongs to no op (runtime: executor, allocation, scheduling)"
        for op in profile.ops
        if op.kind == RUNTIME and (op.share_ratio or 0.0) > (costliest.share_ratio or 0.0)
    ]
    parts += [unseen] if unseen else []
    added = [f"`{one_line(op.name)}`" for op in profile.ops if op.is_marginal]
    if added:
        parts.append(f"{_several(added)} could not be seen whole: the CPU is what the pipeline costs more when cut after it")
    if _is_runtime_hidden(profile):
        parts.append(
            "threads spent more time in the ops than the process had CPU, so what the runtime costs is hidden in their rows"
        )
    waits = [(op.wait_s_per_sample, op) for op in profile.ops if op.wait_s_per_sample is not None]
    wait_s, waiting = max(waits, key=lambda pair: pair[0]) if waits else (0.0, costliest)
    if wait_s > (costliest.self_cpu_s_per_sample or 0.0):
        parts.append(f"longest wait: {one_line(waiting.name)}, {format_seconds(wait_s)} a sample{_at(waiting)}")
    return "; ".join(parts)


def _unseen_sentence(profile: Profile) -> str:
    """The share that cannot be placed, and whose it may be; empty where there is none."""
    unseen = [f"`{one_line(op.name)}`{_at(op)}" for op in profile.ops if op.merged_into == UNATTRIBUTED]
    rest = next((op for op in profile.ops if op.kind == UNATTRIBUTED), None)
    if rest is None or not unseen:
        return ""
    share = "" if rest.share_ratio is None else f"{format_ratio(rest.share_ratio)} of the CPU is "
    return f"{share}unattributed: what {_several(unseen)} cost could not be told from what TensorFlow's runtime costs"


def _several(names: list[str]) -> str:
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _is_runtime_hidden(profile: Profile) -> bool:
    """Its row is 0 because the ops' rows had to be scaled down to the process's CPU, not because it costs nothing."""
    runtime = [op for op in profile.ops if op.kind == RUNTIME]
    is_scaled = any((op.wait_s_per_sample or 0.0) > 0 for op in profile.ops)
    return is_scaled and any((op.share_ratio or 0.0) < HIDDEN_RATIO for op in runtime)


def serial_sentence(profile: Profile) -> str:
    """Why more CPUs would not help; empty where no serial station was found."""
    station = profile.serial
    if station is None:
        return ""
    idle = format_rate(station.idle_cpus, "").strip()
    busy = f"busy {format_ratio(station.busy_ratio)} of the time while {idle} {'CPU idles' if idle == '1' else 'CPUs idle'}"
    if station.op == GIL:
        return (
            f"Python functions share the interpreter's lock: it is {busy}. More CPUs per task cannot help them; more tasks can, or "
            "TensorFlow ops in their place"
        )
    return f"`{one_line(station.op)}` runs on one thread that is {busy}: more CPUs per task cannot help it"


def _at(op: OpCost) -> str:
    return f", at {one_line(op.source)}" if op.source else ""

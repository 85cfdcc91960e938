"""The ops of one worker: what holds it back, where its CPU time goes, and the pipeline as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cs_input_analyzer.records import BUSY_RATIO, RUNTIME, UNATTRIBUTED, Analysis, Op, OpCost, Profile, Station
from cs_input_analyzer.report.document import SOURCE, Column, Table, bare_rate, number, slug, table_of, text
from cs_input_analyzer.report.wording import AS_MEASURED, named_values, one_line, short_source, titled
from cs_input_analyzer.tfdata.folding import fold_costs, fold_ops, folding_of
from cs_input_analyzer.tfdata.op_kinds import KINDS
from cs_input_analyzer.units import MISSING, format_bytes, format_rate, format_ratio, format_seconds, several

# Lines shorter than this show the six columns that a reader needs first.
WIDE = 120

STATION_MEANINGS = {
    "CPU": "all CPUs of the worker",
    "serial op": "one thread walks through this op and its neighbours, whatever the CPUs",
    "fixed parallelism": "as many calls at a time as the op is told to make",
    "Python (GIL)": "Python functions share the interpreter's lock, whatever the CPUs",
    "readers": "the file reading as it is written, measured alone",
    "storage bandwidth": "the most that the file system gave to any number of streams",
    "storage latency": "so few streams read at a time that each read is waited for",
    "slowest shard": "batches are taken from the workers in turn: all wait for the one with the heaviest shard",
}


def stations_table(stations: tuple[Station, ...]) -> Table:
    """Return every ceiling of one worker. The bottleneck is first and stands out."""
    columns = (
        text("station", "; ".join(f"{kind}: {meaning}" for kind, meaning in STATION_MEANINGS.items()), "kind"),
        text("op", "the op that is the station, where it is one", "op"),
        number("ceiling,\nsamples/s", "samples per second that it alone would allow one worker", "samples_per_s", bare_rate),
        number("used", "the measured rate over that ceiling: the bottleneck is near 100 %", "utilization_ratio", format_ratio),
        text("source", "where your code makes the op", lambda at: at.source and short_source(at.source)),
    )
    layout = next((station.layout for station in stations if station.layout is not None), None)
    title = f"Bottleneck{f' (one worker of {layout})' if layout is not None else ''}"
    remarks = (_remark(stations[0]),) if stations else ()
    return table_of(titled(title, AS_MEASURED), columns, stations, strong=0 if stations else None, remarks=remarks)


def _remark(first: Station) -> str:
    """Return the meaning of the first station; one that is not at its limit is only the nearest to it."""
    meaning = f"{first.kind}: {STATION_MEANINGS[first.kind]}"
    if first.utilization_ratio >= BUSY_RATIO:
        return meaning
    return f"nothing that was looked at is near its limit, or the host was busy with other work; nearest: {meaning}"


def station_sentence(station: Station) -> str:
    """Say which station of a worker is at its limit, on which line, and what it allows at most."""
    if station.kind == "CPU":
        return f"the CPUs of a worker are {format_ratio(station.utilization_ratio)} busy"
    op = f" {one_line(station.op)}" if station.op else ""
    at = f" at {short_source(station.source)}" if station.source else ""
    most = format_rate(station.samples_per_s)
    reached = format_ratio(station.utilization_ratio)
    return f"{station.kind}{op}{at}: at most {most} per worker on any number of CPUs ({reached} of it reached)"


def _share(op: OpCost) -> str:
    if op.share_ratio is None and op.merged_into is not None:
        return f"in {op.merged_into}"
    return f"{'' if op.merged_into is None else '≥ '}{format_ratio(op.share_ratio)}"


def _parallel(op: OpCost) -> str:
    parallelism = "" if op.parallelism is None else bare_rate(op.parallelism)
    return f"{parallelism}{' serial' if op.is_serial else ''}".strip() or MISSING


WAIT = "time threads were in this op without running (waiting for a CPU, storage, a lock), for one sample"
COST_COLUMNS: tuple[Column, ...] = (
    text("op", "runtime: CPU of no op, 0 where waiting ops hold it; unattributed: also that of ops not seen at work", "name"),
    number(
        "share",
        "share of the worker's CPU time; in …: its cost is in that row; ≥: some of it is",
        _share,
        str,
    ),
    number("CPU per\nsample", "CPU time in this op itself for one sample", "self_cpu_s_per_sample", format_seconds),
    number("wait per\nsample", WAIT, "wait_s_per_sample", format_seconds),
    number("parallel", "calls that ran at the same time; serial: on one thread, whatever the CPUs", _parallel, str),
    number("elements\nper sample", "that it gave for each sample", "elements_per_sample", bare_rate, needs_width=WIDE),
    number("bytes out\nper sample", "bytes of those elements", "bytes_out_per_sample", format_bytes, needs_width=WIDE),
    SOURCE,
)


UNSEEN = "unattributed: what these ops cost could not be told from what TensorFlow's runtime costs."


def shown_profile(analysis: Analysis) -> Profile | None:
    """Return the profile with one row for all ops that one source line made many times; None without one."""
    profile = analysis.profile
    return profile and replace(profile, ops=fold_costs(profile.ops, folding_of(analysis.pipeline.ops)))


def op_cost_table(profile: Profile) -> Table:
    """Return the costs of the ops; the costliest one stands out."""
    costliest = costliest_op(profile)
    unseen = UNSEEN if any(op.merged_into == UNATTRIBUTED for op in profile.ops) else ""
    return table_of(
        f"Cost of each op (one worker of {profile.layout})",
        COST_COLUMNS,
        profile.ops,
        strong=profile.ops.index(costliest) if costliest is not None else None,
        anchors=cost_anchors(profile),
        remarks=tuple(filter(None, (_longest_wait(profile, costliest), unseen))),
    )


def cost_anchors(profile: Profile) -> tuple[str, ...]:
    """Return the address of each row of the costs, in their order."""
    return tuple(f"cost-{place}-{slug(row.name)}" for place, row in enumerate(profile.ops))


def costliest_op(profile: Profile) -> OpCost | None:
    """Return the op with the largest share of the CPU. `runtime` and its like are none.

    None if no share is known, or if more of the CPU is unattributed or belongs to no op: another op may be the costliest.
    """
    known = [row for row in profile.ops if row.share_ratio is not None]
    costliest = max((row for row in known if row.is_op), key=lambda row: row.share_ratio or 0.0, default=None)
    hidden = max((row.share_ratio or 0.0 for row in known if row.name in (UNATTRIBUTED, RUNTIME)), default=0.0)
    return None if costliest is None or (costliest.share_ratio or 0.0) < hidden else costliest


def costliest_sentence(profile: Profile) -> str:
    """Return `82 % of the CPU in map (data.py:23)`: the costliest op; empty if nothing is known.

    If ops that could not be told apart have more, these are named. Of each file there is its name alone.
    """
    costliest, shares = costliest_op(profile), {row.name: row.share_ratio for row in profile.ops}
    runtime = shares.get(RUNTIME)
    if costliest is None and runtime is not None and any(row.is_op and row.share_ratio is not None for row in profile.ops):
        return f"{format_ratio(runtime)} of the CPU belongs to no op: TensorFlow's runtime, and the loop that takes the batches"
    rows = [costliest] if costliest is not None else [row for row in profile.ops if row.merged_into == UNATTRIBUTED]
    share = costliest.share_ratio if costliest is not None else shares.get(UNATTRIBUTED)
    if not rows or share is None:
        return ""
    places = _lines_of([row.source.rpartition("/")[2] for row in rows if row.source])
    names = several([one_line(row.name) for row in rows])
    return f"{format_ratio(share)} of the CPU in {names}{f' ({places})' if places else ''}"


def _longest_wait(profile: Profile, costliest: OpCost | None) -> str:
    """Say which op waits longest; empty if the costliest op works longer, or is unknown."""
    if costliest is None:
        return ""
    waiting = max(profile.ops, key=lambda op: op.wait_s_per_sample or 0.0)
    wait_s = waiting.wait_s_per_sample or 0.0
    if wait_s <= (costliest.self_cpu_s_per_sample or 0.0):
        return ""
    return f"longest wait: {one_line(waiting.name)}, {format_seconds(wait_s)} a sample"


def _lines_of(sources: Sequence[str]) -> str:
    """Return `…/pipelines/data.py:35-37` for lines of one file; several files stand one after the other."""
    found: dict[str, list[int]] = {}
    for source in sources:
        path, _, line = source.rpartition(":")
        if line.isdigit():
            found.setdefault(path, []).append(int(line))
    lasts = {path: f"-{max(lines)}" if len({*lines}) > 1 else "" for path, lines in found.items()}
    return several([short_source(f"{path}:{min(lines)}{lasts[path]}") for path, lines in found.items()])


def pipeline_table(analysis: Analysis) -> Table:
    """Return the ops, sources first, those of one line in one row. One inside the function of another is indented."""
    shown = fold_ops(analysis.pipeline.ops, folding_of(analysis.pipeline.ops))
    ops = {op.name: op for op in shown}

    def depth(op: Op, most: int = len(shown)) -> int:  # a run that was made by hand may hold a circle
        return 1 + depth(ops[op.within], most - 1) if op.within in ops and most else 0

    def parameters(op: Op) -> str:
        joined = [f"joins {' + '.join(op.inputs)}"] if len(op.inputs) > 1 else []
        return ", ".join(joined + named_values(op.parameters))

    columns = (
        text("op", "indented: inside the function of the op below", lambda op: f"{'  ' * depth(op)}{op.name}"),
        text("parameters", "as TensorFlow holds them", parameters),
        SOURCE,
    )
    foreign = tuple(
        f"`{one_line(op.name)}` is of another library (kind {one_line(op.kind)}): its time is measured, what it does is not known"
        for op in shown
        if op.kind not in KINDS
    )
    return table_of("Pipeline", columns, shown, remarks=foreign)

"""What was measured, launch by launch, node by node, worker by worker; of thousands, those that a reader must see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from cs_input_analyzer.records import Analysis, BatchGap, Measurement, Scaling, ScalingPoint, WorkerResult
from cs_input_analyzer.report.tables import STATUS_WORDS, Table, bare_rate, layout, number, rates, table_of, text, value_of
from cs_input_analyzer.report.wording import Pairs, one_line, several, workers_text
from cs_input_analyzer.units import counted, format_bytes, format_bytes_per_s, format_count, format_ratio, format_seconds

MOST_WORKERS = 60
# Workers of a launch that did not end well and have a line of their own; more are counted.
NAMED = 5
# On a page, a worker is about 1.3 kB of JSON, a number of a trace 20 bytes: these make two megabytes at most.
MOST_HELD = 600
MOST_NUMBERS = 60_000
# Of a run that is too large, so many workers of each measurement keep their traces: the pictures need no more.
TRACED_WORKERS = 8
TOGETHER = rates("samples/s", "samples per second of all workers together", "samples_per_s")


def _worst(of: str) -> Callable[[Measurement], Any]:
    return lambda launch: max((value for worker in launch.workers if (value := value_of(worker, of)) is not None), default=None)


def measured_table(analysis: Analysis) -> Table:
    columns = (
        layout(of=lambda launch: f"{launch.layout}{' validate' if launch.role == 'validate' else ''}"),
        number(
            "workers", "started, of those that TF_CONFIG announced", lambda at: workers_text(len(at.workers), at.num_workers), str
        ),
        *TOGETHER,
        number("CPU per\nsample", "user and system, all threads, the costliest worker", _worst("cpu_s_per_sample"), format_seconds),
        number("first\nbatch", "since iterating began, the slowest worker", _worst("first_batch_s"), format_seconds),
        number("private\nmemory", "memory that one worker holds alone, the largest of them", _worst("private_bytes"), format_bytes),
        number("peak\nRSS", "peak resident memory, shared pages included", _worst("peak_rss_bytes"), format_bytes, needs_width=92),
        text("status", "whether the workers lived to the end", _status),
        text("why", "what this layout was to tell", lambda launch: launch.why or None, needs_width=132),
    )
    return table_of("Measured", columns, analysis.measurements)


def _status(launch: Measurement) -> str | None:
    counts = Counter(worker.status for worker in launch.workers)
    if len(counts) == 1:
        return STATUS_WORDS[next(iter(counts))]
    return ", ".join(f"{count} {STATUS_WORDS[status]}" for status, count in counts.items()) or None


def troubles(analysis: Analysis) -> tuple[str, ...]:
    """One line for each worker that did not end well, with what it said."""
    lines: list[str] = []
    for launch in analysis.measurements:
        bad = [worker for worker in launch.workers if worker.status != "done"]
        for worker in bad[:NAMED]:
            said = f": {worker.message.strip()}" if worker.message.strip() else ""
            lines.append(f"{launch.layout}, worker {worker.index} on {one_line(worker.node)}: {STATUS_WORDS[worker.status]}{said}")
        if len(bad) > NAMED:
            lines.append(f"{launch.layout}: {format_count(len(bad) - NAMED)} more workers did not end well")
    return tuple(lines)


WORKER_COLUMNS = (
    number("worker", "its index in TF_CONFIG, among those that stream", "index"),
    text("node", "the host it ran on", "node"),
    *rates("samples/s", "samples per second of this worker, in its steady window", "samples_per_s"),
    number("CPU per\nsample", "user and system CPU time of all its threads for one sample", "cpu_s_per_sample", format_seconds),
    number("first\nbatch", "from the start of iterating to its first batch", "first_batch_s", format_seconds, needs_width=120),
    number("gap\np50", "time between two batches that half of them stay under", "batch_gap_s.p50", format_seconds, needs_width=120),
    number("gap\np99", "time between two batches that 99 % of them stay under", "batch_gap_s.p99", format_seconds, needs_width=72),
    number("read per\nsample", "asked of the file system", "bytes_read_per_sample", format_bytes, needs_width=120),
    number("private\nmemory", "memory that it holds alone", "private_bytes", format_bytes),
)


def workers_table(launch: Measurement) -> Table:
    """One row for each worker, the slowest standing out."""
    shown, slow = workers_to_show(launch.workers, MOST_WORKERS), {worker.index for worker in launch.stragglers}
    remarks: tuple[str, ...] = ()
    if len(shown) < len(launch.workers):
        remarks = (
            f"{format_count(len(shown))} of {format_count(len(launch.workers))} workers are shown: those that did not end "
            "well, the slowest, and of the others some, evenly from slow to fast.",
        )
    status = text(
        "status",
        "whether it lived to the end, and whether it stayed clearly behind the others",
        lambda worker: f"{STATUS_WORDS[worker.status]}{', straggler' if worker.index in slow else ''}",
    )
    timed = [(worker.samples_per_s.estimate, place) for place, worker in enumerate(shown) if worker.samples_per_s is not None]
    return table_of(
        f"Workers of {launch.layout}",
        (*WORKER_COLUMNS, status),
        shown,
        strong=min(timed)[1] if len(timed) > 1 else None,
        remarks=remarks,
        heading=True,
    )


def workers_to_show(workers: tuple[WorkerResult, ...], most: int) -> tuple[WorkerResult, ...]:
    """At most `most` of them, in their order: up to a quarter that did not end well, as many of the slowest, the rest evenly from
    the slowest to the fastest."""
    if len(workers) <= most:
        return workers
    quarter = max(1, most // 4)
    timed = [(worker.samples_per_s.estimate, place) for place, worker in enumerate(workers) if worker.samples_per_s is not None]
    by_rate = [place for _, place in sorted(timed)]
    bad = [place for place, worker in enumerate(workers) if worker.status != "done"]
    kept = {*bad[:quarter], *by_rate[:quarter], *by_rate[-1:]}
    others = [place for place in by_rate if place not in kept]
    room = most - len(kept)
    kept |= {others[step * len(others) // room] for step in range(room)} if others else set()
    return tuple(worker for place, worker in enumerate(workers) if place in kept)


def longest_tail(measurement: Measurement) -> tuple[BatchGap, WorkerResult] | None:
    """The gaps of the worker with the longest tail."""
    gaps = [(worker.batch_gap_s, worker) for worker in measurement.workers if worker.batch_gap_s is not None]
    return max(gaps, key=lambda pair: pair[0].p99, default=None)


def shown_launch(analysis: Analysis) -> Measurement | None:
    """The last launch over the most nodes; None where all ran on one."""
    several = [launch for launch in analysis.measurements if launch.layout.nodes > 1]
    most = max((launch.layout.nodes for launch in several), default=0)
    return next((launch for launch in reversed(several) if launch.layout.nodes == most), None)


def node_facts(analysis: Analysis) -> Pairs:
    """Who stayed behind, what the engine noted, what the storage gave."""
    launch, facts = shown_launch(analysis), []
    if launch is not None:
        facts.append(("stragglers", straggler_text(launch)))
    if analysis.scaling is not None:
        facts.append(("storage", analysis.scaling.note))
    facts += [("note", note) for note in dict.fromkeys(note for launch in analysis.measurements for note in launch.notes)]
    return tuple((label, one_line(said)) for label, said in facts)


def straggler_text(launch: Measurement) -> str:
    slow = launch.stragglers
    if not slow:
        return "none: no worker lies clearly below the others"
    by_node, everyone = _by_node(slow), _by_node(launch.measured_workers)
    whole = {node: len(workers) for node, workers in by_node.items() if len(workers) == len(everyone[node])}
    parts = [
        f"all {format_count(count)} workers on {node}" if count > 1 else f"the worker on {node}" for node, count in whole.items()
    ]
    parts += [f"worker {worker.index} on {worker.node}" for worker in slow if worker.node not in whole]
    return f"{several(parts)}: clearly slower than the others, and a feed in turn waits for them"


def node_table(launch: Measurement) -> Table:
    rows = []
    for node, workers in sorted(_by_node(launch.workers).items()):
        found = [worker.samples_per_s.estimate for worker in workers if worker.samples_per_s is not None]
        together = (sum(found), min(found), max(found)) if found else (None, None, None)
        rows.append((node, f"{len(found)} of {len(workers)}", *together))
    columns = (
        text("node", "as Slurm calls it", lambda row: row[0]),
        number("workers", "that delivered, of those started there", lambda row: row[1], str),
        number("samples/s", "of all its workers together", lambda row: row[2], bare_rate),
        number("slowest\nworker", "its samples per second", lambda row: row[3], bare_rate),
        number("fastest\nworker", "its samples per second", lambda row: row[4], bare_rate),
    )
    return table_of(f"Nodes of {launch.layout}", columns, rows, heading=True)


def scaling_table(scaling: Scaling) -> Table:
    first = scaling.points[0]
    alone = first.samples_per_s.estimate / first.nodes if first.nodes else 0.0

    def kept(at: ScalingPoint) -> float | None:
        return at.samples_per_s.estimate / at.nodes / alone if alone > 0 and at.nodes else None

    columns = (
        number("nodes", "that ran at once", "nodes"),
        number("workers", "on all of them", "workers"),
        *TOGETHER,
        number("read", "bytes per second that all workers asked for together", "bytes_per_s.estimate", format_bytes_per_s),
        number("per node", "of the rate per node on the fewest", kept, format_ratio),
        number("waiting", "share of their CPUs' time in which workers neither ran nor queued", "wait_ratio", format_ratio),
    )
    return table_of("More nodes", columns, scaling.points, heading=True)


def node_tables(analysis: Analysis) -> tuple[Table, ...]:
    launch = shown_launch(analysis)
    scaled = (scaling_table(analysis.scaling),) if analysis.scaling is not None and analysis.scaling.points else ()
    return (*scaled, node_table(launch)) if launch is not None else scaled


def _by_node(workers: Sequence[WorkerResult]) -> dict[str, list[WorkerResult]]:
    found: dict[str, list[WorkerResult]] = {}
    for worker in workers:
        found.setdefault(worker.node, []).append(worker)
    return found


def excerpt(analysis: Analysis) -> Analysis:
    """The run itself where it fits a page, else with some of its workers, or without some of their traces; `left_out` says which.

    Every number that a prediction, the plan or a finding rests on stays: they are in records of their own.
    """
    workers = sum(len(launch.workers) for launch in analysis.measurements)
    traces = ((at.batch_gaps_s, at.block_samples_per_s) for launch in analysis.measurements for at in launch.workers)
    numbers = sum(len(gaps) + len(blocks) for gaps, blocks in traces)
    if workers <= MOST_HELD and numbers <= MOST_NUMBERS:
        return analysis
    most = MOST_HELD if workers <= MOST_HELD else max(TRACED_WORKERS, MOST_HELD // len(analysis.measurements))
    cut = tuple(_cut(launch, most) for launch in analysis.measurements)
    missing, left_out = workers - sum(len(launch.workers) for launch in cut), ["the traces of most workers"]
    if missing:
        kept = "kept: those that did not end well, the slowest, and some evenly from slow to fast"
        left_out.insert(0, f"{format_count(missing)} of {counted(workers, 'worker')} ({kept})")
    return replace(analysis, measurements=cut, left_out=(*analysis.left_out, *left_out))


def _cut(launch: Measurement, most: int) -> Measurement:
    kept = workers_to_show(launch.workers, most)
    traced = {worker.index for worker in workers_to_show(kept, TRACED_WORKERS)}
    bare = (worker if worker.index in traced else replace(worker, batch_gaps_s=(), block_samples_per_s=()) for worker in kept)
    return replace(launch, workers=tuple(bare))

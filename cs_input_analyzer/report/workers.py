"""The measurements, launch by launch, node by node, worker by worker; of thousands, those that a reader must see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cs_input_analyzer.records import Analysis, BatchGap, Measurement, WorkerResult, WorkerStatus
from cs_input_analyzer.report.document import Table, layout, number, rates, table_of, text, value_of
from cs_input_analyzer.report.wording import AS_MEASURED, Pairs, one_line, titled, workers_text
from cs_input_analyzer.units import counted, format_bytes, format_count, format_seconds, several

MOST_WORKERS = 60
# Failed workers of a launch that each have a line; more are counted.
NAMED = 5
# On a page, a number of a trace is 20 bytes: these make a megabyte.
MOST_NUMBERS = 60_000
# Of a run with more, so many workers of each measurement keep their traces.
TRACED_WORKERS = 8
TOGETHER = rates("samples/s", "samples per second of all workers together", "samples_per_s")


def _worst(of: str) -> Callable[[Measurement], Any]:
    return lambda launch: max((value for worker in launch.workers if (value := value_of(worker, of)) is not None), default=None)


def measured_table(analysis: Analysis) -> Table:
    """Return a row for each launch; of workers that differ, it has the worst."""

    def status(launch: Measurement) -> str | None:
        counts = Counter(worker.status for worker in launch.workers)
        each = [f"{count if len(counts) > 1 else ''} {_words(status)}".strip() for status, count in counts.items()]
        return ", ".join(each) or None

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
        text("status", "whether the workers lived to the end", status),
        text("why", "what this layout was to tell", lambda launch: launch.why or None, needs_width=132),
    )
    return table_of(titled("Measured", AS_MEASURED), columns, analysis.measurements)


def _words(status: WorkerStatus) -> str:
    return status.replace("_", " ")


def troubles(analysis: Analysis) -> tuple[str, ...]:
    """Return a line for each worker that failed, with its message."""
    lines: list[str] = []
    for launch in analysis.measurements:
        bad = [worker for worker in launch.workers if ended_badly(worker)]
        for worker in bad[:NAMED]:
            said = f": {worker.message.strip()}" if worker.message.strip() else ""
            lines.append(f"{launch.layout}, worker {worker.index} on {one_line(worker.node)}: {_words(worker.status)}{said}")
        if len(bad) > NAMED:
            lines.append(f"{launch.layout}: {format_count(len(bad) - NAMED)} more workers failed")
    return tuple(lines)


def ended_badly(worker: WorkerResult) -> bool:
    """Return whether something is wrong with it: not where the run ended it at its deadline and keeps its rate."""
    return worker.status not in ("done", "deadline") or (worker.status == "deadline" and worker.samples_per_s is None)


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
    """Return a row for each worker. The slowest stands out."""
    shown, slow = workers_to_show(launch.workers, MOST_WORKERS), {worker.index for worker in launch.stragglers}
    remarks: tuple[str, ...] = ()
    if len(shown) < len(launch.workers):
        remarks = (
            f"{format_count(len(shown))} of {format_count(len(launch.workers))} workers are shown, evenly from the slowest to "
            "the fastest.",
        )
    status = text(
        "status",
        "whether it lived to the end, and whether it stayed clearly behind the others",
        lambda worker: f"{_words(worker.status)}{', straggler' if worker.index in slow else ''}",
    )
    timed = [(worker.samples_per_s.estimate, place) for place, worker in enumerate(shown) if worker.samples_per_s is not None]
    return table_of(
        titled(f"Workers of {launch.layout}", AS_MEASURED),
        (*WORKER_COLUMNS, status),
        shown,
        strong=min(timed)[1] if len(timed) > 1 else None,
        remarks=remarks,
    )


def workers_to_show(workers: tuple[WorkerResult, ...], most: int) -> tuple[WorkerResult, ...]:
    """Return at most `most` workers, in their order: evenly from the lost and the slowest to the fastest."""
    if len(workers) <= most:
        return workers
    rates = [0.0 if worker.samples_per_s is None else worker.samples_per_s.estimate for worker in workers]
    ranked = sorted(range(len(workers)), key=lambda place: (workers[place].status == "done", rates[place]))
    kept = sorted(ranked[step * (len(ranked) - 1) // (most - 1)] for step in range(most))
    return tuple(workers[place] for place in kept)


def longest_tail(measurement: Measurement) -> tuple[BatchGap, WorkerResult] | None:
    """Return the batch gaps of the worker with the longest tail."""
    gaps = [(worker.batch_gap_s, worker) for worker in measurement.workers if worker.batch_gap_s is not None]
    return max(gaps, key=lambda pair: pair[0].p99, default=None)


def shown_launch(analysis: Analysis) -> Measurement | None:
    """Return the last launch over the most nodes; None if all ran on one."""
    several = [launch for launch in analysis.measurements if launch.layout.nodes > 1]
    most = max((launch.layout.nodes for launch in several), default=0)
    return next((launch for launch in reversed(several) if launch.layout.nodes == most), None)


def node_facts(analysis: Analysis) -> Pairs:
    """Return who stayed behind, what the engine noted, and what the storage gave."""
    launch, facts = shown_launch(analysis), []
    if launch is not None:
        facts.append(("stragglers", straggler_text(launch)))
    if analysis.scaling is not None:
        facts.append(("storage", analysis.scaling.note))
    facts += [("note", note) for note in dict.fromkeys(note for launch in analysis.measurements for note in launch.notes)]
    return tuple((label, one_line(said)) for label, said in facts)


def straggler_text(launch: Measurement) -> str:
    """Return the workers that are clearly slower than the others, by node."""
    slow = Counter(worker.node for worker in launch.stragglers)
    if not slow:
        return "none: no worker lies clearly below the others"
    everyone = Counter(worker.node for worker in launch.measured_workers)
    parts = [f"{format_count(count)} of {counted(everyone[node], 'worker')} on {node}" for node, count in slow.items()]
    return f"{several(parts)}: clearly slower than the others, and a feed in turn waits for them"


def excerpt(analysis: Analysis) -> Analysis:
    """Return the run itself if it fits a page, else without the traces of most workers; `left_out` says so.

    Every number that a prediction, the plan or a finding rests on stays: they are in records of their own.
    """
    traces = ((at.batch_gaps_s, at.block_samples_per_s) for launch in analysis.measurements for at in launch.workers)
    if sum(len(gaps) + len(blocks) for gaps, blocks in traces) <= MOST_NUMBERS:
        return analysis
    cut = []
    for launch in analysis.measurements:
        traced = {worker.index for worker in workers_to_show(launch.workers, TRACED_WORKERS)}
        bare = (replace(worker, batch_gaps_s=(), block_samples_per_s=()) for worker in launch.workers)
        kept = (old if old.index in traced else new for old, new in zip(launch.workers, bare, strict=True))
        cut.append(replace(launch, workers=tuple(kept)))
    return replace(analysis, measurements=tuple(cut), left_out=(*analysis.left_out, "the traces of most workers"))

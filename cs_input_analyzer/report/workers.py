"""The workers of one measurement, one by one; of thousands, those that a reader must see."""

from __future__ import annotations

from cs_input_analyzer.records import Measurement, WorkerResult
from cs_input_analyzer.report.tables import STATUS_WORDS, Column, Table, rate_cells
from cs_input_analyzer.report.wording import one_line
from cs_input_analyzer.units import format_bytes, format_count, format_seconds

__all__ = ["MOST_WORKERS", "workers_table", "workers_to_show"]

MOST_WORKERS = 60

COLUMNS = (
    Column(name="worker", meaning="its index in TF_CONFIG, among those that stream", is_number=True),
    Column(name="node", meaning="the host it ran on"),
    Column(name="samples/s", meaning="samples per second of this worker, in its steady window", is_number=True),
    Column(name="90 %\ninterval", meaning="where its true rate lies with 90 % probability", is_number=True),
    Column(name="CPU per\nsample", meaning="user and system CPU time of all its threads for one sample", is_number=True),
    Column(name="first\nbatch", meaning="from the start of iterating to its first batch", is_number=True, needs_width=120),
    Column(name="gap\np50", meaning="time between two batches that half of them stay under", is_number=True, needs_width=120),
    Column(name="gap\np99", meaning="time between two batches that 99 % of them stay under", is_number=True, needs_width=72),
    Column(
        name="read per\nsample",
        meaning="bytes that the pipeline asked the file system for, for one sample",
        is_number=True,
        needs_width=120,
    ),
    Column(name="private\nmemory", meaning="memory that it holds alone", is_number=True),
    Column(name="status", meaning="whether it lived to the end", is_long=True),
)


def workers_table(measurement: Measurement) -> Table:
    """One row for each worker, the slowest standing out."""
    shown = workers_to_show(measurement.workers, MOST_WORKERS)
    remarks: tuple[str, ...] = ()
    if len(shown) < len(measurement.workers):
        remarks = (
            f"{format_count(len(shown))} of {format_count(len(measurement.workers))} workers are shown: those that did not end "
            "well, the slowest, and of the others some, evenly from slow to fast.",
        )
    rates = [(worker.samples_per_s.estimate, place) for place, worker in enumerate(shown) if worker.samples_per_s is not None]
    return Table(
        title=f"Workers of {measurement.layout}",
        columns=COLUMNS,
        rows=tuple(_row(worker) for worker in shown),
        strong=min(rates)[1] if len(rates) > 1 else None,
        remarks=remarks,
    )


def workers_to_show(workers: tuple[WorkerResult, ...], most: int) -> tuple[WorkerResult, ...]:
    """At most `most` of them, in their order: up to a quarter that did not end well, as many of the slowest, the rest evenly from
    the slowest to the fastest."""
    if len(workers) <= most:
        return workers
    quarter = max(1, most // 4)
    by_rate = sorted(
        (place for place, worker in enumerate(workers) if worker.samples_per_s is not None),
        key=lambda place: _rate(workers[place]),
    )
    bad = [place for place, worker in enumerate(workers) if worker.status != "done"]
    kept = {*bad[:quarter], *by_rate[:quarter], *by_rate[-1:]}
    others = [place for place in by_rate if place not in kept]
    room = most - len(kept)
    kept |= {others[step * len(others) // room] for step in range(room)} if others else set()
    return tuple(worker for place, worker in enumerate(workers) if place in kept)


def _rate(worker: WorkerResult) -> float:
    return worker.samples_per_s.estimate if worker.samples_per_s is not None else 0.0


def _row(worker: WorkerResult) -> tuple[str, ...]:
    gap = worker.batch_gap_s
    return (
        str(worker.index),
        one_line(worker.node),
        *rate_cells(worker.samples_per_s),
        format_seconds(worker.cpu_s_per_sample),
        format_seconds(worker.first_batch_s),
        format_seconds(gap.p50 if gap is not None else None),
        format_seconds(gap.p99 if gap is not None else None),
        format_bytes(worker.bytes_read_per_sample),
        format_bytes(worker.private_bytes),
        STATUS_WORDS[worker.status],
    )

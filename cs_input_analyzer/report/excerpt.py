"""A run that fits a page: thousands of workers and their traces would make a file that no browser opens at once."""

from __future__ import annotations

from dataclasses import replace

from cs_input_analyzer.records import Analysis, Measurement, WorkerResult
from cs_input_analyzer.report.workers import workers_to_show
from cs_input_analyzer.units import format_count

__all__ = ["excerpt"]

# A worker is about 1.3 kB of JSON, a number of a trace 20 bytes: these make two megabytes at most.
MOST_WORKERS = 600
MOST_NUMBERS = 60_000
# Of a run that is too large, so many workers of each measurement keep their traces: the pictures need no more.
TRACED_WORKERS = 8


def excerpt(analysis: Analysis) -> Analysis:
    """The run itself where it fits, else the run with some of its workers, or without some of their traces; `left_out` says which.

    Every number that a prediction, the plan or a finding rests on stays: they are in records of their own.
    """
    workers = sum(len(measurement.workers) for measurement in analysis.measurements)
    numbers = sum(_numbers(worker) for measurement in analysis.measurements for worker in measurement.workers)
    if workers <= MOST_WORKERS and numbers <= MOST_NUMBERS:
        return analysis
    most = MOST_WORKERS if workers <= MOST_WORKERS else max(8, MOST_WORKERS // len(analysis.measurements))
    cut = [_cut(measurement, most, MOST_NUMBERS // len(analysis.measurements)) for measurement in analysis.measurements]
    kept = sum(len(measurement.workers) for measurement in cut)
    left_out = []
    if kept < workers:
        left_out.append(
            f"{format_count(workers - kept)} of {format_count(workers)} workers (kept: those that did not end well, the slowest, "
            "and some evenly from slow to fast)"
        )
    left_out.append("the traces of most workers")
    return replace(analysis, measurements=tuple(cut), left_out=(*analysis.left_out, *left_out))


def _numbers(worker: WorkerResult) -> int:
    return len(worker.batch_gaps_s) + len(worker.block_samples_per_s)


def _cut(measurement: Measurement, most: int, numbers: int) -> Measurement:
    kept = workers_to_show(measurement.workers, most)
    if len(kept) == len(measurement.workers) and sum(map(_numbers, kept)) <= numbers:
        return measurement
    traced = {worker.index for worker in workers_to_show(kept, TRACED_WORKERS)}
    workers = tuple(
        worker if worker.index in traced else replace(worker, batch_gaps_s=(), block_samples_per_s=()) for worker in kept
    )
    return replace(measurement, workers=workers)

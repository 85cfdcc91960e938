"""The first batch takes much longer than those that follow.

Training waits for it at every start and every restart from a checkpoint, and with it every node that has been allotted. Most often
a `shuffle` fills its buffer first, one sample at a time, through all that stands before it; the more costly that is, the longer it
takes.

Fix: a smaller shuffle buffer (some batches), or the shuffle before the costly ops so that it is filled with what is quick to read.
A shuffle of file names mixes as well and waits for nothing.

Silent where the first batch comes within two seconds or within twenty times the usual time, which is the mean: where a full buffer
is drained, most batches come at once and say nothing of those that follow. And without a measurement.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.pipeline.lineage import reads_names_only
from cs_input_analyzer.pipeline.op_kinds import SHUFFLES
from cs_input_analyzer.pipeline.samples import samples_reaching
from cs_input_analyzer.records import Case, Finding, Op, WorkerResult
from cs_input_analyzer.units import format_seconds

QUICK_S = 2.0
TIMES = 20.0
LONG_S = 60.0
# The fill of the buffer is named as the cause where, at the steady rate, it takes this share of the wait.
CAUSE_RATIO = 0.3


def find(case: Case) -> Iterator[Finding]:
    slow = [worker for m in case.measurements for worker in m.measured_workers if _is_slow(worker)]
    if not slow:
        return
    # The quickest of them: a slow one may have met a cold cache or a busy host.
    worker = min(slow, key=lambda one: one.first_batch_s or 0.0)
    if len(slow) < sum(len(m.measured_workers) for m in case.measurements) / 2:
        return
    first_s, gap_s = worker.first_batch_s or 0.0, _gap_s(worker) or 0.0
    shuffle = _longest_shuffle(case)
    count, rate = _buffer(shuffle), worker.samples_per_s.estimate if worker.samples_per_s else 0.0
    fill_s = count / rate if rate > 0 else 0.0
    is_fill = shuffle is not None and fill_s >= CAUSE_RATIO * first_s
    cause = f": {shuffle.name} fills its buffer of {count:,} elements first" if shuffle is not None and is_fill else ""
    yield Finding(
        severity="warning" if first_s >= LONG_S else "info",
        message=f"the first batch takes {format_seconds(first_s)}, later ones {format_seconds(gap_s)}{cause}",
        op=shuffle.name if shuffle is not None and is_fill else None,
        evidence={"first_batch_s": first_s, "batch_gap_mean_s": gap_s, "fill_s": fill_s if is_fill else None},
        fix="give the shuffle a smaller buffer, or put it before what is costly"
        if is_fill
        else "see what runs before the first batch",
    )


def _is_slow(worker: WorkerResult) -> bool:
    gap_s = _gap_s(worker)
    return gap_s is not None and worker.first_batch_s is not None and worker.first_batch_s > max(QUICK_S, TIMES * gap_s)


def _gap_s(worker: WorkerResult) -> float | None:
    """Mean time from one batch to the next; None where it was not measured."""
    return 1 / worker.batches_per_s if worker.batches_per_s else None


def _longest_shuffle(case: Case) -> Op | None:
    ops = case.pipeline.ops
    found = [op for op in ops if op.kind in SHUFFLES and not reads_names_only(op, ops) and samples_reaching(op, ops) == 1]
    return max(found, key=_buffer, default=None)


def _buffer(op: Op | None) -> int:
    size = op.parameters.get("buffer_size") if op is not None else None
    return size if isinstance(size, int) else 0

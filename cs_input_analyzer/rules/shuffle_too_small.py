"""A `shuffle` buffer is too small to mix the samples.

An element can move ahead by no more than the buffer is long. With a buffer shorter than a batch, samples that stand together in a
file stay together in a batch; where files were written class by class or day by day, each batch is one class or one day, and
training suffers. Nothing is faster for it.

Fix: a buffer of several batches; and file names shuffled (with a seed where workers share them), which mixes at no cost.

Silent in evaluation, for file names, after `batch`, for buffers of a batch or more, unless files are read in a fixed order and the
buffer is under a hundredth of what a worker has; and where another shuffle of samples is long enough.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.pipeline.edits.statement import argument_set
from cs_input_analyzer.pipeline.lineage import reads_names_only
from cs_input_analyzer.pipeline.op_kinds import SHUFFLES
from cs_input_analyzer.pipeline.samples import samples_reaching
from cs_input_analyzer.pipeline.threads import reader_ops
from cs_input_analyzer.planning.evidence import samples_of_worker
from cs_input_analyzer.records import Case, Finding, Op

# A buffer of so many batches mixes what stands together in a file.
BATCHES = 10
SHARD_RATIO = 0.01


def find(case: Case) -> Iterator[Finding]:
    ops, batch = case.pipeline.ops, case.pipeline.batch_size
    shuffles = [op for op in ops if op.kind in SHUFFLES and not reads_names_only(op, ops) and samples_reaching(op, ops) == 1]
    if case.mode == "eval" or not shuffles or batch is None or batch < 2:
        return
    op = max(shuffles, key=_buffer)
    count, samples = _buffer(op), samples_of_worker(case)
    is_mixed_before = any(other.kind in SHUFFLES and reads_names_only(other, ops) for other in ops)
    is_small_part = samples is not None and not is_mixed_before and count < SHARD_RATIO * samples
    if count < 1 or (count >= batch and not is_small_part):
        return
    better = BATCHES * batch
    if is_small_part and samples is not None:
        better = max(better, round(SHARD_RATIO * samples))
    limit = f"a batch of {batch}" if count < batch else f"a hundredth of a worker's {samples:,.0f} samples"
    yield Finding(
        severity="info",
        message=f"the buffer of {op.name} takes {count:,} elements, less than {limit}: neighbours stay together",
        op=op.name,
        evidence={"buffer_size": count, "batch_size": batch, "samples_of_a_worker": round(samples) if samples else None},
        fix=f"give it a buffer of {better:,}" + (", and shuffle the file names" if not is_mixed_before and reader_ops(ops) else ""),
        before=op.code,
        after=argument_set(op, ops, "buffer_size", str(better)),
    )


def _buffer(op: Op) -> int:
    size = op.parameters.get("buffer_size")
    return size if isinstance(size, int) else 0

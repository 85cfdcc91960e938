"""A `shuffle` after `batch` mixes batches, not samples.

The same samples meet in the same batch in every pass, in the order in which they stand in the files; only the order of the batches
changes. And the buffer holds whole batches, so a number that was meant for samples takes a batch size times the memory.

Fix: `shuffle` before `batch`, with a buffer of some batches of samples. It is advice only: the batches will be others, and are
meant to be.

Silent in evaluation, where samples were shuffled before the batch too (then it is for your information only where the buffer takes
much memory), where the batch is taken apart again before the shuffle, and for what is batched inside a window: that is one sample.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.pipeline.lineage import reads_names_only, upstream
from cs_input_analyzer.pipeline.op_kinds import SHUFFLES
from cs_input_analyzer.pipeline.op_traits import sample_bytes
from cs_input_analyzer.pipeline.samples import batching_op
from cs_input_analyzer.pipeline.source.code import with_calls_swapped
from cs_input_analyzer.records import Case, Finding, Op
from cs_input_analyzer.units import format_bytes

# A buffer of batches that takes this share of a task's memory is reported even where the samples were mixed.
MEMORY_RATIO = 0.05


def find(case: Case) -> Iterator[Finding]:
    ops = case.pipeline.ops
    if case.mode == "eval":
        return
    for shuffle in ops:
        batch = batching_op(ops, shuffle) if shuffle.kind in SHUFFLES else None
        count = shuffle.parameters.get("buffer_size")
        if batch is None or not isinstance(count, int):
            continue
        is_mixed = any(_mixes_samples(op, ops) for op in upstream(batch, ops))
        held = _held_bytes(count, case)
        room = case.cluster.memory_bytes_per_node / (case.plan.tasks_per_node if case.plan else 1)
        is_heavy = held is not None and held > MEMORY_RATIO * room
        if is_mixed and not is_heavy:
            continue
        size = f", up to {format_bytes(held)}" if held is not None else ""
        yield Finding(
            severity="info" if is_mixed else "warning",
            message=f"{shuffle.name} mixes whole batches ({count:,} of them{size}), not the samples in them",
            op=shuffle.name,
            evidence={"buffer_size": count, "batch_size": case.pipeline.batch_size, "buffer_bytes": held},
            fix=f"shuffle before {batch.name}, with a buffer counted in samples; the batches will be others",
            before=shuffle.code,
            after=with_calls_swapped(shuffle.code, "batch", "shuffle"),
        )


def _mixes_samples(op: Op, ops: tuple[Op, ...]) -> bool:
    return op.kind in SHUFFLES and not reads_names_only(op, ops) and batching_op(ops, op) is None


def _held_bytes(count: int, case: Case) -> int | None:
    """Bytes of a full buffer; a short dataset does not fill it."""
    each, size = sample_bytes(case.pipeline), case.pipeline.batch_size
    return count * each * size if each is not None and size is not None else None

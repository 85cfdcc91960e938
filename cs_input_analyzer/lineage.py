"""What an element passes before it reaches an op, and after it has left it. Pure: it reads the ops of a PipelineGraph."""

from __future__ import annotations

from collections.abc import Sequence

from cs_input_analyzer.records import Op
from cs_input_analyzer.threads import inside

__all__ = ["after", "batching_op", "before", "reads_names_only", "samples_per_element"]

BATCHING = frozenset(("Batch", "ParallelBatch", "PaddedBatch", "MapAndBatch", "DenseToRaggedBatch", "DenseToSparseBatch"))
# What a list of file names passes without becoming what is in the files.
_NAMES_PASS = frozenset(
    [
        *("TensorSlice", "Tensor", "List", "MatchingFiles", "Shuffle", "ShuffleAndRepeat", "Repeat", "Shard", "Take", "Skip"),
        *("Cache", "Concatenate", "Options", "AssertCardinality", "Filter", "Prefetch"),
    ]
)


def before(op: Op, ops: Sequence[Op]) -> tuple[Op, ...]:
    """The ops that the inputs of `op` come from, and those in their functions; in the order of the pipeline."""
    by_name = {other.name: other for other in ops}
    found: set[str] = set()
    pending = list(op.inputs)
    while pending:
        name = pending.pop()
        if name in by_name and name not in found:
            found.add(name)
            pending += by_name[name].inputs
            pending += [other.name for other in inside(by_name[name], ops)]
    return tuple(other for other in ops if other.name in found)


def after(op: Op, ops: Sequence[Op]) -> tuple[Op, ...]:
    """The ops that get their elements through `op`, in the order of the pipeline; those of the ops that hold it, too."""
    by_name = {other.name: other for other in ops}
    found = {op.name}
    for other in ops:  # inputs come first
        if found.intersection(other.inputs):
            found.add(other.name)
        if other.within in by_name and other.name in found:
            found.add(other.within)
    return tuple(other for other in ops if other.name in found and other.name != op.name)


def reads_names_only(op: Op, ops: Sequence[Op]) -> bool:
    """Whether what reaches `op` can only be a list, of file names as a rule: nothing has been read, made or batched yet."""
    return all(other.kind in _NAMES_PASS for other in before(op, ops))


def batching_op(ops: Sequence[Op]) -> Op | None:
    """The op that last made batches of samples; None where elements are single samples.

    A `from_tensor_slices` inside `flat_map` or `interleave` takes apart what was batched before it, as `unbatch` does.
    """
    for op in reversed(ops):
        if (op.kind == "Unbatch" and op.within is None) or (op.kind == "TensorSlice" and op.within is not None):
            return None
        if op.kind in BATCHING:
            return op
    return None


def samples_per_element(op: Op, ops: Sequence[Op]) -> int | None:
    """Samples in one element that reaches `op`: 1 before any batch; None where the batch size is not in the graph."""
    batching = batching_op(before(op, ops))
    if batching is None:
        return 1
    size = batching.parameters.get("batch_size")
    return size if isinstance(size, int) else None

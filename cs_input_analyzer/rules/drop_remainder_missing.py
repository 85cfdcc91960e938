"""The last batch may be smaller, so the batch dimension is not known when the model is compiled.

Accelerators compile a model for one shape. `batch(n)` without `drop_remainder=True` promises nothing about the number of
samples in a batch, even where the data never end: the compiler sees an unknown dimension and refuses, or the last batch of a
pass stops the run.

Fix: `batch(n, drop_remainder=True)`. It drops what is left at the end of a pass, up to n - 1 samples, where the data end. In
evaluation, where each sample counts, and where a pass has fewer samples than a batch, pad the last batch to full size and mask it.
Where the number itself is a tensor, as the size of a window may be in `group_by_window`, dropping promises nothing: there only a
constant number does.

Silent where the batch dimension is known all the same (a shape set afterwards), for pipelines without batches, and where
`drop_remainder` is set.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.pipeline.edits.statement import argument_set
from cs_input_analyzer.pipeline.lineage import without_end
from cs_input_analyzer.pipeline.samples import batching_op
from cs_input_analyzer.records import Case, Finding, Op

KINDS = ("Batch", "ParallelBatch", "PaddedBatch")
# Samples of a batch are a quotient of two measured rates: rounding is no missing sample.
ALMOST = 0.999
CONSTANT = "batch by a number that is a constant of the input function"
NEVER_FULL = "use a smaller batch, or pad it and mask what was added: drop_remainder=True would drop all samples"


def find(case: Case) -> Iterator[Finding]:
    op = batching_op(case.pipeline.ops)
    if op is None or op.parameters.get("drop_remainder") is not False:
        return
    open_ended = [part.name for part in case.pipeline.element_spec if part.shape and part.shape[0] is None]
    if not open_ended:
        return
    size = op.parameters.get("batch_size")
    why, fix, after = f"the batch size of {op.name} is a tensor", CONSTANT, None
    if isinstance(size, int) and _is_never_full(case, size):
        why, fix = f"a pass has fewer samples than the {size:,} of a batch", NEVER_FULL
    elif isinstance(size, int):
        why, fix = "the last batch may be smaller", _fix(op, case.pipeline.ops)
        after = argument_set(op, case.pipeline.ops, "drop_remainder", "True") if op.kind in KINDS else None
    yield Finding(
        severity="warning",
        message=f"the number of samples in a batch is unknown when the model is compiled: {why}",
        op=op.name,
        evidence={"batch_size": size if isinstance(size, int) else None, "components": len(open_ended), "drop_remainder": False},
        fix=fix,
        before=op.code if after else None,
        after=after,
    )


def _is_never_full(case: Case, size: int) -> bool:
    """Whether a pass was seen to be one batch of fewer samples than `size`."""
    if case.pipeline.cardinality != 1:
        return False
    workers = [worker for m in case.measurements for worker in m.measured_workers]
    counts = [w.samples_per_s.estimate / w.batches_per_s for w in workers if w.samples_per_s and w.batches_per_s]
    return bool(counts) and max(counts) < size * ALMOST


def _fix(op: Op, ops: tuple[Op, ...]) -> str:
    """With what it drops: all that is left of a pass, in `group_by_window` of each key; nothing where the data never end."""
    size, fix = op.parameters.get("batch_size"), "batch with drop_remainder=True"
    if any(name in without_end(ops) for name in op.inputs) or not isinstance(size, int) or size < 2:
        return fix
    each = "of each of its inputs" if op.within is not None else "at the end of each pass"
    return f"{fix}, which drops what is left {each}, up to {size - 1:,} samples"

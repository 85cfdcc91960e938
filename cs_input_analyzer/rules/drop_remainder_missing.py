"""The last batch may be smaller, so the batch dimension is not known when the model is compiled.

Accelerators compile a model for one shape. `batch(n)` without `drop_remainder=True` promises nothing about the number of
samples in a batch, even where the data never end: the compiler sees an unknown dimension and refuses, or the last batch of a
pass stops the run.

Fix: `batch(n, drop_remainder=True)`. In evaluation, where each sample counts, pad the last batch to full size and mask it.

Silent where the batch dimension is known all the same (a shape set afterwards), for pipelines without batches, and where
`drop_remainder` is set.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.lineage import batching_op
from cs_input_analyzer.records import Case, Finding
from cs_input_analyzer.source_code import with_argument

CODE = "CSI307"
NAME = "drop-remainder-missing"
METHODS = {"Batch": "batch", "ParallelBatch": "batch", "PaddedBatch": "padded_batch"}


def find(case: Case) -> Iterator[Finding]:
    op = batching_op(case.pipeline.ops)
    if op is None or op.parameters.get("drop_remainder") is not False:
        return
    open_ended = [part.name for part in case.pipeline.element_spec if part.shape and part.shape[0] is None]
    if not open_ended:
        return
    method = METHODS.get(op.kind)
    after = with_argument(op.code, method, "drop_remainder", "True") if method else None
    size = op.parameters.get("batch_size")
    yield Finding(
        code=CODE,
        severity="warning",
        message="the number of samples in a batch is unknown when the model is compiled: the last batch may be smaller",
        op=op.name,
        source=op.source,
        evidence={"batch_size": size if isinstance(size, int) else None, "components": len(open_ended), "drop_remainder": False},
        fix="batch with drop_remainder=True",
        before=op.code if after else None,
        after=after,
    )

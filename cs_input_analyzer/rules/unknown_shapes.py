"""Some dimension of a tensor, or its rank, is unknown when the model is compiled.

Accelerators compile a model for static shapes. tf.data knows a shape only as far as the ops promise it: parsing of
variable-length features, `decode_jpeg` without a resize, Python functions and generators without a signature all promise
little. Unknown shapes are refused at compile time, or found out about only when a batch of another size arrives. Sparse and
ragged tensors have no static shape at all.

Fix: `tf.ensure_shape(x, [...])` where the size is always the same (it checks, and tells the compiler); pad, crop or resize
where it is not: `padded_batch` with `padded_shapes`, `tf.image.resize`, `to_dense`/`to_tensor` with a shape.

Silent where all shapes are known, for the batch dimension alone (CSI307 is about that), and for strings, which go to no
accelerator.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.pipeline.op_kinds import TRANSFORMS
from cs_input_analyzer.pipeline.samples import batching_op
from cs_input_analyzer.pipeline.threads import python_ops
from cs_input_analyzer.records import Case, Component, Finding


def find(case: Case) -> Iterator[Finding]:
    is_batched = batching_op(case.pipeline.ops) is not None
    unknown = [part for part in case.pipeline.element_spec if part.dtype != "string" and _is_unknown(part, is_batched)]
    if not unknown:
        return
    python = python_ops(case.pipeline.ops)
    # The last one whose function may change the shape: what Python promised before it says nothing of what it gives.
    made_by = ([op for op in case.pipeline.ops if op.kind in TRANSFORMS or op in python] or case.pipeline.ops)[-1:]
    names = ", ".join(f"{part.name} {_shape(part)}" for part in unknown[:4]) + (" and more" if len(unknown) > 4 else "")
    yield Finding(
        severity="warning",
        message=f"unknown when the model is compiled: the shape of {names}",
        op=made_by[0].name if made_by else None,
        evidence={"components": len(unknown), "of": len(case.pipeline.element_spec), "first": unknown[0].name},
        fix=_fix(unknown, any(op in python for op in made_by)),
    )


def _is_unknown(part: Component, is_batched: bool) -> bool:
    if part.kind in ("sparse", "ragged") or part.shape is None:
        return True
    return None in (part.shape[1:] if is_batched else part.shape)


def _shape(part: Component) -> str:
    if part.kind in ("sparse", "ragged"):
        return f"({part.kind})"
    return "(rank unknown)" if part.shape is None else "[" + ", ".join("?" if dim is None else str(dim) for dim in part.shape) + "]"


def _fix(unknown: list[Component], is_python: bool) -> str:
    if any(part.kind in ("sparse", "ragged") for part in unknown):
        return "make it dense with a fixed shape, to_dense() or to_tensor(shape=...), before the batch"
    if is_python:
        return "say what the Python function gives: tf.ensure_shape(x, [...]) after it, or output_signature of from_generator"
    return "tf.ensure_shape(x, [...]) in the map where the size is fixed, else pad, crop or resize to one size"

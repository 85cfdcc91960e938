"""64-bit numbers are sent to the accelerator where 16 or 32 bits would do.

Labels and token numbers are int64 because `tf.train.Example` knows no other integer; float64 comes from NumPy. The accelerator
computes in neither. Until the cast, every byte is copied by each op, held in buffers, and sent over the network to the
accelerator.

Fix: `tf.cast(x, tf.int32)` and `tf.cast(x, tf.float16)` (or float32) in the function that parses them, as early as possible.
int64 must stay where values exceed 2,147,483,647.

A warning where it makes a sample smaller by a tenth or more; else for your information.

Silent for types of 32 bits and less, and where less than a hundredth of a sample could be saved. Whether
float16 in place of float32 is precise enough is the model's affair: that is not judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from cs_input_analyzer.pipeline.op_kinds import TRANSFORMS
from cs_input_analyzer.pipeline.samples import batching_op
from cs_input_analyzer.records import Case, Component, Finding
from cs_input_analyzer.units import format_bytes, format_bytes_per_s

NARROWER = {"float64": ("float16", 2), "int64": ("int32", 4), "uint64": ("uint32", 4)}
# Bytes of one value.
SIZES = {"bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2, "int32": 4, "uint32": 4}
SIZES |= {"float32": 4, "float64": 8, "int64": 8, "uint64": 8, "complex64": 8, "complex128": 16}
LARGE_RATIO = 0.1
LEAST_RATIO = 0.01


def find(case: Case) -> Iterator[Finding]:
    wide = [part for part in case.pipeline.element_spec if part.dtype in NARROWER]
    if not wide:
        return
    is_batched = batching_op(case.pipeline.ops) is not None
    saved = _sum(_saved(part, is_batched) for part in wide)
    whole = _sum(_bytes(part, is_batched) for part in case.pipeline.element_spec) or _measured(case)
    ratio = saved / whole if saved is not None and whole else None
    if ratio is not None and ratio < LEAST_RATIO:
        return
    rate = case.plan.predicted_samples_per_s.estimate if case.plan is not None else None
    saved_per_s = saved * rate if saved is not None and rate is not None else None
    amount = f": {format_bytes(saved)} of {format_bytes(whole)} of a sample could be saved" if saved is not None and whole else ""
    per_s = f", {format_bytes_per_s(saved_per_s)} at the planned rate" if amount and saved_per_s is not None else ""
    maps = [op for op in case.pipeline.ops if op.kind in TRANSFORMS]
    yield Finding(
        severity="warning" if ratio is not None and ratio >= LARGE_RATIO else "info",
        message=f"{', '.join(f'{part.name} is {part.dtype}' for part in wide[:4])}{amount}{per_s}",
        op=maps[-1].name if maps else None,
        evidence={
            "components": len(wide),
            "saved_bytes_per_sample": saved,
            "bytes_per_sample": whole,
            "saved_ratio": ratio,
            "saved_bytes_per_s": saved_per_s,
        },
        fix="cast them where they are parsed: "
        + ", ".join(f"{part.name} to {NARROWER[part.dtype][0]}" for part in wide[:4])
        + (" and so on" if len(wide) > 4 else ""),
    )


def _values(part: Component, is_batched: bool) -> int | None:
    """Values of one sample; None where a dimension is unknown."""
    dims = part.shape[1:] if part.shape and is_batched else part.shape
    return None if dims is None or part.kind != "tensor" or None in dims else prod(dim for dim in dims if dim is not None)


def _saved(part: Component, is_batched: bool) -> float | None:
    values = _values(part, is_batched)
    return None if values is None else float(values * (SIZES[part.dtype] - NARROWER[part.dtype][1]))


def _bytes(part: Component, is_batched: bool) -> float | None:
    values, size = _values(part, is_batched), SIZES.get(part.dtype)
    return None if values is None or size is None else float(values * size)


def _sum(parts: Iterator[float | None]) -> float | None:
    """None where a part is unknown."""
    total = 0.0
    for part in parts:
        if part is None:
            return None
        total += part
    return total


def _measured(case: Case) -> float | None:
    known = [w.bytes_out_per_sample for m in case.measurements for w in m.workers if w.bytes_out_per_sample is not None]
    return known[0] if known else None

"""No `prefetch` at the end, so the next batch is begun only when the accelerator asks for it.

While the accelerator works on one batch, the input stands still, and the other way round: a step takes the time of both together. A
prefetch further up does not help with what comes after it, and `prefetch(0)` is none.

TensorFlow appends a prefetch by itself to a pipeline that ends without one, but not where `autotune`, `inject_prefetch` or the
default optimizations are switched off, and not behind a prefetch that is there already.

Fix: `.prefetch(tf.data.AUTOTUNE)` as the last call.

Silent where there is one (with nothing but `repeat`, `take` or `with_options` behind it), where TensorFlow appends it, and where
the last op works ahead by itself, as a parallel `map` or `batch` does.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.pipeline.lineage import reads_names_only
from cs_input_analyzer.pipeline.op_kinds import HANDS_ON, THREADED
from cs_input_analyzer.pipeline.op_traits import prefetches_by_itself
from cs_input_analyzer.pipeline.source.code import AUTOTUNE
from cs_input_analyzer.planning.evidence import bottleneck
from cs_input_analyzer.records import Case, Edit, EditKind, Finding, Op

# Ops that hand elements on without working on them.
_HANDS_ON = HANDS_ON | {"Repeat", "Take", "Skip"}


def find(case: Case) -> Iterator[Finding]:
    ops = case.pipeline.ops
    last = _last_working(ops)
    if last is None:
        return
    if last.kind == "Prefetch":
        if last.parameters.get("buffer_size") == 0:
            yield _finding(last, case, f"{last.name} has a buffer of 0 and prefetches nothing", "set-buffer")
        return
    if last.kind in THREADED or prefetches_by_itself(ops):
        return
    earlier = next((op for op in ops if op.kind == "Prefetch" and op.within is None and not reads_names_only(op, ops)), None)
    where = f"; what comes after {earlier.name} is not made ahead" if earlier else ""
    yield _finding(last, case, f"the pipeline ends with {last.name} and without a prefetch{where}", "insert-prefetch")


def _last_working(ops: tuple[Op, ...]) -> Op | None:
    """The op that the consumer waits for: the last that does anything."""
    by_name = {op.name: op for op in ops}
    op = next((op for op in reversed(ops) if op.within is None), None)
    while op is not None and op.kind in _HANDS_ON:
        op = by_name.get(op.inputs[0]) if op.inputs else None
    return op


def _finding(op: Op, case: Case, message: str, kind: EditKind) -> Finding:
    station = bottleneck(case, ("serial op",))
    return Finding(
        severity="warning" if station is not None and station.op == op.name else "info",
        message=message,
        op=op.name,
        evidence={"ceiling_samples_per_s": station.samples_per_s if station else None},
        fix=f"end the pipeline with .prefetch({AUTOTUNE})",
        edits=(Edit(kind=kind, op=op.name),),
    )

"""Python code runs for the elements of the pipeline, and only one thread of a process can run Python.

`py_function`, `numpy_function` and `from_generator` call back into the interpreter, whose lock (GIL) they all share. However
many CPUs a worker has and however many parallel calls a `map` makes, they take turns; more threads even make it slower. Only
more workers (processes) help, each with an interpreter of its own. Such a pipeline cannot be saved, moved to `tf.data.service`,
or optimised by TensorFlow either.

Fix: TensorFlow ops in place of the Python code (`tf.io.decode_*`, `tf.strings`, `tf.numpy_function` -> `tf.*`); or do it once,
when the dataset is written. Until then: many tasks per node with one CPU each, and one call for a whole batch in place of one
per sample.

A warning where the lock is the bottleneck, where the Python ops take a fifth of the CPU time or more, or, where nothing was
measured, where Python runs for every single sample. Else for your information.

Silent where all functions are TensorFlow's, and where it was measured that Python takes less than a hundredth of the CPU time and
limits nothing, as before a full `cache`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cs_input_analyzer.pipeline.samples import samples_reaching
from cs_input_analyzer.pipeline.threads import costliest, python_ops
from cs_input_analyzer.planning.evidence import bottleneck, share_of, station_of
from cs_input_analyzer.records import Case, Finding, Op, OpCost, StationKind
from cs_input_analyzer.units import format_rate, format_ratio

LARGE_RATIO, SMALL_RATIO = 0.2, 0.01
# Elements of a sample, between those of a batch and one each.
HALF = 0.5
GIL: tuple[StationKind, ...] = ("Python (GIL)",)


def find(case: Case) -> Iterator[Finding]:
    rows = {cost.name: cost for cost in case.profile.ops} if case.profile else {}
    found = tuple(op for op in python_ops(case.pipeline.ops) if op.name not in rows or rows[op.name].elements_per_sample != 0)
    if not found:
        return
    share, station = share_of(case, found), station_of(case, GIL)
    is_limit = bottleneck(case, GIL) is not None or (
        case.profile is not None and case.profile.serial is not None and case.profile.serial.op == "GIL"
    )
    if not is_limit and share is not None and share < SMALL_RATIO:
        return
    is_each_sample = any(_is_called_for_each(op, case.pipeline.ops, rows.get(op.name)) for op in found)
    op = costliest(found, {name: row.self_cpu_s_per_sample or 0.0 for name, row in rows.items()})
    facts = [
        f"{format_ratio(share)} of the CPU time" if share is not None else "",
        f"at most {format_rate(station.samples_per_s)} a worker, whatever its CPUs" if station is not None else "",
    ]
    known = "; ".join(fact for fact in facts if fact)
    yield Finding(
        severity="warning" if is_limit or (is_each_sample if share is None else share >= LARGE_RATIO) else "info",
        message=f"Python runs for every {'sample' if is_each_sample else 'batch'}, one at a time{f' ({known})' if known else ''}",
        op=op.name,
        evidence={
            "python_ops": len(found),
            "share_ratio": share,
            "ceiling_samples_per_s": station.samples_per_s if station else None,
            "utilization_ratio": station.utilization_ratio if station else None,
            "is_bottleneck": is_limit,
        },
        fix="use TensorFlow ops, or do it when the dataset is written; until then more tasks with fewer CPUs each",
    )


def _is_called_for_each(op: Op, ops: Sequence[Op], row: OpCost | None) -> bool:
    """Whether Python is called for every sample, not for a batch, nor for a file that holds many; as measured, where it was."""
    if row is not None and row.elements_per_sample is not None:
        return row.elements_per_sample >= HALF
    return samples_reaching(op, ops) == 1

"""Find the ops of a pipeline that share a thread.

tf.data pulls: an op runs on the thread that asks it for an element. So between two ops that start their own threads, a pipeline is
one thread. All Python functions share the interpreter's lock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from cs_input_analyzer.records import Op
from cs_input_analyzer.tfdata.function_ops import calls
from cs_input_analyzer.tfdata.op_kinds import IDLE, THREADED, kinds_with


def as_run(ops: Sequence[Op], tuned: Collection[str]) -> tuple[Op, ...]:
    """Return the ops as TensorFlow runs them: it makes a `map` without side effects parallel by itself (`map_parallelization`).

    Such a map has a parallelism in the model of the running iterator: these are in `tuned`.
    """
    return tuple(replace(op, kind="ParallelMap") if op.kind == "Map" and op.name in tuned else op for op in ops)


def is_serial(op: Op, ops: Sequence[Op]) -> bool:
    """Return whether the op works on one thread at a time: it starts no threads, and no parallel function holds it."""
    if op.kind in THREADED:
        return op.parameters.get("num_parallel_calls") == 1 and "num_parallel_calls" not in op.by_cpus
    holder = next((other for other in ops if other.name == op.within), None) if op.within else None
    return holder is None or is_serial(holder, ops)


def segments(ops: Sequence[Op]) -> tuple[tuple[Op, ...], ...]:
    """Return runs of serial ops that share one thread, each in the order of the pipeline."""
    by_name = {op.name: op for op in ops}
    # The op that asks for the elements of another: its reader or, for the result of a function, the op that holds the function.
    asked_by = {op.name: by_name[op.within] for op in ops if op.within in by_name} | {name: op for op in ops for name in op.inputs}
    found: dict[str, list[Op]] = {}
    for op in ops:
        if op.kind in THREADED or op.kind in IDLE or (op.within is not None and not is_serial(op, ops)):
            continue
        found.setdefault(_thread_of(op, asked_by), []).append(op)
    return tuple(tuple(segment) for segment in found.values())


def inside(op: Op, ops: Sequence[Op]) -> tuple[Op, ...]:
    """Return the ops in the function of `op`, also those in functions of those."""
    direct = [other for other in ops if other.within == op.name and other.name != op.name]
    return tuple(found for other in direct for found in (*inside(other, ops), other))


def results_of(op: Op, ops: Sequence[Op]) -> tuple[Op, ...]:
    """Return the ops in the function of `op` that give its elements: no other op reads them."""
    nested = [other for other in ops if other.within == op.name]
    read = {name for other in nested for name in other.inputs}
    return tuple(other for other in nested if other.name not in read)


def python_ops(ops: Sequence[Op]) -> tuple[Op, ...]:
    """Return ops that run Python functions. An interleave "calls" what its nested map calls: only the innermost one counts."""
    holders = {op.within for op in ops}
    python = [op for op in ops if op.kind in kinds_with("python") or calls(op, "python")]
    return tuple(op for op in python if op.name not in holders)


def reader_ops(ops: Sequence[Op]) -> tuple[Op, ...]:
    """Return ops that read files: the readers, and maps whose function reads whole files."""
    holders = {op.within for op in ops}
    return tuple(op for op in ops if op.kind in kinds_with("reads") or (calls(op, "reads") and op.name not in holders))


def _thread_of(op: Op, asked_by: Mapping[str, Op]) -> str:
    """Return the name of the op whose thread runs `op`: the nearest one downstream with its own; empty for the consumer's."""
    below, asker, seen = op, asked_by.get(op.name), {op.name}
    while asker is not None and asker.kind not in THREADED and asker.name not in seen:
        seen.add(asker.name)
        below, asker = asker, asked_by.get(asker.name)
    if asker is None:
        return ""
    # An interleave asks for file names on one thread and runs its function on another.
    return f"{asker.name} inside" if below.within == asker.name else asker.name

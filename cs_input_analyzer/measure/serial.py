"""Which ops run on one thread at a time, and whether one of them holds the worker back.

Between two ops that start threads of their own (a prefetch, a parallel map or interleave) a pipeline is one thread: the one that
asks. Such a segment is a station with one server, so by the utilization law U = X · D it is the bottleneck when rate times wall
time per sample comes near 1 while CPUs idle. Python functions share one more server, the interpreter's lock, wherever they stand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cs_input_analyzer.records import Op, SerialStation

READERS = frozenset({"TFRecord", "TextLine", "FixedLengthRecord", "LMDB", "SSTable", "CSV", "Sql", "Load", "Snapshot", "Generator"})
PYTHON_OPS = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})
# Ops that hand their work, or their inputs' work, to other threads.
_THREADED = frozenset(
    [
        *("Prefetch", "ParallelMap", "ParallelInterleave", "ParallelBatch", "ParallelFilter", "MapAndBatch"),
        *("ParseExample", "DataService"),
    ]
)
# Ops that do nothing of their own, whatever thread they are on.
_IDLE = frozenset({"Options", "Model", "Repeat", "Take", "Skip", "TensorSlice", "Tensor", "Range", "AssertCardinality"})
GIL = "GIL"
BUSY_RATIO = 0.8
IDLE_CPUS = 0.3


def is_serial(op: Op, ops: Sequence[Op]) -> bool:
    """Whether the op works on one thread at a time: no threads of its own, and not inside a function that is called in parallel."""
    if op.kind in _THREADED:
        return op.parameters.get("num_parallel_calls") == 1
    by_name = {other.name: other for other in ops}
    holder = by_name.get(op.within) if op.within else None
    return holder is None or is_serial(holder, ops)


def serial_station(
    ops: Sequence[Op], wall_s_per_sample: Mapping[str, float], samples_per_s: float, idle_cpus: float
) -> SerialStation | None:
    """The station of one server that is busy while CPUs idle; None where there is none.

    Args:
        wall_s_per_sample: thread time by op name, waiting included: a thread that waits for storage is taken, too.
        idle_cpus: of the worker, on average over the window.
    """
    if idle_cpus < IDLE_CPUS:
        return None
    python = [op for op in ops if any(called in PYTHON_OPS for called in op.function_ops) or op.kind == "Generator"]
    holders = {op.within for op in ops}
    inner = [op for op in python if op.name not in holders]  # an interleave "calls" what its nested map calls
    stations = [(GIL, inner)] if any(not is_serial(op, ops) for op in inner) else []
    stations += [(_dearest(segment, wall_s_per_sample), segment) for segment in _segments(ops)]
    found = None
    for name, members in stations:
        busy_ratio = samples_per_s * sum(wall_s_per_sample.get(op.name, 0.0) for op in members)
        if busy_ratio >= BUSY_RATIO and (found is None or min(1.0, busy_ratio) > found.busy_ratio):
            found = SerialStation(op=name, busy_ratio=min(1.0, busy_ratio), idle_cpus=idle_cpus)
    return found


def _segments(ops: Sequence[Op]) -> list[list[Op]]:
    """Runs of serial ops that one thread walks through; the consumer's own is the last."""
    segments: list[list[Op]] = [[]]
    for op in ops:
        if op.within is not None and not is_serial(op, ops):
            continue
        if op.kind in _THREADED:
            segments.append([])
        elif op.kind not in _IDLE:
            segments[-1].append(op)
    return [segment for segment in segments if segment]


def _dearest(segment: Sequence[Op], wall_s_per_sample: Mapping[str, float]) -> str:
    return max(segment, key=lambda op: wall_s_per_sample.get(op.name, 0.0)).name

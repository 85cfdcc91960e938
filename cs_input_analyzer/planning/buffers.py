"""What the buffers of one worker hold: bytes when it was measured, and when they are full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cs_input_analyzer.pipeline.lineage import downstream, reads_names_only
from cs_input_analyzer.pipeline.op_kinds import BATCHING, KEEPERS, ONE_BY_ONE, ONE_FOR_ONE, SHUFFLES, kinds_with
from cs_input_analyzer.pipeline.op_traits import cost_of, number_of, sample_bytes
from cs_input_analyzer.pipeline.samples import samples_reaching
from cs_input_analyzer.planning.evidence import cache_bytes_per_node, samples_of_worker
from cs_input_analyzer.records import Case, Op

# Each call of these works on an element of its own, and keeps it until its turn comes.
_CALLING = kinds_with("threads") & (kinds_with("transforms") | BATCHING)
_HOLDING = SHUFFLES | _CALLING | {"Prefetch"}
_KEEPS_SIZE = BATCHING | ((ONE_BY_ONE | ONE_FOR_ONE) - kinds_with("transforms") - kinds_with("opens") - {"Unbatch"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """What an op holds. `full_bytes` is None where AUTOTUNE decides how much that is, up to its budget of memory."""

    op: Op
    held_bytes: float
    full_bytes: float | None

    @property
    def growth_bytes(self) -> float:
        return max(0.0, (self.full_bytes or 0.0) - self.held_bytes)


def buffers_of(case: Case) -> tuple[Buffer, ...]:
    """Those whose elements have a known size, in the order of the pipeline; of file names none is worth counting."""
    found = []
    for op in case.pipeline.ops:
        row = cost_of(op, case.profile)
        held = (row.buffered_elements if row is not None else None) or 0.0
        sizes = (op.parameters.get("buffer_size"), op.parameters.get("num_parallel_calls"))
        is_tuned = "AUTOTUNE" in sizes and held > 0
        is_limited = op.kind in KEEPERS or (op.kind in _HOLDING and any(isinstance(size, int) and size > 0 for size in sizes))
        if op.within is not None or not (is_tuned or is_limited):
            continue
        each = element_bytes(op, case)
        full = _full_bytes(op, each, case) if each is not None and is_limited else None
        if each is not None and (full is not None or is_tuned) and not reads_names_only(op, case.pipeline.ops):
            found.append(Buffer(op=op, held_bytes=held * each, full_bytes=full))
    return tuple(found)


def checkpoint_bytes(buffers: Sequence[Buffer]) -> float | None:
    """What a saved iterator of one worker holds of elements; None where no buffer is known."""
    sizes = [max(buffer.full_bytes or 0.0, buffer.held_bytes) for buffer in buffers if buffer.op.kind not in KEEPERS]
    return sum(sizes) if sizes else None


def element_bytes(op: Op, case: Case) -> float | None:
    """Bytes of an element that `op` gives: as measured, else as the pipeline's own are, where nothing after it changes them."""
    row = cost_of(op, case.profile)
    if row is not None and row.bytes_out_per_sample is not None and row.elements_per_sample:
        return row.bytes_out_per_sample / row.elements_per_sample
    each, later = sample_bytes(case.pipeline), downstream(op, case.pipeline.ops)
    if not each or any(other.kind not in _KEEPS_SIZE for other in later):
        return None
    batch = samples_reaching(op, case.pipeline.ops) if op.kind not in BATCHING else number_of(op, "batch_size")
    return each * batch if batch else None


def _full_bytes(op: Op, each: float, case: Case) -> float | None:
    if op.kind in SHUFFLES:
        count, samples = number_of(op, "buffer_size") or 0, samples_of_worker(case)
        size = samples_reaching(op, case.pipeline.ops) or 1
        return each * (min(count, samples / size) if samples is not None else count)
    if op.kind == "Prefetch":
        count = number_of(op, "buffer_size") or 0
        return each * count if count > 0 else None
    if op.kind in KEEPERS and op.parameters.get("filename") == "":
        of_node = cache_bytes_per_node(case, op)
        return of_node / (case.plan.tasks_per_node if case.plan else 1) if of_node is not None else None
    calls = number_of(op, "num_parallel_calls") or 0
    return each * calls if op.kind in _CALLING and calls > 0 else None

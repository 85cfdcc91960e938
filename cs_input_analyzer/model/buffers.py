"""The buffers of one worker: their bytes when it was measured and when they are full, and the time to fill them again."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median

from cs_input_analyzer.model.amounts import cache_bytes_per_node, samples_of_worker
from cs_input_analyzer.model.evidence import seconds_before
from cs_input_analyzer.records import Case, Op
from cs_input_analyzer.tfdata.lineage import downstream, reads_names_only, upstream
from cs_input_analyzer.tfdata.op_kinds import BATCHING, KEEPERS, KEEPS_SIZE, REPEATS, SHUFFLES, kinds_with
from cs_input_analyzer.tfdata.op_traits import cost_of, fixed_number, number_of, sample_bytes
from cs_input_analyzer.tfdata.samples import samples_reaching, shuffle_of_samples

# Each call of these ops works on its own element, and keeps it until its turn comes.
_CALLING = kinds_with("threads") & (kinds_with("transforms") | BATCHING)
_HOLDING = SHUFFLES | _CALLING | {"Prefetch"}
# TensorFlow's constant (kMaxBatchResults of map_and_batch_dataset_op.cc).
MOST_BATCH_RESULTS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """The bytes that an op holds, now and when it is full."""

    op: Op
    held_bytes: float
    full_bytes: float

    @property
    def growth_bytes(self) -> float:
        """Return the bytes that the buffer may still grow by."""
        return max(0.0, self.full_bytes - self.held_bytes)


def buffers_of(case: Case) -> tuple[Buffer, ...]:
    """Return the buffers whose elements have a known size, in the order of the pipeline.

    Buffers of file names are too small to count. How much AUTOTUNE, or the CPUs of a node, give a buffer is not known.
    """
    found = []
    for op in case.pipeline.ops:
        row = cost_of(op, case.profile)
        held = (row.buffered_elements if row is not None else None) or 0.0
        sizes = (number_of(op, "buffer_size"), fixed_number(op, "num_parallel_calls"))
        is_limited = op.kind in KEEPERS or (op.kind in _HOLDING and any((size or 0) > 0 for size in sizes))
        if op.within is not None or not is_limited:
            continue
        each = element_bytes(op, case)
        full = _full_bytes(op, each, case) if each is not None else None
        if each is not None and full is not None and not reads_names_only(op, case.pipeline.ops):
            found.append(Buffer(op=op, held_bytes=held * each, full_bytes=full))
    return tuple(found)


def refill_ratio(case: Case) -> float | None:
    """Return the share of time in which the accelerator waits while the workers fill their shuffle again in each pass.

    Return None if they fill it once, if the length of a pass or the cost of the fill is unknown, or if whole passes
    were measured: then the rates include it.

    It is filled once if the data are repeated before the shuffle, or if `repeat` follows it at once: TensorFlow makes
    one op of the two (the graph rewrite `shuffle_and_repeat_fusion`), which takes from the next pass while it drains
    the last one.
    """
    ops, plan = case.pipeline.ops, case.plan
    shuffle, count = shuffle_of_samples(ops)
    if shuffle is None or shuffle.within is not None or plan is None or plan.predicted_samples_per_s.estimate <= 0:
        return None
    readers, later = [op for op in ops if shuffle.name in op.inputs], downstream(shuffle, ops)
    is_repeated = any(op.kind in REPEATS for op in (*upstream(shuffle, ops), *readers))
    is_repeated |= case.pipeline.is_infinite and not any(op.kind in REPEATS for op in later)  # a source without end
    samples = samples_of_worker(case, shuffle)
    if (
        is_repeated
        or not samples
        or case.mode == "eval"
        or _passes_measured(case, samples * (plan.input_workers if case.is_sharded else 1)) >= 1
    ):
        return None
    fill_s = seconds_before(case, shuffle, min(count, samples))
    if fill_s is None:
        return None
    supply = plan.predicted_samples_per_s.estimate
    pass_s = samples * plan.input_workers / min(supply, case.demand_samples_per_s or supply)
    return fill_s / (fill_s + pass_s)


def _passes_measured(case: Case, samples: float) -> float:
    """Return the number of passes over `samples` samples in the window of a worker; the median of all workers."""
    held = [
        worker.samples_per_s.estimate * worker.steady_state.window_s * (launch.num_workers if case.is_sharded else 1) / samples
        for launch in case.measurements
        for worker in launch.measured_workers
        if worker.samples_per_s is not None and worker.steady_state is not None
    ]
    return median(held) if held else 0.0


def element_bytes(op: Op, case: Case) -> float | None:
    """Return the bytes of an element that `op` gives, as measured.

    Without a measurement they are those of the pipeline's elements, if no later op changes them.
    """
    row = cost_of(op, case.profile)
    if row is not None and row.bytes_out_per_sample is not None and row.elements_per_sample:
        return row.bytes_out_per_sample / row.elements_per_sample
    each, later = sample_bytes(case.pipeline), downstream(op, case.pipeline.ops)
    if not each or any(other.kind not in KEEPS_SIZE for other in later):
        return None
    batch = samples_reaching(op, case.pipeline.ops) if op.kind not in BATCHING else number_of(op, "batch_size")
    return each * batch if batch else None


def _full_bytes(op: Op, each: float, case: Case) -> float | None:
    if op.kind in SHUFFLES:
        count, samples = number_of(op, "buffer_size") or 0, samples_of_worker(case, op)
        size = samples_reaching(op, case.pipeline.ops) or 1
        return each * (min(count, samples / size) if samples is not None else count)
    if op.kind == "Prefetch":
        count = number_of(op, "buffer_size") or 0
        return each * count if count > 0 else None
    if op.kind in KEEPERS and op.parameters.get("filename") == "":
        of_node = cache_bytes_per_node(case, op)
        return of_node / (case.plan.tasks_per_node if case.plan else 1) if of_node is not None else None
    calls = fixed_number(op, "num_parallel_calls") or 0
    if op.kind == "MapAndBatch":  # whose calls are for single elements
        calls = min(MOST_BATCH_RESULTS, math.ceil(calls / (number_of(op, "batch_size") or 1)))
    return each * calls if op.kind in _CALLING and calls > 0 else None

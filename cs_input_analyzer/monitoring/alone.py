"""Measures the rate of an input by itself, read in this process while nothing else takes from it, and compares training with it.

Not isolated: it has every CPU that this process has, the caches of what was read before, and whatever else runs here. So it is
marked `isolation: none`, serves to compare with what the same process then does, and is never part of a capacity model.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import multimode
from typing import TYPE_CHECKING, Any

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.machines.counters import CounterReader
from cs_input_analyzer.monitoring.verdict import Verdict, by_rates
from cs_input_analyzer.pipeline.op_kinds import THREADED, WRITERS
from cs_input_analyzer.pipeline.op_traits import prefetches_by_itself
from cs_input_analyzer.records import Estimate, Op, SamplesPerElement

if TYPE_CHECKING:
    from cs_input_analyzer.monitoring.watch import Watch

GRACE_S = 10.0
"""Added to the time for measuring before a pipeline that gives nothing is left alone."""

FEWEST_BATCHES, FEWEST_CALLS = 8, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """Attributes:
    samples_per_s: None where nothing could be measured; `missing` says why.
    is_overlapped: whether the pipeline makes batches before they are asked for.
    cpu_s_per_sample: of this process, its other threads included.
    """

    samples_per_s: Estimate | None = None
    is_overlapped: bool = True
    cpu_s_per_sample: float | None = None
    missing: str = ""


def measure_alone(dataset: Any, samples: SamplesPerElement | int, *, max_s: float) -> Alone:
    """Reads `dataset`, a `tf.data.Dataset`, through an iterator of its own for about `max_s` seconds. Raises nothing.

    It is read on another thread: one that hangs is left behind, as no call into a pipeline can be taken back.

    Args:
        samples: how many an element holds; as a number, what the user says.
    """
    counted = SamplesPerElement(value=samples, source="batch_size of the monitor") if isinstance(samples, int) else samples
    found: list[Alone] = []

    def read() -> None:
        try:
            found.append(_measured(dataset, _ops_of(dataset), counted, max_s))
        except UsageError as error:
            found.append(Alone(missing=str(error)))
        except Exception as error:  # the user's pipeline, in whatever way it fails
            found.append(Alone(missing=f"reading the dataset failed: {type(error).__name__}: {str(error)[:300]}"))

    reader = threading.Thread(target=read, daemon=True, name="csia-alone")
    reader.start()
    reader.join(max_s + GRACE_S)
    if not found:
        return Alone(missing=f"the dataset gave too little in {max_s + GRACE_S:.0f} s for a rate")
    return found[0]


def check_dataset(dataset: Any, function: str) -> None:
    """Raises UsageError: what this `function` of ours was given cannot be read here."""
    import tensorflow as tf

    if not isinstance(dataset, tf.data.Dataset):
        raise UsageError(f"{function} takes a tf.data.Dataset, not a {type(dataset).__name__}")
    if not tf.executing_eagerly():
        raise UsageError(f"{function} measures, which cannot be done inside a tf.function or a graph; call it outside")


def _ops_of(dataset: Any) -> tuple[Op, ...]:
    """The ops of a dataset that may be read. Raises UsageError: why it is not read."""
    from cs_input_analyzer.pipeline.graph import graph_def_of, ops_of

    check_dataset(dataset, "KerasInputMonitor")
    ops = ops_of(graph_def_of(dataset))
    for op in ops:
        file = str(op.parameters.get("filename") or "") if op.kind == "Cache" else ""
        if op.kind in WRITERS or (file and not os.path.exists(f"{file}.index")):  # a complete cache is only read
            raise UsageError(
                f"the dataset writes files ({op.name}), and reading a part of it would leave them unfinished for the training"
            )
    return ops


def _measured(dataset: Any, ops: tuple[Op, ...], samples: SamplesPerElement, max_s: float) -> Alone:
    import numpy as np

    from cs_input_analyzer.stats.steady_state import rate_of, steady_window
    from cs_input_analyzer.worker.sampling import SamplingLoop, counted_here
    from cs_input_analyzer.worker.steady_clock import now_s

    iterator = iter(dataset)
    if samples.counted_in is not None:
        samples = counted_here(next(iterator, ()), samples)
    loop = SamplingLoop(counted_in=samples.counted_in, rows=samples.rows)
    loop(iterator, 0, 0.0)  # traces it
    stamps_s: list[float] = []
    held: list[int] = []
    began_cpu_s, until_s = CounterReader().read().cpu_s, now_s() + max_s
    while now_s() < until_s:
        chunk = loop(iterator, until_s=until_s)
        stamps_s.extend(chunk.stamps_s)
        held.extend(chunk.samples if chunk.samples is not None else [samples.value or 1] * len(chunk.stamps_s))
        if chunk.error is not None:
            return Alone(missing=f"reading the dataset failed: {str(chunk.error)[:300]}")
        if chunk.ended:
            if not len(chunk.stamps_s):
                break
            iterator = iter(dataset)
    cpu_s = CounterReader().read().cpu_s - began_cpu_s
    window = steady_window(np.asarray(stamps_s, dtype=np.float64)) if len(stamps_s) >= FEWEST_BATCHES else None
    if window is None:
        return Alone(missing=f"the dataset gave {len(stamps_s)} batches in {max_s:g} s")
    mean = float(np.mean(held[window.first + 1 :]))
    if mean <= 0:
        return Alone(missing="how many samples its batches hold is not known: give batch_size")
    return Alone(
        samples_per_s=rate_of(window.gap_s, mean),
        is_overlapped=prefetches_by_itself(ops) or any(op.kind in THREADED and op.within is None for op in ops),
        cpu_s_per_sample=cpu_s / float(sum(held)),
    )


def training_rate(calls: Sequence[tuple[float, int]], batch_size: int) -> Estimate | None:
    """Samples per second with its interval, over steady calls of (seconds, steps); None with fewer than eight of them.

    The calls are laid end to end, without what lay between them (checkpoints, validation), and judged as the arrival of batches is;
    those of another number of steps than most, at the end of a pass, are left out.
    Of a host that runs ahead of its accelerator single steps show little; their sum does, as it cannot run ahead for long.
    """
    if len(calls) < FEWEST_CALLS:
        return None
    import numpy as np

    from cs_input_analyzer.stats.steady_state import rate_of, steady_window

    usual = multimode(steps for _, steps in calls)[-1]
    whole = [seconds / steps for seconds, steps in calls if steps == usual]
    if len(whole) < FEWEST_CALLS or sum(whole) <= 0:
        return None
    window = steady_window(np.concatenate(([0.0], np.cumsum(np.asarray(whole, dtype=np.float64)))))
    return None if window is None or window.gap_s.estimate <= 0 else rate_of(window.gap_s, float(batch_size))


def verdict_of(watch: Watch, alone: Alone) -> Verdict:
    """The verdict on a run whose waits are out of sight, by the rate of its input alone."""
    rate = training_rate(tuple(watch.accounting.calls), watch.settings.batch_size or 1) if watch.steps else None
    return by_rates(rate, alone.samples_per_s, is_overlapped=alone.is_overlapped, missing=alone.missing)

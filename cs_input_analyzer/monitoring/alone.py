"""Measures the rate of an input by itself, read in this process while nothing else takes from it, and compares training with it.

Not isolated: it has every CPU that this process has, the caches of what was read before, and whatever else runs here. So it is
marked `isolation: none`, serves to compare with what the same process then does, and is never part of a capacity model.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import multimode
from typing import TYPE_CHECKING, Any, Literal

from cs_input_analyzer.machines.counters import read_counters
from cs_input_analyzer.monitoring.outputs import LOG
from cs_input_analyzer.monitoring.verdict import Verdict, by_rates
from cs_input_analyzer.pipeline.op_kinds import WRITERS
from cs_input_analyzer.pipeline.samples import element_sentence, samples_per_element_of
from cs_input_analyzer.records import Estimate, SamplesPerElement

if TYPE_CHECKING:
    from cs_input_analyzer.monitoring.watch import Watch

GRACE_S = 10.0
"""Added to the time for measuring before a pipeline that gives nothing is left alone."""

FEWEST_BATCHES, FEWEST_CALLS = 8, 8
PAUSES = 5
SHORTEST_PAUSE_S = 0.005
OVERLAPPED_RATIO = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """Attributes:
    samples_per_s: None where nothing could be measured; `missing` says why.
    is_overlapped: whether a batch is ready after a pause that is long enough to make one; None where that cannot be seen.
    cpu_s_per_sample: of this process, its other threads included.
    """

    samples_per_s: Estimate | None = None
    is_overlapped: bool | None = None
    cpu_s_per_sample: float | None = None
    batches: int = 0
    missing: str = ""
    isolation: Literal["none"] = "none"


def measure_alone(dataset: Any, samples: SamplesPerElement | int, *, max_s: float) -> Alone:
    """Reads `dataset`, a `tf.data.Dataset`, through an iterator of its own for about `max_s` seconds. Raises nothing.

    It is read on another thread: one that hangs is left behind, as no call into a pipeline can be taken back.

    Args:
        samples: how many an element holds; as a number, what the user says.
    """
    problem = _problem(dataset)
    if problem:
        return Alone(missing=problem)
    found: list[Alone] = []

    def read() -> None:
        try:
            found.append(_measured(dataset, samples, max_s))
        except Exception as error:  # the user's pipeline, in whatever way it fails
            found.append(Alone(missing=f"reading the dataset failed: {type(error).__name__}: {str(error)[:300]}"))

    reader = threading.Thread(target=read, daemon=True, name="csia-alone")
    reader.start()
    reader.join(max_s + GRACE_S)
    if not found:
        return Alone(missing=f"the dataset gave too little in {max_s + GRACE_S:.0f} s for a rate")
    return found[0]


def _problem(dataset: Any) -> str:
    """Why this dataset is not read; empty if it may be."""
    try:
        import tensorflow as tf

        from cs_input_analyzer.pipeline.graph import graph_def_of, ops_of

        if not isinstance(dataset, tf.data.Dataset):
            return f"its rate alone can be measured of a tf.data.Dataset, not of a {type(dataset).__name__}"
        if not tf.executing_eagerly():
            return "its rate alone is measured where TensorFlow executes eagerly"
        ops = ops_of(graph_def_of(dataset))
    except Exception as error:
        return f"the dataset's graph cannot be read ({type(error).__name__}: {error})"
    for op in ops:
        file = str(op.parameters.get("filename") or "") if op.kind == "Cache" else ""
        if op.kind in WRITERS or (file and not os.path.exists(f"{file}.index")):  # a complete cache is only read
            return f"the dataset writes files ({op.name}), and reading a part of it would leave them unfinished for the training"
    return ""


def _measured(dataset: Any, samples: SamplesPerElement | int, max_s: float) -> Alone:
    from cs_input_analyzer.worker.sampling import CAPACITY, counted_here, sampling_loop

    iterator = iter(dataset)
    if isinstance(samples, int):
        samples = samples_of(dataset, samples)
    if samples.counted_in is not None:
        samples = counted_here(next(iterator, ()), samples)
    loop = sampling_loop(dataset.element_spec, counted_in=samples.counted_in, rows=samples.rows)
    loop(iterator, 0, 0.0)  # traces it
    stamps_s: list[float] = []
    held: list[int] = []
    began_cpu_s, until_s = read_counters().cpu_s, time.time() + max_s
    while time.time() < until_s:
        chunk = loop(iterator, CAPACITY, until_s)
        stamps_s.extend(chunk.stamps_s)
        held.extend(chunk.samples if chunk.samples is not None else [samples.value or 1] * len(chunk.stamps_s))
        if chunk.error is not None:
            return Alone(missing=f"reading the dataset failed: {str(chunk.error)[:300]}")
        if chunk.ended:
            if not len(chunk.stamps_s):
                break
            iterator = iter(dataset)
    cpu_s = read_counters().cpu_s - began_cpu_s
    if len(stamps_s) < FEWEST_BATCHES:
        return Alone(missing=f"the dataset gave {len(stamps_s)} batches in {max_s:g} s", batches=len(stamps_s))
    return _rated(stamps_s, held, cpu_s, iterator.get_next)


def _rated(stamps_s: list[float], held: list[int], cpu_s: float, take_one: Callable[[], object]) -> Alone:
    import numpy as np

    from cs_input_analyzer.stats.steady_state import rate_of, steady_window

    window = steady_window(np.asarray(stamps_s, dtype=np.float64))
    mean = float(np.mean(held[window.first + 1 :])) if window is not None else 0.0
    if window is None or mean <= 0:
        return Alone(missing="how many samples its batches hold is not known: give batch_size", batches=len(stamps_s))
    return Alone(
        samples_per_s=rate_of(window.gap_s, mean),
        is_overlapped=_is_overlapped(take_one, window.gap_s.estimate),
        cpu_s_per_sample=cpu_s / float(sum(held)),
        batches=len(stamps_s),
    )


def samples_of(dataset: Any, batch_size: int) -> SamplesPerElement:
    """What the dataset says that an element holds, where that is `batch_size`, or varies; else `batch_size`, with one warning where
    the dataset says otherwise."""
    from cs_input_analyzer.pipeline.graph import element_components, graph_def_of, ops_of

    spec = element_components(dataset.element_spec)
    found = samples_per_element_of(ops_of(graph_def_of(dataset)), spec, demand_size=batch_size)
    if found.value == batch_size or (found.value is None and not found.is_unknown):
        return found
    if found.value is not None and not any(component.shape and component.shape[0] == batch_size for component in spec):
        _warn_of_batch_size(batch_size, element_sentence(found))
    return SamplesPerElement(value=batch_size, source="batch_size of the monitor")


@functools.cache
def _warn_of_batch_size(batch_size: int, said: str) -> None:
    LOG.warning("batch_size=%d is used, though the dataset says: %s", batch_size, said)


def _is_overlapped(take_one: Callable[[], object], gap_s: float) -> bool | None:
    """Pauses for twice the time of a batch, then checks whether one is ready. Below some milliseconds that cannot be seen."""
    if gap_s < SHORTEST_PAUSE_S:
        return None
    waits = []
    for _ in range(PAUSES):
        time.sleep(2 * gap_s)
        asked_s = time.perf_counter()
        try:
            take_one()
        except Exception:  # the data ended here
            return None
        waits.append(time.perf_counter() - asked_s)
    return sorted(waits)[PAUSES // 2] < OVERLAPPED_RATIO * gap_s


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

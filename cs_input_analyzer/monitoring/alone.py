"""The rate of an input by itself, read in this process while nothing else takes from it.

Not isolated: it has every CPU that this process has, the caches of what was read before, and whatever else runs here. So it is
marked `isolation: none`, serves to compare with what the same process then does, and is never part of a capacity model.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cs_input_analyzer.machines.counters import read_counters
from cs_input_analyzer.monitoring.outputs import LOG
from cs_input_analyzer.pipeline.op_kinds import WRITERS
from cs_input_analyzer.pipeline.samples import element_sentence, samples_per_element_of
from cs_input_analyzer.records import Estimate, SamplesPerElement

GRACE_S = 10.0
"""Added to the time for measuring before a pipeline that gives nothing is left alone."""

FEWEST_BATCHES = 8
PAUSES = 5
SHORTEST_PAUSE_S = 0.005
OVERLAPPED_RATIO = 0.5
# Contradictions that were warned of.
_warned: set[tuple[int, int]] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """Attributes:
    samples_per_s: None where nothing could be measured; `missing` says why.
    is_overlapped: whether a batch is ready after a pause that is long enough to make one; None where that cannot be told.
    cpu_s_per_sample: of this process, its other threads included.
    """

    samples_per_s: Estimate | None = None
    is_overlapped: bool | None = None
    cpu_s_per_sample: float | None = None
    batches: int = 0
    missing: str = ""
    isolation: Literal["none"] = "none"


def measure_alone(dataset: Any, *, batch_size: int | None, max_s: float, samples: SamplesPerElement | None = None) -> Alone:
    """Reads `dataset`, a `tf.data.Dataset`, through an iterator of its own for about `max_s` seconds. Raises nothing.

    `samples`: how many its elements hold. Without it `batch_size` is believed, and without both their first dimension.

    It is read on another thread: one that hangs is left behind, as no call into a pipeline can be taken back.
    """
    problem = _problem(dataset)
    if problem:
        return Alone(missing=problem)
    found: list[Alone] = []
    reader = threading.Thread(
        target=_read, args=(dataset, batch_size, max_s, found.append, samples), daemon=True, name="csia-alone"
    )
    reader.start()
    reader.join(max_s + GRACE_S)
    if not found:
        return Alone(missing=f"the dataset gave too little in {max_s + GRACE_S:.0f} s to tell its rate")
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


def _read(
    dataset: Any, batch_size: int | None, max_s: float, give: Callable[[Alone], object], samples: SamplesPerElement | None
) -> None:
    try:
        give(_measured(dataset, batch_size, max_s, samples))
    except Exception as error:  # the user's pipeline, in whatever way it fails
        give(Alone(missing=f"reading the dataset failed: {type(error).__name__}: {str(error)[:300]}"))


def _measured(dataset: Any, batch_size: int | None, max_s: float, samples: SamplesPerElement | None) -> Alone:
    from cs_input_analyzer.pipeline.graph import graph_def_of
    from cs_input_analyzer.worker.sampling import CAPACITY, counted_component, counted_here, sampling_loop

    iterator = iter(dataset)
    if samples is None and batch_size is not None:
        samples = _believed(dataset, graph_def_of(dataset), batch_size)
    if samples is None:
        loop = sampling_loop(dataset.element_spec, counted_in=counted_component(dataset.element_spec))
    else:
        if samples.counted_in is not None:
            samples = counted_here(next(iterator, ()), samples)
        batch_size = samples.value or 1
        loop = sampling_loop(dataset.element_spec, counted_in=samples.counted_in, rows=samples.rows)
    loop(iterator, 0, 0.0)  # traces it
    until_s = time.time() + max_s
    seen = _Seen()
    while time.time() < until_s:
        chunk = loop(iterator, CAPACITY, until_s)
        seen.add(chunk.stamps_s, chunk.samples if chunk.samples is not None else [batch_size or 0] * len(chunk.stamps_s))
        if chunk.error is not None:
            return Alone(missing=f"reading the dataset failed: {str(chunk.error)[:300]}")
        if chunk.ended:
            if not len(chunk.stamps_s):
                break
            iterator = iter(dataset)
    return seen.result(max_s, iterator.get_next)


def _believed(dataset: Any, graph_def: Any, batch_size: int) -> SamplesPerElement:
    """What the dataset says that an element holds, where that is `batch_size`, or varies; else `batch_size`, with one warning where
    the dataset says otherwise."""
    from cs_input_analyzer.pipeline.graph import element_components, ops_of

    spec = element_components(dataset.element_spec)
    found = samples_per_element_of(ops_of(graph_def), spec, demand_size=batch_size)
    if found.value == batch_size or (found.value is None and not found.is_unknown):
        return found
    is_dimension = any(component.shape and component.shape[0] == batch_size for component in spec)
    if found.value is not None and not is_dimension and (batch_size, found.value) not in _warned:
        _warned.add((batch_size, found.value))
        LOG.warning("batch_size=%d is believed, though the dataset says: %s", batch_size, element_sentence(found))
    return SamplesPerElement(value=batch_size, source="batch_size of the monitor")


def measure_in_session(input_fn: Callable[[], Any], batch_size: int, max_s: float) -> Alone:
    """The same for the dataset that `input_fn` builds, in a graph and session of its own. Raises nothing."""
    try:
        with tempfile.TemporaryDirectory(prefix="cs_input_analyzer-") as folder:
            return _measured_in_session(input_fn, batch_size, max_s, Path(folder))
    except Exception as error:  # the user's input function, in whatever way it fails
        return Alone(missing=f"running the input function alone failed: {type(error).__name__}: {str(error)[:300]}")


def _measured_in_session(input_fn: Callable[[], Any], batch_size: int, max_s: float, folder: Path) -> Alone:
    import tensorflow as tf

    from cs_input_analyzer.pipeline.graph import graph_def_of
    from cs_input_analyzer.worker.redirect import redirected_writes
    from cs_input_analyzer.worker.sampling import leading_dimension

    v1 = tf.compat.v1
    seen = _Seen()
    with tf.Graph().as_default(), redirected_writes(folder):
        dataset = input_fn()
        if not isinstance(dataset, tf.data.Dataset):
            return Alone(missing=f"the input function gave a {type(dataset).__name__}, no tf.data.Dataset")
        iterator = v1.data.make_initializable_iterator(dataset)
        components = tf.nest.flatten(iterator.get_next())
        config = v1.ConfigProto(operation_timeout_in_ms=int((max_s + GRACE_S) * 1000))
        with v1.Session(config=config) as session:
            found = _believed(dataset, graph_def_of(dataset, session.run), batch_size)
            if found.counted_in is None:
                size = tf.constant(found.value, tf.int64)
            else:
                size = found.rows * leading_dimension(components[found.counted_in])
            parts = [part for part in tf.nest.flatten(components, expand_composites=True) if part is not None]
            with tf.control_dependencies(parts):
                fetch = tf.identity(size)
            session.run([v1.tables_initializer(), iterator.initializer])
            until_s = time.perf_counter() + max_s
            in_pass = 0
            while time.perf_counter() < until_s:
                try:
                    samples = int(session.run(fetch))
                except tf.errors.OutOfRangeError:
                    if not in_pass:
                        break
                    in_pass = 0
                    session.run(iterator.initializer)
                    continue
                in_pass += 1
                seen.add([time.perf_counter()], [samples])
            return seen.result(max_s, lambda: session.run(fetch))


class _Seen:
    """Arrivals of batches, what they hold, and the CPU time since the first was asked for."""

    def __init__(self) -> None:
        self._stamps: list[float] = []
        self._samples: list[int] = []
        self._began_cpu_s = read_counters().cpu_s

    def add(self, stamps_s: Iterable[float], samples: Iterable[int]) -> None:
        self._stamps.extend(stamps_s)
        self._samples.extend(samples)

    def result(self, max_s: float, take_one: Callable[[], object]) -> Alone:
        import numpy as np

        from cs_input_analyzer.stats.steady_state import rate_of, steady_window

        cpu_s, batches = read_counters().cpu_s - self._began_cpu_s, len(self._stamps)
        if batches < FEWEST_BATCHES:
            return Alone(missing=f"the dataset gave {batches} batches in {max_s:g} s", batches=batches)
        window = steady_window(np.asarray(self._stamps, dtype=np.float64))
        mean = float(np.mean(self._samples[window.first + 1 :])) if window is not None else 0.0
        if window is None or mean <= 0:
            return Alone(missing="how many samples its batches hold is not known: give batch_size", batches=batches)
        return Alone(
            samples_per_s=rate_of(window.gap_s, mean),
            is_overlapped=_is_overlapped(take_one, window.gap_s.estimate),
            cpu_s_per_sample=cpu_s / float(sum(self._samples)),
            batches=batches,
        )


def _is_overlapped(take_one: Callable[[], object], gap_s: float) -> bool | None:
    """Pauses for twice the time that a batch takes, then looks whether one is ready. Nothing to see below some milliseconds."""
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

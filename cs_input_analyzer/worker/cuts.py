"""Runs parts of the pipeline alone: cut after each of its ops, and its readers without all that follows.

The difference of two neighbouring cuts is what an op adds, its share of executor and allocation included, which the model of the
running pipeline leaves to the runtime. The differences do not add up to anything. The rate of the readers alone is a ceiling that
no change behind them can lift.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import numpy as np

from cs_input_analyzer.machines.page_cache import evenly
from cs_input_analyzer.machines.raw_reads import Reader, pieces_of, read_window
from cs_input_analyzer.machines.storage import STREAMS
from cs_input_analyzer.records import Op
from cs_input_analyzer.stats.steady_state import steady_window
from cs_input_analyzer.worker.failures import MESSAGE_LIMIT
from cs_input_analyzer.worker.journal import JournalWriter
from cs_input_analyzer.worker.sampling import bytes_of, next_chunk, sampling_loop

# The elements of a cut are handed out in windows, which move them and copy nothing: one by one the hand-over would be measured.
WINDOW_BYTES = 4 * 2**20
WINDOW_ELEMENTS = 64
WARM_S = 0.15
LONGEST_S = 0.6
SHORTEST_S = 0.2
# The readers alone: for so long, so many records at a time, so that the loop's own cost does not count.
SOURCE_S = 1.0
SOURCE_BATCH = 64
SOURCE_BATCH_BYTES = 64 << 20
# A store by itself: for so long with each number of streams, so many of its files.
STORE_S = 0.4
STORE_FILES = 64


def cpu_s_per_element(dataset: Any, ops: Sequence[Op], budget_s: float, harness_s: float) -> Iterator[tuple[str, float]]:
    """Op name and CPU seconds for each element of the pipeline cut after it, less `harness_s` for handing out an element or
    window. Ops that could not be cut or read are left out, and the last ones when the budget is spent."""
    from cs_input_analyzer.pipeline.edits import prefix

    top = [op for op in ops if op.within is None]
    deadline_s = time.monotonic() + budget_s
    for position, op in enumerate(top):
        share_s = (deadline_s - time.monotonic()) / (len(top) - position)
        if share_s < SHORTEST_S + WARM_S:
            return
        try:
            cut = prefix(dataset, op.name)
            cost_s = _cpu_s(cut, min(LONGEST_S, share_s - WARM_S), harness_s) if cut is not None else None
        except Exception:  # one that cannot run alone says nothing about the others
            continue
        if cost_s is not None:
            yield op.name, cost_s


def _cpu_s(cut: Any, seconds: float, harness_s: float) -> float | None:
    """Process CPU for one element of `cut` once it runs; None where it ended at once."""
    elements = max(1, min(WINDOW_ELEMENTS, WINDOW_BYTES // max(1, _element_bytes(cut))))
    read = cut.repeat().window(elements) if elements > 1 else cut.repeat()
    loop = sampling_loop(read.element_spec)
    iterator, steps = iter(read), 1
    loop(iterator, steps)  # traces, and fills what is to be filled
    counted = _for_a_while(loop, iterator, WARM_S, steps)
    if counted is None:
        return None
    counted = _for_a_while(loop, iterator, seconds, counted[2])
    return max(0.0, counted[1] / len(counted[0]) - harness_s) / elements if counted is not None else None


def _element_bytes(cut: Any) -> int:
    """By static shapes; where those leave it open (strings), one element is read: it may be of half a gigabyte."""
    import tensorflow as tf

    specs = tf.nest.flatten(cut.element_spec)
    if all(spec.shape.is_fully_defined() and spec.dtype.is_numpy_compatible and spec.dtype != tf.string for spec in specs):
        return sum(spec.shape.num_elements() * spec.dtype.size for spec in specs)
    return bytes_of(next(iter(cut)))


def _for_a_while(loop: Any, iterator: Any, seconds: float, steps: int) -> tuple[list[float], float, int] | None:
    """Arrivals, CPU seconds of the process, and the most steps of a chunk; None where the pipeline ends or fails."""
    began_s, began_cpu_s, arrivals, most = time.monotonic(), time.process_time(), list[float](), steps
    while (elapsed_s := time.monotonic() - began_s) < seconds:
        chunk = loop(iterator, steps)
        if chunk.error is not None or chunk.ended:
            return None
        arrivals += chunk.stamps_s.tolist()
        most = max(most, steps)
        steps = next_chunk(steps, time.monotonic() - began_s - elapsed_s, seconds - elapsed_s)
    return arrivals, time.process_time() - began_cpu_s, most


def marginal_s_per_sample(ops: Sequence[Op], cpu_s: Mapping[str, float], visits: Mapping[str, float]) -> dict[str, float]:
    """CPU per sample of the pipeline cut after each op minus that of the one cut before it; where both were measured.
    `cpu_s` is per element of the cut, `visits` the elements of each op for one sample."""
    per_sample = {name: cost_s * visits[name] for name, cost_s in cpu_s.items() if name in visits}
    return {
        op.name: per_sample[op.name] - sum(per_sample[name] for name in op.inputs)
        for op in ops
        if op.name in per_sample and all(name in per_sample for name in op.inputs)
    }


def sample_store(journal: JournalWriter, files: Sequence[tuple[str, int]], reader: Reader | None = None) -> None:
    """Reads files of a store by themselves, with more and more streams; writes down each one's rate. `reader`: None is
    TensorFlow's."""
    sizes = {path: size for path, size in evenly(files, STORE_FILES) if size}
    pieces = pieces_of(sizes, max(STREAMS))
    windows = (read_window(pieces, count, STORE_S, "as-is", time.monotonic, reader or _by_tensorflow) for count in STREAMS)
    journal.event("store", reads=[asdict(window.rate) for window in windows if window.rate is not None])


@contextmanager
def _by_tensorflow(path: str) -> Iterator[Callable[[int, int], int]]:
    import tensorflow as tf

    try:
        with tf.io.gfile.GFile(path, "rb") as file:

            def read(offset: int, length: int) -> int:
                if file.tell() != offset:
                    file.seek(offset)
                return len(file.read(length))

            yield read
    except tf.errors.OpError as error:
        raise OSError(error.message) from error


def sample_readers(journal: JournalWriter, dataset: Any) -> None:
    """Runs them in batches for a moment and writes down how fast they were; nothing where no op reads files."""
    from cs_input_analyzer.pipeline.edits import source_only

    records = SOURCE_BATCH
    try:
        source = source_only(dataset)
        if source is None or (first := next(iter(source), None)) is None:
            return
        records = max(1, min(SOURCE_BATCH, SOURCE_BATCH_BYTES // max(1, bytes_of(first))))
        del first
        source = source.repeat().batch(records).prefetch(2)
        loop = sampling_loop(source.element_spec)
        read = _for_a_while(loop, iter(source), SOURCE_S, 1)
        if read is None:
            return
    except Exception as error:  # a reader that cannot be cut out is no failure of the user's pipeline
        journal.event("source", records_per_batch=records, window=None, message=f"{type(error).__name__}: {error}"[:MESSAGE_LIMIT])
        return
    window = steady_window(np.array(read[0]))
    journal.event("source", records_per_batch=records, window=asdict(window.gap_s) if window else None, message="")

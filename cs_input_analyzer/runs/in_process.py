"""Measure a dataset by itself inside a training process, beside all else that runs there."""

from __future__ import annotations

import os
import threading
from typing import Any

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.records import Op
from cs_input_analyzer.runs.verdict import InputAlone
from cs_input_analyzer.tfdata import graph
from cs_input_analyzer.tfdata.op_kinds import THREADED, WRITERS
from cs_input_analyzer.tfdata.op_traits import prefetches_by_itself

# Added to the time for measuring before a pipeline that gives nothing is left alone.
GRACE_S = 10.0
FEWEST_BATCHES = 8


def check_dataset(dataset: Any, function: str) -> None:
    """Raise UsageError if what this `function` of ours was given cannot be read here."""
    import tensorflow as tf

    if not isinstance(dataset, tf.data.Dataset):
        raise UsageError(f"{function} takes a tf.data.Dataset, not a {type(dataset).__name__}")
    if not tf.executing_eagerly():
        raise UsageError(f"{function} measures, which cannot be done inside a tf.function or a graph; call it outside")


def measure_alone(dataset: Any, batch_size: int, *, max_s: float) -> InputAlone:
    """Read `dataset`, a `tf.data.Dataset`, through an iterator of its own for about `max_s` seconds. Raise nothing.

    It is read on another thread: one that hangs is left behind, as no call into a pipeline can be taken back. Each element counts
    as a full batch.
    """
    found: list[InputAlone] = []

    def read() -> None:
        try:
            found.append(_measured(dataset, _ops_of(dataset), batch_size, max_s))
        except UsageError as error:
            found.append(InputAlone(missing=str(error)))
        except Exception as error:  # the user's pipeline, in whatever way it fails
            found.append(InputAlone(missing=f"reading the dataset failed: {type(error).__name__}: {str(error)[:300]}"))

    reader = threading.Thread(target=read, daemon=True, name="csia-alone")
    reader.start()
    reader.join(max_s + GRACE_S)
    return found[0] if found else InputAlone(missing=f"the dataset gave too little in {max_s + GRACE_S:.0f} s for a rate")


def _ops_of(dataset: Any) -> tuple[Op, ...]:
    """Return the ops of a dataset that may be read. Raise UsageError with the reason if it may not."""
    check_dataset(dataset, "KerasInputMonitor")
    ops = graph.ops_of(graph.graph_def_of(dataset))
    for op in ops:
        file = str(op.parameters.get("filename") or "") if op.kind == "Cache" else ""
        if op.kind in WRITERS or (file and not os.path.exists(f"{file}.index")):  # a complete cache is only read
            raise UsageError(
                f"the dataset writes files ({op.name}), and reading a part of it would leave them unfinished for the training"
            )
    return ops


def _measured(dataset: Any, ops: tuple[Op, ...], batch_size: int, max_s: float) -> InputAlone:
    import numpy as np

    from cs_input_analyzer.model.steady_state import rate_of, steady_window
    from cs_input_analyzer.worker.sampling import SamplingLoop
    from cs_input_analyzer.worker.steady_clock import now_s

    loop, iterator = SamplingLoop(), iter(dataset.repeat())
    loop(iterator, 0, 0.0)  # traces it
    stamps_s: list[float] = []
    until_s, is_over = now_s() + max_s, False
    while now_s() < until_s and not is_over:
        chunk = loop(iterator, until_s=until_s)
        stamps_s.extend(chunk.stamps_s)
        if chunk.error is not None:
            return InputAlone(missing=f"reading the dataset failed: {str(chunk.error)[:300]}")
        is_over = chunk.ended
    window = steady_window(np.asarray(stamps_s, dtype=np.float64)) if len(stamps_s) >= FEWEST_BATCHES else None
    if window is None:
        return InputAlone(missing=f"the dataset gave {len(stamps_s)} batches in {max_s:g} s")
    return InputAlone(
        samples_per_s=rate_of(window.gap_s, batch_size),
        is_overlapped=prefetches_by_itself(ops) or any(op.kind in THREADED and op.within is None for op in ops),
    )

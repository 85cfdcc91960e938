"""Run the readers of the pipeline without all that follows: a ceiling that no change behind them can lift."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from cs_input_analyzer.model.steady_state import steady_window
from cs_input_analyzer.records import Op
from cs_input_analyzer.worker.failures import MESSAGE_LIMIT, named_message, plain_message
from cs_input_analyzer.worker.journal import JournalWriter
from cs_input_analyzer.worker.sampling import SamplingLoop, bytes_of
from cs_input_analyzer.worker.steady_clock import now_s

# The readers alone: for so long, so many records at a time, so that the loop's own cost does not count.
SOURCE_S = 1.0
SOURCE_BATCH = 64
SOURCE_BATCH_BYTES = 64 << 20

# Elements before an `ignore_errors` that are looked at: all together for at most so long, and a hang is left behind after it.
IGNORED_LOOK, IGNORED_S, PATIENCE_S = 10_000, 1.0, 1.0


def count_ignored(journal: JournalWriter, dataset: Any, ops: Sequence[Op]) -> None:
    """Count the errors that each `ignore_errors` hides among the first elements before it; write down the first of them.

    An element that hangs goes on in its thread until the process ends.
    """
    found: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    until_s = time.monotonic() + IGNORED_S
    threading.Thread(target=_count_ignored, args=(dataset, ops, until_s, found.put), daemon=True).start()
    counted = []
    try:
        while (one := found.get(timeout=max(0.0, until_s + PATIENCE_S - time.monotonic()))) is not None:
            counted.append(one)
    except queue.Empty:
        pass
    if counted:
        journal.event("ignored", each=counted)


def _count_ignored(dataset: Any, ops: Sequence[Op], deadline_s: float, found: Callable[[dict[str, Any] | None], None]) -> None:
    """Hand over the count of each `ignore_errors` at the top, and None at the end."""
    from cs_input_analyzer.tfdata.edits import FILLED, prefix_of

    by_name = {op.name: op for op in ops}
    ignoring = [op for op in ops if op.kind == "IgnoreErrors" and op.within is None and op.inputs]
    for place, op in enumerate(ignoring):
        seconds = (deadline_s - time.monotonic()) / (len(ignoring) - place)
        before = by_name[op.inputs[0]]
        while before.kind in FILLED and before.inputs:
            before = by_name[before.inputs[0]]
        try:
            elements, errors = _errors_of(prefix_of(dataset, before.name), seconds)
        except Exception:  # a part that cannot run alone is no failure of the user's pipeline, and says nothing
            continue
        found({"op": op.name, "elements": elements, "dropped": len(errors), "error": errors[0] if errors else ""})
    found(None)


def _errors_of(part: Any, seconds: float) -> tuple[int, list[str]]:
    """Return how many of the first elements were asked for, and the messages of those that failed."""
    import tensorflow as tf

    until_s = time.monotonic() + seconds
    iterator, elements, errors = iter(part), 0, list[str]()
    while elements < IGNORED_LOOK and time.monotonic() < until_s:
        try:
            next(iterator)
        except StopIteration:
            break
        except tf.errors.OpError as error:
            errors.append(plain_message(error)[:MESSAGE_LIMIT])
        elements += 1
    return elements, errors


def sample_readers(journal: JournalWriter, dataset: Any) -> None:
    """Runs them in batches for a moment and writes down how fast they were; nothing where no op reads files."""
    from cs_input_analyzer.tfdata.edits import source_only

    records = SOURCE_BATCH
    try:
        source = source_only(dataset)
        if source is None or (first := next(iter(source), None)) is None:
            return
        records = max(1, min(SOURCE_BATCH, SOURCE_BATCH_BYTES // max(1, bytes_of(first))))
        del first
        source = source.repeat().batch(records).prefetch(2)
        loop, iterator = SamplingLoop(), iter(source)
        loop(iterator, 1)  # traces, and fills what is to be filled
        read = loop(iterator, until_s=now_s() + SOURCE_S)
        if read.error is not None or read.ended:
            return
    except Exception as error:  # a reader that cannot be cut out is no failure of the user's pipeline
        journal.event("source", records_per_batch=records, window=None, message=named_message(error))
        return
    window = steady_window(read.stamps_s)
    journal.event("source", records_per_batch=records, window=asdict(window.gap_s) if window else None, message="")

"""Runs the readers of the pipeline without all that follows, and reads the files of a store by themselves: ceilings that no change
behind them can lift."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from cs_input_analyzer.machines.page_cache import evenly
from cs_input_analyzer.machines.raw_reads import Reader, pieces_of, read_window
from cs_input_analyzer.machines.storage import STREAMS
from cs_input_analyzer.stats.steady_state import steady_window
from cs_input_analyzer.worker.failures import MESSAGE_LIMIT, plain_message
from cs_input_analyzer.worker.journal import JournalWriter
from cs_input_analyzer.worker.sampling import SamplingLoop, bytes_of

# The readers alone: for so long, so many records at a time, so that the loop's own cost does not count.
SOURCE_S = 1.0
SOURCE_BATCH = 64
SOURCE_BATCH_BYTES = 64 << 20
# A store by itself: for so long with each number of streams, so many of its files.
STORE_S = 0.4
STORE_FILES = 64


def sample_store(journal: JournalWriter, files: Sequence[tuple[str, int]], reader: Reader | None = None) -> None:
    """Reads files of a store by themselves, with more and more streams; writes down each one's rate. `reader`: None is
    TensorFlow's."""
    sizes = {path: size for path, size in evenly(files, STORE_FILES) if size}
    pieces = pieces_of(sizes, max(STREAMS))
    windows = (read_window(pieces, count, STORE_S, "as-is", reader or _by_tensorflow) for count in STREAMS)
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


# Elements before an `ignore_errors` that are looked at, for at most so long.
IGNORED_LOOK, IGNORED_S = 10_000, 1.0


def count_ignored(journal: JournalWriter, dataset: Any) -> None:
    """Count the errors that each `ignore_errors` hides among the first elements before it; write down the first of them."""
    import tensorflow as tf

    from cs_input_analyzer.pipeline.edits import before_ignored_errors

    found = []
    for name, cut in before_ignored_errors(dataset).items():
        iterator, seen, errors, until_s = iter(cut), 0, list[str](), time.monotonic() + IGNORED_S
        while seen < IGNORED_LOOK and time.monotonic() < until_s:
            try:
                next(iterator)
            except StopIteration:
                break
            except tf.errors.OpError as error:
                errors.append(plain_message(error)[:MESSAGE_LIMIT])
            seen += 1
        found.append({"op": name, "elements": seen, "dropped": len(errors), "error": errors[0] if errors else ""})
    if found:
        journal.event("ignored", each=found)


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
        loop, iterator = SamplingLoop(), iter(source)
        loop(iterator, 1)  # traces, and fills what is to be filled
        read = loop(iterator, until_s=time.time() + SOURCE_S)
        if read.error is not None or read.ended:
            return
    except Exception as error:  # a reader that cannot be cut out is no failure of the user's pipeline
        journal.event("source", records_per_batch=records, window=None, message=f"{type(error).__name__}: {error}"[:MESSAGE_LIMIT])
        return
    window = steady_window(read.stamps_s)
    journal.event("source", records_per_batch=records, window=asdict(window.gap_s) if window else None, message="")

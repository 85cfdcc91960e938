"""The readers of a pipeline alone, in its own worker: a ceiling that no change behind them can lift."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from cs_input_analyzer.worker.journal import JournalWriter

# The readers alone: for so long, so many records at a time, so that the loop's own cost does not count.
SOURCE_S = 1.0
SOURCE_BATCH = 64
SOURCE_BATCH_BYTES = 64 << 20
MESSAGE_LIMIT = 4000


def sample_readers(journal: JournalWriter, dataset: Any) -> None:
    """Runs them in batches for a moment and writes down how fast they were. Silent where nothing reads files."""
    from cs_input_analyzer.pipeline.edits import source_only
    from cs_input_analyzer.stats.steady_state import steady_window
    from cs_input_analyzer.worker.sampling import bytes_of, next_chunk, sampling_loop

    records = SOURCE_BATCH
    try:
        source = source_only(dataset)
        if source is None or (first := next(iter(source), None)) is None:
            return
        records = max(1, min(SOURCE_BATCH, SOURCE_BATCH_BYTES // max(1, bytes_of(first))))
        del first
        source = source.repeat().batch(records).prefetch(2)
        loop = sampling_loop(source.element_spec, count_samples=False)
        iterator, arrivals, batches = iter(source), [], 1
        began_s = time.monotonic()
        while (elapsed_s := time.monotonic() - began_s) < SOURCE_S:
            chunk = loop(iterator, batches)
            if chunk.error is not None or chunk.ended:
                return
            arrivals += list(chunk.stamps_s)
            batches = next_chunk(batches, time.monotonic() - began_s - elapsed_s, SOURCE_S - elapsed_s)
    except Exception as error:  # a reader that cannot be cut out is no failure of the user's pipeline
        journal.event("source", records_per_batch=records, window=None, message=f"{type(error).__name__}: {error}"[:MESSAGE_LIMIT])
        return
    import numpy as np

    window = steady_window(np.array(arrivals))
    journal.event("source", records_per_batch=records, window=asdict(window.gap_s) if window else None, message="")

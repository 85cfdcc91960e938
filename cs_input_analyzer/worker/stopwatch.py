"""Time pipelines that are tried against each other, with the loop that samples batches."""

from __future__ import annotations

import time
from typing import Any

from cs_input_analyzer.tfdata.messages import plain_message
from cs_input_analyzer.trial.gains import BlockError
from cs_input_analyzer.worker.sampling import SamplingLoop
from cs_input_analyzer.worker.steady_clock import now_s

# Of a block: the start is cut off, the rest is looked at.
WARM_SHARE = 0.5


class Stopwatch:
    """Time blocks of datasets of one element spec. The loop is traced once for all of them."""

    def __init__(self) -> None:
        self._loop = SamplingLoop()

    def fill(self, dataset: Any, elements: int, deadline_s: float) -> bool:
        """Read this many elements, to fill caches and buffers. Return False if the deadline passed before."""
        iterator, done = iter(dataset), 0
        while done < elements:
            if time.monotonic() > deadline_s:
                return False
            done += self._read(iterator, elements - done, 0.5)[0]
        return True

    def rate_per_s(self, dataset: Any, block_s: float) -> float:
        """Return the elements per second in the second part of a block."""
        iterator = iter(dataset)
        self._read(iterator, 1, 0.0)
        _, begun_s = self._read(iterator, None, block_s * WARM_SHARE)
        done, ended_s = self._read(iterator, None, block_s * (1 - WARM_SHARE))
        return done / (ended_s - begun_s)

    def _read(self, iterator: Any, elements: int | None, seconds: float) -> tuple[int, float]:
        """Return the number of elements read, and when the last of them came."""
        chunk = self._loop(iterator, elements, now_s() + seconds)
        if chunk.error is not None or chunk.ended or not len(chunk.stamps_s):
            raise BlockError(plain_message(chunk.error) if chunk.error is not None else "it gives no elements")
        return len(chunk.stamps_s), float(chunk.stamps_s[-1])

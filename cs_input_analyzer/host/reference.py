"""Run a fixed loop that shows how fast the CPUs of a worker are while it runs.

A busy neighbour on the same core, the clock and a throttled virtual machine slow the loop and the pipeline alike, for some
milliseconds or for minutes. Only a loop that runs beside the pipeline, on the same CPUs and at the same time, meets what it meets.
"""

from __future__ import annotations

import statistics
import threading
import time
from array import array
from collections.abc import Sequence

# Knuth's linear congruential generator (MMIX): arithmetic that no interpreter can foresee or skip.
_FACTOR, _ADDEND, _MASK = 6364136223846793005, 1442695040888963407, (1 << 64) - 1


def spin(steps: int, seed: int = 1) -> int:
    """Return the value of the generator after so many steps from `seed`."""
    value = seed
    for _ in range(steps):
        value = (value * _FACTOR + _ADDEND) & _MASK
    return value


# A loop of a tenth of a millisecond fifty times a second is half a percent of a CPU, and a hundred loops in a window of two
# seconds.
WATCH_STEPS = 700
WATCH_EVERY_S = 0.02
# Undisturbed are loops that are at most so much slower than the fastest twentieth.
FASTEST_RATIO = 0.05
UNDISTURBED_RATIO = 1.15
# Fewer say nothing of how fast the CPU can be.
LEAST_LOOPS = 20


class SpeedWatch:
    """The loop every 20 ms in a thread of this process, so on the CPUs of this process.

    What counts is the CPU time of the thread: waiting for a CPU, or for the interpreter's lock, is no part of it.
    """

    def __init__(self) -> None:
        self._loops_s = array("d")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="csia-speed", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()

    def loops_s(self) -> tuple[float, ...]:
        """Return the CPU seconds of each loop so far."""
        return tuple(self._loops_s[:])

    def total(self) -> tuple[float, int]:
        """Return the CPU seconds of all loops so far, and their number."""
        loops_s = self.loops_s()
        return sum(loops_s), len(loops_s)

    def _watch(self) -> None:
        while not self._ended.wait(WATCH_EVERY_S):
            began_s = time.thread_time()
            spin(WATCH_STEPS)
            self._loops_s.append(time.thread_time() - began_s)


def undisturbed_s(loops_s: Sequence[float]) -> float | None:
    """Return the mean of the loops that are about as fast as the fastest twentieth; None of fewer than `LEAST_LOOPS`."""
    if len(loops_s) < LEAST_LOOPS:
        return None
    ordered = sorted(loops_s)
    most_s = ordered[int(FASTEST_RATIO * len(ordered))] * UNDISTURBED_RATIO
    return statistics.fmean(loop_s for loop_s in ordered if loop_s <= most_s)

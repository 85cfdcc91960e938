"""A fixed piece of work that tells how fast this CPU is now: before sampling, and after it.

Turbo clocks, a busy neighbour on the same core and a throttled virtual machine slow the loop and the pipeline alike. The ratio of
the two runs is a flag and a covariate. Rates are never divided by it: a loop of integers in one thread says nothing about memory
bandwidth, and correcting by it was not shown to bring any rate nearer to the truth.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

# 5 runs of some 3 ms: long against the clocks' grain, short against the start of a worker; their median ignores one that was hit.
RUNS = 5
STEPS = 30_000
# Knuth's linear congruential generator (MMIX): arithmetic that no interpreter can foresee or skip.
_FACTOR, _ADDEND, _MASK = 6364136223846793005, 1442695040888963407, (1 << 64) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Seconds for one run of the loop: `cpu_s` on the thread's own clock, `wall_s` with the time it waited for a CPU."""

    cpu_s: float
    wall_s: float


def time_reference(
    cpu_clock: Callable[[], float] = time.thread_time, wall_clock: Callable[[], float] = time.perf_counter
) -> Reference:
    """Runs the loop in the calling thread; the median of five runs on each clock."""
    cpu, wall = [], []
    for _ in range(RUNS):
        cpu_began_s, wall_began_s = cpu_clock(), wall_clock()
        spin(STEPS)
        cpu.append(cpu_clock() - cpu_began_s)
        wall.append(wall_clock() - wall_began_s)
    return Reference(cpu_s=statistics.median(cpu), wall_s=statistics.median(wall))


def speed_ratio(start: Reference, end: Reference) -> float | None:
    """Speed at the end over speed at the start, by CPU time: waiting for a CPU has counters of its own. None without a time."""
    return start.cpu_s / end.cpu_s if start.cpu_s > 0 and end.cpu_s > 0 else None


def spin(steps: int, seed: int = 1) -> int:
    """`steps` steps of the generator from `seed`."""
    value = seed
    for _ in range(steps):
        value = (value * _FACTOR + _ADDEND) & _MASK
    return value

"""The rate of one worker of a launch on idle nodes: the interface of `laws` and `events`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class WorkerRate:
    """Samples/s of one worker, CPU seconds of a sample, and those of its serial op and of its Python functions."""

    samples_per_s: float
    cpu_s_per_sample: float
    serial_s: float
    python_s: float


Rates = Callable[[int, int, int], WorkerRate]
"""(nodes, tasks on each, CPUs per task) -> what each of these workers delivers."""

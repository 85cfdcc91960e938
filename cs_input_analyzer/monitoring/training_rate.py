"""The steady rate of training, from how long its steps took, and the verdict that follows from it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import multimode
from typing import TYPE_CHECKING

import numpy as np

from cs_input_analyzer.monitoring.alone import Alone
from cs_input_analyzer.monitoring.verdict import Verdict, by_rates
from cs_input_analyzer.records import Estimate
from cs_input_analyzer.stats.steady_state import rate_of, steady_window

if TYPE_CHECKING:
    from cs_input_analyzer.monitoring.watch import Watch

FEWEST_CALLS = 8


def training_rate(calls: Sequence[tuple[float, int]], batch_size: int) -> Estimate | None:
    """Samples per second with its interval, over steady calls of (seconds, steps); None with fewer than eight of them.

    The calls are laid end to end, without what lay between them (checkpoints, validation), and judged as the arrival of batches is;
    those of another number of steps than most, at the end of a pass, are left out.
    Of a host that runs ahead of its accelerator single steps show little; their sum does, as it cannot run ahead for long.
    """
    if len(calls) < FEWEST_CALLS:
        return None
    usual = multimode(steps for _, steps in calls)[-1]
    whole = [seconds / steps for seconds, steps in calls if steps == usual]
    if len(whole) < FEWEST_CALLS or sum(whole) <= 0:
        return None
    window = steady_window(np.concatenate(([0.0], np.cumsum(np.asarray(whole, dtype=np.float64)))))
    return None if window is None or window.gap_s.estimate <= 0 else rate_of(window.gap_s, float(batch_size))


def verdict_of(watch: Watch, alone: Alone) -> Verdict:
    """The verdict on a run whose waits are out of sight, by the rate of its input alone."""
    rate = training_rate(tuple(watch.accounting.calls), watch.settings.batch_size or 1) if watch.steps else None
    return by_rates(rate, alone.samples_per_s, is_overlapped=alone.is_overlapped, missing=alone.missing)

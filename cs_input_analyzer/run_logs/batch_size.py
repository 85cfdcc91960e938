"""Samples of a step: from the totals of the run, or from the rates that it printed. Pure."""

from __future__ import annotations

import math

import numpy as np

from cs_input_analyzer.monitoring.rates import SMOOTHING
from cs_input_analyzer.run_logs.grammar import Line
from cs_input_analyzer.run_logs.steps import StepTable

# Rates are printed with two decimals.
ROUNDED = 0.005
FIT_ERROR_RATIO = 0.02
WHOLE_RATIO = 0.005


def batch_size_of(table: StepTable, finished: Line | None) -> float | None:
    """Samples of a step, from the totals of the run, or from its rates and the time stamps; None where neither shows it.

    Totals need the step that the run began from. A log whose first lines were cut does not have it, nor does one of a run that went
    on from a checkpoint: so both are tried, and what the rates say decides.
    """
    rough = _seen_batch_size(table) or _stated_batch_size(table, finished)
    samples = finished.samples or 0 if finished is not None else 0
    if samples > 0 and len(table.step):
        steps = table.step
        # The run began from no step, or one log interval before its first line.
        began = {0, *([max(0, int(steps[0] - (steps[1] - steps[0])))] if len(steps) > 1 else [])}
        whole = {samples / (float(steps[-1]) - first) for first in began if steps[-1] > first}
        near = [each for each in whole if each == int(each) and (rough is None or abs(each / rough - 1) < FIT_ERROR_RATIO)]
        if len(near) == 1:
            return near[0]
    return _whole(rough) if rough is not None else None


def _whole(rough: float) -> float:
    return float(round(rough)) if round(rough) >= 1 and abs(rough - round(rough)) <= WHOLE_RATIO * rough else rough


def _stated_batch_size(table: StepTable, finished: Line | None) -> float | None:
    """Of an Estimator: samples per second of the whole training over its last steps per second."""
    printed = table.steps_per_s[np.isfinite(table.steps_per_s)]
    stated = average_rate(finished)
    return stated / float(printed[-1]) if stated and len(printed) and printed[-1] > 0 else None


def average_rate(finished: Line | None) -> float | None:
    """Samples per second of a whole training: as its last line states them, else its samples over its seconds."""
    if finished is None:
        return None
    return finished.rate or (
        finished.samples / finished.duration_s if finished.samples is not None and finished.duration_s else None
    )


def _seen_batch_size(table: StepTable) -> float | None:
    """Samples of a step as the printed rates imply it: beside rates in steps, else beside the time stamps.

    GlobalRate = step × batch / elapsed (where steps count from 0), so stamps grow by the batch size with step / GlobalRate.
    """
    (at_s, resolution_s), step, total = table.clock, table.step, table.global_rate
    per_step = total / np.where(table.steps_per_s > 0, table.steps_per_s, np.nan)
    if np.isfinite(per_step).any():
        return float(np.median(per_step[np.isfinite(per_step)]))
    known = np.isfinite(at_s) & (total > 0)
    if known.sum() < 2:
        return None
    stamps, per_sample = at_s[known], step[known] / total[known]
    x, y = per_sample - per_sample.mean(), stamps - stamps.mean()
    spread, span = float(np.dot(x, x)), float(np.ptp(stamps))
    # What is rounded off the stamps and the rates, as a share of what they span.
    rounding = (per_sample * ROUNDED / total[known]).max() / np.ptp(per_sample) if spread > 0 else math.inf
    coarse = resolution_s[known].max() / span if span > 0 else math.inf
    if not rounding + coarse < FIT_ERROR_RATIO:
        return None
    slope = float(np.dot(x, y)) / spread
    residual = float(np.abs(y - slope * x).max())
    if not (math.isfinite(slope) and slope > 0 and residual <= FIT_ERROR_RATIO * span):
        return None
    if known.sum() > 2:
        return slope
    # Any two points lie on a line, so Rate has to agree. It is 0.6 of the local rate and 0.4 of the Rate before.
    local = (table.rate - SMOOTHING * table.before["rate"]) / (1 - SMOOTHING)
    by_rate = (local * (table.t_s - table.before["t_s"]) / (step - table.before["step"]))[known][-1]
    return slope if abs(by_rate / slope - 1) < 2 * (FIT_ERROR_RATIO + coarse) else None

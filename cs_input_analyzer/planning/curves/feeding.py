"""Moments of the feeding: what the accelerator takes, beside what it would take, before and after a pause.

The simulation is that of `simulate`: measured batches of the workers, replayed through their buffers. A checkpoint of the real run
is not known here, so a pause as long as a tenth of the picture is put in its middle, and said to be assumed: it shows how far the
buffers carry, and how long it takes until the feeding is what it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cs_input_analyzer.planning import feeding as simulate
from cs_input_analyzer.records import Analysis

__all__ = ["FeedingCurve", "FeedingPoint", "feeding_curve"]

Floats = npt.NDArray[np.float64]

BINS = 90
# Steps of the picture: enough in each bin to be a rate, few enough for a tenth of a second.
LEAST_STEPS, MOST_STEPS, ROUNDS = 1800, 12_000, 60
MOST_WORKERS = 200
PAUSE_RATIO = 0.1
WARMUP_RATIO = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedingPoint:
    """One stretch of time. `taken_…`: what the accelerator got; `wanted_…`: what it would have taken (0 while it pauses)."""

    begin_s: float
    end_s: float
    taken_samples_per_s: float
    wanted_samples_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedingCurve:
    """The picture's points, in time order, of equal length.

    Attributes:
        pause_begin_s, pause_end_s: the assumed pause of the accelerator, as for a checkpoint.
        depth: batches that one worker holds.
        simulated_workers: as many of the plan's input workers as were replayed, at their joint rate.
    """

    points: tuple[FeedingPoint, ...]
    pause_begin_s: float
    pause_end_s: float
    depth: int
    simulated_workers: int


def feeding_curve(analysis: Analysis, traces_s: Sequence[Sequence[float]]) -> FeedingCurve | None:
    """How the plan feeds the accelerator. None without a plan, a demand, a batch size or a trace that holds any time.

    Args:
        traces_s: seconds between the batches of each measured worker, in order.
    """
    plan, consumption, batch = analysis.recommendation, analysis.consumption, analysis.pipeline.batch_size
    traces = [np.asarray(trace, dtype=np.float64) for trace in traces_s]
    traces = [trace / trace.mean() for trace in traces if trace.size and trace.min() >= 0 and trace.mean() > 0]
    if plan is None or consumption is None or not batch or not traces or plan.input_workers < 1:
        return None
    demand, supply = consumption.samples_per_s.estimate, plan.predicted_samples_per_s.estimate
    if demand <= 0 or supply <= 0 or batch < 0:
        return None
    workers = min(plan.input_workers, MOST_WORKERS)
    steps = int(np.clip(ROUNDS * workers, LEAST_STEPS, MOST_STEPS))
    production = simulate.resampled(
        traces, workers=workers, batches=2 * (steps // workers + 1), replications=1, seed=analysis.options.seed
    ) * (workers * batch / supply)
    step_s, depth = batch / demand, simulate.depth_of(analysis.pipeline)
    gaps = np.full(steps, step_s)
    first = int(WARMUP_RATIO * steps)
    middle = (first + steps) // 2
    gaps[middle] += PAUSE_RATIO * (steps - first) * max(step_s, batch / supply)
    taken = simulate.taken_s(production, gaps, depth=depth, feed=analysis.options.feed)[0]
    return _curve(taken[first:], middle - first, float(gaps[middle]), step_s, batch, depth, workers)


def _curve(taken: Floats, middle: int, pause_s: float, step_s: float, batch: int, depth: int, workers: int) -> FeedingCurve:
    times = taken - taken[0]
    # It stops when the step before the pause is over.
    begin, end = float(times[middle - 1]) + step_s, float(times[middle - 1]) + pause_s
    edges = np.linspace(0.0, float(times[-1]), BINS + 1)
    width = float(edges[1])
    # A batch is taken bit by bit while its step lasts: rates of stretches shorter than some steps would jump without a cause.
    moments = np.stack([times, times + step_s], axis=1).ravel()
    counted = np.stack([np.arange(len(times)), np.arange(1, len(times) + 1)], axis=1).ravel()
    batches = np.diff(np.interp(edges, np.maximum.accumulate(moments), counted))
    paused = np.clip(np.minimum(edges[1:], end) - np.maximum(edges[:-1], begin), 0.0, width) / width
    points = tuple(
        FeedingPoint(
            begin_s=float(edges[place]),
            end_s=float(edges[place + 1]),
            taken_samples_per_s=float(batches[place]) * batch / width,
            wanted_samples_per_s=float(1 - paused[place]) * batch / step_s,
        )
        for place in range(BINS)
    )
    return FeedingCurve(points=points, pause_begin_s=begin, pause_end_s=end, depth=depth, simulated_workers=workers)

"""How long the accelerator waits for its batches: input workers, their bounded buffers and the accelerator, batch by batch.

A worker makes one batch after the other and holds at most `depth` of them, made or in the making, until they are taken: it begins
batch j when batch j - 1 is made and batch j - depth is gone (blocking before service). The accelerator takes batches in turns
(round robin): batch k is batch k // W of worker k mod W, taken when step k - 1 is over and the batch is there. With `production`,
the seconds that a batch takes to make:

    made[w, j] = max(made[w, j - 1], taken[w, j - depth]) + production[w, j]
    taken[k]   = max(taken[k - 1] + gap[k], made[worker and batch of k])

This is the max-plus linear recursion of a line with finite buffers (Baccelli, Cohen, Olsder & Quadrat, "Synchronization and
Linearity", Wiley 1992), in which a whole round follows from earlier rounds. With `due[k]` = gap[1] + … + gap[k], taken - due is the
time waited so far: the running maximum of made - due (Lindley 1952).

A production time is spent only while there is room for the batch: a full buffer delays what follows and loses nothing of it.
Assumed: no buffer at the accelerator, no time on the way there, and workers whose slow moments are independent of each other's.
First come, the accelerator hardly waits where the supply is enough: all buffers are one, and nothing is simulated.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from cs_input_analyzer.records import Estimate, PipelineGraph
from cs_input_analyzer.stats.estimates import half_width_of_mean
from wafer_model import Consumption

Floats = npt.NDArray[np.float64]

DEPTH = 2
"""Batches that a worker holds where nothing is known: one ready to go and one in the making, the least that overlaps the two. A
pipeline that ends in `prefetch(n)` holds n + 1: what fills the buffer, and the batch that is being handed over. Seen with
TensorFlow 2.21: 2 for a slow consumer of `prefetch(AUTOTUNE)`, and for a pipeline without a prefetch, since TensorFlow adds one."""


def depth_of(pipeline: PipelineGraph) -> int:
    """Batches that one worker holds: what its last `prefetch` says, one more for the batch that is handed over; else `DEPTH`."""
    last = pipeline.ops[-1] if pipeline.ops else None
    size = last.parameters.get("buffer_size") if last is not None and last.kind == "Prefetch" else None
    return size + 1 if isinstance(size, int) and size > 0 else DEPTH


# How much `expected_utilization` runs: a few tenths of a second. More workers than these are simulated as these: the slowest of
# them would come little later still.
MOST_WORKERS = 5000
REPLICATIONS = 8
MOST_BATCHES = 2_000_000
MOST_ROUNDS, LEAST_ROUNDS = 2000, 48
WARMUP_RATIO = 0.25


def shapes_of(traces_s: Sequence[Sequence[float]]) -> list[Floats]:
    """The traces that hold times, each scaled to a mean of 1: what sets workers apart for good is in a prediction already, and a
    trace adds how batches scatter around the mean."""
    traces = [np.asarray(trace, dtype=np.float64) for trace in traces_s]
    return [trace / trace.mean() for trace in traces if trace.size and trace.min() >= 0 and 0 < trace.mean() < np.inf]


def expected_utilization(
    shapes: Sequence[Floats],
    supply: Estimate,
    consumption: Consumption,
    *,
    input_workers: int,
    depth: int = DEPTH,
    seed: int = 0,
) -> Estimate:
    """Share of the time in which the accelerator works, in steady state, fed in turns by `input_workers` that scatter like these.

    Only supply over demand matters, so the batch size cancels. Low: the low end of the supply against the high end of the demand;
    high: the other way round. Never above supply over demand (bottleneck law).

    Args:
        shapes: by `shapes_of`, at least one.
        supply: predicted samples per second of all workers together.
        depth: batches that one worker holds (see `DEPTH`).
    """
    workers = min(input_workers, MOST_WORKERS)
    rounds = int(np.clip(MOST_BATCHES // (workers * REPLICATIONS), LEAST_ROUNDS, MOST_ROUNDS))
    production = resampled(shapes, workers=workers, batches=rounds, replications=REPLICATIONS, seed=seed)

    @cache
    def at(supply_per_s: float, demand_per_s: float) -> Estimate:
        if supply_per_s <= 0 or demand_per_s <= 0:
            return Estimate.exact(0.0 if supply_per_s <= 0 else 1.0)
        enough, steps = supply_per_s / demand_per_s, rounds * workers
        warmup = int(WARMUP_RATIO * steps)
        return utilization(production, enough / workers, steps=steps, depth=depth, warmup_steps=warmup).capped(enough)

    demand = consumption.samples_per_s
    middle = at(supply.estimate, demand.estimate)
    worst, best = at(supply.low, demand.high), at(supply.high, demand.low)
    low, high = min(worst.low, middle.low), max(best.high, middle.high)
    return Estimate(estimate=middle.estimate, low=low, high=high, count=REPLICATIONS)


def utilization(production_s: Floats, step_s: float, *, steps: int, depth: int = DEPTH, warmup_steps: int = 0) -> Estimate:
    """Share of the time in which an accelerator works that takes `step_s` for a batch: of `steps` steps from empty buffers, those
    after the first `warmup_steps` (fewer than all); mean over replications with its 90 % interval.

    Args:
        production_s: seconds each batch takes to make, shape [batches, replications, workers]; from the start again where a worker
            gets further than that.
    """
    gaps = np.full(steps, float(step_s))
    gaps[0] = 0.0
    taken = taken_s(production_s, gaps, depth=depth)
    begin = taken[:, warmup_steps - 1] + step_s if warmup_steps else np.zeros(len(taken))
    # Rounding must not make it more than all.
    shares = np.minimum((steps - warmup_steps) * step_s / (taken[:, -1] + step_s - begin), 1.0)
    mean, half = float(shares.mean()), half_width_of_mean(shares)
    return Estimate(estimate=mean, low=max(0.0, mean - half), high=max(mean, min(1.0, mean + half)), count=len(shares))


def resampled(
    traces: Sequence[Floats],
    *,
    workers: int,
    batches: int,
    replications: int,
    seed: int,
) -> Floats:
    """Production times like the measured ones, shape [batches, replications, workers]: worker w behaves like trace w mod traces.

    Moving blocks (Künsch, Annals of Statistics 17(3), 1989) keep what follows what: a slow stretch stays one. They go around the
    end of the trace (Politis & Romano 1992), so every batch is as likely as any other, and the mean is that of the trace.
    """
    lengths = np.array([len(trace) for trace in traces])
    block = max(1, round(float(np.sqrt(lengths.mean()))))
    which = np.arange(workers) % len(traces)
    length, first = lengths[which], (np.cumsum(lengths) - lengths)[which]
    blocks = -(-batches // block)
    starts = np.random.default_rng(seed).integers(length, size=(blocks, 1, replications, workers))
    places = (starts + np.arange(block)[:, None, None]) % length + first
    production: Floats = np.concatenate(traces)[places].reshape(blocks * block, replications, workers)
    return production[:batches]


def taken_s(production_s: Floats, gaps_s: Floats, *, depth: int) -> Floats:
    """When the accelerator takes each batch, seconds from the start, shape [replications, steps].

    Args:
        production_s: as for `utilization`.
        gaps_s: least time from taking the batch before to taking this one, shape [steps]; the first from the start.
        depth: batches that a worker holds, made or in the making; at least 1.
    """
    due_s = np.cumsum(gaps_s)
    batches, replications, workers = production_s.shape
    rounds = -(-len(due_s) // workers)
    due = np.pad(due_s, (0, rounds * workers - len(due_s)), mode="edge").reshape(rounds, workers)
    taken: Floats = np.empty((rounds, replications, workers))
    made, waited = np.zeros((replications, workers)), np.zeros((replications, 1))
    for turn in range(rounds):
        begun = np.maximum(made, taken[turn - depth]) if turn >= depth else made
        made = begun + production_s[turn % batches]
        late = np.maximum(np.maximum.accumulate(made - due[turn], axis=1), waited)
        np.add(late, due[turn], out=taken[turn])
        waited = late[:, -1:]
    by_step: Floats = taken.transpose(1, 0, 2).reshape(replications, -1)
    return by_step[:, : len(due_s)]

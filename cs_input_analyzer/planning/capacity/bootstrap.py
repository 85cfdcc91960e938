"""The two-level bootstrap: which processes were seen is drawn anew, then which blocks of each.

(Davison & Hinkley, "Bootstrap Methods and their Application", 1997, section 3.8.)

The largest differences are between processes (where AUTOTUNE landed, which CPUs they got), so the interval of a mean over three of
them must show how few they were, however many batches each delivered. Drawing three of three shows a third too little of it, and a
normal with so few degrees of freedom has longer tails: deviations are widened by √(k / (k - 1)), and by what Student's t is wider
than the normal there (first term of the Cornish-Fisher expansion). And processes that happen to agree may not claim to be exact:
the spread is at least the pooled one of what was seen and of what is assumed. Above processes stand launches: the workers of one
launch are correlated by the state of their host, so of that the launch is the observation.

A vector is one estimate (place 0) followed by its replicates; formulas are applied to whole vectors, so that what two factors
have in common cancels: the rate of two workers is that of one times what they keep of it, and the error of the one falls out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cs_input_analyzer.planning.capacity.assumptions import (
    LAUNCH_SPREAD_ERRORS,
    LAUNCH_SPREAD_WEIGHT,
    MOST_ASSUMED_SPREAD_RATIO,
    PROCESS_SPREAD_RATIO,
    PROCESS_SPREAD_WEIGHT,
)
from cs_input_analyzer.records import Estimate, WorkerResult
from cs_input_analyzer.stats.estimates import NORMAL_95, REPLICATES, SMALLEST_LOW_RATIO, Vector, draws, middle_90, standard_error

__all__ = ["as_wide_as", "launch_spread_ratio", "mean_rate", "spread_ratio", "stored", "vector"]

SIGNIFICANT_DIGITS = 6


def mean_rate(launches: Sequence[Sequence[WorkerResult]], launch_spread: float, seed: Sequence[int]) -> Vector:
    """Mean rate of a fresh process and its replicates, shape [1 + REPLICATES], samples/s.

    Args:
        launches: of one layout, the processes of each that delivered a rate; at least one in all.
        launch_spread: what `launch_spread_ratio` says of this pipeline and host.
        seed: the same numbers give the same replicates.
    """
    draw = np.random.default_rng([*seed])
    processes = [worker for launch in launches for worker in launch]
    rates = np.array([worker.samples_per_s.estimate for worker in processes if worker.samples_per_s is not None])
    count, mean = len(rates), float(rates.mean())
    blocks = np.stack([_resampled(worker, draw) for worker in processes if worker.samples_per_s is not None])
    chosen = draw.integers(count, size=(count, REPLICATES))
    means = np.take_along_axis(blocks, chosen, axis=0).mean(axis=0)
    degrees = count - 1 + PROCESS_SPREAD_WEIGHT
    if count > 1:
        means = mean + (means - mean) * np.sqrt(count / (count - 1)) * (1 + (NORMAL_95**2 + 1) / 4 / degrees)
    seen = float(rates.var(ddof=1)) if count > 1 else 0.0
    assumed = (PROCESS_SPREAD_RATIO * mean) ** 2
    pooled = ((count - 1) * seen + PROCESS_SPREAD_WEIGHT * assumed) / degrees
    # Workers of a launch are correlated by their host: of that the launch is the observation, however many ran in it.
    variance = max(pooled / count, (launch_spread * mean) ** 2 / len(launches))
    means = means + draw.standard_normal(REPLICATES) * np.sqrt(max(0.0, variance - seen / count))
    return np.concatenate([[mean], np.maximum(means, SMALLEST_LOW_RATIO * mean)])


def _resampled(worker: WorkerResult, draw: np.random.Generator) -> Vector:
    """The rate of one process, its blocks drawn anew; not narrower than its own interval, which accounts for how blocks depend."""
    assert worker.samples_per_s is not None
    blocks, rate = np.array(worker.block_samples_per_s), worker.samples_per_s
    error_ratio = standard_error(rate) / rate.estimate
    if len(blocks) < 3 or np.ptp(blocks) == 0:
        return np.asarray(rate.estimate * (1 + error_ratio * draw.standard_normal(REPLICATES)))
    # Relative to their own mean: the mean of block rates is not quite the rate of the window.
    deviations = blocks[draw.integers(len(blocks), size=(REPLICATES, len(blocks)))].mean(axis=1) / blocks.mean() - 1
    return np.asarray(rate.estimate * (1 + deviations * max(1.0, error_ratio / float(deviations.std()))))


def spread_ratio(groups: Sequence[Sequence[WorkerResult]]) -> float:
    """Standard deviation over mean of what persists in a process, over groups of processes alike; 0 where only noise was seen.

    Variance components: what is seen is what persists plus the squared standard error of each process.
    """
    above, degrees = 0.0, 0
    for group in groups:
        rates = [worker.samples_per_s for worker in group if worker.samples_per_s is not None]
        if len(rates) < 2:
            continue
        estimates = np.array([rate.estimate for rate in rates])
        noise = float(np.mean([standard_error(rate) ** 2 for rate in rates]))
        above += (len(rates) - 1) * (float(estimates.var(ddof=1)) - noise) / float(estimates.mean()) ** 2
        degrees += len(rates) - 1
    return float(np.sqrt(max(0.0, above / degrees))) if degrees else 0.0


def launch_spread_ratio(layouts: Sequence[Sequence[Sequence[WorkerResult]]]) -> float:
    """Standard deviation over mean of the rates of fresh launches alike, as far as one host shows it.

    Pooled over layouts that were launched more than once, with an assumption that is worth some launches: what makes a rate uneven
    within a window makes windows uneven, too, and more so, as it lasts longer than a block of one. So a pipeline that runs evenly
    is trusted after one launch, and one that does not is not.

    Args:
        layouts: of each the launches, of each launch the processes that delivered a rate; at least one in all.
    """
    squares, degrees, errors = 0.0, 0, []
    for launches in layouts:
        rates = [[worker.samples_per_s for worker in launch if worker.samples_per_s is not None] for launch in launches]
        logs = np.log([np.mean([rate.estimate for rate in launch]) for launch in rates])
        squares += float(np.sum((logs - logs.mean()) ** 2))
        degrees += len(logs) - 1
        errors += [np.median([standard_error(rate) / rate.estimate for rate in launch]) for launch in rates]
    assumed = min(LAUNCH_SPREAD_ERRORS * float(np.median(errors)), MOST_ASSUMED_SPREAD_RATIO)
    return float(np.sqrt((squares + LAUNCH_SPREAD_WEIGHT * assumed**2) / (degrees + LAUNCH_SPREAD_WEIGHT)))


def vector(estimate: Estimate, replicates: Sequence[float], seed: int) -> Vector:
    """An estimate and its replicates as one vector; replicates that are not there are drawn from the interval."""
    if len(replicates) == REPLICATES:
        return np.concatenate([[estimate.estimate], replicates])
    return draws(estimate, (seed, REPLICATES))


def as_wide_as(values: Vector, left: Vector, right: Vector, share: float) -> Vector:
    """The same estimate, its replicates spread so that its 90 % interval reaches on each side as far as those of the two ends do,
    relative to their estimates: `share` 0 as that of the left, 1 as that of the right. How replicates lie to each other stays."""
    logs = np.log(values[1:] / values[0])
    low, high = middle_90(logs)
    ends = np.array([middle_90(np.log(end[1:] / end[0])) for end in (left, right)])
    lowest, highest = (1 - share) * ends[0] + share * ends[1]
    if high > low:
        logs = min(0.0, lowest) + (logs - low) * ((max(0.0, highest) - min(0.0, lowest)) / (high - low))
    return np.concatenate([values[:1], values[0] * np.exp(logs)])


def stored(values: Vector) -> tuple[float, ...]:
    """Replicates as they go into a record, in the digits that they are good for."""
    return tuple(float(f"{value:.{SIGNIFICANT_DIGITS}g}") for value in values[1:])

"""Mean rates and how sure they are: launches, processes and windows as components of variance, as draws.

Log rate = layout + launch + process + window (Kalibera & Jones, "Rigorous Benchmarking in Reasonable Time", ISMM 2013). The workers
of one launch share the state of their host, so of that the launch is the observation. How far launches and processes lie apart is
pooled over all layouts with an assumption that is worth four observations: those that happen to agree may not claim to be exact.

A vector is one estimate (place 0) followed by its draws; formulas are applied to whole vectors, so that what two factors have in
common cancels: the rate of two workers is that of one times what they keep of it, and the error of the one falls out.
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
from cs_input_analyzer.stats.estimates import NORMAL_95, REPLICATES, Vector, draws, log_error, standard_error, student_t

__all__ = ["launch_spread_ratio", "mean_rate", "spread_ratio", "stored", "vector"]

SIGNIFICANT_DIGITS = 6


def mean_rate(launches: Sequence[Sequence[WorkerResult]], launch_spread: float, seed: Sequence[int]) -> Vector:
    """Mean rate of a fresh process and its draws, shape [1 + REPLICATES], samples/s.

    Args:
        launches: of one layout, the processes of each that delivered a rate; at least one in all.
        launch_spread: what `launch_spread_ratio` says of this pipeline and host.
        seed: the same numbers give the same draws.
    """
    rates = [worker.samples_per_s for launch in launches for worker in launch if worker.samples_per_s is not None]
    logs = [np.log([worker.samples_per_s.estimate for worker in launch if worker.samples_per_s]) for launch in launches]
    degrees = len(rates) - len(launches) + PROCESS_SPREAD_WEIGHT
    apart = sum(float(np.sum((launch - launch.mean()) ** 2)) for launch in logs) + PROCESS_SPREAD_WEIGHT * PROCESS_SPREAD_RATIO**2
    own = float(np.mean([log_error(rate) ** 2 for rate in rates]))
    variance = max(apart / degrees, own) / len(rates) + launch_spread**2 / len(launches)
    # Student's t of as few launches has longer tails than the normal.
    wider = student_t(len(launches) - 1 + LAUNCH_SPREAD_WEIGHT) / NORMAL_95
    mean = float(np.mean([rate.estimate for rate in rates]))
    errors = np.random.default_rng([*seed]).standard_normal(REPLICATES) * wider * np.sqrt(variance)
    return np.concatenate([[mean], mean * np.exp(errors)])


def spread_ratio(groups: Sequence[Sequence[WorkerResult]]) -> float:
    """Standard deviation over mean of what persists in a process, over launches; 0 where only noise was seen.

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


def stored(values: Vector) -> tuple[float, ...]:
    """Replicates as they go into a record, in the digits that they are good for."""
    return tuple(float(f"{value:.{SIGNIFICANT_DIGITS}g}") for value in values[1:])

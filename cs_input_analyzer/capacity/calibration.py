"""The model's own error: what remains when whole pipelines are predicted that had no part in it.

Conformalized quantile regression (Romano, Patterson & Candès, 2019): the interval of the bootstrap is moved outwards by the 90 %
quantile of how far measurements lay outside it, on a log scale, over launches of *other* pipelines (near-alike launches of the same
pipeline would leak). `benchmarks/prediction_error` measures it: 254 launches of 14 pipelines on one host of two CPUs gave 0.054
inside and 0.063 for a doubling; 146 of them, with fewer between the probes, 0.027 and 0.169 (docs/measurements.md). Of each the
larger is kept. What was outside in those runs were tasks that share CPUs, and workers of a quarter or an eighth of one; plans for
larger nodes and other machines rest on the same number.

Between two probed CPU counts there is one more error, that of the curve's shape. No launch of that run lay there (a host of two
CPUs has nothing between one and two), so it is reasoned and not fitted.
"""

from __future__ import annotations

import math

import numpy as np

from cs_input_analyzer.capacity.bootstrap import Vector, estimate_of
from cs_input_analyzer.capacity.terms import SMALLEST_LOW_RATIO
from cs_input_analyzer.records import Estimate

__all__ = ["MODEL_ERROR_LOG", "SHAPE_ERROR_LOG_PER_DOUBLING", "model_error_log", "widening"]

MODEL_ERROR_LOG = 0.055
"""Inside what was probed, natural logarithm."""

MODEL_ERROR_LOG_PER_DOUBLING = 0.17
"""For every doubling beyond it."""

SHAPE_ERROR_LOG_PER_DOUBLING = 0.06
"""For every doubling between a CPU count and the nearest probed one, inside. Assumed, not fitted.

Through the same two probes, a factor m apart in CPUs and X in rate, go the straight line of log rates that is used, Amdahl's law
above it, and a straight line of rates below it. Halfway between probes with m = 4, one doubling from each, the two lie off by the
same factor, 3 √X / (2 + X): 4 to 6 % for X from 1.5 to 3, the most at X = 2. In wider gaps they lie off by more than in proportion
(halfway with m = 16 by 25 % at most, where this adds 13 %), so the first probes of a large host put one into the middle.
"""


def model_error_log(extrapolation: float, probe_doublings: float = 0.0) -> float:
    """The model's own error, natural logarithm, of a launch `extrapolation` times outside what was probed.

    Args:
        probe_doublings: between its CPUs per task and the nearest probed ones, inside.
    """
    outside = MODEL_ERROR_LOG_PER_DOUBLING * math.log2(extrapolation)
    return MODEL_ERROR_LOG + outside + SHAPE_ERROR_LOG_PER_DOUBLING * probe_doublings


def widening(values: Vector, error_log: float, count: int | None) -> Estimate:
    """The interval of the replicates, moved outwards by the model's own error."""
    inner, factor = estimate_of(values, count), math.exp(error_log)
    low = max(inner.low / factor, SMALLEST_LOW_RATIO * inner.estimate)
    return Estimate(
        estimate=inner.estimate, low=min(low, inner.estimate), high=max(inner.high * factor, inner.estimate), count=count
    )


def quantile_log(scores: Vector, level: float = 0.9) -> float:
    """The conformal quantile of scores: with its finite-sample correction, ceil((n + 1) level) of n."""
    rank = min(len(scores), math.ceil((len(scores) + 1) * level))
    return float(np.sort(scores)[rank - 1])

"""The model's own error: what remains when whole pipelines are predicted that had no part in it.

Conformalized quantile regression (Romano, Patterson & Candès, 2019): the interval of the bootstrap is moved outwards by the 90 %
quantile of how far measurements lay outside it, on a log scale, over launches of *other* pipelines (near-alike launches of the same
pipeline would leak). `benchmarks/prediction_error` measures it: 146 launches of 14 pipelines on one host of two CPUs gave 0.027
inside and 0.169 for a doubling (docs/measurements.md). Inside we keep a little more, as of launches between probes only 17 of 24
lay in their intervals. What was outside in that run were tasks that share CPUs, and workers of a quarter of a CPU; plans for larger
nodes and other machines rest on the same number.
"""

from __future__ import annotations

import math

import numpy as np

from cs_input_analyzer.capacity.bootstrap import Vector, estimate_of
from cs_input_analyzer.capacity.terms import SMALLEST_LOW_RATIO
from cs_input_analyzer.records import Estimate

__all__ = ["MODEL_ERROR_LOG", "model_error_log", "widening"]

MODEL_ERROR_LOG = 0.04
"""Inside what was probed, natural logarithm."""

MODEL_ERROR_LOG_PER_DOUBLING = 0.17
"""For every doubling beyond it."""


def model_error_log(extrapolation: float) -> float:
    return MODEL_ERROR_LOG + MODEL_ERROR_LOG_PER_DOUBLING * math.log2(extrapolation)


def widening(values: Vector, extrapolation: float, count: int | None) -> Estimate:
    """The interval of the replicates, moved outwards by the model's error at this distance from what was probed."""
    inner, factor = estimate_of(values, count), math.exp(model_error_log(extrapolation))
    low = max(inner.low / factor, SMALLEST_LOW_RATIO * inner.estimate)
    return Estimate(
        estimate=inner.estimate, low=min(low, inner.estimate), high=max(inner.high * factor, inner.estimate), count=count
    )


def quantile_log(scores: Vector, level: float = 0.9) -> float:
    """The conformal quantile of scores: with its finite-sample correction, ceil((n + 1) level) of n."""
    rank = min(len(scores), math.ceil((len(scores) + 1) * level))
    return float(np.sort(scores)[rank - 1])

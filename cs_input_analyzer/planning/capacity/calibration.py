"""The model's own error: what remains when whole pipelines are predicted that had no part in it.

Conformalized quantile regression (Romano, Patterson & Candès, 2019): the interval of the bootstrap is moved outwards by the 90 %
quantile of how far measurements lay outside it, on a log scale, over launches of *other* pipelines (near-alike launches of the
same pipeline would leak). `benchmarks/prediction_error` measures it: on one host of two CPUs 454 launches of 14 pipelines, with
whole CPUs and with quotas of quarters and eighths of one, gave 0.001 inside and 0.013 for a doubling; they are rounded up. (Of 206
later ones, which had no part in it, 187 lay inside.) That is little because how far fresh launches differ is not in it: it is a
matter of pipeline and host, which the probes show (`bootstrap.launch_spread_ratio`). When it had to cover for that, one number did
not fit whole CPUs (0.055) and eighths (0.12).

Between two probed CPU counts there is one more error, that of the curve's shape. It is reasoned and not fitted: see
`shape_error_log`.
"""

from __future__ import annotations

import math

from cs_input_analyzer.records import Estimate
from cs_input_analyzer.stats.estimates import SMALLEST_LOW_RATIO, Vector, estimate_of_draws

__all__ = ["MODEL_ERROR_LOG", "model_error_log", "shape_error_log", "widening"]

MODEL_ERROR_LOG = 0.01
"""Inside what was probed, natural logarithm."""

MODEL_ERROR_LOG_PER_DOUBLING = 0.015
"""For the doubling beyond it that was measured, in proportion."""

FAR_ERROR_LOG_PER_DOUBLING = 0.17
"""For every doubling more. Assumed: no launch so far outside was measured but of tasks that share two CPUs."""


def model_error_log(extrapolation: float, below: float = 0.0, above: float = 0.0) -> float:
    """The model's own error, natural logarithm, of a launch `extrapolation` times outside what was probed.

    Args:
        below: doublings between its CPUs per task and the nearest probe with fewer of them, inside; 0 at a probe.
        above: the same to the nearest with more.
    """
    doublings = math.log2(extrapolation)
    near, far = min(doublings, 1.0), max(doublings - 1.0, 0.0)
    outside = MODEL_ERROR_LOG_PER_DOUBLING * near + FAR_ERROR_LOG_PER_DOUBLING * far
    return MODEL_ERROR_LOG + outside + shape_error_log(below, above)


def shape_error_log(below: float, above: float) -> float:
    """How far plausible curves through two probes lie apart between them, natural logarithm, at most, whatever the rates are.

    What is used is the straight line of log rates over log CPUs. A straight line of rates passes below it, Amdahl's law, a straight
    line of the inverses of both, above. At a share t of the way in doublings, and s of the way in CPUs (of the inverses, for the
    other curve), the largest distance over all ratios of the two rates is the Kullback-Leibler divergence of two coins, t from s.
    Halfway that is ln cosh(ln 2 · doublings / 2): 6 % where the probes are a factor 4 apart, 25 % where 16.
    """
    if below <= 0 or above <= 0:
        return 0.0
    share, all_ = below / (below + above), 2 ** (below + above) - 1
    return max(_divergence(share, (2**below - 1) / all_), _divergence(1 - share, (2**above - 1) / all_))


def _divergence(one: float, other: float) -> float:
    return one * math.log(one / other) + (1 - one) * math.log((1 - one) / (1 - other))


def widening(values: Vector, error_log: float, count: int | None) -> Estimate:
    """The interval of the replicates, moved outwards by the model's own error."""
    inner, factor = estimate_of_draws(values, count), math.exp(error_log)
    low = max(inner.low / factor, SMALLEST_LOW_RATIO * inner.estimate)
    return Estimate(
        estimate=inner.estimate, low=min(low, inner.estimate), high=max(inner.high * factor, inner.estimate), count=count
    )

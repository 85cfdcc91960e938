"""Rates of launches that both runs measured: ratios, and which of them are more than noise.

A launch is the unit, not a worker: workers of one launch share what disturbs it. With v the variance of launches alike (`spread`),

    ln(new / old) ± t · √(v · (1/n_old + 1/n_new) + 2 · RUN_SPREAD_RATIO² + w²)

where w is how differently the hosts were busy with other work (`disturbance`), and t is Student's, 90 % for all rows together: of
comparisons of equal runs one in ten, at most, names a change in any row. A rate that was measured once has n = 1, and the same law.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cs_input_analyzer.records import Measurement, RateChange, RateDirection
from cs_input_analyzer.stats.estimates import from_log, log_error
from cs_input_analyzer.studies.changes.disturbance import disturbance_log
from cs_input_analyzer.studies.changes.launches import Pair, rate_of
from cs_input_analyzer.studies.changes.spread import RUN_SPREAD_RATIO, Spread, mean, pooled

__all__ = ["rate_changes"]


def rate_changes(pairs: Sequence[Pair]) -> tuple[tuple[RateChange, ...], float]:
    """A row for each pair, of at least one, and the spread (relative standard deviation of launches alike) that they rest on."""
    groups = [_logs(side) for pair in pairs for side in (pair.old, pair.new)]
    rates = [rate for pair in pairs for launch in (*pair.old, *pair.new) if (rate := rate_of(launch)) is not None]
    spread = pooled(groups, mean([log_error(rate) ** 2 for rate in rates]))
    return tuple(_change(pair, spread, len(pairs)) for pair in pairs), math.sqrt(spread.variance)


def _change(pair: Pair, spread: Spread, places: int) -> RateChange:
    old, new = _logs(pair.old), _logs(pair.new)
    between_runs = 2 * RUN_SPREAD_RATIO**2 + disturbance_log(pair) ** 2
    error = math.sqrt(spread.variance * (1 / len(old) + 1 / len(new)) + between_runs)
    ratio = from_log(mean(new) - mean(old), spread.t(places) * error, len(old) + len(new))
    change: RateDirection = "no difference seen"
    if ratio.low > 1:
        change = "faster"
    elif ratio.high < 1:
        change = "slower"
    alone = spread.t(1) * math.sqrt(spread.variance)
    return RateChange(
        layout=pair.layout,
        num_workers=pair.num_workers,
        old_cache_state=pair.old[0].cache_state,
        new_cache_state=pair.new[0].cache_state,
        old_samples_per_s=from_log(mean(old), alone / math.sqrt(len(old)), len(old)),
        new_samples_per_s=from_log(mean(new), alone / math.sqrt(len(new)), len(new)),
        ratio=ratio,
        change=change,
        old_cpu_s_per_sample=_cpu_s(pair.old),
        new_cpu_s_per_sample=_cpu_s(pair.new),
    )


def _logs(launches: Sequence[Measurement]) -> list[float]:
    return [math.log(rate.estimate) for launch in launches if (rate := rate_of(launch)) is not None]


def _cpu_s(launches: Sequence[Measurement]) -> float | None:
    known = [worker.cpu_s_per_sample for launch in launches for worker in launch.workers if worker.cpu_s_per_sample is not None]
    return mean(known) if known else None

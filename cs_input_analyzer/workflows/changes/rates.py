"""Rates of launches that both runs measured: which belong together, their ratios, and which of them exceed noise.

A launch is the unit, not a worker, because workers of one launch share their disturbances. With v the variance of equal
launches (`Spread`),

    ln(new / old) ± t · √(v · (1/n_old + 1/n_new) + 2 · RUN_SPREAD_RATIO² + w²)

where w is the difference between the hosts' other work (`disturbance_log`), and t is Student's, 90 % for all rows
together: at most one in ten comparisons of equal runs names a change in any row. A rate that was measured once has n =
1, and the same law.

Rates are those of idle hosts (`model.capacity.idle`), so the effect of other programs is no change; a difference
between the disturbances widens the interval. v is pooled over all groups of equal launches that both runs hold. If
there are few, the error of each and an assumption are mixed in, which may only widen it. Runs of release 0.1 do not
record other programs: `circumstances` names that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from cs_input_analyzer.model.capacity import kept_logs, on_idle_cpus
from cs_input_analyzer.model.capacity.assumptions import OTHERS_SHARE
from cs_input_analyzer.model.estimates import from_log, log_error, student_t
from cs_input_analyzer.records import Analysis, CacheChoice, Estimate, Layout, Measurement, RateChange, RateDirection
from cs_input_analyzer.units import counted

Key = tuple[Layout, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One layout and worker count, launched in both runs: neither side is empty, each launch has a rate above zero."""

    layout: Layout
    num_workers: int
    old: tuple[Measurement, ...]
    new: tuple[Measurement, ...]


def pairs_of(old: Analysis, new: Analysis) -> tuple[Pair, ...]:
    """Return launches of the same layout, worker count and state of the page cache, by rising size.

    If the runs share no state, use the first that each run measured: `circumstances` names it.
    """
    before, after = _by_key(old), _by_key(new)
    found = []
    for layout, workers in sorted(before.keys() & after.keys(), key=_order):
        one, other = before[layout, workers], after[layout, workers]
        common = sorted({launch.cache_state for launch in one} & {launch.cache_state for launch in other})
        states = [(state, state) for state in common] or [(one[0].cache_state, other[0].cache_state)]
        found += [
            _on_idle_cpus(Pair(layout=layout, num_workers=workers, old=_in_state(one, mine), new=_in_state(other, theirs)))
            for mine, theirs in states
        ]
    return tuple(found)


def _on_idle_cpus(pair: Pair) -> Pair:
    """Return both sides at the rates of an idle host.

    Return them unchanged if one run does not record other programs.
    """
    if not kept_logs(pair.old) or not kept_logs(pair.new):
        return pair
    return replace(pair, old=tuple(map(on_idle_cpus, pair.old)), new=tuple(map(on_idle_cpus, pair.new)))


def not_compared(old: Analysis, new: Analysis) -> tuple[str, ...]:
    """Return launches that only one of the runs has measured, a sentence each."""
    before, after = _by_key(old), _by_key(new)
    sides = (("old", before.keys() - after.keys()), ("new", after.keys() - before.keys()))
    return tuple(f"{_words(key)}: measured in the {which} run only" for which, keys in sides for key in sorted(keys, key=_order))


def launches_in_words(run: Analysis) -> str:
    """Return the launches of a run in words."""
    return ", ".join(_words(key) for key in sorted(_by_key(run), key=_order)) or "nothing"


def rate_of(launch: Measurement) -> Estimate | None:
    """Return the rate of all its workers together; None if it has no logarithm."""
    rate = launch.samples_per_s
    return rate if rate is not None and rate.estimate > 0 else None


def _by_key(run: Analysis) -> dict[Key, list[Measurement]]:
    """Return the launches that delivered; those that lost a worker only if there is no whole one."""
    found: dict[Key, list[Measurement]] = {}
    for launch in run.measurements:
        if rate_of(launch) is not None and launch.isolation == "process":
            found.setdefault((launch.layout, launch.num_workers), []).append(launch)
    return {key: [launch for launch in launches if launch.is_whole] or launches for key, launches in found.items()}


def _in_state(launches: Sequence[Measurement], state: CacheChoice) -> tuple[Measurement, ...]:
    return tuple(launch for launch in launches if launch.cache_state == state)


def _order(key: Key) -> tuple[int, int, int, int]:
    layout, workers = key
    return layout.tasks, layout.cpus_per_task, layout.nodes, workers


def _words(key: Key) -> str:
    layout, workers = key
    return f"{layout} of {counted(workers, 'worker')}"


# --- what differs by chance ------------------------------------------------------------------------------------------

# Assumption: equal fresh launches differ by this much (one standard deviation); it counts as this many observations. It is larger,
# and weighs less, than in the capacity model: a comparison must not raise false alarms on an unknown host. On simulated launches
# that differ by 0.3 to 15 %, two or three on a side, this called equal runs different in 0 to 11 comparisons of a hundred.
SPREAD_RATIO, SPREAD_WEIGHT = 0.05, 2
# Assumption: the same code on the same idle host, minutes or days apart, differs by this much (one standard deviation) in the
# conditions of a whole run: clock, neighbours, place of the files.
RUN_SPREAD_RATIO = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Variance of one observation on a log scale, and the observations that it rests on."""

    variance: float
    degrees: float

    def t(self, places: int) -> float:
        """Student's t of an interval that holds 90 %, for `places` statements together (Bonferroni)."""
        return student_t(self.degrees, places)


def pooled(groups: Iterable[Sequence[float]], error_variance: float) -> Spread:
    """Return the spread of logarithms around the mean of their group; `error_variance` is the mean square of their own errors."""
    squares, degrees = 0.0, 0
    for group in groups:
        if group:
            middle = mean(group)
            squares += math.fsum((value - middle) ** 2 for value in group)
            degrees += len(group) - 1
    mixed = (squares + SPREAD_WEIGHT * (SPREAD_RATIO**2 + error_variance)) / (degrees + SPREAD_WEIGHT)
    seen = squares / degrees if degrees else 0.0
    return Spread(variance=max(mixed, seen, error_variance), degrees=degrees + SPREAD_WEIGHT)


def mean(values: Sequence[float]) -> float:
    """Return the mean of at least one number; large numbers do not overflow."""
    return math.fsum(value / len(values) for value in values)


def disturbance_log(pair: Pair) -> float:
    """Return the standard deviation that others add to the logarithm of the ratio; 0 if it was not recorded."""
    old, new = (kept_logs(side) for side in (pair.old, pair.new))
    return OTHERS_SHARE * abs(mean(old) - mean(new)) if old and new else 0.0


# --- rates -----------------------------------------------------------------------------------------------------------


def rate_changes(pairs: Sequence[Pair], *, are_in_turns: bool = False) -> tuple[tuple[RateChange, ...], float]:
    """Return a row for each pair, and the spread behind them (relative standard deviation of equal launches).

    Args:
        pairs: launches of both runs, at least one.
        are_in_turns: the launches of both sides took turns on one host, so all conditions are common.
    """
    groups = [_logs(side) for pair in pairs for side in (pair.old, pair.new)]
    rates = [rate for pair in pairs for launch in (*pair.old, *pair.new) if (rate := rate_of(launch)) is not None]
    spread = pooled(groups, mean([log_error(rate) ** 2 for rate in rates]))
    between_runs = 0.0 if are_in_turns else 2 * RUN_SPREAD_RATIO**2
    return tuple(_change(pair, spread, len(pairs), between_runs) for pair in pairs), math.sqrt(spread.variance)


def _change(pair: Pair, spread: Spread, places: int, between_runs: float) -> RateChange:
    old, new = _logs(pair.old), _logs(pair.new)
    error = math.sqrt(spread.variance * (1 / len(old) + 1 / len(new)) + between_runs + disturbance_log(pair) ** 2)
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
    )


def _logs(launches: Sequence[Measurement]) -> list[float]:
    return [math.log(rate.estimate) for launch in launches if (rate := rate_of(launch)) is not None]

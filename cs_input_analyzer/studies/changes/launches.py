"""Which launches of two runs belong together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cs_input_analyzer.records import Analysis, CacheChoice, Estimate, Layout, Measurement
from cs_input_analyzer.units import counted

__all__ = ["Pair", "is_whole", "launches_in_words", "not_compared", "pairs_of", "rate_of"]

Key = tuple[Layout, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One layout and worker count, launched in both runs: neither side is empty, each launch has a rate above zero."""

    layout: Layout
    num_workers: int
    old: tuple[Measurement, ...]
    new: tuple[Measurement, ...]


def pairs_of(old: Analysis, new: Analysis) -> tuple[Pair, ...]:
    """Launches of the same layout and worker count, by state of the page cache where both runs have one in common; by rising size.

    Without a state in common it is the first that each run measured: `circumstances` names it.
    """
    before, after = _by_key(old), _by_key(new)
    found = []
    for layout, workers in sorted(before.keys() & after.keys(), key=_order):
        one, other = before[layout, workers], after[layout, workers]
        common = sorted({launch.cache_state for launch in one} & {launch.cache_state for launch in other})
        states = [(state, state) for state in common] or [(one[0].cache_state, other[0].cache_state)]
        found += [
            Pair(layout=layout, num_workers=workers, old=_in_state(one, mine), new=_in_state(other, theirs))
            for mine, theirs in states
        ]
    return tuple(found)


def not_compared(old: Analysis, new: Analysis) -> tuple[str, ...]:
    """Launches that only one of the runs has measured, a sentence each."""
    before, after = _by_key(old), _by_key(new)
    sides = (("old", before.keys() - after.keys()), ("new", after.keys() - before.keys()))
    return tuple(f"{_words(key)}: measured in the {which} run only" for which, keys in sides for key in sorted(keys, key=_order))


def launches_in_words(run: Analysis) -> str:
    return ", ".join(_words(key) for key in sorted(_by_key(run), key=_order)) or "nothing"


def rate_of(launch: Measurement) -> Estimate | None:
    """Of all its workers together; None where there is none that a logarithm can be taken of."""
    rate = launch.samples_per_s
    return rate if rate is not None and rate.estimate > 0 else None


def is_whole(launch: Measurement) -> bool:
    """Whether all of its workers delivered."""
    return len(launch.measured_workers) == len(launch.workers)


def _by_key(run: Analysis) -> dict[Key, list[Measurement]]:
    """Those that delivered; launches that lost a worker only where there is no whole one."""
    found: dict[Key, list[Measurement]] = {}
    for launch in run.measurements:
        if rate_of(launch) is not None and launch.isolation == "process":
            found.setdefault((launch.layout, launch.num_workers), []).append(launch)
    return {key: [launch for launch in launches if is_whole(launch)] or launches for key, launches in found.items()}


def _in_state(launches: Sequence[Measurement], state: CacheChoice) -> tuple[Measurement, ...]:
    return tuple(launch for launch in launches if launch.cache_state == state)


def _order(key: Key) -> tuple[int, int, int, int]:
    layout, workers = key
    return layout.tasks, layout.cpus_per_task, layout.nodes, workers


def _words(key: Key) -> str:
    layout, workers = key
    return f"{layout} of {counted(workers, 'worker')}"

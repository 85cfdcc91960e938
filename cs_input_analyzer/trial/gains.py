"""Measure how much faster one pipeline is than another: side by side in one warm process, in short blocks, in random order.

Each block is a fresh iterator, whose start does not count. Each round runs every pipeline once, so that a slow moment of the host
affects all of them.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from cs_input_analyzer.model.estimates import paired_ratio
from cs_input_analyzer.records import FEWEST_ROUNDS, LEAST_GAIN, Estimate

# Elements that a block should see.
ELEMENTS_OF_BLOCK = 40
SHORTEST_BLOCK_S, LONGEST_BLOCK_S = 0.5, 2.4
USUAL_ROUNDS, MOST_ROUNDS = 6, 16
# Sure enough to stop early. Without this margin, a look after each round would find a gain in noise sooner or later.
CLEAR_RATIO = 1.15
PRECISE_RATIO = 0.02


class BlockError(Exception):
    """Report a pipeline that fails, or gives nothing, while it is timed."""


# Elements per second of each pipeline, one number for each whole round.
Rounds = Mapping[Hashable, Sequence[float]]


def gain_in(rounds: Rounds, of: Hashable, over: Hashable) -> Estimate | None:
    """Return the ratio of rates with its interval; None before there are two rounds of both."""
    return paired_ratio(rounds.get(of, ()), rounds.get(over, ()))


def is_conclusive(gain: Estimate | None) -> bool:
    """Return whether more rounds would change nothing."""
    if gain is None or gain.count is None or gain.count < FEWEST_ROUNDS:
        return False
    if gain.low > CLEAR_RATIO or gain.high < 1 / CLEAR_RATIO:
        return True
    width = gain.relative_half_width_ratio
    return gain.count >= USUAL_ROUNDS and (
        gain.low > LEAST_GAIN or gain.high < LEAST_GAIN or (width is not None and width < PRECISE_RATIO)
    )


class Watch(Protocol):
    """Time datasets of one element spec."""

    def fill(self, dataset: Any, elements: int, deadline_s: float) -> bool:
        """Read this many elements, to fill caches. Return False if the time was up before. Raise BlockError."""

    def rate_per_s(self, dataset: Any, block_s: float) -> float:
        """Return the elements per second of one block, without its start. Raise BlockError."""


def run_rounds(
    watch: Watch,
    datasets: Mapping[Hashable, Any],
    over: Hashable,
    *,
    seconds: float,
    draw: random.Random,
    begin: Callable[[Hashable], None],
) -> Iterator[Rounds]:
    """Yield one growing record after each round, until the time is up or every gain over `over` is conclusive.

    Leave out a pipeline after it fails or its gain is conclusive.
    """
    deadline_s = time.monotonic() + seconds
    active = dict(datasets)
    rounds: dict[Hashable, list[float]] = {name: [] for name in active}
    block_s = SHORTEST_BLOCK_S
    longest_s = block_s * len(active)
    for number in range(MOST_ROUNDS):
        began_s = time.monotonic()
        if number and began_s + longest_s > deadline_s:
            return
        order = list(active)
        draw.shuffle(order)
        round_rates: dict[Hashable, float] = {}
        for name in order:
            if time.monotonic() > deadline_s + block_s:
                return
            begin(name)
            try:
                round_rates[name] = watch.rate_per_s(active[name], block_s)
            except BlockError:
                del active[name]
        if over not in active:
            return
        for name, rate in round_rates.items():
            rounds[name].append(rate)
        longest_s = max(block_s * len(active), time.monotonic() - began_s)
        if number == 0:  # slow pipelines get longer blocks, as far as there is time for enough of them
            share_s = (deadline_s - time.monotonic()) / (len(active) * USUAL_ROUNDS)
            block_s = max(block_s, min(LONGEST_BLOCK_S, share_s, ELEMENTS_OF_BLOCK / min(round_rates.values())))
        yield rounds
        for name in [name for name in active if name != over and is_conclusive(gain_in(rounds, name, over))]:
            del active[name]
        if len(active) < 2:
            return

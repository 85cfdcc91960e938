"""Gains: what is one, and rounds that leave out what fails."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cs_input_analyzer.records import Estimate, is_clear_gain
from cs_input_analyzer.trial.gains import (
    FEWEST_ROUNDS,
    MOST_ROUNDS,
    USUAL_ROUNDS,
    BlockError,
    gain_in,
    is_conclusive,
    run_rounds,
)
from cs_input_analyzer.worker.stopwatch import Stopwatch


@pytest.mark.parametrize(
    ("gain", "gains", "settled"),
    [
        ((2.0, 1.8, 2.2, FEWEST_ROUNDS), True, True),  # only a clear one ends the rounds early
        ((2.0, 1.8, 2.2, 2), False, False),
        ((1.07, 1.04, 1.1, FEWEST_ROUNDS), True, False),
        ((1.07, 1.04, 1.1, USUAL_ROUNDS), True, True),
        ((1.0, 0.98, 1.02, USUAL_ROUNDS), False, True),
        ((1.05, 0.99, 1.12, 9), False, False),
        ((1.05, 1.02, 1.08, 9), False, False),  # true perhaps, and not worth a line
        ((1.03, 1.02, 1.04, 9), False, True),  # precise
        ((0.7, 0.6, 0.8, FEWEST_ROUNDS), False, True),
    ],
)
def test_what_is_a_gain_and_when_it_is_settled(gain: tuple[float, float, float, int], gains: bool, settled: bool) -> None:
    estimate, low, high, count = gain
    found = Estimate(estimate=estimate, low=low, high=high, count=count)
    assert (is_clear_gain(found), is_conclusive(found)) == (gains, settled)


class ScriptedWatch:
    """Rates by name, and a clock that each block moves on by a second."""

    def __init__(self, rates: dict[str, float], fails: str = "") -> None:
        self.rates, self.fails, self.now_s, self.ran = rates, fails, 0.0, list[str]()

    def rate_per_s(self, dataset: str, block_s: float) -> float:
        self.ran.append(dataset)
        self.now_s += 1.0
        if dataset == self.fails:
            raise BlockError("it fails")
        return self.rates[dataset] * (1 + 0.001 * len(self.ran))


def rounds_of(watch: Any, seconds: float) -> list[Any]:
    names = {name: name for name in watch.rates}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("time.monotonic", lambda: watch.now_s)
        return list(run_rounds(watch, names, "original", seconds=seconds, draw=random.Random(1), begin=lambda name: None))


def test_each_round_runs_each_pipeline_once_in_an_order_of_its_own() -> None:
    watch = ScriptedWatch({"original": 10.0, "same": 10.0, "twice": 20.0})
    (*_, last) = rounds_of(watch, 30)
    by_round = [tuple(watch.ran[start : start + 3]) for start in range(0, len(watch.ran), 3)]
    early = by_round[:FEWEST_ROUNDS]
    assert all(sorted(order) == ["original", "same", "twice"] for order in early)
    assert len(set(early)) > 1
    assert watch.ran.count("twice") == FEWEST_ROUNDS < watch.ran.count("same")  # the clear one is left out then
    assert gain_in(last, "twice", "original").estimate == pytest.approx(2, rel=0.01)
    assert gain_in(last, "same", "original").low == pytest.approx(1, rel=0.01)
    assert len(watch.ran) <= 30 + 3


def test_rounds_end_with_the_time_and_never_run_for_ever() -> None:
    watch = ScriptedWatch({"original": 10.0, "other": 11.0})
    rounds_of(watch, 7)
    assert watch.now_s <= 7 + 1
    watch = ScriptedWatch({"original": 10.0, "other": 10.3})
    rounds_of(watch, 10_000)
    assert len(watch.ran) <= 2 * MOST_ROUNDS


def test_a_pipeline_that_fails_leaves_the_others() -> None:
    watch = ScriptedWatch({"original": 10.0, "broken": 1.0, "twice": 20.0}, fails="broken")
    (*_, last) = rounds_of(watch, 30)
    assert watch.ran.count("broken") == 1
    assert gain_in(last, "broken", "original") is None
    assert gain_in(last, "twice", "original").estimate == pytest.approx(2, rel=0.01)
    assert rounds_of(ScriptedWatch({"original": 10.0, "twice": 20.0}, fails="original"), 30) == []


@pytest.mark.tf
def test_a_block_times_what_a_pipeline_waits_for() -> None:
    tf = pytest.importorskip("tensorflow")

    def waiting(milliseconds: int) -> Any:
        dataset = tf.data.Dataset.range(10**9)
        return dataset.map(
            lambda value: tf.numpy_function(
                lambda number: __import__("time").sleep(milliseconds / 1000) or number, [value], tf.int64
            )
        )

    watch = Stopwatch()
    slow, fast = (watch.rate_per_s(waiting(milliseconds), 0.6) for milliseconds in (16, 4))
    assert slow <= 1000 / 16 * 1.05
    assert fast > slow
    with pytest.raises(BlockError, match="no elements"):
        watch.rate_per_s(tf.data.Dataset.range(3), 0.5)
    broken = tf.data.Dataset.range(9).map(lambda value: tf.cast(tf.io.decode_raw(["ab", "c"], tf.uint8)[0, 0], tf.int64) + value)
    with pytest.raises(BlockError, match="size"):
        watch.rate_per_s(broken, 0.5)

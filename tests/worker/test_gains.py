"""Gains: paired ratios with an interval, and rounds that leave out what fails."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.records import Estimate
from cs_input_analyzer.stats.estimates import paired_ratio
from cs_input_analyzer.worker.gains import (
    FEWEST_ROUNDS,
    MOST_ROUNDS,
    BlockError,
    Stopwatch,
    gain_in,
    is_beyond,
    is_conclusive,
    is_gain,
    run_rounds,
)

rates = st.floats(1e-3, 1e6)


@given(st.lists(st.tuples(rates, rates), min_size=2, max_size=12))
def test_the_ratio_the_other_way_round_is_the_reciprocal(pairs: list[tuple[float, float]]) -> None:
    above, below = zip(*pairs, strict=True)
    gain, loss = paired_ratio(above, below), paired_ratio(below, above)
    assert gain.estimate * loss.estimate == pytest.approx(1)
    assert math.log(gain.low) == pytest.approx(-math.log(loss.high), abs=1e-6)
    assert gain.count == len(pairs)


@given(st.floats(0.1, 10), st.lists(rates, min_size=2, max_size=8))
def test_a_constant_factor_is_found_whatever_the_host_does(factor: float, below: list[float]) -> None:
    gain = paired_ratio([factor * rate for rate in below], below)
    assert gain.estimate == pytest.approx(factor)
    assert gain.high - gain.low == pytest.approx(0, abs=1e-6)


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    draw = random.Random(5)
    hits = 0
    for _ in range(400):
        below = [math.exp(draw.gauss(0, 0.3)) for _ in range(6)]
        above = [1.5 * rate * math.exp(draw.gauss(0, 0.1)) for rate in below]
        gain = paired_ratio(above, below)
        hits += gain.low <= 1.5 <= gain.high
    assert 0.86 <= hits / 400 <= 0.94


def test_only_a_clear_gain_ends_the_rounds_early() -> None:
    clear = Estimate(estimate=2.0, low=1.8, high=2.2, count=FEWEST_ROUNDS)
    slight = Estimate(estimate=1.07, low=1.04, high=1.1, count=FEWEST_ROUNDS)
    assert is_conclusive(clear)
    assert not is_conclusive(Estimate(estimate=2.0, low=1.8, high=2.2, count=2))
    assert not is_conclusive(slight)
    assert is_gain(slight)
    assert not is_gain(Estimate(estimate=1.05, low=0.99, high=1.12, count=9))
    assert not is_gain(Estimate(estimate=1.05, low=1.02, high=1.08, count=9))  # true perhaps, and not worth a line


def test_a_gain_that_cannot_be_is_none_and_never_settled() -> None:
    """Read with another buffer, an op of 6 % of the CPU time that waits for nothing: 1.29 times the rate is noise."""
    noise = Estimate(estimate=1.29, low=1.1, high=1.66, count=9)
    assert is_gain(noise)
    assert is_gain(noise, most=1.4)
    assert not is_gain(noise, most=1.07)
    assert is_beyond(noise, most=1.07)
    assert is_conclusive(noise)
    assert not is_conclusive(noise, most=1.07)
    assert not is_beyond(Estimate(estimate=1.1, low=0.9, high=1.4, count=9), most=1.07)  # nothing says that it gains at all
    slower = Estimate(estimate=0.7, low=0.6, high=0.8, count=9)
    assert is_conclusive(slower, most=1.07)


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
    found = run_rounds(
        watch, names, "original", seconds=seconds, draw=random.Random(1), begin=lambda name: None, clock=lambda: watch.now_s
    )
    return list(found)


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


def test_without_the_original_there_is_no_gain() -> None:
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

    watch = Stopwatch(tf.TensorSpec(None, tf.int64))
    slow, fast = (watch.rate_per_s(waiting(milliseconds), 0.6) for milliseconds in (16, 4))
    assert slow <= 1000 / 16 * 1.05
    assert fast > slow
    with pytest.raises(BlockError, match="no elements"):
        watch.rate_per_s(tf.data.Dataset.range(3), 0.5)
    broken = tf.data.Dataset.range(9).map(lambda value: tf.cast(tf.io.decode_raw(["ab", "c"], tf.uint8)[0, 0], tf.int64) + value)
    with pytest.raises(BlockError, match="size"):
        watch.rate_per_s(broken, 0.5)

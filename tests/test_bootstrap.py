"""The interval over processes: what it must give whatever the rates are, and how often it holds the truth."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cs_input_analyzer.measure.bootstrap import rate_over_processes
from cs_input_analyzer.records import Estimate

rates = st.floats(1e-3, 1e6)
processes = st.lists(st.lists(rates, min_size=1, max_size=12), min_size=1, max_size=6)
TRUE_RATE = 1000.0


def estimated(blocks: list[list[float]], seed: int = 0) -> Estimate:
    return rate_over_processes(blocks, draws=200, seed=seed)


def width(estimate: Estimate) -> float:
    return estimate.high - estimate.low


def simulated(random: Any, *, count: int, between: float, within: float, blocks: int = 16) -> list[list[float]]:
    """Processes around the true rate; block noise is in the gaps, so that the harmonic mean of a process has no bias."""
    persistent = TRUE_RATE * (1 + random.normal(0, between, count))
    return [(rate / (1 + random.normal(0, within, blocks))).tolist() for rate in persistent]


def coverage(rounds: int, interval: Callable[[list[list[float]]], Estimate], **choices: Any) -> float:
    random = np.random.default_rng(11)
    found = [interval(simulated(random, **choices)) for _ in range(rounds)]
    return sum(one.low <= TRUE_RATE <= one.high for one in found) / rounds


# --- laws ---------------------------------------------------------------------------------------------------------------------


@given(processes)
def test_the_estimate_is_the_mean_of_the_processes_and_lies_in_its_interval(blocks: list[list[float]]) -> None:
    found = estimated(blocks)
    means = [len(process) / math.fsum(1 / rate for rate in process) for process in blocks]
    assert found.estimate == pytest.approx(sum(means) / len(means), rel=1e-9)
    assert 0 < found.low <= found.estimate <= found.high
    assert found.count == len(blocks)


@given(processes, st.randoms(use_true_random=False))
def test_the_order_of_processes_and_of_blocks_is_all_the_same(blocks: list[list[float]], order: Any) -> None:
    shuffled = [order.sample(process, len(process)) for process in order.sample(blocks, len(blocks))]
    assert estimated(shuffled) == estimated(blocks)


@given(processes, st.integers(-20, 20))
def test_other_units_scale_the_interval(blocks: list[list[float]], power: int) -> None:
    factor = 2.0**power  # exact, so that no two equal values part
    one, other = estimated(blocks), estimated([[rate * factor for rate in process] for process in blocks])
    assert other.estimate == pytest.approx(one.estimate * factor, rel=1e-9)
    assert other.low == pytest.approx(one.low * factor, rel=1e-6)
    assert other.high == pytest.approx(one.high * factor, rel=1e-6)


@given(rates, st.integers(1, 5), st.integers(2, 8))
def test_rates_that_never_differ_are_known_exactly(rate: float, count: int, blocks: int) -> None:
    assert width(estimated([[rate] * blocks] * count)) == pytest.approx(0, abs=1e-9 * rate)


@settings(max_examples=30)
@given(st.lists(st.floats(-0.1, 0.1), min_size=2, max_size=6, unique=True))
def test_processes_that_differ_twice_as_much_are_known_less_well(offsets: list[float]) -> None:
    near, far = ([[TRUE_RATE * math.exp(by * offset)] * 4 for offset in offsets] for by in (1, 2))
    assert width(estimated(far)) >= width(estimated(near))


def test_the_same_seed_gives_the_same_interval_and_another_nearly_so() -> None:
    blocks = simulated(np.random.default_rng(3), count=5, between=0.03, within=0.03)
    one, again, other = (rate_over_processes(blocks, seed=seed) for seed in (1, 1, 2))
    assert one == again
    assert one != other
    assert width(other) == pytest.approx(width(one), rel=0.25)


def test_a_slow_stretch_counts_by_its_time() -> None:
    """Half the batches at 100/s and half at 300/s take 150/s on average, not 200/s."""
    assert estimated([[100.0, 300.0]]).estimate == pytest.approx(150)


@pytest.mark.parametrize("blocks", [[], [[]], [[1.0], []], [[0.0]], [[-1.0]], [[math.nan]], [[math.inf]]])
def test_what_is_no_rate_is_refused(blocks: list[list[float]]) -> None:
    with pytest.raises(ValueError, match=r"process"):
        estimated(blocks)


# --- few processes ------------------------------------------------------------------------------------------------------------


def test_one_block_of_one_process_tells_next_to_nothing() -> None:
    found = estimated([[100.0]])
    assert found.low <= 50
    assert found.high >= 200


def test_one_process_knows_its_blocks_and_nothing_of_other_processes() -> None:
    blocks = simulated(np.random.default_rng(5), count=5, between=0.1, within=0.01)
    assert width(estimated(blocks[:1])) < width(estimated(blocks)) / 3


def test_two_processes_that_differ_admit_how_little_two_are() -> None:
    """Student's t with one degree of freedom: the interval is several times the distance between the two."""
    found = estimated([[990.0] * 8, [1010.0] * 8])
    assert width(found) > 3 * 20


# --- how often it holds the truth ---------------------------------------------------------------------------------------------


def test_five_processes_hold_the_truth_nine_times_in_ten() -> None:
    """Processes differ by 3 %, blocks by 3 %: 0.95 in 400 rounds; by 10 % and 5 %: 0.91. 90 % is the promise."""
    found = coverage(250, estimated, count=5, between=0.03, within=0.03)
    assert 0.85 <= found <= 0.99


def test_three_processes_do_so_too() -> None:
    assert 0.82 <= coverage(250, estimated, count=3, between=0.1, within=0.05) <= 0.99


def test_blocks_taken_for_independent_ones_would_promise_too_much() -> None:
    """Why there are two levels: all blocks thrown together, as if each had come from a process of its own."""

    def thrown_together(blocks: list[list[float]]) -> Estimate:
        return estimated([[rate for process in blocks for rate in process]])

    assert coverage(150, thrown_together, count=5, between=0.03, within=0.03) < 0.65


def test_noisy_blocks_of_equal_processes_err_on_the_wide_side() -> None:
    assert coverage(150, estimated, count=5, between=0.0, within=0.1) >= 0.9

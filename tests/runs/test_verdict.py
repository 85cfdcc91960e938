"""What was seen -> the verdict: said only where the numbers carry it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.records import Estimate
from cs_input_analyzer.runs.verdict import (
    Clue,
    InputAlone,
    accelerator_rate,
    from_estimate,
    from_input_alone,
    from_wait,
    verdict_of,
)


def within(low: float, estimate: float, high: float) -> Estimate:
    return Estimate(estimate=estimate, low=low, high=high, count=9)


def exact(value: float | None) -> Estimate | None:
    return None if value is None else within(value * 0.99, value, value * 1.01)


@given(st.lists(st.floats(0.01, 100.0), max_size=6))
def test_opposite_clues_give_the_opposite_verdict(odds: list[float]) -> None:
    opposite = {"input_bound": "accelerator_bound", "accelerator_bound": "input_bound", "unknown": "unknown"}
    found = verdict_of(tuple(Clue(odds=value, says="") for value in odds))
    other = verdict_of(tuple(Clue(odds=1 / value, says="") for value in odds))
    assert opposite[found.name] == other.name
    assert (found.confidence is None) == (other.confidence is None) == (found.name == "unknown")
    assert found.confidence is None or found.confidence == pytest.approx(other.confidence)
    assert found.confidence is None or 0.8 <= found.confidence <= 0.99


@pytest.mark.parametrize(
    ("low", "estimate", "high", "expected"),
    [
        (0.3, 0.4, 0.5, "input_bound"),
        (0.10, 0.10, 0.10, "input_bound"),
        (0.09, 0.12, 0.15, "balanced"),
        (0.05, 0.07, 0.09, "balanced"),
        (0.0, 0.03, 0.08, "balanced"),
        (0.0, 0.01, 0.02, "accelerator_bound"),
        (0.0, 0.0, 0.0, "accelerator_bound"),
        (0.0, 0.2, 0.6, "unknown"),
        (0.04, 0.05, 0.1, "unknown"),
    ],
)
def test_the_whole_interval_of_a_wait_share_decides(low: float, estimate: float, high: float, expected: str) -> None:
    found = verdict_of((from_wait(within(low, estimate, high), steps=100),))
    assert (found.name, found.wait_ratio) == (expected, within(low, estimate, high))
    assert f"waited {estimate * 100:.0f} % of the time for input ({low * 100:.0f} % to {high * 100:.0f} %, over 100" in found.why


@pytest.mark.parametrize(
    ("share", "steps", "words"), [(None, 1000, "log("), (within(0.8, 0.8, 0.8), 4, "too few"), (None, 0, "no step")]
)
def test_what_was_hardly_seen_is_unknown_and_says_why(share: Estimate | None, steps: int, words: str) -> None:
    verdict = verdict_of((from_wait(share, steps=steps),))
    assert (verdict.name, verdict.wait_ratio) == ("unknown", share)
    assert words in verdict.why


@pytest.mark.parametrize(
    ("training", "alone", "is_overlapped", "expected"),
    [
        (980, 1000, True, "input_bound"),
        (500, 1000, True, "accelerator_bound"),
        (850, 1000, True, "balanced"),
        (500, 1000, False, "input_bound"),  # half of each step goes to the input
        (30, 1000, False, "accelerator_bound"),
        (70, 1000, False, "balanced"),
        (1500, 1000, True, "unknown"),
        (None, None, True, "unknown"),
        (None, 1000, True, "unknown"),
        (1000, None, True, "unknown"),
    ],
)
def test_training_beside_its_input_alone(training: float | None, alone: float | None, is_overlapped: bool, expected: str) -> None:
    given = InputAlone(samples_per_s=exact(alone), is_overlapped=is_overlapped, missing="not given")
    found = verdict_of((from_input_alone(exact(training), given),))
    assert found.name == expected
    if training is not None:
        assert (found.why == "not given") is (alone is None)


@pytest.mark.parametrize(("rate", "odds"), [(90, 0.1), (80, 1), (60, 2)])
def test_the_odds_of_a_rate_beside_its_estimate(rate: float, odds: float) -> None:
    """As docs/inspect_run.md has them: a low rate alone is never enough."""
    (clue,) = from_estimate(rate, 100.0, "it")
    assert clue.odds == pytest.approx(odds)
    assert verdict_of((clue,)).name == ("accelerator_bound" if rate == 90 else "unknown")


def test_what_an_accelerator_would_take_is_as_unsure_as_how_long_it_waited() -> None:
    found = accelerator_rate(within(90, 100, 110), within(0.4, 0.5, 0.6))
    assert (found.low, found.estimate, found.high) == pytest.approx((150, 200, 275))
    assert accelerator_rate(Estimate.exact(10), within(0.9, 0.95, 1.0)) is None

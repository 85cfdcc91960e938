"""From what was seen to a verdict: said only where the numbers carry it."""

from __future__ import annotations

import pytest

from cs_input_analyzer.monitoring.verdict import accelerator_rate, bottleneck_text, by_rates, by_wait
from cs_input_analyzer.records import Estimate
from wafer_model.performance_json import Performance


def within(low: float, estimate: float, high: float) -> Estimate:
    return Estimate(estimate=estimate, low=low, high=high, count=9)


def exact(value: float | None) -> Estimate | None:
    return None if value is None else within(value * 0.99, value, value * 1.01)


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
def test_the_whole_interval_decides(low: float, estimate: float, high: float, expected: str) -> None:
    found = by_wait(within(low, estimate, high), steps=100)
    assert found.name == expected
    assert f"waited {estimate * 100:.0f} % of the time for input ({low * 100:.0f} % to {high * 100:.0f} %, over 100" in found.why


@pytest.mark.parametrize(
    ("share", "steps", "words"), [(None, 1000, "log("), (within(0.8, 0.8, 0.8), 4, "too few"), (None, 0, "no step")]
)
def test_what_was_hardly_seen_is_unknown_and_says_why(share: Estimate | None, steps: int, words: str) -> None:
    verdict = by_wait(share, steps=steps)
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
    found = by_rates(exact(training), exact(alone), is_overlapped=is_overlapped, missing="not given")
    assert found.name == expected
    if training is not None:
        assert (found.why == "not given") is (alone is None)


@pytest.mark.parametrize(("low", "high", "expected"), [(0.3, 0.5, True), (0.0, 0.01, False), (0.06, 0.09, False), (0.0, 0.9, None)])
def test_the_text_for_performance_json_reads_back_as_what_it_says(low: float, high: float, expected: bool | None) -> None:
    text = bottleneck_text(by_wait(within(low, (low + high) / 2, high), steps=9))
    assessed = None if text == "Not Applicable" else text
    assert Performance(path="performance.json", suspected_input_bottleneck=assessed).is_input_bound is expected


def test_what_an_accelerator_would_take_is_as_unsure_as_how_long_it_waited() -> None:
    found = accelerator_rate(within(90, 100, 110), within(0.4, 0.5, 0.6))
    assert (found.low, found.estimate, found.high) == pytest.approx((150, 200, 275))
    assert accelerator_rate(Estimate.exact(10), within(0.9, 0.95, 1.0)) is None

"""Rate and GlobalRate: laws, and the numbers of a public log."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.runs import rates

TIMES = st.floats(min_value=1e-3, max_value=1e5)
COUNTS = st.integers(min_value=1, max_value=10**7)
POINTS = st.lists(st.tuples(COUNTS, TIMES), min_size=1, max_size=30)
FACTORS = st.floats(min_value=0, max_value=0.99)


def after(points: list[tuple[int, float]], smoothing: float = rates.SMOOTHING, start: float = 0.0) -> rates.Rates:
    """The rates after intervals of (samples, seconds)."""
    found, samples, now = rates.Rates(since_s=start, smoothing=smoothing), 0, start
    for gained, passed in points:
        samples, now = samples + gained, now + passed
        found = rates.sampled(found, samples, now)
    return found


def test_nothing_is_known_before_the_first_interval_and_samples_before_the_start_do_not_count() -> None:
    fresh = rates.Rates(since_s=10.0, total_samples=1000)
    assert (fresh.rate_per_s, fresh.global_per_s) == (None, None)
    found = rates.sampled(fresh, 1500, 11.0)
    assert (found.rate_per_s, found.global_per_s) == (500, 500)


def test_a_public_log_of_a_bert_run() -> None:
    """Steps 100 and 200 of a published R1.7 log: batch 1024, 11.123 s between the lines, Rate 7657.52 before."""
    found = rates.Rates(since_s=100.0, rate_per_s=7657.52, total_samples=102400, samples=102400, elapsed_s=13.3725)
    found = rates.sampled(found, 204800, 111.123)
    assert found.rate_per_s == pytest.approx(8586.60, rel=1e-4)


@given(POINTS, FACTORS)
def test_each_sampling_point_follows_the_definition(points: list[tuple[int, float]], smoothing: float) -> None:
    expected: float | None = None
    for count, time in points:
        expected = count / time if expected is None else (1 - smoothing) * count / time + smoothing * expected
    found = after(points, smoothing)
    assert found.rate_per_s == pytest.approx(expected, rel=1e-6)
    assert found.global_per_s == pytest.approx(sum(count for count, _ in points) / math.fsum(time for _, time in points), rel=1e-6)


@given(POINTS, st.floats(min_value=-1e6, max_value=-1e-6), COUNTS, TIMES)
def test_a_clock_set_back_adds_no_rate_and_the_next_interval_is_seen_right(
    points: list[tuple[int, float]], jump: float, count: int, time: float
) -> None:
    before = after(points, smoothing=0.0)
    back = rates.sampled(before, before.total_samples + 100, before.since_s + jump)
    assert (back.rate_per_s, back.global_per_s) == (before.rate_per_s, before.global_per_s)
    ahead = rates.sampled(back, back.total_samples + count, back.since_s + time)
    passed = ahead.since_s - back.since_s
    assert passed == 0 or ahead.rate_per_s == pytest.approx(count / passed, rel=1e-9)
    assert (
        rates.sampled(before, before.total_samples - 50, before.since_s + 1).rate_per_s == before.rate_per_s
    )  # a count that falls

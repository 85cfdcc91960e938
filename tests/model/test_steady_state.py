"""Laws of the rate estimate: what it must give whatever the arrivals look like."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.model.estimates import half_width_of_mean
from cs_input_analyzer.model.steady_state import batch_gap, rate_of, steady_window
from cs_input_analyzer.records import Estimate

gap_lists = st.lists(st.floats(1e-6, 10.0), min_size=1, max_size=400)


def stamps_of(gaps: Sequence[float] | np.ndarray) -> np.ndarray:
    return np.concatenate([[0.0], np.cumsum(gaps)])


def test_no_gap_no_window_few_keep_most_and_two_give_an_estimate_that_admits_knowing_little() -> None:
    assert steady_window(np.array([])) is steady_window(np.array([5.0])) is None
    assert steady_window(np.arange(10) * 0.01).first <= 1
    window = steady_window(np.array([0.0, 1.0, 3.0]))
    assert window.gap_s.high - window.gap_s.low > window.gap_s.estimate


@given(gap_lists)
def test_the_window_counts_intervals_and_not_fenceposts(gaps: list[float]) -> None:
    stamps = stamps_of(gaps)
    window = steady_window(stamps)
    end = window.first + window.batches
    assert end <= len(gaps)  # fills of a buffer end a window before the last batch
    assert window.window_s == pytest.approx(stamps[end] - stamps[window.first])
    assert window.gap_s.estimate == pytest.approx(window.window_s / window.batches)


@given(gap_lists, st.floats(1e-3, 1e3))
def test_scaling_time_scales_the_gap_and_its_interval(gaps: list[float], factor: float) -> None:
    one, other = steady_window(stamps_of(gaps)), steady_window(stamps_of([gap * factor for gap in gaps]))
    if one.first == other.first:  # rounding may move a tie between two equally good cuts
        assert other.gap_s.estimate == pytest.approx(one.gap_s.estimate * factor, rel=1e-6)


def test_a_constant_stream_is_cut_by_what_buffers_may_have_held_and_known_exactly() -> None:
    stamps_s = np.arange(1000) * 0.01
    window = steady_window(stamps_s)
    assert window.first == 20  # 0.2 s
    assert window.gap_s.high - window.gap_s.low < 1e-9
    assert steady_window(stamps_s, [50]) == window  # one pass that ends in it is no whole pass


@pytest.mark.parametrize(
    ("start", "steady", "spread"), [((0.1, 0.005, 60), 0.01, 0.001), ((2e-4, 0.0, 150), 0.01, 0.001)], ids=["slow", "full buffers"]
)
def test_a_start_that_is_not_steady_is_cut(start: tuple[float, float, int], steady: float, spread: float) -> None:
    draw = np.random.default_rng(0)
    gaps = np.concatenate([draw.normal(*start), draw.normal(steady, spread, 600)])
    window = steady_window(stamps_of(np.abs(gaps)))
    assert start[2] - 5 <= window.first <= start[2] + 30
    assert window.gap_s.estimate == pytest.approx(steady, rel=0.05)


def test_a_steady_noisy_stream_keeps_most_of_its_data() -> None:
    draw = np.random.default_rng(2)
    kept = [steady_window(stamps_of(draw.exponential(0.01, 500))).batches for _ in range(50)]
    assert np.mean(kept) > 0.75 * 500


def test_the_interval_covers_the_true_rate_about_nine_times_in_ten() -> None:
    draw = np.random.default_rng(3)
    gaps = [steady_window(stamps_of(draw.gamma(4.0, 0.0025, 640))).gap_s for _ in range(400)]
    hits = sum(gap.low <= 0.01 <= gap.high for gap in gaps)
    # 90 % nominal; a cut chosen on the same data costs a little. Below 80 % the interval would be a false promise.
    assert 0.80 <= hits / 400 <= 0.98


@given(st.floats(1e-6, 1e3), st.floats(0, 0.9), st.floats(1, 1e5))
def test_the_rate_is_the_reciprocal_with_its_ends_turned(gap: float, half_ratio: float, samples: float) -> None:
    rate = rate_of(Estimate(estimate=gap, low=gap * (1 - half_ratio), high=gap * (1 + half_ratio), count=9), samples)
    assert rate.estimate == pytest.approx(samples / gap)
    assert rate.low <= rate.estimate <= rate.high
    assert rate.count == 9


def test_gap_percentiles_keep_the_outlier() -> None:
    gap = batch_gap(np.array([0.01] * 99 + [5.0]))
    assert gap.p50 == 0.01
    assert gap.max == 5.0
    assert gap.p50 <= gap.p95 <= gap.p99 <= gap.max


@given(st.integers(2, 6), st.integers(2, 10), st.floats(0.25, 2.0))
def test_a_few_batches_that_lay_in_buffers_are_no_part_of_a_slow_rate(lay: int, came: int, gap_s: float) -> None:
    """As a worker of an eighth of a CPU shows them: too few for MSER-5."""
    window = steady_window(stamps_of([0.001] * (lay - 1) + [gap_s] * came))
    assert window.gap_s.estimate == pytest.approx(gap_s)


@given(st.integers(1, 40), st.integers(1, 60), st.floats(0.0, 5.0), st.integers(0, 59))
def test_short_passes_count_whole_with_what_each_of_them_waits_for_first(
    passes: int, batches: int, fill_s: float, more: int
) -> None:
    """A pass of `batches` batches, 10 ms each, after a buffer was filled; the run was cut in the middle of one more."""
    one_pass_s = [fill_s + 0.01] + [0.01] * (batches - 1)
    gaps_s = one_pass_s * (passes + 1) + one_pass_s[: more % batches]
    stamps_s = np.cumsum(gaps_s)
    window = steady_window(stamps_s, [batches * (number + 1) for number in range(passes + 1)])
    assert window.batches % batches == 0
    assert window.gap_s.estimate == pytest.approx(sum(one_pass_s) / batches)
    assert stamps_s[window.first] + window.window_s == pytest.approx(stamps_s[batches * (passes + 1) - 1])


def test_blocks_that_depend_on_each_other_are_joined_and_those_that_still_do_say_less() -> None:
    """A rate that drifts for longer than a block: eight of them are no eight observations."""
    drift = 1 + 0.1 * np.sin(np.linspace(0, 2 * np.pi, 4000))
    window = steady_window(stamps_of(0.01 * drift))
    assert window.lag1_autocorrelation > 0.25
    assert len(window.block_gap_s) == 8
    apart = half_width_of_mean(window.block_gap_s)
    factor = np.sqrt((1 + window.lag1_autocorrelation) / (1 - window.lag1_autocorrelation))
    assert window.gap_s.high - window.gap_s.estimate == pytest.approx(apart * factor)


@pytest.mark.parametrize(("fill_s", "batches", "passes"), [(2.0, 30, 3), (0.5, 12, 9), (3.0, 100, 2)])
@pytest.mark.parametrize("begun", [0, 7])
def test_unseen_passes_count_whole_with_the_fill_of_each(fill_s: float, batches: int, passes: int, begun: int) -> None:
    """A shuffle of everything behind which `repeat` hides the passes: a burst, then nothing while the buffer is filled."""
    one_pass = np.concatenate([[fill_s], np.full(batches - 1, 0.005)])
    gaps = np.concatenate([np.full(batches - 1 - begun, 0.005), *[one_pass] * passes, [fill_s], np.full(begun, 0.005)])
    window = steady_window(stamps_of(gaps))
    assert window.gap_s.estimate == pytest.approx(one_pass.mean())
    assert window.gap_s.high - window.gap_s.low < 0.01 * window.gap_s.estimate


def test_one_unseen_pass_is_no_sure_rate_and_not_that_of_its_burst() -> None:
    gaps = np.concatenate([np.full(40, 0.005), [2.0], np.full(40, 0.005)])
    window = steady_window(stamps_of(gaps))
    assert window.gap_s.estimate == pytest.approx(gaps[40:].mean())
    assert window.gap_s.high > 1.5 * window.gap_s.estimate


@pytest.mark.parametrize(
    "gaps",
    [
        np.concatenate([np.full(30, 0.2), np.full(400, 0.005)]),  # a slow start: long gaps that follow each other
        np.concatenate([np.full(200, 0.01), [0.3], np.full(200, 0.01)]),  # one pause in a steady stream
    ],
    ids=["slow start", "a pause"],
)
def test_a_slow_start_and_a_pause_are_no_passes(gaps: np.ndarray) -> None:
    window = steady_window(stamps_of(gaps))
    assert window.first + window.batches == len(gaps)

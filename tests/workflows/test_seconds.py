"""The budget of an analysis: no window takes what others need, nothing is left out silently, fixes get their time or none."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.records import Layout, Options
from cs_input_analyzer.workflows.probing.seconds import LEAST_FIXES_S, Seconds, shortest_round_s
from tests.fakes import FakeLauncher

budgets = st.floats(5, 3600)


def seconds_of(total_s: float, *, spent_s: float = 0.0, starting_s: float = 3.0, **options: bool) -> tuple[Seconds, FakeLauncher]:
    launcher = FakeLauncher(rate=lambda layout, count, index: 1000.0, import_s=starting_s, clock_s=100.0)
    seconds = Seconds(Options(max_seconds=total_s, **options), launcher)  # type: ignore[arg-type]
    launcher.clock_s += spent_s
    return seconds, launcher


@given(budgets, st.floats(0, 1), st.integers(1, 8), st.floats(0, 5))
def test_windows_of_all_launches_fit_into_what_is_left(total_s: float, spent: float, launches: int, gap_s: float) -> None:
    seconds, _ = seconds_of(total_s, spent_s=spent * total_s)
    window_s = seconds.window_s(launches, 0.0, math.inf, slowest_gap_s=gap_s, is_first=False)
    shortest_s = seconds.window_s(launches, 0.0, 0.0, slowest_gap_s=0.0, is_first=False)
    assert window_s > 0
    assert window_s == shortest_s or launches * window_s <= seconds.left_s or window_s <= 1.0  # the least that tells anything


@given(budgets, st.floats(0.01, 5), st.floats(1.1, 4))
def test_slower_batches_never_get_shorter_windows(total_s: float, gap_s: float, slower: float) -> None:
    seconds, _ = seconds_of(total_s)
    one, other = (seconds.window_s(3, 0.0, 2.5, slowest_gap_s=each, is_first=False) for each in (gap_s, gap_s * slower))
    assert one <= other


@given(budgets)
def test_tuning_keeps_two_fifths_of_its_time_for_fixes_from_the_beginning(total_s: float) -> None:
    launcher = FakeLauncher(rate=lambda layout, count, index: 1000.0, import_s=3.0, clock_s=100.0)
    seconds = Seconds(Options(max_seconds=total_s), launcher, is_tuning=True)
    seconds.keep_for_fixes()
    kept_s = total_s - seconds.left_s
    assert math.isclose(kept_s, 0.4 * total_s) or kept_s < 1e-9
    assert kept_s > 0 or total_s < 40
    assert math.isclose(seconds.probes_deadline_s, seconds.deadline_s - kept_s)
    seconds.keep_nothing_for_fixes()
    assert math.isclose(seconds.left_s, total_s)


@given(budgets, st.floats(0, 1))
def test_time_kept_for_fixes_is_taken_from_the_rest_and_is_enough_for_one(total_s: float, spent: float) -> None:
    seconds, _ = seconds_of(total_s, spent_s=spent * total_s / 2)
    before_s, fixes_s = seconds.left_s, seconds.left_for_fixes_s
    seconds.keep_for_fixes()
    assert seconds.left_for_fixes_s == fixes_s or math.isclose(seconds.left_for_fixes_s, fixes_s)
    kept_s = before_s - seconds.left_s
    assert kept_s <= total_s / 3 * (1 + 1e-9)
    assert kept_s == 0 or kept_s > LEAST_FIXES_S


def test_no_time_is_kept_for_fixes_that_nobody_wants() -> None:
    wanted, _ = seconds_of(120)
    unwanted, _ = seconds_of(120, measure_fixes=False)
    wanted.keep_for_fixes()
    unwanted.keep_for_fixes()
    assert unwanted.left_s == 120 > wanted.left_s


@given(budgets)
def test_the_storage_gets_a_small_share_or_nothing(total_s: float) -> None:
    seconds, launcher = seconds_of(total_s)
    assert 0 < seconds.left_for_storage_s <= max(3.0, total_s / 10)
    launcher.clock_s += total_s - 1.0
    assert seconds.left_for_storage_s == 0


def test_what_was_left_out_is_told_once_and_in_order() -> None:
    seconds, launcher = seconds_of(60)
    for what in ("a plan", "the storage", "a plan"):
        seconds.leave_out(what)
    seconds.probes_s, seconds.transient_s = 5.0, 2.0
    launcher.clock_s += 7.0
    budget = seconds.budget()
    assert budget.not_measured == ("a plan", "the storage")
    assert (budget.probes_s, budget.transient_s, budget.total_s) == (3.0, 2.0, 7.0)


def test_a_round_takes_as_long_as_its_workers_take_to_start_and_a_window_for_each_layout() -> None:
    _, launcher = seconds_of(60)
    one, two = Layout.parse("1x1x1"), Layout.parse("1x2x1")
    assert shortest_round_s([one, two], launcher) > shortest_round_s([one], launcher) > launcher.starting_s(1)

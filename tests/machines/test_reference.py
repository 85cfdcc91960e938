"""The reference loop: the same work every time, its median time, and the ratio that it gives."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cs_input_analyzer.machines.reference import RUNS, STEPS, Reference, speed_ratio, spin, time_reference

times = st.floats(1e-6, 1e3)


def clock_of(*runs_s: float) -> list[float]:
    """Readings of a clock at the beginning and the end of each run."""
    readings, now_s = [], 100.0
    for run_s in runs_s:
        readings += [now_s, now_s + run_s]
        now_s += run_s + 1.0  # what passes between two runs is nobody's
    return readings


@given(st.integers(0, 200), st.integers(0, 200), st.integers(0, 2**64 - 1))
def test_every_step_depends_on_the_one_before(some: int, more: int, seed: int) -> None:
    assert spin(some + more, seed) == spin(more, spin(some, seed))


def test_no_two_steps_are_the_same_work() -> None:
    assert len({spin(steps) for steps in range(1000)}) == 1000


@settings(max_examples=15)  # each runs the loop
@given(st.lists(times, min_size=RUNS, max_size=RUNS), st.lists(times, min_size=RUNS, max_size=RUNS))
def test_it_tells_the_median_of_each_clock(cpu: list[float], wall: list[float]) -> None:
    found = time_reference(iter(clock_of(*cpu)).__next__, iter(clock_of(*wall)).__next__)
    assert found.cpu_s == pytest.approx(sorted(cpu)[RUNS // 2], abs=1e-9)
    assert found.wall_s == pytest.approx(sorted(wall)[RUNS // 2], abs=1e-9)


def test_one_run_that_was_hit_changes_nothing() -> None:
    calm = [0.003] * RUNS
    hit = [0.003] * (RUNS - 1) + [5.0]
    same = iter(clock_of(*calm)).__next__
    assert time_reference(iter(clock_of(*hit)).__next__, same).cpu_s == pytest.approx(0.003)


def test_the_real_clocks_move() -> None:
    assert STEPS > 0
    found = time_reference()
    assert found.cpu_s > 0
    assert found.wall_s > 0


@given(times, times)
def test_twice_the_time_is_half_the_speed(cpu_s: float, wall_s: float) -> None:
    start = Reference(cpu_s=cpu_s, wall_s=wall_s)
    assert speed_ratio(start, start) == 1
    ratio = speed_ratio(start, Reference(cpu_s=2 * cpu_s, wall_s=wall_s))
    assert ratio == pytest.approx(0.5)


@given(times, times)
def test_there_and_back_is_where_one_was(one_s: float, other_s: float) -> None:
    one, other = Reference(cpu_s=one_s, wall_s=1.0), Reference(cpu_s=other_s, wall_s=1.0)
    there, back = speed_ratio(one, other), speed_ratio(other, one)
    assert there is not None
    assert back is not None
    assert math.isclose(there * back, 1, rel_tol=1e-9)


def test_waiting_for_a_cpu_is_not_slowness() -> None:
    assert speed_ratio(Reference(cpu_s=0.003, wall_s=0.003), Reference(cpu_s=0.003, wall_s=0.3)) == 1


def test_a_clock_that_stands_still_gives_no_ratio() -> None:
    still, good = Reference(cpu_s=0.0, wall_s=1.0), Reference(cpu_s=1.0, wall_s=1.0)
    assert speed_ratio(still, good) is None
    assert speed_ratio(good, still) is None

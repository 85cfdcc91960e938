"""The reference loop: the same work every time, its median time, and the ratio that it gives."""

from __future__ import annotations

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


def test_the_real_clocks_move() -> None:
    assert STEPS > 0
    found = time_reference()
    assert found.cpu_s > 0
    assert found.wall_s > 0


@given(times, times, st.floats(0.01, 100), times)
def test_the_ratio_is_that_of_the_cpu_times_whatever_the_waiting(
    cpu_s: float, wall_s: float, times_longer: float, other_s: float
) -> None:
    start = Reference(cpu_s=cpu_s, wall_s=wall_s)
    end = Reference(cpu_s=cpu_s * times_longer, wall_s=other_s)
    assert speed_ratio(start, end) == pytest.approx(1 / times_longer)


def test_a_clock_that_stands_still_gives_no_ratio() -> None:
    still, good = Reference(cpu_s=0.0, wall_s=1.0), Reference(cpu_s=1.0, wall_s=1.0)
    assert speed_ratio(still, good) is None
    assert speed_ratio(good, still) is None

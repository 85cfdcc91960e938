"""The reference loop: the same work every time, and how fast it runs undisturbed."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.host.reference import LEAST_LOOPS, SpeedWatch, spin, undisturbed_s


@given(st.integers(0, 200), st.integers(0, 200), st.integers(0, 2**64 - 1))
def test_every_step_depends_on_the_one_before(some: int, more: int, seed: int) -> None:
    assert spin(some + more, seed) == spin(more, spin(some, seed))
    assert len({spin(steps, seed) for steps in range(100)}) == 100


@given(st.floats(1e-6, 1e-2), st.integers(LEAST_LOOPS, 200), st.integers(0, 100), st.floats(1.2, 10))
def test_loops_that_something_slowed_down_do_not_count(loop_s: float, good: int, slow: int, times_longer: float) -> None:
    assert undisturbed_s([loop_s] * (LEAST_LOOPS - 1)) is None
    if good >= slow:  # else too little is left of the fast ones
        assert undisturbed_s([loop_s] * good + [loop_s * times_longer] * slow) == pytest.approx(loop_s)


def test_a_watch_counts_the_cpu_time_of_its_own_loops() -> None:
    watch = SpeedWatch()
    assert watch.total() == (0, 0)
    watch.start()
    until_s = time.monotonic() + 20
    while watch.total()[1] < LEAST_LOOPS and time.monotonic() < until_s:
        time.sleep(0.05)
    watch.stop()
    seconds, loops = watch.total()
    assert loops >= LEAST_LOOPS
    found = undisturbed_s(watch.loops_s())
    assert 0 < found <= seconds / loops * 1.001

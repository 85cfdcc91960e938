"""How long the accelerator stood still, from what its host could see, beside what a simulated accelerator truly did."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.monitoring import waiting
from cs_input_analyzer.monitoring.phases import Step
from cs_input_analyzer.monitoring.waiting import Interval, OpenInterval
from cs_input_analyzer.stats import estimates
from tests.monitoring.loops import MS, FakeClock, Loop, loop_of

TIMES = st.floats(min_value=0.1 * MS, max_value=100 * MS)


def watched(loop: Loop, *, sync_every: int) -> list[Interval]:
    """The intervals that a host sees of this loop; the truth is then in `loop.starved_s`."""
    clock, open_interval, found = loop.clock, OpenInterval(), []
    asked = clock.now_s
    for index, _ in enumerate(loop, start=1):
        got = clock.now_s
        loop.train()
        is_sync = index % sync_every == 0
        if is_sync:
            loop.synchronise()
        step = Step(asked_s=asked, wait_s=got - asked, body_s=clock.now_s - got, samples=8, ended_by="sync" if is_sync else "next")
        closed = waiting.add(open_interval, step, "steady")
        if closed is not None:
            found.append(closed)
        asked = clock.now_s
    return found


@given(st.lists(TIMES, min_size=1, max_size=80), TIMES, st.integers(min_value=1, max_value=20))
def test_the_share_is_the_truth_of_a_loop_that_runs_ahead(waits: list[float], compute: float, every: int) -> None:
    waits = waits[: len(waits) // every * every]
    loop = Loop(clock=FakeClock(), waits_s=waits, compute_s=[compute] * len(waits))
    share = waiting.wait_share(watched(loop, sync_every=every))
    if not waits:
        assert share is None
        return
    assert share.estimate == pytest.approx(loop.starved_s / loop.clock.now_s, abs=1e-6)
    assert share.count == len(waits) // every
    if every == 1:
        assert loop.starved_s == pytest.approx(math.fsum(waits), rel=1e-6)


@given(st.lists(st.tuples(TIMES, TIMES), min_size=1, max_size=60), st.integers(min_value=1, max_value=10))
def test_a_share_lies_in_its_interval_and_is_no_more_than_the_host_waited(pairs: list[tuple[float, float]], every: int) -> None:
    loop = Loop(clock=FakeClock(), waits_s=[wait for wait, _ in pairs], compute_s=[compute for _, compute in pairs])
    intervals = watched(loop, sync_every=every)
    for starved, interval in zip(waiting.starved_s(intervals), intervals, strict=True):
        assert 0 <= starved <= interval.wait_s
    share = waiting.wait_share(intervals)
    if share is None:
        assert len(pairs) < every
        return
    assert 0 <= share.low <= share.estimate <= share.high <= 1
    if len(intervals) < waiting.ENOUGH_BLOCKS:
        assert share.high <= sum(one.wait_s for one in intervals) / sum(one.duration_s for one in intervals) + 1e-6


def test_few_intervals_of_several_steps_leave_room_for_their_accelerator_time() -> None:
    few = waiting.wait_share(watched(loop_of(20 * MS, 10 * MS, 50), sync_every=50))
    many = waiting.wait_share(watched(loop_of(20 * MS, 10 * MS, 500), sync_every=50))
    assert few.low < many.low - 0.05
    assert few.low > 0.3  # and yet one is enough to call what starves half of the time


def test_noise_widens_the_interval() -> None:
    steady, jumpy = loop_of(10 * MS, 10 * MS, 60), loop_of(10 * MS, 10 * MS, 60)
    jumpy.waits_s = [(1 if index % 3 else 28) * MS for index in range(60)]
    even, uneven = (waiting.wait_share(watched(loop, sync_every=1)) for loop in (steady, jumpy))
    assert even.high - even.low < 1e-9
    assert uneven.high - uneven.low > 0.05


@pytest.mark.parametrize(
    ("phases", "waits", "bodies", "expected"),
    [
        (("checkpoint", "steady"), (0.01, 0.01), (5.0, 0.01), None),  # does not count, nor does its spike
        (("spike", "steady"), (0.01, 0.01), (5.0, 0.01), None),
        (("steady",), (None,), (0.01,), None),  # its wait is out of sight
        (("steady", "epoch_edge", "steady"), (0.01, 7.0, 0.01), (0.01, 0.01, 0.01), (0.05, 0.02)),  # the wait of a pass is cut out
        (("start_up", "steady"), (9.0, 0.01), (30.0, 0.03), (0.04, 0.01)),  # what follows counts
    ],
)
def test_what_is_no_steady_step_is_left_out(
    phases: Sequence[str], waits: Sequence[float | None], bodies: Sequence[float], expected: tuple[float, float] | None
) -> None:
    open_interval, asked = OpenInterval(), 0.0
    endings = ["next"] * (len(phases) - 1) + ["sync"]
    for phase, wait_s, body_s, ended_by in zip(phases, waits, bodies, endings, strict=True):
        step = Step(asked_s=asked, wait_s=wait_s, body_s=body_s, ended_by=ended_by)
        closed, asked = waiting.add(open_interval, step, phase), asked + step.duration_s
    assert (closed and (closed.duration_s, closed.wait_s)) == (expected and pytest.approx(expected))


def test_a_spoilt_interval_does_not_count_and_the_next_one_does() -> None:
    open_interval = OpenInterval()
    waiting.add(open_interval, Step(asked_s=0.0, wait_s=0.01, body_s=0.01), "steady")
    open_interval.is_sound = False
    spoilt = waiting.add(open_interval, Step(asked_s=0.02, wait_s=0.01, body_s=0.01, ended_by="sync"), "steady")
    sound = waiting.add(open_interval, Step(asked_s=0.04, wait_s=0.01, body_s=0.01, ended_by="sync"), "steady")
    assert (spoilt, sound.steps) == (None, 1)


def test_an_interval_without_end_keeps_to_a_bounded_memory() -> None:
    open_interval = OpenInterval()
    for index in range(3 * waiting.KEPT_DISPATCHES):
        waiting.add(open_interval, Step(asked_s=index * 0.02, wait_s=0.01, body_s=0.01), "steady")
        assert len(open_interval.dispatches) <= waiting.KEPT_DISPATCHES
    assert open_interval.steps == 3 * waiting.KEPT_DISPATCHES


def test_quantiles_are_those_of_student_s_t() -> None:
    for degrees in range(waiting.ENOUGH_BLOCKS - 1, waiting.MOST_BLOCKS):
        assert waiting.student_t(degrees) == pytest.approx(estimates.student_t(degrees), rel=1e-3)

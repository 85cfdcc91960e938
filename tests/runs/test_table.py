"""The step table: how long a simulated accelerator stood still, and which gaps are lost time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cs_input_analyzer.runs.table import CHECKPOINT, Interval, Kind, intervals_of, kinds_of, monitored, usual_pace_s
from tests.runs.loops import MS, FakeClock, Loop, loop_of, monitor_of, train

TIMES = st.floats(min_value=0.1 * MS, max_value=100 * MS)


@settings(deadline=None)
@given(st.lists(TIMES, min_size=2, max_size=80), TIMES, st.integers(min_value=1, max_value=20))
def test_the_share_is_the_truth_of_a_loop_that_runs_ahead(waits: list[float], compute: float, every: int) -> None:
    """The first step is left out: its wait is none of a steady run."""
    waits = [0.0, *waits[: len(waits) // every * every]]
    loop = Loop(clock=FakeClock(), waits_s=waits, compute_s=[compute] * len(waits))
    monitor = monitor_of(loop, log_every=0)
    for step, _ in enumerate(monitor):
        loop.train()
        if step % every == 0:
            loop.synchronise()
            monitor.sync()
    share = monitor.summary().verdict.wait_ratio
    if len(waits) == 1:
        assert share is None
        return
    assert share.estimate == pytest.approx(loop.starved_s / (loop.clock.now_s - compute), abs=1e-6)
    assert 0 <= share.low <= share.estimate <= share.high <= 1
    assert share.count == (len(waits) - 1) // every


def test_few_intervals_of_several_steps_leave_room_for_their_accelerator_time() -> None:
    def share(batches: int) -> float:
        loop = loop_of(20 * MS, 10 * MS, batches)
        return train(loop, monitor_of(loop), sync_every=50).summary().verdict.wait_ratio.low

    assert 0.3 < share(100) < share(1000) - 0.05  # one is enough to call what starves half of the time


def test_noise_widens_the_interval() -> None:
    even, uneven = loop_of(10 * MS, 10 * MS, 61), loop_of(10 * MS, 10 * MS, 61)
    uneven.waits_s = [(1 if index % 3 else 28) * MS for index in range(61)]
    widths = []
    for loop in (even, uneven):
        share = train(loop, monitor_of(loop), sync_every=1).summary().verdict.wait_ratio
        widths.append(share.high - share.low)
    assert widths[0] < 1e-9
    assert widths[1] > 0.05


def rows(seconds: Sequence[float], marked: Sequence[int] = (), wait_s: float = 0.0) -> list[Interval]:
    """Intervals of ten steps, one after the other, with a checkpoint in those at the `marked` places."""
    return [
        Interval(sum(seconds[:place]), length, 10, 10 * place, CHECKPOINT if place in marked else 0, place > 0, wait_s)
        for place, length in enumerate(seconds)
    ]


@pytest.mark.parametrize(
    ("seconds", "marked", "kinds"),
    [
        ([2.0] * 9, (), [Kind.PLAIN] * 9),
        ([2.0] * 9 + [30.0] + [2.0] * 5, (), [Kind.PLAIN] * 9 + [Kind.LOST] + [Kind.PLAIN] * 5),
        (
            [2.0] * 9 + [8.0] + [0.5] * 4 + [2.0] * 5,
            (),
            [Kind.PLAIN] * 9 + [Kind.READ_LATE] + [Kind.LEFT_OUT] * 4 + [Kind.PLAIN] * 5,
        ),
        ([2.0] * 9 + [30.0] + [2.0] * 5, (9,), [Kind.PLAIN] * 9 + [Kind.EXPLAINED] + [Kind.PLAIN] * 5),
        ([2.0] * 9 + [30.0], (), [Kind.PLAIN] * 9 + [Kind.LEFT_OUT]),  # nobody saw what came after it
        ([2.0] * 9 + [8.0] + [0.5], (), [Kind.PLAIN] * 9 + [Kind.READ_LATE] + [Kind.LEFT_OUT]),  # nor how long the burst was
    ],
    ids=["even", "lost", "read late", "a checkpoint", "the last one", "an open burst"],
)
def test_a_gap_is_lost_or_read_late_or_explained(seconds: list[float], marked: Sequence[int], kinds: list[Kind]) -> None:
    table = intervals_of(rows(seconds, marked))
    assert usual_pace_s(table) == pytest.approx(0.2)
    assert list(kinds_of(table, 0.2)) == kinds


@pytest.mark.parametrize(
    ("seconds", "wait_s", "left_out"),
    [
        ([1.0] * 9 + [5.0] + [1.0] * 9, 0.0, {9}),
        ([0.02] * 9 + [0.1] + [0.02] * 9, 0.0, set()),  # a hiccup of a busy host
        ([2.0] * 9 + [4.0] + [2.0] * 9, 1.5, {9}),  # only the wait was long before
        ([0.02, 5.0] * 9, 0.0, set()),  # a loop that works so
    ],
)
def test_a_monitor_leaves_out_gaps_that_are_no_wait_for_input(seconds: list[float], wait_s: float, left_out: set[int]) -> None:
    counts = monitored(intervals_of(rows(seconds, wait_s=wait_s)))
    assert {place for place, is_counted in enumerate(counts) if not is_counted} == left_out

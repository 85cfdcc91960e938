"""Time around the steady state: laws, and two public traces."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wafer_model import WaferModelError
from wafer_model.time_model import (
    Schedule,
    arrivals_s,
    average_samples_per_s,
    rate_trace,
    schedule_of,
    start_up_s,
    total_s,
)

# github.com/argonne-lcf/user-guides, Cerebras example programs: DiT on a CS-3, 2025-10-13, checkpoint of 181 s at step 200.
DIT = Schedule(samples_per_s=876.45, batch_size=1168, checkpoint_every_steps=200, checkpoint_s=181.2)
DIT_LOG = {200: (865.66, 876.45), 220: (5970.06, 569.10), 260: (5957.36, 661.65), 340: (6088.11, 837.85), 380: (870.69, 875.25)}

laws = settings(max_examples=60, deadline=None)
schedules = st.builds(
    Schedule,
    samples_per_s=st.floats(1, 1e6),
    batch_size=st.integers(1, 4096),
    compile_s=st.floats(0, 1e4),
    programming_s=st.floats(0, 1e3),
    priming_s=st.floats(0, 1e3),
    fill_s=st.floats(0, 10),
    checkpoint_every_steps=st.integers(0, 40),
    checkpoint_s=st.floats(100, 500),
    stall_s=st.floats(0, 100),
)


def test_the_spike_after_a_public_checkpoint_is_reproduced() -> None:
    """Rate leaps to what the network fetches, GlobalRate dips and heals, for the wafer went on."""
    trace = {point.step: point for point in rate_trace(DIT, 400, log_every=20, sample_every=1)}
    for step, (rate, global_rate) in DIT_LOG.items():
        assert trace[step].global_rate == pytest.approx(global_rate, rel=0.002)
        assert trace[step].rate == pytest.approx(rate, rel=0.05)


def test_the_smoothing_is_that_of_a_public_log() -> None:
    """BERT-large, R1.7.1: 100 steps of 1,024 in 11.123 s after a Rate of 7,657.52 were logged as 8,586.60."""
    first_s = 102400 / 7657.52
    slow = Schedule(samples_per_s=102400 / first_s, batch_size=102400)
    fast = Schedule(samples_per_s=102400 / 11.123, batch_size=102400)
    before, local = rate_trace(slow, 1)[0].rate, rate_trace(fast, 1)[0].rate
    assert 0.6 * local + 0.4 * before == pytest.approx(8586.60, abs=0.2)


@laws
@given(schedules, st.integers(1, 120))
def test_outputs_arrive_in_order_and_never_before_they_are_made(schedule: Schedule, steps: int) -> None:
    times = arrivals_s(schedule, steps)
    assert len(times) == steps
    assert all(later > earlier for earlier, later in zip((0.0, *times), times, strict=False))
    for step, now in enumerate(times, start=1):
        assert now >= schedule.fill_s + step * schedule.step_s * (1 - 1e-9)


@laws
@given(schedules, st.integers(1, 120), st.integers(1, 10))
def test_the_global_rate_is_samples_over_time_and_below_the_wafers(schedule: Schedule, steps: int, every: int) -> None:
    times = arrivals_s(schedule, steps)
    for point in rate_trace(schedule, steps, log_every=every):
        assert point.step % every == 0
        assert point.elapsed_s == times[point.step - 1]
        assert point.global_rate == pytest.approx(point.step * schedule.batch_size / point.elapsed_s)
        assert point.global_rate <= schedule.samples_per_s * (1 + 1e-9)


@laws
@given(st.floats(1, 1e6), st.integers(1, 4096), st.integers(1, 50), st.floats(0, 0.99))
def test_a_steady_run_shows_one_rate(rate: float, batch_size: int, steps: int, smoothing: float) -> None:
    for point in rate_trace(Schedule(samples_per_s=rate, batch_size=batch_size), steps, smoothing=smoothing):
        assert point.rate == pytest.approx(rate, rel=1e-6)
        assert point.global_rate == pytest.approx(rate, rel=1e-6)


@laws
@given(schedules, st.integers(1, 60))
def test_more_checkpoints_and_start_up_only_cost_time(schedule: Schedule, steps: int) -> None:
    bare = Schedule(samples_per_s=schedule.samples_per_s, batch_size=schedule.batch_size)
    assert total_s(schedule, steps) >= total_s(bare, steps) + start_up_s(schedule) - 1e-6
    assert average_samples_per_s(schedule, steps) <= schedule.samples_per_s * (1 + 1e-9)


def test_a_wafer_that_stands_still_loses_what_a_streaming_one_keeps() -> None:
    arguments = {"samples_per_s": 1000.0, "batch_size": 100, "parameters": 10**9, "checkpoint_every_steps": 2000}
    pipelined, streaming = (schedule_of(mode=mode, **arguments) for mode in ("pipelined", "weight_streaming"))  # type: ignore[arg-type]
    assert pipelined.checkpoint_s == streaming.checkpoint_s == pytest.approx(60.0)
    assert (pipelined.stall_s, streaming.stall_s) == (pipelined.checkpoint_s, 0.0)
    lost = arrivals_s(pipelined, 10_000)[-1] - arrivals_s(streaming, 10_000)[-1]
    assert lost == pytest.approx(4 * 60.0, rel=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        {"samples_per_s": 0.0},
        {"samples_per_s": float("nan")},
        {"batch_size": 0},
        {"compile_s": -1.0},
        {"checkpoint_s": float("nan")},
        {"stall_s": 5.0},
        {"fetch_speed_up": 1.0},
        {"checkpoint_every_steps": -1},
    ],
)
def test_a_schedule_that_cannot_be_is_refused(change: dict[str, float]) -> None:
    with pytest.raises(WaferModelError):
        Schedule(**{"samples_per_s": 10.0, "batch_size": 1, **change})  # type: ignore[arg-type]


def test_steps_modes_and_smoothing_that_cannot_be_are_refused() -> None:
    schedule = Schedule(samples_per_s=10.0, batch_size=1)
    with pytest.raises(WaferModelError, match="at least one step"):
        arrivals_s(schedule, 0)
    for bad in ({"log_every": 0}, {"sample_every": 0}, {"smoothing": 1.0}):
        with pytest.raises(WaferModelError):
            rate_trace(schedule, 5, **bad)  # type: ignore[arg-type]
    with pytest.raises(WaferModelError, match="unknown mode"):
        schedule_of(samples_per_s=1, batch_size=1, parameters=1, mode="sideways")

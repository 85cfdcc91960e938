"""A clock that somebody sets: an hour forwards or backwards, while batches are stamped by it. The clock is invented."""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.worker import steady_clock
from cs_input_analyzer.worker.steady_clock import LEAST_JUMP_S, SteadyStamps

HOUR_S = 3600.0
# Of the sums of some thousand seconds.
TOLERANCE_S = 1e-6


@dataclass(slots=True)
class Host:
    """The time since it was started, and the clock that is set."""

    passed_s: float = 1000.0
    clock_s: float = 1.7e9

    def go_on(self, seconds: float) -> None:
        self.passed_s += seconds
        self.clock_s += seconds

    @property
    def time(self) -> Any:
        """In place of the module."""
        return SimpleNamespace(time=lambda: self.clock_s, monotonic=lambda: self.passed_s)


def steady_and_true(gaps_s: list[float], look_every: int, jumps_s: dict[int, float]) -> tuple[list[float], list[float]]:
    """Stamps as they become steady, and the true times, of batches that come after these gaps. Before batches of some numbers the
    clock jumps. `look_every`: batches between two looks."""
    host = Host()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steady_clock, "time", host.time)
        patch.setattr(steady_clock, "_EPOCH_S", 0.0)
        made, waiting, steady, true = SteadyStamps(), list[float](), list[float](), list[float]()
        for number, gap_s in enumerate(gaps_s):
            host.go_on(gap_s)
            host.clock_s += jumps_s.get(number, 0.0)
            true.append(host.passed_s)
            waiting.append(host.clock_s)
            if (number + 1) % look_every == 0:
                steady += made.steady(np.array(waiting)).tolist()
                waiting.clear()
        return [*steady, *made.steady(np.array(waiting)).tolist()], true


@given(
    st.lists(st.floats(0.0, 5.0), min_size=1, max_size=60),
    st.integers(1, 20),
    st.dictionaries(st.integers(0, 59), st.sampled_from([HOUR_S, -HOUR_S, 86400.0, -600.0, 60.0]), max_size=1),
)
def test_gaps_are_true_whatever_one_jump_does_to_the_clock(gaps_s: list[float], every: int, jumps_s: dict[int, float]) -> None:
    steady, true = steady_and_true(gaps_s, every, jumps_s)
    assert np.allclose(np.diff(steady), np.diff(true), atol=TOLERANCE_S)


@given(st.lists(st.floats(0.001, 0.1), min_size=30, max_size=60), st.sampled_from([HOUR_S, -HOUR_S]))
def test_a_clock_that_is_set_and_set_back_later_is_followed(gaps_s: list[float], jump_s: float) -> None:
    steady, true = steady_and_true(gaps_s, 5, {7: jump_s, 22: -jump_s})
    assert np.allclose(np.diff(steady), np.diff(true), atol=TOLERANCE_S)


@given(st.lists(st.floats(0.0, 5.0), min_size=1, max_size=30), st.integers(1, 10), st.floats(-LEAST_JUMP_S / 2, LEAST_JUMP_S / 2))
def test_stamps_of_a_clock_that_is_only_turned_stay_as_they_are(gaps_s: list[float], every: int, turned_s: float) -> None:
    half = len(gaps_s) // 2
    steady, true = steady_and_true(gaps_s, every, {half: turned_s})
    stamped = [at_s + (turned_s if number >= half else 0.0) for number, at_s in enumerate(true)]
    assert np.allclose(np.diff(steady), np.diff(stamped), atol=TOLERANCE_S)


def test_it_is_the_hosts_clock_while_nobody_sets_that() -> None:
    assert abs(steady_clock.now_s() - time.time()) < 1.0
    assert abs(steady_clock.ahead_s()) < 1.0


@pytest.mark.tf
@pytest.mark.parametrize("jump_s", [HOUR_S, -HOUR_S, -0.3])
@pytest.mark.parametrize("has_end", [False, True])
def test_the_loop_goes_on_for_its_time_when_the_clock_jumps(jump_s: float, has_end: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forwards its time would be over at once, backwards not for an hour."""
    import tensorflow as tf

    from cs_input_analyzer.worker.sampling import SamplingLoop

    set_by_s, real, given_count = [0.0], time.time, [0]
    monkeypatch.setattr(time, "time", lambda: real() + set_by_s[0])
    monkeypatch.setattr(
        tf, "timestamp", lambda: tf.ensure_shape(tf.numpy_function(lambda: np.float64(time.time()), [], tf.float64), [])
    )

    def numbers() -> Any:
        while not has_end or given_count[0] < 60:
            given_count[0] += 1
            if given_count[0] == 5:
                set_by_s[0] = jump_s
            time.sleep(0.005)
            yield given_count[0]

    dataset = tf.data.Dataset.from_generator(numbers, output_signature=tf.TensorSpec([], tf.int64))
    loop, iterator = SamplingLoop(), iter(dataset)
    loop(iterator, 0)  # traces it
    began_s = time.monotonic()
    chunk = loop(iterator, until_s=steady_clock.now_s() + (60.0 if has_end else 0.5))
    lasted_s = time.monotonic() - began_s
    assert chunk.error is None
    assert chunk.ended is has_end
    assert len(chunk.stamps_s) == 60 if has_end else len(chunk.stamps_s) > 10
    assert np.diff(chunk.stamps_s).min() >= 0
    assert chunk.stamps_s[-1] - chunk.stamps_s[0] <= lasted_s
    assert lasted_s < 50  # of an endless loop, not of a time

"""What kind of time a step was: found where it is there, silent where it only looks so."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.monitoring import phases
from cs_input_analyzer.monitoring.phases import History, Phase, Step


def steps(bodies: Iterable[float], *, wait: float = 0.001, ended_by: phases.EndedBy = "next") -> list[Step]:
    now, made = 0.0, []
    for body in bodies:
        made.append(Step(asked_s=now, wait_s=wait, body_s=body, ended_by=ended_by, is_first=not made))
        now += wait + body
    return made


def labels(run: Iterable[Step]) -> list[Phase]:
    history, found = History(), []
    for step in run:
        phase, history = phases.label(history, step)
        found.append(phase)
    return found


@given(st.lists(st.floats(min_value=0.01, max_value=0.049), min_size=1, max_size=80))
def test_an_uneven_run_without_pauses_is_steady(bodies: list[float]) -> None:
    assert set(labels(steps(bodies))[1:]) <= {"steady"}


@given(st.integers(min_value=8, max_value=60), st.floats(min_value=1.1, max_value=20))
def test_a_pause_is_found_once_enough_steps_were_seen(before: int, factor: float) -> None:
    pause = 0.1 * phases.PAUSE_RATIO * factor
    run = steps([0.1] * (before + 200) + [pause] + [0.1] * 3)
    found = labels(run)
    assert found[before + 200] == "checkpoint"
    assert found[-3:] == ["steady"] * 3


@pytest.mark.parametrize(
    ("bodies", "place", "change", "expected"),
    [
        ([30.0, 0.01, 0.01], 0, {}, "start_up"),
        ([0.01] * 5 + [9.0] + [0.01] * 3, 5, {}, "steady"),  # too few steps before it
        ([0.001] * 300 + [phases.SHORTEST_PAUSE_S] + [0.001] * 3, 300, {}, "steady"),  # a hiccup of a busy host
        ([0.01] * 300, 250, {"wait_s": 5.0}, "steady"),  # a long wait is no pause
        ([0.01] * 4, 2, {"is_marked": True}, "checkpoint"),
        ([0.01] * 20, 10, {"opens_pass": True, "wait_s": 3.0}, "epoch_edge"),
    ],
)
def test_one_step_among_others(bodies: list[float], place: int, change: dict[str, Any], expected: Phase) -> None:
    run = steps(bodies)
    run[place] = run[place]._replace(**change)
    found = labels(run)
    assert found[place] == expected
    assert set(found) <= {"start_up", "steady", expected}
    assert found.count(expected) == 1 or expected == "steady"


def test_the_burst_after_a_checkpoint_is_a_spike_until_steps_are_as_before() -> None:
    bodies = [0.01] * 200 + [1.0] + [0.001] * 5 + [0.009] * 10 + [0.001]
    found = labels(steps(bodies, wait=0.0))
    assert found[200] == "checkpoint"
    assert found[201:206] == ["spike"] * 5
    assert found[206:] == ["steady"] * 11  # fast steps later on are no spike


def test_a_run_that_turns_slower_for_good_is_steady_again() -> None:
    found = labels(steps([0.01] * 300 + [0.3] * 40))
    assert found[300] == "checkpoint"  # nobody can tell yet
    assert set(found[301:]) == {"steady"}


def test_a_loop_that_synchronises_unsaid_has_no_checkpoints_for_long() -> None:
    """Dispatching takes next to nothing and every 50th step waits for all of them: nearly all time goes there."""
    found = labels(steps([0.5 if step % 50 == 49 else 1e-4 for step in range(2000)], wait=0.0))
    assert found[1000:].count("checkpoint") == 0


@pytest.mark.parametrize("every", [20, 1000])
def test_a_synchronised_step_is_compared_with_synchronised_ones(every: int) -> None:
    """However long ago they were."""
    run = []
    for index, step in enumerate(steps([1e-4 if (index + 1) % every else 0.5 for index in range(8 * every)], wait=0.0)):
        run.append(step._replace(ended_by="next" if (index + 1) % every else "log"))
    assert "checkpoint" not in labels(run)
    run[-1] = run[-1]._replace(body_s=0.5 * phases.PAUSE_RATIO * 1.2)
    assert labels(run)[-1] == "checkpoint"

"""Which measurements a plan rests on, where the first pass over the data differs from later ones. No TensorFlow."""

from __future__ import annotations

import pytest

from cs_input_analyzer.records import Measurement, Options
from cs_input_analyzer.studies.probing.results import Results
from tests.builders import make_host, make_measurement, make_plan, make_steady_state, make_worker


def launch(layout: str, *, is_filling: bool, is_lost: bool = False) -> Measurement:
    """A launch whose workers saw their `cache` being filled, or full."""
    rates = [None if is_lost else 1000.0] * int(layout.split("x")[1])
    state = make_steady_state(is_filling_cache=is_filling)
    return make_measurement(
        layout, workers=tuple(make_worker(r) if r is None else make_worker(r, steady_state=state) for r in rates)
    )


def alike(*launches: Measurement) -> list[Measurement]:
    results = Results(Options(), make_host(cpu_budget=2))
    results.measurements = list(launches)
    return results.alike


FILLING, FULL = launch("1x1x1", is_filling=True), launch("1x1x1", is_filling=False)


def test_a_full_cache_decides_alone() -> None:
    assert alike(FILLING, FULL) == [FULL]


@pytest.mark.parametrize(
    "launches",
    [
        (FILLING,),
        (FILLING, launch("1x2x1", is_filling=True)),
        (FILLING, launch("1x2x1", is_filling=False)),  # others are compared with a worker that ran alone
        (FILLING, launch("1x1x1", is_filling=False, is_lost=True)),
    ],
)
def test_without_a_lone_worker_that_saw_it_full_all_count(launches: tuple[Measurement, ...]) -> None:
    assert alike(*launches) == list(launches)


@pytest.mark.parametrize(("announced", "is_near"), [(30, True), (28, True), (33, True), (26, False)])
def test_a_plan_is_confirmed_by_workers_that_were_told_of_about_as_many(announced: int, is_near: bool) -> None:
    results = Results(Options(), make_host(cpu_budget=2))
    results.measurements = [make_measurement("1x2x1", num_workers=announced)]
    assert results.confirmation(make_plan("4x10x1", input_workers=30)) == (0 if is_near else None)

"""Which measurements a plan rests on, where the first pass over the data differs from later ones. No TensorFlow."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.engines import LaunchResult
from cs_input_analyzer.model import recommend
from cs_input_analyzer.model.capacity import on_idle_cpus
from cs_input_analyzer.records import Measurement, Noise, Options, Profile
from cs_input_analyzer.workflows.probing.results import Results
from tests.builders import (
    make_cluster,
    make_consumption,
    make_graph,
    make_host,
    make_layout,
    make_measurement,
    make_op_cost,
    make_plan,
    make_steady_state,
    make_worker,
)
from tests.worker.ops import op


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


# --- a pipeline whose calls wait for Python's lock, on a host that others use --------------------------------------------------

PYTHON = (
    op("files", "TensorSlice"),
    op("map", "ParallelMap", "files", calls=("PyFunc",), num_parallel_calls="AUTOTUNE"),
    op("batch", "Batch", "map"),
)
SAMPLE_S = 8e-5


def python_launch(layout: str, rate: float, others: float) -> LaunchResult:
    """One worker of it: a sample takes the lock for so long, whatever the CPUs."""
    cost = make_op_cost("map", self_cpu_s_per_sample=SAMPLE_S, wait_s_per_sample=SAMPLE_S, parallelism=2.0)
    profile = Profile(layout=make_layout(layout), harness_us_per_batch=None, cpu_s_per_sample=1.1 * SAMPLE_S, ops=(cost,))
    noise = Noise(run_queue_wait_ratio=1.6, steal_ratio=0.0, others_ratio=others)
    worker = make_worker(rate, cpu_s_per_sample=1.1 * SAMPLE_S, noise=noise, steady_state=make_steady_state())
    return LaunchResult(
        measurement=make_measurement(layout, workers=(worker,), noise=noise),
        pipeline=make_graph(ops=PYTHON),
        files=(),
        profile=profile,
        failure=None,
        starting_s=1.0,
        transient_s=0.0,
    )


@given(st.floats(0, 0.85), st.floats(0, 0.85), st.floats(0.2, 0.95))
def test_no_worker_of_a_plan_is_above_the_lock_of_python_however_busy_the_host_was(one: float, two: float, used: float) -> None:
    """What others took is given back to a worker, but a sample holds the lock as long as before."""
    results = Results(Options(), make_host(cpu_budget=2))
    rates = [used * (1 - others) / SAMPLE_S for others in (one, two)]
    results.keep(python_launch("1x1x1", rates[0], one))
    results.keep(python_launch("1x1x2", rates[1], two))
    model, (station, *_) = results.model(), results.stations()
    (ceiling,) = model.ceilings
    assert (station.kind, ceiling.name) == ("Python (GIL)", "Python (GIL) map")
    assert ceiling.samples_per_s == pytest.approx(1 / SAMPLE_S)
    for source in ("declared", "this host"):
        cluster = make_cluster(cpus_per_node=16, source=source, network_bytes_per_s_per_node=None)
        plan = recommend.recommend(model, make_consumption(1e6), cluster, Options())
        each = plan.predicted_samples_per_s.estimate / plan.input_workers
        assert each <= min(ceiling.samples_per_s, station.samples_per_s) * (1 + 1e-9)


def test_the_plan_of_such_a_pipeline_names_the_lock() -> None:
    results = Results(Options(), make_host(cpu_budget=2))
    results.keep(python_launch("1x1x1", 4_000.0, 0.5))
    results.keep(python_launch("1x1x2", 10_000.0, 0.5))
    free = on_idle_cpus(results.measurements[1]).samples_per_s
    assert free is not None
    assert free.estimate > 1.2 / SAMPLE_S
    layout, cluster = make_layout("2x8x2"), make_cluster(cpus_per_node=16, network_bytes_per_s_per_node=None)
    found = recommend.predict_current(results.model(), make_consumption(1e6), cluster, Options(), layout)
    assert found.limited_by == "Python (GIL) map"


@pytest.mark.parametrize("is_first", [True, False])
def test_costs_are_of_the_worker_whose_parts_ran_alone(is_first: bool) -> None:
    """A replicate of the same layout comes later, and has no second look."""
    plain = python_launch("1x1x1", 4_000.0, 0.0)
    assert plain.profile is not None
    (cost,) = plain.profile.ops
    looked = replace(plain, profile=replace(plain.profile, ops=(replace(cost, told_apart_cpu_s_per_sample=1e-5),)))
    results = Results(Options(), make_host(cpu_budget=2))
    for launched in (looked, plain) if is_first else (plain, looked):
        results.keep(launched)
    widest = results.widest()
    assert widest is not None
    assert results.profile_of(1) == widest[0] == looked.profile

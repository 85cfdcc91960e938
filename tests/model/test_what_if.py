"""What-if rows: each is the plan of brute force under the changed question, and no change that helps makes a plan dearer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from builders import make_consumption
from hypothesis import given, settings
from hypothesis import strategies as st
from test_recommend import GIB, NARROW, Problem, a_cluster, a_model, check_choice, every_launch, plan, problems, unpacked

from cs_input_analyzer.model import capacity, recommend
from cs_input_analyzer.model.capacity import assumptions as limits
from cs_input_analyzer.model.recommend import whatif
from cs_input_analyzer.model.recommend.launches import rates_on
from cs_input_analyzer.model.recommend.problem import PlanningProblem, predicted
from cs_input_analyzer.records import (
    Estimate,
    LaunchPlan,
    Layout,
    Limit,
    Options,
    Prediction,
    WhatIf,
)

demands = st.one_of(st.none(), st.floats(1, 10_000))


def row(found: LaunchPlan, name: str) -> WhatIf:
    (one,) = [row for row in found.what_if if row.name == name]
    return one


# --- against brute force -------------------------------------------------------------------------------------------------------


def brute_force(question: Problem, name: str, more: int) -> list[Prediction]:
    """All that could have been under the question behind a row; `more`: one node more than the plan has."""
    model, cluster, options, consumption = question
    if name == whatif.FILES:
        model = replace(model, file_count=2 * model.file_count)
    elif name == whatif.MEMORY:
        cluster = replace(cluster, memory_bytes_per_node=2 * cluster.memory_bytes_per_node)
    elif name == whatif.NODE:
        cluster = replace(cluster, nodes=max(cluster.nodes, more))
    launches = every_launch(model, consumption, cluster, options)
    return [launch for launch in launches if name != whatif.NODE or launch.layout.nodes == more]


@settings(max_examples=25, deadline=None)
@given(problems, demands)
def test_each_row_is_the_plan_that_brute_force_finds(problem: dict[str, object], demand: float | None) -> None:
    question = unpacked(problem, demand)
    model, cluster, options, consumption = question
    if not every_launch(model, consumption, cluster, options):
        return
    found = recommend.recommend(model, consumption, cluster, options)
    more = found.nodes + 1
    names = {what.name for what in found.what_if}
    for what in found.what_if:
        launches = brute_force(question, what.name, more)
        mine = next(p for p in launches if p.layout == what.layout)
        assert mine.samples_per_s == what.predicted_samples_per_s
        assert mine.input_workers == what.input_workers
        assert what.meets_demand is check_choice(mine, launches, demand, options)
    assert (whatif.NODE in names) is bool(brute_force(question, whatif.NODE, more))


# --- the table ------------------------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(problems)
def test_the_table_is_what_is_predicted_and_rates_rise_with_nodes(problem: dict[str, object]) -> None:
    model, cluster, options, _ = unpacked(problem, None)
    planned = PlanningProblem(model=model, consumption=None, cluster=cluster, options=options)
    counts = np.arange(1, cluster.nodes + 2)
    lows = rates_on(planned, counts[:, None]).low
    for row, (tasks, cpus) in enumerate(zip(planned.tasks, planned.cpus, strict=True)):
        for nodes in counts:
            prediction = predicted(planned, int(nodes), int(tasks), int(cpus))
            assert (prediction.problem is not None) == np.isneginf(lows[nodes - 1, row])
            if prediction.problem is None:
                assert lows[nodes - 1, row] == pytest.approx(prediction.samples_per_s.low, rel=1e-12)
        first, last = planned.first_nodes, planned.last_nodes[row]
        risen = lows[first:last, row]  # from the second of several nodes on: with one task each, the first has one worker
        assert np.isfinite(risen).all()
        assert (np.diff(risen) >= 0).all()
        assert np.isneginf(lows[max(last, 1) :, row]).all()


# --- which rows there are -------------------------------------------------------------------------------------------------------


def test_what_is_not_known_has_no_row() -> None:
    assert {what.name for what in plan(1000, a_model(private_bytes=None)).what_if} == {whatif.NODE}
    assert {what.name for what in plan(1000, a_model(file_count=100)).what_if} == {whatif.NODE, whatif.MEMORY}


# --- what they say --------------------------------------------------------------------------------------------------------------


def test_twice_the_files_and_twice_the_memory_help_what_lacks_them() -> None:
    few = plan(1e6, a_model(is_sharded=True, file_count=5))
    assert few.limited_by == limits.FILES
    assert row(few, whatif.FILES).predicted_samples_per_s.low > 1.5 * few.predicted_samples_per_s.low
    assert row(few, whatif.FILES).limited_by == limits.FILES
    small = plan(1e6, a_model(points=NARROW, private_bytes=40 * GIB))
    assert row(small, whatif.MEMORY).predicted_samples_per_s.low > 1.1 * small.predicted_samples_per_s.low
    assert row(plan(1e6), whatif.MEMORY).note == "changes nothing"


def test_fixes_save_nodes_and_their_error_widens_the_interval() -> None:
    def with_fixes(gain: Estimate) -> tuple[LaunchPlan, WhatIf]:
        found = recommend.recommend(a_model(), make_consumption(1800), a_cluster(), Options(), gain=gain)
        return found, row(found, whatif.FIXES)

    before, sure = with_fixes(Estimate.exact(2.0))
    assert sure.layout.nodes < before.nodes
    assert sure.note == f"{before.nodes} nodes -> {sure.layout.nodes}"
    _, unsure = with_fixes(Estimate(estimate=2.0, low=0.7, high=3.3))
    assert unsure.layout.nodes > sure.layout.nodes
    _, none = with_fixes(Estimate.exact(1.0))
    assert none.note == "changes nothing"


def test_workers_narrower_than_the_one_that_was_tried_gain_nothing() -> None:
    """A parallel map, say: one CPU has nothing to do side by side."""

    def planned(gain: float, cpus: int) -> LaunchPlan:
        gains = {"gain": Estimate.exact(gain), "gain_cpus": cpus}
        return recommend.recommend(a_model(), make_consumption(1e6), a_cluster(), Options(), **gains)  # type: ignore[arg-type]

    wider = planned(1.0, 1).cpus_per_task + 1
    found = row(planned(20.0, wider), whatif.FIXES)
    assert found.layout.cpus_per_task >= wider
    assert found.predicted_samples_per_s.low > planned(1.0, 1).predicted_samples_per_s.low
    little = planned(1.0, wider)
    assert row(little, whatif.FIXES).layout == little.layout  # the plan's own workers deliver more without the fix
    assert not [one for one in planned(20.0, 1000).what_if if one.name == whatif.FIXES]  # none is so wide


def test_fixes_lift_what_a_single_worker_cannot_exceed() -> None:
    model = a_model(ceilings=(Limit(name="serial op batch", samples_per_s=100.0),))
    found = recommend.recommend(model, make_consumption(1e6), a_cluster(), Options(), gain=Estimate.exact(2.0))
    faster = row(found, whatif.FIXES)
    assert faster.predicted_samples_per_s.estimate == pytest.approx(2 * found.predicted_samples_per_s.estimate)


def test_a_measured_ceiling_of_the_storage_hands_its_interval_on() -> None:
    seen = Estimate(estimate=1.1e8, low=8.5e7, high=1.6e8, count=6)
    cluster = a_cluster(storage_bytes_per_s=seen.estimate, measured_storage_bytes_per_s=seen)
    found = recommend.recommend(a_model(), make_consumption(990), cluster, Options(headroom_ratio=0.0))
    largest = Layout(nodes=cluster.nodes, tasks_per_node=cluster.cpus_per_node, cpus_per_task=1)
    all_of_it = capacity.predict(a_model(), cluster, largest, single_task_nodes=0, feed="first-come").samples_per_s
    assert (all_of_it.low, all_of_it.estimate, all_of_it.high) == pytest.approx((850, 1100, 1600))
    assert found.meets_demand is False
    declared = recommend.recommend(
        a_model(), make_consumption(990), a_cluster(storage_bytes_per_s=1.1e8), Options(headroom_ratio=0.0)
    )
    assert declared.meets_demand is True


def test_one_more_node_may_be_one_that_the_cluster_does_not_have() -> None:
    short = plan(3000, cluster=a_cluster(nodes=4))
    assert (short.nodes, short.meets_demand) == (4, False)
    larger = row(short, whatif.NODE)
    assert larger.layout.nodes == 5
    assert larger.note.startswith("4 nodes -> 5, low end +")
    enough = row(plan(2000, cluster=a_cluster(nodes=plan(2000).nodes - 1)), whatif.NODE)
    assert enough.note.startswith("meets the demand")


@given(st.floats(1.05, 8.0))
def test_todays_launch_is_as_many_times_as_fast_as_its_workers(gain: float) -> None:
    current = Layout.parse("2x2x4")
    found = recommend.recommend(a_model(), make_consumption(1e4), a_cluster(), Options(current=current), gain=Estimate.exact(gain))
    fixed, (today, *_) = row(found, whatif.TODAY_FIXED), found.alternatives
    assert fixed.layout == today.layout == current
    assert fixed.predicted_samples_per_s.estimate == pytest.approx(gain * today.predicted_samples_per_s.estimate)


@pytest.mark.parametrize(("current", "cpus"), [(None, 1), ("2x2x1", 2), ("2x9x4", 1)], ids=["none", "narrower", "cannot run"])
def test_todays_launch_has_no_row_if_the_gain_says_nothing_about_it(current: str | None, cpus: int) -> None:
    options = Options(current=None if current is None else Layout.parse(current))
    found = recommend.recommend(a_model(), make_consumption(1e4), a_cluster(), options, gain=Estimate.exact(2.0), gain_cpus=cpus)
    assert whatif.TODAY_FIXED not in {what.name for what in found.what_if}

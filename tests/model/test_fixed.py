"""The plan and the launch in use today with all kept fixes, and how rates rise with nodes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from builders import make_consumption
from hypothesis import given, settings
from hypothesis import strategies as st
from test_recommend import a_cluster, a_model, problems, unpacked

from cs_input_analyzer.model import capacity, recommend
from cs_input_analyzer.model.recommend.problem import PlanningProblem, predicted
from cs_input_analyzer.records import Alternative, CapacityModel, Estimate, LaunchPlan, Layout, Limit, Options


def with_gain(
    gain: Estimate | float, cpus: int = 1, demand: float = 1e6, model: CapacityModel | None = None, current: Layout | None = None
) -> tuple[LaunchPlan, Alternative | None, Alternative | None]:
    """Return the plan without fixes, that with them, and the launch of today with them."""
    gain = gain if isinstance(gain, Estimate) else Estimate.exact(gain)
    of_run = model or a_model(), make_consumption(demand), a_cluster(), Options(current=current)
    found = recommend.recommend(*of_run)
    return found, *recommend.with_gain(*of_run, plan=found, gain=gain, gain_cpus=cpus)


# --- how rates rise -------------------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(problems)
def test_rates_rise_with_nodes_up_to_the_last_that_runs(problem: dict[str, object]) -> None:
    model, cluster, options, _ = unpacked(problem, None)
    planned = PlanningProblem(model=model, consumption=None, cluster=cluster, options=options)
    for shape in planned.shapes:
        launches = {nodes: predicted(planned, nodes, *shape) for nodes in range(1, cluster.nodes + 2)}
        first, last = planned.first_nodes, planned.last_nodes(shape[0])
        risen = [launches[nodes] for nodes in range(first + 1, last + 1)]  # with one task each, the first has one worker
        assert all(launch.problem is None for launch in risen)
        assert all(one.samples_per_s.low <= other.samples_per_s.low for one, other in pairwise(risen))
        assert all(launch.problem for nodes, launch in launches.items() if nodes > max(last, 1))


# --- with fixes -----------------------------------------------------------------------------------------------------------------


def test_fixes_save_nodes_and_their_error_widens_the_interval() -> None:
    before, sure, _ = with_gain(2.0, demand=1800)
    assert sure.layout.nodes < before.nodes
    assert (sure.meets_demand, sure.memory_bytes_per_node) == (True, None)
    assert sure.probability >= recommend.ENOUGH
    _, unsure, _ = with_gain(Estimate(estimate=2.0, low=0.7, high=3.3), demand=1800)
    assert unsure.layout.nodes > sure.layout.nodes
    _, none, _ = with_gain(1.0, demand=1800)
    assert (none.layout, none.predicted_samples_per_s) == (before.layout, before.predicted_samples_per_s)


def test_workers_narrower_than_the_one_that_was_tried_gain_nothing() -> None:
    """A parallel map, say: one CPU has nothing to do side by side."""
    before, _, _ = with_gain(1.0)
    wider = before.cpus_per_task + 1
    _, found, _ = with_gain(20.0, wider)
    assert found.layout.cpus_per_task >= wider
    assert found.predicted_samples_per_s.low > before.predicted_samples_per_s.low
    little, kept, _ = with_gain(1.0, wider)
    assert kept.layout == little.layout  # the plan's own workers deliver more without the fix
    assert with_gain(20.0, 1000)[1] is None  # none is so wide


def test_fixes_lift_what_a_single_worker_cannot_exceed() -> None:
    before, faster, _ = with_gain(2.0, model=a_model(ceilings=(Limit(name="serial op batch", samples_per_s=100.0),)))
    assert faster.predicted_samples_per_s.estimate == pytest.approx(2 * before.predicted_samples_per_s.estimate)


@given(st.floats(1.05, 8.0))
def test_todays_launch_is_as_many_times_as_fast_as_its_workers(gain: float) -> None:
    current = Layout.parse("2x2x4")
    found, _, fixed = with_gain(gain, demand=1e4, current=current)
    today = found.alternatives[0]
    assert fixed.layout == today.layout == current
    assert fixed.predicted_samples_per_s.estimate == pytest.approx(gain * today.predicted_samples_per_s.estimate)


@pytest.mark.parametrize(("current", "cpus"), [(None, 1), ("2x2x1", 2), ("2x9x4", 1)], ids=["none", "narrower", "cannot run"])
def test_todays_launch_is_not_told_if_the_gain_says_nothing_about_it(current: str | None, cpus: int) -> None:
    assert with_gain(2.0, cpus, current=None if current is None else Layout.parse(current))[2] is None


# --- the storage ----------------------------------------------------------------------------------------------------------------


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

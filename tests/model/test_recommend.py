"""Recommendation: the same launch as brute force over every layout, and a plan that moves with the demand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import GIB, make_capacity_model, make_cluster, make_consumption, make_estimate, make_point
from hypothesis import given, settings
from hypothesis import strategies as st

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.model import capacity, recommend
from cs_input_analyzer.model.capacity import assumptions as limits
from cs_input_analyzer.model.recommend.problem import PlanningProblem
from cs_input_analyzer.model.recommend.verdict import chance
from cs_input_analyzer.records import (
    CapacityModel,
    Cluster,
    Consumption,
    Estimate,
    KeptPlan,
    LaunchPlan,
    Layout,
    Options,
    Prediction,
)

LONE = (make_point(1, 1, 100.0), make_point(1, 2, 180.0), make_point(1, 4, 300.0))


# Workers that gain little from a second CPU.
NARROW = (make_point(1, 1, 100.0), make_point(1, 2, 130.0), make_point(1, 4, 150.0), make_point(4, 1, 95.0))


def a_model(**overrides: object) -> CapacityModel:
    """100 samples/s on one CPU, 180 on two, 300 on four; 0.5 GiB each."""
    plain: dict[str, object] = {
        "points": (*LONE, make_point(4, 1, 90.0)),
        "slowest_ratio": 0.98,
        "host_cpus": 4,
        "private_bytes": GIB // 2,
        "shared_bytes": GIB // 4,
        "bytes_read_per_sample": 1e5,
        "bytes_out_per_sample": 2e5,
        "is_sharded": False,
        "file_count": None,
    }
    return make_capacity_model(**(plain | overrides))


def a_cluster(**overrides: object) -> Cluster:
    plain: dict[str, object] = {
        "nodes": 8,
        "cpus_per_node": 8,
        "network_bytes_per_s_per_node": None,
        "threads_per_core": 1,
        "speed_ratio": Estimate.exact(1.0),
    }
    return make_cluster(**(plain | overrides))


def plan(
    demand: float | None,
    model: CapacityModel | None = None,
    cluster: Cluster | None = None,
    mode: str | None = None,
    kept: Layout | None = None,
    **options: object,
) -> LaunchPlan:
    consumption = None if demand is None else make_consumption(demand, mode=mode)
    earlier = None if kept is None else KeptPlan(layout=kept, created_at="2026-01-01T00:00:00+00:00")
    return recommend.recommend(model or a_model(), consumption, cluster or a_cluster(), Options(**options), kept=earlier)  # type: ignore[arg-type]


# --- against brute force --------------------------------------------


def every_launch(model: CapacityModel, consumption: Consumption | None, cluster: Cluster, options: Options) -> list[Prediction]:
    """All launches that are considered and can run, without any of the planner's short cuts."""
    problem = PlanningProblem(model=model, consumption=consumption, cluster=cluster, options=options)
    found = []
    for nodes in range(1, cluster.nodes + 1):
        for tasks, cpus in problem.shapes:
            layout = Layout(nodes=nodes, tasks_per_node=tasks, cpus_per_task=cpus)
            single = recommend.single_task_nodes(nodes, consumption, options)
            prediction = capacity.predict(model, cluster, layout, single_task_nodes=single, feed=options.feed)
            if prediction.problem is None:
                found.append(prediction)
    return found


maybe = st.sampled_from([None, 2e6, 2e7, 2e8])
problems = st.fixed_dictionaries(
    {
        "model": st.builds(
            a_model,
            slowest_ratio=st.sampled_from([1.0, 0.95, 0.6, 0.2]),
            spread_ratio=st.sampled_from([0.0, 0.02, 0.1]),
            host_read_bytes_per_s=st.sampled_from([None, 2e7]),
            points=st.sampled_from([LONE, (*LONE, make_point(4, 1, 70.0))]),
            private_bytes=st.sampled_from([None, GIB // 2, 3 * GIB]),
            is_sharded=st.booleans(),
            file_count=st.sampled_from([None, 3, 20, 500]),
        ),
        "cluster": st.builds(
            a_cluster,
            nodes=st.integers(1, 9),
            cpus_per_node=st.integers(1, 8),
            memory_bytes_per_node=st.sampled_from([4 * GIB, 10 * GIB, 128 * GIB]),
            threads_per_core=st.sampled_from([None, 1, 2]),
            storage_bytes_per_s=maybe,
            network_bytes_per_s_per_node=maybe,
        ),
        "options": st.builds(
            Options,
            single_task_nodes=st.sampled_from([None, None, 0, 1, 2]),
            feed=st.sampled_from(["round-robin", "first-come"]),
            headroom_ratio=st.sampled_from([0.0, 0.1, 1.0]),
            shared_nodes=st.booleans(),
        ),
        "mode": st.sampled_from([None, "pipelined", "weight_streaming"]),
    }
)


Problem = tuple[CapacityModel, Cluster, Options, Consumption | None]


def unpacked(problem: dict[str, Any], demand: float | None) -> Problem:
    consumption = None if demand is None else make_consumption(demand, mode=problem["mode"])
    return problem["model"], problem["cluster"], problem["options"], consumption


def sureness(prediction: Prediction, demand: float, options: Options) -> float:
    return chance(prediction.samples_per_s, Estimate.exact(demand * (1 + options.headroom_ratio)))


def check_choice(mine: Prediction, launches: list[Prediction], demand: float | None, options: Options) -> bool | None:
    """Holds a chosen launch against all that could have been; whether any of them feeds the accelerator."""
    if demand is None:
        best = max(p.samples_per_s.low / p.layout.nodes for p in launches)
        assert mine.samples_per_s.low / mine.layout.nodes >= 0.979 * best
        return None
    feeding = [p for p in launches if sureness(p, demand, options) >= recommend.ENOUGH]
    if not feeding:
        assert mine.samples_per_s.low >= 0.979 * max(p.samples_per_s.low for p in launches)
        return False
    assert mine in feeding
    assert mine.layout.nodes == min(p.layout.nodes for p in feeding)  # of less than 50 nodes; of many, some more are no price
    here = [p for p in feeding if p.layout.nodes == mine.layout.nodes]
    if options.shared_nodes:
        assert mine.layout.cpus == min(p.layout.cpus for p in here)
        return True
    tasks, least = mine.layout.tasks_per_node, min(p.layout.tasks_per_node for p in here)
    most = max(p.layout.tasks_per_node for p in launches if p.layout.nodes == mine.layout.nodes)
    assert tasks in (least, most) or tasks & (tasks - 1) == 0
    assert tasks <= 2 * least
    surer = [p for p in here if sureness(p, demand, options) > sureness(mine, demand, options) + 0.021]
    rungs = {p.layout.tasks_per_node for p in surer if p.layout.tasks_per_node & (p.layout.tasks_per_node - 1) == 0}
    assert sureness(mine, demand, options) >= 0.97 or not any(tasks < rung <= 2 * least for rung in rungs)
    return True


@settings(max_examples=80, deadline=None)
@given(problems, st.one_of(st.none(), st.floats(1, 10_000)))
def test_no_launch_of_all_is_better_than_the_plan(problem: dict[str, object], demand: float | None) -> None:
    model, cluster, options, consumption = unpacked(problem, demand)
    launches = every_launch(model, consumption, cluster, options)
    if not launches:
        with pytest.raises(UsageError):
            recommend.recommend(model, consumption, cluster, options)
        return
    found = recommend.recommend(model, consumption, cluster, options)
    mine = next(p for p in launches if p.layout == found.layout)
    assert mine.samples_per_s == found.predicted_samples_per_s
    assert found.meets_demand is check_choice(mine, launches, demand, options)
    if demand is None:
        assert found.meets_demand is None
        assert found.probability is found.headroom_ratio is found.expected_accelerator_utilization is None
    else:
        assert found.probability == pytest.approx(sureness(mine, demand, options))
    assert found.layout not in {row.layout for row in found.alternatives}
    for row in found.alternatives:
        (launch,) = [p for p in launches if p.layout == row.layout]
        assert launch.samples_per_s == row.predicted_samples_per_s
        if demand is not None:
            assert row.probability == pytest.approx(sureness(launch, demand, options))
            assert row.meets_demand is (row.probability >= recommend.ENOUGH)
        if row.note == "the smallest that will do":
            assert row.layout.nodes == found.nodes
            assert row.layout.tasks_per_node < found.tasks_per_node


def test_threads_that_share_a_lock_get_no_cpus_that_slow_them_down() -> None:
    slower = (make_point(1, 1, 100.0), make_point(1, 2, 75.0))
    assert plan(80, a_model(points=slower)).cpus_per_task == 1
    assert plan(80, a_model()).cpus_per_task > 1


# --- a plan that stays -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("demand", [50, 150, 400, 900, 2000])
def test_measurements_that_differ_by_some_percent_give_the_same_plan_or_a_neighbour(demand: float) -> None:
    """Six demos in a row planned 1x6x1, 1x5x1, 1x7x1, 1x4x1, 1x5x1, 1x4x1: each wobble was another plan."""
    wobbles = [1.0, 0.95, 1.05, 0.98, 1.03, 0.96]
    plans = [plan(demand, a_model(shard_ratio=make_estimate(wobble, spread=0.05))) for wobble in wobbles]
    assert max(p.nodes for p in plans) - min(p.nodes for p in plans) <= 1
    same = [p for p in plans if p.nodes == plans[0].nodes]
    assert max(p.tasks_per_node for p in same) <= 2 * min(p.tasks_per_node for p in same)


def test_the_plan_of_an_earlier_run_is_kept_while_it_feeds_the_accelerator() -> None:
    before = plan(2000).layout
    kept = plan(2100, kept=before)
    assert kept.layout == kept.kept_from.layout == before
    assert kept.fresh == plan(2100).layout
    assert kept.probability >= 0.8
    anew = plan(4000, kept=before)
    assert (anew.layout, anew.kept_from, anew.fresh) == (plan(4000).layout, None, None)
    assert plan(2000, kept=Layout.parse("99x4x4")).layout == before


def test_the_errors_of_the_demand_count_as_those_of_the_supply() -> None:
    unsure = replace(make_consumption(260), samples_per_s=make_estimate(260.0, spread=0.5))
    found = recommend.recommend(a_model(), unsure, a_cluster(), Options())
    exact = plan(260)
    assert found.nodes == exact.nodes
    assert found.fewest_tasks > exact.fewest_tasks


# --- how a plan moves ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "cluster", "limit"),
    [
        (a_model(), a_cluster(), limits.WORKER_CPU),
        (a_model(is_sharded=True, file_count=5), a_cluster(), limits.FILES),
        (a_model(private_bytes=40 * GIB), a_cluster(), limits.MEMORY),
        (a_model(), a_cluster(network_bytes_per_s_per_node=2e7), limits.NETWORK_OUT),
        (a_model(slowest_ratio=0.5), a_cluster(), limits.ROUND_ROBIN),
    ],
)
def test_a_plan_that_falls_short_names_the_resource_to_add(model: CapacityModel, cluster: Cluster, limit: str) -> None:
    found = plan(1e6, model, cluster)
    assert (found.meets_demand, found.limited_by) == (False, limit)
    assert found.headroom_ratio < -0.99


def test_one_worker_that_waits_for_no_other_is_found_where_more_of_them_deliver_less() -> None:
    """By turns, two workers of which one is five times slower than both on average are slower than one."""
    uneven, nodes = a_model(slowest_ratio=0.2), a_cluster(cpus_per_node=1)
    found = plan(80, uneven, nodes, headroom_ratio=0.0)
    assert (found.nodes, found.input_workers, found.meets_demand) == (2, 1, True)
    two = capacity.predict(uneven, nodes, Layout.parse("3x1x1"), single_task_nodes=1, feed="round-robin")
    assert two.samples_per_s.estimate < found.predicted_samples_per_s.low
    assert plan(80, uneven, nodes, headroom_ratio=0.0, feed="first-come").nodes == 2
    # Without a demand: half a worker's rate per node, more than any number of nodes gives by turns.
    assert plan(None, uneven, nodes).nodes == 2


def test_without_a_demand_the_rate_per_node_decides_and_nothing_is_judged() -> None:
    # Two CPUs: one node holds the chief and one worker; eight hold it and fourteen.
    found = plan(None, a_model(points=NARROW), cluster=a_cluster(cpus_per_node=2))
    assert (found.nodes, found.input_workers) == (8, 14)


def test_storage_is_measured_on_this_host_declared_where_stated_and_unverified_elsewhere() -> None:
    assert plan(150, cluster=a_cluster(source="this host", nodes=1)).storage == "measured"
    assert plan(150).storage == "unverified"
    assert plan(2000).storage == "unverified"
    assert plan(150, cluster=a_cluster(storage_bytes_per_s=1e12)).storage == "declared"
    seen = a_cluster(storage_bytes_per_s=1e12, measured_storage_bytes_per_s=make_estimate(1e12))
    assert plan(2000, cluster=seen).storage == "measured"


def test_weight_streaming_takes_two_nodes_that_do_not_stream() -> None:
    streams = plan(270, mode="weight_streaming", cluster=a_cluster(cpus_per_node=4))
    assert (streams.nodes, streams.single_task_nodes) == (3, 2)


# --- alternatives --------------------------------------------


def test_alternatives_surround_the_plan() -> None:
    found = plan(2000)
    (fewer,) = [row for row in found.alternatives if row.layout.nodes == found.nodes - 1]
    (more,) = [row for row in found.alternatives if row.layout.nodes == found.nodes + 1]
    assert fewer.meets_demand is False
    assert (fewer.note, more.note) == ("one node fewer", "one node more")
    assert fewer.probability < found.probability <= more.probability  # type: ignore[operator]


def test_the_launch_in_use_today_comes_first_and_may_have_more_nodes_than_the_cluster() -> None:
    found = plan(2000, current=Layout.parse("20x2x4")).alternatives[0]
    assert (found.note, str(found.layout), found.input_workers) == ("current launch", "20x2x4", 38)
    broken = plan(2000, current=Layout.parse("4x9x4")).alternatives[0]
    assert "CPUs per node" in broken.note
    assert broken.meets_demand is False
    assert not any(row.is_current for row in plan(2000).alternatives)


# --- what cannot be --------------------------------------------


@pytest.mark.parametrize(
    ("cluster", "options", "message"),
    [
        ({"nodes": 0}, {}, "0 nodes"),
        ({"cpus_per_node": 0}, {}, "0 CPUs"),
        ({"memory_bytes_per_node": GIB // 2}, {}, "one input worker of this pipeline holds 768 MiB, but a node has 512 MiB"),
        # Room for one task on the only node, which must be the chief.
        ({"memory_bytes_per_node": GIB, "nodes": 1}, {}, "no launch fits 1 node.* of memory per node, a node has 1 GiB"),
        ({"nodes": 1}, {"mode": "weight_streaming"}, "streaming needs 3 nodes at least, .* has 1 node: give more by --nodes N"),
        ({"nodes": 2}, {"mode": "weight_streaming"}, "streaming needs 3 nodes at least, .* has 2 nodes: give more by --nodes N"),
        ({"nodes": 1, "cpus_per_node": 1}, {}, "chief"),
        ({"nodes": 2}, {"single_task_nodes": 2}, "--single-task-nodes 2"),
        ({}, {"single_task_nodes": -1}, "--single-task-nodes -1"),
    ],
)
def test_a_cluster_that_cannot_run_any_launch_is_refused(
    cluster: dict[str, object], options: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        plan(100, cluster=a_cluster(**cluster), **options)


# --- for a surer answer -------------------------------------------------------------------------------------------------------


@given(problems, st.floats(1, 10_000))
def test_what_makes_it_surer_narrows_the_interval_that_is_shown(problem: dict[str, object], demand: float) -> None:
    model, cluster, options, consumption = unpacked(problem, demand)
    try:
        found = recommend.recommend(model, consumption, cluster, options)
    except UsageError:  # no launch fits
        return
    now = found.predicted_samples_per_s.relative_half_width_ratio or 0.0
    widths = [row.half_width_ratio for row in found.surer]
    assert widths == sorted(widths)
    assert all(0 <= width < now for width in widths)


def test_a_term_that_is_there_has_its_line_and_one_that_is_not_has_none() -> None:
    unsure = tuple(
        replace(point, samples_per_s=make_estimate(point.samples_per_s.estimate, spread=0.2)) for point in a_model().points
    )
    hows = {row.how for row in plan(1000, a_model(points=unsure)).surer}
    assert "launches" in hows
    assert "node" not in {row.how for row in plan(1000, cluster=a_cluster(is_measured=True)).surer}
    node = a_cluster(partition="main", speed_ratio=Estimate.exact(1.0), speed_basis="this host")
    assert "node" not in {row.how for row in plan(1000, cluster=node).surer}
    assert "node" in {row.how for row in plan(1000, cluster=a_cluster(speed_ratio=None, source="flags")).surer}

"""Capacity: laws of the rates over random models and clusters, and one test that fails when its term is deleted."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import pytest
from builders import (
    GIB,
    make_capacity_model,
    make_cluster,
    make_estimate,
    make_point,
)
from hypothesis import given
from hypothesis import strategies as st
from test_recommend import a_cluster

from cs_input_analyzer.model import capacity
from cs_input_analyzer.model.capacity import assumptions as limits
from cs_input_analyzer.model.capacity.prediction import slowest_ratio
from cs_input_analyzer.model.capacity.worker import worker_ceilings
from cs_input_analyzer.model.estimates import NORMAL_95
from cs_input_analyzer.records import CapacityModel, Cluster, Estimate, Feed, Layout, Limit, Prediction, RatePoint

point = partial(make_point, cost=None, spread=0.0)


def bare_model(**overrides: object) -> CapacityModel:
    """One CPU gives 100 samples/s, nothing else limits: each test adds the one term that it is about."""
    plain: dict[str, object] = {
        "points": (point(1, 1, 100.0), point(1, 16, 1600.0), point(16, 1, 100.0)),
        "slowest_ratio": 1.0,
        "host_cpus": 16,
        "private_bytes": None,
        "shared_bytes": None,
        "bytes_read_per_sample": None,
        "bytes_out_per_sample": None,
        "is_sharded": False,
        "file_count": None,
    }
    return make_capacity_model(**(plain | overrides))


def bare_cluster(**overrides: object) -> Cluster:
    return a_cluster(**({"cpus_per_node": 16} | overrides))


def predict(
    layout: str, model: CapacityModel | None = None, cluster: Cluster | None = None, single: int = 1, feed: Feed = "round-robin"
) -> Prediction:
    return capacity.predict(
        model or bare_model(), cluster or bare_cluster(), Layout.parse(layout), single_task_nodes=single, feed=feed
    )


# --- laws -----------------------------------------------------------------------------------------------------------------------

rates = st.floats(min_value=0.5, max_value=1e6)
ratios = st.floats(min_value=0.3, max_value=1.0)
sizes = st.one_of(st.none(), st.floats(min_value=1.0, max_value=1e8))


@st.composite
def estimates(draw: st.DrawFn, middle: st.SearchStrategy[float]) -> Estimate:
    value, below, above = draw(middle), draw(st.floats(0, 0.9)), draw(st.floats(0, 0.9))
    return Estimate(estimate=value, low=value * (1 - below), high=value * (1 + above), count=draw(st.integers(1, 9)))


@st.composite
def models(draw: st.DrawFn) -> CapacityModel:
    host_cpus = draw(st.sampled_from([1, 2, 8, 16]))
    lone = draw(st.sets(st.integers(1, host_cpus), min_size=1, max_size=4))
    pairs = [(tasks, cpus) for tasks in range(2, 17) for cpus in range(1, host_cpus // tasks + 1)]
    shared = draw(st.lists(st.sampled_from(pairs), max_size=3, unique=True)) if pairs else []
    shapes = [*((1, cpus) for cpus in sorted(lone)), *sorted(shared)]
    return make_capacity_model(
        points=tuple(
            RatePoint(tasks=tasks, cpus=cpus, samples_per_s=draw(estimates(rates)), cpu_s_per_sample=draw(sizes))
            for tasks, cpus in shapes
        ),
        shard_ratio=draw(estimates(st.floats(0.2, 2.0))),
        slowest_ratio=draw(ratios),
        host_cpus=host_cpus,
        host_threads_per_core=draw(st.sampled_from([None, 1, 2])),
        private_bytes=draw(st.one_of(st.none(), st.integers(1, GIB))),
        shared_bytes=draw(st.one_of(st.none(), st.integers(0, GIB))),
        bytes_read_per_sample=draw(sizes),
        bytes_out_per_sample=draw(sizes),
        is_sharded=draw(st.booleans()),
        file_count=draw(st.one_of(st.none(), st.integers(1, 200))),
    )


clusters = st.builds(
    make_cluster,
    nodes=st.integers(1, 40),
    cpus_per_node=st.sampled_from([1, 4, 16, 64]),
    memory_bytes_per_node=st.integers(GIB, 64 * GIB),
    threads_per_core=st.sampled_from([None, 1, 2]),
    network_bytes_per_s_per_node=st.one_of(st.none(), st.floats(1e3, 1e11)),
    storage_bytes_per_s=st.one_of(st.none(), st.floats(1e3, 1e12)),
)
layouts = st.builds(Layout, nodes=st.integers(1, 40), tasks_per_node=st.integers(1, 16), cpus_per_task=st.integers(1, 16))
singles = st.integers(0, 3)
# Launches that can run: most launches drawn at random cannot, and a law about nothing proves nothing.
roomy_models = models().map(lambda model: replace(model, private_bytes=GIB, shared_bytes=GIB, file_count=None))
roomy_clusters = clusters.map(lambda cluster: replace(cluster, nodes=50, cpus_per_node=256, memory_bytes_per_node=64 * GIB))
feeds = st.sampled_from(("round-robin", "first-come"))


@given(st.one_of(models(), roomy_models), st.one_of(clusters, roomy_clusters), layouts, singles, feeds)
def test_no_rate_is_above_any_limit_and_the_smallest_is_named(
    model: CapacityModel, cluster: Cluster, layout: Layout, single: int, feed: Feed
) -> None:
    found = capacity.predict(model, cluster, layout, single_task_nodes=single, feed=feed)
    assert all(found.samples_per_s.estimate <= limit.samples_per_s * (1 + 1e-12) for limit in found.limits)
    declared = {limits.STORAGE, limits.NETWORK_IN, limits.NETWORK_OUT, limits.MEMORY_BANDWIDTH, limits.HOST_STORAGE}
    assert all(found.samples_per_s.high <= limit.samples_per_s for limit in found.limits if limit.name in declared)
    assert list(found.limits) == sorted(found.limits, key=lambda limit: limit.samples_per_s)
    assert found.limited_by == found.limits[0].name
    assert found.extrapolation_ratio >= 1
    assert math.isclose(found.samples_per_s.estimate, found.limits[0].samples_per_s, rel_tol=1e-12, abs_tol=0.0)


lasting_ceilings = st.lists(
    st.builds(
        Limit,
        name=st.sampled_from(("serial op map", "Python (GIL) map", "fixed parallelism map", "storage latency read")),
        samples_per_s=rates,
    ),
    max_size=3,
).map(tuple)
speeds = st.one_of(st.none(), st.floats(0.2, 5.0).map(lambda ratio: make_estimate(ratio, spread=0.1)))
sources = st.sampled_from(("declared", limits.THIS_HOST))


@given(roomy_models, roomy_clusters, lasting_ceilings, estimates(ratios), speeds, sources, layouts, feeds)
def test_no_worker_of_a_launch_is_above_a_ceiling(
    model: CapacityModel,
    cluster: Cluster,
    lasting: tuple[Limit, ...],
    host: Estimate,
    speed: Estimate | None,
    source: str,
    layout: Layout,
    feed: Feed,
) -> None:
    model = replace(model, ceilings=lasting, host_ratio=host)
    cluster = replace(cluster, source=source, speed_ratio=speed)
    found = capacity.predict(model, cluster, layout, single_task_nodes=0, feed=feed, has_chief=False)
    assert found.problem is None
    each = found.samples_per_s.estimate / found.input_workers * (1 - 1e-12)
    most = worker_ceilings(model, cluster, layout.tasks_per_node, layout.cpus_per_task)
    assert all(each <= limit.samples_per_s for limit in most)
    for limit in lasting:
        if source == limits.THIS_HOST or limit.name.startswith(limits.LATENCY) or speed is None or speed.estimate <= 1:
            assert each <= limit.samples_per_s
    bound = min((limit.samples_per_s for limit in most), default=math.inf)
    free = capacity.predict(replace(model, ceilings=()), cluster, layout, single_task_nodes=0, feed=feed, has_chief=False)
    assert free.samples_per_s.estimate >= found.samples_per_s.estimate * (1 - 1e-12)
    if free.samples_per_s.estimate / free.input_workers < bound * (1 - 1e-9) and feed == "first-come":
        assert found.samples_per_s.estimate == pytest.approx(free.samples_per_s.estimate)


# --- each term of the law: its row fails when the term is deleted ---------------------------------------------------------------

SLOW_LINK = {"network_bytes_per_s_per_node": 1e8}
LONE = (point(1, 1, 100.0), point(1, 16, 1600.0))
HALVED = {"points": (*LONE, point(16, 1, 50.0))}
FAST = {"points": (point(1, 1, 1000.0), point(16, 1, 1000.0))}
READ_BY_HOST = FAST | {"host_read_bytes_per_s": 3e6, "bytes_read_per_sample": 1e3}
MOVED = FAST | {"moved_bytes_per_sample": 1e6}
NARROW_MEMORY = {"memory_bandwidth_bytes_per_s_per_node": 2e9}
TWICE_ON_TWO = {
    "points": (point(1, 1, 100.0), point(1, 2, 200.0), point(16, 1, 100.0), point(8, 2, 200.0)),
    "ceilings": (Limit(name="serial op map", samples_per_s=250.0),),
}
BELOW_THE_PROBE = TWICE_ON_TWO | {"ceilings": (Limit(name="Python (GIL) map", samples_per_s=150.0),)}


@pytest.mark.parametrize(
    ("model", "cluster", "launch", "rate", "limit"),
    [
        # Workers add up; what does not stream is the single-task nodes, or one task that is the chief.
        ({}, {}, ("3x4x2", 1, "round-robin"), 8 * 200, limits.WORKER_CPU),
        ({}, {}, ("3x4x2", 2, "round-robin"), 4 * 200, limits.WORKER_CPU),
        ({}, {}, ("3x4x2", 0, "round-robin"), 11 * 200, limits.WORKER_CPU),
        ({}, {}, ("1x4x2", 0, "round-robin"), 3 * 200, limits.WORKER_CPU),
        # A feed in turns waits for the slowest; where it is hardly slower it is no limit of its own.
        ({"slowest_ratio": 0.5}, {}, ("3x4x2", 1, "round-robin"), 8 * 200 * 0.5, limits.ROUND_ROBIN),
        ({"slowest_ratio": 0.5}, {}, ("3x4x2", 1, "first-come"), 8 * 200, limits.WORKER_CPU),
        ({"slowest_ratio": 0.97}, {}, ("3x4x2", 1, "round-robin"), 8 * 200 * 0.97, limits.WORKER_CPU),
        ({"slowest_ratio": 0.5, "spread_ratio": 0.2}, {}, ("2x2x1", 1, "round-robin"), 2 * 100 * 0.5, limits.ROUND_ROBIN),
        ({"slowest_ratio": 0.5, "spread_ratio": 0.2}, {}, ("2x1x1", 1, "round-robin"), 100, limits.WORKER_CPU),  # waits for none
        ({"shard_ratio": Estimate.exact(0.5)}, {}, ("3x8x1", 1, "round-robin"), 16 * 100 * 0.5, limits.WORKER_CPU),
        # Neighbours take what was measured; the chief is none.
        (HALVED, {}, ("2x16x1", 1, "round-robin"), 16 * 50, limits.WORKER_CPU),
        (HALVED, {}, ("2x1x1", 1, "round-robin"), 100, limits.WORKER_CPU),
        (
            HALVED,
            {},
            ("2x4x1", 1, "round-robin"),
            4 * 100 * math.sqrt(0.5),
            limits.WORKER_CPU,
        ),  # half of the doublings to a full node
        # A link carries both directions at once, and the fullest node fills its own first: 4 of 11 workers.
        ({"bytes_read_per_sample": 1e6}, SLOW_LINK, ("3x4x2", 1, "round-robin"), 200, limits.NETWORK_IN),
        ({"bytes_out_per_sample": 1e6}, SLOW_LINK, ("3x4x2", 1, "round-robin"), 200, limits.NETWORK_OUT),
        ({"bytes_out_per_sample": 1e6, "bytes_read_per_sample": 1e6}, SLOW_LINK, ("3x4x2", 1, "round-robin"), 200, None),
        ({"bytes_out_per_sample": 1e6}, SLOW_LINK, ("3x4x2", 0, "round-robin"), 100 * 11 / 4, limits.NETWORK_OUT),
        # One ceiling for all nodes, and one for each.
        ({"bytes_read_per_sample": 1e6}, {"storage_bytes_per_s": 3e8}, ("8x4x2", 1, "round-robin"), 300, limits.STORAGE),
        (READ_BY_HOST, {}, ("2x8x1", 1, "first-come"), 3e3, limits.HOST_STORAGE),
        (READ_BY_HOST, {}, ("3x8x1", 1, "first-come"), 6e3, limits.HOST_STORAGE),
        (MOVED, NARROW_MEMORY, ("3x4x1", 1, "first-come"), 4e3, limits.MEMORY_BANDWIDTH),
        (MOVED, {}, ("3x4x1", 1, "first-come"), 8e3, limits.WORKER_CPU),
        (FAST, NARROW_MEMORY, ("3x4x1", 1, "first-come"), 8e3, limits.WORKER_CPU),
        # A ceiling of the worker holds at any number of CPUs, also where the probes say more.
        (TWICE_ON_TWO, {}, ("2x1x2", 1, "first-come"), 200, limits.WORKER_CPU),
        (TWICE_ON_TWO, {}, ("2x1x8", 1, "first-come"), 250, "serial op map"),
        (BELOW_THE_PROBE, {}, ("2x4x2", 1, "first-come"), 4 * 150, "Python (GIL) map"),
        (BELOW_THE_PROBE, {}, ("2x4x1", 1, "first-come"), 4 * 100, limits.WORKER_CPU),
        (BELOW_THE_PROBE | {"slowest_ratio": 0.5}, {}, ("2x4x2", 1, "round-robin"), 4 * 75, limits.ROUND_ROBIN),
    ],
)
def test_a_term_of_the_law(
    model: dict[str, object], cluster: dict[str, object], launch: tuple[str, int, Feed], rate: float, limit: str | None
) -> None:
    layout, single, feed = launch
    found = predict(layout, bare_model(**model), bare_cluster(**cluster), single, feed)
    assert found.samples_per_s.estimate == found.limits[0].samples_per_s == pytest.approx(rate)
    assert limit is None or found.limited_by == limit


@pytest.mark.parametrize(
    ("model", "launch", "limit"),
    [
        ({"private_bytes": 20 * GIB, "shared_bytes": 10 * GIB}, ("2x5x1", 1), None),
        ({"private_bytes": 20 * GIB, "shared_bytes": 10 * GIB}, ("2x6x1", 1), limits.MEMORY),
        ({}, ("2x8x2", 1), None),
        ({}, ("2x8x3", 1), limits.CPUS),
        ({"is_sharded": True, "file_count": 8}, ("3x4x1", 1), None),
        ({"is_sharded": True, "file_count": 8}, ("3x5x1", 1), limits.FILES),
        ({"is_sharded": False, "file_count": 8}, ("3x5x1", 1), None),
        ({}, ("8x1x1", 1), None),
        ({}, ("9x1x1", 1), limits.NODES),
        ({}, ("2x1x1", 2), limits.NODES),
        ({}, ("1x2x1", 1), limits.NODES),
        ({}, ("1x1x1", 0), limits.INPUT_WORKERS),
        ({}, ("1x2x1", 0), None),
    ],
)
def test_what_stops_a_launch(model: dict[str, object], launch: tuple[str, int], limit: str | None) -> None:
    found = predict(launch[0], bare_model(**model), single=launch[1])
    assert (found.problem is None) is (limit is None)
    if limit is not None:
        assert (found.limited_by, found.samples_per_s) == (limit, Estimate.exact(0.0))
    if limit == limits.MEMORY:
        assert "130 GiB" in (found.problem or "")
        assert "128 GiB" in (found.problem or "")


# --- several workers and launches -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("workers", "deviations"), [(2, 0.5642), (10, 1.5388), (100, 2.5076)])
def test_the_slowest_of_workers_alike_is_the_expected_least_of_so_many_draws(workers: int, deviations: float) -> None:
    """In standard deviations below the mean, as tables of normal order statistics have it; of nodes, too."""
    processes, nodes = bare_model(spread_ratio=0.1), bare_model(launch_spread_ratio=0.1)
    assert math.log(slowest_ratio(processes, 1, workers)) == pytest.approx(-0.1 * deviations, rel=0.05)
    assert math.log(slowest_ratio(nodes, workers, workers)) == pytest.approx(-0.1 * deviations, rel=0.05)
    assert slowest_ratio(nodes, 1, workers) == 1.0


@pytest.mark.parametrize("spread", ["spread_ratio", "launch_spread_ratio"])
def test_the_mean_of_many_is_surer_and_workers_of_one_launch_share_what_differs_between_launches(spread: str) -> None:
    def width(layout: str) -> float:
        found = predict(layout, bare_model(**{spread: 0.1}), bare_cluster(nodes=200), single=1, feed="first-come")
        return found.samples_per_s.relative_half_width_ratio

    assert width("2x1x1") == pytest.approx(NORMAL_95 * 0.1, rel=0.15)
    assert width("101x1x1") < width("2x1x1") / 4
    if spread == "launch_spread_ratio":
        assert width("2x16x1") == pytest.approx(width("2x1x1"), rel=0.05)
    else:
        assert width("2x16x1") < width("2x1x1") / 2

"""Capacity: laws of the rates over random models and clusters, and one test that fails when its term is deleted."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from builders import (
    GIB,
    make_capacity_model,
    make_cluster,
    make_estimate,
    make_files,
    make_graph,
    make_measurement,
    make_noise,
    make_point,
    make_worker,
)
from hypothesis import given
from hypothesis import strategies as st
from test_recommend import a_cluster

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.model import capacity
from cs_input_analyzer.model.capacity import assumptions as limits
from cs_input_analyzer.model.capacity.assumptions import ASSUMED, SMT_GAIN_RATIO
from cs_input_analyzer.model.capacity.prediction import slowest_ratio
from cs_input_analyzer.model.capacity.rates import occupancy
from cs_input_analyzer.model.capacity.worker import hardware_thread_ratio, worker_ceilings, worker_rate
from cs_input_analyzer.model.estimates import NORMAL_95
from cs_input_analyzer.records import CapacityModel, Cluster, Estimate, Feed, Layout, Limit, Measurement, Prediction, RatePoint

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


# --- one worker -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("points", "cpus", "name"),
    [
        ((point(1, 1, 100.0), point(1, 2, 195.0)), 1, limits.WORKER_CPU),
        ((point(1, 1, 100.0), point(1, 2, 104.0)), 1, limits.WORKER_SERIAL),
        ((point(1, 1, 100.0), point(1, 2, 190.0), point(1, 8, 200.0)), 8, limits.WORKER_SERIAL),
        *(((point(1, 1, 100.0), point(1, 2, 190.0), point(1, 8, 200.0)), cpus, limits.WORKER_CPU) for cpus in (1, 2)),
        ((point(1, 1, 100.0), point(1, 16, 130.0)), 16, limits.WORKER_SERIAL),
        ((point(1, 1, 100.0, cost=0.0099),), 1, limits.WORKER_CPU),
        ((point(1, 1, 100.0, cost=0.002),), 1, limits.WORKER_SERIAL),
        ((point(1, 1, 100.0, cost=None),), 1, limits.WORKER_CPU),
    ],
)
def test_a_worker_that_cpus_do_not_help_is_told_from_one_they_do(points: tuple[RatePoint, ...], cpus: int, name: str) -> None:
    assert predict(f"2x1x{cpus}", bare_model(points=points)).limited_by == name


@pytest.mark.parametrize(
    ("host", "node", "source", "is_paid"),
    [
        (2, 2, "flags", True),
        (4, 2, "flags", True),
        (2, None, "flags", True),
        (None, None, "flags", True),  # a host like the nodes is as likely as any
        (None, 2, "this host", True),  # a run that did not write it down, about its own host
        (1, 2, "flags", False),
        (1, 2, "this host", False),
        (1, None, "flags", False),
        (None, 2, "flags", False),
        (2, 4, "flags", False),
    ],
)
def test_probes_that_filled_the_host_paid_for_hardware_threads_where_the_host_has_them(
    host: int | None, node: int | None, source: str, is_paid: bool
) -> None:
    model = bare_model(host_threads_per_core=host, points=(point(1, 1, 100.0, cost=0.01), point(16, 1, 100.0, cost=0.01)))
    cluster = bare_cluster(threads_per_core=node, source=source)
    cores = predict("2x16x1", model, replace(cluster, threads_per_core=1))
    found = predict("2x16x1", model, cluster)
    if is_paid:
        assert found == cores
        return
    threads = 1 / (node or 2)
    ratio = threads + (1 - threads) * SMT_GAIN_RATIO
    expected = ratio if node else math.sqrt(ratio)  # 0.625 of a busy CPU with two threads
    assert found.samples_per_s.estimate == pytest.approx(cores.samples_per_s.estimate * expected)


def at_work(busy: float, rate: float = 100.0) -> CapacityModel:
    """Workers on one CPU that are busy for this share of the time, however many there are."""
    return bare_model(points=tuple(point(tasks, 1, rate, cost=busy / rate) for tasks in (1, 16)))


def test_an_unknown_speed_of_the_nodes_widens_the_interval() -> None:
    model = at_work(1.0)
    known, unknown = predict("2x1x1", model), predict("2x1x1", model, bare_cluster(speed_ratio=None))
    here = predict("2x1x1", model, bare_cluster(speed_ratio=None, source="this host"))
    assert unknown.samples_per_s.estimate == known.samples_per_s.estimate
    assert unknown.samples_per_s.low < known.samples_per_s.low
    assert unknown.samples_per_s.high > known.samples_per_s.high
    assert here == known


@given(st.floats(0.01, 1.0), st.floats(1.0, 1e4), st.floats(0.1, 10.0), st.integers(1, 64))
def test_waiting_takes_as_long_beside_a_faster_cpu_and_on_a_shared_core(busy: float, rate: float, speed: float, tasks: int) -> None:
    model, cluster = at_work(busy, rate=rate), bare_cluster(speed_ratio=Estimate.exact(speed), cpus_per_node=64, threads_per_core=2)
    faster = speed * hardware_thread_ratio(model, cluster, tasks, 1)
    found = worker_rate(model, cluster, tasks, 1)[0]
    assert 1 / found.estimate == pytest.approx((busy / faster + 1 - busy) / rate)


def test_idle_cpus_may_wait_for_a_thread_that_computes() -> None:
    """One of four CPUs is busy: with what all wait for, or with what three wait for elsewhere. No plan rests on the better."""
    points = tuple(point(1, cpus, 100.0, cost=0.01) for cpus in (1, 4))
    model = bare_model(points=points)
    slower, faster = (bare_cluster(speed_ratio=Estimate.exact(speed)) for speed in (0.5, 2.0))
    assert worker_rate(model, slower, 1, 4)[0].estimate == pytest.approx(50)
    assert worker_rate(model, faster, 1, 4)[0].estimate == pytest.approx(100 / (0.25 / 2 + 0.75))
    unknown = replace(model, points=tuple(replace(one, cpu_s_per_sample=None) for one in points))
    assert worker_rate(unknown, faster, 1, 4)[0].estimate == pytest.approx(200)  # taken as busy


# --- the surface of rates -------------------------------------------------------------------------------------------------------


@given(models(), clusters.map(lambda cluster: replace(cluster, threads_per_core=1)))
def test_it_passes_through_what_was_measured(model: CapacityModel, cluster: Cluster) -> None:
    """On nodes like the host: lone workers, and those that filled it, if no other launch of their size ran beside neighbours."""
    here = replace(cluster, cpus_per_node=model.host_cpus)
    lone = [one.cpus for one in model.points if one.tasks == 1]
    together = [one.cpus for one in model.points if one.tasks > 1]
    for probed in model.points:
        is_alone = together.count(probed.cpus) == 1 and probed.cpus != model.host_cpus
        if probed.tasks == 1 or (is_alone and probed.cpus in lone):
            rate, extrapolation = worker_rate(model, here, probed.tasks, probed.cpus)
            assert math.isclose(rate.estimate, probed.samples_per_s.estimate * model.shard_ratio.estimate, rel_tol=1e-6)
            assert extrapolation == 1.0


@given(st.floats(0.3, 1.0), st.floats(0.3, 1.0), st.integers(2, 15), st.sampled_from([1, 2, 4, 8]))
def test_a_node_that_is_fuller_slows_its_workers(narrow: float, wide: float, tasks: int, cpus: int) -> None:
    """Between a lone worker and those that fill the node, by the logarithm of how many there are."""
    points = (point(1, 1, 100.0), point(1, 16, 1600.0), point(16, 1, 100 * narrow), point(2, 8, 800 * wide))
    model, cluster = bare_model(points=points), bare_cluster()
    rates = [worker_rate(model, cluster, count, cpus)[0].estimate for count in (1, min(tasks, 16 // cpus), 16 // cpus)]
    assert rates == sorted(rates, reverse=True) or rates == pytest.approx([rates[0]] * 3)
    assert rates[-1] >= 100 * cpus * min(narrow, wide, 1) * 0.99


def test_half_a_node_stands_for_a_full_one() -> None:
    """Memory held only four of sixteen workers: what they kept is half of the way to a full node."""
    model = bare_model(points=(point(1, 1, 100.0), point(1, 16, 1600.0), point(4, 1, 80.0)))
    assert occupancy(4, 1, 16) == 0.5
    assert worker_rate(model, bare_cluster(), 4, 1)[0].estimate == pytest.approx(80)
    assert worker_rate(model, bare_cluster(), 16, 1)[0].estimate == pytest.approx(64)


@pytest.mark.parametrize(
    ("points", "cpus", "rate", "extrapolation"),
    [
        ((point(1, 4, 400.0),), 1, 100.0, 4.0),  # in proportion, at most
        ((point(1, 1, 3228.0), point(1, 2, 2374.0)), 8, 2374.0, 4.0),  # slower with CPUs: no growth is promised
    ],
)
def test_outside_of_the_probes_the_slower_bound_is_used(
    points: tuple[RatePoint, ...], cpus: int, rate: float, extrapolation: float
) -> None:
    found, ratio = worker_rate(bare_model(points=points), bare_cluster(), 1, cpus)
    assert (found.estimate, ratio) == (pytest.approx(rate), extrapolation)
    assert found.low < rate < found.high


@given(st.floats(0.2, 16), st.integers(2, 15), st.floats(0, 0.1))
def test_between_two_probes_nothing_is_surer_than_they_are(grown: float, cpus: int, spread: float) -> None:
    points = (point(1, 1, 100.0, spread=spread), point(1, 16, 100 * grown, spread=spread))
    ends = [worker_rate(bare_model(points=points), bare_cluster(), 1, size)[0] for size in (1, 16)]
    found = worker_rate(bare_model(points=points), bare_cluster(), 1, cpus)[0]
    assert min(ends[0].estimate, ends[1].estimate) * 0.99 <= found.estimate <= max(ends[0].estimate, ends[1].estimate) * 1.01
    assert found.high / found.low >= max(end.high / end.low for end in ends)


@given(st.floats(0, 1))
def test_amdahls_law_is_met_between_probes(serial: float) -> None:
    def law(cpus: int) -> float:
        return 100 * cpus / (1 + serial * (cpus - 1))

    model = bare_model(points=(point(1, 1, law(1)), point(1, 16, law(16))))
    assert worker_rate(model, bare_cluster(), 1, 4)[0].estimate == pytest.approx(law(4))


def test_more_busy_cpus_than_were_probed_widen_the_interval() -> None:
    model = bare_model(points=(point(1, 1, 100.0), point(4, 1, 100.0)), host_cpus=4)
    found = [predict(layout, model) for layout in ("2x4x1", "2x8x1", "2x16x1")]
    assert [one.extrapolation_ratio for one in found] == [1, 2, 4]
    widths = [one.samples_per_s.relative_half_width_ratio or 0.0 for one in found]
    assert widths == sorted(widths)
    assert widths[0] < widths[1] < widths[2]


# --- fit ------------------------------------------------------------------------------------------------------------------------


def fit(*measurements: object, host_cpus: int = 16, **graph: object) -> CapacityModel:
    return capacity.fit(make_graph(**graph), measurements, host_cpus)  # type: ignore[arg-type]


def test_more_launches_that_agree_narrow_the_interval_but_one_is_never_exact() -> None:
    exact = make_measurement("1x1x1", workers=(make_worker(samples_per_s=Estimate.exact(100.0)),))
    widths = [fit(*[exact] * count).points[0].samples_per_s.relative_half_width_ratio or 0.0 for count in (1, 2, 3, 10)]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > ASSUMED.process
    assert widths[-1] > 0


def test_workers_of_one_launch_are_one_observation() -> None:
    """Eight workers of one launch say no more of it than two do; eight launches do."""
    lone = launched("1x1x1", *[950.0, 1150.0] * 10)
    others = (launched("1x2x1", 900), launched("1x8x1", 900), launched("1x2x1", *[810.0, 990.0] * 4))
    two, eight, often = (fit(*lone, *other).points[1].samples_per_s.relative_half_width_ratio or 0.0 for other in others)
    assert eight > 0.8 * two
    assert often < 0.7 * two


@given(st.lists(st.floats(990, 1010), min_size=2, max_size=16))
def test_processes_alike_are_no_slow_worker(rates: list[float]) -> None:
    workers = tuple(make_worker(rate) for rate in rates)
    assert fit(make_measurement("1x1x1"), make_measurement(f"1x{len(rates)}x1", workers=workers)).slowest_ratio > 0.98


def test_a_worker_that_stays_behind_sets_the_pace() -> None:
    found = fit(make_measurement("1x1x1", [1000]), make_measurement("1x4x1", [1000.0, 1000.0, 1000.0, 600.0]))
    assert found.slowest_ratio == pytest.approx(600 / 900, rel=0.01)


def test_validation_and_runs_inside_the_users_process_never_feed_the_model() -> None:
    others = [
        make_measurement("1x1x1", [5000], role="validate"),
        make_measurement("1x1x4", [5000], isolation="none"),
        make_measurement("2x1x8", [5000, 5000]),
        make_measurement("1x1x1", [None]),
    ]
    model = fit(make_measurement("1x1x1", [1000]), *others)
    assert [(p.tasks, p.cpus, p.samples_per_s.estimate) for p in model.points] == [(1, 1, pytest.approx(1000))]
    for probes in (others, [make_measurement("1x2x1", [900, 900])]):
        with pytest.raises(UsageError, match="ran alone"):
            fit(*probes)


def test_memory_files_and_bytes_come_from_the_workers_and_the_graph_and_are_missing_where_nobody_told() -> None:
    unknown = dict.fromkeys(
        ("private_bytes", "peak_rss_bytes", "bytes_read_per_sample", "bytes_out_per_sample", "cpu_s_per_sample")
    )
    light = make_worker(**(unknown | {"private_bytes": 5, "peak_rss_bytes": 50, "bytes_read_per_sample": 100.0}))
    heavy = make_worker(**(unknown | {"peak_rss_bytes": 70, "bytes_read_per_sample": 300.0, "bytes_out_per_sample": 9.0}))
    model = fit(
        make_measurement("1x1x1", workers=(light,), shared_bytes=3),
        make_measurement("1x1x1", workers=(heavy,), shared_bytes=None),
        chain="tensor_slices > shard > batch",
        files=make_files(count=17),
    )
    assert (model.private_bytes, model.shared_bytes, model.file_count, model.is_sharded) == (70, 3, 17, True)
    assert (model.bytes_read_per_sample, model.bytes_out_per_sample) == (200.0, 9.0)
    # A shard of records leaves all files to each worker: their number is no limit. A second shard, of names, is.
    for chain, is_sharded in [
        ("tensor_slices > interleave > shard > batch", False),
        ("tensor_slices > interleave > map*8 > batch > shard", False),
        ("tensor_slices > shard > interleave > shard > batch", True),
    ]:
        assert fit(make_measurement("1x1x1"), chain=chain, files=make_files(count=17)).is_sharded == is_sharded
    silent = make_measurement("1x1x1", workers=(make_worker(**unknown),), shared_bytes=None)
    model = fit(silent, chain="tensor_slices > batch", files=None)
    assert (model.private_bytes, model.shared_bytes, model.file_count, model.is_sharded) == (None, None, None, False)
    assert (model.bytes_read_per_sample, model.bytes_out_per_sample, model.points[0].cpu_s_per_sample) == (None, None, None)


@pytest.mark.parametrize(
    ("runs", "ratio"),
    [
        ([("1x1x2", [500], 40)], 0.5),
        # No difference seen: more processes of the same kind. A lost run says nothing.
        ([("1x1x2", [1005], 40)], 1.0),
        ([("1x1x2", [None], 40)], 1.0),
        # Four together lose half to each other, with or without shards: that is contention, not sharding.
        ([("1x4x2", [500] * 4, 4), ("1x4x2", [500] * 4, 40)], 1.0),
        # Those count that were announced as many workers as the last.
        ([("1x1x2", [500], 10), ("1x1x2", [250], 100)], 0.25),
        ([("1x1x2", [250], 100), ("1x1x2", [500], 10)], 0.5),
    ],
)
def test_workers_that_read_their_shards_show_what_that_costs(runs: list[tuple[str, list[float], int]], ratio: float) -> None:
    probes = [make_measurement(layout, rates, num_workers=count) for layout, rates, count in runs]
    model = fit(make_measurement("1x1x2", [1000]), *probes)
    assert model.shard_ratio.estimate == pytest.approx(ratio)
    assert (model.shard_ratio == Estimate.exact(1.0)) is (ratio == 1)
    assert model.points[0].samples_per_s.count == (2 if runs[0][1] == [1005] else 1)


def test_shards_of_a_shape_that_nothing_else_has_are_that_shape() -> None:
    """A line between one and sixteen CPUs says 400; what was seen of four counts, and is no difference of shards."""
    probes = [make_measurement("1x1x1", [100]), make_measurement("1x1x16", [1600])]
    model = fit(*probes, make_measurement("1x1x4", [250], num_workers=40))
    assert model.shard_ratio == Estimate.exact(1.0)
    assert worker_rate(model, bare_cluster(), 1, 4)[0].estimate == pytest.approx(250)


@given(st.floats(100, 1e6), st.integers(2, 50))
def test_where_only_workers_with_a_shard_were_measured_they_are_the_model(rate: float, count: int) -> None:
    """A cache that is full in time only where it holds a shard leaves no other launch of its state."""
    shard = make_measurement("1x1x2", [rate], num_workers=count)
    for probes in ([shard], [make_measurement("1x1x2", [None]), shard]):
        model = fit(*probes)
        assert model.points[0].samples_per_s.estimate == pytest.approx(rate)
        assert model.shard_ratio == Estimate.exact(1.0)


@pytest.mark.parametrize("mean", [1000, 500])
def test_how_far_shards_of_the_plan_differ_is_kept_apart_from_what_the_whole_showed(mean: float) -> None:
    """Whether the shards are slower on the whole, or only some of them."""
    alone, together = make_measurement("1x1x1", [1000]), make_measurement("1x2x1", [1000, 800])
    whole = fit(alone, together)
    assert whole.whole_slowest_ratio == whole.slowest_ratio < 0.95
    uneven = [0.4 * mean, 1.2 * mean, 1.2 * mean, 1.2 * mean]
    model = fit(alone, together, make_measurement("1x4x1", uneven, num_workers=40))
    assert model.whole_slowest_ratio == whole.slowest_ratio
    assert model.slowest_ratio == pytest.approx(0.4, abs=0.02)


def launched(layout: str, *rates: float, spread: float = 0.02) -> list[Measurement]:
    """A launch for each rate, all workers of it alike."""
    tasks = Layout.parse(layout).tasks
    workers = {rate: make_worker(rate, samples_per_s=make_estimate(rate, spread=spread)) for rate in rates}
    return [make_measurement(layout, workers=(workers[rate],) * tasks) for rate in rates]


@given(st.floats(0.08, 0.2), st.integers(1, 4))
def test_how_far_launches_lie_apart_is_seen_where_there_are_many(apart: float, tasks: int) -> None:
    rates = [1000 * (1 + apart), 1000 / (1 + apart)] * 30
    found = fit(*launched("1x1x1", *rates), *launched(f"1x{tasks}x2", 1000)).launch_spread_ratio
    assert math.hypot(found, ASSUMED.process) == pytest.approx(math.log1p(apart), rel=0.1)  # of one process each


@given(st.floats(0.05, 0.3), st.integers(0, 99))
def test_what_windows_are_unsure_of_sets_no_launches_apart(error: float, seed: int) -> None:
    rates = np.exp(np.random.default_rng(seed).normal(math.log(1000), error, 20))
    found = fit(*launched("1x1x1", *map(float, rates), spread=error * NORMAL_95)).launch_spread_ratio
    assert found < 0.8 * error + ASSUMED.launch
    assert fit(*launched("1x1x1", 1000, spread=error)).launch_spread_ratio == pytest.approx(ASSUMED.launch)


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


# --- an idle host ---------------------------------------------------------------------------------------------------------------


@given(st.floats(0.05, 0.9), st.floats(0.1, 1.0))
def test_what_others_had_is_given_back_to_those_that_compute(others: float, wanted: float) -> None:
    """A worker that would use a share of its CPU gets what others leave, and no less than it needs if they leave enough."""
    rate = 1000 * min(1.0, (1 - others) / wanted)
    noise = make_noise(others_ratio=others, run_queue_wait_ratio=10.0)
    worker = make_worker(rate, cpu_s_per_sample=wanted / 1000, noise=noise)
    idle = capacity.on_idle_cpus(make_measurement("1x1x1", workers=(worker,)))
    assert idle.samples_per_s is not None
    assert rate * (1 - 1e-9) <= idle.samples_per_s.estimate <= rate / (1 - others) * (1 + 1e-9)
    if wanted > 1 - others:
        assert idle.samples_per_s.estimate == pytest.approx(rate / (1 - others))


@pytest.mark.parametrize("noise", [None, make_noise(others_ratio=None), make_noise(others_ratio=0.0)])
def test_a_launch_of_which_nothing_is_known_stays_as_it_is(noise: object) -> None:
    launch = make_measurement("1x1x1", workers=(make_worker(noise=noise),))
    assert capacity.on_idle_cpus(launch) == launch
    assert fit(launch).host_ratio.estimate == 1.0


def test_others_widen_what_is_said_of_launches_and_of_the_host() -> None:
    busy, quiet = (
        fit(make_measurement("1x1x1", workers=(make_worker(noise=make_noise(others_ratio=others, run_queue_wait_ratio=9.0)),)))
        for others in (0.3, 0.0)
    )
    assert busy.launch_spread_ratio > 3 * quiet.launch_spread_ratio
    assert busy.run_spread_ratio > 3 * quiet.run_spread_ratio
    assert busy.host_ratio.estimate < 0.8
    assert busy.host_ratio.low < busy.host_ratio.estimate <= busy.host_ratio.high <= 1


def test_what_predictions_of_a_site_were_off_replaces_what_is_assumed() -> None:
    def spread(*errors: float) -> float:
        return capacity.fit(make_graph(), [make_measurement("1x1x1")], 16, is_virtual=True, site_errors=errors).run_spread_ratio

    assert spread() == pytest.approx(ASSUMED.virtual_host, rel=0.1)
    assert spread(*[0.02, -0.02] * 20) < 0.5 * spread()
    assert spread(*[0.3, -0.3] * 20) > 2 * spread()


def test_nodes_that_lie_apart_widen_what_is_said_of_launches() -> None:
    def launch(*rates: float) -> Measurement:
        workers = tuple(make_worker(rate, node=f"node-{number}", index=number) for number, rate in enumerate(rates))
        return make_measurement(f"{len(rates)}x1x1", workers=workers)

    lone = make_measurement("1x1x1")
    alike, unlike = (fit(lone, launch(*rates)).launch_spread_ratio for rates in ((1000.0, 1001.0, 999.0), (700.0, 1000.0, 1300.0)))
    assert alike == fit(lone).launch_spread_ratio
    assert unlike > 3 * alike


def test_a_virtual_machine_is_less_sure_from_hour_to_hour() -> None:
    launches = [make_measurement("1x1x1")]
    virtual, real = (capacity.fit(make_graph(), launches, 16, is_virtual=virtual).run_spread_ratio for virtual in (True, False))
    assert virtual == pytest.approx(ASSUMED.virtual_host, rel=0.1)
    assert real == pytest.approx(ASSUMED.host, rel=0.5)

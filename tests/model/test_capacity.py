"""Capacity: laws of the bottleneck model over random models and clusters, and one test that fails when its term is deleted."""

from __future__ import annotations

import math
import random
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
    make_point,
    make_worker,
)
from hypothesis import example, given
from hypothesis import strategies as st
from test_recommend import a_cluster

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.model import capacity
from cs_input_analyzer.model.capacity import assumptions as limits
from cs_input_analyzer.model.capacity.assumptions import (
    FAR_ERROR_LOG_PER_DOUBLING,
    LAUNCH_SPREAD_RATIO,
    PROCESS_SPREAD_RATIO,
    SHAPE_ERROR_LOG,
    SMT_GAIN_RATIO,
)
from cs_input_analyzer.model.capacity.prediction import slowest_ratio
from cs_input_analyzer.model.capacity.worker import hardware_thread_ratio, shape_error_log, worker_ceilings, worker_rate
from cs_input_analyzer.model.estimates import NORMAL_95, REPLICATES
from cs_input_analyzer.records import (
    CapacityModel,
    Cluster,
    ContentionPoint,
    Estimate,
    Feed,
    Layout,
    Limit,
    Measurement,
    Prediction,
    WorkerPoint,
)

point = partial(make_point, cost=None)


def contention(tasks: int, kept: float, host_cpus: int = 16, spread: float = 0.0) -> ContentionPoint:
    """Workers of one CPU that together kept this share of their rate."""
    kept_ratio = make_estimate(kept, spread=spread, count=tasks)
    return ContentionPoint(tasks=tasks, cpus=1, busy_ratio=tasks / host_cpus, kept_ratio=kept_ratio)


def bare_model(**overrides: object) -> CapacityModel:
    """One CPU gives 100 samples/s, nothing else limits: each test adds the one term that it is about."""
    plain: dict[str, object] = {
        "workers": (point(1, 100.0, spread=0.0), point(16, 1600.0, spread=0.0)),
        "contention": (contention(16, 1.0),),
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
    cpus = sorted(draw(st.sets(st.integers(1, host_cpus), min_size=1, max_size=4)))
    pairs = [(t, c) for t in range(2, 5) for c in range(1, host_cpus + 1)]
    shared = draw(st.lists(st.sampled_from(pairs), max_size=3, unique=True))
    return make_capacity_model(
        workers=tuple(WorkerPoint(cpus=c, samples_per_s=draw(estimates(rates)), cpu_s_per_sample=draw(sizes)) for c in cpus),
        contention=tuple(
            ContentionPoint(tasks=t, cpus=c, busy_ratio=t * c / host_cpus, kept_ratio=draw(estimates(st.floats(0.2, 1.2))))
            for t, c in shared
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
        measured_samples_per_s=st.one_of(st.none(), rates),
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
    """Each in its currency: as measured on the host that measured, and on an idle node of their speed elsewhere."""
    model = replace(model, ceilings=lasting, host_ratio=host)
    cluster = replace(cluster, source=source, speed_ratio=speed)
    found = capacity.predict(model, cluster, layout, single_task_nodes=0, feed=feed, has_chief=False)
    assert found.problem is None
    each = found.samples_per_s.estimate / found.input_workers * (1 - 1e-12)
    most = worker_ceilings(model, cluster, layout.tasks_per_node, layout.cpus_per_task)
    assert all(each <= limit.samples_per_s for limit in most)
    for limit in lasting:
        if source == limits.THIS_HOST:
            assert each <= min(limit.samples_per_s, limit.measured_samples_per_s or math.inf)
        elif limit.name.startswith(limits.LATENCY) or speed is None or speed.estimate <= 1:
            assert each <= limit.samples_per_s
    bound = min((limit.samples_per_s for limit in most), default=math.inf)
    free = capacity.predict(replace(model, ceilings=()), cluster, layout, single_task_nodes=0, feed=feed, has_chief=False)
    assert free.samples_per_s.estimate >= found.samples_per_s.estimate * (1 - 1e-12)
    if free.samples_per_s.estimate / free.input_workers < bound * (1 - 1e-9) and feed == "first-come":
        assert found.samples_per_s.estimate == pytest.approx(free.samples_per_s.estimate)


@given(models(), clusters, st.integers(1, 16), st.integers(1, 16))
def test_a_busier_node_never_speeds_a_worker_up(model: CapacityModel, cluster: Cluster, tasks: int, cpus: int) -> None:
    alone, _ = worker_rate(model, cluster, 1, cpus)
    fewer, _ = worker_rate(model, cluster, tasks, cpus)
    more, _ = worker_rate(model, cluster, tasks + 1, cpus)
    assert more.estimate <= fewer.estimate * (1 + 1e-12) <= alone.estimate * (1 + 1e-11)


# --- each term of the law: its row fails when the term is deleted ---------------------------------------------------------------

SLOW_LINK = {"network_bytes_per_s_per_node": 1e8}
HALVED = {"contention": (contention(16, 0.5),)}
SHARED_BY_TWO = {"contention": (contention(2, 0.5),)}
FAST = {"workers": (point(1, 1000.0, spread=0.0),), "contention": ()}
READ_BY_HOST = FAST | {"host_read_bytes_per_s": 3e6, "bytes_read_per_sample": 1e3}
MOVED = FAST | {"moved_bytes_per_sample": 1e6}
NARROW_MEMORY = {"memory_bandwidth_bytes_per_s_per_node": 2e9}
TWICE_ON_TWO = {
    "workers": (make_point(1, 100.0, spread=0.0), make_point(2, 200.0, spread=0.0)),
    "ceilings": (Limit(name="serial op map", samples_per_s=250.0),),
}
BELOW_THE_PROBE = TWICE_ON_TWO | {"ceilings": (Limit(name="Python (GIL) map", samples_per_s=150.0, measured_samples_per_s=120.0),)}


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
        (SHARED_BY_TWO, {}, ("1x2x1", 0, "round-robin"), 100, limits.WORKER_CPU),
        (SHARED_BY_TWO, {}, ("1x3x1", 0, "round-robin"), 100, limits.WORKER_CPU),
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


@given(models(), clusters.map(lambda cluster: replace(cluster, threads_per_core=1, cpus_per_node=64)))
def test_the_curve_passes_through_what_was_measured(model: CapacityModel, cluster: Cluster) -> None:
    for probed in model.workers:
        rate, extrapolation = worker_rate(model, cluster, 1, probed.cpus)
        assert math.isclose(rate.estimate, probed.samples_per_s.estimate * model.shard_ratio.estimate, rel_tol=1e-9)
        assert extrapolation == 1.0


@pytest.mark.parametrize(
    ("points", "cpus", "rate", "extrapolation"),
    [
        ((point(4, 400.0, spread=0.0),), 1, 100.0, 4.0),  # in proportion, at most
        ((point(1, 3228.0), point(2, 2374.0)), 8, 2374.0, 4.0),  # slower with CPUs: no growth is promised
    ],
)
def test_outside_of_the_probes_the_slower_bound_is_used(
    points: tuple[WorkerPoint, ...], cpus: int, rate: float, extrapolation: float
) -> None:
    found, ratio = worker_rate(bare_model(workers=points), bare_cluster(), 1, cpus)
    assert (found.estimate, ratio) == (pytest.approx(rate), extrapolation)
    assert found.low < rate < found.high


@given(
    phases=st.lists(st.tuples(st.integers(0, 16), st.floats(0.01, 1.0)), min_size=1, max_size=8),
    probed=st.integers(1, 16),
    cpus=st.integers(1, 16),
)
def test_one_probe_holds_what_any_mix_of_waiting_and_computing_would_show(
    phases: list[tuple[int, float]], probed: int, cpus: int
) -> None:
    # A sample goes through phases: so many threads could run for so long; with fewer CPUs than threads a phase takes longer.
    def seconds(on: int) -> float:
        return sum(length * max(1.0, threads / on) for threads, length in phases)

    cost = sum(threads * length for threads, length in phases)
    one = point(probed, 1 / seconds(probed), spread=0.0, cost=cost)
    rate, _ = worker_rate(bare_model(workers=(one,)), bare_cluster(), 1, cpus)
    assert rate.low * (1 - 1e-9) <= 1 / seconds(cpus) <= rate.high * (1 + 1e-9)


@pytest.mark.parametrize(
    ("points", "cpus", "name"),
    [
        ((point(1, 100.0), point(2, 195.0)), 1, limits.WORKER_CPU),
        ((point(1, 100.0), point(2, 104.0)), 1, limits.WORKER_SERIAL),
        ((point(1, 100.0), point(2, 190.0), point(8, 200.0)), 8, limits.WORKER_SERIAL),
        *(((point(1, 100.0), point(2, 190.0), point(8, 200.0)), cpus, limits.WORKER_CPU) for cpus in (1, 2)),
        ((point(1, 100.0), point(16, 130.0)), 16, limits.WORKER_SERIAL),
        ((point(1, 100.0, cost=0.0099),), 1, limits.WORKER_CPU),
        ((point(1, 100.0, cost=0.002),), 1, limits.WORKER_SERIAL),
        ((point(1, 100.0, cost=None),), 1, limits.WORKER_CPU),
    ],
)
def test_a_worker_that_cpus_do_not_help_is_told_from_one_they_do(points: tuple[WorkerPoint, ...], cpus: int, name: str) -> None:
    assert predict(f"2x1x{cpus}", bare_model(workers=points)).limited_by == name


def test_more_than_twice_the_busy_cpus_that_were_probed_widen_the_interval() -> None:
    model = bare_model(contention=(contention(4, 1.0),))
    for layout, extrapolation in (("2x4x1", 1), ("2x8x1", 2), ("2x16x1", 4)):
        found = predict(layout, model)
        assert found.extrapolation_ratio == extrapolation
        error = math.exp(FAR_ERROR_LOG_PER_DOUBLING * (extrapolation == 4))
        assert found.samples_per_s.low == pytest.approx(found.samples_per_s.estimate / error)
        assert found.samples_per_s.high == pytest.approx(found.samples_per_s.estimate * error)


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
    model = bare_model(host_threads_per_core=host, workers=(point(1, 100.0, spread=0.0, cost=0.01),))
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
    assert found.samples_per_s.low < cores.samples_per_s.low * expected * 1.001


def at_work(busy: float, rate: float = 100.0) -> CapacityModel:
    """One worker on one CPU that is busy for this share of the time."""
    return bare_model(workers=(point(1, rate, spread=0.0, cost=busy / rate),), contention=())


def test_a_few_percent_of_cpu_time_are_not_a_core_more() -> None:
    """Four workers of one CPU filled the host; two of two CPUs, each a little busier, fill it no more."""
    points = (point(1, 100.0, spread=0.0, cost=0.0095), point(2, 200.0, spread=0.0, cost=0.0099))
    model = bare_model(
        workers=points, contention=(contention(4, 0.8, host_cpus=4, spread=0.02),), host_cpus=4, host_threads_per_core=2
    )
    cluster = bare_cluster(cpus_per_node=4, threads_per_core=2)
    assert hardware_thread_ratio(model, cluster, 2, 2) == 1.0
    half = replace(model, workers=(replace(points[0], cpu_s_per_sample=0.005), points[1]))
    assert hardware_thread_ratio(half, cluster, 2, 2) < 1


# --- between probes -------------------------------------------------------------------------------------------------------------


def relative(found: Estimate) -> tuple[float, float]:
    return found.low / found.estimate, found.high / found.estimate


@given(st.sets(st.integers(1, 16), min_size=3, max_size=5), st.lists(estimates(rates), min_size=4, max_size=4), st.randoms())
def test_between_two_probes_nothing_is_surer_than_they_are(sizes: set[int], seen: list[Estimate], draw: random.Random) -> None:
    cpus = draw.choice(sorted(sizes)[1:-1])
    probed = sorted(sizes - {cpus})
    points = tuple(WorkerPoint(cpus=c, samples_per_s=rate, cpu_s_per_sample=None) for c, rate in zip(probed, seen, strict=False))
    model = bare_model(workers=points, contention=())
    low, high = relative(worker_rate(model, bare_cluster(), 1, cpus)[0])
    below, above = max(c for c in probed if c < cpus), min(c for c in probed if c > cpus)
    left, right = (relative(worker_rate(model, bare_cluster(), 1, end)[0]) for end in (below, above))
    share = math.log(cpus / below) / math.log(above / below)
    assert low <= left[0] ** (1 - share) * right[0] ** share * (1 + 1e-9)
    assert high >= left[1] ** (1 - share) * right[1] ** share * (1 - 1e-9)


@given(models(), st.integers(1, 16), st.integers(1, 8))
def test_the_shape_is_certain_at_probes_and_outside_of_them(model: CapacityModel, cpus: int, tasks: int) -> None:
    probed = [point.cpus for point in model.workers]
    is_certain = cpus in probed or not probed[0] < cpus < probed[-1]
    assert (shape_error_log(model, 1, cpus) == 0) is is_certain
    # Workers that ran together are probes of workers together.
    assert 0 <= shape_error_log(model, tasks, cpus) <= shape_error_log(model, 1, cpus)


@given(st.floats(1.5, 4), st.floats(1.5, 4))
def test_the_error_of_the_shape_is_what_curves_through_the_same_probes_differ_by_at_most(below: float, above: float) -> None:
    """Between one CPU and `below * above` of them, at rates of 1 and X."""
    end, cpus = below * above, below
    grown = np.exp(np.linspace(0, math.log(end), 400))
    line = grown ** (math.log(cpus) / math.log(end))
    serial = (end / grown - 1) / (end - 1)
    amdahl, straight = cpus / (1 + serial * (cpus - 1)), 1 + (grown - 1) * (cpus - 1) / (end - 1)
    apart = max(np.log(amdahl / line).max(), np.log(line / straight).max())
    assert apart == pytest.approx(SHAPE_ERROR_LOG * math.log2(below) * math.log2(above), abs=0.02)


# --- fit ------------------------------------------------------------------------------------------------------------------------


def fit(*measurements: object, host_cpus: int = 16, **graph: object) -> CapacityModel:
    return capacity.fit(make_graph(**graph), measurements, host_cpus)  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.floats(50, 200), st.floats(0, 0.3)), min_size=1, max_size=8))
@example([(50.0, 0.0)] * 4 + [(155.0, 0.0)])
def test_a_pooled_interval_is_never_narrower_than_its_parts(workers: list[tuple[float, float]]) -> None:
    runs = []
    for rate, spread in workers:
        worker = make_worker(rate, samples_per_s=make_estimate(rate, spread=spread))
        runs.append(make_measurement("1x1x1", workers=(worker,)))
    pooled = fit(*runs).workers[0].samples_per_s
    count, logs = len(workers), [math.log(rate) for rate, _ in workers]
    mean, middle = sum(rate for rate, _ in workers) / count, sum(logs) / count
    seen = mean * math.sqrt(sum((log - middle) ** 2 for log in logs) / (count - 1) / count) if count > 1 else 0.0
    seen *= math.sqrt((count - 1) / (count + 3))  # pooled with an assumption that is worth four launches
    each = math.sqrt(sum((rate * spread) ** 2 for rate, spread in workers)) / count
    assert pooled.high - pooled.low >= 2 * max(NORMAL_95 * seen, each) * 0.8  # by 200 draws
    assert pooled.estimate == pytest.approx(mean)


def test_more_processes_that_agree_narrow_the_interval_but_one_is_never_exact() -> None:
    exact = make_measurement("1x1x1", workers=(make_worker(samples_per_s=Estimate.exact(100.0)),))
    points = [fit(*[exact] * count).workers[0] for count in (1, 2, 3, 10)]
    widths = [point.samples_per_s.relative_half_width_ratio or 0.0 for point in points]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > PROCESS_SPREAD_RATIO
    assert widths[-1] > 0
    assert len(points[0].replicates) == REPLICATES
    assert points[0] == fit(exact).workers[0]  # the same draws each time


@given(st.floats(10, 100), st.floats(0.3, 1), st.floats(1, 16), st.floats(0.2, 2))
def test_a_size_that_only_ran_together_is_predicted_as_seen_and_alone_it_is_no_slower(
    rate: float, kept: float, grown: float, beside: float
) -> None:
    """However much workers of one CPU take from each other, and wherever the line between the lone sizes lies."""
    line = math.sqrt(grown) * rate
    model = fit(
        make_measurement("1x1x1", [rate]),
        make_measurement("1x1x16", [grown * rate]),
        make_measurement("1x4x1", [kept * rate] * 4),
        make_measurement("1x4x4", [beside * line] * 4),
    )
    here = bare_cluster(cpus_per_node=16)
    together, alone_there = (worker_rate(model, here, tasks, 4)[0].estimate for tasks in (4, 1))
    assert together == pytest.approx(beside * line)
    assert alone_there == pytest.approx(max(beside / kept, 1.0) * line)


@example([170.9829307573313] * 3, 0.0)
@given(st.lists(st.floats(100, 1000), min_size=2, max_size=6), st.floats(0, 0.5))
def test_the_slowest_is_never_ahead_of_the_mean_nor_behind_what_was_seen(seen: list[float], spread: float) -> None:
    workers = tuple(make_worker(rate, samples_per_s=make_estimate(rate, spread=spread)) for rate in seen)
    alone = make_measurement("1x1x1", [500])
    ratio = fit(alone, make_measurement(f"1x{len(seen)}x1", workers=workers)).slowest_ratio
    assert min(seen) / (sum(seen) / len(seen)) - 1e-9 <= ratio <= 1.0
    assert fit(alone).slowest_ratio == 1.0


@pytest.mark.parametrize(
    ("rates", "spread", "low", "high"),
    [
        ((1000.0, 990.0, 1010.0, 995.0), 0.02, 1.0, 1.0),  # 2 % apart where each is known to 2 %: nothing persistent
        ((1000.0, 1000.0, 1000.0, 600.0), 0.02, 600 / 900, 600 / 900 + 0.01),
        ((1000.0, 1000.0, 1000.0, 800.0), 0.12, 800 / 950 + 0.02, 0.98),  # half of it is noise
    ],
)
def test_a_worker_that_stays_behind_sets_the_pace_and_noise_does_not(
    rates: tuple[float, ...], spread: float, low: float, high: float
) -> None:
    workers = tuple(make_worker(rate, samples_per_s=make_estimate(rate, spread=spread)) for rate in rates)
    assert low <= fit(make_measurement("1x1x1", [1000]), make_measurement("1x4x1", workers=workers)).slowest_ratio <= high


@given(st.floats(100, 1000), st.floats(100, 1000), st.floats(100, 1000), st.integers(1, 4))
def test_neighbours_never_speed_a_worker_up_and_what_seems_so_is_pooled(lone: float, two: float, three: float, times: int) -> None:
    probes = [make_measurement("1x1x1", [lone]) for _ in range(times)]
    model = fit(*probes, make_measurement("1x2x1", [two, two]), make_measurement("1x3x1", [three] * 3))
    alone = model.workers[0].samples_per_s.estimate
    rates = [alone, *(alone * point.kept_ratio.estimate for point in model.contention)]
    assert rates[0] >= rates[1] * (1 - 1e-9)
    assert rates[1] >= rates[2] * (1 - 1e-9)
    if lone >= two >= three:  # nothing to pool: each is what was measured
        assert rates == pytest.approx([lone, two, three])
    # Least squares under an order keep the weighted sum: nothing is made faster or slower on the whole.
    assert times * rates[0] + 2 * rates[1] + 3 * rates[2] == pytest.approx(times * lone + 2 * two + 3 * three)
    if lone <= two <= three:
        assert rates == pytest.approx([(times * lone + 2 * two + 3 * three) / (times + 5)] * 3)


def test_validation_and_runs_inside_the_users_process_never_feed_the_model() -> None:
    others = [
        make_measurement("1x1x1", [5000], role="validate"),
        make_measurement("1x1x4", [5000], isolation="none"),
        make_measurement("2x1x8", [5000, 5000]),
        make_measurement("1x1x1", [None]),
    ]
    model = fit(make_measurement("1x1x1", [1000]), *others)
    assert [(p.cpus, p.samples_per_s.estimate) for p in model.workers] == [(1, 1000)]
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
    assert (model.bytes_read_per_sample, model.bytes_out_per_sample, model.workers[0].cpu_s_per_sample) == (None, None, None)


# --- what to measure first -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "expected"),
    [(1, "1x1x1"), (2, "1x1x1 1x1x2 1x2x1"), (4, "1x1x1 1x1x4 1x4x1"), (16, "1x1x1 1x1x16 1x4x1"), (64, "1x1x1 1x1x16 1x4x1")],
)
def test_first_probes_span_the_cpus_and_show_contention(budget: int, expected: str) -> None:
    # The node has 16 CPUs: what a larger host can do beyond them is no use.
    assert [str(layout) for layout in capacity.first_probes(bare_cluster(), budget)] == expected.split()


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
    assert model.workers[0].samples_per_s.count == (2 if runs[0][1] == [1005] else 1)


@given(st.floats(100, 1e6), st.integers(2, 50))
def test_where_only_workers_with_a_shard_were_measured_they_are_the_model(rate: float, count: int) -> None:
    """A cache that is full in time only where it holds a shard leaves no other launch of its state."""
    shard = make_measurement("1x1x2", [rate], num_workers=count)
    for probes in ([shard], [make_measurement("1x1x2", [None]), shard]):
        model = fit(*probes)
        assert model.workers[0].samples_per_s.estimate == pytest.approx(rate)
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


# --- terms that were added to the law: each test fails without its term ------------------------------------------------------


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
    points = tuple(make_point(cpus, 100.0, spread=0.0) for cpus in (1, 4))
    model = bare_model(workers=points, contention=())
    slower, faster = (bare_cluster(speed_ratio=Estimate.exact(speed)) for speed in (0.5, 2.0))
    assert worker_rate(model, slower, 1, 4)[0].estimate == pytest.approx(50)
    assert worker_rate(model, faster, 1, 4)[0].estimate == pytest.approx(100 / (0.25 / 2 + 0.75))
    unknown = replace(model, workers=tuple(replace(point, cpu_s_per_sample=None) for point in points))
    assert worker_rate(unknown, faster, 1, 4)[0].estimate == pytest.approx(200)  # taken as busy


@pytest.mark.parametrize(("workers", "deviations"), [(2, 0.5642), (10, 1.5388), (100, 2.5076)])
def test_the_slowest_of_workers_alike_is_the_expected_least_of_so_many_draws(workers: int, deviations: float) -> None:
    """In standard deviations below the mean, as tables of normal order statistics have it."""
    assert math.log(slowest_ratio(bare_model(spread_ratio=0.1), workers)) == pytest.approx(-0.1 * deviations, rel=0.05)


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


def launched(layout: str, *rates: float, spread: float = 0.02) -> list[Measurement]:
    """A launch for each rate, all workers of it alike."""
    tasks = Layout.parse(layout).tasks
    workers = {rate: make_worker(rate, samples_per_s=make_estimate(rate, spread=spread)) for rate in rates}
    return [make_measurement(layout, workers=(workers[rate],) * tasks) for rate in rates]


@given(st.floats(0.03, 0.2), st.integers(1, 4))
def test_how_far_launches_lie_apart_is_seen_where_there_are_many(apart: float, tasks: int) -> None:
    rates = [1000 * (1 + apart), 1000 / (1 + apart)] * 30
    found = fit(*launched("1x1x1", *rates), *launched(f"1x{tasks}x2", 1000)).launch_spread_ratio
    assert found == pytest.approx(math.log1p(apart), rel=0.1)


@given(st.floats(0.05, 0.3), st.integers(0, 99))
def test_what_windows_are_unsure_of_sets_no_launches_apart(error: float, seed: int) -> None:
    rates = np.exp(np.random.default_rng(seed).normal(math.log(1000), error, 20))
    found = fit(*launched("1x1x1", *map(float, rates), spread=error * NORMAL_95)).launch_spread_ratio
    assert found < 0.8 * error + LAUNCH_SPREAD_RATIO
    assert fit(*launched("1x1x1", 1000, spread=error)).launch_spread_ratio == LAUNCH_SPREAD_RATIO


def test_workers_of_one_launch_are_one_observation() -> None:
    """Eight workers of one launch say no more of it than two do; eight launches do."""
    lone = launched("1x1x1", *[950.0, 1150.0] * 10)
    others = (launched("1x2x1", 900), launched("1x8x1", 900), launched("1x2x1", *[810.0, 990.0] * 4))
    two, eight, often = (fit(*lone, *other).contention[0].kept_ratio.relative_half_width_ratio for other in others)
    assert eight > 0.8 * two
    assert often < 0.7 * two


def test_contention_is_by_cpus_kept_busy_and_not_by_cpus_given() -> None:
    """Workers of four CPUs that keep one of them busy disturb each other as workers of one CPU do."""
    points = tuple(make_point(cpus, 100.0, spread=0.0) for cpus in (1, 4))
    model = bare_model(workers=points, contention=(contention(4, 0.8),))
    narrow, wide = (worker_rate(model, bare_cluster(), 4, cpus)[0].estimate for cpus in (1, 4))
    assert narrow == wide == pytest.approx(80)


def test_what_two_factors_have_in_common_cancels() -> None:
    """The rate of two workers together is known as well as it was measured, however badly that of one alone is."""
    alone = [make_measurement("1x1x1", [rate]) for rate in (700, 1000, 1300)]
    together = [make_measurement("1x2x1", [rate, rate]) for rate in (500, 501, 499, 500)]
    model = fit(*alone, *together, host_cpus=2)
    here = bare_cluster(cpus_per_node=2)
    rate, extrapolation = worker_rate(model, here, 2, 1)
    assert extrapolation == 1.0
    assert rate.estimate == pytest.approx(500, rel=0.01)
    kept = model.contention[0].kept_ratio.relative_half_width_ratio
    assert rate.relative_half_width_ratio < 0.8 * kept

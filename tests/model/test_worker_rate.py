"""One worker on a node: its limit by name, hardware threads, other CPUs, and the surface through what was measured."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_capacity import bare_cluster, bare_model, clusters, models, point, predict

from cs_input_analyzer.model.capacity import assumptions as limits
from cs_input_analyzer.model.capacity.assumptions import SMT_GAIN_RATIO
from cs_input_analyzer.model.capacity.rates import occupancy
from cs_input_analyzer.model.capacity.worker import hardware_thread_ratio, worker_rate
from cs_input_analyzer.records import CapacityModel, Cluster, Estimate, RatePoint


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

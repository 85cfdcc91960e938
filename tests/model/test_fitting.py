"""The fit: measurements of one host become a model, on idle CPUs, and each spread is that of its launches."""

from __future__ import annotations

import math

import numpy as np
import pytest
from builders import (
    make_estimate,
    make_files,
    make_graph,
    make_measurement,
    make_noise,
    make_worker,
)
from hypothesis import given
from hypothesis import strategies as st
from test_capacity import bare_cluster

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.model import capacity
from cs_input_analyzer.model.capacity.assumptions import ASSUMED
from cs_input_analyzer.model.capacity.worker import worker_rate
from cs_input_analyzer.model.estimates import NORMAL_95
from cs_input_analyzer.records import CapacityModel, Estimate, Layout, Measurement


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


def test_validation_runs_in_process_and_tasks_that_share_cpus_never_feed_the_model() -> None:
    others = [
        make_measurement("1x1x1", [5000], role="validate"),
        make_measurement("1x1x4", [5000], isolation="none"),
        make_measurement("2x1x8", [5000, 5000]),
        make_measurement("1x1x1", [None]),
        make_measurement("1x3x8", [5000] * 3),
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
    assert fit(make_measurement("1x1x1")).run_spread_ratio == pytest.approx(ASSUMED.host, rel=0.5)  # a real machine
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

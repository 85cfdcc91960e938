"""Environment: when each rule fires, and when it keeps quiet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import (
    make_alternative,
    make_case,
    make_cluster,
    make_estimate,
    make_files,
    make_graph,
    make_host,
    make_measurement,
    make_noise,
    make_op,
    make_op_cost,
    make_plan,
    make_profile,
    make_station,
    make_steady_state,
    make_storage,
    make_worker,
)
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.records import BatchGap, Case, TunedParameter
from cs_input_analyzer.rules.files import dataset_in_tmp, path_not_shared
from cs_input_analyzer.rules.runs import cold_cache, tables_disagree
from cs_input_analyzer.rules.threads import autotune_sees_host, oversubscribed_cpus
from tests.rules.lines import Rule, found, only, severities

GIB = 2**30


def placed(directory: str | None, *, nodes: int = 1, is_shared: bool | None = False, file_system: str = "ext4") -> Case:
    return make_case(
        pipeline=make_graph(files=make_files(directory=directory)),
        storage=make_storage(is_shared=is_shared, file_system=file_system),
        plan=make_plan(f"{nodes}x4x2"),
    )


@pytest.mark.parametrize(
    ("directory", "file_system", "in_memory"), [("/tmp", "tmpfs", True), ("/dev/shm", "tmpfs", True), ("/tmp", "xfs", False)]
)
def test_memory_taken_by_the_dataset_is_told(directory: str, file_system: str, in_memory: bool) -> None:
    assert ("memory" in only(dataset_in_tmp, placed(directory, file_system=file_system)).message) is in_memory


@given(
    directory=st.sampled_from(["/tmp/x", "/dev/shm", "/data", "/home/ada", None]),
    nodes=st.integers(1, 4),
    is_shared=st.sampled_from([True, False, None]),
)
def test_one_place_is_never_two_findings(directory: str | None, nodes: int, is_shared: bool | None) -> None:
    case = placed(directory, nodes=nodes, is_shared=is_shared)
    assert len([*found(dataset_in_tmp, case), *found(path_not_shared, case)]) <= 1


def measured(*ratios: float | None, memory_gib: int = 256, **overrides: Any) -> Case:
    """A run whose measurements found so much of 64 GiB of files in memory, one after the other."""
    settings: dict[str, Any] = {
        "pipeline": make_graph(files=make_files(bytes=64 * GIB)),
        "measurements": tuple(make_measurement("1x1x2", page_cache_ratio=ratio) for ratio in ratios),
        "cluster": make_cluster(memory_bytes_per_node=memory_gib * GIB),
    }
    return make_case(**(settings | overrides))


READING = (make_station("readers", utilization_ratio=0.95),)


def of_a_cache(*fills: bool) -> Case:
    """Windows of a pipeline with a `cache`, each of which saw it being filled, or full."""
    states = [make_steady_state(is_filling_cache=is_filling) for is_filling in fills]
    windows = tuple(make_measurement("1x1x1", workers=(make_worker(steady_state=state),)) for state in states)
    return make_case(pipeline=make_graph("list_files > interleave > map > cache > batch*32"), measurements=windows)


def test_a_cache_that_was_never_full_is_told() -> None:
    (finding,) = found(cold_cache, of_a_cache(True, True))
    assert (finding.severity, finding.op) == ("warning", "cache")
    assert "first pass" in finding.message


def today(layout: str, is_current: bool = True, **overrides: Any) -> Case:
    plan = make_plan(alternatives=(make_alternative(layout, is_current=is_current),))
    return make_case(plan=plan, cluster=make_cluster(cpus_per_node=16), **overrides)


def noisy(*steals: float | None, layout: str = "1x1x2", others: float | None = None) -> Case:
    launches = [make_measurement(layout, noise=make_noise(steal_ratio=steal, others_ratio=others)) for steal in steals]
    return make_case(measurements=tuple(launches))


def test_a_launch_larger_than_its_nodes_is_told() -> None:
    finding = only(oversubscribed_cpus, today("2x8x4"))
    assert finding.severity == "warning"
    assert (finding.evidence["cpus_per_node_wanted"], finding.evidence["cpus_per_node"]) == (32, 16)


def budgeted(cpus: int, layout: str = "2x8x4", **overrides: Any) -> Case:
    option = make_op("with_options", kind="Options", parameters={"autotune.cpu_budget": cpus})
    return make_case(pipeline=make_graph(ops=(make_op("map"), option)), plan=make_plan(layout), **overrides)


def tuned(
    calls: float, op: str = "map", parameter: str = "parallelism", layout: str = "1x1x2", written: int | str = "AUTOTUNE"
) -> Case:
    worker = make_worker(tuned=(TunedParameter(op=op, parameter=parameter, value=calls),))
    pipeline = make_graph(ops=(make_op("map", parameters={"num_parallel_calls": written}),))
    return make_case(pipeline=pipeline, measurements=(replace(make_measurement(layout), workers=(worker,)),))


def quota(budget: int, source: str = "cgroup quota") -> Case:
    return make_case(host=make_host(cpus=64, cpu_budget=budget, cpu_budget_source=source))


def test_the_cause_is_told_and_not_its_effect_again() -> None:
    case = budgeted(64)
    case = replace(case, measurements=tuned(64.0).measurements, host=quota(4).host)
    assert only(autotune_sees_host, case).op == "with_options"


def with_workers(*layouts: tuple[str, float, float], **fields: Any) -> Case:
    """A worker alone for each (layout, samples/s, CPU seconds per sample)."""
    fields = {"profile": None, "stations": (), "storage": None, "capacity": None} | fields
    return make_case(
        measurements=tuple(
            make_measurement(layout, workers=(make_worker(rate, cpu_s_per_sample=cost),)) for layout, rate, cost in layouts
        ),
        **fields,
    )


@given(rate=st.floats(1, 1e6), cpus=st.integers(1, 64), share=st.floats(0, 1.1), over=st.floats(1.2, 4))
def test_cpu_time_says_no_more_cpus_than_there_are(rate: float, cpus: int, share: float, over: float) -> None:
    assert not found(tables_disagree, with_workers((f"1x1x{cpus}", rate, share * cpus / rate)))
    told = only(tables_disagree, with_workers((f"1x1x{cpus}", rate, over * cpus / rate)))
    assert "the rate is believed" in told.message
    assert told.evidence["cpus_used"] == pytest.approx(over * cpus)


def reading(alone: float, whole: float, *, cpu_s: float, wait_s: float = 0.0, chain: str | None = None) -> Case:
    """Readers that alone give `alone` samples/s, in a pipeline that gives `whole` on two CPUs; `cpu_s`, `wait_s`: their row."""
    row = make_op_cost("interleave", self_cpu_s_per_sample=cpu_s, wait_s_per_sample=wait_s)
    return with_workers(
        ("1x1x2", whole, 1 / whole),
        pipeline=make_graph(chain) if chain else make_graph(),
        storage=make_storage(source_samples_per_s=make_estimate(alone)),
        profile=make_profile(cpu_s_per_sample=1e-3, ops=(row,)),
    )


READER_ROW = make_op_cost("interleave", self_cpu_s_per_sample=4e-4)


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (reading(1000, 2000, cpu_s=1e-6), "the latter is believed, and the readers are no limit"),
        (reading(10_000, 1000, cpu_s=4e-4), "their rows hold what others cost"),  # at most 200 µs of two CPUs
        (reading(2000, 1000, cpu_s=1e-6), "what they cost stands at other rows"),
        (replace(reading(2000, 1000, cpu_s=1e-6), profile=make_profile(ops=())), "busy for 0 µs"),  # they have no row
    ],
)
def test_readers_that_contradict_the_table_beside_them_are_told_with_what_is_believed(case: Case, words: str) -> None:
    assert words in only(tables_disagree, case).message


def test_a_map_that_reads_files_and_decodes_them_costs_more_than_reading() -> None:
    graph = make_graph("tensor_slices > map*8 > batch")
    ops = tuple(replace(op, function_ops=("DecodeJpeg", "ReadFile")) if op.name == "map" else op for op in graph.ops)
    row = make_op_cost("map", self_cpu_s_per_sample=4e-4)
    case = reading(10_000, 1000, cpu_s=4e-4)
    profile = make_profile(cpu_s_per_sample=1e-3, ops=(row,))
    assert not list(tables_disagree(replace(case, pipeline=replace(graph, ops=ops), profile=profile)))


def planned(limited_by: str, *, used: float, cpus: int = 2, queued: float | None = 0.1) -> Case:
    """A plan of workers of `cpus` CPUs, of which those of two were measured: each CPU was `used` for that share of the time."""
    worker = make_worker(200.0, cpu_s_per_sample=used / 100, noise=make_noise(run_queue_wait_ratio=queued))
    return make_case(
        measurements=(make_measurement("1x1x2", workers=(worker,)),),
        profile=None,
        plan=make_plan(f"2x4x{cpus}", limited_by=limited_by),
        stations=(make_station("serial op", op="map", samples_per_s=210.0, utilization_ratio=0.95),),
    )


def test_a_plan_that_idle_cpus_limit_is_told_with_the_bottleneck() -> None:
    told = only(tables_disagree, planned("worker CPU", used=0.06))
    assert "idle 93% of the time (serial op map holds one back)" in told.message


def passing(epochs: int, gap_s: float | None, window_s: float = 10.0) -> Case:
    state = make_steady_state(epochs=epochs, epoch_gap_s=gap_s, window_s=window_s, transient_s=0.0)
    worker = make_worker(100.0, cpu_s_per_sample=None, steady_state=state)
    return replace(with_workers(), measurements=(make_measurement("1x1x2", workers=(worker,)),))


def test_a_rate_that_is_mostly_restarts_is_told() -> None:
    told = only(tables_disagree, passing(276, 0.02))
    assert "55% of the time went between the end of one pass" in told.message


def test_where_each_batch_is_a_pass_gaps_and_rate_agree() -> None:
    case = passing(27, 0.15, 4.0)
    (worker,) = case.measurements[0].workers
    gap = BatchGap(p50=0.147, p95=0.16, p99=0.17, max=0.2)
    worker = replace(worker, batches_per_s=1 / 0.15, batch_gap_s=gap)
    assert not found(tables_disagree, replace(case, measurements=(make_measurement("1x1x2", workers=(worker,)),)))


JUDGED = (
    # A folder for temporary files is told.
    *((dataset_in_tmp, placed(directory), ["info"]) for directory in ["/tmp", "/tmp/data", "/var/tmp/x", "/dev/shm/data"]),
    # A folder that stays is right.
    *(
        (dataset_in_tmp, case, [])
        for case in [
            placed("/data"),
            placed("/tmpfiles"),
            placed(None),
            placed("/tmp/data", is_shared=True),
            placed("/tmp/data", nodes=4),
            make_case(pipeline=make_graph(files=None)),
        ]
    ),
    # A cold start is as bad as the plan depends on it.
    *(
        (cold_cache, case, [severity])
        for case, severity in [
            (measured(0.1, 0.5, stations=READING), "warning"),
            (measured(0.1, stations=READING), "warning"),
            (measured(0.1, 1.0, stations=READING), "info"),  # the last measurement was of later passes
            (measured(0.1, 0.5), "info"),
            (measured(0.1, 0.5, plan=None, stations=READING), "warning"),
        ]
    ),
    # A cache as training will find it is right.
    *(
        (cold_cache, case, [])
        for case in [
            measured(0.95, 1.0, stations=READING),
            measured(None, None, stations=READING),
            measured(stations=READING),
            measured(0.0, 0.0, 0.0, stations=READING),  # a file system that is not cached
            measured(0.1, 0.5, stations=READING, plan=make_plan(cache_state="cold")),
            measured(0.1, 0.5, stations=READING, plan=make_plan(cache_state="warm")),
            measured(0.1, 0.5, stations=READING, memory_gib=32, is_sharded=False),  # CSI503 tells
            measured(0.1, 0.5, stations=READING, pipeline=make_graph(files=None)),
            measured(stations=READING, measurements=(make_measurement(page_cache_ratio=0.0, cache_state="cold"),), plan=None),
        ]
    ),
    # Windows of a full cache are right.
    *((cold_cache, of_a_cache(*fills), []) for fills in [(False,), (True, False)]),
    # A busy host is told once.
    *((oversubscribed_cpus, case, ["info"]) for case in [noisy(0.2, 0.3), noisy(0.0, others=0.1), noisy(0.1, others=0.6)]),
    # Cpus for all threads are right.
    *(
        (oversubscribed_cpus, case, [])
        for case in [
            today("2x8x2"),
            today("2x8x4", is_current=False),  # never run
            noisy(0.01, 0.0),
            noisy(0.3, 0.0, 0.0),  # one bad moment
            noisy(None, None),
            noisy(0.3, layout="1x4x2"),  # our own workers stood in each other's way
            noisy(0.0, others=0.09),
            make_case(measurements=(), plan=None),
        ]
    ),
    # Autotune that counts too many cpus is told.
    *(
        (autotune_sees_host, case, [severity])
        for case, severity in [
            (budgeted(64), "warning"),
            (budgeted(6), "info"),
            (budgeted(64, measurements=()), "warning"),
            (tuned(16.0), "warning"),
            (tuned(16.0, parameter="num_parallel_calls"), "warning"),
            (quota(4), "info"),
        ]
    ),
    # Autotune that counts right is right.
    *(
        (autotune_sees_host, case, [])
        for case in [
            budgeted(4),
            budgeted(2),
            budgeted(0),
            tuned(2.0),
            tuned(3.0, layout="1x1x1"),
            tuned(16.0, op="interleave"),  # they wait for files
            tuned(16.0, parameter="buffer_size"),
            tuned(16.0, written=16),  # nobody chose but the user
            quota(40),
            quota(4, source="affinity"),
            quota(4, source="SLURM_CPUS_PER_TASK"),
            make_case(measurements=(), host=None),
        ]
    ),
    # Readers that agree with what stands beside them are silent.
    *(
        (tables_disagree, case, [])
        for case in [
            reading(10_000, 1000, cpu_s=1e-4),
            reading(1000, 1200, cpu_s=5e-4),  # a second of reading alone is no exact figure
            reading(1100, 1000, cpu_s=2e-4),  # alone there is the loop beside them, too
            reading(1100, 1000, cpu_s=1e-6, wait_s=9e-4),  # they wait: the thread is busy
            reading(10_000, 1000, cpu_s=1e-6),  # little, by both
            reading(1000, 9000, cpu_s=1e-6, chain="tensor_slices > interleave > cache > map*8 > batch"),  # read once
            replace(reading(1000, 9000, cpu_s=1e-6), storage=None),
            replace(reading(1000, 9000, cpu_s=1e-6), measurements=()),
            replace(reading(10_000, 1000, cpu_s=4e-4), profile=None),
            replace(
                reading(10_000, 1000, cpu_s=4e-4), profile=make_profile(cpu_s_per_sample=0.01, ops=(READER_ROW,))
            ),  # 4 % of all
        ]
    ),
    # A plan that busy cpus or something else limit is silent.
    *(
        (tables_disagree, case, [])
        for case in [
            planned("worker CPU", used=0.9),
            planned("worker scaling", used=0.06),
            planned("round-robin feed", used=0.06),
            planned("worker CPU", used=0.06, cpus=4),  # of which none was measured
            replace(planned("worker CPU", used=0.06), plan=None),
            planned("worker CPU", used=0.3, queued=1.5),  # others had the CPUs
            planned("worker CPU", used=0.06, queued=None),
        ]
    ),
    # A rate with few restarts is silent.
    *((tables_disagree, case, []) for case in [passing(0, None), passing(3, 0.02), passing(100, 0.02), passing(0, 0.02)]),
    # Nothing measured is nothing to contradict.
    (tables_disagree, with_workers(), []),
    (tables_disagree, make_case(measurements=(make_measurement("1x1x2", (None,)),)), []),
)


@pytest.mark.parametrize(("rule", "case", "expected"), JUDGED)
def test_a_rule_is_as_loud_as_the_case_is_bad_and_else_silent(rule: Rule, case: Case, expected: list[str]) -> None:
    assert severities(rule, case) == expected

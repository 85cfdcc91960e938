"""Environment, and what happened while measuring: when each rule fires, how loud, and when it keeps quiet."""

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

from cs_input_analyzer import rules
from cs_input_analyzer.records import BatchGap, Case, Training, TunedParameter, WorkerResult
from cs_input_analyzer.rules.caches import file_cache_redirected
from cs_input_analyzer.rules.files import dataset_in_tmp, path_not_shared
from cs_input_analyzer.rules.order import dataset_ends
from cs_input_analyzer.rules.runs import cold_cache, corrupt_record, dataset_exceeds_memory, tables_disagree, worker_lost
from cs_input_analyzer.rules.shards import fewer_files_than_workers
from cs_input_analyzer.rules.threads import autotune_sees_host, oversubscribed_cpus
from tests.rules.lines import Expected, Rows, Rule, check, found, judged, only, says

GIB = 2**30


def roomy(files: dict[str, Any] | None = None, *, redirected: tuple[str, ...] = (), ends: bool = False, **overrides: Any) -> Case:
    """A case in which nothing is wrong, but for these files, caches, an end of the data, and settings."""
    pipeline = make_graph(
        "tensor_slices > shard > interleave > shuffle*2560 > map*8 > batch > prefetch",
        files=make_files(**({"count": 1024, "bytes": 64 * GIB, "largest_bytes": 2**26, "smallest_bytes": 2**26} | (files or {}))),
        is_infinite=not ends,
        cardinality=overrides.pop("cardinality", None),
        redirected=redirected,
    )
    settings: dict[str, Any] = {
        "pipeline": pipeline,
        "is_sharded": True,
        "measurements": (make_measurement("1x1x2"),),
        "plan": plan_for("as-is"),
        "cluster": make_cluster(memory_bytes_per_node=256 * GIB),
    }
    return make_case(**(settings | overrides))


def plan_for(cache_state: str) -> Any:
    return make_plan("5x16x2", input_workers=79, cache_state=cache_state, memory_bytes_per_node=20 * GIB)


def test_no_rule_fires_where_nothing_is_wrong() -> None:
    assert rules.find(roomy()) == ()


def sized(gib: int, is_sharded: bool, cache_state: str = "as-is") -> Case:
    return roomy({"bytes": gib * GIB}, is_sharded=is_sharded, plan=plan_for(cache_state))


def launches(*workers: tuple[WorkerResult, ...], layout: str = "1x2x1") -> Case:
    return roomy(measurements=tuple(replace(make_measurement(layout), workers=each) for each in workers))


WELL = make_measurement("1x2x1", [1000.0, 1000.0]).workers
GONE = make_worker(None, index=1, status="lost", message="killed by signal 9")
LATE = make_worker(None, index=1, status="deadline", message="ended at its deadline while waiting for the first batch")
STUCK = make_worker(1000.0, status="deadline", message="ended at its deadline while sampling")
BROKEN = [make_worker(1000.0, status="data_error", message=f"after {n} batches: corrupted record at 12") for n in (3, 5)]


def ended(epochs: int, *, ends: bool = True, mode: str = "train") -> Case:
    """A window in which the data ended so often."""
    worker = make_worker(1000.0, steady_state=make_steady_state(epochs=epochs))
    return roomy(ends=ends, mode=mode, measurements=(replace(make_measurement("1x1x1"), workers=(worker,)),))


def steps(cardinality: int | None, steps: int | None, *, epochs: int | None = None, **others: Any) -> Case:
    """Data of so many batches in all workers, or of each where they are sharded, for a training of so many steps."""
    training = Training(steps=steps, epochs=epochs)
    known = {"cardinality": cardinality, "training": training, "measurements": ended(0).measurements}
    return roomy(ends=True, **(known | others))


def repeated_names(case: Case) -> Case:
    """The names of files without end; TensorFlow does not know of the records in them."""
    names, *others = case.pipeline.ops
    endless = make_op("repeat", inputs=(names.name,), parameters={"count": -1})
    ops = (replace(op, inputs=("repeat",)) if op.inputs == (names.name,) else op for op in others)
    return replace(case, pipeline=replace(case.pipeline, ops=(names, endless, *ops)))


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


READING = (make_station("readers", utilization_ratio=0.95),)


def cached(*ratios: float | None, memory_gib: int = 256, stations: Any = READING, **overrides: Any) -> Case:
    """A run whose measurements found so much of 64 GiB of files in memory, one after the other; readers hold it back."""
    settings: dict[str, Any] = {
        "pipeline": make_graph(files=make_files(bytes=64 * GIB)),
        "measurements": tuple(make_measurement("1x1x2", page_cache_ratio=ratio) for ratio in ratios),
        "cluster": make_cluster(memory_bytes_per_node=memory_gib * GIB),
        "stations": stations,
    }
    return make_case(**(settings | overrides))


def of_a_cache(*fills: bool) -> Case:
    """Windows of a pipeline with a `cache`, each of which saw it being filled, or full."""
    states = [make_steady_state(is_filling_cache=is_filling) for is_filling in fills]
    windows = tuple(make_measurement("1x1x1", workers=(make_worker(steady_state=state),)) for state in states)
    return make_case(pipeline=make_graph("list_files > interleave > map > cache > batch*32"), measurements=windows)


def today(layout: str, is_current: bool = True) -> Case:
    plan = make_plan(alternatives=(make_alternative(layout, is_current=is_current),))
    return make_case(plan=plan, cluster=make_cluster(cpus_per_node=16))


def noisy(*steals: float | None, layout: str = "1x1x2", others: float | None = None) -> Case:
    return make_case(
        measurements=tuple(make_measurement(layout, noise=make_noise(steal_ratio=steal, others_ratio=others)) for steal in steals)
    )


def budgeted(cpus: int, **overrides: Any) -> Case:
    option = make_op("with_options", kind="Options", parameters={"autotune.cpu_budget": cpus})
    return make_case(pipeline=make_graph(ops=(make_op("map"), option)), plan=make_plan("2x8x4"), **overrides)


def tuned(
    calls: float, op: str = "map", parameter: str = "parallelism", layout: str = "1x1x2", written: int | str = "AUTOTUNE"
) -> Case:
    worker = make_worker(tuned=(TunedParameter(op=op, parameter=parameter, value=calls),))
    pipeline = make_graph(ops=(make_op("map", parameters={"num_parallel_calls": written}),))
    return make_case(pipeline=pipeline, measurements=(replace(make_measurement(layout), workers=(worker,)),))


def quota(budget: int, source: str = "cgroup quota") -> Case:
    return make_case(host=make_host(cpus=64, cpu_budget=budget, cpu_budget_source=source))


def with_workers(*layouts: tuple[str, float, float], **fields: Any) -> Case:
    """A worker alone for each (layout, samples/s, CPU seconds per sample)."""
    alone = [make_measurement(layout, workers=(make_worker(rate, cpu_s_per_sample=cost),)) for layout, rate, cost in layouts]
    return make_case(
        **({"measurements": tuple(alone), "profile": None, "stations": (), "storage": None, "capacity": None} | fields)
    )


@given(rate=st.floats(1, 1e6), cpus=st.integers(1, 64), share=st.floats(0, 1.1), over=st.floats(1.2, 4))
def test_cpu_time_says_no_more_cpus_than_there_are(rate: float, cpus: int, share: float, over: float) -> None:
    assert not found(tables_disagree, with_workers((f"1x1x{cpus}", rate, share * cpus / rate)))
    told = only(tables_disagree, with_workers((f"1x1x{cpus}", rate, over * cpus / rate)))
    assert "the rate is believed" in told.message
    assert told.evidence["cpus_used"] == pytest.approx(over * cpus)


def reading(
    alone: float, whole: float, *, cpu_s: float, wait_s: float = 0.0, chain: str | None = None, all_s: float = 1e-3
) -> Case:
    """Readers that alone give `alone` samples/s, in a pipeline that gives `whole` on two CPUs; `cpu_s`, `wait_s`: their row."""
    row = make_op_cost("interleave", self_cpu_s_per_sample=cpu_s, wait_s_per_sample=wait_s)
    return with_workers(
        ("1x1x2", whole, 1 / whole),
        pipeline=make_graph(chain) if chain else make_graph(),
        storage=make_storage(source_samples_per_s=make_estimate(alone)),
        profile=make_profile(cpu_s_per_sample=all_s, ops=(row,)),
    )


def map_that_reads() -> Case:
    """A map that reads files and decodes them, which costs more than reading alone."""
    graph = make_graph("tensor_slices > map*8 > batch")
    ops = tuple(replace(op, function_ops=("DecodeJpeg", "ReadFile")) if op.name == "map" else op for op in graph.ops)
    profile = make_profile(cpu_s_per_sample=1e-3, ops=(make_op_cost("map", self_cpu_s_per_sample=4e-4),))
    return replace(reading(10_000, 1000, cpu_s=4e-4), pipeline=replace(graph, ops=ops), profile=profile)


def planned(limited_by: str, *, used: float, cpus: int = 2, queued: float | None = 0.1) -> Case:
    """A plan of workers of `cpus` CPUs, of which those of two were measured: each CPU was `used` for that share of the time."""
    worker = make_worker(200.0, cpu_s_per_sample=used / 100, noise=make_noise(run_queue_wait_ratio=queued))
    return make_case(
        measurements=(make_measurement("1x1x2", workers=(worker,)),),
        profile=None,
        plan=make_plan(f"2x4x{cpus}", limited_by=limited_by),
        stations=(make_station("serial op", op="map", samples_per_s=210.0, utilization_ratio=0.95),),
    )


def passing(epochs: int, gap_s: float | None, window_s: float = 10.0, **known: Any) -> Case:
    state = make_steady_state(epochs=epochs, epoch_gap_s=gap_s, window_s=window_s, transient_s=0.0)
    worker = make_worker(100.0, cpu_s_per_sample=None, steady_state=state, **known)
    return replace(with_workers(), measurements=(make_measurement("1x1x2", workers=(worker,)),))


EACH_A_PASS = {"batches_per_s": 1 / 0.15, "batch_gap_s": BatchGap(p50=0.147, p95=0.16, p99=0.17, max=0.2)}

ROWS: Rows = {
    # A dataset that a node cannot keep: a warning where the plan rests on cached files.
    dataset_exceeds_memory: [
        ("info", sized(2000, True, "cold")),
        ("warning", sized(2000, True)),
        ("", sized(300, True)),
        ("", sized(200, False)),
    ],
    # A worker lost in several launches is one finding; one that our own deadline ended is not called lost.
    worker_lost: [
        (
            says(message=["in 2 of 3 launches", "signal 9"], evidence={"launches_lost": 2, "launches": 3}),
            launches((WELL[0], GONE), WELL, (WELL[0], GONE)),
        ),
        (says("info", message="waiting for the first batch", lacks=["lost"]), launches((WELL[0], LATE))),
        (says("info", message="not done in time", fix="--max-seconds"), launches((STUCK,), layout="1x1x1")),
        ("", launches(WELL)),
        ("", launches((LATE, replace(LATE, index=0)))),  # there was no time for any of them
    ],
    # One damaged record is one finding however often it is met.
    corrupt_record: [("error", launches(*((one,) for one in BROKEN), layout="1x1x1"))],
    # Data that ended in a window, or that end before the steps do.
    dataset_ends: [
        ("warning", ended(2)),
        ("", ended(2, mode="eval")),
        (says("warning", evidence={"batches": 100 * 79}), steps(100, 10_000, is_sharded=False)),  # each worker has all of them
        (says("warning", evidence={"batches": 10 * 79}), steps(10, 1000, is_sharded=False)),
        (says("warning", evidence={"batches": 10}), steps(10, 1000)),  # the first launch had one worker
        (says("warning", evidence={"batches": 64 * GIB / 146_800 / 256 / 0.8}), steps(None, 10_000)),
        ("", steps(10, 1000, epochs=100)),
        ("", steps(10, None)),
        ("", steps(None, 1000, measurements=())),
        ("", steps(None, 2_000)),  # as many as that, roughly
        ("", repeated_names(steps(None, 10_000))),
    ],
    # The files of TensorFlow Datasets are not to be written by hand.
    fewer_files_than_workers: [
        ("", roomy({"count": 8, "directory": "/data/mnist/3.0.1"})),
        ("warning", roomy({"count": 8, "directory": "/data/v3"})),
    ],
    file_cache_redirected: [(says(message="/data/cache"), roomy(redirected=("/data/cache",)))],
    dataset_in_tmp: [
        *(("info", placed(directory)) for directory in ["/tmp", "/tmp/data", "/var/tmp/x", "/dev/shm/data"]),
        ("", placed("/data")),
        ("", placed(None)),
        ("", placed("/tmp/data", is_shared=True)),
        ("", placed("/tmp/data", nodes=4)),
        ("", make_case(pipeline=make_graph(files=None))),
    ],
    # A cold start is as bad as the plan depends on it; windows of a full cache are right.
    cold_cache: [
        ("warning", cached(0.1)),
        ("info", cached(0.1, 1.0)),  # the last measurement was of later passes
        ("info", cached(0.1, 0.5, stations=())),
        ("warning", cached(0.1, 0.5, plan=None)),
        (says("warning", op="cache", message="first pass"), of_a_cache(True, True)),
        ("", cached(None, None)),
        ("", cached(0.0, 0.0, 0.0)),  # a file system that is not cached
        ("", cached(0.1, 0.5, memory_gib=32, is_sharded=False)),  # CSI503 tells
        ("", cached(0.1, 0.5, pipeline=make_graph(files=None))),
        ("", cached(measurements=(make_measurement(page_cache_ratio=0.0, cache_state="cold"),), plan=None)),
    ],
    # A launch larger than its nodes is told, and a busy host once.
    oversubscribed_cpus: [
        (says("warning", evidence={"cpus_per_node_wanted": 32, "cpus_per_node": 16}), today("2x8x4")),
        ("info", noisy(0.2, 0.3)),
        ("info", noisy(0.0, others=0.1)),
        ("", today("2x8x2")),
        ("", today("2x8x4", is_current=False)),  # never run
        ("", noisy(0.3, 0.0, 0.0)),  # one bad moment
        ("", noisy(None, None)),
        ("", noisy(0.3, layout="1x4x2")),  # our own workers stood in each other's way
        ("", noisy(0.0, others=0.09)),
        ("", make_case(measurements=(), plan=None)),
    ],
    # AUTOTUNE that counts too many CPUs is told: the cause, and not its effect again.
    autotune_sees_host: [
        (says("warning", op="with_options"), budgeted(64, measurements=tuned(64.0).measurements, host=quota(4).host)),
        ("info", budgeted(6)),
        ("warning", budgeted(64, measurements=())),
        ("warning", tuned(16.0)),
        ("warning", tuned(16.0, parameter="num_parallel_calls")),
        ("info", quota(4)),
        ("", budgeted(4)),
        ("", tuned(3.0, layout="1x1x1")),
        ("", tuned(16.0, op="interleave")),  # they wait for files
        ("", tuned(16.0, parameter="buffer_size")),
        ("", tuned(16.0, written=16)),  # nobody chose but the user
        ("", quota(40)),
        ("", quota(4, source="affinity")),
        ("", make_case(measurements=(), host=None)),
    ],
    # Figures that contradict each other are told with what is believed.
    tables_disagree: [
        (says(message="the latter is believed, and the readers are no limit"), reading(1000, 2000, cpu_s=1e-6)),
        (says(message="their rows hold what others cost"), reading(10_000, 1000, cpu_s=4e-4)),  # at most 200 µs of two CPUs
        (says(message="what they cost stands at other rows"), reading(2000, 1000, cpu_s=1e-6)),
        (says(message="busy for 0 µs"), replace(reading(2000, 1000, cpu_s=1e-6), profile=make_profile(ops=()))),  # no row
        ("", reading(1000, 1200, cpu_s=5e-4)),  # a second of reading alone is no exact figure
        ("", reading(1100, 1000, cpu_s=2e-4)),  # alone there is the loop beside them, too
        ("", reading(1100, 1000, cpu_s=1e-6, wait_s=9e-4)),  # they wait: the thread is busy
        ("", reading(10_000, 1000, cpu_s=1e-6)),  # little, by both
        ("", reading(1000, 9000, cpu_s=1e-6, chain="tensor_slices > interleave > cache > map*8 > batch")),  # read once
        ("", replace(reading(1000, 9000, cpu_s=1e-6), storage=None)),
        ("", replace(reading(1000, 9000, cpu_s=1e-6), measurements=())),
        ("", replace(reading(10_000, 1000, cpu_s=4e-4), profile=None)),
        ("", reading(10_000, 1000, cpu_s=4e-4, all_s=0.01)),  # 4 % of all
        (says(message="idle 93% of the time (serial op map holds one back)"), planned("worker CPU", used=0.06)),
        ("", planned("worker CPU", used=0.9)),
        ("", planned("worker CPU", used=0.06, cpus=4)),  # of which none was measured
        ("", replace(planned("worker CPU", used=0.06), plan=None)),
        ("", planned("worker CPU", used=0.3, queued=1.5)),  # others had the CPUs
        ("", planned("worker CPU", used=0.06, queued=None)),
        (says(message="55% of the time went between the end of one pass"), passing(276, 0.02)),
        ("", passing(27, 0.15, 4.0, **EACH_A_PASS)),
        *(("", passing(epochs, gap_s)) for epochs, gap_s in [(0, None), (3, 0.02), (100, 0.02), (0, 0.02)]),
        ("", make_case(measurements=(make_measurement("1x1x2", (None,)),))),
    ],
}


@judged(ROWS)
def test_a_rule_is_as_loud_as_the_case_is_bad_and_else_silent(rule: Rule, case: Case, expected: Expected) -> None:
    check(rule, case, expected)

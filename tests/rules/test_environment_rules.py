"""Environment, memory and threads, and what happened while measuring: when each rule fires, how loud, and when it keeps quiet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer import rules
from cs_input_analyzer.planning.evidence import reads_at_once
from cs_input_analyzer.records import Case, IgnoredErrors, Op, Soak, Training, TunedParameter, WorkerResult
from tests.builders import (
    DEFAULT_CHAIN,
    GIB,
    SOURCE,
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
    make_plan,
    make_profile,
    make_station,
    make_steady_state,
    make_storage,
    make_worker,
)
from tests.rules.lines import (
    JPEG,
    Rows,
    alone,
    batch,
    cache,
    case_of,
    cost,
    found,
    judged,
    mapped,
    only,
    op,
    options,
    placed,
    prefetch,
    reading,
    repeat,
    says,
    shuffle,
)


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
    assert rules.sift(roomy()).findings == ()


def ignoring(elements: int, dropped: int) -> Case:
    """An `ignore_errors` that dropped so many of the elements that were looked at."""
    each = IgnoredErrors(op="ignore_errors", elements=elements, dropped=dropped, error="bad JPEG" if dropped else "")
    return case_of(op("IgnoreErrors", "ignore_errors"), measurements=alone(ignored=(each,)))


def sized(gib: int, is_sharded: bool, cache_state: str = "as-is") -> Case:
    return roomy({"bytes": gib * GIB}, is_sharded=is_sharded, plan=plan_for(cache_state))


def launches(*workers: tuple[WorkerResult, ...], layout: str = "1x2x1") -> Case:
    return roomy(measurements=tuple(make_measurement(layout, workers=each) for each in workers))


WELL = make_measurement("1x2x1", [1000.0, 1000.0]).workers
GONE = make_worker(None, index=1, status="lost", message="killed by signal 9")
LATE = make_worker(None, index=1, status="deadline", message="ended at its deadline while waiting for the first batch")
STUCK = make_worker(1000.0, status="deadline", message="ended at its deadline while sampling")
BROKEN = [make_worker(1000.0, status="data_error", message=f"after {n} batches: corrupted record at 12") for n in (3, 5)]


def ended(epochs: int, mode: str = "train") -> Case:
    """A window in which the data ended so often."""
    return roomy(ends=True, mode=mode, measurements=alone(layout="1x1x1", steady_state=make_steady_state(epochs=epochs)))


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


def cached(*ratios: float | None, memory_gib: int = 256, **overrides: Any) -> Case:
    """A run whose measurements found so much of 64 GiB of files in memory, one after the other; readers hold it back."""
    settings: dict[str, Any] = {
        "pipeline": make_graph(files=make_files(bytes=64 * GIB)),
        "measurements": tuple(make_measurement("1x1x2", page_cache_ratio=ratio) for ratio in ratios),
        "cluster": make_cluster(memory_bytes_per_node=memory_gib * GIB),
        "stations": (make_station("readers", utilization_ratio=0.95),),
    }
    return make_case(**(settings | overrides))


FILLING = alone(layout="1x1x1", steady_state=make_steady_state(is_filling_cache=True))


def today(layout: str) -> Case:
    plan = make_plan(alternatives=(make_alternative(layout, is_current=True),))
    return make_case(plan=plan, cluster=make_cluster(cpus_per_node=16))


def noisy(*steals: float | None, layout: str = "1x1x2", others: float | None = None) -> Case:
    return make_case(
        measurements=tuple(make_measurement(layout, noise=make_noise(steal_ratio=steal, others_ratio=others)) for steal in steals)
    )


def budgeted(cpus: int, **overrides: Any) -> Case:
    option = make_op("with_options", kind="Options", parameters={"autotune.cpu_budget": cpus})
    return make_case(pipeline=make_graph(ops=(make_op("map"), option)), plan=make_plan("2x8x4"), **overrides)


def tuned(calls: float, parameter: str = "parallelism", layout: str = "1x1x2", written: int | str = "AUTOTUNE") -> Case:
    pipeline = make_graph(ops=(make_op("map", parameters={"num_parallel_calls": written}),))
    chosen = (TunedParameter(op="map", parameter=parameter, value=calls),)
    return make_case(pipeline=pipeline, measurements=alone(layout=layout, tuned=chosen))


def quota(budget: int, source: str = "cgroup quota") -> Case:
    return make_case(host=make_host(cpus=64, cpu_budget=budget, cpu_budget_source=source))


def with_workers(*layouts: tuple[str, float, float], **fields: Any) -> Case:
    """A worker alone for each (layout, samples/s, CPU seconds per sample)."""
    launches = tuple(launch for layout, rate, cost in layouts for launch in alone(rate, layout, cpu_s_per_sample=cost))
    return make_case(**({"measurements": launches, "profile": None, "stations": (), "storage": None, "capacity": None} | fields))


@given(rate=st.floats(1, 1e6), cpus=st.integers(1, 64), share=st.floats(0, 1.1), over=st.floats(1.2, 4))
def test_cpu_time_says_no_more_cpus_than_there_are(rate: float, cpus: int, share: float, over: float) -> None:
    assert not found("tables-disagree", with_workers((f"1x1x{cpus}", rate, share * cpus / rate)))
    told = only("tables-disagree", with_workers((f"1x1x{cpus}", rate, over * cpus / rate)))
    assert "the rate is believed" in told.message
    assert told.evidence["cpus_used"] == pytest.approx(over * cpus)


def readers_alone(whole: float, chain: str = DEFAULT_CHAIN) -> Case:
    """Readers that alone give 1,000 samples/s, in a pipeline that gives `whole` on two CPUs."""
    storage = make_storage(source_samples_per_s=make_estimate(1000.0))
    return with_workers(("1x1x2", whole, 1 / whole), pipeline=make_graph(chain), storage=storage)


def planned(used: float, *, cpus: int = 2, queued: float | None = 0.1) -> Case:
    """A plan of workers of `cpus` CPUs, of which those of two were measured: each CPU was `used` for that share of the time."""
    return make_case(
        measurements=alone(200.0, cpu_s_per_sample=used / 100, noise=make_noise(run_queue_wait_ratio=queued)),
        profile=None,
        plan=make_plan(f"2x4x{cpus}", limited_by="worker CPU"),
        stations=(make_station("serial op", op="map", samples_per_s=210.0, utilization_ratio=0.95),),
    )


PICTURE = 600_000.0
UNREAD = alone(bytes_read_per_sample=None)


def holding(*ops: Op, tasks: int = 4, held: float = 0.0, used: int = 4 * GIB, **overrides: Any) -> Case:
    """Decoded pictures on nodes of 128 GiB; `held`: elements in each buffer at the end of the window."""
    names = ("shuffle", "prefetch", "cache", "map", "map_2")
    rows = [
        cost(
            name,
            0.1,
            bytes_out_per_sample=PICTURE,
            elements_per_sample=1 / 256 if name == "prefetch" else 1.0,
            buffered_elements=held,
        )
        for name in names
    ]
    case = case_of(
        *(*reading(), mapped(JPEG), *ops),
        plan=make_plan(f"2x{tasks}x2", memory_bytes_per_node=used),
        measurements=UNREAD,
    )
    return replace(case, profile=make_profile(ops=tuple(rows)), **overrides)


def after_soak(grown: str | None, *ops: Op, per_min: float = 2.0 * GIB) -> Case:
    soak = Soak(
        layout=make_measurement("1x1x2").layout,
        asked_s=600.0,
        seconds=600.0,
        points=(),
        rss_growth_bytes_per_min=per_min,
        grown=grown,
    )
    return holding(*(ops or (shuffle(1000), batch(), prefetch())), held=10, soak=soak)


def dividing(policy: int | None, *, files: int | None = 2, ops: tuple[Op, ...] = ()) -> Case:
    said = {} if policy is None else {"distribute__auto_shard_policy": policy}
    source = reading() if files is not None else (op("Range", "range"),)
    case = case_of(*source, *ops, batch(), options(**said), plan=make_plan("3x2x2", input_workers=4), is_sharded=False)
    listed = make_files(count=files) if files is not None else None
    return replace(case, pipeline=replace(case.pipeline, files=listed))


def served(mode: str) -> Case:
    source = op("DataService", "data_service", processing_mode=mode, address="host:5050", protocol="grpc", job_name="")
    return case_of(replace(source, source=None), mapped(("Identity",)), prefetch())


def threaded(threads: int | None, *, pool: int = 0) -> Case:
    return case_of(
        *(*reading(), batch(), options(threading__private_threadpool_size=pool)),
        plan=make_plan("2x16x2"),
        host=make_host(thread_limit=4096, thread_limit_source="ulimit -u"),
        cluster=make_cluster(cpus_per_node=64, memory_bytes_per_node=128 * GIB),
        measurements=alone(threads=threads),
    )


def built(seconds: float | None, files: int = 200_000, code: str | None = None) -> Case:
    case = case_of(*reading(code=code), batch())
    source = replace(case.pipeline.ops[0], code=code)
    pipeline = replace(case.pipeline, ops=(source, *case.pipeline.ops[1:]), files=make_files(count=files))
    workers = tuple(make_worker(index=index, build_s=seconds and seconds + index) for index in range(2))
    return replace(case, pipeline=pipeline, measurements=(make_measurement("1x2x1", workers=workers),))


@pytest.mark.parametrize(
    ("directory", "kind", "width"),
    [
        ("gs://bucket/train", "readers", 20),
        ("/data/train", "readers", None),  # on a file system the readers' own work may be what they take their time for
        ("gs://bucket/train", "serial op", None),
        ("/data/train", "storage latency", 20),
    ],
)
def test_readers_of_a_store_that_wait_get_the_width_of_littles_law(directory: str, kind: Any, width: int | None) -> None:
    """Reads at once = rate that the CPUs allow over the rate of one, and as many again to spare."""
    case = case_of(*reading(), batch())
    stations = (
        make_station(kind, op="interleave", samples_per_s=200.0, utilization_ratio=0.95),
        make_station("CPU", op=None, samples_per_s=2000.0, utilization_ratio=0.1),
    )
    pipeline = replace(case.pipeline, files=make_files(count=1024, directory=directory))
    assert reads_at_once(replace(case, pipeline=pipeline, stations=stations)) == width


FULL = {
    "full_bytes": round(100_000 * PICTURE),
    "held_bytes": round(1000 * PICTURE),
    "bytes_per_node_when_full": round(4 * GIB + 4 * 99_000 * PICTURE),
}

ROWS: Rows = {
    # A dataset that a node cannot keep: a warning where the plan rests on cached files.
    "dataset-exceeds-memory": [
        ("info", sized(2000, True, "cold")),
        ("warning", sized(2000, True)),
        ("", sized(300, True)),
        ("", sized(200, False)),
    ],
    # A worker lost in several launches is one finding; one that our own deadline ended is not called lost.
    "worker-lost": [
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
    # Only what was counted is told.
    "errors-ignored": [
        (says("error", op="ignore_errors", message=("20 of 100", "bad JPEG")), ignoring(100, 20)),
        ("", ignoring(100, 0)),
        ("", ignoring(0, 0)),
        ("", case_of(op("IgnoreErrors", "ignore_errors"))),  # not looked at
    ],
    "corrupt-record": [("error", launches(*((one,) for one in BROKEN), layout="1x1x1"))],
    # Data that ended in a window, or that end before the steps do.
    "dataset-ends": [
        ("warning", ended(2)),
        ("", ended(2, mode="eval")),
        (says("warning", evidence={"batches": 100 * 79}), steps(100, 10_000, is_sharded=False)),  # each worker has all of them
        (says("warning", evidence={"batches": 10}), steps(10, 1000)),  # the first launch had one worker
        (says("warning", evidence={"batches": 64 * GIB / 146_800 / 256 / 0.8}), steps(None, 10_000)),
        ("", steps(10, 1000, epochs=100)),
        ("", steps(None, 1000, measurements=())),
        ("", repeated_names(steps(None, 10_000))),
    ],
    "file-cache-redirected": [(says(message="/data/cache"), roomy(redirected=("/data/cache",)))],
    "dataset-in-tmp": [
        ("", placed("/data")),
        ("", make_case(pipeline=make_graph(files=None))),
        (says("info", lacks=["memory"]), placed("/tmp/data", file_system="xfs")),
        *((says(message="memory"), placed(directory, file_system="tmpfs")) for directory in ["/tmp", "/dev/shm/data"]),
        ("", placed("/tmp/data", is_shared=True)),
        *(("", placed(directory, nodes=4)) for directory in ["/tmp/data", "/dev/shm"]),
    ],
    # A cold start is as bad as the plan depends on it; windows of a full cache are right.
    "cold-cache": [
        ("warning", cached(0.1)),
        ("info", cached(0.1, 1.0)),  # the last measurement was of later passes
        (
            says("warning", op="cache", message="first pass"),
            make_case(pipeline=make_graph("list_files > interleave > map > cache > batch*32"), measurements=FILLING * 2),
        ),
        ("", cached(None, None)),
        ("", cached(0.0, 0.0, 0.0)),  # a file system that is not cached
        ("", cached(0.1, 0.5, memory_gib=32, is_sharded=False)),  # CSI503 tells
        ("", cached(0.1, 0.5, pipeline=make_graph(files=None))),
        ("", cached(measurements=(make_measurement(page_cache_ratio=0.0, cache_state="cold"),), plan=None)),
    ],
    # A launch larger than its nodes is told, and a busy host once.
    "oversubscribed-cpus": [
        (says("warning", evidence={"cpus_per_node_wanted": 32, "cpus_per_node": 16}), today("2x8x4")),
        ("info", noisy(0.2, 0.3)),
        ("info", noisy(0.0, others=0.1)),
        ("", today("2x8x2")),
        ("", noisy(0.3, layout="1x4x2")),  # our own workers stood in each other's way
        ("", noisy(0.0, others=0.09)),
        ("", make_case(measurements=(), plan=None)),
    ],
    # AUTOTUNE that counts too many CPUs is told: the cause, and not its effect again.
    "autotune-sees-host": [
        ("info", budgeted(6)),
        ("warning", budgeted(64, measurements=())),
        ("warning", tuned(16.0)),
        ("warning", tuned(16.0, parameter="num_parallel_calls")),
        ("info", quota(4)),
        ("", budgeted(4)),
        ("", tuned(3.0, layout="1x1x1")),
        ("", tuned(16.0, parameter="buffer_size")),
        ("", tuned(16.0, written=16)),  # nobody chose but the user
        ("", quota(40)),
        ("", quota(4, source="affinity")),
    ],
    # Figures that contradict each other are told with what is believed.
    "tables-disagree": [
        (says(message="the latter is believed, and the readers are no limit"), readers_alone(2000)),
        ("", readers_alone(1200)),  # a second of reading alone is no exact figure
        ("", readers_alone(9000, chain="tensor_slices > interleave > cache > map*8 > batch")),  # read once
        ("", replace(readers_alone(9000), measurements=())),
        (says(message="idle 93% of the time (serial op map holds one back)"), planned(0.06)),
        ("", planned(0.06, cpus=4)),  # of which none was measured
        ("", replace(planned(0.06), plan=None)),
        ("", planned(0.06, queued=None)),
    ],
    # A buffer that will not fit is named with what it holds now and when full; growth that no full buffer explains with its cause.
    "buffers-exceed-memory": [
        (
            says("warning", op="shuffle", message="in each of 4 tasks", fix="file names", evidence=FULL),
            holding(shuffle(100_000), batch(), prefetch(), held=1000),
        ),
        ("warning", holding(mapped(JPEG, num_parallel_calls=100_000), batch())),
        (  # half of what the tasks leave
            says("warning", op="prefetch", message="over 10 min 00 s; prefetch, which", fix=f"to {124 * GIB // 2 // 4} or less"),
            after_soak("prefetch"),
        ),
        (says("warning", op=None, message="over 10 min", fix="Python"), after_soak("Python")),
        ("", holding(shuffle(50_000), batch(), prefetch())),
        # Calls of samples: of 16 batches at most results wait.
        ("", holding(op("MapAndBatch", "map_and_batch", num_parallel_calls=100_000, batch_size=256))),
        ("", holding(shuffle(100_000), batch(), held=100_000)),  # what was measured holds it all
        ("", holding(op("Shuffle", "shuffle"), batch())),
        ("", after_soak("shuffle")),  # it ends where that one is full
        ("", after_soak(None, per_min=-1.0 * GIB)),
        ("", case_of(*reading(), shuffle(10**9), mapped(JPEG), batch(), measurements=UNREAD)),  # of records, size unknown
        ("", holding(cache(), repeat(), shuffle(1000), batch(), prefetch())),  # how many samples there are is not known
    ],
    # Too few files for automatic sharding stop the training; of what tf.distribute divides one rule speaks.
    "auto-shard": [
        (says("error", message="with AUTO", fix="16 files"), dividing(0)),
        ("error", dividing(1, files=None)),
        ("warning", dividing(0, files=None)),
        ("", dividing(1, files=4)),
        ("", dividing(None)),
        ("", dividing(1, ops=(op("Shard", "shard", num_shards=4, index=0),))),
        ("", replace(dividing(1), plan=None)),
    ],
    # A service is named with its mode, at the first line of the user's.
    "from-service": [
        (
            says("info", source=f"{SOURCE}:42", message="whole dataset", evidence={"processing_mode": "OFF"}),
            served(""),
        ),
        *(
            (says("info", lacks=["whole dataset"], evidence={"processing_mode": name}), served(mode))
            for mode, name in [("\x08\x01", "DYNAMIC"), ("\x08\x03", "DATA"), ("\x08\x09", "unknown")]
        ),
        ("", case_of(*reading(), batch())),
    ],
    "too-many-threads": [
        ("info", threaded(None, pool=32)),
        ("", threaded(50, pool=16)),
        ("", replace(threaded(300), plan=None)),
        ("warning", threaded(300)),
        ("", replace(threaded(300), host=None)),
    ],
    # A long listing is at its line and comes with a list.
    "slow-build": [
        (says("warning", op="from_tensor_slices", fix="one file"), built(300.0, code="files = Dataset.list_files(pattern)")),
        (says("warning", op=None, fix="imports"), built(300.0, files=10)),
        ("info", built(40.0)),
        ("", built(29.0)),
        ("", built(None)),
        ("", replace(built(300.0), measurements=())),
    ],
}


test_a_rule_is_as_loud_as_the_case_is_bad_and_else_silent = judged(ROWS)

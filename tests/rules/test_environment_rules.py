"""Environment, memory and threads, and what happened while measuring: when each rule fires, how loud, and when it keeps quiet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cs_input_analyzer import rules
from cs_input_analyzer.planning.evidence import reads_at_once, samples_of_worker
from cs_input_analyzer.records import Case, IgnoredErrors, Measurement, Noise, Op, Training, WorkerResult
from tests.builders import (
    GIB,
    make_alternative,
    make_case,
    make_cluster,
    make_files,
    make_graph,
    make_host,
    make_layout,
    make_measurement,
    make_noise,
    make_op,
    make_plan,
    make_profile,
    make_station,
    make_steady_state,
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
    judged,
    mapped,
    measured,
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


def used_up(
    kind: str = "TensorSlice", *, ends: bool = False, mode: str = "train", cardinality: int | None = None, **seen: Any
) -> Case:
    """A source of this kind that gave 12 elements, and nothing when it was read again."""
    state = make_steady_state(**({"epochs": 2, "pass_elements": 12, "stopped_by": "data_end"} | seen))
    case = roomy(ends=ends, mode=mode, measurements=alone(layout="1x1x1", steady_state=state))
    first, *others = case.pipeline.ops
    ops = (replace(first, kind=kind), *others)
    return replace(case, pipeline=replace(case.pipeline, ops=ops, cardinality=cardinality))


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


def fed_by(kept: Op, *, reader: float | None, map: float | None) -> Case:
    """A cache, and the elements that the ops before it gave for a sample; a tenth of the files was in memory."""
    case = case_of(*reading(), mapped(), kept, batch())
    given = {"interleave": reader, "map": map}
    before = (cost(name, 0.1, elements_per_sample=each, self_cpu_s_per_sample=each and 1e-4) for name, each in given.items())
    rows = (*before, cost("cache", 0.1))
    stations = (make_station("readers", utilization_ratio=0.95),)
    cold = (make_measurement("1x1x2", page_cache_ratio=0.1),)
    return replace(measured(case, *rows, stations=stations), measurements=cold)


def test_bytes_of_a_window_that_a_full_cache_feeds_tell_no_samples() -> None:
    assert samples_of_worker(fed_by(cache(), reader=0.0, map=0.0)) is None
    assert samples_of_worker(fed_by(cache(), reader=1.0, map=1.0)) == pytest.approx(GIB / 146_800)
    assert samples_of_worker(fed_by(cache(), reader=None, map=None)) == pytest.approx(GIB / 146_800)


FILLING = alone(layout="1x1x1", steady_state=make_steady_state(is_filling_cache=True))


def caching_to(place: str) -> Case:
    """A cache at this place, in an input function that was to write to /data/cache."""
    case = case_of(*reading(), replace(cache(), parameters={"filename": place}), batch())
    return replace(case, pipeline=replace(case.pipeline, redirected=("/data/cache",)))


def today(layout: str) -> Case:
    plan = make_plan(alternatives=(make_alternative(layout, is_current=True),))
    return make_case(plan=plan, cluster=make_cluster(cpus_per_node=16))


def busy_launch(layout: str, noise: Noise) -> Measurement:
    workers = tuple(make_worker(noise=noise) for _ in range(make_layout(layout).tasks))
    return make_measurement(layout, workers=workers, noise=noise)


def noisy(*steals: float | None, layout: str = "1x1x2", others: float | None = None) -> Case:
    return make_case(
        host=make_host(),
        measurements=tuple(busy_launch(layout, make_noise(steal_ratio=steal, others_ratio=others)) for steal in steals),
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


def dividing(policy: int | None, *, files: int | None = 2, ops: tuple[Op, ...] = ()) -> Case:
    said = {} if policy is None else {"distribute__auto_shard_policy": policy}
    source = reading() if files is not None else (op("Range", "range"),)
    case = case_of(*source, *ops, batch(), options(**said), plan=make_plan("3x2x2", input_workers=4), is_sharded=False)
    listed = make_files(count=files) if files is not None else None
    return replace(case, pipeline=replace(case.pipeline, files=listed))


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
        (says("info", message="waiting for the first batch", lacks=["lost", "--max-seconds"]), launches((WELL[0], LATE))),
        ("", launches((STUCK,), layout="1x1x1")),  # its time was over, and its numbers are kept
        ("", launches((WELL[0], replace(STUCK, index=1)))),
        (  # one cause, one finding
            says("warning", message="and 1 more workers", evidence={"workers": 2}),
            launches((WELL[0], GONE, replace(GONE, index=2)), layout="1x3x1"),
        ),
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
        # Of data that ended for good the first thing to say is that.
        (says("error", message=["claims to be endless", "12 elements", "read again"], fix="from_generator"), used_up("Generator")),
        (says("error", message="claims to be endless", fix="read again"), used_up(stopped_by="budget")),
        (says("error", message="gave 12 elements, and none", lacks=["claims"]), used_up(ends=True)),
        (says("error", message="claims to have 40 elements"), used_up(ends=True, cardinality=40)),
        (says("error", message="endless"), used_up(mode="eval")),
        ("", used_up(ends=True, mode="eval")),
        ("", used_up(epochs=0, pass_elements=None, stopped_by="budget")),
    ],
    "file-cache-redirected": [
        (says(op="cache", message="/data/cache", lacks=["rate"]), caching_to("/private/1-cache")),
        (says(op="cache"), caching_to("/data/cache")),
        ("", roomy(redirected=("/data/cache",))),  # by another dataset of the input function
        ("", caching_to("/private/1-other")),
        ("", caching_to("")),
        ("", replace(caching_to("/private/1-cache"), pipeline=make_graph(redirected=()))),
    ],
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
        # Passes that a full cache feeds read no file.
        (
            says("info", op="cache", message=("from cache, which is full in memory", "first pass"), lacks=["files"]),
            fed_by(cache(), reader=0.0, map=0.0),
        ),
        ("", fed_by(replace(cache(), parameters={"filename": "/data/cache"}), reader=0.0, map=0.0)),
        (says("warning", message="10 % of the files"), fed_by(cache(), reader=1.0, map=1.0)),
        (says("warning", message="10 % of the files"), fed_by(cache(), reader=0.0, map=1.0)),  # a piece of it still runs
        (says("warning", message="10 % of the files"), fed_by(cache(), reader=None, map=None)),  # not known
        (says("warning", message="10 % of the files"), fed_by(cache(), reader=0.0, map=None)),
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
        ("info", noisy(0.0, others=0.1, layout="1x4x2")),  # others had CPUs that each worker has to itself
        ("", today("2x8x2")),
        ("", noisy(0.3, others=0.3, layout="1x99x2")),  # they shared CPUs with each other
        ("", noisy(0.3, layout="1x4x2")),  # our own workers stood in each other's way
        ("", noisy(0.0, others=0.09)),
        ("", make_case(measurements=(), plan=None)),
    ],
    # A buffer that will not fit is named with what it holds now and when full.
    "buffers-exceed-memory": [
        (
            says("warning", op="shuffle", message="in each of 4 tasks", fix="file names", evidence=FULL),
            holding(shuffle(100_000), batch(), prefetch(), held=1000),
        ),
        ("warning", holding(mapped(JPEG, num_parallel_calls=100_000), batch())),
        ("", holding(shuffle(50_000), batch(), prefetch())),
        # Calls of samples: of 16 batches at most results wait.
        ("", holding(op("MapAndBatch", "map_and_batch", num_parallel_calls=100_000, batch_size=256))),
        ("", holding(shuffle(100_000), batch(), held=100_000)),  # what was measured holds it all
        ("", holding(op("Shuffle", "shuffle"), batch())),
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
}


test_a_rule_is_as_loud_as_the_case_is_bad_and_else_silent = judged(ROWS)

"""Rules of what happened while measuring, of memory, and of threads: when each fires, how loud, and when it is silent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cs_input_analyzer import rules
from cs_input_analyzer.model.amounts import samples_of_worker
from cs_input_analyzer.records import Case, IgnoredErrors, Op, WorkerResult
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
    make_plan,
    make_steady_state,
    make_worker,
)
from tests.rules.lines import (
    JPEG,
    NAMES,
    Rows,
    batch,
    cache,
    case_of,
    cost,
    edits,
    judged,
    mapped,
    op,
    options,
    prefetch,
    reading,
    repeat,
    says,
    shuffle,
    take,
)

FILES_64_GIB = make_files(count=1024, bytes=64 * GIB, largest_bytes=2**26, smallest_bytes=2**26)


def plan_of(cache_state: str = "as-is") -> Any:
    """Five nodes of 256 GiB, of which workers take 20."""
    return make_plan("5x16x2", input_workers=79, cache_state=cache_state, memory_bytes_per_node=20 * GIB)


def clean(**known: Any) -> Case:
    """A pipeline and a run in which nothing is wrong."""
    chain = "tensor_slices > shard > interleave > shuffle*2560 > map*8 > batch > prefetch"
    settings: dict[str, Any] = {
        "pipeline": make_graph(chain, files=FILES_64_GIB),
        "measurements": (make_measurement("1x1x2"),),
        "plan": plan_of(),
        "cluster": make_cluster(memory_bytes_per_node=256 * GIB),
    }
    return make_case(**(settings | known))


def dataset(gib: int, is_sharded: bool, cache_state: str = "as-is") -> Case:
    files = replace(FILES_64_GIB, bytes=gib * GIB)
    return case_of(
        *reading(),
        files=files,
        is_sharded=is_sharded,
        plan=plan_of(cache_state),
        cluster=make_cluster(memory_bytes_per_node=256 * GIB),
    )


# --- what happened -----------------------------------------------------------------------------------------------------------


def ignoring(elements: int, dropped: int) -> Case:
    """An `ignore_errors` that dropped so many of the elements that were looked at."""
    each = IgnoredErrors(op="ignore_errors", elements=elements, dropped=dropped, error="bad JPEG" if dropped else "")
    return case_of(op("IgnoreErrors", "ignore_errors"), worker={"ignored": (each,)})


def launches(*workers: tuple[WorkerResult, ...], layout: str = "1x2x1") -> Case:
    return clean(measurements=tuple(make_measurement(layout, workers=each) for each in workers))


WELL = make_measurement("1x2x1", [1000.0, 1000.0]).workers
LOST = make_worker(None, index=1, status="lost", message="killed by signal 9")
LATE = make_worker(None, index=1, status="deadline", message="ended at its deadline while waiting for the first batch")
STUCK = make_worker(1000.0, index=1, status="deadline", message="ended at its deadline while sampling")
BROKEN = [make_worker(1000.0, status="data_error", message=f"after {n} batches: corrupted record at 12") for n in (3, 5)]
FORBIDDEN = make_worker(1000.0, status="data_error", message="after 0 batches: /data/x: Permission denied")


def page_cache(*ratios: float | None, memory_gib: int = 256, **known: Any) -> Case:
    """Measurements that found so much of 64 GiB of files in memory, one after the other; readers hold the worker back."""
    return case_of(
        *reading(),
        **{
            "files": FILES_64_GIB,
            "measurements": tuple(make_measurement("1x1x2", page_cache_ratio=ratio) for ratio in ratios),
            "cluster": make_cluster(memory_bytes_per_node=memory_gib * GIB),
            "plan": make_plan(),
            "bottleneck": "readers",
        }
        | known,
    )


def fed_by(kept: Op, *, reader: float | None, map: float | None) -> Case:
    """A cache, and the elements that the ops before it gave for a sample; a tenth of the files was in memory."""
    given = {"interleave": reader, "map": map}
    before = [cost(name, 0.1, elements_per_sample=each, self_cpu_s_per_sample=each and 1e-4) for name, each in given.items()]
    cold = (make_measurement("1x1x2", page_cache_ratio=0.1),)
    ops = (*reading(), mapped(), kept, batch())
    return case_of(*ops, costs=(*before, cost("cache", 0.1)), bottleneck="readers", measurements=cold)


FIRST_PASS, FULL, UNSEEN = (
    (make_measurement("1x1x1", workers=(make_worker(steady_state=make_steady_state(is_filling_cache=state)),)),)
    for state in (True, False, None)
)


def unreadable(words: str) -> Case:
    """A worker that met an element whose error says this."""
    return launches((make_worker(1000.0, status="data_error", message=f"after 3 batches: {words}"),), layout="1x1x1")


# --- memory and threads ------------------------------------------------------------------------------------------------------

PICTURE = 600_000.0


def full_buffers(*ops: Op, held: float = 0.0, read_bytes: float | None = None, **known: Any) -> Case:
    """Four tasks with decoded pictures on nodes of 128 GiB; `held`: elements in each buffer at the end of the window.

    `read_bytes`: of a sample; how many there are follows from it.
    """
    row = {"bytes_out_per_sample": PICTURE, "buffered_elements": held}
    rows = [cost(name, 0.1, **row) for name in ("shuffle", "cache", "map", "map_2")]
    rows.append(cost("prefetch", 0.1, elements_per_sample=1 / 256, **row))
    plan = make_plan("2x4x2", memory_bytes_per_node=4 * GIB)
    return case_of(*reading(), mapped(JPEG), *ops, plan=plan, worker={"bytes_read_per_sample": read_bytes}, costs=rows, **known)


def pool(threads: int, *others: Op, plan: str | None = None, **known: Any) -> Case:
    """A private pool of so many threads."""
    limited = options(threading__private_threadpool_size=threads)
    return case_of(NAMES, *others, limited, plan=make_plan(plan) if plan else None, **known)


def current(layout: str) -> Case:
    """The launch in use today, on nodes of 16 CPUs."""
    plan = make_plan(alternatives=(make_alternative(layout, is_current=True),))
    return make_case(plan=plan, cluster=make_cluster(cpus_per_node=16))


def host(*steals: float | None, layout: str = "1x1x2", others: float | None = None) -> Case:
    """Launches in which the hypervisor, and other processes, took so much of the CPUs."""
    found = []
    for steal in steals:
        noise = make_noise(steal_ratio=steal, others_ratio=others)
        workers = tuple(make_worker(noise=noise) for _ in range(make_layout(layout).tasks))
        found.append(make_measurement(layout, workers=workers, noise=noise))
    return make_case(host=make_host(), measurements=tuple(found))


EIGHT_CALLS = mapped(num_parallel_calls=8)

ROWS: Rows = {
    # One damaged record is one finding however often it is met.
    "corrupt-record": [
        (says("error", fix="write the damaged file again"), launches(*((one,) for one in BROKEN), layout="1x1x1")),
        (says("error", fix="permission to read"), launches((FORBIDDEN,), layout="1x1x1")),
        *(
            (says("error", fix=fix, lacks=lacks), unreadable(words))
            for words, fix, lacks in [
                ("truncated record at 232' failed with Read less bytes than requested", "write the damaged file again", ()),
                ("inflate() failed with error -3: incorrect header check", "write the damaged file again", ()),
                ("Unknown image file format. One of JPEG, PNG required.", "repair the function that fails", ("damaged",)),
                ("ValueError: unknown label 7", "repair the function that fails", ("damaged",)),
                ("Cannot batch tensors with different shapes in component 0.", "pad, crop or resize", ("damaged", "repair")),
                ("Attempted to pad to a smaller size than the input element.", "pad, crop or resize", ("damaged", "repair")),
            ]
        ),
        ("", launches(WELL)),
    ],
    # Only what was counted is told.
    "errors-ignored": [
        (says("error", op="ignore_errors", message=("20 of 100", "bad JPEG")), ignoring(100, 20)),
        ("", ignoring(100, 0)),
        ("", case_of(op("IgnoreErrors", "ignore_errors"))),  # not looked at
    ],
    # A worker lost in several launches is one finding; one that our own deadline ended is not called lost.
    "worker-lost": [
        (
            says(message=["in 2 of 3 launches", "signal 9"], evidence={"launches_lost": 2, "launches": 3}),
            launches((WELL[0], LOST), WELL, (WELL[0], LOST)),
        ),
        (  # one cause, one finding
            says("warning", message="and 1 more workers", evidence={"workers": 2}),
            launches((WELL[0], LOST, replace(LOST, index=2)), layout="1x3x1"),
        ),
        *(("", launches((WELL[0], over))) for over in (LATE, STUCK)),  # their time was over
        ("", launches(WELL)),
    ],
    # A dataset that a node cannot keep: a warning where the plan rests on cached files.
    "dataset-exceeds-memory": [
        ("info", dataset(2000, True, "cold")),
        ("warning", dataset(2000, True)),
        ("", dataset(300, True)),
        ("", dataset(200, False)),
    ],
    # A cold start is as bad as the plan depends on it; windows of a full cache are right.
    "cold-cache": [
        ("warning", page_cache(0.1)),
        ("warning", page_cache(0.94)),
        ("", page_cache(0.95)),
        ("info", page_cache(0.1, 1.0)),  # the last measurement was of later passes
        ("info", page_cache(0.1, bottleneck="CPU")),
        (
            says("warning", op="cache", message="first pass"),
            make_case(pipeline=make_graph("list_files > interleave > map > cache > batch*32"), measurements=FIRST_PASS * 2),
        ),
        (
            says("warning", op="cache", message="cannot be seen", fix="2.17"),
            make_case(pipeline=make_graph("list_files > interleave > map > cache > batch*32"), measurements=UNSEEN),
        ),
        ("", make_case(pipeline=make_graph("list_files > interleave > map > cache > batch*32"), measurements=UNSEEN + FULL)),
        # Passes that a full cache feeds read no file.
        ("", fed_by(cache(), reader=0.0, map=0.0)),
        ("", fed_by(replace(cache(), parameters={"filename": "/data/cache"}), reader=0.0, map=0.0)),
        (says("warning", message="10 % of the files"), fed_by(cache(), reader=0.0, map=1.0)),  # a piece of it still runs
        (says("warning", message="10 % of the files"), fed_by(cache(), reader=None, map=None)),  # not known
        ("", page_cache(None, None)),
        ("", page_cache(0.0, 0.0, 0.0)),  # a file system that is not cached
        ("", page_cache(0.1, 0.5, memory_gib=32, is_sharded=False)),  # CSI503 tells
        ("", page_cache(0.1, 0.5, files=None)),
        ("", page_cache(measurements=(make_measurement(page_cache_ratio=0.0, cache_state="cold"),), plan=None)),
    ],
    # A buffer that will not fit is named with what it holds now and when full.
    "buffers-exceed-memory": [
        (
            says(
                "warning",
                op="shuffle",
                message="in each of 4 tasks",
                fix="file names",
                evidence={
                    "full_bytes": round(100_000 * PICTURE),
                    "held_bytes": round(1000 * PICTURE),
                    "bytes_per_node_when_full": round(4 * GIB + 4 * 99_000 * PICTURE),
                },
            ),
            full_buffers(shuffle(100_000), batch(), prefetch(), held=1000),
        ),
        ("warning", full_buffers(mapped(JPEG, num_parallel_calls=100_000), batch())),
        ("", full_buffers(replace(mapped(JPEG, num_parallel_calls=100_000), by_cpus={"num_parallel_calls": 1024}), batch())),
        ("", full_buffers(shuffle(50_000), batch(), prefetch())),
        # Calls of samples: of 16 batches at most results wait.
        ("", full_buffers(op("MapAndBatch", "map_and_batch", num_parallel_calls=100_000, batch_size=256))),
        ("", full_buffers(shuffle(100_000), batch(), held=100_000)),  # what was measured holds it all
        ("", full_buffers(op("Shuffle", "shuffle"), batch())),
        ("", case_of(*reading(), shuffle(10**9), mapped(JPEG), batch(), worker={"bytes_read_per_sample": None})),  # of records
        ("", full_buffers(cache(), repeat(), batch(), prefetch())),  # how many samples there are is not known
        # A take limits the samples: a cache of 10,000 pictures fits, and one of all of them does not.
        *(
            (severity, full_buffers(*before, cache(), repeat(), batch(), read_bytes=GIB / 2_000_000))
            for severity, before in [("warning", ()), ("", (take(10_000),)), ("warning", (repeat(2), take(400_000)))]
        ),
        ("warning", full_buffers(take(10_000), op("Unbatch", "unbatch"), cache(), batch(), read_bytes=GIB / 2_000_000)),
        ("warning", full_buffers(shuffle(100_000), take(10_000), batch(), read_bytes=GIB / 2_000_000)),  # it fills before the take
    ],
    # A launch larger than its nodes is told, and a busy host once.
    "oversubscribed-cpus": [
        (says("warning", evidence={"cpus_per_node_wanted": 32, "cpus_per_node": 16}), current("2x8x4")),
        ("", current("2x8x2")),
        (says("info", message="the hypervisor took 25 %"), host(0.2, 0.3)),
        ("info", host(0.0, others=0.1)),
        ("info", host(0.0, others=0.1, layout="1x4x2")),  # others had CPUs that each worker has to itself
        ("", host(0.04, others=0.09)),
        ("", host(0.3, layout="1x4x2")),  # our own workers stood in each other's way
        ("", make_case(measurements=(), plan=None)),
    ],
    # A pool is compared with the CPUs of a task and with the calls that the code asks for.
    "starved-threads": [
        (says("warning", edits=edits(("use-private-threads", "with_options", 4))), pool(1, plan="2x16x4")),
        (  # the plan has tasks of one CPU because one thread cannot use more: for them the pool is large enough
            says("info", edits=(), message="4 CPUs"),
            pool(1, plan="2x16x1", measurements=(make_measurement("1x1x1"), make_measurement("1x1x4"))),
        ),
        # Fewer threads than calls: without the pool there would be fewer still.
        *(
            (
                says(
                    severity,
                    fix="to 8",
                    lacks=["leave"],
                    evidence={"parallel_calls": 8},
                    edits=edits(("use-private-threads", "with_options", 8)),
                ),
                pool(2, EIGHT_CALLS, measurements=(), bottleneck=station),
            )
            for severity, station in [("info", None), ("warning", ("fixed parallelism", "map")), ("info", "CPU")]
        ),
        ("warning", case_of(NAMES, op("PrivateThreadPool", "pool", num_threads=1))),
        ("", pool(0, plan="2x16x4")),  # TensorFlow chooses
        ("", pool(2, mapped(num_parallel_calls=2), measurements=())),
        ("", case_of(NAMES, batch(), measurements=(make_measurement("1x1x16"),))),
    ],
}

test_a_rule_is_as_loud_as_the_case_is_bad_and_else_silent = judged(ROWS)


def test_no_rule_fires_where_nothing_is_wrong() -> None:
    assert rules.sift(clean()).findings == ()


def test_bytes_of_a_window_that_a_full_cache_feeds_tell_no_samples() -> None:
    assert samples_of_worker(fed_by(cache(), reader=0.0, map=0.0)) is None
    assert samples_of_worker(fed_by(cache(), reader=1.0, map=1.0)) == pytest.approx(GIB / 146_800)
    assert samples_of_worker(fed_by(cache(), reader=None, map=None)) == pytest.approx(GIB / 146_800)

"""Memory, threads, starts and what divides the data elsewhere: when each rule fires, how loud, and when it keeps quiet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cs_input_analyzer.planning.buffers import buffers_of, checkpoint_bytes
from cs_input_analyzer.planning.evidence import reads_at_once
from cs_input_analyzer.records import Case, Op, Soak
from cs_input_analyzer.rules.files import slow_build
from cs_input_analyzer.rules.memory import buffers_exceed_memory
from cs_input_analyzer.rules.order import skip_rereads
from cs_input_analyzer.rules.shards import auto_shard, from_service, no_shard
from cs_input_analyzer.rules.threads import too_many_threads
from tests.builders import (
    GIB,
    SOURCE,
    make_cluster,
    make_files,
    make_host,
    make_measurement,
    make_plan,
    make_profile,
    make_station,
    make_worker,
)
from tests.rules.lines import (
    JPEG,
    Expected,
    Rows,
    Rule,
    batch,
    cache,
    case_of,
    check,
    cost,
    judged,
    mapped,
    op,
    options,
    prefetch,
    reading,
    repeat,
    says,
    shuffle,
)

PICTURE = 600_000.0
UNREAD = replace(make_measurement("1x1x2"), workers=(make_worker(bytes_read_per_sample=None),))


def holding(*ops: Op, tasks: int = 4, held: float = 0.0, used: int = 4 * GIB, **overrides: Any) -> Case:
    """Decoded pictures on nodes of 128 GiB; `held`: elements in each buffer at the end of the window."""
    worker = make_worker(bytes_read_per_sample=None)
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
        measurements=(replace(make_measurement("1x1x2"), workers=(worker,)),),
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


def test_a_checkpoint_holds_full_buffers_and_no_cache() -> None:
    case = holding(cache(), shuffle(100), batch(), prefetch(2))
    assert checkpoint_bytes(buffers_of(case)) == pytest.approx(100 * PICTURE + 2 * 256 * PICTURE)
    assert checkpoint_bytes(()) is None
    assert checkpoint_bytes(buffers_of(case_of(*reading(), mapped(JPEG)))) is None


def dividing(policy: int | None, *, files: int | None = 2, workers: int = 4, ops: tuple[Op, ...] = ()) -> Case:
    said = {} if policy is None else {"distribute__auto_shard_policy": policy}
    source = reading() if files is not None else (op("Range", "range"),)
    case = case_of(*source, *ops, batch(), options(**said), plan=make_plan("3x2x2", input_workers=workers), is_sharded=False)
    listed = make_files(count=files) if files is not None else None
    return replace(case, pipeline=replace(case.pipeline, files=listed))


def served(mode: str) -> Case:
    source = op("DataService", "data_service", processing_mode=mode, address="host:5050", protocol="grpc", job_name="")
    return case_of(replace(source, source=None), mapped(("Identity",)), prefetch())


def threaded(threads: int | None, limit: int | None = 4096, *, pool: int = 0, tasks: int = 16, **overrides: Any) -> Case:
    worker = make_worker(threads=threads)
    return case_of(
        *(*reading(), batch(), options(threading__private_threadpool_size=pool)),
        plan=make_plan(f"2x{tasks}x2"),
        host=make_host(thread_limit=limit, thread_limit_source="ulimit -u"),
        cluster=make_cluster(cpus_per_node=64, memory_bytes_per_node=128 * GIB),
        measurements=(replace(make_measurement("1x1x2"), workers=(worker,)),),
        **overrides,
    )


def built(seconds: float | None, files: int = 200_000, code: str | None = None) -> Case:
    case = case_of(*reading(code=code), batch())
    source = replace(case.pipeline.ops[0], code=code)
    pipeline = replace(case.pipeline, ops=(source, *case.pipeline.ops[1:]), files=make_files(count=files))
    workers = tuple(make_worker(index=index, build_s=seconds and seconds + index) for index in range(2))
    return replace(case, pipeline=pipeline, measurements=(replace(make_measurement("1x2x1"), workers=workers),))


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


SMALL = (shuffle(1000), batch(), prefetch())
FULL = {
    "full_bytes": round(100_000 * PICTURE),
    "held_bytes": round(1000 * PICTURE),
    "bytes_per_node_when_full": round(4 * GIB + 4 * 99_000 * PICTURE),
}
LISTED = "files = tf.data.Dataset.list_files(pattern)"
ROWS: Rows = {
    # A buffer that will not fit is named with what it holds now and when full; growth that no full buffer explains with its cause.
    buffers_exceed_memory: [
        (
            says("warning", op="shuffle", message="in each of 4 tasks", fix="file names", evidence=FULL),
            holding(shuffle(100_000), batch(), prefetch(), held=1000),
        ),
        ("warning", holding(mapped(JPEG, num_parallel_calls=100_000), batch())),
        (  # half of what the tasks leave
            says("warning", op="with_options", fix=f"to {124 * GIB // 2 // 4} or less"),
            holding(batch(), prefetch(), options(autotune__ram_budget=64 * GIB)),
        ),
        (
            says("warning", op="prefetch", message="over 10 min 00 s; prefetch, which", lacks=["Python"]),
            after_soak("prefetch"),
        ),
        (says("warning", op=None, message="over 10 min", fix="Python"), after_soak("Python")),
        (says("warning", op=None, message="over 10 min", fix="Python"), after_soak(None)),
        ("", holding(shuffle(50_000), batch(), prefetch())),
        ("", holding(shuffle(100_000), batch(), held=100_000)),  # what was measured holds it all
        ("", holding(op("Shuffle", "shuffle"), batch())),
        ("", case_of(*reading(), shuffle(10**9), mapped(JPEG), batch(), measurements=(UNREAD,))),  # of records, size unknown
        ("", after_soak("shuffle")),  # it ends where that one is full
        ("", after_soak(None, per_min=-1.0 * GIB)),
        ("", holding(cache(), repeat(), *SMALL)),  # how many samples there are is not known
    ],
    skip_rereads: [
        (
            says(evidence={"checkpoint_bytes": 100 * PICTURE}, fix="57.2 MiB for each worker"),
            holding(op("Skip", "skip", count=5000), shuffle(100), batch()),
        )
    ],
    # Too few files for automatic sharding stop the training; of what tf.distribute divides one rule speaks.
    auto_shard: [
        (says("error", message="with FILE", fix="16 files"), dividing(1)),
        (says("error", message="with AUTO", fix="16 files"), dividing(0)),
        ("error", dividing(1, files=None)),
        ("warning", dividing(0, files=None)),
        ("", dividing(1, files=4)),
        ("", dividing(None)),
        ("", dividing(1, ops=(op("Shard", "shard", num_shards=4, index=0),))),
        ("", replace(dividing(1), plan=None)),
    ],
    no_shard: [("", dividing(1)), ("info", dividing(None)), ("info", dividing(-1))],
    # A service is named with its mode, at the first line of the user's.
    from_service: [
        (
            says("info", source=f"{SOURCE}:42", message="whole dataset", evidence={"processing_mode": "OFF", "job_name": None}),
            served(""),
        ),
        *(
            (says("info", lacks=["whole dataset"], evidence={"processing_mode": name}), served(mode))
            for mode, name in [("\x08\x01", "DYNAMIC"), ("\x08\x03", "DATA"), ("\x08\x09", "unknown")]
        ),
        ("", case_of(*reading(), batch())),
    ],
    too_many_threads: [
        ("warning", threaded(300)),
        ("info", threaded(None, pool=32)),
        ("", threaded(200)),
        ("", threaded(300, limit=None)),
        ("", threaded(None)),
        ("", threaded(50, pool=16)),
        ("", replace(threaded(300), plan=None)),
        ("", replace(threaded(300), host=None)),
    ],
    # A long listing is at its line and comes with a list.
    slow_build: [
        (says("warning", op="from_tensor_slices", fix="one file"), built(300.0, code=LISTED)),
        (says("warning", op=None, fix="imports"), built(300.0, files=10)),
        ("info", built(40.0)),
        ("", built(29.0)),
        ("", built(None)),
        ("", replace(built(300.0), measurements=())),
    ],
}


@judged(ROWS)
def test_a_rule_is_as_loud_as_the_case_is_bad_and_else_silent(rule: Rule, case: Case, expected: Expected) -> None:
    check(rule, case, expected)

"""Sharding and correctness for many workers: when each rule fires, how loud, and when it keeps quiet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import (
    make_case,
    make_cluster,
    make_files,
    make_graph,
    make_measurement,
    make_op,
    make_op_cost,
    make_plan,
    make_profile,
    make_station,
    make_storage,
    make_worker,
)
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.records import Case, Component, FileSet, Op
from cs_input_analyzer.rules.caches import cache_path_shared
from cs_input_analyzer.rules.elements import drop_remainder_missing, unknown_shapes
from cs_input_analyzer.rules.files import path_not_shared, skewed_file_sizes
from cs_input_analyzer.rules.order import skip_rereads
from cs_input_analyzer.rules.shards import fewer_files_than_workers, late_shard, no_shard, shard_after_unseeded_shuffle
from tests.rules.lines import Expected, Rows, Rule, check, found, judged, line, only, says

GIB, MIB = 2**30, 2**20


def case_of(*ops: Op, **overrides: Any) -> Case:
    pipeline = {name: overrides.pop(name) for name in ("files", "element_spec", "input_context") if name in overrides}
    return make_case(pipeline=make_graph(ops=line(*ops), **pipeline), **overrides)


NAMES = make_op("from_tensor_slices", kind="TensorSlice", parameters={})
READ = (
    make_op("TFRecordDataset", kind="TFRecord", within="interleave", parameters={"compression_type": ""}),
    make_op("interleave"),
)
MAP, BATCH = make_op("map"), make_op("batch")


def shard(number: int) -> Op:
    return make_op("shard", parameters={"num_shards": number, "index": 0})


SHARD = shard(16)


def of_files(files: FileSet | None, workers: int = 16, **overrides: Any) -> Case:
    return make_case(pipeline=make_graph(files=files), plan=make_plan(input_workers=workers), **overrides)


@pytest.mark.parametrize("files", [make_files(count=8), make_files(count=1, directory='/data/a "b" {c}')])
def test_too_few_files_come_with_a_count_and_lines_that_write_them(files: FileSet) -> None:
    finding = only(fewer_files_than_workers, of_files(files))
    assert finding.evidence["files_wanted"] == 64
    assert finding.after is not None
    assert "range(64)" in finding.after
    compile(finding.after, "recipe", "exec")


@given(files=st.integers(1, 40), workers=st.integers(1, 40))
def test_files_are_too_few_exactly_below_the_workers(files: int, workers: int) -> None:
    findings = found(fewer_files_than_workers, of_files(make_files(count=files), workers))
    assert bool(findings) is (files < workers)
    assert all(finding.evidence["files_wanted"] >= workers for finding in findings)


ALONE = make_measurement("1x1x1")


def several(*counts: int | None) -> Any:
    """A launch of as many workers, each of which saw so many files."""
    workers = tuple(make_worker(index=index, file_count=count) for index, count in enumerate(counts))
    return replace(make_measurement(f"1x{len(counts)}x1"), workers=workers)


def unsharded(*launches: Any, is_sharded: bool = False, **overrides: Any) -> Case:
    return case_of(NAMES, *READ, BATCH, is_sharded=is_sharded, measurements=launches, **overrides)


def context(use: str, message: str, fix: str) -> tuple[Expected, Case]:
    launches = (ALONE, several(1024, 1024))
    return says(message=message, fix=fix, evidence={"input_context": use}), unsharded(*launches, input_context=use)


def shuffled(*after: Op, seeds: tuple[int, int] = (0, 0), code: str | None = None, **overrides: Any) -> Case:
    """A shuffle of the names of files, by these two seeds: (0, 0) is none."""
    parameters = {"buffer_size": 64, "seed": seeds[0], "seed2": seeds[1]}
    listed = make_op("shuffle", parameters=parameters, code=code, source="/home/ada/x.py:7")
    return case_of(NAMES, listed, *(after or (SHARD, *READ)), **overrides)


def reseeded(code: str, after: str | None) -> tuple[Expected, Case]:
    said = says("warning", source="/home/ada/x.py:7", before=code if after else None, after=after, edits=())
    return said, shuffled(code=code)


LIST = 'files = tf.data.Dataset.list_files("/data/*.tfrecord"'
GENERATOR = (
    make_op("from_generator", kind="Generator", within="flat_map", parameters={}),
    make_op("flat_map", kind="FlatMap", parameters={}),
)
SKEWED = make_files(count=16, bytes=16 * GIB, largest_bytes=8 * GIB, smallest_bytes=GIB // 2)
AVERAGED = make_files(count=1024, bytes=1024 * MIB, largest_bytes=3 * MIB, smallest_bytes=MIB // 2)
SLOWEST = (make_station("slowest shard", utilization_ratio=0.95),)
OPEN = (Component(name="image", shape=(None, 224, 224, 3), dtype="float16"),)


def batched(drop: bool = False, *after: Op, kind: str = "Batch", code: str | None = None, **overrides: Any) -> Case:
    batch = make_op("batch", kind=kind, parameters={"batch_size": 32, "drop_remainder": drop}, code=code)
    return case_of(NAMES, batch, *after, **({"element_spec": OPEN} | overrides))


def one_pass_of(samples: int, **overrides: Any) -> Case:
    """Measured passes of one batch that may hold 32 samples."""
    launch = make_measurement("1x1x1", workers=(make_worker(10.0 * samples, batches_per_s=10.0),))
    case = batched(code="ds = ds.batch(32)", measurements=(launch,))
    return replace(case, pipeline=replace(case.pipeline, **({"cardinality": 1, "is_infinite": False} | overrides)))


def shaped(*shapes: tuple[int | None, ...] | None, dtype: str = "int32", kind: str = "tensor", ops: Any = (MAP, BATCH)) -> Case:
    parts = tuple(Component(name=f"x{number}", shape=shape, dtype=dtype, kind=kind) for number, shape in enumerate(shapes))
    return case_of(NAMES, *ops, element_spec=parts)


def unknown(told: str, shape: tuple[int | None, ...] | None, kind: str = "tensor") -> tuple[Expected, Case]:
    case = shaped((32, 4))
    odd = shaped(shape, kind=kind).pipeline.element_spec
    said = says("warning", message=told, evidence={"components": 1})
    return said, replace(case, pipeline=replace(case.pipeline, element_spec=(*case.pipeline.element_spec, *odd)))


def skip(
    count: int | None, *, before: tuple[Op, ...] = (*READ, MAP), after: tuple[Op, ...] = (BATCH,), rate: float | None = None
) -> Case:
    op = make_op("skip", parameters={} if count is None else {"count": count})
    return case_of(NAMES, *before, op, *after, measurements=(make_measurement("1x1x1", [rate]),) if rate else ())


HEADINGS = (READ[0], make_op("skip", parameters={"count": 1}, within="interleave"), READ[1])
REPEAT = make_op("repeat", parameters={})


def placed(directory: str, is_shared: bool | None, *, nodes: int = 4, source: str = "Slurm: partition cpu") -> Case:
    file_system = {True: "nfs4", False: "ext4", None: "overlay"}[is_shared]
    return make_case(
        pipeline=make_graph(files=make_files(directory=directory)),
        storage=make_storage(directory=directory, is_shared=is_shared, file_system=file_system),
        plan=make_plan(f"{nodes}x8x2"),
        cluster=make_cluster(source=source),
    )


def caching(*paths: str, folder: str = "", layout: str = "3x4x2", **overrides: Any) -> Case:
    """A pipeline with a file cache, of which each worker of a launch named its own path."""
    filename = f"/private/1-{paths[0].rsplit('/')[-1]}" if paths else folder
    op = make_op("cache", parameters={"filename": filename}, code='ds = ds.cache("/data/c")')
    workers = tuple(make_worker(index=number, writes=(path,)) for number, path in enumerate(paths))
    launch = replace(make_measurement(f"1x{len(paths) or 1}x1"), workers=workers)
    return case_of(NAMES, *READ, op, **({"measurements": (launch,), "plan": make_plan(layout)} | overrides))


def without_files(*digests: str | None, announced: int = 2, **overrides: Any) -> Case:
    """A generator's workers, by the digests of their first batches."""
    workers = tuple(make_worker(index=number, first_batch_digest=digest) for number, digest in enumerate(digests))
    launch = replace(make_measurement(f"1x{max(1, len(digests))}x1"), workers=workers, num_workers=announced)
    return unsharded(launch, **({"files": None} | overrides))


ROOM = {"profile": make_profile(ops=(make_op_cost("cache", bytes_out_per_sample=10.0),))}
SHARED = says("error", op="cache", evidence={"path": "/data/c"})

ROWS: Rows = {
    fewer_files_than_workers: [(says(after=None), case_of(NAMES, SHARD, make_op("interleave"), BATCH, files=make_files(count=1)))],
    # A cache of each worker's own, or of one worker, is right; memory is shown where there is room.
    cache_path_shared: [
        (SHARED | says(after=None), caching("/data/c", "/data/c")),
        (SHARED | says(after='ds = ds.cache("")'), caching("/data/c", "/data/c", **ROOM)),
        ("error", caching("/tmp/c", "/tmp/c")),  # several tasks of a node
        ("error", caching("/data/c", "/data/c", layout="3x1x2")),
        ("", caching("/data/c")),  # no launch of several was measured
        ("", caching("/data/c", "/data/c", plan=make_plan("3x4x2", input_workers=1))),
        ("", caching("/data/c", "/data/c", plan=None)),
        ("", caching("/tmp/c", "/tmp/c", layout="3x1x2")),
        ("", caching()),  # in memory
    ],
    # Workers that all stream the same are told, with what was tried; no word where shards are right or unknown.
    no_shard: [
        (says("warning", lacks=["input_context"], evidence={"workers_announced": 2}), unsharded(ALONE, several(1024, 1024))),
        ("info", unsharded(ALONE)),  # never run with several workers, it may shard after all
        context("given", "; called with input_context)", "input_context.num_input_pipelines"),
        context("left", "; its input_context was left at its default, try --input-context)", "measure with --input-context"),
        (says("error", op="shard"), case_of(NAMES, shard(1), *READ, BATCH, measurements=(several(1024, 1024),))),
        ("warning", case_of(NAMES, shard(4), *READ, BATCH, measurements=(ALONE,))),
        ("error", unsharded(several(512, 512), several(1024, 1024), is_sharded=True)),  # Python code that divides once
        ("", unsharded(plan=None)),
        (says("warning", message="began with one batch", fix="its own part"), without_files("a", "a")),
        ("warning", without_files("a", "a", "a", announced=16)),
        *(("", without_files(*seen)) for seen in [(), ("a",), ("a", "b"), (None, None), ("a", "a", "b"), ("a", None)]),
        ("", without_files("a", "a", plan=make_plan(input_workers=1))),
        ("", unsharded(several(512, 512), is_sharded=True)),
        ("", unsharded(several(1024), is_sharded=True)),  # alone it may have all
        ("", unsharded(several(None, None), is_sharded=True)),
        ("", case_of(NAMES, SHARD, READ[1], measurements=(several(*(64,) * 16),))),  # as many shards as were announced
        ("", case_of(NAMES, SHARD, READ[1], plan=make_plan(input_workers=16))),  # the user's own number, and the plan's
        ("", case_of(NAMES, SHARD, READ[1], measurements=())),
    ],
    # A shard of a random list of files is told at the list; what is not understood is advice without code.
    shard_after_unseeded_shuffle: [
        reseeded(f"{LIST})", f"{LIST}, shuffle=False)"),
        reseeded("files = files.shuffle(64).shard(n, i)", "files = files.shuffle(64, seed=1).shard(n, i)"),
        reseeded("files = names(params)", None),
        ("", shuffled(READ[1])),
        ("", shuffled(plan=make_plan(input_workers=1))),
        ("", case_of(NAMES, make_op("shuffle", parameters={"buffer_size": 64}), SHARD)),  # seeds that the graph does not tell
    ],
    # A shard after reading is told, where that is the only way for information.
    late_shard: [
        *(
            (says("warning", op="shard", message="in 16"), case_of(NAMES, *ops, plan=plan))
            for plan in (None, make_plan())
            for ops in [
                (*READ, SHARD),
                (*READ, MAP, SHARD, BATCH),
                (*READ, BATCH, SHARD),
                (make_op("map", function_ops=("ReadFile",)), SHARD),
            ]
        ),
        (says("info", fix="64 files"), case_of(NAMES, *READ, SHARD, files=make_files(count=2))),
        ("info", case_of(NAMES, *GENERATOR, SHARD)),
        ("", case_of(NAMES, make_op("map", function_ops=("StringJoin",)), SHARD, *READ)),  # of names
        ("", case_of(NAMES, *READ, BATCH)),
        ("", case_of(NAMES, *READ, SHARD, plan=make_plan(input_workers=1))),
    ],
    # A shard has two files: 8 GiB and the mean of the others, 8 / 15 GiB, over 2 GiB. Skew that averages out is for information.
    skewed_file_sizes: [
        (says("warning", evidence={"largest_shard_ratio": (8 + 8 / 15) / 2}), of_files(SKEWED, 8)),
        ("info", of_files(AVERAGED, 4)),
        ("warning", of_files(AVERAGED, 4, stations=SLOWEST)),
        ("", make_case()),
        ("", of_files(SKEWED, is_sharded=False)),
        ("", of_files(SKEWED, 1)),
        ("", of_files(None)),
        ("", of_files(make_files(count=3, bytes=0, largest_bytes=0, smallest_bytes=0))),
    ],
    # Every kind of batch is looked at; where no batch is full nothing is dropped.
    drop_remainder_missing: [
        *(("warning", batched(kind=kind)) for kind in ["Batch", "ParallelBatch", "PaddedBatch", "MapAndBatch"]),
        (
            says("warning", after="ds = ds.batch(32, drop_remainder=True).prefetch(2)"),
            batched(code="ds = ds.batch(32).prefetch(2)"),
        ),
        (says(after=None, fix="would drop all samples"), one_pass_of(6)),
        *(
            (says(after="ds = ds.batch(32, drop_remainder=True)"), case)
            for case in [one_pass_of(32), one_pass_of(6, cardinality=2), one_pass_of(6, cardinality=None)]
        ),
        ("", batched(element_spec=make_graph().element_spec)),  # a map set the shape afterwards
        ("", case_of(NAMES, MAP, element_spec=OPEN)),  # nothing is batched
        ("", batched(False, make_op("batch", name="batch_2"))),
        ("", batched(element_spec=(Component(name="sum", shape=(), dtype="float32"),))),
    ],
    # The batch dimension alone may be open; single samples have none to spare.
    unknown_shapes: [
        unknown("[32, ?]", (32, None)),
        unknown("[?, ?]", (None, None)),
        unknown("rank unknown", None),
        unknown("ragged", (32, None), kind="ragged"),
        unknown("sparse", (32, 100), kind="sparse"),
        ("warning", shaped((None,), ops=(MAP,))),
        ("", shaped((32, 128), (32,))),
        ("", shaped((None, 128), (None,))),
        ("", shaped((32, None), dtype="string")),
        ("", shaped((), ops=(MAP,))),
        ("", shaped(ops=(MAP,))),
    ],
    # A skip is as bad as it takes long.
    skip_rereads: [
        (says("warning", evidence={"seconds": 100.0, "in_every_pass": False}), skip(10_000, rate=100.0)),
        (says("info", evidence={"seconds": 0.01, "in_every_pass": False}), skip(10_000, rate=1e6)),
        (
            says("warning", evidence={"samples": 40 * 256, "in_every_pass": True}),
            skip(40, before=(*READ, BATCH), after=(REPEAT,)),
        ),
        ("", skip(3, before=(), after=(*READ, MAP))),  # file names
        ("", skip(0)),
        ("", case_of(NAMES, *HEADINGS, MAP)),  # a line of headings
        ("", skip(None, before=READ, after=(MAP,))),  # a count that only the run knows
        ("", case_of(NAMES, *READ, make_op("take", parameters={"count": 5}))),
    ],
    # A path of this machine alone is told for several nodes; nodes described from elsewhere may have the data at another place.
    path_not_shared: [
        ("warning", placed("/tmp/data", None)),
        ("warning", placed("/dev/shm", None)),
        ("warning", replace(placed("/var/tmp/x", None), storage=None)),
        *(
            ("info", placed("/tmp/data", False, source=source))
            for source in ["flags", "preset big: its page", "cluster.yaml", "this host, with nodes from flags"]
        ),
        ("", placed("/data", None)),
        ("", placed("/tmpfiles", None)),
        ("", placed("/tmp/data", False, nodes=1)),
        ("", replace(placed("/tmp/data", False), pipeline=make_graph(files=None))),
        ("", replace(placed("/data", None), storage=None)),
    ],
}


@judged(ROWS)
def test_a_rule_is_as_loud_as_the_case_is_bad_and_else_silent(rule: Rule, case: Case, expected: Expected) -> None:
    check(rule, case, expected)

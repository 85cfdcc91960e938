"""Cost of ops and bytes, sharding and many workers: when each rule fires, how loud, and when it keeps quiet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.records import Case, Component, Edit, FileSet, Op, Training
from cs_input_analyzer.rules.maps import serial_map
from tests.builders import (
    GIB,
    MIB,
    SOURCE,
    make_case,
    make_cluster,
    make_files,
    make_graph,
    make_measurement,
    make_op_cost,
    make_plan,
    make_profile,
    make_station,
    make_worker,
)
from tests.rules.lines import (
    GENERATOR,
    NAMES,
    READ,
    Expected,
    Rows,
    alone,
    batch,
    case_of,
    cost,
    found,
    judged,
    mapped,
    op,
    options,
    placed,
    repeat,
    says,
)

KIB = 2**10


def planned(*ops: Op, **overrides: Any) -> Case:
    """A case with a plan of 16 workers."""
    return case_of(*ops, **({"plan": make_plan()} | overrides))


def profile_with(name: str, share: float | None, **row: Any) -> Any:
    return make_profile(ops=(make_op_cost(name, share_ratio=share, **row),))


def busy(kind: str, utilization: float = 0.97, **overrides: Any) -> tuple[Any, ...]:
    return (make_station(kind, utilization_ratio=utilization, **overrides),)


def calling(*called: str, **more: Any) -> Op:
    return mapped(called, **more)


def stored(compression: str = "", *more: Op, buffer: int | str = "AUTOTUNE", **overrides: Any) -> Case:
    """Large files that an interleave reads."""
    reader = replace(READ[0], parameters={"compression_type": compression, "buffer_size": buffer})
    return case_of(NAMES, reader, *READ[1:], *more, **({"files": make_files()} | overrides))


def python(share: float | None = None, *, stations: tuple[Any, ...] = (), **row: Any) -> Case:
    """A function in Python, called for every sample where nothing else is said, and its row in the table of costs."""
    row = {"elements_per_sample": 1.0, "wait_s_per_sample": 0.0, **row} if share is not None else row
    is_measured = share is not None or row
    profile = profile_with("map", share, **row) if is_measured else None
    return stored("", calling("EagerPyFunc", "Reshape"), BATCH, profile=profile, stations=stations)


def part(dtype: str, *shape: int | None, name: str = "x", kind: str = "tensor") -> Component:
    return Component(name=name, shape=shape, dtype=dtype, kind=kind)


def giving(*parts: Component, half: str | None = None, **overrides: Any) -> Case:
    return case_of(NAMES, BATCH, element_spec=parts, training=Training(half=half), **overrides)


LABEL = part("int64", 32, name="label")
SINGLE = (part("float32", 32, 100, name="image"), part("int32", 32, name="label"))


CPU_BOUND = {"stations": busy("CPU"), "profile": profile_with("TFRecordDataset", 0.4)}
SLOW_STORAGE = {"stations": busy("storage bandwidth")}
BATCH, MAP = batch(), mapped()
JPEG, CROPPED = calling("DecodeJpeg"), calling("DecodeJpeg", "Slice")


def files(count: int, mean: float, **overrides: Any) -> Case:
    held = make_files(count=count, bytes=int(count * mean), largest_bytes=int(mean), smallest_bytes=int(mean))
    return stored(files=held, **({"is_sharded": False} | overrides))


def threads(number: int, *others: Op, tasks: str | None = None, **overrides: Any) -> Case:
    limited = options(threading__private_threadpool_size=number)
    return case_of(NAMES, *others, limited, plan=make_plan(tasks) if tasks else None, **overrides)


def holding(size: int, layout: str = "1x1x1") -> Case:
    source = replace(NAMES, constant_bytes=size)
    return case_of(source, BATCH, plan=make_plan(layout), cluster=make_cluster(memory_bytes_per_node=GIB))


def shard(number: int) -> Op:
    return op("Shard", "shard", num_shards=number, index=0)


SHARD = shard(16)


def of_files(files: FileSet | None, workers: int = 16, **overrides: Any) -> Case:
    return make_case(pipeline=make_graph(files=files), plan=make_plan(input_workers=workers), **overrides)


def of_policy(policy: int, **plan: Any) -> Case:
    """The options leave the dividing to `tf.distribute`; eight files for eight workers."""
    said = options(distribute__auto_shard_policy=policy)
    return case_of(NAMES, *READ, said, files=make_files(count=8), is_sharded=True, plan=make_plan(input_workers=8, **plan))


@given(files=st.integers(1, 40), workers=st.integers(1, 40))
def test_files_are_too_few_exactly_below_the_workers(files: int, workers: int) -> None:
    findings = found("fewer-files-than-workers", of_files(make_files(count=files), workers))
    assert bool(findings) is (files < workers)
    assert all(finding.evidence["files_wanted"] >= workers for finding in findings)


ALONE = make_measurement("1x1x1")


def several(*counts: int | None) -> Any:
    """A launch of as many workers, each of which saw so many files."""
    workers = tuple(make_worker(index=index, file_count=count) for index, count in enumerate(counts))
    return make_measurement(f"1x{len(counts)}x1", workers=workers)


def unsharded(*launches: Any, is_sharded: bool = False, **overrides: Any) -> Case:
    return planned(NAMES, *READ, BATCH, is_sharded=is_sharded, measurements=launches, **overrides)


def shuffled(*after: Op, code: str | None = None, **overrides: Any) -> Case:
    """A shuffle of the names of files without a seed."""
    listed = op("Shuffle", "shuffle", code=code, buffer_size=64, seed=0, seed2=0)
    return planned(NAMES, listed, *(after or (SHARD, *READ)), **overrides)


def reseeded(code: str, after: str | None) -> tuple[Expected, Case]:
    said = says("warning", source=f"{SOURCE}:42", before=code if after else None, after=after, edits=())
    return said, shuffled(code=code)


SKEWED = make_files(count=16, bytes=16 * GIB, largest_bytes=8 * GIB, smallest_bytes=GIB // 2)
AVERAGED = make_files(count=1024, bytes=1024 * MIB, largest_bytes=3 * MIB, smallest_bytes=MIB // 2)
OPEN = (part("float16", None, 224, 224, 3, name="image"),)


def batched(*after: Op, kind: str = "Batch", code: str | None = None, before: tuple[Op, ...] = (), **overrides: Any) -> Case:
    """Batches of which the last may be small."""
    one = op(kind, "batch", code=code, batch_size=32, drop_remainder=False)
    return case_of(NAMES, *before, one, *after, **({"element_spec": OPEN} | overrides))


def shaped(*shapes: tuple[int | None, ...] | None, dtype: str = "int32", kind: str = "tensor", ops: Any = (MAP, BATCH)) -> Case:
    parts = tuple(Component(name=f"x{number}", shape=shape, dtype=dtype, kind=kind) for number, shape in enumerate(shapes))
    return case_of(NAMES, *ops, element_spec=parts)


def unknown(told: str, shape: tuple[int | None, ...] | None, kind: str = "tensor") -> tuple[Expected, Case]:
    case = shaped((32, 4))
    odd = shaped(shape, kind=kind).pipeline.element_spec
    said = says("warning", message=told, evidence={"components": 1})
    return said, replace(case, pipeline=replace(case.pipeline, element_spec=(*case.pipeline.element_spec, *odd)))


def skip(
    count: int | None, *, before: tuple[Op, ...] = (*READ, MAP), after: tuple[Op, ...] = (BATCH,), each_s: float | None = None
) -> Case:
    """`each_s`: CPU time of the map for a sample; what is before it costs nothing."""
    skipped = op("Skip", "skip", **({} if count is None else {"count": count}))
    names = [one.name for one in (*before, *after) if one.name != "map"]
    rows = [cost(name, 0.0) for name in names] + [cost("map", 1.0, self_cpu_s_per_sample=each_s)]
    profile = make_profile(ops=tuple(rows)) if each_s is not None else None
    return case_of(NAMES, *before, skipped, *after, measurements=alone(first_batch_s=None), profile=profile)


def caching(*paths: str, layout: str = "3x4x2", **overrides: Any) -> Case:
    """A pipeline with a file cache, of which each worker of a launch named its own path."""
    written = op("Cache", "cache", code='ds = ds.cache("/data/c")', filename=f"/private/1-{paths[0].rsplit('/')[-1]}")
    workers = tuple(make_worker(index=number, writes=(path,)) for number, path in enumerate(paths))
    launch = make_measurement(f"1x{len(paths)}x1", workers=workers)
    return case_of(NAMES, *READ, written, **({"measurements": (launch,), "plan": make_plan(layout)} | overrides))


def without_files(*digests: str | None, **overrides: Any) -> Case:
    """Two workers of a generator were announced; by the digests of the first batches of those that came."""
    workers = tuple(make_worker(index=number, first_batch_digest=digest) for number, digest in enumerate(digests))
    launch = make_measurement(f"1x{max(1, len(digests))}x1", workers=workers, num_workers=2)
    return unsharded(launch, **({"files": None} | overrides))


ROWS: Rows = {
    # Python is as bad as it costs, and where that is not known as often as it is called.
    "python-in-pipeline": [
        (says("info", op="map", lacks=["sample", "one at a time", "%"], evidence={"python_ops": 1}), python()),
        (  # its work was not seen, and how often it is called is a guess
            says("info", op="map", lacks=["sample"], evidence={"calls_per_sample": None}),
            python(None, elements_per_sample=1.0, self_cpu_s_per_sample=None, merged_into="unattributed"),
        ),
        (says("warning", op="map", message="for every sample (50 % of the CPU time)"), python(0.5)),
        # A generator of groups of 500 rows: what it costs is known, and how often it is called.
        (
            says("info", message="once in 500 samples (31 %", evidence={"calls_per_sample": 0.002}),
            python(0.31, elements_per_sample=0.002),
        ),
        ("warning", python(0.9, elements_per_sample=0.002)),
        ("info", python(0.5, stations=busy("storage latency"))),  # what is short is something else
        (
            says("info", message="its calls mostly wait", lacks=["whatever its CPUs", "fewer CPUs"]),
            python(0.9, wait_s_per_sample=1.0, stations=busy("fixed parallelism", op="map")),
        ),
        (says("warning", fix="fewer CPUs"), python(0.5, stations=busy("Python (GIL)"))),
        (
            says(message="1,234", evidence={"ceiling_samples_per_s": 1_234.0}),
            python(stations=busy("Python (GIL)", samples_per_s=1_234.0)),
        ),
        ("", python(0.005)),
        ("", python(elements_per_sample=0.0, self_cpu_s_per_sample=None)),  # before a full cache
        ("info", python(elements_per_sample=0.0, self_cpu_s_per_sample=None, merged_into="unattributed")),  # it was not seen
        (says(message="once in 35 samples"), python(0.5, elements_per_sample=1 / 35)),  # a file of 35 samples may be one call
        ("", case_of(NAMES, calling("DecodeJpeg", "Cast"), BATCH)),
    ],
    # Bytes are counted for a sample and a second, and never made up; 16 bits are asked for where the model works in them.
    "wide-dtypes": [
        (
            says("warning", evidence={"saved_bytes_per_sample": 604, "bytes_per_sample": 808}),
            giving(part("float64", 32, 100, name="image"), LABEL, plan=make_plan()),
        ),
        (says("info", evidence={"saved_bytes_per_sample": 4}), giving(part("float16", 32, 10, 10), LABEL)),
        (says("info", evidence={"saved_bytes_per_sample": 4}), giving(part("float16", 32, 10, 10), part("uint64", 32))),
        ("", giving(part("float16", 32, 224, 224, 3), LABEL)),
        *(
            (
                says("info", evidence={"saved_bytes_per_sample": None}),
                giving(part("int64", 32, None, kind=kind)),
            )
            for kind in ["ragged", "sparse"]
        ),
        *(
            (
                says(
                    "warning",
                    edits=(),
                    after=None,
                    fix=fix,
                    lacks=lacks,
                )
                | says(message="404 B a sample, 204 B after the cast"),
                giving(*SINGLE, half=half),
            )
            for half, fix, lacks in [
                ("float16", ("image to float16", "loss scaling"), ()),
                ("cbfloat16", ("image to float16", "loss scaling"), ()),
                ("bfloat16", "image to bfloat16", ("loss scaling",)),
            ]
        ),
        *(("", giving(part(dtype, 32, 100))) for dtype in ["float16", "bfloat16", "float32", "int32", "uint8", "bool", "string"]),
    ],
    # Images that keep their pixels, and what may be PNG, are right.
    "decode-then-crop": [
        (says("info", op="map"), case_of(NAMES, calling("DecodeJpeg", "CropAndResize"), BATCH)),
        (says("info", op="map"), case_of(NAMES, JPEG, calling("Slice", "RandomUniformInt"), BATCH)),
        ("warning", case_of(NAMES, CROPPED, BATCH, profile=profile_with("map", 0.6))),
        ("info", case_of(NAMES, CROPPED, BATCH, profile=profile_with("map", 0.6), **SLOW_STORAGE)),
        ("info", case_of(NAMES, CROPPED, BATCH, profile=profile_with("map", None))),
        ("info", case_of(NAMES, CROPPED, BATCH, profile=profile_with("map", 0.3))),
        (
            says(op="map"),
            case_of(NAMES, replace(CROPPED, within="interleave"), replace(CROPPED, name="interleave", kind="Interleave"), BATCH),
        ),
        ("", case_of(NAMES, calling("DecodeJpeg", "ResizeBilinear", "StridedSlice"), BATCH)),
        ("", case_of(NAMES, calling("DecodePng", "Slice"), BATCH)),
        ("", case_of(NAMES, calling("DecodeJpeg", "ResizeBilinear"), calling("Slice"), BATCH)),
        ("", case_of(NAMES, calling("DecodeImage", "CropAndResize"), BATCH)),
        ("", case_of(NAMES, calling("Slice"), calling("DecodeJpeg"), BATCH)),
        ("", case_of(NAMES, JPEG, calling("Cast"), calling("Slice"))),
    ],
    # Compression is told where it costs what is short, and for information where that was not measured.
    "compression-tradeoff": [
        (says("warning", evidence={"compression_type": "GZIP"}), stored("GZIP", **CPU_BOUND)),
        ("info", stored("GZIP", JPEG, profile=profile_with("TFRecordDataset", 0.05))),  # packed twice, whatever it costs
        (says("info", evidence={"is_storage_the_bottleneck": True}), stored(**SLOW_STORAGE)),
        ("", stored("GZIP")),  # what unpacking costs was not measured
        ("", stored("GZIP", profile=profile_with("TFRecordDataset", None))),
        (says("info", message="encoded images are compressed once more", lacks=["%"]), stored("GZIP", JPEG)),
        ("info", stored("GZIP", **CPU_BOUND | {"stations": busy("CPU", 0.5)})),
        ("", stored(**CPU_BOUND)),
        ("", stored("", JPEG, **SLOW_STORAGE)),
        ("", stored(stations=busy("storage bandwidth", 0.5))),
        ("", stored("GZIP", profile=profile_with("TFRecordDataset", 0.4), **SLOW_STORAGE)),
        ("", stored("GZIP", stations=busy("CPU"), profile=profile_with("TFRecordDataset", 0.1))),
    ],
    # Files are as bad as reading was measured to be.
    "file-count-extreme": [
        (says("info", fix=f"{-(-50_000 * 20 * KIB // (128 * MIB))} files"), files(50_000, 20 * KIB)),
        ("warning", files(50_000, 20 * KIB, stations=busy("readers"))),
        ("info", files(50_000, 500 * KIB)),
        ("info", files(50_000, 20 * KIB, stations=busy("CPU"))),
        ("info", files(1, 3 * GIB)),
        ("", files(16, 20 * KIB)),  # a small dataset
        ("", files(1, 20 * MIB)),
        ("", files(5_000, 2 * MIB)),
        ("", files(1, 3 * GIB, is_sharded=True, plan=make_plan(input_workers=8))),  # CSI301 tells
        ("", make_case(pipeline=make_graph(files=None))),
    ],
    # A pool is compared with the CPUs of a task and with the calls that the code asks for.
    "starved-threads": [
        (says("warning", edits=(Edit(kind="use-private-threads", op="with_options", value=4),)), threads(1, tasks="2x16x4")),
        (  # the plan has tasks of one CPU because one thread cannot use more: for them the pool is large enough
            says("info", edits=(), message="4 CPUs"),
            threads(1, tasks="2x16x1", measurements=(make_measurement("1x1x1"), make_measurement("1x1x4"))),
        ),
        # Fewer threads than calls: without the pool there would be fewer still.
        *(
            (
                says(severity, fix="to 8", lacks=["leave"], evidence={"parallel_calls": 8})
                | says(edits=(Edit(kind="use-private-threads", op="with_options", value=8),)),
                threads(2, mapped(num_parallel_calls=8), measurements=(), stations=stations),
            )
            for severity, stations in [("info", ()), ("warning", busy("fixed parallelism", op="map")), ("info", busy("CPU"))]
        ),
        ("", threads(0, tasks="2x16x4")),  # TensorFlow chooses
        ("", threads(2, mapped(num_parallel_calls=2), measurements=())),
        ("", case_of(NAMES, BATCH, measurements=(make_measurement("1x1x16"),))),
    ],
    # An array in the graph is as bad as the part of a node that it takes, times the tasks.
    "arrays-in-graph": [
        ("info", holding(40 * MIB)),
        ("warning", holding(40 * MIB, "2x4x1")),
        ("", holding(31 * MIB, "2x16x1")),
        ("", replace(holding(GIB), pipeline=replace(make_graph(), ops=()))),
    ],
    # The files of TensorFlow Datasets are not to be written by hand.
    "fewer-files-than-workers": [
        ("", of_files(make_files(count=8, directory="/data/mnist/3.0.1"))),
        (says("warning", fix="64 files"), of_files(make_files(count=8, directory="/data/v3"))),
        (says("warning", op="with_options"), of_policy(1, limited_by="files", meets_demand=False)),  # of `tf.distribute`
        ("", of_policy(1)),
        ("", replace(of_policy(2, limited_by="files", meets_demand=False), is_sharded=False)),
    ],
    # A cache of each worker's own, or of one worker, is right; memory is shown where there is room.
    "cache-path-shared": [
        ("error", caching("/tmp/c", "/tmp/c")),  # several tasks of a node
        ("error", caching("/data/c", "/data/c", layout="3x1x2")),
        ("", caching("/data/c")),  # no launch of several was measured
        ("", caching("/data/c", "/data/c", plan=make_plan("3x4x2", input_workers=1))),
        ("", caching("/data/c", "/data/c", plan=None)),
        ("", caching("/tmp/c", "/tmp/c", layout="3x1x2")),
    ],
    # Workers that all stream the same are told, with what was tried; no word where shards are right or unknown.
    "no-shard": [
        ("warning", planned(NAMES, shard(4), *READ, BATCH, measurements=(ALONE,))),
        (says("warning", lacks=["input_context"], evidence={"workers_announced": 2}), unsharded(ALONE, several(1024, 1024))),
        (
            says(message="; called with input_context)", fix="in input_context"),
            unsharded(ALONE, several(1024, 1024), input_context="given"),
        ),
        (says(message="left at its default", fix="measure with --input-context"), unsharded(ALONE, input_context="left")),
        (says("error", op="shard"), planned(NAMES, shard(1), *READ, BATCH, measurements=(several(1024, 1024),))),
        ("error", unsharded(several(512, 512), several(1024, 1024), is_sharded=True)),  # Python code that divides once
        ("", unsharded(plan=None)),
        (says("warning", message="began with one batch", fix="its own part"), without_files("a", "a")),
        *(("", without_files(*seen)) for seen in [(), ("a",), ("a", "b"), (None, None), ("a", "a", "b"), ("a", None)]),
        ("", without_files("a", "a", plan=make_plan(input_workers=1))),
        ("", unsharded(several(512, 512), is_sharded=True)),
        ("", unsharded(several(1024), is_sharded=True)),  # alone it may have all
        ("", planned(NAMES, SHARD, READ[-1], measurements=(several(*(64,) * 16),))),  # as many shards as were announced
        ("", planned(NAMES, SHARD, READ[-1], measurements=())),
    ],
    # A shard of a random list of files is told at the list; what is not understood is advice without code.
    "shard-after-unseeded-shuffle": [
        reseeded("files = files.shuffle(64).shard(n, i)", "files = files.shuffle(64, seed=1).shard(n, i)"),
        reseeded("files = names(params)", None),
        ("", shuffled(READ[-1])),
        ("", shuffled(plan=make_plan(input_workers=1))),
        ("", planned(NAMES, op("Shuffle", "shuffle", buffer_size=64), SHARD)),  # seeds that the graph does not tell
    ],
    # A shard after reading is told, where that is the only way for information.
    "late-shard": [
        *(
            (says("warning", op="shard", message="in 16"), planned(NAMES, *ops, plan=plan))
            for plan in (None, make_plan())
            for ops in [
                (*READ, SHARD),
                (*READ, MAP, SHARD, BATCH),
                (*READ, BATCH, SHARD),
                (calling("ReadFile"), SHARD),
            ]
        ),
        (says("info", fix="64 files"), planned(NAMES, *READ, SHARD, files=make_files(count=2))),
        ("info", planned(NAMES, *GENERATOR, SHARD)),
        (says("warning", fix="the 1024 files are the most"), planned(NAMES, *READ, SHARD)),
        ("", planned(NAMES, calling("StringJoin"), SHARD, *READ)),  # of names
        ("", planned(NAMES, *READ, BATCH)),
        ("", planned(NAMES, *READ, SHARD, plan=make_plan(input_workers=1))),
    ],
    # A shard has two files: 8 GiB and the mean of the others, 8 / 15 GiB, over 2 GiB. Skew that averages out is for information.
    "skewed-file-sizes": [
        (says("warning", evidence={"largest_shard_ratio": (8 + 8 / 15) / 2}), of_files(SKEWED, 8)),
        ("info", of_files(AVERAGED, 4)),
        ("warning", of_files(AVERAGED, 4, stations=busy("slowest shard"))),
        ("", make_case()),
        ("", of_files(SKEWED, is_sharded=False)),
        ("", of_files(SKEWED, 1)),
        ("", of_files(None)),
        ("", of_files(make_files(count=3, bytes=0, largest_bytes=0, smallest_bytes=0))),
    ],
    # Every kind of batch is looked at; where no batch is full nothing is dropped.
    "drop-remainder-missing": [
        *(("warning", batched(kind=kind)) for kind in ["Batch", "ParallelBatch", "PaddedBatch", "MapAndBatch"]),
        (
            says("warning", after="ds = ds.batch(32, drop_remainder=True).prefetch(2)"),
            batched(code="ds = ds.batch(32).prefetch(2)"),
        ),
        # Behind an endless repeat all batches are full; a take, or a repeat behind the batch, leaves a last one.
        (says("info", message="all have 32", fix="drops nothing", lacks=["smaller"]), batched(before=(repeat(),))),
        *(
            (says("warning", message="smaller"), batched(before=before))
            for before in [(), (repeat(3),), (repeat(), op("Take", "take", count=100))]
        ),
        (says("warning", message="smaller"), batched(repeat())),
        ("", batched(before=(repeat(),), element_spec=make_graph().element_spec)),
        ("", batched(element_spec=make_graph().element_spec)),  # a map set the shape afterwards
        ("", case_of(NAMES, MAP, element_spec=OPEN)),  # nothing is batched
        ("", batched(BATCH)),
        ("", batched(element_spec=(Component(name="sum", shape=(), dtype="float32"),))),
    ],
    # The batch dimension alone may be open; single samples have none to spare.
    "unknown-shapes": [
        unknown("[32, ?]", (32, None)),
        unknown("rank unknown", None),
        unknown("ragged", (32, None), kind="ragged"),
        unknown("sparse", (32, 100), kind="sparse"),
        ("warning", shaped((None,), ops=(MAP,))),
        (
            says("warning", op="short", fix="drop_remainder"),
            shaped(
                (4, None),
                ops=(
                    MAP,
                    replace(BATCH, name="short", parameters={"batch_size": 20, "drop_remainder": False}),
                    replace(BATCH, name="batch_2"),
                ),
            ),
        ),
        ("", shaped((32, 128), (32,))),
        ("", shaped((None, 128), (None,))),
        ("", shaped((32, None), dtype="string")),
        ("", shaped((), ops=(MAP,))),
        ("", shaped(ops=(MAP,))),
    ],
    # A skip is as bad as it takes long.
    "skip-rereads": [
        ("", skip(3, before=(), after=(*READ, MAP))),
        (says("info", evidence={"seconds": 0.5, "in_every_pass": False}), skip(10_000, each_s=1e-4 / 2)),
        (says("warning", evidence={"seconds": 50.0}), skip(10_000, each_s=5e-3)),
        ("", skip(10_000, each_s=1e-6)),
        (
            says("info", lacks=["about"], evidence={"samples": 40 * 256, "seconds": None, "in_every_pass": True}),
            skip(40, before=(*READ, BATCH), after=(repeat(),)),
        ),
        ("", skip(1)),  # the header of a table
        ("", skip(1, each_s=1e-3)),
        ("", skip(0)),
        ("", skip(None, before=READ, after=(MAP,))),  # a count that only the run knows
        ("", case_of(NAMES, *READ, op("Take", "take", count=5))),
    ],
    # A path of this machine alone is told for several nodes; nodes described from elsewhere may have the data at another place.
    "path-not-shared": [
        ("warning", placed("/dev/shm", None, nodes=4)),
        ("warning", replace(placed("/var/tmp/x", None, nodes=4), storage=None)),
        (says(message="the cluster has 8 nodes"), replace(placed("/dev/shm", None, nodes=4), plan=None)),
        ("", placed("/tmp/data")),
        ("", replace(placed("/tmp/data", nodes=4), pipeline=make_graph(files=None))),
        ("", replace(placed("/data", None, nodes=4), storage=None)),
    ],
}


test_a_rule_is_as_loud_as_the_case_is_bad_and_else_silent = judged(ROWS)


def test_a_serial_map_says_where_more_tasks_of_one_cpu_do_the_same() -> None:
    """The fix is shown all the same: such a plan is the price of the map."""

    def said(plan: str, rate: float) -> Any:
        one = make_measurement("1x1x1", [rate])
        drawing = op("Map", "map", ("RandomUniform", "DecodeJpeg"))
        case = case_of(drawing, plan=make_plan(plan), measurements=(one, make_measurement("1x1x2")))
        (finding,) = serial_map(case)
        return finding

    told = "tasks of one CPU instead"
    assert told in said("1x2x1", 500.0).message
    assert said("1x2x1", 500.0).edits
    assert told not in said("1x2x1", 100.0).message  # that worker mostly waits
    assert told not in said("1x1x2", 500.0).message

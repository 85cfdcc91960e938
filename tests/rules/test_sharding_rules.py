"""Sharding and correctness for many workers: when each rule fires, and when it keeps quiet."""

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

from cs_input_analyzer.records import Case, Component, Op
from cs_input_analyzer.rules.caches import cache_path_shared
from cs_input_analyzer.rules.elements import drop_remainder_missing, unknown_shapes
from cs_input_analyzer.rules.files import path_not_shared, skewed_file_sizes
from cs_input_analyzer.rules.order import skip_rereads
from cs_input_analyzer.rules.shards import fewer_files_than_workers, late_shard, no_shard, shard_after_unseeded_shuffle
from tests.rules.lines import Rule, found, line, only, severities

GIB, MIB = 2**30, 2**20
LIST = 'files = tf.data.Dataset.list_files("/data/*.tfrecord")'


def case_of(*ops: Op, **overrides: Any) -> Case:
    pipeline = {name: overrides.pop(name) for name in ("files", "element_spec", "batch_size") if name in overrides}
    return make_case(pipeline=make_graph(ops=line(*ops), **pipeline), **overrides)


NAMES = make_op("from_tensor_slices", kind="TensorSlice", parameters={})
SHARD = make_op("shard", parameters={"num_shards": 16, "index": 0})
READER = make_op("TFRecordDataset", kind="TFRecord", within="interleave", parameters={"compression_type": ""})
INTERLEAVE = make_op("interleave", function_ops=("TFRecordDataset",))
MAP = make_op("map")
BATCH = make_op("batch")


def shuffle(seed: int, seed2: int, **overrides: Any) -> Op:
    return make_op("shuffle", parameters={"buffer_size": 64, "seed": seed, "seed2": seed2}, **overrides)


def test_too_few_files_come_with_a_count_and_lines_that_write_them() -> None:
    case = make_case(pipeline=make_graph(files=make_files(count=8)), plan=make_plan(input_workers=16))
    finding = only(fewer_files_than_workers, case)
    assert finding.evidence["files_wanted"] == 64
    assert finding.after is not None
    assert "range(64)" in finding.after
    compile(finding.after, "recipe", "exec")


def test_the_recipe_quotes_a_folder_of_any_name() -> None:
    files = make_files(count=1, directory='/data/a "b" {c}')
    finding = only(fewer_files_than_workers, make_case(pipeline=make_graph(files=files)))
    assert finding.after is not None
    compile(finding.after, "recipe", "exec")


def test_no_recipe_for_files_that_are_not_of_records() -> None:
    ops = (NAMES, SHARD, make_op("interleave"), BATCH)
    finding = only(fewer_files_than_workers, case_of(*ops, files=make_files(count=1)))
    assert finding.after is None


@given(files=st.integers(1, 40), workers=st.integers(1, 40))
def test_files_are_too_few_exactly_below_the_workers(files: int, workers: int) -> None:
    case = make_case(pipeline=make_graph(files=make_files(count=files)), plan=make_plan(input_workers=workers))
    findings = found(fewer_files_than_workers, case)
    assert bool(findings) is (files < workers)
    assert all(finding.evidence["files_wanted"] >= workers for finding in findings)


UNSHARDED = (NAMES, READER, INTERLEAVE, BATCH)


def several(counts: tuple[int | None, ...], **overrides: Any) -> Any:
    """A launch of as many workers, each of which saw so many files."""
    workers = tuple(make_worker(index=index, file_count=count) for index, count in enumerate(counts))
    return replace(make_measurement(f"1x{len(counts)}x1"), workers=workers, **overrides)


def test_workers_that_all_stream_the_same_are_told() -> None:
    case = case_of(*UNSHARDED, is_sharded=False, measurements=(make_measurement("1x1x1"), several((1024, 1024))))
    finding = only(no_shard, case)
    assert finding.severity == "warning"
    assert finding.evidence["workers_announced"] == 2


def test_a_pipeline_never_run_with_several_workers_may_shard_after_all() -> None:
    case = case_of(*UNSHARDED, is_sharded=False, measurements=(make_measurement("1x1x1"),))
    assert severities(no_shard, case) == ["info"]


@pytest.mark.parametrize(
    ("use", "message", "fix"),
    [
        ("given", "; called with input_context)", "input_context.num_input_pipelines"),
        ("left", "; its input_context was left at its default, try --input-context)", "measure with --input-context"),
    ],
)
def test_what_was_tried_with_the_input_context_is_told(use: Any, message: str, fix: str) -> None:
    launches = (make_measurement("1x1x1"), several((1024, 1024)))
    case = case_of(*UNSHARDED, is_sharded=False, measurements=launches)
    finding = only(no_shard, replace(case, pipeline=replace(case.pipeline, input_context=use)))
    assert message in finding.message
    assert fix in finding.fix
    assert finding.evidence["input_context"] == use
    plain = only(no_shard, case)
    assert "input_context" not in f"{plain.message} {plain.fix} {plain.evidence}"


def test_a_shard_of_one_among_several_workers_is_an_error() -> None:
    shard = make_op("shard", parameters={"num_shards": 1, "index": 0})
    case = case_of(NAMES, shard, READER, INTERLEAVE, BATCH, measurements=(several((1024, 1024)),))
    finding = only(no_shard, case)
    assert (finding.severity, finding.op) == ("error", "shard")


def test_a_number_of_shards_of_its_own_is_told() -> None:
    shard = make_op("shard", parameters={"num_shards": 4, "index": 0})
    case = case_of(NAMES, shard, READER, INTERLEAVE, BATCH, measurements=(make_measurement("1x1x1"),))
    assert severities(no_shard, case) == ["warning"]


def test_python_code_that_divides_once_and_once_not_is_an_error() -> None:
    launches = (several((512, 512)), several((1024, 1024)))
    assert severities(no_shard, case_of(*UNSHARDED, is_sharded=True, measurements=launches)) == ["error"]


def test_a_shard_of_a_random_list_of_files_is_told_at_the_list() -> None:
    listed = shuffle(0, 0, code=LIST, source="/home/ada/x.py:7")
    finding = only(shard_after_unseeded_shuffle, case_of(NAMES, listed, SHARD, READER, INTERLEAVE))
    assert (finding.severity, finding.source) == ("warning", "/home/ada/x.py:7")
    assert finding.after == 'files = tf.data.Dataset.list_files("/data/*.tfrecord", shuffle=False)'
    assert finding.before == LIST


def test_a_shuffle_of_the_users_own_gets_a_seed() -> None:
    code = "files = files.shuffle(64).shard(n, i)"
    finding = only(shard_after_unseeded_shuffle, case_of(NAMES, shuffle(0, 0, code=code), SHARD))
    assert finding.after == "files = files.shuffle(64, seed=1).shard(n, i)"


def test_what_is_not_understood_is_advice_without_code() -> None:
    finding = only(shard_after_unseeded_shuffle, case_of(NAMES, shuffle(0, 0, code="files = names(params)"), SHARD))
    assert (finding.before, finding.after, finding.edits) == (None, None, ())
    assert finding.fix


@pytest.mark.parametrize(
    "ops",
    [
        (NAMES, READER, INTERLEAVE, SHARD),
        (NAMES, READER, INTERLEAVE, MAP, SHARD, BATCH),
        (NAMES, READER, INTERLEAVE, BATCH, SHARD),
        (NAMES, make_op("map", function_ops=("ReadFile",)), SHARD),
    ],
)
@pytest.mark.parametrize("plan", [None, make_plan()])
def test_a_shard_after_reading_is_told(ops: tuple[Op, ...], plan: Any) -> None:
    finding = only(late_shard, case_of(*ops, plan=plan))
    assert (finding.severity, finding.op) == ("warning", "shard")
    assert "in 16" in finding.message


def test_a_late_shard_is_all_that_can_be_done_with_fewer_files_than_workers() -> None:
    case = case_of(NAMES, READER, INTERLEAVE, SHARD, files=make_files(count=2))
    finding = only(late_shard, case)
    assert finding.severity == "info"
    assert finding.fix is not None
    assert "64 files" in finding.fix


def test_elements_of_python_code_cannot_be_divided_before() -> None:
    generator = make_op("from_generator", kind="Generator", within="flat_map", parameters={})
    case = case_of(NAMES, generator, make_op("flat_map", kind="FlatMap", parameters={}), SHARD)
    assert severities(late_shard, case) == ["info"]


SKEWED = make_files(count=16, bytes=16 * GIB, largest_bytes=8 * GIB, smallest_bytes=GIB // 2)


def test_one_file_of_half_the_data_makes_one_large_shard() -> None:
    finding = only(skewed_file_sizes, make_case(pipeline=make_graph(files=SKEWED), plan=make_plan(input_workers=8)))
    assert finding.severity == "warning"
    # A shard has two files: 8 GiB and the mean of the others, 8 / 15 GiB, over 2 GiB.
    assert finding.evidence["largest_shard_ratio"] == pytest.approx((8 + 8 / 15) / 2)


def test_skew_that_averages_out_is_for_information() -> None:
    files = make_files(count=1024, bytes=1024 * MIB, largest_bytes=3 * MIB, smallest_bytes=MIB // 2)
    case = make_case(pipeline=make_graph(files=files), plan=make_plan(input_workers=4))
    assert severities(skewed_file_sizes, case) == ["info"]
    case = replace(case, stations=(make_station("slowest shard", utilization_ratio=0.95),))
    assert severities(skewed_file_sizes, case) == ["warning"]


OPEN_SPEC = (Component(name="image", shape=(None, 224, 224, 3), dtype="float16"),)


def batch(drop: bool, kind: str = "Batch", code: str | None = None) -> Op:
    return make_op("batch", kind=kind, parameters={"batch_size": 32, "drop_remainder": drop}, code=code)


def test_a_batch_that_may_be_smaller_is_told_with_the_argument_to_add() -> None:
    op = batch(False, code="ds = ds.batch(32).prefetch(2)")
    finding = only(drop_remainder_missing, case_of(NAMES, op, element_spec=OPEN_SPEC))
    assert finding.severity == "warning"
    assert finding.after == "ds = ds.batch(32, drop_remainder=True).prefetch(2)"


def one_pass_of(samples: int, **overrides: Any) -> Case:
    """Measured passes of one batch that may hold 32 samples."""
    worker = make_worker(10.0 * samples, batches_per_s=10.0)
    measurement = make_measurement("1x1x1", workers=(worker,))
    op = batch(False, code="ds = ds.batch(32)")
    case = case_of(NAMES, op, element_spec=OPEN_SPEC, measurements=(measurement,))
    return replace(case, pipeline=replace(case.pipeline, **({"cardinality": 1, "is_infinite": False} | overrides)))


def test_where_no_batch_is_full_nothing_is_dropped() -> None:
    finding = only(drop_remainder_missing, one_pass_of(6))
    assert finding.after is None
    assert "would drop all samples" in (finding.fix or "")


@pytest.mark.parametrize("case", [one_pass_of(32), one_pass_of(6, cardinality=2), one_pass_of(6, cardinality=None)])
def test_where_a_batch_is_full_or_may_be_the_argument_is_added(case: Case) -> None:
    assert only(drop_remainder_missing, case).after == "ds = ds.batch(32, drop_remainder=True)"


def spec(*shapes: tuple[int | None, ...] | None, dtype: str = "int32", kind: str = "tensor") -> tuple[Component, ...]:
    return tuple(Component(name=f"x{number}", shape=shape, dtype=dtype, kind=kind) for number, shape in enumerate(shapes))


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        (spec((32, None)), "[32, ?]"),
        (spec((None, None)), "[?, ?]"),
        (spec(None), "rank unknown"),
        (spec((32, None), kind="ragged"), "ragged"),
        (spec((32, 100), kind="sparse"), "sparse"),
    ],
)
def test_a_shape_that_no_compiler_knows_is_told(parts: tuple[Component, ...], told: str) -> None:
    finding = only(unknown_shapes, case_of(NAMES, MAP, BATCH, element_spec=(*spec((32, 4)), *parts)))
    assert finding.severity == "warning"
    assert told in finding.message
    assert finding.evidence["components"] == 1


def skip(count: int, **overrides: Any) -> Op:
    return make_op("skip", parameters={"count": count}, **overrides)


@pytest.mark.parametrize(("rate", "severity"), [(100.0, "warning"), (1e6, "info")])
def test_a_skip_is_as_bad_as_it_takes_long(rate: float, severity: str) -> None:
    case = case_of(NAMES, READER, INTERLEAVE, MAP, skip(10_000), BATCH, measurements=(make_measurement("1x1x1", [rate]),))
    finding = only(skip_rereads, case)
    assert finding.severity == severity
    assert finding.evidence["seconds"] == pytest.approx(10_000 / rate)
    assert finding.evidence["in_every_pass"] is False


def test_skipped_batches_count_their_samples() -> None:
    case = case_of(NAMES, READER, INTERLEAVE, BATCH, skip(40), make_op("repeat", parameters={}), measurements=())
    finding = only(skip_rereads, case)
    assert finding.evidence["samples"] == 40 * 256
    assert finding.evidence["in_every_pass"] is True
    assert finding.severity == "warning"


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
    op = make_op("cache", parameters={"filename": f"/private/1-{paths[0].rsplit('/')[-1]}" if paths else folder}, code=CACHED)
    workers = tuple(make_worker(index=number, writes=(path,)) for number, path in enumerate(paths))
    launch = replace(make_measurement(f"1x{len(paths) or 1}x1"), workers=workers)
    return case_of(NAMES, READER, INTERLEAVE, op, **({"measurements": (launch,), "plan": make_plan(layout)} | overrides))


CACHED = 'ds = ds.cache("/data/c")'
ROOM = {"profile": make_profile(ops=(make_op_cost("cache", bytes_out_per_sample=10.0),))}


@pytest.mark.parametrize(("profile", "after"), [({}, None), (ROOM, 'ds = ds.cache("")')])
def test_one_path_of_several_workers_is_an_error_and_memory_is_shown_where_there_is_room(profile: Any, after: str | None) -> None:
    finding = only(cache_path_shared, caching("/data/c", "/data/c", **profile))
    assert (finding.severity, finding.op, finding.after) == ("error", "cache", after)
    assert finding.evidence["path"] == "/data/c"


JUDGED = (
    # A cache of each worker's own, or of one worker, is right.
    *(
        (cache_path_shared, case, [])
        for case in [
            caching("/data/c-0", "/data/c-1"),
            caching("/data/c"),  # no launch of several was measured
            caching("/data/c", "/data/c", plan=make_plan("3x4x2", input_workers=1)),
            caching("/data/c", "/data/c", plan=None),
            caching("/tmp/c", "/tmp/c", layout="3x1x2"),
            caching(),  # in memory
            caching(folder="/data/complete"),
        ]
    ),
    (cache_path_shared, caching("/tmp/c", "/tmp/c"), ["error"]),  # several tasks of a node
    (cache_path_shared, caching("/data/c", "/data/c", layout="3x1x2"), ["error"]),
    # No word about shards where they are right or unknown.
    *(
        (no_shard, case, [])
        for case in [
            case_of(*UNSHARDED, is_sharded=False, plan=None),
            case_of(*UNSHARDED, is_sharded=False, plan=make_plan(input_workers=1)),
            case_of(*UNSHARDED, is_sharded=False, files=None),
            case_of(*UNSHARDED, is_sharded=True, measurements=(several((512, 512)),)),
            case_of(*UNSHARDED, is_sharded=True, measurements=(several((1024,)),)),  # alone it may have all
            case_of(*UNSHARDED, is_sharded=True, measurements=(several((None, None)),)),
            case_of(NAMES, SHARD, INTERLEAVE, measurements=(several((64,) * 16),)),  # as many shards as were announced
            case_of(NAMES, SHARD, INTERLEAVE, plan=make_plan(input_workers=16)),  # the user's own number, and the plan's
            case_of(NAMES, SHARD, INTERLEAVE, measurements=()),
        ]
    ),
    # Shards of one order are right.
    *(
        (shard_after_unseeded_shuffle, case, [])
        for case in [
            case_of(NAMES, shuffle(87654321, 3), SHARD, INTERLEAVE),
            case_of(NAMES, shuffle(0, 3), SHARD, INTERLEAVE),
            case_of(NAMES, SHARD, shuffle(0, 0), INTERLEAVE),
            case_of(NAMES, SHARD, INTERLEAVE, shuffle(0, 0), BATCH),
            case_of(NAMES, shuffle(0, 0), INTERLEAVE),
            case_of(NAMES, shuffle(0, 0), SHARD, plan=make_plan(input_workers=1)),
            case_of(NAMES, make_op("shuffle", parameters={"buffer_size": 64}), SHARD),  # seeds that the graph does not tell
        ]
    ),
    # A shard of names is right.
    *(
        (late_shard, case, [])
        for case in [
            case_of(NAMES, SHARD, READER, INTERLEAVE, MAP, BATCH),
            case_of(NAMES, shuffle(1, 1), SHARD, READER, INTERLEAVE),
            case_of(NAMES, make_op("repeat", parameters={"count": -1}), SHARD, READER, INTERLEAVE),
            case_of(NAMES, make_op("map", function_ops=("StringJoin",)), SHARD, READER, INTERLEAVE),  # of names
            case_of(NAMES, READER, INTERLEAVE, BATCH),
            case_of(NAMES, READER, INTERLEAVE, SHARD, plan=make_plan(input_workers=1)),
        ]
    ),
    # Even files and undivided ones are right.
    *(
        (skewed_file_sizes, case, [])
        for case in [
            make_case(),
            make_case(pipeline=make_graph(files=SKEWED), is_sharded=False),
            make_case(pipeline=make_graph(files=SKEWED), plan=make_plan(input_workers=1)),
            make_case(pipeline=make_graph(files=None)),
            make_case(pipeline=make_graph(files=make_files(count=1, bytes=GIB, largest_bytes=GIB, smallest_bytes=GIB))),
            make_case(pipeline=make_graph(files=make_files(count=3, bytes=0, largest_bytes=0, smallest_bytes=0))),
        ]
    ),
    # Every kind of batch is looked at.
    *(
        (drop_remainder_missing, case_of(batch(False, kind), element_spec=OPEN_SPEC), ["warning"])
        for kind in ["Batch", "ParallelBatch", "PaddedBatch", "MapAndBatch"]
    ),
    # Batches of one size are right.
    *(
        (drop_remainder_missing, case, [])
        for case in [
            case_of(NAMES, batch(True), element_spec=OPEN_SPEC),
            case_of(NAMES, batch(False)),  # a map set the shape afterwards
            case_of(NAMES, MAP, element_spec=OPEN_SPEC),  # nothing is batched
            case_of(NAMES, batch(False), make_op("unbatch", kind="Unbatch", parameters={}), element_spec=OPEN_SPEC),
            case_of(NAMES, batch(False), make_op("batch", name="batch_2"), element_spec=OPEN_SPEC),
            case_of(NAMES, batch(False), element_spec=(Component(name="sum", shape=(), dtype="float32"),)),
        ]
    ),
    # Single samples have no batch dimension to spare.
    (unknown_shapes, case_of(NAMES, MAP, element_spec=spec((None,))), ["warning"]),
    # Known shapes are right.
    *(
        (unknown_shapes, case, [])
        for case in [
            case_of(MAP, BATCH, element_spec=spec((32, 128), (32,))),
            case_of(MAP, BATCH, element_spec=spec((None, 128), (None,))),  # the batch dimension alone
            case_of(MAP, BATCH, element_spec=spec((32, None), dtype="string")),
            case_of(MAP, element_spec=spec(())),
            case_of(MAP, element_spec=()),
        ]
    ),
    # A skip that reads nothing is right.
    *(
        (skip_rereads, case_of(*ops), [])
        for ops in [
            (NAMES, skip(3), READER, INTERLEAVE, MAP),  # file names
            (NAMES, READER, INTERLEAVE, MAP, skip(0), BATCH),
            (NAMES, READER, skip(1, within="interleave"), INTERLEAVE, MAP),  # a line of headings
            (NAMES, READER, INTERLEAVE, make_op("skip", parameters={}), MAP),  # a count that only the run knows
            (NAMES, READER, INTERLEAVE, make_op("take", parameters={"count": 5})),
        ]
    ),
    # A path of this machine alone is told for several nodes.
    *(
        (path_not_shared, case, ["warning"])
        for case in [
            placed("/home/ada/data", False),
            placed("/tmp/data", None),
            placed("/dev/shm", None),
            placed("/tmp/data", False, source="slurm, with nodes from flags"),
            replace(placed("/var/tmp/x", None), storage=None),
        ]
    ),
    # Nodes described from elsewhere may have the data at another place.
    *(
        (path_not_shared, placed("/tmp/data", False, source=source), ["info"])
        for source in ["flags", "preset big: its page", "cluster.yaml", "this host, with nodes from flags"]
    ),
    # A path that all nodes see is right.
    *(
        (path_not_shared, case, [])
        for case in [
            placed("/data", True),
            placed("/tmp/data", True),
            placed("/data", None),
            placed("/tmpfiles", None),
            placed("/tmp/data", False, nodes=1),
            replace(placed("/tmp/data", False), pipeline=make_graph(files=None)),
            replace(placed("/data", None), storage=None),
        ]
    ),
)


@pytest.mark.parametrize(("rule", "case", "expected"), JUDGED)
def test_a_rule_is_as_loud_as_the_case_is_bad_and_else_silent(rule: Rule, case: Case, expected: list[str]) -> None:
    assert severities(rule, case) == expected

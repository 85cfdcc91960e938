"""Rules of buffers and caches: when each fires, how loud, what it proposes, and when it keeps quiet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cs_input_analyzer.records import BatchGap, Case, Component, Edit, Measurement, Op
from cs_input_analyzer.rules.caches import cache_after_randomness, cache_misplaced, cache_missing
from cs_input_analyzer.rules.order import prefetch_missing, slow_first_batch
from cs_input_analyzer.rules.shuffles import (
    repeat_before_shuffle,
    shuffle_after_batch,
    shuffle_exceeds_shard,
    shuffle_missing,
    shuffle_of_decoded,
    shuffle_too_small,
)
from tests.builders import GIB, make_cluster, make_measurement, make_plan, make_station, make_steady_state, make_worker
from tests.rules.lines import (
    CAST,
    JPEG,
    RANDOM,
    Rule,
    batch,
    cache,
    case_of,
    cost,
    found,
    mapped,
    measured,
    op,
    options,
    prefetch,
    reading,
    repeat,
    severities,
    shuffle,
    with_files,
)

OFF = options(autotune__enabled=False)
BY_SEED = ("StatelessRandomGetKeyCounter", "StatelessRandomUniformV2")


def only(rule: Rule, *ops: Op) -> list[str]:
    return severities(rule, case_of(*ops))


@pytest.mark.parametrize(
    ("ops", "edits"),
    [
        ((batch(), prefetch(0)), [Edit(kind="set-buffer", op="prefetch")]),
        ((batch(), prefetch(0), repeat()), [Edit(kind="set-buffer", op="prefetch")]),
        ((batch(), OFF), [Edit(kind="insert-prefetch", op="batch")]),
        ((prefetch(9), batch(), OFF), [Edit(kind="insert-prefetch", op="batch")]),
        ((batch(), repeat(), OFF), [Edit(kind="insert-prefetch", op="batch")]),
        ((batch(), options(optimization__inject_prefetch=False)), [Edit(kind="insert-prefetch", op="batch")]),
        ((batch(), mapped(kind="Map"), OFF), [Edit(kind="insert-prefetch", op="map")]),
    ],
)
def test_a_pipeline_without_a_last_prefetch_is_told(ops: tuple[Op, ...], edits: list[Edit]) -> None:
    (finding,) = found(prefetch_missing, case_of(*reading(), *ops))
    assert list(finding.edits) == edits
    assert finding.severity == "info"


def test_a_missing_prefetch_is_a_warning_where_the_last_thread_is_the_bottleneck() -> None:
    case = case_of(*reading(), batch(), OFF)
    for name, expected in (("batch", "warning"), ("interleave", "info")):
        stations = (make_station("serial op", op=name, utilization_ratio=0.95),)
        assert severities(prefetch_missing, replace(case, stations=stations)) == [expected]


PICTURES = (*reading(), mapped(JPEG), shuffle(), repeat(), batch(), prefetch())
TAKE = op("Take", "take", count=100)


def decoding(*ops: Op, share: float = 0.8, bytes_out: float = 1e6, **overrides: object) -> Case:
    """Pictures of 100 kB in 1 GiB of files that become `bytes_out` each; workers read those 100 kB for a sample."""
    worker = make_worker(1000.0, bytes_read_per_sample=100e3)
    case = case_of(*(ops or PICTURES), measurements=(replace(make_measurement("1x1x2"), workers=(worker,)),), **overrides)
    return measured(case, cost("interleave", 0.05), cost("map", share, bytes_out_per_sample=bytes_out))


def test_decoding_the_same_in_every_pass_is_told_with_the_memory_that_a_cache_takes() -> None:
    (finding,) = found(cache_missing, decoding())
    assert finding.severity == "warning"
    assert finding.edits == (Edit(kind="insert-cache", op="map"),)
    assert finding.evidence["cache_bytes_per_node"] == pytest.approx(GIB / 100e3 * 1e6)


@pytest.mark.parametrize(
    ("ops", "place"),
    [
        ((mapped(JPEG), TAKE, shuffle(), repeat(), batch()), "take"),  # before it a cache would never be complete
        ((mapped(JPEG), TAKE, repeat(), batch()), "take"),
        ((mapped(JPEG), op("Skip", "skip", count=100), shuffle(), repeat(), batch()), "skip"),
        ((mapped(JPEG), shuffle(), repeat(), batch(), TAKE), "map"),  # of several passes, the first of which completes it
        ((mapped(JPEG), shuffle(), op("Take", "take", count=-1), repeat(), batch()), "map"),
        ((mapped(JPEG), shuffle(), TAKE, repeat(), batch()), None),
        ((mapped(JPEG), shuffle(), op("TakeWhile", "take_while"), repeat(), batch()), None),
    ],
)
def test_a_cache_is_proposed_where_it_becomes_complete(ops: tuple[Op, ...], place: str | None) -> None:
    case = decoding(*reading(), *ops)
    assert case.profile is not None
    rows = [cost(name, 0.1, bytes_out_per_sample=1e6) for name in ("take", "skip")]
    case = replace(case, profile=replace(case.profile, ops=(*case.profile.ops, *rows)))
    findings = found(cache_missing, case)
    assert [edit for finding in findings for edit in finding.edits] == ([Edit(kind="insert-cache", op=place)] if place else [])
    if place == "take":
        assert findings[0].evidence["cache_bytes_per_node"] == 100e6


def test_a_cache_of_what_is_repeated_inside_an_interleave_is_not_proposed() -> None:
    inner = replace(repeat(), name="inner", within="interleave")
    ops = (*reading()[:3], inner, reading()[3], mapped(JPEG), shuffle(), batch())
    assert found(cache_missing, decoding(*ops)) == []
    assert len(found(cache_missing, decoding(*reading()[:3], replace(inner, parameters={"count": 2}), *ops[4:]))) == 1


def test_the_memory_is_that_of_all_workers_of_a_node() -> None:
    plan, cluster = make_plan("2x8x2", input_workers=16), make_cluster(memory_bytes_per_node=512 * GIB)
    sharded = found(cache_missing, decoding(plan=plan, cluster=cluster))[0].evidence["cache_bytes_per_node"]
    whole = found(cache_missing, decoding(plan=plan, cluster=cluster, is_sharded=False))[0].evidence["cache_bytes_per_node"]
    assert sharded == pytest.approx(GIB * 10 / 2, rel=1e-6)
    assert whole == pytest.approx(GIB * 10 * 8, rel=1e-6)


@pytest.mark.parametrize(
    "case",
    [
        decoding(share=0.1),
        decoding(bytes_out=7e6),
        decoding(cluster=make_cluster(memory_bytes_per_node=8 * GIB)),
        decoding(mode="eval"),
        replace(decoding(), profile=None),
        with_files(decoding(), 1024, 100 * GIB),
        replace(decoding(), pipeline=replace(decoding().pipeline, files=None)),
        decoding(*reading(), mapped((*JPEG, *RANDOM)), shuffle(), repeat(), batch()),
        decoding(*reading(), mapped((*JPEG, *BY_SEED)), shuffle(), repeat(), batch()),
        decoding(*reading(), shuffle(), mapped(JPEG), repeat(), batch()),
        decoding(op("TensorSlice", "names"), repeat(), *reading()[1:], mapped(JPEG), shuffle(), batch()),
        decoding(*reading(), cache(), mapped(JPEG), shuffle(), repeat(), batch()),
        decoding(op("Range", "range"), mapped(JPEG), repeat(), batch()),
    ],
)
def test_a_cache_is_not_asked_for_where_it_would_not_fit_or_not_help(case: Case) -> None:
    assert len(found(cache_missing, decoding())) == 1  # the same pipeline without the difference is told
    assert found(cache_missing, case) == []


def test_reading_alone_is_worth_a_cache_only_where_the_storage_is_the_bottleneck() -> None:
    ops = (*reading(), shuffle(), repeat(), batch(), prefetch())
    worker = make_worker(1000.0, bytes_read_per_sample=100e3)
    case = measured(case_of(*ops, measurements=(replace(make_measurement("1x1x2"), workers=(worker,)),)), cost("interleave", 0.9))
    for kind, expected in (("storage bandwidth", ["warning"]), ("storage latency", ["warning"]), ("readers", []), ("CPU", [])):
        assert severities(cache_missing, replace(case, stations=(make_station(kind, utilization_ratio=0.95),))) == expected


def test_randomness_inside_an_interleave_counts_and_a_shuffle_of_names_does_not() -> None:
    inner = replace(mapped(RANDOM), within="interleave")
    assert only(cache_after_randomness, *reading()[:3], inner, reading()[3], cache(), batch()) == ["warning"]
    assert only(cache_after_randomness, op("TensorSlice", "names"), shuffle(), *reading()[1:], cache(), batch()) == []


def test_frozen_randomness_is_no_matter_in_evaluation_and_never_edited() -> None:
    code = "ds = ds.map(augment).cache()"
    case = case_of(*reading(), mapped(RANDOM, code=code), cache(code=code), batch())
    (finding,) = found(cache_after_randomness, case)
    assert finding.edits == ()
    assert finding.after == "ds = ds.cache().map(augment)"
    assert found(cache_after_randomness, replace(case, mode="eval")) == []


@pytest.mark.parametrize("functions", [RANDOM, BY_SEED])
def test_a_cache_goes_before_what_is_random_only_where_nothing_lies_between(functions: tuple[str, ...]) -> None:
    """`.map(cast).cache()` swapped would still keep what the map before them drew."""
    code = "ds = ds.map(f).cache()"
    (near,) = found(cache_after_randomness, case_of(*reading(), mapped(functions, code=code), cache(code=code), batch()))
    assert near.after == "ds = ds.cache().map(f)"
    first = mapped(functions, code="ds = ds.map(augment)")
    (far,) = found(cache_after_randomness, case_of(*reading(), first, mapped(CAST, code=code), cache(code=code), batch()))
    assert far.after is None


@pytest.mark.parametrize(
    ("ops", "expected", "swapped"),
    [
        ((repeat(), cache()), ["warning"], "cache"),
        ((repeat(), mapped(CAST), cache()), ["warning"], None),
        ((cache(), TAKE, repeat()), ["warning"], "take"),
        ((cache(), mapped(CAST), TAKE, repeat()), ["warning"], None),
        ((cache(), mapped(JPEG), repeat()), ["info"], "map"),
        ((cache(), shuffle(), mapped(JPEG), repeat()), ["info"], None),
        ((cache(), mapped((*JPEG, *RANDOM)), repeat()), ["info"], None),
    ],
)
def test_a_cache_that_is_not_complete_or_too_early_is_told(ops: tuple[Op, ...], expected: list[str], swapped: str | None) -> None:
    findings = found(cache_misplaced, case_of(*reading(), *ops, batch(), prefetch()))
    assert [finding.severity for finding in findings] == expected
    assert [edit.op for finding in findings for edit in finding.edits] == ([swapped] if swapped else [])


def test_a_cache_behind_a_zip_ends_with_the_shorter_input() -> None:
    def case_with(first: Op) -> Case:
        labels = (op("Range", "range"), replace(repeat(), inputs=("range",)))
        zipped = replace(op("Zip", "zip"), inputs=(first.name, "repeat"))
        ops = (first, *labels, zipped, replace(cache(), inputs=("zip",)))
        case = case_of(*reading())
        return replace(case, pipeline=replace(case.pipeline, ops=ops))

    assert found(cache_misplaced, case_with(op("Range", "images"))) == []
    endless = replace(repeat(), name="images")  # with both of them endless, so is the zip
    assert severities(cache_misplaced, case_with(endless)) == ["warning"]


def test_a_cache_too_early_is_judged_by_what_was_measured() -> None:
    ops = (*reading(), cache(), mapped(JPEG), shuffle(), repeat(), batch())
    assert severities(cache_misplaced, decoding(*ops)) == ["warning"]
    assert severities(cache_misplaced, decoding(*ops, share=0.1)) == []
    assert severities(cache_misplaced, decoding(*ops, bytes_out=7e6)) == []


def test_a_dataset_of_file_names_without_end_never_completes_a_cache_of_what_they_hold() -> None:
    names = op("TensorSlice", "names")
    assert only(cache_misplaced, names, repeat(), *reading()[1:], cache(), batch()) == ["warning"]


@pytest.mark.parametrize(
    ("ops", "swaps"),
    [
        ((mapped(JPEG), shuffle(1000)), 1),
        ((mapped(JPEG), mapped(RANDOM), shuffle(1000)), 2),
        ((mapped(CAST), mapped(JPEG), shuffle(1000)), 1),
    ],
)
def test_a_shuffle_of_pictures_is_told_and_moved_before_their_decoding(ops: tuple[Op, ...], swaps: int) -> None:
    (finding,) = found(shuffle_of_decoded, case_of(*reading(), *ops, batch(), prefetch()))
    assert finding.edits == (Edit(kind="swap", op="shuffle"),) * swaps
    assert finding.evidence["bytes_per_element"] == 224 * 224 * 3 * 2 + 4


@pytest.mark.parametrize(
    ("functions", "taken", "given", "memory", "expected"),
    [
        (JPEG, 100e3, 600e3, 128 * GIB, ["info"]),
        (JPEG, 100e3, 600e3, 4 * GIB, ["warning"]),
        (CAST, 100e3, 600e3, 4 * GIB, ["warning"]),
        (CAST, 100e3, 150e3, 4 * GIB, []),
        (JPEG, 100e3, 5e3, 4 * GIB, []),
    ],
)
def test_the_memory_of_a_shuffle_is_measured(
    functions: tuple[str, ...], taken: float, given: float, memory: int, expected: list[str]
) -> None:
    ops = (*reading(), mapped(functions), shuffle(1000), batch(), prefetch())
    case = case_of(*ops, cluster=make_cluster(memory_bytes_per_node=memory))
    row = cost("map", 0.5, bytes_in_per_sample=taken, bytes_out_per_sample=given)
    assert severities(shuffle_of_decoded, measured(case, row)) == expected


def test_a_shuffle_of_elements_of_unknown_size_is_told_without_a_size() -> None:
    case = case_of(*reading(), mapped(JPEG), shuffle(1000), batch(), prefetch())
    spec = (Component(name="image", shape=(256, None, None, 3), dtype="float16"),)
    (finding,) = found(shuffle_of_decoded, replace(case, pipeline=replace(case.pipeline, element_spec=spec)))
    assert finding.evidence["buffer_bytes"] is None
    assert finding.severity == "info"


def of_shards(*ops: Op, gap_s: float | None = None, rate: float = 1000.0, **overrides: object) -> Case:
    """1 GiB of records of 1 KiB."""
    state = make_steady_state(epochs=3, epoch_gap_s=gap_s)
    worker = make_worker(rate, bytes_read_per_sample=1024.0, steady_state=state)
    return case_of(*reading(), *ops, batch(), measurements=(replace(make_measurement("1x1x2"), workers=(worker,)),), **overrides)


@pytest.mark.parametrize(
    ("buffer_size", "workers", "is_sharded", "fires"),
    [
        (2_000_000, 1, True, True),
        (1_000_000, 1, True, False),
        (1_000_000, 2, True, True),
        (1_000_000, 2, False, False),
        (1000, 2, True, False),
        (2561, 2000, True, True),
        (2560, 2000, True, False),  # ten batches
    ],
)
def test_a_buffer_is_compared_with_what_one_worker_has(buffer_size: int, workers: int, is_sharded: bool, fires: bool) -> None:
    plan = make_plan(f"1x{workers}x1", input_workers=workers)
    case = of_shards(shuffle(buffer_size), repeat(), plan=plan, is_sharded=is_sharded)
    assert severities(shuffle_exceeds_shard, case) == (["info"] if fires else [])


def test_a_buffer_that_is_filled_once_of_names_of_batches_or_unmeasured_is_not_told() -> None:
    assert severities(shuffle_exceeds_shard, of_shards(repeat(), shuffle(2_000_000))) == []
    assert severities(shuffle_exceeds_shard, of_shards(batch(), shuffle(2_000_000), repeat())) == []
    assert severities(shuffle_exceeds_shard, replace(of_shards(shuffle(2_000_000), repeat()), measurements=())) == []
    names = (op("TensorSlice", "names"), shuffle(2_000_000), *reading()[1:], batch())
    assert severities(shuffle_exceeds_shard, replace(of_shards(), pipeline=case_of(*names).pipeline)) == []


def test_how_much_a_generator_gives_is_not_told_by_a_file_that_it_reads() -> None:
    generator = (op("Generator", "from_generator", within="flat_map"), op("FlatMap", "flat_map"))
    assert severities(shuffle_exceeds_shard, replace(of_shards(), pipeline=case_of(*generator, shuffle(2_000_000)).pipeline)) == []


def test_files_that_are_read_in_slices_do_not_tell_how_many_samples_there_are() -> None:
    slices = (op("Skip", "skip", within="flat_map"), op("FlatMap", "flat_map"))
    sliced = replace(of_shards(), pipeline=case_of(*reading(), *slices, shuffle(2_000_000), batch()).pipeline)
    assert severities(shuffle_exceeds_shard, sliced) == []
    whole = replace(of_shards(), pipeline=case_of(*reading(), op("Skip", "skip"), shuffle(2_000_000), batch()).pipeline)
    assert severities(shuffle_exceeds_shard, whole) == ["info"]


@pytest.mark.parametrize(
    ("ops", "fires"),
    [
        ((shuffle(16), batch(256)), True),
        ((shuffle(255), batch(256)), True),
        ((shuffle(256), batch(256)), False),
        ((shuffle(16), shuffle(1000), batch(256)), False),
        ((batch(256), shuffle(16)), False),
        ((batch(256),), False),
    ],
)
def test_a_buffer_shorter_than_a_batch_is_told(ops: tuple[Op, ...], fires: bool) -> None:
    case = case_of(*reading(), *ops, prefetch())
    assert severities(shuffle_too_small, case) == (["info"] if fires else [])
    assert severities(shuffle_too_small, replace(case, mode="eval")) == []


def test_a_buffer_under_a_hundredth_of_a_shard_is_told_unless_the_names_are_shuffled() -> None:
    assert severities(shuffle_too_small, of_shards(shuffle(5_000), repeat())) == ["info"]
    assert severities(shuffle_too_small, of_shards(shuffle(20_000), repeat())) == []
    names = (op("TensorSlice", "names"), shuffle(1024), *reading()[1:], shuffle(5_000), repeat(), batch())
    mixed = replace(of_shards(), pipeline=replace(case_of(*names).pipeline, batch_size=256))
    assert severities(shuffle_too_small, mixed) == []


def test_names_that_are_shuffled_and_names_that_are_not_there_need_no_shuffle() -> None:
    mixed = case_of(op("TensorSlice", "names"), shuffle(64), *reading()[1:], shuffle(16), batch(256))
    made = case_of(op("Generator", "from_generator", within="flat_map"), op("FlatMap", "flat_map"), shuffle(16), batch(256))
    for case in (mixed, made):
        (finding,) = found(shuffle_too_small, case)
        assert finding.fix == "give it a buffer of 2,560"


@pytest.mark.parametrize(
    ("ops", "expected"),
    [
        ((batch(), shuffle(20)), ["warning"]),
        ((batch(), mapped(), shuffle(20)), ["warning"]),
        ((shuffle(), batch(), shuffle(20)), []),
        ((shuffle(), batch(), shuffle(100_000)), ["info"]),
        ((shuffle(), batch()), []),
        ((batch(), op("Unbatch", "unbatch"), shuffle(20), batch()), []),
    ],
)
def test_a_shuffle_of_batches_is_told(ops: tuple[Op, ...], expected: list[str]) -> None:
    case = case_of(*reading(), *ops, prefetch())
    assert severities(shuffle_after_batch, case) == expected
    assert severities(shuffle_after_batch, replace(case, mode="eval")) == []


@pytest.mark.parametrize(
    ("ops", "fires"),
    [
        ((*reading(), repeat(), shuffle()), True),
        ((*reading(), repeat(3), mapped(), shuffle()), True),
        ((*reading(), shuffle(), repeat()), False),
        ((*reading(), repeat(1), shuffle()), False),
        ((op("TensorSlice", "names"), repeat(), *reading()[1:], shuffle()), False),
        ((*reading(), shuffle(), repeat(), shuffle()), False),
        ((*reading(), repeat()), False),
    ],
)
def test_repeat_before_shuffle_is_told(ops: tuple[Op, ...], fires: bool) -> None:
    case = case_of(*ops, batch(), prefetch())
    assert severities(repeat_before_shuffle, case) == (["info"] if fires else [])
    assert severities(repeat_before_shuffle, replace(case, mode="eval")) == []


def launch(first_s: float | None, gap_s: float | None = 0.1, rate: float = 1000.0) -> Measurement:
    worker = make_worker(rate, first_batch_s=first_s, batches_per_s=1 / gap_s if gap_s is not None else None)
    return replace(make_measurement("1x1x2"), workers=(worker,))


@pytest.mark.parametrize(
    ("first_s", "gap_s", "expected"),
    [(10.0, 0.1, ["info"]), (100.0, 0.1, ["warning"]), (1.5, 0.01, []), (10.0, 1.0, []), (None, 0.1, []), (10.0, None, [])],
)
def test_a_slow_first_batch_is_told(first_s: float | None, gap_s: float | None, expected: list[str]) -> None:
    case = case_of(*reading(), mapped(JPEG), shuffle(10_000), batch(), measurements=(launch(first_s, gap_s),))
    assert severities(slow_first_batch, case) == expected


def test_a_drained_buffer_does_not_make_a_first_batch_slow() -> None:
    """A source of two seconds a batch: most of what comes then was waiting, and comes at once."""
    drained = launch(4.1, gap_s=1.0)
    worker = replace(drained.workers[0], batch_gap_s=BatchGap(p50=178e-6, p95=2.0, p99=2.0, max=2.0))
    case = case_of(*reading(), shuffle(10_000), batch(), measurements=(replace(drained, workers=(worker,)),))
    assert severities(slow_first_batch, case) == []


def test_one_slow_start_of_many_is_not_told() -> None:
    starts = (launch(10.0), launch(0.5), launch(0.6))
    assert severities(slow_first_batch, case_of(*reading(), shuffle(10_000), batch(), measurements=starts)) == []
    assert severities(slow_first_batch, case_of(*reading(), shuffle(10_000), batch(), measurements=())) == []


@pytest.mark.parametrize(("buffer_size", "op_name"), [(10_000, "shuffle"), (100, None)])
def test_the_shuffle_is_named_where_filling_it_explains_the_wait(buffer_size: int, op_name: str | None) -> None:
    case = case_of(*reading(), shuffle(buffer_size), batch(64), measurements=(launch(10.0),))
    (finding,) = found(slow_first_batch, case)
    assert finding.op == op_name


NAMES = op("TensorSlice", "names")
TEXT = (op("TextLine", "lines"), NAMES)


JUDGED = (
    # Samples that nothing mixes are told, once.
    *(
        (shuffle_missing, replace(case_of(*ops, prefetch()), mode=mode), expected)
        for ops, mode, expected in [
            ((*reading(), batch()), "train", ["info"]),
            ((*reading(), mapped(JPEG), cache(), repeat(), batch()), "train", ["info"]),
            ((NAMES, shuffle(), *reading("FlatMap")[1:], batch()), "train", ["info"]),  # one file after the other
            ((*reading(), batch()), "eval", []),
            ((*reading(), shuffle(), batch()), "train", []),
            ((*reading(), batch(), shuffle()), "train", []),  # CSI209 is about that
            ((NAMES, shuffle(), *reading()[1:], batch()), "train", []),
            ((*reading(), op("Window", "window"), batch()), "train", []),
            ((*reading(), op("GroupByWindow", "group_by_window"), batch()), "train", []),
            ((*reading(),), "train", []),
            ((op("Range", "range"), mapped(CAST), batch()), "train", []),
            ((op("Generator", "from_generator", within="flat_map"), op("FlatMap", "flat_map"), batch()), "train", []),
            ((*TEXT, batch()), "train", []),
        ]
    ),
    # A prefetch that is there or is added by tensorflow is not asked for.
    *(
        (prefetch_missing, case_of(*reading(), *ops), [])
        for ops in [
            (batch(),),  # TensorFlow appends one
            (batch(), prefetch()),
            (batch(), prefetch(), OFF),
            (batch(), prefetch(1), repeat(), op("Take", "take", count=9), OFF),
            (batch(), mapped(), OFF),  # works ahead by itself
            (batch(8, kind="ParallelBatch"), OFF),
            (batch(), options(deterministic=False)),
            (batch(), options(autotune__enabled=False), options(autotune__enabled=True)),
        ]
    ),
    # Randomness before a cache is told.
    *(
        (cache_after_randomness, case_of(*reading(), *ops, batch(), prefetch()), expected)
        for ops, expected in [
            ((mapped((*JPEG, *RANDOM)), cache()), ["warning"]),
            ((mapped(RANDOM), batch(), cache()), ["warning"]),
            ((mapped(JPEG), mapped(RANDOM), mapped(CAST), cache()), ["warning"]),
            ((mapped(BY_SEED), cache()), ["info"]),
            ((mapped(JPEG), cache(), mapped(RANDOM)), []),
            ((mapped(JPEG), cache()), []),
            ((mapped(("StatelessRandomGetKeyCounter",)), cache()), []),
            ((mapped(RANDOM),), []),
            ((shuffle(), cache(), repeat()), ["info"]),
            ((shuffle(), cache(), shuffle(), repeat()), []),
            ((cache(), shuffle(), repeat()), []),
        ]
    ),
    # A cache in its place is not told.
    *(
        (cache_misplaced, case_of(*reading(), *ops, batch(), prefetch()), [])
        for ops in [
            (mapped(JPEG), cache(), mapped(RANDOM), repeat()),
            (mapped(JPEG), cache(), repeat()),
            (TAKE, cache(), repeat()),
            (cache(), repeat(), TAKE),
            (cache(), op("Take", "take", count=-1), repeat()),
            (repeat(3), cache()),
            (repeat(), TAKE, cache()),
            (repeat(), mapped(CAST), TAKE, mapped(CAST), cache()),
            (cache(), mapped(CAST), repeat()),
            (mapped(JPEG), repeat()),
        ]
    ),
    # A shuffle of records of little or of what is in memory anyway is not told.
    *(
        (shuffle_of_decoded, case_of(*reading(), *ops, batch(), prefetch()), [])
        for ops in [
            (shuffle(1000), mapped(JPEG)),
            (mapped(CAST), shuffle(1000)),
            (mapped(JPEG), shuffle(10)),
            (mapped(JPEG), cache(), shuffle(1000)),
            (mapped(JPEG),),
        ]
    ),
    # A buffer beyond the shard is a warning where it delays each pass.
    *(
        (shuffle_exceeds_shard, of_shards(shuffle(2_000_000), repeat(), gap_s=gap_s), [expected])
        for gap_s, expected in [(None, "info"), (0.5, "info"), (2.0, "info"), (500.0, "warning")]
    ),
    # A shuffle of names alone is not judged by the batch.
    (shuffle_too_small, case_of(op("TensorSlice", "names"), shuffle(16), *reading()[1:], batch(256)), []),
)


@pytest.mark.parametrize(("rule", "case", "expected"), JUDGED)
def test_a_rule_is_as_loud_as_the_case_is_bad_and_else_silent(rule: Rule, case: Case, expected: list[str]) -> None:
    assert severities(rule, case) == expected

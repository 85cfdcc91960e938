"""Small pipelines as public code has them, of which rules once said what is not there; read from TensorFlow's own graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cs_input_analyzer.records import Case
from tests.builders import make_measurement, make_plan, make_worker
from tests.rules.lines import Expected, check, cost, found, measured, only, says, unmeasured, with_worker

pytestmark = pytest.mark.tf
tf: Any = pytest.importorskip("tensorflow")
Dataset = tf.data.Dataset
Build = Callable[["Files"], Any]


class Files:
    """Of records, and one picture."""

    def __init__(self, folder: Path) -> None:
        self.records = [str(folder / f"part-{number}.tfrecord") for number in range(4)]
        for path in self.records:
            with tf.io.TFRecordWriter(path) as writer:
                for number in range(20):
                    writer.write(bytes([number]) * 8)
        (folder / "one.jpg").write_bytes(tf.io.encode_jpeg(tf.zeros([64, 64, 3], tf.uint8)).numpy())
        self.pictures = Dataset.from_tensor_slices([str(folder / "one.jpg")] * 8)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("records"))


def case_of(build: Build, files: Files) -> Case:
    from cs_input_analyzer.tfdata.graph import read_graph, recorded_sources

    with recorded_sources() as log:
        dataset = build(files)
    return unmeasured(read_graph(dataset, log, target="input.py:train_input_fn"))


def generated(*_: Any) -> Any:
    """TensorFlow wraps every generator into a flat_map of its own."""
    return Dataset.from_generator(lambda: iter(range(40)), output_signature=tf.TensorSpec([], tf.int32))


GENERATED: list[Build] = [
    lambda files: generated().batch(4).prefetch(2),
    lambda files: Dataset.range(3).flat_map(generated).batch(4),
    lambda files: Dataset.range(3).interleave(generated, cycle_length=2).batch(4),
]


def windows() -> Any:
    return Dataset.range(500).window(60, shift=1, drop_remainder=True).flat_map(lambda one: one.batch(60))


def grouped(reduce: Callable[[Any, Any], Any], **grouping: Any) -> Build:
    return lambda files: Dataset.range(200).group_by_window(key_func=lambda one: one % 2, reduce_func=reduce, **grouping)


def sized(key: Any) -> Any:
    return 4 + 4 * key


def costly(case: Case, *others: str) -> Case:
    """With one map that takes most of the time, and files small enough to keep."""
    rows = (cost(one, 0.9 if one == "map" else 0.01, bytes_out_per_sample=1e3) for one in ("map", *others))
    return measured(with_worker(case, bytes_read_per_sample=22e3), *rows)


def decoded(name: Any) -> Any:
    return tf.io.decode_jpeg(tf.io.read_file(name), channels=3)


def view(image: Any) -> Any:
    return tf.image.random_flip_left_right(tf.image.random_crop(image, [32, 32, 3]))


def jittered(image: Any) -> Any:
    return tf.image.random_hue(tf.image.random_crop(image, [32, 32, 3]), 0.1)


def views(name: Any) -> Any:
    image = decoded(name)
    return view(image), view(image)


def kept(name: Any) -> Any:
    image = decoded(name)
    return view(image), tf.image.resize(image, [32, 32])


def each(case: Case) -> Case:
    return case


def lengths(names: Any, read: Callable[[Any], Any] = tf.data.TFRecordDataset) -> Any:
    """Of the records of these files, in another order in each pass."""
    read_files = names.interleave(read, cycle_length=2, num_parallel_calls=2)
    return read_files.map(lambda one: tf.strings.length(one)).shuffle(9).repeat().batch(4)


def listed(files: Files, **how: Any) -> Any:
    return Dataset.list_files(files.records, **how)


def beside(other: Any) -> Build:
    return lambda files: (
        Dataset.zip((tf.data.TFRecordDataset(files.records), other())).map(with_length).shuffle(9).repeat().batch(4)
    )


def with_length(record: Any, other: Any) -> Any:
    return tf.strings.length(record), other


def padded(*shapes: Any) -> Build:
    return lambda files: Dataset.range(50).map(lambda one: tf.range(one)).padded_batch(4, *shapes, drop_remainder=True)


def then(build: Build, function: Callable[[Any], Any]) -> Build:
    return lambda files: build(files).map(function)


def planned(case: Case) -> Case:
    """For four workers, as many as were measured."""
    launch = make_measurement("1x4x2", workers=tuple(make_worker(index=number, first_batch_digest=None) for number in range(4)))
    return replace(case, measurements=(launch,), plan=make_plan("2x2x2", input_workers=4), is_sharded=False)


def ragged(files: Files) -> Any:
    return Dataset.range(50).map(lambda one: tf.range(one)).ragged_batch(4, drop_remainder=True)


def batched_at_once(files: Files) -> Any:
    records = tf.data.TFRecordDataset(files.records)
    return records.apply(tf.data.experimental.map_and_batch(tf.strings.length, 8, num_parallel_batches=4))


def in_parallel(files: Files) -> Any:
    data = Dataset.range(50)
    data = data.map(abs, num_parallel_calls=2, deterministic=True).map(abs, num_parallel_calls=2, deterministic=True)
    return data.shuffle(9)


def listed_in_order(files: Files) -> Any:
    return Dataset.list_files(files.records, shuffle=False).shuffle(4).shard(4, 0)


def drawn(data: Any) -> Any:
    return data.map(lambda one: tf.random.uniform([]) + tf.cast(one, tf.float32))


PROMISES = "drop_remainder"
IN_FILE = "drops the rest of each file"
ODD: list[tuple[str, Build, Callable[[Case], Case], Expected]] = [
    # No rule about files speaks of a generator.
    *((rule, build, each, "") for rule in ("short-cycle", "flat-map-over-files", "sequential-reads") for build in GENERATED),
    (
        "flat-map-over-files",
        lambda files: Dataset.from_tensor_slices(files.records).flat_map(tf.data.TFRecordDataset).batch(4),
        each,
        says(message="reads 4 files one after the other"),
    ),
    # A batch inside a window makes one sample: shuffled before it, the series would be torn.
    ("shuffle-after-batch", lambda files: windows().shuffle(64).batch(32, drop_remainder=True).prefetch(2), each, ""),
    (
        "shuffle-after-batch",
        lambda files: windows().batch(32, drop_remainder=True).shuffle(64).prefetch(2),
        each,
        says(fix="before batch_2"),
    ),
    # The size of a window is no constant that drop_remainder could promise.
    (
        "drop-remainder-missing",
        grouped(lambda key, window: window.batch(sized(key)), window_size_func=sized),
        each,
        says(after=None, lacks=[PROMISES]),
    ),
    ("drop-remainder-missing", grouped(lambda key, window: window.batch(8), window_size=8), each, says(fix=f"{PROMISES}=True")),
    ("drop-remainder-missing", grouped(lambda key, window: window.batch(8, drop_remainder=True), window_size=8), each, ""),
    # A decode that two views share is not taken away, and cropping is not charged to decoding.
    ("decode-then-crop", lambda files: files.pictures.map(views).batch(4), each, ""),
    ("decode-then-crop", lambda files: files.pictures.map(kept).batch(4), each, ""),
    ("decode-then-crop", lambda files: files.pictures.map(lambda name: view(decoded(name))).batch(4), each, "info"),
    (
        "decode-then-crop",
        lambda files: files.pictures.map(lambda name: jittered(decoded(name))).batch(4),
        lambda case: costly(case),
        says("info", lacks=["CPU time"]),
    ),
    (
        "decode-then-crop",
        lambda files: files.pictures.map(decoded).map(jittered).batch(4),
        lambda case: measured(case, cost("map", 0.2), cost("map_2", 0.7)),
        says("info", evidence={"share_ratio": 0.2}),
    ),
    # A cache would keep the files that a worker got in the first pass, or the numbers that were drawn then.
    ("cache-missing", lambda files: lengths(listed(files).shard(2, 0)), costly, ""),
    ("cache-missing", lambda files: lengths(listed(files, seed=1).take(2)), costly, ""),
    ("cache-missing", lambda files: lengths(listed(files).skip(2)), costly, ""),
    ("cache-missing", lambda files: lengths(listed(files).take(-1)), costly, says("warning", fix="freezes the order")),
    ("cache-missing", lambda files: lengths(listed(files)), costly, says("warning", fix="freezes the order")),
    ("cache-missing", lambda files: lengths(listed(files, shuffle=False).shard(2, 0)), costly, says("warning", lacks=["freezes"])),
    (
        "cache-missing",
        lambda files: lengths(listed(files, shuffle=False).shuffle(4, seed=1, reshuffle_each_iteration=False).shard(2, 0)),
        costly,
        "warning",
    ),
    ("cache-missing", beside(Dataset.random), costly, ""),
    ("cache-missing", beside(lambda: Dataset.range(10**6)), costly, "warning"),
    (
        "cache-missing",
        lambda files: (
            tf.data.TFRecordDataset(files.records).map(lambda one: in_python(tf.cast(tf.strings.length(one), tf.int64))).repeat()
        ),
        costly,
        says("warning", fix="unless the Python code of map draws random numbers"),
    ),
    # What is padded to the longest sample is open by the padding, whatever the map gave.
    ("unknown-shapes", padded(), each, says(op="padded_batch", fix="padded_shapes")),
    ("unknown-shapes", padded([None]), each, says(op="padded_batch", fix="padded_shapes")),
    ("unknown-shapes", padded([60]), each, ""),
    # A map that works number by number has no part in it; one that cuts or adds numbers has.
    ("unknown-shapes", then(padded(), lambda one: tf.cast(one, tf.float32) * 2.0), each, says(op="padded_batch")),
    ("unknown-shapes", then(padded(), lambda one: {"ids": one}), each, says(op="padded_batch")),
    ("unknown-shapes", then(padded(), lambda one: one[:, : one[0, 0]]), each, says(op="map_2", fix="ensure_shape")),
    ("unknown-shapes", then(padded(), lambda one: tf.ensure_shape(one, [4, 60])), each, ""),
    ("unknown-shapes", then(padded([60]), lambda one: tf.cast(one, tf.float32) * 2.0), each, ""),
    ("unknown-shapes", ragged, each, says(op="batch", fix="padded_batch")),
    # A batch inside an interleave ends with each file.
    (
        "drop-remainder-missing",
        lambda files: Dataset.from_tensor_slices(files.records).interleave(lambda name: tf.data.TFRecordDataset(name).batch(4)),
        each,
        says(message="of each file", fix=IN_FILE, after=None),
    ),
    ("drop-remainder-missing", lambda files: tf.data.TFRecordDataset(files.records).batch(4), each, says(lacks=["each file"])),
    # In group_by_window it ends with each window.
    (
        "drop-remainder-missing",
        grouped(lambda key, window: window.batch(8), window_size=8),
        each,
        says(message="of each window", fix="rest of each window", lacks=["pass"]),
    ),
    # One finding for a shard of records by a wrong number.
    (
        "no-shard",
        lambda files: tf.data.TFRecordDataset(files.records).shard(3, 0),
        planned,
        says(message="samples are divided by 3"),
    ),
    ("late-shard", lambda files: tf.data.TFRecordDataset(files.records).shard(3, 0), planned, ""),
    ("late-shard", lambda files: tf.data.TFRecordDataset(files.records).shard(4, 0), planned, "warning"),
    # What batches batches is no place for a shuffle of samples, and neither is a window.
    ("shuffle-missing", lambda files: tf.data.TFRecordDataset(files.records).batch(4).batch(2), each, says(fix="before batch")),
    (
        "shuffle-after-batch",
        lambda files: grouped(lambda key, window: window.batch(8), window_size=8)(files).shuffle(20),
        each,
        says(fix="before group_by_window"),
    ),
    # A second cache keeps nothing more.
    (
        "cache-after-randomness",
        lambda files: drawn(Dataset.range(50)).cache().map(lambda one: one * 2).cache(),
        each,
        says(op="cache"),
    ),
    ("cache-after-randomness", lambda files: drawn(Dataset.range(50).cache()).cache(), each, says(op="cache_2")),
    (
        "parallelism-far-off",
        batched_at_once,
        lambda case: measured(case, cost("map_and_batch", 0.3)),
        says(fix="in place of num_parallel_batches"),
    ),
    # Pictures and their numbers are zipped, and then shuffled.
    (
        "shuffle-of-decoded",
        lambda files: Dataset.zip((files.pictures.map(decoded), Dataset.range(8))).shuffle(2000).batch(4),
        each,
        says(fix="zip and shuffle before map, ", edits=()),
    ),
    (
        "shuffle-of-decoded",
        lambda files: (
            Dataset.zip((files.pictures, Dataset.range(8))).shuffle(2000).map(lambda name, n: (decoded(name), n)).batch(4)
        ),
        each,
        "",
    ),
]


@pytest.mark.parametrize(("rule", "build", "known", "expected"), ODD)
def test_what_is_said_of_an_odd_pipeline(rule: str, build: Build, known: Any, expected: Expected, files: Files) -> None:
    check(rule, known(case_of(build, files)), expected)


def resampled(files: Files) -> Any:
    """One statement with a map and a filter of the user around `rejection_resample`, which calls `map` and `filter` as well."""
    return (
        Dataset.range(400)
        .rejection_resample(lambda n: tf.cast(n % 4, tf.int32), [0.25, 0.25, 0.25, 0.25], seed=1)
        .map(lambda _, n: n + tf.random.uniform([], maxval=9, dtype=tf.int64))
        .filter(lambda n: n % 5 > 1)
        .batch(16)
    )


def test_maps_and_filters_that_a_method_of_tensorflow_calls_are_not_the_users(files: Files) -> None:
    case = case_of(resampled, files)
    called = [op for op in case.pipeline.ops if op.kind in ("Map", "Filter")]
    own = [op for op in called if op.library_source is None]
    assert [op.kind for op in own] == ["Map", "Filter"]
    assert all("dataset_ops.py" in op.library_source and op.code is None for op in called if op not in own)
    kept = {op.name: 0.4 if op in called and op.kind == "Filter" else 1.0 for op in case.pipeline.ops}
    rows = [cost(name, 0.2, elements_per_sample=count) for name, count in kept.items()]
    for rule, ops in (("serial-map", own[:1]), ("map-before-batch", []), ("late-filter", own[1:])):
        findings = found(rule, measured(case, *rows))
        assert [finding.op for finding in findings] == [op.name for op in ops], rule


def test_maps_that_the_user_calls_in_any_way_are_the_users(files: Files) -> None:
    def build(files: Files) -> Any:
        old = tf.compat.v1.data.Dataset.range(9).map(lambda n: n * 2).map_with_legacy_function(lambda n: n * 2)
        applied = old.apply(lambda data: data.map(lambda n: n * 2).filter(lambda n: n > 1))
        return applied.interleave(lambda n: Dataset.range(n).map(lambda n: n * 2), num_parallel_calls=2)

    called = [op for op in case_of(build, files).pipeline.ops if op.kind in ("Map", "ParallelMap", "Filter")]
    assert len(called) == 5
    assert all(op.library_source is None and op.code for op in called)


def test_of_two_readers_each_has_its_own_files(files: Files) -> None:
    def reader(paths: list[str]) -> Any:
        return Dataset.from_tensor_slices(paths).flat_map(tf.data.TFRecordDataset)

    for first, ops in ((1, ("flat_map_3",)), (2, ("flat_map", "flat_map_3"))):
        parts = files.records[:first], files.records[first:]
        finding = only("flat-map-over-files", case_of(lambda files, parts=parts: Dataset.zip(tuple(map(reader, parts))), files))
        assert (finding.evidence["files"], tuple(edit.op for edit in finding.edits)) == (4 - first, ops)


def test_one_call_that_makes_several_readers_is_one_finding_and_two_calls_are_two(files: Files) -> None:
    def looped(files: Files) -> Any:
        return Dataset.zip(tuple(tf.data.TFRecordDataset(files.records) for _ in range(5)))

    def written(files: Files) -> Any:
        return Dataset.zip((tf.data.TFRecordDataset(files.records), tf.data.TFRecordDataset(files.records)))

    finding = only("sequential-reads", case_of(looped, files))
    assert finding.message == "TFRecordDataset reads one file at a time (and 4 more of this call)"
    assert len(finding.edits) == 5
    assert len(found("sequential-reads", case_of(written, files))) == 2


def test_a_cache_is_never_put_on_a_function_that_transforms_datasets(files: Files) -> None:
    def build(files: Files) -> Any:
        records = tf.data.TFRecordDataset(files.records).map(lambda one: tf.strings.length(one))
        grouped = records.apply(
            tf.data.experimental.group_by_window(lambda one: tf.cast(one, tf.int64), lambda key, window: window.batch(4), 4)
        )
        return grouped.repeat()

    finding = only("cache-missing", costly(case_of(build, files), "group_by_window"))
    assert finding.op == "group_by_window"
    assert finding.after.count(".cache()") == 1
    assert finding.after.rstrip().endswith(").cache()")
    assert "window.batch(4), 4)\n        ).cache()" in finding.after


def by_seed(number: Any) -> Any:
    return tf.random.stateless_uniform([64], seed=(1, tf.cast(number, tf.int32)))


def at_random(number: Any) -> Any:
    return tf.random.uniform([64]) + tf.cast(number, tf.float32)


def in_python(number: Any) -> Any:
    return tf.ensure_shape(tf.numpy_function(lambda one: one * 2, [number], tf.int64), [])


CACHED: dict[str, tuple[Build, str | None]] = {
    "map, batch, repeat": (lambda files: Dataset.range(100).map(by_seed).batch(4).repeat(), "batch"),
    "map, repeat, batch": (lambda files: Dataset.range(100).map(by_seed).repeat().batch(4), "map"),
    "map, shuffle, batch, repeat": (lambda files: Dataset.range(100).map(by_seed).shuffle(9).batch(4).repeat(), "map"),
    "arrays": (lambda files: Dataset.from_tensor_slices(list(range(100))).map(by_seed).batch(4).repeat(), "batch"),
    "one pass": (lambda files: Dataset.range(100).map(by_seed).batch(4), None),
    "no end": (lambda files: Dataset.counter().map(by_seed).batch(4), None),
    "more than the memory": (lambda files: Dataset.range(10**12).map(by_seed).batch(4).repeat(), None),
    "new draws in each pass": (lambda files: Dataset.range(100).map(at_random).batch(4).repeat(), None),
    "seeds that are drawn": (lambda files: Dataset.random(seed=1).take(100).map(by_seed).batch(4).repeat(), None),
    "seeds that are mixed": (lambda files: Dataset.range(100).shuffle(9).map(by_seed).batch(4).repeat(), None),
    "Python": (lambda files: Dataset.range(100).map(in_python).batch(4).repeat(), None),
    "a generator": (lambda files: generated().map(lambda one: one * 2).batch(4).repeat(), None),
}


@pytest.mark.parametrize("name", CACHED)
def test_a_cache_is_for_ranges_and_arrays_that_give_the_same_in_each_pass(name: str, files: Files) -> None:
    build, place = CACHED[name]
    # TensorFlow merges a batch into the map before it: then its row has no bytes, and what it sent tells them.
    merged = cost("batch", 0.0, bytes_out_per_sample=None, self_cpu_s_per_sample=None, share_ratio=None, merged_into="map")
    rows = (cost("map", 0.9, bytes_out_per_sample=256.0), merged, cost("range", 0.01), cost("from_tensor_slices", 0.01))
    case = with_worker(measured(case_of(build, files), *rows), bytes_out_per_sample=256.0)
    findings = found("cache-missing", case)
    assert [finding.op for finding in findings] == ([place] if place else [])
    for finding in findings:
        assert finding.severity == "warning"
        assert finding.evidence["cache_bytes_per_node"] == 100 * 256


@pytest.mark.parametrize("is_mixed_after", [False, True])
def test_a_cache_says_which_mixing_it_freezes(files: Files, is_mixed_after: bool) -> None:
    def build(files: Files) -> Any:
        names = Dataset.from_tensor_slices(files.records).shuffle(4)
        records = names.interleave(tf.data.TFRecordDataset, cycle_length=2, num_parallel_calls=2, deterministic=False)
        lengths = records.map(lambda one: tf.strings.length(one))
        return (lengths.shuffle(9) if is_mixed_after else lengths).repeat().batch(4)

    def before_repeat(files: Files) -> Any:
        names = Dataset.from_tensor_slices(files.records).shuffle(4)
        records = names.flat_map(tf.data.TFRecordDataset).repeat().cache()
        return (records.shuffle(9) if is_mixed_after else records).batch(4)

    missing = only("cache-missing", costly(case_of(build, files)))
    assert "freezes the order that shuffle and interleave gave" in (missing.fix or "")
    misplaced = only("cache-misplaced", case_of(before_repeat, files))
    assert "freezes the order that shuffle gave" in (misplaced.fix or "")
    assert (missing.after is not None) == (misplaced.after is not None) == is_mixed_after


def test_a_proposed_change_is_whole_and_differs_from_the_code(files: Files) -> None:
    assert only("order-forced", case_of(in_parallel, files)).after.count("deterministic=False") == 2
    seeded = only("shard-after-unseeded-shuffle", planned(case_of(listed_in_order, files)))
    assert "shuffle=False).shuffle(4, seed=1)" in seeded.after

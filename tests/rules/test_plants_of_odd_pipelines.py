"""Small pipelines as public code has them, of which rules once said what is not there; read from TensorFlow's own graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cs_input_analyzer import rules
from cs_input_analyzer.records import Case, Finding, PipelineGraph
from tests.builders import make_case, make_cluster, make_measurement, make_worker
from tests.rules.lines import cost, measured

pytestmark = pytest.mark.tf
tf: Any = pytest.importorskip("tensorflow")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("records")
    paths = [str(folder / f"part-{number}.tfrecord") for number in range(4)]
    for path in paths:
        with tf.io.TFRecordWriter(path) as writer:
            for number in range(20):
                writer.write(bytes([number]) * 8)
    return paths


def case_of(build: Callable[[], Any]) -> Case:
    from cs_input_analyzer.pipeline.graph import read_graph, recorded_sources

    with recorded_sources() as log:
        dataset = build()
    return unmeasured(read_graph(dataset, log, target="input.py:train_input_fn"))


def unmeasured(pipeline: PipelineGraph) -> Case:
    launch = replace(make_measurement("1x1x2"), workers=(make_worker(bytes_read_per_sample=None, first_batch_s=None),))
    return make_case(pipeline=pipeline, measurements=(launch,), profile=None, plan=None, cluster=make_cluster())


def of(case: Case, *codes: str) -> list[Finding]:
    return [finding for finding in rules.find(case) if finding.code in codes]


def numbers() -> Any:
    yield from range(40)


def test_no_rule_about_files_speaks_of_a_generator() -> None:
    """TensorFlow wraps every generator into a flat_map of its own."""
    signature = tf.TensorSpec([], tf.int32)
    plain = tf.data.Dataset.from_generator(numbers, output_signature=signature).batch(4).prefetch(2)
    codes = ("CSI103", "CSI104", "CSI105", "CSI202", "CSI406")
    assert of(case_of(lambda: plain), *codes) == []

    def several(kind: str, **more: Any) -> Any:
        return getattr(tf.data.Dataset.range(3), kind)(
            lambda _: tf.data.Dataset.from_generator(numbers, output_signature=signature), **more
        ).batch(4)

    assert of(case_of(lambda: several("flat_map")), *codes) == []
    assert of(case_of(lambda: several("interleave", cycle_length=2)), *codes) == []
    assert of(case_of(lambda: several("interleave", cycle_length=1, num_parallel_calls=1)), *codes) == []


def test_of_two_readers_each_has_its_own_files(files: list[str]) -> None:
    def reader(paths: list[str]) -> Any:
        return tf.data.Dataset.from_tensor_slices(paths).flat_map(tf.data.TFRecordDataset)

    two = case_of(lambda: tf.data.Dataset.zip((reader(files[:2]), reader(files[2:]))).batch(4))
    assert [finding.evidence["files"] for finding in of(two, "CSI104")] == [2, len(files) - 2]
    assert not any("4 files" in finding.message for finding in of(two, "CSI104"))
    (alone,) = of(case_of(lambda: reader(files).batch(4)), "CSI104")
    assert "reads 4 files one after the other" in alone.message


def windows(then: Callable[[Any], Any]) -> Callable[[], Any]:
    return lambda: then(tf.data.Dataset.range(500).window(60, shift=1, drop_remainder=True).flat_map(lambda one: one.batch(60)))


def test_a_batch_inside_a_window_makes_one_sample() -> None:
    """What follows the windows shuffles samples, which are whole; shuffled before, the series would be torn."""
    case = case_of(windows(lambda series: series.shuffle(64).batch(32, drop_remainder=True).prefetch(2)))
    assert of(case, "CSI209") == []
    batched = case_of(windows(lambda series: series.batch(32, drop_remainder=True).shuffle(64).prefetch(2)))
    (finding,) = of(batched, "CSI209")
    assert "before batch_2" in (finding.fix or "")


def groups(**batching: Any) -> Callable[[], Any]:
    def reduce(key: Any, window: Any) -> Any:
        return window.batch(batching.get("size", 8), drop_remainder=batching.get("drop", False))

    def build() -> Any:
        grouping = {"window_size": 8} if "size" not in batching else {"window_size_func": lambda key: 4 + 4 * key}
        return tf.data.Dataset.range(200).group_by_window(key_func=lambda one: one % 2, reduce_func=reduce, **grouping)

    return build


def test_the_size_of_a_window_is_no_constant_that_drop_remainder_could_promise() -> None:
    def sized(key: Any, window: Any) -> Any:
        return window.batch(4 + 4 * key)

    case = case_of(
        lambda: tf.data.Dataset.range(200).group_by_window(
            key_func=lambda one: one % 2, reduce_func=sized, window_size_func=lambda key: 4 + 4 * key
        )
    )
    (finding,) = of(case, "CSI307")
    assert finding.after is None
    assert "drop_remainder" not in (finding.fix or "")
    (promised,) = of(case_of(groups()), "CSI307")
    assert "drop_remainder=True" in (promised.fix or "")
    assert of(case_of(groups(drop=True)), "CSI307") == []


def test_what_drop_remainder_drops_is_said() -> None:
    (ends,) = of(case_of(lambda: tf.data.Dataset.range(200).batch(32)), "CSI307")
    assert "up to 31 samples" in (ends.fix or "")
    (endless,) = of(case_of(lambda: tf.data.Dataset.range(200).repeat().batch(32)), "CSI307")
    assert "drops" not in (endless.fix or "")


def costly(case: Case, name: str, *others: str) -> Case:
    """With one map that takes most of the time, and files small enough to keep."""
    launch = case.measurements[0]
    worker = replace(launch.workers[0], bytes_read_per_sample=22e3)
    return measured(
        replace(case, measurements=(replace(launch, workers=(worker,)),)),
        *(cost(one, 0.9 if one == name else 0.01, bytes_out_per_sample=1e3) for one in (name, *others)),
    )


def test_a_cache_is_never_put_on_a_function_that_transforms_datasets(files: list[str]) -> None:
    def build() -> Any:
        records = tf.data.TFRecordDataset(files).map(lambda one: tf.strings.length(one))
        grouped = records.apply(
            tf.data.experimental.group_by_window(lambda one: tf.cast(one, tf.int64), lambda key, window: window.batch(4), 4)
        )
        return grouped.repeat()

    case = case_of(build)
    (finding,) = of(costly(case, "map", "group_by_window"), "CSI202")
    assert finding.op == "group_by_window"
    assert finding.after is not None
    assert finding.after.count(".cache()") == 1
    assert finding.after.rstrip().endswith(").cache()")
    assert "window.batch(4), 4)\n        ).cache()" in finding.after


@pytest.mark.parametrize("is_mixed_after", [False, True])
def test_a_cache_says_which_mixing_it_freezes(files: list[str], is_mixed_after: bool) -> None:
    def build() -> Any:
        names = tf.data.Dataset.from_tensor_slices(files).shuffle(4)
        records = names.interleave(tf.data.TFRecordDataset, cycle_length=2, num_parallel_calls=2, deterministic=False)
        lengths = records.map(lambda one: tf.strings.length(one))
        return (lengths.shuffle(9) if is_mixed_after else lengths).repeat().batch(4)

    (finding,) = of(costly(case_of(build), "map"), "CSI202")
    assert "freezes" in (finding.fix or "")
    assert "shuffle" in (finding.fix or "")
    assert "interleave" in (finding.fix or "")
    assert (finding.after is not None) == is_mixed_after


@pytest.mark.parametrize("is_mixed_after", [False, True])
def test_a_cache_that_is_put_before_a_repeat_says_so_too(files: list[str], is_mixed_after: bool) -> None:
    def build() -> Any:
        names = tf.data.Dataset.from_tensor_slices(files).shuffle(4)
        records = names.flat_map(tf.data.TFRecordDataset).repeat().cache()
        return (records.shuffle(9) if is_mixed_after else records).batch(4)

    (finding,) = of(case_of(build), "CSI205")
    assert "freezes the order that shuffle gave" in (finding.fix or "")
    assert (finding.after is not None) == is_mixed_after


def jpeg_file(folder: Path) -> str:
    path = folder / "one.jpg"
    path.write_bytes(tf.io.encode_jpeg(tf.zeros([64, 64, 3], tf.uint8)).numpy())
    return str(path)


def test_a_decode_that_two_views_share_is_not_taken_away(tmp_path: Path) -> None:
    path = jpeg_file(tmp_path)

    def view(image: Any) -> Any:
        return tf.image.random_flip_left_right(tf.image.random_crop(image, [32, 32, 3]))

    def views(name: Any) -> Any:
        image = tf.io.decode_jpeg(tf.io.read_file(name), channels=3)
        return view(image), view(image)

    def one(name: Any) -> Any:
        return view(tf.io.decode_jpeg(tf.io.read_file(name), channels=3))

    def kept(name: Any) -> Any:
        image = tf.io.decode_jpeg(tf.io.read_file(name), channels=3)
        return view(image), tf.image.resize(image, [32, 32])

    names = tf.data.Dataset.from_tensor_slices([path] * 8)
    assert of(case_of(lambda: names.map(views).batch(4)), "CSI403") == []
    assert of(case_of(lambda: names.map(kept).batch(4)), "CSI403") == []
    assert [finding.severity for finding in of(case_of(lambda: names.map(one).batch(4)), "CSI403")] == ["info"]


def test_cropping_is_not_charged_to_decoding(tmp_path: Path) -> None:
    path = jpeg_file(tmp_path)

    def jittered(name: Any) -> Any:
        image = tf.io.decode_jpeg(tf.io.read_file(name), channels=3)
        return tf.image.random_hue(tf.image.random_crop(image, [32, 32, 3]), 0.1)

    names = tf.data.Dataset.from_tensor_slices([path] * 8)
    (finding,) = of(costly(case_of(lambda: names.map(jittered).batch(4)), "map"), "CSI403")
    assert finding.severity == "info"
    assert "CPU time" not in finding.message or "all that it does" in finding.message
    decoded = names.map(lambda name: tf.io.decode_jpeg(tf.io.read_file(name), channels=3))
    apart = case_of(lambda: decoded.map(lambda image: tf.image.random_hue(tf.image.random_crop(image, [32, 32, 3]), 0.1)).batch(4))
    (finding,) = of(measured(apart, cost("map", 0.2), cost("map_2", 0.7)), "CSI403")
    assert finding.evidence["share_ratio"] == pytest.approx(0.2)
    assert finding.severity == "info"


def test_a_private_pool_is_named_where_its_threads_are_the_parallel_calls() -> None:
    from cs_input_analyzer.records import TunedParameter

    def build() -> Any:
        options = tf.data.Options()
        options.threading.private_threadpool_size = 48
        return tf.data.Dataset.range(99).map(lambda one: one + 1, num_parallel_calls=tf.data.AUTOTUNE).with_options(options)

    case = case_of(build)
    launch = case.measurements[0]
    worker = replace(launch.workers[0], tuned=(TunedParameter(op="map", parameter="parallelism", value=48.0),))
    (finding,) = of(replace(case, measurements=(replace(launch, workers=(worker,)),)), "CSI507")
    assert "private_threadpool_size=48" in finding.message
    assert "private_threadpool_size" in (finding.fix or "")
    assert "srun" not in (finding.fix or "")

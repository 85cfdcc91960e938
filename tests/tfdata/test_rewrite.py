"""Cuts of a pipeline: what comes out after its readers, and that it is the raw records, all of them, each once."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.tf

tf: Any = pytest.importorskip("tensorflow")

from cs_input_analyzer.tfdata.edits import source_only  # noqa: E402
from cs_input_analyzer.tfdata.graph import graph_def_of, ops_of  # noqa: E402

Dataset = tf.data.Dataset
AUTOTUNE = tf.data.AUTOTUNE
STRING = tf.TensorSpec([], tf.string)
FILES, RECORDS = 3, 7


class Data:
    """Three files of seven records, the same ones as records, as lines and as fields of fixed length."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.values = [[f"{file}-{record:03d}".encode() for record in range(RECORDS)] for file in range(FILES)]
        for file, values in enumerate(self.values):
            with tf.io.TFRecordWriter(str(folder / f"{file}.tfrecord")) as writer:
                for value in values:
                    writer.write(value)
            (folder / f"{file}.txt").write_bytes(b"\n".join(values) + b"\n")
            (folder / f"{file}.fixed").write_bytes(b"".join(values))

    def names(self, ending: str) -> list[str]:
        return [str(self.folder / f"{file}.{ending}") for file in range(FILES)]

    @property
    def records(self) -> Counter[bytes]:
        return Counter(value for values in self.values for value in values)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return Data(tmp_path_factory.mktemp("records"))


def elements(dataset: Any) -> Counter[Any]:
    return Counter(dataset.as_numpy_iterator())


def kinds(dataset: Any) -> list[str]:
    return [op.kind for op in ops_of(graph_def_of(dataset))]


def heavy(record: Any) -> Any:
    """What a parse map does, in short: it changes type, shape and number of the components."""
    return {"length": tf.strings.length(record), "bytes": tf.io.decode_raw(record, tf.uint8)}


def downstream(dataset: Any) -> Any:
    """All that a training pipeline does after reading."""
    mapped = dataset.shuffle(100).map(heavy, num_parallel_calls=AUTOTUNE).filter(lambda element: element["length"] > 3)
    return mapped.cache().batch(2, drop_remainder=True).repeat(5).take(3).prefetch(AUTOTUNE)


READERS: dict[str, Callable[[Data], Any]] = {
    "interleave": lambda data: Dataset.list_files(str(data.folder / "*.tfrecord")).interleave(
        tf.data.TFRecordDataset, cycle_length=2, num_parallel_calls=AUTOTUNE, deterministic=False
    ),
    "flat_map": lambda data: Dataset.from_tensor_slices(data.names("tfrecord")).flat_map(tf.data.TFRecordDataset),
    "list": lambda data: tf.data.TFRecordDataset(data.names("tfrecord")),
    "list, read in parallel": lambda data: tf.data.TFRecordDataset(data.names("tfrecord"), num_parallel_reads=4),
    "lines, interleaved": lambda data: Dataset.list_files(data.names("txt")).interleave(tf.data.TextLineDataset),
    "fixed length, in parallel": lambda data: tf.data.FixedLengthRecordDataset(data.names("fixed"), 5, num_parallel_reads=2),
    "concatenated": lambda data: tf.data.TFRecordDataset(data.names("tfrecord")[:1]).concatenate(
        tf.data.TextLineDataset(data.names("txt")[1:])
    ),
    "sampled": lambda data: Dataset.sample_from_datasets(
        [tf.data.TFRecordDataset(name) for name in data.names("tfrecord")], weights=[0.5, 0.3, 0.2], seed=1
    ),
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_what_follows_the_readers_is_gone(reader: Callable[[Data], Any], data: Data) -> None:
    dataset = downstream(reader(data))
    before = kinds(dataset)
    cut = source_only(dataset)
    assert cut.element_spec == STRING
    assert elements(cut) == data.records
    assert kinds(dataset) == before  # the original is left whole
    assert kinds(source_only(reader(data))) == kinds(reader(data))  # what only reads stays as it is
    assert not {"ParallelMap", "Filter", "Cache", "Take", "Prefetch"} & set(kinds(cut))  # a sampled choice has a map of its own


def test_maps_inside_the_interleaved_function_go_too(data: Data) -> None:
    def read(name: Any) -> Any:
        return tf.data.TFRecordDataset(name).map(heavy, num_parallel_calls=2).shuffle(3).batch(2).take(1).prefetch(1)

    cut = source_only(Dataset.from_tensor_slices(data.names("tfrecord")).interleave(read, num_parallel_calls=2).unbatch())
    assert elements(cut) == data.records
    assert not {"Map", "ParallelMap", "Shuffle", "Batch", "Take", "Unbatch"} & set(kinds(cut))


def test_the_file_listing_stays(data: Data) -> None:
    def listed() -> Any:
        return Dataset.list_files(str(data.folder / "*.tfrecord"), shuffle=True, seed=3).shard(2, 1).repeat(2)

    cut = source_only(downstream(listed().interleave(tf.data.TFRecordDataset)))
    assert elements(cut) == elements(listed().interleave(tf.data.TFRecordDataset))
    assert {"Shuffle", "Shard", "Repeat"} <= set(kinds(cut))


def test_zipped_readers_are_both_read(data: Data) -> None:
    pair = Dataset.zip(
        (
            tf.data.TFRecordDataset(data.names("tfrecord")).map(heavy),
            Dataset.range(100),  # reads nothing, and is dropped
            tf.data.TextLineDataset(data.names("txt")).batch(1),
        )
    )
    options = tf.data.Options()
    options.threading.private_threadpool_size = 3
    cut = source_only(pair.shuffle(5).with_options(options))
    assert cut.element_spec == (STRING, STRING)
    assert cut.options().threading.private_threadpool_size == 3
    assert elements(cut) == Counter({(value, value): 1 for value in data.records})
    one = source_only(Dataset.zip((Dataset.range(100), tf.data.TFRecordDataset(data.names("tfrecord")))).batch(4))
    assert one.element_spec == STRING
    assert elements(one) == data.records


def test_csv_keeps_its_columns(tmp_path: Path) -> None:
    rows = [(f"name {row}", row, row / 2) for row in range(9)]
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    dataset = tf.data.experimental.CsvDataset(str(tmp_path / "rows.csv"), [tf.string, tf.int32, tf.float32])
    cut = source_only(dataset.map(lambda name, number, half: number).batch(3))
    assert cut.element_spec == dataset.element_spec
    assert [(name.decode(), int(number), float(half)) for name, number, half in cut.as_numpy_iterator()] == rows


def test_whole_files_read_by_a_map(data: Data) -> None:
    def pair(name: Any) -> Any:
        other = tf.strings.regex_replace(name, "txt$", "fixed")
        return tf.strings.length(tf.io.read_file(name)), tf.io.read_file(other), name

    files = Counter(Path(name).read_bytes() for name in data.names("txt"))
    pairs = Counter((Path(name).read_bytes(), Path(name[:-3] + "fixed").read_bytes()) for name in data.names("txt"))
    names = Dataset.from_tensor_slices(data.names("txt"))
    both = source_only(names.shuffle(3).map(pair, num_parallel_calls=2).map(lambda length, *_: length).batch(2))
    assert both.element_spec == (STRING, STRING)
    assert elements(both) == pairs
    inner = source_only(names.flat_map(lambda name: Dataset.from_tensors(tf.io.read_file(name)).map(tf.strings.length)))
    assert elements(inner) == files


@pytest.mark.parametrize("python", [tf.numpy_function, tf.py_function])
def test_tables_and_python_functions_upstream_still_work(data: Data, python: Callable[..., Any]) -> None:
    keys = tf.constant(["0", "1", "2"])
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, tf.constant(data.names("tfrecord"))), "")
    names = Dataset.from_tensor_slices(keys).map(table.lookup)
    names = names.map(lambda name: tf.ensure_shape(python(lambda value: value, [name], tf.string), []))
    assert elements(source_only(downstream(names.flat_map(tf.data.TFRecordDataset)))) == data.records


@pytest.mark.parametrize(
    "build",
    [
        lambda data: Dataset.range(5).map(lambda x: x + 1).batch(2),
        lambda data: Dataset.from_tensor_slices(data.names("tfrecord")).map(tf.strings.length),
        lambda data: Dataset.from_tensor_slices([b"a", b"b"]).interleave(lambda x: Dataset.from_tensors(x).repeat(2)),
    ],
    ids=["range", "names only", "interleave of memory"],
)
def test_nothing_read_from_files_is_none(build: Callable[[Data], Any], data: Data) -> None:
    assert source_only(build(data)) is None


def test_a_way_of_reading_that_cannot_be_cut_is_none_and_no_error(data: Data) -> None:
    names = Dataset.from_tensor_slices(data.names("txt"))
    assert source_only(names.filter(lambda name: tf.strings.length(tf.io.read_file(name)) > 3)) is None
    assert source_only(names.batch(2).map(lambda pair: tf.map_fn(tf.io.read_file, pair))) is None
    called = tf.function(tf.io.read_file)
    assert source_only(names.map(called)) is None
    assert source_only(names.map(lambda name: (tf.io.read_file(name), called(name)))) is None


def test_a_file_named_by_another_is_read_after_it(data: Data) -> None:
    def both(name: Any) -> Any:
        return tf.strings.length(tf.io.read_file(tf.strings.join([name, tf.strings.substr(tf.io.read_file(name), 0, 0)])))

    cut = source_only(Dataset.from_tensor_slices(data.names("txt")).map(both))
    files = [Path(name).read_bytes() for name in data.names("txt")]
    assert elements(cut) == Counter(zip(files, files, strict=True))

"""Cuts of a pipeline: what comes out after its readers, and that it is the raw records, all of them, each once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.tf

tf: Any = pytest.importorskip("tensorflow")

from cs_input_analyzer.tfdata.edits import source_only  # noqa: E402
from cs_input_analyzer.tfdata.graph import graph_def_of, ops_of  # noqa: E402
from tests.tfdata.written import built  # noqa: E402

Dataset = tf.data.Dataset
STRING = tf.TensorSpec([], tf.string)
VALUES = [[f"{file}-{record:03d}".encode() for record in range(7)] for file in range(3)]
RECORDS = Counter(value for values in VALUES for value in values)


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Names for the code of a pipeline: three files of seven records, as records, lines, fields of fixed length and columns."""
    folder = tmp_path_factory.mktemp("records")
    for file, values in enumerate(VALUES):
        with tf.io.TFRecordWriter(str(folder / f"{file}.tfrecord")) as writer:
            for value in values:
                writer.write(value)
        (folder / f"{file}.txt").write_bytes(b"\n".join(values) + b"\n")
        (folder / f"{file}.fixed").write_bytes(b"".join(values))
    (folder / "0.csv").write_text("".join(f"name {row},{row},{row / 2}\n" for row in range(9)))
    files = {kind: [str(folder / f"{file}.{kind}") for file in range(3)] for kind in ("tfrecord", "txt", "fixed")}
    names = {"names": Dataset.from_tensor_slices(files["tfrecord"]), "texts": Dataset.from_tensor_slices(files["txt"])}
    return {**globals(), **files, **names, "folder": str(folder)}


def heavy(record: Any) -> Any:
    """Change type, shape and number of the components, as a function that parses does."""
    return {"length": tf.strings.length(record), "bytes": tf.io.decode_raw(record, tf.uint8)}


def trained_on(dataset: Any) -> Any:
    """Do all that a training pipeline does after reading."""
    mapped = dataset.shuffle(100).map(heavy, num_parallel_calls=-1).filter(lambda element: element["length"] > 3)
    return mapped.cache().batch(2, drop_remainder=True).repeat(5).take(3).prefetch(-1)


def read_and_parse(name: Any) -> Any:
    return tf.data.TFRecordDataset(name).map(heavy, num_parallel_calls=2).shuffle(3).batch(2).take(1).prefetch(1)


def looked_up(python: Any, files: list[str]) -> Any:
    """Names of files out of a table, through Python."""
    keys = tf.constant(["0", "1", "2"])
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, tf.constant(files)), "")
    names = Dataset.from_tensor_slices(keys).map(table.lookup)
    return names.map(lambda name: tf.ensure_shape(python(lambda value: value, [name], tf.string), []))


def length_of(name: Any) -> Any:
    return tf.strings.length(tf.io.read_file(name))


def both_files(name: Any) -> Any:
    return length_of(name), tf.io.read_file(tf.strings.regex_replace(name, "txt$", "fixed")), name


def named_by_another(name: Any) -> Any:
    return length_of(tf.strings.join([name, tf.strings.substr(tf.io.read_file(name), 0, 0)]))


def elements(dataset: Any) -> Counter[Any]:
    return Counter(dataset.as_numpy_iterator())


def kinds(dataset: Any) -> list[str]:
    return [op.kind for op in ops_of(graph_def_of(dataset))]


READERS = [
    "Dataset.list_files(folder + '/*.tfrecord').interleave(TFRecordDataset, cycle_length=2, num_parallel_calls=-1)",
    "names.flat_map(TFRecordDataset)",
    "TFRecordDataset(tfrecord)",
    "TFRecordDataset(tfrecord, num_parallel_reads=4)",
    "Dataset.list_files(txt).interleave(tf.data.TextLineDataset)",
    "tf.data.FixedLengthRecordDataset(fixed, 5, num_parallel_reads=2)",
    "TFRecordDataset(tfrecord[:1]).concatenate(tf.data.TextLineDataset(txt[1:]))",
    "Dataset.sample_from_datasets([TFRecordDataset(name) for name in tfrecord], weights=[0.5, 0.3, 0.2], seed=1)",
]
INSIDE = [
    "names.interleave(read_and_parse, num_parallel_calls=2).unbatch()",
    "looked_up(tf.numpy_function, tfrecord).flat_map(TFRecordDataset)",
    "looked_up(tf.py_function, tfrecord).flat_map(TFRecordDataset)",
    "Dataset.zip((Dataset.range(100), TFRecordDataset(tfrecord))).batch(4)",  # a range reads nothing, and is dropped
]


@pytest.mark.parametrize("code", [*READERS, *INSIDE])
def test_what_follows_the_readers_is_gone(code: str, words: dict[str, Any]) -> None:
    dataset = built(code if code in INSIDE else f"trained_on({code})", words)
    before = kinds(dataset)
    cut = source_only(dataset)
    assert cut.element_spec == STRING
    assert elements(cut) == RECORDS
    assert kinds(dataset) == before  # the original is left whole
    assert not {"ParallelMap", "Filter", "Cache", "Take", "Prefetch", "Unbatch"} & set(kinds(cut))
    if code in READERS:
        assert kinds(source_only(built(code, words))) == kinds(built(code, words))  # what only reads stays as it is


def test_the_file_listing_stays(words: dict[str, Any]) -> None:
    listed = "Dataset.list_files(folder + '/*.tfrecord', shuffle=True, seed=3).shard(2, 1).repeat(2).interleave(TFRecordDataset)"
    cut = source_only(built(f"trained_on({listed})", words))
    assert elements(cut) == elements(built(listed, words))
    assert {"Shuffle", "Shard", "Repeat"} <= set(kinds(cut))


def test_zipped_readers_are_both_read(words: dict[str, Any]) -> None:
    pair = built("Dataset.zip((TFRecordDataset(tfrecord).map(heavy), tf.data.TextLineDataset(txt).batch(1)))", words)
    options = tf.data.Options()
    options.threading.private_threadpool_size = 3
    cut = source_only(pair.shuffle(5).with_options(options))
    assert cut.element_spec == (STRING, STRING)
    assert cut.options().threading.private_threadpool_size == 3
    assert elements(cut) == Counter({(value, value): 1 for value in RECORDS})


def test_csv_keeps_its_columns(words: dict[str, Any]) -> None:
    dataset = built("tf.data.experimental.CsvDataset(folder + '/0.csv', [tf.string, tf.int32, tf.float32])", words)
    cut = source_only(dataset.map(lambda name, number, half: number).batch(3))
    assert cut.element_spec == dataset.element_spec
    rows = [(name.decode(), int(number), float(half)) for name, number, half in cut.as_numpy_iterator()]
    assert rows == [(f"name {row}", row, row / 2) for row in range(9)]


@pytest.mark.parametrize(
    ("code", "endings"),
    [
        ("texts.shuffle(3).map(both_files, num_parallel_calls=2).map(lambda length, *_: length).batch(2)", ("txt", "fixed")),
        ("texts.flat_map(lambda name: Dataset.from_tensors(tf.io.read_file(name)).map(tf.strings.length))", ("txt",)),
        ("texts.map(named_by_another)", ("txt", "txt")),  # a file that another one names is read after it
    ],
)
def test_whole_files_read_by_a_map(code: str, endings: tuple[str, ...], words: dict[str, Any]) -> None:
    contents = [[Path(name).read_bytes() for name in words[ending]] for ending in endings]
    assert elements(source_only(built(code, words))) == Counter(contents[0] if len(endings) == 1 else zip(*contents, strict=True))


@pytest.mark.parametrize(
    "code",
    [
        # Nothing is read from files.
        "Dataset.range(5).map(lambda x: x + 1).batch(2)",
        "names.map(tf.strings.length)",
        "Dataset.from_tensor_slices([b'a', b'b']).interleave(lambda x: Dataset.from_tensors(x).repeat(2))",
        # Nothing is read in a way that can be cut.
        "texts.filter(lambda name: length_of(name) > 3)",
        "texts.batch(2).map(lambda pair: tf.map_fn(tf.io.read_file, pair))",
        "texts.map(tf.function(tf.io.read_file))",
        "texts.map(lambda name: (tf.io.read_file(name), tf.function(tf.io.read_file)(name)))",
    ],
)
def test_where_no_reader_can_be_cut_out_there_is_none_and_no_error(code: str, words: dict[str, Any]) -> None:
    assert source_only(built(code, words)) is None

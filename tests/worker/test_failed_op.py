"""An error of an op, or of its function, names the op and the line; where several may have raised it, none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cs_input_analyzer.tfdata.graph import read_graph, recorded_sources
from cs_input_analyzer.worker import failures
from cs_input_analyzer.worker.failures import element_error, place_of, user_traceback
from cs_input_analyzer.worker.sampling import SamplingLoop
from tests.tf_versions import needs_named_iterators

pytestmark = pytest.mark.tf

tf: Any = pytest.importorskip("tensorflow")

_CODE = """
import tensorflow as tf
D, AUTOTUNE = tf.data.Dataset, tf.data.AUTOTUNE
def bad(n):
    return tf.debugging.check_numerics(tf.math.log(tf.cast(n, tf.float32) - 3.0), "a bad number")
def fine(n):
    return tf.debugging.check_numerics(tf.cast(n, tf.float32), "never")
def plus(n):
    return n + 1
def raising(n):
    raise ValueError("no such thing")
def python(n):
    return tf.py_function(raising, [n], tf.int64)
def fused(dataset, **settings):
    options = tf.data.Options()
    for name, value in settings.items():
        setattr(options.experimental_optimization, name, value)
    return dataset.with_options(options)
def dataset():
    numbers = D.range(9)
"""

# The lines behind these -> the op and the text of its call.
_NAMED = {
    "map": ("numbers = numbers.map(bad)", "map", "map(bad)"),
    "parallel map": ("numbers = numbers.map(bad, AUTOTUNE).prefetch(2)", "map", "map(bad"),
    "behind a batch": ("numbers = numbers.batch(2).map(plus)\nnumbers = numbers.map(bad)", "map_2", "map(bad)"),
    "first of two": ("numbers = numbers.map(bad)\nnumbers = numbers.map(fine)", "map", "map(bad)"),
    "second of two": ("numbers = numbers.map(fine)\nnumbers = numbers.map(bad)", "map_2", "map(bad)"),
    "around a shuffle": (
        "numbers = numbers.map(bad)\nnumbers = numbers.shuffle(3).repeat()\nnumbers = numbers.map(fine)",
        "map",
        "map(bad)",
    ),
    "nothing done behind": ("numbers = numbers.map(bad)\nnumbers = numbers.map(lambda n: n)", "map", "map(bad)"),
    "inner map": (
        "inner = lambda n: D.from_tensors(n).map(bad)\nnumbers = numbers.map(plus).interleave(inner, num_parallel_calls=2)",
        "map_2",
        "map(bad)",
    ),
    "before an interleave": (
        "numbers = numbers.map(bad)\nnumbers = numbers.interleave(lambda n: D.from_tensors(n).map(fine))",
        "map",
        "map(bad)",
    ),
    "interleave's own": ("numbers = numbers.interleave(lambda n: D.from_tensors(bad(n)))", "interleave", "interleave("),
    "zipped": ("one = numbers.map(fine)\nnumbers = D.zip((one, numbers.map(bad)))", "map_2", "map(bad)"),
    "mixed": (
        "one = numbers.map(fine)\nnumbers = D.choose_from_datasets([one, numbers.map(bad)], D.range(2).repeat())",
        "map_2",
        "map(bad)",
    ),
    "cached": ("numbers = numbers.map(bad)\nnumbers = numbers.cache().map(fine)", "map", "map(bad)"),
    "fused with a batch": (
        "numbers = numbers.map(plus)\nnumbers = fused(numbers.map(bad).batch(2), map_and_batch_fusion=True)",
        "map_2",
        "map(bad)",
    ),
    "filter": ("numbers = numbers.map(plus)\nnumbers = numbers.filter(lambda n: bad(n) > 0)", "filter", "filter("),
    "python": ("numbers = numbers.map(plus).map(python)", "map_2", "map(python)"),
    "merged maps": ("numbers = numbers.map(bad)\nnumbers = fused(numbers.map(plus), map_fusion=True)", "map", "map(bad)"),
}
# Several ops have a node of the name that older versions give alone.
_NAMED_BY_ITERATORS = ("first of two", "second of two", "around a shuffle", "before an interleave", "zipped", "mixed", "cached")
# Which of two functions with such a node failed cannot be told.
_UNNAMED = {
    "fused with a batch": "numbers = numbers.map(fine)\nnumbers = fused(numbers.map(bad).batch(2), map_and_batch_fusion=True)",
    "merged maps": "numbers = numbers.map(bad)\nnumbers = fused(numbers.map(fine), map_fusion=True)",
    "merged filters": (
        "numbers = numbers.filter(lambda n: bad(n) > 0)\nnumbers = fused(numbers.filter(lambda n: fine(n) > 0), filter_fusion=True)"
    ),
    "two batches of any rank": "numbers = numbers.map(lambda n: tf.ensure_shape(tf.py_function(tf.range, [n], tf.int64), None))\n"
    "numbers = numbers.batch(1).batch(2)",
    "two readers": "file = D.from_tensors('/nowhere/at/all')\n"
    "numbers = D.zip((file.flat_map(tf.data.TextLineDataset), file.flat_map(tf.data.TextLineDataset)))",
}
# What an op says of its own, without a function.
_OWN = {
    "batch": ("numbers = numbers.map(lambda n: tf.range(n))\nnumbers = numbers.shuffle(1).batch(2)", "batch", ".batch(2)"),
    "fused with a map": ("numbers = numbers.map(lambda n: tf.range(n))\nnumbers = numbers.batch(2)", "batch", ".batch(2)"),
    "second batch": (
        "numbers = numbers.map(lambda n: tf.range(n)).batch(1)\nnumbers = numbers.batch(2).prefetch(1)",
        "batch_2",
        ".batch(2)",
    ),
    "padded batch": (
        "numbers = numbers.map(lambda n: tf.range(n))\nnumbers = numbers.padded_batch(2, [1])",
        "padded_batch",
        "padded",
    ),
    "unbatch": (
        "numbers = numbers.batch(3).map(lambda n: (n, tf.ensure_shape(n[1:], [None])))\nnumbers = numbers.unbatch()",
        "unbatch",
        "unbatch()",
    ),
    "no records": ("numbers = tf.data.TFRecordDataset(__file__)", "TFRecordDataset", "TFRecordDataset("),
    "no gzip": ("numbers = tf.data.TextLineDataset(__file__, 'GZIP')", "TextLineDataset", "TextLineDataset("),
    "lost file": (
        "numbers = D.from_tensors('/nowhere/at/all').repeat(2)\nnumbers = numbers.interleave(tf.data.TFRecordDataset)",
        "TFRecordDataset",
        "TFRecordDataset",
    ),
    "parsed batch": (
        "numbers = D.from_tensors([tf.train.Example().SerializeToString()])\n"
        "parse = tf.data.experimental.parse_example_dataset\n"
        "numbers = numbers.apply(parse({'label': tf.io.FixedLenFeature([], tf.int64)}))",
        "parse_example",
        "apply(",
    ),
}


def _built(folder: Path, lines: str) -> tuple[Any, Any, Path]:
    file = folder / "data.py"
    file.write_text(_CODE + "".join(f"    {line}\n" for line in [*lines.splitlines(), "return numbers"]))
    scope: dict[str, Any] = {"__file__": str(file)}
    with recorded_sources() as log:
        exec(compile(file.read_text(), str(file), "exec"), scope)
        dataset = scope["dataset"]()
    return dataset, read_graph(dataset, log, target="data.py:dataset").ops, file


def _errors(dataset: Any) -> list[Any]:
    """The error as the first batch and as the sampling loop meet it."""
    with pytest.raises(tf.errors.OpError) as raised:
        list(dataset)
    return [raised.value, SamplingLoop()(iter(dataset), 20).error]


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=needs_named_iterators if case in _NAMED_BY_ITERATORS else ()) for case in _NAMED]
)
def test_the_op_that_failed_is_named_with_its_line(case: str, tmp_path: Path) -> None:
    lines, name, call = _NAMED[case]
    dataset, ops, file = _built(tmp_path, lines)
    number = next(at for at, line in enumerate(file.read_text().splitlines(), 1) if call in line)
    for error in _errors(dataset):
        where = place_of(error, dataset, ops)
        if case == "python":  # also the line of the user's function
            assert where == f"{name} in data.py:{number}, raising in data.py:11: "
            assert element_error(error, ()).startswith("ValueError: no such")
        else:
            assert where == f"{name} in data.py:{number}: "
            assert element_error(error, ()).startswith("a bad number")


@pytest.mark.parametrize("case", _OWN)
def test_an_op_that_failed_by_itself_is_named_with_its_line(case: str, tmp_path: Path) -> None:
    lines, name, call = _OWN[case]
    dataset, ops, file = _built(tmp_path, lines)
    number = next(at for at, line in enumerate(file.read_text().splitlines(), 1) if call in line and "def " not in line)
    for error in _errors(dataset):
        assert place_of(error, dataset, ops) == f"{name} in data.py:{number}: "


def test_of_two_generators_the_line_that_raised_is_named(tmp_path: Path) -> None:
    made = "D.from_generator(lambda: {}, output_signature=tf.TensorSpec([], tf.int64))"
    lines = f"one = {made.format('range(9)')}\nnumbers = D.zip((one, {made.format('iter([raising(1)])')}))"
    dataset, ops, _ = _built(tmp_path, lines)
    for error in _errors(dataset):
        assert place_of(error, dataset, ops) == "raising in data.py:11: "


@pytest.mark.parametrize("case", _UNNAMED)
def test_no_op_is_named_where_several_fit(case: str, tmp_path: Path) -> None:
    dataset, ops, _ = _built(tmp_path, _UNNAMED[case])
    for error in _errors(dataset):
        assert place_of(error, dataset, ops) == ""


def test_the_traceback_of_a_python_function_stays(tmp_path: Path) -> None:
    dataset, _, _ = _built(tmp_path, "numbers = D.from_generator(lambda: iter([raising(1)]), tf.int32)")
    error = _errors(dataset)[0]
    assert "in raising" in user_traceback(error)
    assert user_traceback(error).endswith("\nValueError: no such thing\n")


@pytest.mark.parametrize("how", ["TFRecordDataset(names)", "Dataset.from_tensor_slices(names).interleave(tf.data.TFRecordDataset)"])
def test_the_damaged_file_of_several_is_named(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "DAMAGED_FILE_S", 60.0)
    names = [str(tmp_path / f"{number}.tfrecord") for number in range(3)]
    for name in names:
        with tf.io.TFRecordWriter(name) as writer:
            writer.write(b"whole")
            writer.write(b"damaged" if name == names[1] else b"another")
    data = Path(names[1]).read_bytes()
    Path(names[1]).write_bytes(data.replace(b"damaged", b"changed"))
    dataset, ops, _ = _built(tmp_path, f"names = {names}\nnumbers = tf.data.{how}")
    files = [(name, len(data)) for name in names]
    for error in _errors(dataset):
        assert place_of(error, dataset, ops, files) == f"TFRecordDataset in data.py:22, {names[1]}: "
    Path(names[0]).write_bytes(Path(names[1]).read_bytes())
    assert place_of(error, dataset, ops, files) == "TFRecordDataset in data.py:22: "  # which of the two failed is not known

"""What is read out of a pipeline's graph: every op with its user's line, the batch size, the files. In-process TensorFlow."""

from __future__ import annotations

import inspect
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cs_input_analyzer.records import Op, PipelineGraph
from cs_input_analyzer.tfdata import graph
from cs_input_analyzer.tfdata.source import statements
from tests.tfdata.written import built

pytestmark = pytest.mark.tf

tf: Any = pytest.importorskip("tensorflow")
Dataset = tf.data.Dataset
AUTOTUNE = tf.data.AUTOTUNE


def graph_of(build: Callable[[], Any]) -> PipelineGraph:
    with graph.recorded_sources() as log:
        dataset = build()
    return graph.read_graph(dataset, log, target="here:build")


def ops_by_name(build: Callable[[], Any]) -> dict[str, Op]:
    return {op.name: op for op in graph_of(build).ops}


def line_of(function: Callable[..., Any], text: str) -> str:
    """`path:line` of the only line of `function` that holds `text`."""
    lines, first = inspect.getsourcelines(function)
    (found,) = [first + offset for offset, line in enumerate(lines) if text in line]
    return f"{__file__}:{found}"


def with_lines(build: Callable[[], Any], **texts: str) -> dict[str, Op]:
    """The ops, of which each of these was made by the line of `build` that holds the text."""
    ops = ops_by_name(build)
    assert {name: ops[name].source for name in texts} == {name: line_of(build, text) for name, text in texts.items()}
    return ops


# --- source lines ------------------------------------------------------------------------------------------------------------


def test_each_link_of_a_chain_has_its_own_line_and_the_whole_statement_with_its_comments() -> None:
    def build() -> Any:
        files = tf.data.Dataset.range(10)
        return (
            files.map(lambda x: x + 1)  # csi: ignore=CSI101
            # four at a time
            .batch(4)
        )

    ops = with_lines(build, range="range(10)", map=".map(", batch=".batch(")
    assert list(ops) == ["range", "map", "batch"]
    assert ops["range"].code == "        files = tf.data.Dataset.range(10)"
    assert ops["range"].ignored == ()
    written = ["return (", "files.map(lambda x: x + 1)  # csi: ignore=CSI101", "# four at a time", ".batch(4)", ")"]
    for name in ("map", "batch"):
        assert [line.strip() for line in (ops[name].code or "").split("\n")] == written
        assert ops[name].ignored == ("CSI101",)


def test_nested_functions_keep_their_lines_and_know_where_they_are() -> None:
    def build() -> Any:
        inner = lambda j: Dataset.from_tensors(j).repeat(2)  # noqa: E731
        middle = lambda i: Dataset.range(i).flat_map(inner).shuffle(3)  # noqa: E731
        return Dataset.range(4).interleave(middle, cycle_length=2)

    nested = dict.fromkeys(("from_tensors", "repeat"), "inner = ") | dict.fromkeys(("range_2", "flat_map", "shuffle"), "middle = ")
    ops = with_lines(build, interleave=".interleave(", **nested)
    within = {name: op.within for name, op in ops.items() if op.within}
    assert within == {name: "flat_map" if text == "inner = " else "interleave" for name, text in nested.items()}
    assert list(ops) == ["range", "range_2", "from_tensors", "repeat", "flat_map", "shuffle", "interleave"]
    assert ops["shuffle"].inputs == ("flat_map",)  # a control edge to `range_2` is no input


def test_autograph_lines_are_the_users() -> None:
    def pick(x: Any) -> Any:
        if x > 2:  # noqa: SIM108 - for AutoGraph
            count = x + 1
        else:
            count = x
        dataset = Dataset.range(count)
        for _ in range(2):
            dataset = dataset.map(lambda y: y * 2)
        return dataset

    ops = ops_by_name(lambda: Dataset.range(5).flat_map(pick))
    assert ops["range_2"].source == line_of(pick, "Dataset.range(count)")
    assert ops["map"].source == ops["map_2"].source == line_of(pick, "dataset.map(")
    assert ops["map_2"].inputs == ("map",)


def test_datasets_inside_a_tf_function_and_a_condition_are_seen() -> None:
    @tf.function
    def called(x: Any) -> Any:
        return Dataset.range(x).map(lambda y: y + 1)

    def either(x: Any) -> Any:
        branches = [lambda: Dataset.range(3)._variant_tensor, lambda: Dataset.range(4).take(2)._variant_tensor]
        return tf.cond(x > 1, lambda: tf.switch_case(tf.cast(x, tf.int32), branches), branches[1])

    def chosen(x: Any) -> Any:
        return tf.data.experimental.from_variant(either(x), tf.TensorSpec([], tf.int64)).shuffle(2)

    ops = ops_by_name(lambda: Dataset.range(5).flat_map(lambda x: called(x).skip(1)))
    assert ops["map"].source == line_of(called, ".map(")
    assert (ops["map"].within, ops["skip"].within, ops["skip"].inputs) == ("flat_map", "flat_map", ("map",))

    ops = ops_by_name(lambda: Dataset.range(5).flat_map(chosen))
    inside = Counter(op.kind for op in ops.values() if op.within == "flat_map")
    assert inside == {"Range": 3, "Take": 2, "Shuffle": 1}


def test_ops_without_metadata_have_their_lines_at_the_top_and_inside_of_functions(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("1\n2\n")

    def build() -> Any:
        files = Dataset.list_files(str(file))  # sorted or not
        read = files.apply(
            tf.data.experimental.parallel_interleave(
                lambda path: tf.data.experimental.CsvDataset(path, [tf.int32]),  # one column
                cycle_length=1,
            )
        )
        both = Dataset.zip((read, Dataset.range(2).apply(tf.data.experimental.shuffle_and_repeat(4))))  # legacy
        batches = both.apply(tf.data.experimental.map_and_batch(lambda x, y: y, 2))  # in one
        return batches.rebatch(4).apply(tf.data.experimental.assert_cardinality(1)).ignore_errors()  # settings

    ops = with_lines(
        build,
        from_tensor_slices="list_files",
        CsvDataset="one column",
        interleave="files.apply(",
        **dict.fromkeys(("shuffle_and_repeat", "zip"), "# legacy"),
        map_and_batch="# in one",
        **dict.fromkeys(("rebatch", "assert_cardinality", "ignore_errors"), "# settings"),
    )
    assert all(op.source is not None for op in ops.values())


PACKAGE = """
import tensorflow as tf

def pairs(count):
    return tf.data.Dataset.range(count).map(lambda x: x + 1)  # in the package
"""


def test_of_an_op_that_a_package_built_the_users_line_stands_first(tmp_path: Path) -> None:
    file, scope = tmp_path / "lib" / "dist-packages" / "pairs" / "__init__.py", dict[str, Any]()
    exec(compile(PACKAGE, str(file), "exec"), scope)

    def build() -> Any:
        pairs = scope["pairs"](5)  # the package builds
        return pairs.map(lambda x: x * 2)  # and so does the user

    ops = with_lines(build, map="the package builds", range="the package builds", map_2="and so does the user")
    assert [ops[name].library_source for name in ("map", "range", "map_2")] == [f"{file}:5", f"{file}:5", None]
    assert ops["map"].code is None, "an edit of the user's line cannot change what a package does"
    assert ops["map_2"].code is not None


def test_where_nothing_is_the_users_own_the_packages_line_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, scope = tmp_path / "site-packages" / "pairs.py", dict[str, Any]()
    exec(compile(PACKAGE, str(file), "exec"), scope)
    monkeypatch.setattr(statements, "_INSTALLED", re.compile("site-packages|/tests/|/bin/"))
    (op, _) = graph_of(lambda: scope["pairs"](5)).ops
    assert (op.source, op.library_source, op.code) == (f"{file}:5", None, None)


def test_the_patch_is_gone_afterwards_even_after_an_error() -> None:
    from tensorflow.python.data.ops import dataset_ops

    original, initialize = dataset_ops.DatasetV2._metadata, dataset_ops.DatasetV2.__init__
    with pytest.raises(ZeroDivisionError), graph.recorded_sources():
        raise ZeroDivisionError
    assert dataset_ops.DatasetV2._metadata is original
    assert dataset_ops.DatasetV2.__init__ is initialize
    with graph.recorded_sources() as log:
        assert dataset_ops.DatasetV2._metadata is not original
    plain = Dataset.range(3)
    assert log.lines == {}
    assert graph.read_graph(plain, log, target="t").ops[0].source is None
    assert b"#csia" not in graph.graph_def_of(plain).SerializeToString()


def test_a_graph_of_any_length_is_read_and_an_op_that_nobody_knows_is_shown_by_its_name() -> None:
    from tensorflow.core.framework import graph_pb2

    made = graph_pb2.GraphDef()
    made.node.add(name="op0", op="RangeDataset")
    for index in range(1, 5000):
        made.node.add(name=f"op{index}", op="SkipDataset", input=[f"op{index - 1}"])
    made.node.add(name="strange", op="Acme>FrobnicateFeed", input=["op4999"])
    made.node.add(name="result", op="_Retval", input=["strange"])
    ops = graph.ops_of(made)
    assert len(ops) == 5001
    assert (ops[-1].kind, ops[-1].inputs) == ("Acme>FrobnicateFeed", ("skip_4999",))


# --- elements ----------------------------------------------------------------------------------------------------------------


def test_components_are_named_by_their_path() -> None:
    pairs = Dataset.range(40).map(lambda x: {"features": {"ids": tf.fill([7], x), "mask": tf.ones([7])}, "label": x})
    found = graph_of(lambda: pairs.batch(8).map(lambda x: (x, tf.sparse.from_dense(x["label"])))).element_spec
    with graph.recorded_sources() as log:
        assert graph.read_graph(pairs, log, target="t", said=64).batch_size == 64  # the caller knows better
    assert [(part.name, part.shape, part.dtype, part.kind) for part in found] == [
        ("0/features/ids", (None, 7), "int64", "tensor"),
        ("0/features/mask", (None, 7), "float32", "tensor"),
        ("0/label", (None,), "int64", "tensor"),
        ("1", (None,), "int64", "sparse"),
    ]


# --- cardinality and parameters ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "found"),
    [
        (lambda: Dataset.range(10).batch(4), (3, False)),
        (lambda: Dataset.range(10).repeat(), (None, True)),
        (lambda: Dataset.range(10).filter(lambda x: x > 3), (None, False)),
    ],
)
def test_finite_infinite_and_unknown(build: Callable[[], Any], found: tuple[int | None, bool]) -> None:
    made = graph_of(build)
    assert (made.cardinality, made.is_infinite) == found


def test_parameters_say_autotune_or_the_value() -> None:
    def build() -> Any:
        dataset = Dataset.range(8).map(lambda x: x, num_parallel_calls=AUTOTUNE, deterministic=False)
        dataset = dataset.map(lambda x: x, num_parallel_calls=3).interleave(
            Dataset.from_tensors, cycle_length=5, block_length=2, num_parallel_calls=AUTOTUNE
        )
        dataset = dataset.shuffle(100, seed=7, reshuffle_each_iteration=False).shard(4, 1)
        return dataset.batch(2, drop_remainder=True).prefetch(AUTOTUNE).prefetch(2)

    options = tf.data.Options()
    options.deterministic = False
    options.threading.private_threadpool_size = 2
    options.autotune.cpu_budget = 64
    ops = ops_by_name(lambda: build().with_options(options))
    for name, expected in {
        "with_options": {"deterministic": False, "threading.private_threadpool_size": 2, "autotune.cpu_budget": 64},
        "map": {"num_parallel_calls": "AUTOTUNE", "deterministic": "false"},
        "map_2": {"num_parallel_calls": 3},
        "interleave": {"cycle_length": 5, "block_length": 2, "num_parallel_calls": "AUTOTUNE"},
        "shuffle": {"buffer_size": 100, "reshuffle_each_iteration": False},
        "shard": {"num_shards": 4, "index": 1},
        "batch": {"batch_size": 2, "drop_remainder": True},
        "prefetch": {"buffer_size": "AUTOTUNE"},
        "prefetch_2": {"buffer_size": 2},
    }.items():
        assert ops[name].parameters.items() >= expected.items()
    spectrum = graph_of(lambda: Dataset.from_tensors([1 + 2j, 2]))
    assert spectrum.ops[0].parameters["components"] == ("(1+2j)", "(2+0j)")
    assert json.dumps(msgspec.to_builtins(spectrum))
    assert ops_by_name(lambda: Dataset.range(8).with_options(tf.data.Options()))["with_options"].parameters == {}
    assert ops_by_name(lambda: Dataset.range(8).batch(4).rebatch([3, 1]))["rebatch"].parameters["batch_sizes"] == (3, 1)


def test_ops_of_a_function_are_named_with_those_of_functions_that_it_calls() -> None:
    @tf.function
    def twice(x: Any) -> Any:
        return x * 2 + x

    ops = ops_by_name(lambda: Dataset.range(5).map(lambda x: twice(x) - tf.constant(1, tf.int64)).batch(2))
    assert {"Mul", "AddV2"} <= set(ops["map"].function_ops)
    assert "Const" not in ops["map"].function_ops
    assert ops["batch"].function_ops == ()


# --- files -------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Names for the code of a pipeline: four TFRecord files of 1, 2, 3 and 4 records, which a text names, too."""
    folder = tmp_path_factory.mktemp("shards")
    shards = [str(folder / f"part-{index}.tfrecord") for index in range(4)]
    for count, path in enumerate(shards, start=1):
        with tf.io.TFRecordWriter(path) as writer:
            for _ in range(count):
                writer.write(b"x" * 84)
    (folder / "lines.txt").write_text("\n".join(shards))
    generated = Dataset.from_generator(lambda: iter(range(3)), output_signature=tf.TensorSpec([], tf.int64))
    names = Dataset.from_tensor_slices(shards)
    found = {"shards": shards, "names": names, "folder": str(folder), "text": str(folder / "lines.txt"), "generated": generated}
    return {"vocabulary": vocabulary, **found}


def vocabulary(path: str) -> Any:
    whole, number = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
    return tf.lookup.StaticVocabularyTable(tf.lookup.TextFileInitializer(path, tf.string, whole, tf.int64, number), 1)


ALL = (4, 1000)
# The pipeline; number and bytes of all its files, and of those of some ops.
FILES: list[tuple[str, Any, dict[str, tuple[int, int] | None]]] = [
    ("Dataset.list_files(folder + '/part-*', shuffle=False).interleave(TFRecordDataset)", ALL, {}),
    ("TFRecordDataset(shards)", ALL, {"TFRecordDataset": ALL}),
    ("names.shard(2, 0).interleave(TFRecordDataset)", ALL, {}),
    ("tf.data.TextLineDataset(shards)", ALL, {}),
    ("tf.data.FixedLengthRecordDataset(shards, 100)", ALL, {}),
    ("Dataset.range(4).flat_map(lambda i: TFRecordDataset(tf.gather(tf.constant(shards), i)))", ALL, {}),
    ("Dataset.zip(tuple(TFRecordDataset(path) for path in shards))", ALL, {}),
    ("names.map(tf.io.read_file)", ALL, {"map": ALL}),
    ("TFRecordDataset(shards).map(vocabulary(text).lookup)", ALL, {"TFRecordDataset": ALL}),  # a vocabulary is no data
    (
        "Dataset.zip((Dataset.list_files(shards[:3]).interleave(TFRecordDataset, num_parallel_calls=2), "
        "Dataset.from_tensor_slices(shards[3:]).flat_map(tf.data.TextLineDataset)))",
        ALL,
        {"TFRecordDataset": (3, 600), "TextLineDataset": (1, 400), "zip": None},
    ),
    # Files that a `take` or `skip` leaves out
    ("Dataset.list_files(shards, shuffle=False).take(2).interleave(TFRecordDataset)", (2, 300), {"TFRecordDataset": (2, 300)}),
    ("names.skip(1).prefetch(1).take(2).repeat().interleave(TFRecordDataset)", (2, 500), {"TFRecordDataset": (2, 500)}),
    ("Dataset.from_tensor_slices((shards, [1, 2, 3, 4])).skip(3).flat_map(lambda path, _: TFRecordDataset(path))", (1, 400), {}),
    ("names.take(0).interleave(TFRecordDataset)", None, {}),
    # … and none that other passes, or other branches, may read.
    ("names.take(-1).skip(0).interleave(TFRecordDataset)", ALL, {}),
    ("names.take(9).interleave(TFRecordDataset)", ALL, {}),
    ("names.shuffle(9).take(2).interleave(TFRecordDataset)", ALL, {}),
    ("names.repeat().skip(2).interleave(TFRecordDataset)", ALL, {}),
    ("names.take(1).concatenate(names.skip(1)).interleave(TFRecordDataset)", ALL, {}),
    ("names.interleave(TFRecordDataset).take(2)", ALL, {}),
    # Names in a file are no files of who opens them.
    ("tf.data.TextLineDataset(text).interleave(TFRecordDataset)", ..., {"TFRecordDataset": None}),
    ("generated", None, {"from_generator": None}),
    ("Dataset.from_tensor_slices(['no such file', folder, '', 'x' * 5000])", None, {}),
]


@pytest.mark.parametrize(("code", "whole", "by_op"), FILES, ids=[code[:60] for code, *_ in FILES])
def test_which_files_are_read_and_by_whom(code: str, whole: Any, by_op: dict[str, Any], words: dict[str, Any]) -> None:
    def told(files: Any) -> Any:
        return files and (files.count, files.bytes)

    made = graph_of(lambda: built(code, words))
    assert whole is ... or told(made.files) == whole
    assert made.files is None or made.files.directory == words["folder"]
    ops = {op.name: op for op in made.ops}
    assert {name: told(ops[name].files) for name in by_op} == by_op


@pytest.mark.parametrize(
    ("filename", "is_own"),
    [
        ("/home/ada/input_fn.py", True),
        ("/home/ada/tensorflow/input_fn.py", True),
        ("/tmp/__autograph_generated_fileq2x4.py", False),
        ("/opt/lib/python3.11/site-packages/tree/__init__.py", False),
        ("<string>", False),
    ],
)
def test_whose_code_it_is(filename: str, is_own: bool) -> None:
    assert graph.is_users_own(filename) is is_own


def flips(image: int | None, mask: int | None) -> Callable[[Any], Any]:
    """A picture and its mask, each flipped by a seed."""

    def flipped(number: Any) -> Any:
        x = tf.fill([4, 4, 1], tf.cast(number, tf.float32))
        return tf.image.random_flip_left_right(x, seed=image), tf.image.random_flip_left_right(x, seed=mask)

    return flipped


def flip_of_both(number: Any) -> Any:
    both = tf.image.random_flip_left_right(tf.fill([4, 4, 2], tf.cast(number, tf.float32)), seed=7)
    return both[..., :1], both[..., 1:]


def two_flips_of_one(number: Any) -> Any:
    x = tf.fill([4, 4, 1], tf.cast(number, tf.float32))
    return tf.image.random_flip_up_down(tf.image.random_flip_left_right(x, seed=7), seed=7), number


def draws_for_both(number: Any) -> Any:
    first, second = tf.random.uniform([], seed=7), tf.random.uniform([], seed=7)
    return first + second, first - second


@pytest.mark.parametrize(
    ("function", "is_seeded", "draws_alike"),
    [
        (flips(7, 7), True, True),
        (tf.function(flips(7, 7)), True, True),
        *((function, True, False) for function in (flips(7, 8), flips(7, None), flip_of_both, two_flips_of_one, draws_for_both)),
        (flips(None, None), False, False),
    ],
)
def test_one_seed_for_two_components_is_seen(function: Callable[[Any], Any], is_seeded: bool, draws_alike: bool) -> None:
    op = ops_by_name(lambda: Dataset.range(3).map(function, num_parallel_calls=2))["map"]
    assert (op.is_seeded, op.draws_alike) == (is_seeded, draws_alike)

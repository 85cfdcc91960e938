"""Edits of a whole pipeline: each keeps every element in its place, and each says which of its preconditions does not hold."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from cs_input_analyzer.records import EditKind, Op

pytestmark = pytest.mark.tf

tf: Any = pytest.importorskip("tensorflow")

from cs_input_analyzer.tfdata.edits import EditError, apply, source_change  # noqa: E402
from cs_input_analyzer.tfdata.graph import graph_def_of, ops_of  # noqa: E402
from tests.tfdata.written import ORDERED, built, draw, edits_of, generated, printed, python, with_variable  # noqa: E402, F401

Dataset = tf.data.Dataset


def elements(dataset: Any) -> list[Any]:
    flat = (tf.nest.flatten(element, expand_composites=True) for element in dataset.take(40))
    return [[tensor.numpy().tolist() for tensor in tensors] for tensors in flat]


def ops(dataset: Any) -> dict[str, Op]:
    return {op.name: op for op in ops_of(graph_def_of(dataset))}


# --- what users write ---------------------------------------------------------------------------------------------------------


def pair(value: Any) -> dict[str, Any]:
    return {"number": value, "double": tf.cast(value, tf.float32) * 2}


def half(value: Any) -> Any:
    return tf.cast(value, tf.float32) / 2


def seeded(value: Any) -> Any:
    return tf.random.uniform([], seed=4)


def examples() -> Any:
    def example(value: int) -> bytes:
        feature = {
            "pair": tf.train.Feature(int64_list=tf.train.Int64List(value=[value, value + 1])),
            "one": tf.train.Feature(float_list=tf.train.FloatList(value=[value / 2])),
            "raw": tf.train.Feature(bytes_list=tf.train.BytesList(value=[bytes([value, value + 1, value + 2])])),
        }
        return bytes(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())

    return Dataset.from_tensor_slices([example(value) for value in range(14)])


def parsed(example: Any, **features: Any) -> Any:
    fixed = {"raw": tf.io.FixedLenFeature([], tf.string), "one": tf.io.FixedLenFeature([1], tf.float32)}
    return tf.io.parse_single_example(example, fixed | features)


def parse(example: Any) -> tuple[Any, ...]:
    found = parsed(example, pair=tf.io.FixedLenFeature([2], tf.int64))
    raw = tf.ensure_shape(tf.io.decode_raw(found["raw"], tf.uint8), [3])
    return tf.cast(found["pair"], tf.int32) - 1, found["one"] / 2, tf.cast(raw, tf.float32)


def parse_sparse(example: Any) -> tuple[Any, ...]:
    found = parsed(example, pair=tf.io.VarLenFeature(tf.int64))
    return tf.cast(found["pair"], tf.int32), found["one"] * 2


def bytes_of(example: Any) -> Any:
    return tf.io.decode_raw(parsed(example)["raw"], tf.uint8)


def lines() -> Any:
    return Dataset.from_tensor_slices([f"{number},{number / 2},word-{number}" for number in range(11)])


def fields(line: Any) -> tuple[Any, ...]:
    number, half, word = tf.io.decode_csv(line, [[0], [0.0], [""]])
    return tf.stack([tf.cast(number, tf.float32), half]), word


def records() -> Any:
    """Records of five bytes in a file."""
    path = Path(os.environ["XDG_CACHE_HOME"]) / "records"  # removed at the end of the run
    path.write_bytes(bytes(range(50)))
    return tf.data.FixedLengthRecordDataset([str(path)], 5)


def cut(record: Any) -> tuple[Any, ...]:
    row = tf.io.decode_raw(record, tf.uint8)
    return tf.cast(row[:3], tf.int32), tf.cast(row[4], tf.float32)


def grids() -> Any:
    return Dataset.from_tensor_slices(tf.reshape(tf.range(7 * 24), [7, 4, 6]))


def slices(grid: Any) -> tuple[Any, ...]:
    plain = (grid[1], grid[:, 2], grid[1:3, ::2], grid[..., -1], grid[::-1])
    return (*plain, grid[:, tf.newaxis, 1:], grid[-1, -2], grid[1][..., tf.newaxis])


def shapes(grid: Any) -> tuple[Any, ...]:
    joined = (tf.stack([grid[0], grid[1]]), tf.stack([grid[0], grid[1]], axis=-1), tf.concat([grid, grid], 0))
    longer = (tf.concat([grid, grid], -1), tf.expand_dims(grid, 1), tf.expand_dims(grid, -1), tf.reshape(grid, [2, 12]))
    return (*joined, *longer, tf.one_hot(grid[:, 0], 5), tf.one_hot(grid[:, 0], 5, axis=0))


def rows(*more: Any) -> Any:
    return Dataset.from_tensor_slices(([[1, 2], [3, 4]], *more) if more else [[1, 2], [3, 4]])


def table() -> Any:
    keys = tf.constant([1, 2, 3], tf.int64)
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, keys * 7), -1)


def changing_table() -> Any:
    return tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1)


def dataset_of(code: str) -> Any:
    return built(code, globals())


def coded(dataset: Any, code: str | None = None) -> tuple[Op, ...]:
    return tuple(replace(op, code=code, source="x.py:1") for op in ops_of(graph_def_of(dataset)))


# The changed graph and the changed statement say alike; the graph's edits also promise an order that users leave to the default.
SHOWN = ("num_parallel_calls", "cycle_length", "buffer_size", "batch_size", "count", "filename")


def shown(dataset: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(op.kind, {name: op.parameters[name] for name in SHOWN if name in op.parameters}) for op in coded(dataset)]


# --- one edit, two changes ----------------------------------------------------------------------------------------------------

HALF = "lambda x: tf.cast(x, tf.float32) / 2"
PLAIN = "Dataset.range(20).map(pair).batch(3).prefetch(2)"
IN_TURN = "Dataset.range(6).flat_map(lambda value: Dataset.range(value).map(lambda inner: inner * 10).prefetch(1)).batch(4)"
IN_CYCLES = "Dataset.range(6).interleave(Dataset.range, cycle_length=2, block_length=2)"
IN_PARALLEL_CYCLES = "Dataset.range(6).interleave(Dataset.range, cycle_length=4, num_parallel_calls=2)"
SHUFFLED = "Dataset.range(20).map(pair, num_parallel_calls=2).shuffle(5, seed=4, reshuffle_each_iteration=False)"

# The pipeline; kind, op and value of each edit.
IN_SOURCE: list[tuple[Any, ...]] = [
    (PLAIN, ("parallelize", "map")),
    (f"Dataset.range(9).map({HALF}).map({HALF})", ("parallelize", "map_2", 2)),
    (IN_CYCLES, ("parallelize", "interleave")),
    (IN_PARALLEL_CYCLES, ("set-parallelism", "interleave", 4)),
    ("Dataset.range(9).map(pair, num_parallel_calls=1)", ("set-parallelism", "map", 2)),
    ("Dataset.range(9).map(pair, num_parallel_calls=2)", ("set-parallelism", "map")),
    ("Dataset.range(4).flat_map(lambda value: Dataset.range(value).repeat(2))", ("insert-cache", "flat_map")),
    (PLAIN, ("insert-cache", "map")),
    ("Dataset.range(9).map(pair).shuffle(4, seed=1, reshuffle_each_iteration=False)", ("insert-cache", "map")),
    (IN_TURN, ("interleave", "flat_map")),
    (IN_TURN, ("interleave", "flat_map"), ("parallelize", "map", 2), ("set-buffer", "prefetch", 3), ("insert-prefetch", "batch")),
    (f"Dataset.range(20).map({HALF}).batch(3)", ("vectorize", "map")),
    (SHUFFLED, ("swap", "shuffle")),
    ("Dataset.range(4).repeat().cache().take(9)", ("swap", "cache")),
    ("Dataset.range(9).cache().take(4).repeat(2)", ("swap", "take")),
    ("Dataset.range(9).cache().map(pair).repeat(2)", ("swap", "map")),
]
IN_GRAPH_ALONE: list[tuple[Any, ...]] = [
    (PLAIN, ("use-private-threads", "map", 3)),
    (PLAIN, ("insert-prefetch", "range", 1), ("set-buffer", "prefetch", 5)),  # an op inserted does not rename the others
    # What the function does to a batch is what it does to each sample.
    ("Dataset.range(9).map(pair, num_parallel_calls=2).batch(3, drop_remainder=True)", ("vectorize", "map")),
    ("examples().map(parse).batch(4)", ("vectorize", "map"), ("parallelize", "map")),
    ("examples().map(parse_sparse).batch(4)", ("vectorize", "map")),
    ("examples().map(lambda one: tf.ensure_shape(bytes_of(one), [3])[1:]).batch(4)", ("vectorize", "map")),
    ("examples().map(lambda one: tf.reshape(bytes_of(one), [3, 1])[0]).batch(4)", ("vectorize", "map")),
    ("Dataset.range(9).map(table().lookup).batch(4)", ("vectorize", "map")),
    ("lines().map(fields).batch(4)", ("vectorize", "map")),
    (
        "lines().map(fields).shuffle(5, seed=4, reshuffle_each_iteration=False).repeat(2).skip(1).take(19).batch(4)",
        ("vectorize", "map"),
    ),
    ("records().repeat(2).map(cut, num_parallel_calls=2).batch(4)", ("vectorize", "map")),
    ("grids().map(slices).batch(3)", ("vectorize", "map")),
    ("grids().map(shapes).batch(3)", ("vectorize", "map")),
]


@pytest.mark.parametrize("case", [*IN_SOURCE, *IN_GRAPH_ALONE], ids=lambda case: f"{case[1][0]} {case[0][:40]}")
def test_an_edit_keeps_every_element_and_its_change_of_the_source_is_the_same(case: tuple[Any, ...]) -> None:
    code, *asked = case
    dataset, edits = dataset_of(code), edits_of(*asked)
    before = elements(dataset)
    edited = apply(dataset, edits)
    assert elements(edited) == before != []
    assert elements(edited) == before  # and in the next pass
    assert edited.element_spec == dataset.element_spec
    assert int(edited.cardinality()) == int(dataset.cardinality())
    assert elements(dataset) == before  # the original is left alone
    if edits[0].kind != "use-private-threads":
        assert shown(edited) != shown(dataset)
        assert edited.options() == dataset.options()
    changed = source_change(edits, coded(dataset, f"ds = {code}"))
    assert (changed is not None) == (case in IN_SOURCE)
    assert changed is None or shown(dataset_of(changed)) == shown(edited)


def test_an_order_that_is_moot_is_used() -> None:
    reader = "Dataset.range(8).flat_map(lambda value: Dataset.from_tensors(value).repeat(5))"
    for code, *asked in (
        (f"{reader}.map(lambda v: v + 1).cache().shuffle(50).repeat(2).batch(8).unbatch()", ("interleave", "flat_map", 4)),
        (f"{reader}.concatenate(Dataset.range(3)).shuffle(50)", ("interleave", "flat_map", 4)),
        (f"{IN_CYCLES}.shuffle(10)", ("set-cycle-length", "interleave", 4)),
        (f"{IN_PARALLEL_CYCLES}.shuffle(9)", ("set-cycle-length", "interleave", 6), ("set-parallelism", "interleave", 6)),
    ):
        dataset = dataset_of(code)
        wider, changed = apply(dataset, edits_of(*asked)), source_change(edits_of(*asked), coded(dataset, f"ds = {code}"))
        assert ops(wider)["interleave"].parameters["cycle_length"] == asked[0][2]
        assert shown(dataset_of(changed)) == shown(wider)
        assert Counter(map(int, wider)) == Counter(map(int, dataset))


def test_every_kind_that_has_a_place_in_the_source_is_compared() -> None:
    kinds = {kind for _, *asked in IN_SOURCE for kind, *_ in asked}
    assert kinds == set(get_args(EditKind)) - {"use-private-threads", "set-cycle-length"}


@pytest.mark.parametrize(
    ("code", "asked"),
    [
        ("Dataset.range(4).interleave(Dataset.range)", [("parallelize", "interleave")]),  # the cycle would be another
        ("Dataset.range(9).shuffle(4).map(lambda x: x)", [("insert-cache", "map")]),  # it would freeze the only mixing
        ("Dataset.range(9).batch(3)", [("swap", "batch"), ("swap", "batch")]),
        ("Dataset.range(9).batch(3)", []),
    ],
)
def test_no_change_of_the_source_is_shown_that_is_not_sure(code: str, asked: list[Any]) -> None:
    assert source_change(edits_of(*asked), coded(dataset_of(code), f"ds = {code}")) is None


@pytest.mark.parametrize("behind", ORDERED.values(), ids=ORDERED)
def test_records_that_are_neighbours_stay_neighbours_where_that_shows(behind: Callable[[Any], Any]) -> None:
    """A shuffle of the names of the files leaves that as it is, and one of what it gives comes too late."""
    dataset = behind(Dataset.range(8).shuffle(8).flat_map(lambda value: Dataset.range(value * 10, value * 10 + 5)))
    name = next(op.name for op in ops(dataset).values() if op.kind == "FlatMap" and op.within is None)
    opened = ops(apply(dataset, edits_of(("interleave", name))))
    assert [op.parameters["cycle_length"] for op in opened.values() if op.kind == "ParallelInterleave"] == [1]
    with pytest.raises(EditError, match=f"order after {name} is promised"):
        apply(dataset, edits_of(("interleave", name, 4)))


# --- what an edit leaves alone ------------------------------------------------------------------------------------------------


def test_an_edit_promises_the_order_and_reaches_into_functions() -> None:
    assert ops(apply(dataset_of(PLAIN), edits_of(("parallelize", "map"))))["map"].parameters["deterministic"] == "true"
    inside = ops(apply(dataset_of(IN_TURN), edits_of(("set-buffer", "prefetch", 5))))["prefetch"]
    assert (inside.within, inside.parameters["buffer_size"]) == ("flat_map", 5)


def test_one_function_of_two_ops_is_edited_for_one_of_them() -> None:
    from tensorflow.python.data.ops import dataset_ops

    def inner(value: Any) -> Any:
        return Dataset.range(value).prefetch(1)

    graph_def = graph_def_of(Dataset.range(4).flat_map(inner).concatenate(Dataset.range(3).flat_map(inner)))
    holders = [node for node in graph_def.node if node.op == "FlatMapDataset"]
    holders[1].attr["f"].func.name = holders[0].attr["f"].func.name
    variant = tf.raw_ops.DatasetFromGraph(graph_def=graph_def.SerializeToString())
    dataset = dataset_ops._VariantDataset(variant, tf.TensorSpec([], tf.int64))
    names = [name for name, op in ops(dataset).items() if op.kind == "Prefetch"]
    assert len(names) == 2
    edited = apply(dataset, edits_of(("set-buffer", names[0], 6)))
    assert sorted(op.parameters["buffer_size"] for op in ops(edited).values() if op.kind == "Prefetch") == [1, 6]
    assert elements(edited) == elements(dataset)


def test_options_and_the_original_outlive_the_callers_reference() -> None:
    options = tf.data.Options()
    options.deterministic = False
    options.threading.private_threadpool_size = 2

    def build() -> Any:
        return apply(Dataset.range(4).map(table().lookup).with_options(options), edits_of(("insert-prefetch", "map")))

    edited = build()
    assert edited.options().deterministic is False
    assert edited.options().threading.private_threadpool_size == 2
    assert elements(edited) == [[-1], [7], [14], [21]]
    assert apply(edited, edits_of(("use-private-threads", "map", 3))).options().threading.private_threadpool_size == 3


def test_a_seeded_shuffle_draws_what_a_fresh_one_draws() -> None:
    dataset, fresh = (dataset_of("Dataset.range(20).shuffle(8, seed=3).prefetch(1)") for _ in range(2))
    edited = apply(dataset, edits_of(("set-buffer", "prefetch", 4)))
    first, second = elements(fresh), elements(fresh)
    assert [elements(edited), elements(edited)] == [first, second]
    assert elements(dataset) == first  # its own generator was not moved


# --- preconditions ------------------------------------------------------------------------------------------------------------

REFUSED: list[tuple[str, tuple[Any, ...], str]] = [
    (PLAIN, ("parallelize", "map_7"), "no op map_7"),
    (IN_PARALLEL_CYCLES, ("parallelize", "interleave"), "no serial map or interleave"),
    ("Dataset.range(9).map(python)", ("parallelize", "map"), r"calls Python \(PyFunc"),
    ("Dataset.range(9).map(printed)", ("parallelize", "map"), r"a stateful op \(PrintV2"),
    ("Dataset.range(9).map(seeded, num_parallel_calls=1)", ("set-parallelism", "map", 2), r"seed \(RandomUniform"),
    (
        "Dataset.range(6).interleave(lambda _: Dataset.range(9).map(python), cycle_length=2).shuffle(9)",
        ("set-cycle-length", "interleave", 3),
        r"calls Python \(PyFunc",
    ),
    (
        "Dataset.range(3).flat_map(lambda value: Dataset.range(4).interleave(Dataset.range))",
        ("parallelize", "interleave"),
        "as TensorFlow likes, by the number of calls",
    ),
    (f"{IN_CYCLES}.shuffle(9)", ("set-cycle-length", "interleave"), "needs a number"),
    ("with_variable()", ("insert-prefetch", "map"), "holds a variable"),
    ("Dataset.range(4).map(changing_table().lookup)", ("insert-prefetch", "map"), "holds a table that can change"),
    (IN_TURN, ("interleave", "flat_map", 4), "order after flat_map is promised"),
    (IN_CYCLES, ("interleave", "interleave"), "is no flat_map"),
    (IN_CYCLES, ("set-cycle-length", "interleave", 4), "order after interleave is promised"),
    (IN_PARALLEL_CYCLES, ("set-parallelism", "interleave", 9), "it opens 4 inputs"),
    (f"{IN_PARALLEL_CYCLES}.shuffle(9)", ("set-cycle-length", "interleave", 1), "must open as many inputs"),
    (PLAIN, ("set-cycle-length", "map", 2), "map has no cycle length"),
    (PLAIN, ("set-parallelism", "map", 2), "no constant number of parallel calls"),
    (PLAIN, ("set-buffer", "prefetch", 0), "needs 1 or more"),
    ("Dataset.range(3).shuffle(2)", ("set-buffer", "shuffle", 5), "decides the order"),
    ("TFRecordDataset('none', buffer_size=64)", ("set-buffer", "TFRecordDataset", 9), "is no prefetch"),
    (
        "Dataset.range(3).flat_map(tf.function(lambda value: Dataset.range(value).prefetch(1)))",
        ("set-buffer", "prefetch", 3),
        "inside a function that the function of flat_map calls",
    ),
    (PLAIN, ("insert-prefetch", "batch"), "a prefetch after batch already"),
    ("Dataset.range(6).map(draw)", ("insert-cache", "map"), "would freeze what RandomUniform gave"),
    ("Dataset.range(4).shuffle(4).map(pair)", ("insert-cache", "map"), "freeze the order of the shuffle"),
    *(
        (f"Dataset.range(9).shuffle(4).{between}.map(pair).shuffle(4)", ("insert-cache", "map"), "freeze the order of the shuffle")
        for between in ("take(4)", "batch(2)", "shard(2, 0)", "window(2).flat_map(lambda window: window)")
    ),
    (
        "Dataset.range(4).flat_map(lambda v: Dataset.range(v).shuffle(4)).map(pair).shuffle(4)",
        ("insert-cache", "map"),
        "freeze the order of the shuffle",
    ),
    ("Dataset.range(4).repeat().map(pair).take(3)", ("insert-cache", "map"), "is repeated"),
    (
        "Dataset.range(4).interleave(lambda v: Dataset.range(v + 1).repeat(), cycle_length=2).map(pair).take(9)",
        ("insert-cache", "map"),
        "by repeat inside a function",
    ),
    ("Dataset.range(9).map(python)", ("insert-cache", "map"), r"freeze what Python \(PyFunc"),
    ("generated().map(pair)", ("insert-cache", "map"), "what Generator gave"),
    (IN_TURN, ("insert-cache", "map"), "inside a function"),
    ("Dataset.range(3).map(pair).cache()", ("insert-cache", "map"), "a cache after map already"),
    ("Dataset.range(9).map(seeded).shuffle(3)", ("swap", "shuffle"), "cannot change places"),
    (PLAIN, ("swap", "batch"), "what can: shuffle before map"),
    ("Dataset.range(4).cache().map(draw)", ("swap", "map"), "freeze what RandomUniform"),
    ("Dataset.range(6).map(draw).repeat().cache().take(3)", ("swap", "cache"), "freeze what RandomUniform"),
    (PLAIN, ("use-private-threads", "map"), "a number of threads"),
]
# A function that gives of a batch something else than of its samples.
NO_BATCH: list[tuple[str, str]] = [
    ("Dataset.range(9).map(draw).batch(2)", "one draw for each sample"),
    ("Dataset.range(9).map(python).batch(2)", "calls Python"),
    ("Dataset.range(9).map(python)", "more than one op reads|no map right before a batch"),
    ("Dataset.range(9).map(pair).cache().batch(2)", "is no map right before a batch"),
    ("Dataset.range(4).map(tf.range).padded_batch(2)", "no map right before a batch"),
    ("Dataset.range(4).map(lambda _: 7).batch(2)", "same for every sample"),
    ("rows().map(tf.reduce_sum).batch(2)", "cannot take a whole batch: it calls"),
    ("rows([1, 1]).map(lambda row, one: row[:one]).batch(2)", "it calls Pack with tensors of different ranks"),
    ("rows([5, 6]).map(lambda row, one: row * one).batch(2)", "tensors of different ranks"),
    ("rows().map(lambda row: tf.concat([row, [10]], 0)).batch(2)", "it calls ConcatV2 with tensors of different ranks"),
    ("rows().map(lambda row: tf.reshape(row, [-1])).batch(2)", "it calls Reshape to a shape with an open dimension"),
    ("rows().map(lambda row: tf.stack([row, [5, 6]])).batch(2)", "it calls Pack .* that are the same for every sample"),
    ("rows().map(lambda row: tf.add(row, [10, 20])).batch(2)", "with an array"),
    ("lines().map(lambda line: tf.io.decode_raw(line, tf.uint8)[0]).batch(2)", "may differ in length"),
    ("examples().map(lambda one: bytes_of(one)[:2]).batch(2)", "calls DecodeRaw of records that may differ in length"),
    (
        "examples().map(lambda one: parsed(one)['one'] + tf.cast(bytes_of(one), tf.float32)).batch(2)",
        "calls DecodeRaw of records that may differ",
    ),
    ("examples().map(lambda one: tf.sparse.to_dense(parse_sparse(one)[0])).batch(2)", "whole batch: it calls SparseTo"),
]
REFUSED += [(code, ("vectorize", "map"), phrase) for code, phrase in NO_BATCH]


@pytest.mark.parametrize(("code", "asked", "phrase"), REFUSED, ids=[phrase for _, _, phrase in REFUSED])
def test_a_precondition_that_does_not_hold_is_named(code: str, asked: tuple[Any, ...], phrase: str) -> None:
    with pytest.raises(EditError, match=phrase):
        apply(dataset_of(code), edits_of(asked))

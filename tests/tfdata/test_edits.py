"""Edits of a whole pipeline: each keeps every element in its place, and each says which of its preconditions does not hold."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from cs_input_analyzer.records import Edit, EditKind, Op

pytestmark = pytest.mark.tf

tf: Any = pytest.importorskip("tensorflow")

from cs_input_analyzer.tfdata.edits import EditError, apply, source_change  # noqa: E402
from cs_input_analyzer.tfdata.graph import graph_def_of, ops_of  # noqa: E402
from tests.worker.test_equality import ORDERED, printed  # noqa: E402

Dataset = tf.data.Dataset
Build = Callable[[], Any]


def elements(dataset: Any) -> list[Any]:
    flat = (tf.nest.flatten(element, expand_composites=True) for element in dataset.take(40))
    return [[tensor.numpy().tolist() for tensor in tensors] for tensors in flat]


def ops(dataset: Any) -> dict[str, Any]:
    return {op.name: op for op in ops_of(graph_def_of(dataset))}


def described(dataset: Any) -> list[Any]:
    return [(op.kind, op.parameters) for op in ops(dataset).values()]


def edit(kind: Any, op: str, value: int | None = None) -> Edit:
    return Edit(kind=kind, op=op, value=value)


def pair(value: Any) -> dict[str, Any]:
    return {"number": value, "double": tf.cast(value, tf.float32) * 2}


def plain() -> Any:
    return Dataset.range(20).map(pair).batch(3).prefetch(2)


def drawn() -> Any:
    return Dataset.range(6).map(lambda value: (value, tf.random.uniform([])))


def read_in_turn() -> Any:
    return Dataset.range(6).flat_map(lambda value: Dataset.range(value).map(lambda inner: inner * 10).prefetch(1)).batch(4)


def in_cycles() -> Any:
    return Dataset.range(6).interleave(Dataset.range, cycle_length=2, block_length=2)


def in_parallel_cycles() -> Any:
    return Dataset.range(6).interleave(Dataset.range, cycle_length=4, num_parallel_calls=2)


def records() -> Any:
    def record(value: int) -> bytes:
        feature = {
            "pair": tf.train.Feature(int64_list=tf.train.Int64List(value=[value, value + 1])),
            "one": tf.train.Feature(float_list=tf.train.FloatList(value=[value / 2])),
            "raw": tf.train.Feature(bytes_list=tf.train.BytesList(value=[bytes([value, value + 1, value + 2])])),
        }
        return bytes(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())

    return Dataset.from_tensor_slices([record(value) for value in range(14)])


def parse(record: Any) -> tuple[Any, ...]:
    features = {
        "pair": tf.io.FixedLenFeature([2], tf.int64),
        "one": tf.io.FixedLenFeature([], tf.float32),
        "raw": tf.io.FixedLenFeature([], tf.string),
    }
    parsed = tf.io.parse_single_example(record, features)
    raw = tf.ensure_shape(tf.io.decode_raw(parsed["raw"], tf.uint8), [3])
    return tf.cast(parsed["pair"], tf.int32) - 1, parsed["one"] / 2, tf.cast(raw, tf.float32)


def parsed(record: Any) -> Any:
    features = {"raw": tf.io.FixedLenFeature([], tf.string), "one": tf.io.FixedLenFeature([1], tf.float32)}
    return tf.io.parse_single_example(record, features)


def raw_of(record: Any) -> Any:
    return tf.io.decode_raw(parsed(record)["raw"], tf.uint8)


def parse_sparse(record: Any) -> tuple[Any, ...]:
    features = {"pair": tf.io.VarLenFeature(tf.int64), "one": tf.io.FixedLenFeature([], tf.float32)}
    parsed = tf.io.parse_single_example(record, features)
    return tf.cast(parsed["pair"], tf.int32), parsed["one"] * 2


def lines() -> Any:
    return Dataset.from_tensor_slices([f"{number},{number / 2},word-{number}" for number in range(11)])


def fields(line: Any) -> tuple[Any, ...]:
    number, half, word = tf.io.decode_csv(line, [[0], [0.0], [""]])
    return tf.stack([tf.cast(number, tf.float32), half]), word


def fixed_records() -> Any:
    """Records of five bytes in a file."""
    path = Path(tempfile.gettempdir()) / f"csia-records-{os.getpid()}"
    path.write_bytes(bytes(range(50)))
    return tf.data.FixedLengthRecordDataset([str(path)], 5)


def cut(record: Any) -> tuple[Any, ...]:
    row = tf.io.decode_raw(record, tf.uint8)
    return tf.cast(row[:3], tf.int32), tf.cast(row[4], tf.float32)


def grid() -> Any:
    return Dataset.from_tensor_slices(tf.reshape(tf.range(7 * 24), [7, 4, 6]))


def slice_ways(grid: Any) -> tuple[Any, ...]:
    return (
        grid[1],
        grid[:, 2],
        grid[1:3, ::2],
        grid[..., -1],
        grid[::-1],
        grid[:, tf.newaxis, 1:],
        grid[-1, -2],
        grid[1][..., tf.newaxis],
    )


def shape_ways(grid: Any) -> tuple[Any, ...]:
    return (
        tf.stack([grid[0], grid[1]]),
        tf.stack([grid[0], grid[1]], axis=-1),
        tf.concat([grid, grid], 0),
        tf.concat([grid, grid], -1),
        tf.expand_dims(grid, 1),
        tf.expand_dims(grid, -1),
        tf.reshape(grid, [2, 12]),
        tf.one_hot(grid[:, 0], 5),
        tf.one_hot(grid[:, 0], 5, axis=0),
    )


def table() -> Any:
    keys = tf.constant([1, 2, 3], tf.int64)
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, keys * 7), -1)


def seeded_shuffle_of_pairs() -> Any:
    return Dataset.range(20).map(pair, num_parallel_calls=2).shuffle(5, seed=4, reshuffle_each_iteration=False)


def mapped(function: Callable[..., Any], **calls: int) -> Build:
    return lambda: Dataset.range(9).map(function, **calls)


# Kind, op, value of each edit.
KEPT: dict[str, tuple[Any, ...]] = {
    "map in parallel": (plain, ("parallelize", "map")),
    "interleave in parallel": (in_cycles, ("parallelize", "interleave")),
    "number of calls": (in_parallel_cycles, ("set-parallelism", "interleave", 4)),
    "flat_map as interleave": (read_in_turn, ("interleave", "flat_map")),
    "cache": (plain, ("insert-cache", "map")),
    "cache of what is repeated so often inside": (
        lambda: Dataset.range(4).flat_map(lambda value: Dataset.range(value).repeat(2)),
        ("insert-cache", "flat_map"),
    ),
    "one call becomes two": (mapped(pair, num_parallel_calls=1), ("set-parallelism", "map", 2)),
    "private threads": (plain, ("use-private-threads", "map", 3)),
    "batch in parallel": (plain, ("parallelize", "batch", 4)),
    "several at once, in and out": (
        read_in_turn,
        *(("interleave", "flat_map"), ("parallelize", "map", 2), ("set-buffer", "prefetch", 3), ("insert-prefetch", "batch")),
    ),
    "an op inserted does not rename the others": (plain, ("insert-prefetch", "range", 1), ("set-buffer", "prefetch", 5)),
    "arithmetic over the batch": (lambda: Dataset.range(20).map(pair).batch(3), ("vectorize", "map")),
    "the batch may be named too": (
        lambda: mapped(pair, num_parallel_calls=2)().batch(3, drop_remainder=True),
        ("vectorize", "batch"),
    ),
    "parsing over the batch": (lambda: records().map(parse).batch(4), ("vectorize", "map"), ("parallelize", "map")),
    "a table over the batch": (lambda: Dataset.range(9).map(table().lookup).batch(4), ("vectorize", "map")),
    "lines over the batch": (lambda: lines().map(fields).batch(4), ("vectorize", "map")),
    "a batch behind shuffle, repeat, skip and take": (
        lambda: lines().map(fields).shuffle(5, seed=4, reshuffle_each_iteration=False).repeat(2).skip(1).take(19).batch(4),
        ("vectorize", "map"),
    ),
    "records of one length over the batch": (
        lambda: fixed_records().repeat(2).map(cut, num_parallel_calls=2).batch(4),
        ("vectorize", "map"),
    ),
    "sparse features over the batch": (lambda: records().map(parse_sparse).batch(4), ("vectorize", "map")),
    "slices over the batch": (lambda: grid().map(slice_ways).batch(3), ("vectorize", "map")),
    "shapes over the batch": (lambda: grid().map(shape_ways).batch(3), ("vectorize", "map")),
    "decoded records whose shape is checked": (
        lambda: records().map(lambda one: tf.ensure_shape(raw_of(one), [3])[1:]).batch(4),
        ("vectorize", "map"),
    ),
    "decoded records that are reshaped": (
        lambda: records().map(lambda one: tf.reshape(raw_of(one), [3, 1])[0]).batch(4),
        ("vectorize", "map"),
    ),
    "shuffle first": (seeded_shuffle_of_pairs, ("swap", "shuffle")),
    "cache before repeat": (lambda: Dataset.range(4).repeat().cache().take(9), ("swap", "cache")),
    "take before cache": (lambda: Dataset.range(9).cache().take(4).repeat(2), ("swap", "take")),
    "map before cache": (lambda: Dataset.range(9).cache().map(pair).repeat(2), ("swap", "map")),
}


@pytest.mark.parametrize("case", KEPT.values(), ids=KEPT)
def test_every_element_is_where_it_was(case: tuple[Any, ...]) -> None:
    dataset, edits = case[0](), [edit(*asked) for asked in case[1:]]
    before = elements(dataset)
    edited = apply(dataset, edits)
    assert elements(edited) == before != []
    assert elements(edited) == before  # and in the next pass
    assert edited.element_spec == dataset.element_spec
    assert int(edited.cardinality()) == int(dataset.cardinality())
    assert elements(dataset) == before  # the original is left alone
    if edits[0].kind != "use-private-threads":
        assert described(edited) != described(dataset)
        assert edited.options() == dataset.options()


def test_what_users_do_not_write_is_what_was_asked_for() -> None:
    assert ops(apply(plain(), [edit("parallelize", "map")]))["map"].parameters["deterministic"] == "true"
    inside = ops(apply(read_in_turn(), [edit("set-buffer", "prefetch", 5)]))["prefetch"]
    assert (inside.within, inside.parameters["buffer_size"]) == ("flat_map", 5)
    assert apply(plain(), [edit("use-private-threads", "map", 3)]).options().threading.private_threadpool_size == 3


def test_a_cycle_is_longer_only_where_order_is_moot() -> None:
    def reader() -> Any:
        return Dataset.range(8).flat_map(lambda value: Dataset.from_tensors(value).repeat(5))

    for build in (
        lambda: reader().map(lambda v: v + 1).cache().shuffle(50).repeat(2).batch(8).unbatch(),
        lambda: reader().concatenate(Dataset.range(3)).shuffle(50),
    ):
        wider = apply(build(), [edit("interleave", "flat_map", 4)])
        assert ops(wider)["interleave"].parameters["cycle_length"] == 4
        assert Counter(map(int, wider)) == Counter(map(int, build()))
    longer = apply(in_cycles().shuffle(10), [edit("set-cycle-length", "interleave", 4)])
    assert Counter(map(int, longer)) == Counter(map(int, in_cycles()))


@pytest.mark.parametrize("behind", ORDERED.values(), ids=ORDERED)
def test_records_that_are_neighbours_stay_neighbours_where_that_shows(behind: Callable[[Any], Any]) -> None:
    """A shuffle of the names of the files leaves that as it is, and one of what it gives comes too late."""
    dataset = behind(Dataset.range(8).shuffle(8).flat_map(lambda value: Dataset.range(value * 10, value * 10 + 5)))
    name = next(op.name for op in ops(dataset).values() if op.kind == "FlatMap" and op.within is None)
    opened = ops(apply(dataset, [edit("interleave", name)]))
    assert [op.parameters["cycle_length"] for op in opened.values() if op.kind == "ParallelInterleave"] == [1]
    with pytest.raises(EditError, match=f"order after {name} is promised"):
        apply(dataset, [edit("interleave", name, 4)])


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
    edited = apply(dataset, [edit("set-buffer", names[0], 6)])
    assert sorted(op.parameters["buffer_size"] for op in ops(edited).values() if op.kind == "Prefetch") == [1, 6]
    assert elements(edited) == elements(dataset)


def test_options_and_the_original_outlive_the_callers_reference() -> None:
    options = tf.data.Options()
    options.deterministic = False
    options.threading.private_threadpool_size = 2

    def build() -> Any:
        function = table()
        return apply(Dataset.range(4).map(function.lookup).with_options(options), [edit("insert-prefetch", "map")])

    edited = build()
    assert edited.options().deterministic is False
    assert edited.options().threading.private_threadpool_size == 2
    assert elements(edited) == [[-1], [7], [14], [21]]


def test_a_seeded_shuffle_draws_what_a_fresh_one_draws() -> None:
    def build() -> Any:
        return Dataset.range(20).shuffle(8, seed=3).prefetch(1)

    dataset, fresh = build(), build()
    edited = apply(dataset, [edit("set-buffer", "prefetch", 4)])
    first, second = elements(fresh), elements(fresh)
    assert [elements(edited), elements(edited)] == [first, second]
    assert elements(dataset) == first  # its own generator was not moved


def stateful_python(value: Any) -> Any:
    return tf.numpy_function(lambda number: number, [value], tf.int64)


def with_variable() -> Any:
    variable = tf.Variable(3, dtype=tf.int64)
    return Dataset.range(4).map(lambda value: value + variable)


def with_mutable_table() -> Any:
    changing = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1)
    return Dataset.range(4).map(changing.lookup)


def made_by_python() -> Any:
    return Dataset.from_generator(lambda: iter(range(3)), output_signature=tf.TensorSpec([], tf.int64)).map(lambda value: value + 1)


def to_dense(record: Any) -> Any:
    return tf.sparse.to_dense(parse_sparse(record)[0])


def slices(function: Callable[..., Any], *more: Any) -> Build:
    rows = [[1, 2], [3, 4]]
    return lambda: Dataset.from_tensor_slices((rows, *more) if more else rows).map(function).batch(2)


def drawing(value: Any) -> Any:
    return tf.random.uniform([], seed=4)


def endless_inside(value: Any) -> Any:
    return Dataset.range(value + 1).repeat()


REFUSED: list[tuple[Build, tuple[Any, ...], str]] = [
    (plain, ("parallelize", "map_7"), "no op map_7"),
    (in_parallel_cycles, ("parallelize", "interleave"), "no serial map, batch or interleave"),
    (mapped(stateful_python), ("parallelize", "map"), r"calls Python \(PyFunc"),
    (mapped(printed), ("parallelize", "map"), r"a stateful op \(PrintV2"),
    (mapped(drawing, num_parallel_calls=1), ("set-parallelism", "map", 2), r"seed \(RandomUniform"),
    (
        lambda: Dataset.range(6).interleave(lambda _: mapped(stateful_python)(), cycle_length=2).shuffle(9),
        ("set-cycle-length", "interleave", 3),
        r"calls Python \(PyFunc",
    ),
    (
        lambda: Dataset.range(3).flat_map(lambda value: Dataset.range(4).interleave(Dataset.range)),
        ("parallelize", "interleave"),
        "as TensorFlow likes, by the number of calls",
    ),
    (
        lambda: tf.data.TFRecordDataset(["a", "b"], num_parallel_reads=2).shuffle(9),
        ("set-cycle-length", "interleave"),
        "which TensorFlow cannot tune",
    ),
    (with_variable, ("insert-prefetch", "map"), "holds a variable"),
    (with_mutable_table, ("insert-prefetch", "map"), "holds a table that can change"),
    (read_in_turn, ("interleave", "flat_map", 4), "order after flat_map is promised"),
    (in_cycles, ("set-cycle-length", "interleave", 4), "order after interleave is promised"),
    (in_parallel_cycles, ("set-parallelism", "interleave", 9), "it opens 4 inputs"),
    (lambda: in_parallel_cycles().shuffle(9), ("set-cycle-length", "interleave", 1), "must open as many inputs"),
    (plain, ("set-parallelism", "map", 2), "no constant number of parallel calls"),
    (plain, ("set-buffer", "prefetch", 0), "needs 1 or more"),
    (lambda: Dataset.range(3).shuffle(2), ("set-buffer", "shuffle", 5), "decides the order"),
    (plain, ("insert-prefetch", "batch"), "a prefetch after batch already"),
    (drawn, ("insert-cache", "map"), "would freeze what RandomUniform gave"),
    (lambda: Dataset.range(4).shuffle(4).map(pair), ("insert-cache", "map"), "freeze the order of the shuffle"),
    (lambda: Dataset.range(4).repeat().map(pair).take(3), ("insert-cache", "map"), "is repeated"),
    (
        lambda: Dataset.range(4).interleave(endless_inside, cycle_length=2).map(pair).take(9),
        ("insert-cache", "map"),
        "by repeat inside a function",
    ),
    (mapped(stateful_python), ("insert-cache", "map"), r"freeze what Python \(PyFunc"),
    (made_by_python, ("insert-cache", "map"), "what Generator gave"),
    (read_in_turn, ("insert-cache", "map"), "inside a function"),
    (lambda: Dataset.range(3).map(pair).cache(), ("insert-cache", "map"), "a cache after map already"),
    (lambda: drawn().batch(2), ("vectorize", "map"), "one draw for each sample"),
    (slices(lambda row, one: row[:one], [1, 1]), ("vectorize", "map"), "it calls Pack with tensors of different ranks"),
    (slices(lambda row: tf.concat([row, [10]], 0)), ("vectorize", "map"), "it calls ConcatV2 with tensors of different ranks"),
    (slices(lambda row: tf.reshape(row, [-1])), ("vectorize", "map"), "it calls Reshape to a shape with an open dimension"),
    (slices(lambda row: tf.stack([row, [5, 6]])), ("vectorize", "map"), "it calls Pack .* that are the same for every sample"),
    (lambda: lines().map(lambda line: tf.io.decode_raw(line, tf.uint8)[0]).batch(2), ("vectorize", "map"), "may differ in length"),
    (
        lambda: records().map(lambda one: raw_of(one)[:2]).batch(2),
        ("vectorize", "map"),
        "calls DecodeRaw of records that may differ in length",
    ),
    (
        lambda: records().map(lambda one: parsed(one)["one"] + tf.cast(raw_of(one), tf.float32)).batch(2),
        ("vectorize", "map"),
        "calls DecodeRaw of records that may differ",
    ),
    (lambda: Dataset.range(9).map(pair).cache().batch(2), ("vectorize", "map"), "is no map right before a batch"),
    (lambda: records().map(to_dense).batch(2), ("vectorize", "map"), "cannot take a whole batch: it calls SparseTo"),
    (mapped(stateful_python), ("vectorize", "map"), "more than one op reads|no map right before a batch"),
    (lambda: mapped(stateful_python)().batch(2), ("vectorize", "map"), "calls Python"),
    (slices(tf.reduce_sum), ("vectorize", "map"), "cannot take a whole batch: it calls"),
    (slices(lambda row, one: row * one, [5, 6]), ("vectorize", "map"), "tensors of different ranks"),
    (slices(lambda row: tf.add(row, [10, 20])), ("vectorize", "map"), "with an array"),
    (lambda: Dataset.range(4).map(lambda _: 7).batch(2), ("vectorize", "map"), "same for every sample"),
    (lambda: Dataset.range(4).map(tf.range).padded_batch(2), ("vectorize", "map"), "no map right before a batch"),
    (lambda: mapped(drawing)().shuffle(3), ("swap", "shuffle"), "cannot change places"),
    (plain, ("swap", "batch"), "what can: shuffle before map"),
    (lambda: Dataset.range(4).cache().map(lambda v: tf.random.uniform([])), ("swap", "map"), "freeze what RandomUniform"),
    (lambda: drawn().repeat().cache().take(3), ("swap", "cache"), "freeze what RandomUniform"),
    (plain, ("use-private-threads", "map"), "a number of threads"),
    (lambda: tf.data.TFRecordDataset("none", buffer_size=64), ("set-buffer", "TFRecordDataset", 9), "is no prefetch"),
    (
        lambda: Dataset.range(3).flat_map(tf.function(lambda value: Dataset.range(value).prefetch(1))),
        ("set-buffer", "prefetch", 3),
        "inside a function that the function of flat_map calls",
    ),
    (in_cycles, ("interleave", "interleave"), "is no flat_map"),
]


@pytest.mark.parametrize(("build", "asked", "phrase"), REFUSED, ids=[phrase for _, _, phrase in REFUSED])
def test_a_precondition_that_does_not_hold_is_named(build: Build, asked: tuple[Any, ...], phrase: str) -> None:
    dataset = build()
    with pytest.raises(EditError, match=phrase):
        apply(dataset, [edit(*asked)])


# --- one edit, two changes: the changed statement makes what the changed graph is ---------------------------------------------

# What both say alike; the graph's edits also promise an order that users leave to the default.
SHOWN = ("num_parallel_calls", "cycle_length", "buffer_size", "batch_size", "count", "filename")


def built(code: str) -> Any:
    space: dict[str, Any] = {"tf": tf, "Dataset": tf.data.Dataset}
    exec(code, space)
    return space["ds"]


def coded(dataset: Any, code: str | None = None) -> tuple[Op, ...]:
    return tuple(replace(op, code=code, source="x.py:1") for op in ops_of(graph_def_of(dataset)))


def shown(dataset: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(op.kind, {name: op.parameters[name] for name in SHOWN if name in op.parameters}) for op in coded(dataset)]


HALF = "lambda x: tf.cast(x, tf.float32) / 2"
HALVED = f"ds = Dataset.range(9).map({HALF})"
IN_CYCLES = "ds = Dataset.range(4).interleave(Dataset.range, cycle_length=2"
ANY_ORDER = "ds = Dataset.range(4).flat_map(Dataset.range).shuffle(9)"
CASES: dict[str, tuple[str, tuple[Edit, ...]]] = {
    "map": (f"{HALVED}.batch(3)", (edit("parallelize", "map"),)),
    "the second map": (f"{HALVED}.map({HALF})", (edit("parallelize", "map_2", 2),)),
    "serial interleave": (f"{IN_CYCLES})", (edit("parallelize", "interleave"),)),
    "calls, tuned": (f"{HALVED[:-1]}, num_parallel_calls=2)", (edit("set-parallelism", "map"),)),
    "cycle and calls": (
        f"{IN_CYCLES}, num_parallel_calls=2).shuffle(9)",
        (edit("set-cycle-length", "interleave", 4), edit("set-parallelism", "interleave", 4)),
    ),
    "prefetch": ("ds = Dataset.range(9).prefetch(1)", (edit("set-buffer", "prefetch", 5),)),
    "flat_map": ("ds = Dataset.range(4).flat_map(Dataset.range)", (edit("interleave", "flat_map"),)),
    "flat_map of any order": (ANY_ORDER, (edit("interleave", "flat_map", 3),)),
    "more prefetch": ("ds = Dataset.range(9).batch(3)", (edit("insert-prefetch", "batch"),)),
    "more cache": (f"{HALVED}.shuffle(4)", (edit("insert-cache", "map"),)),
    "batch first": (f"{HALVED}.batch(3)", (edit("vectorize", "map"),)),
    "shuffle first": (f"{HALVED}.shuffle(4, seed=1)", (edit("swap", "shuffle"),)),
    "cache first": ("ds = Dataset.range(9).repeat().cache().take(20)", (edit("swap", "cache"),)),
    "take first": ("ds = Dataset.range(9).cache().take(4)", (edit("swap", "take"),)),
    "several": (
        f"{HALVED}.batch(3)",
        (edit("parallelize", "map"), edit("parallelize", "batch", 2), edit("insert-prefetch", "batch", 1)),
    ),
}


@pytest.mark.parametrize(("code", "edits"), CASES.values(), ids=CASES)
def test_the_changed_statement_makes_what_the_changed_graph_is(code: str, edits: tuple[Edit, ...]) -> None:
    dataset = built(code)
    changed = source_change(edits, coded(dataset, code))
    assert shown(built(changed)) == shown(apply(dataset, edits)) != shown(dataset)


def test_every_kind_that_has_a_place_in_the_source_is_compared() -> None:
    assert {edit.kind for _, edits in CASES.values() for edit in edits} == set(get_args(EditKind)) - {"use-private-threads"}


@pytest.mark.parametrize(
    ("code", "edits"),
    [
        ("ds = Dataset.range(4).interleave(Dataset.range)", (edit("parallelize", "interleave"),)),  # the cycle would be another
        ("ds = Dataset.range(9).shuffle(4).map(lambda x: x)", (edit("insert-cache", "map"),)),  # it would freeze the only mixing
        ("ds = Dataset.range(9).batch(3)", (edit("use-private-threads", "batch", 2),)),
        ("ds = Dataset.range(9).batch(3)", (edit("swap", "batch"), edit("swap", "batch"))),
        ("ds = Dataset.range(9).batch(3)", ()),
    ],
)
def test_no_change_of_the_source_is_shown_that_is_not_sure(code: str, edits: tuple[Edit, ...]) -> None:
    assert source_change(edits, coded(built(code), code)) is None

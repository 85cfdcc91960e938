"""Edits of a whole pipeline: each keeps every element in its place, and each says which of its preconditions does not hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from cs_input_analyzer.records import Edit

pytestmark = pytest.mark.tf

tf: Any = pytest.importorskip("tensorflow")

from cs_input_analyzer.pipeline.edits import EditError, apply  # noqa: E402
from cs_input_analyzer.pipeline.graph import graph_def_of, ops_of  # noqa: E402
from tests.worker.test_equality import ORDERED  # noqa: E402

Dataset = tf.data.Dataset
AUTOTUNE = tf.data.AUTOTUNE
Build = Callable[[], Any]


def elements(dataset: Any, count: int = 40) -> list[Any]:
    return [tf.nest.map_structure(lambda tensor: tensor.numpy().tolist(), element) for element in dataset.take(count)]


def ops(dataset: Any) -> dict[str, Any]:
    return {op.name: op for op in ops_of(graph_def_of(dataset))}


def kinds(dataset: Any) -> list[str]:
    return [op.kind for op in ops(dataset).values()]


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


def shuffled_cycles() -> Any:
    return in_cycles().shuffle(10)


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


def table() -> Any:
    keys = tf.constant([1, 2, 3], tf.int64)
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, keys * 7), -1)


def looked_up() -> Any:
    return Dataset.range(9).map(table().lookup).batch(4)


def named_first() -> Any:
    return Dataset.range(20).map(lambda value: (value, tf.cast(value, tf.float32) * 2)).filter(lambda value, _: value % 3 == 0)


def seeded_shuffle_of_pairs() -> Any:
    return Dataset.range(20).map(pair, num_parallel_calls=2).shuffle(5, seed=4, reshuffle_each_iteration=False)


KEPT: dict[str, tuple[Build, list[Edit]]] = {
    "map in parallel": (plain, [edit("parallelize", "map")]),
    "map on two threads": (plain, [edit("parallelize", "map", 2)]),
    "batch in parallel": (plain, [edit("parallelize", "batch", 4)]),
    "interleave in parallel": (in_cycles, [edit("parallelize", "interleave")]),
    "interleave on two threads": (in_cycles, [edit("parallelize", "interleave", 2)]),
    "number of calls": (in_parallel_cycles, [edit("set-parallelism", "interleave", 4)]),
    "number of calls, tuned": (in_parallel_cycles, [edit("set-parallelism", "interleave")]),
    "flat_map as interleave": (read_in_turn, [edit("interleave", "flat_map")]),
    "prefetch in the middle": (plain, [edit("insert-prefetch", "map")]),
    "prefetch of many": (read_in_turn, [edit("insert-prefetch", "batch", 7)]),
    "cache": (plain, [edit("insert-cache", "map")]),
    "cache of what is repeated so often inside": (
        lambda: Dataset.range(4).flat_map(lambda value: Dataset.range(value).repeat(2)),
        [edit("insert-cache", "flat_map")],
    ),
    "one call becomes two": (lambda: Dataset.range(9).map(pair, num_parallel_calls=1), [edit("set-parallelism", "map", 2)]),
    "cache at the end": (in_cycles, [edit("insert-cache", "interleave")]),
    "buffer": (plain, [edit("set-buffer", "prefetch", 9)]),
    "buffer, tuned": (plain, [edit("set-buffer", "prefetch")]),
    "private threads": (plain, [edit("use-private-threads", "map", 3)]),
    "inside a function": (read_in_turn, [edit("set-buffer", "prefetch", 5)]),
    "map inside a function": (read_in_turn, [edit("parallelize", "map", 2)]),
    "several at once, in and out": (
        read_in_turn,
        [
            edit("interleave", "flat_map"),
            edit("parallelize", "map", 2),
            edit("set-buffer", "prefetch", 3),
            edit("insert-prefetch", "batch"),
        ],
    ),
    "an op inserted does not rename the others": (plain, [edit("insert-prefetch", "range", 1), edit("set-buffer", "prefetch", 5)]),
    "arithmetic over the batch": (lambda: Dataset.range(20).map(pair).batch(3), [edit("vectorize", "map")]),
    "the batch may be named too": (
        lambda: Dataset.range(20).map(pair, num_parallel_calls=2).batch(3, drop_remainder=True),
        [edit("vectorize", "batch")],
    ),
    "parsing over the batch": (lambda: records().map(parse).batch(4), [edit("vectorize", "map"), edit("parallelize", "map")]),
    "a table over the batch": (looked_up, [edit("vectorize", "map")]),
    "a table in parallel": (looked_up, [edit("parallelize", "map")]),
    "filter first": (named_first, [edit("swap", "filter")]),
    "shuffle first": (seeded_shuffle_of_pairs, [edit("swap", "shuffle")]),
    "cache before repeat": (lambda: Dataset.range(4).repeat().cache().take(9), [edit("swap", "cache")]),
    "take before cache": (lambda: Dataset.range(9).cache().take(4).repeat(2), [edit("swap", "take")]),
    "map before cache": (lambda: Dataset.range(9).cache().map(pair).repeat(2), [edit("swap", "map")]),
}


@pytest.mark.parametrize(("build", "edits"), KEPT.values(), ids=KEPT)
def test_every_element_is_where_it_was(build: Build, edits: list[Edit]) -> None:
    dataset = build()
    before = elements(dataset)
    edited = apply(dataset, edits)
    assert elements(edited) == before != []
    assert elements(edited) == before  # and in the next pass
    assert edited.element_spec == dataset.element_spec
    assert int(edited.cardinality()) == int(dataset.cardinality())
    assert elements(dataset) == before  # the original is left alone
    if edits[0].kind != "use-private-threads":
        assert kinds(edited) != kinds(dataset) or [op.parameters for op in ops(edited).values()] != [
            op.parameters for op in ops(dataset).values()
        ]
        assert edited.options() == dataset.options()


def test_what_users_do_not_write_is_what_was_asked_for() -> None:
    assert ops(apply(plain(), [edit("parallelize", "map")]))["map"].parameters["deterministic"] == "true"
    assert kinds(apply(records().map(parse).batch(4), [edit("vectorize", "map")])) == ["TensorSlice", "Batch", "Map"]
    inside = ops(apply(read_in_turn(), [edit("set-buffer", "prefetch", 5)]))["prefetch"]
    assert (inside.within, inside.parameters["buffer_size"]) == ("flat_map", 5)
    assert apply(plain(), [edit("use-private-threads", "map", 3)]).options().threading.private_threadpool_size == 3


def test_a_cycle_is_longer_only_where_order_is_moot() -> None:
    def reader() -> Any:
        return Dataset.range(8).flat_map(lambda value: Dataset.from_tensors(value).repeat(5))

    for build in (
        lambda: reader().shuffle(50),
        lambda: reader().map(lambda v: v + 1).cache().shuffle(50).repeat(2).batch(8).unbatch(),
        lambda: reader().concatenate(Dataset.range(3)).shuffle(50),
    ):
        wider = apply(build(), [edit("interleave", "flat_map", 4)])
        assert ops(wider)["interleave"].parameters["cycle_length"] == 4
        assert Counter(map(int, wider)) == Counter(map(int, build()))
    longer = apply(shuffled_cycles(), [edit("set-cycle-length", "interleave", 4)])
    assert Counter(map(int, longer)) == Counter(map(int, shuffled_cycles()))


@pytest.mark.parametrize("behind", ORDERED.values(), ids=ORDERED)
def test_records_that_are_neighbours_stay_neighbours_where_that_shows(behind: Callable[[Any], Any]) -> None:
    """A shuffle of the names of the files leaves that as it is, and one of what it gives comes too late."""
    dataset = behind(Dataset.range(8).shuffle(8).flat_map(lambda value: Dataset.range(value * 10, value * 10 + 5)))
    name = next(op.name for op in ops(dataset).values() if op.kind == "FlatMap" and op.within is None)
    opened = ops(apply(dataset, [edit("interleave", name)]))
    assert [op.parameters["cycle_length"] for op in opened.values() if op.kind == "ParallelInterleave"] == [1]
    with pytest.raises(EditError, match=f"order after {name} is promised"):
        apply(dataset, [edit("interleave", name, 4)])


@pytest.mark.parametrize(
    ("behind", "is_free"),
    [
        ((), True),
        ((lambda dataset: dataset.batch(3),), True),
        ((lambda dataset: dataset.take(7),), False),
        ((lambda dataset: dataset.window(3).flat_map(lambda window: window.batch(3)),), False),
    ],
)
def test_an_op_that_may_give_any_order_frees_that_of_its_batches_and_not_who_is_first(behind: Any, is_free: bool) -> None:
    dataset = Dataset.range(6).interleave(Dataset.range, cycle_length=2, num_parallel_calls=2, deterministic=False)
    for step in behind:
        dataset = step(dataset)
    if is_free:
        assert ops(apply(dataset, [edit("set-cycle-length", "interleave", 4)]))["interleave"].parameters["cycle_length"] == 4
    else:
        with pytest.raises(EditError, match="order after interleave is promised"):
            apply(dataset, [edit("set-cycle-length", "interleave", 4)])


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
    assert elements(edited) == [-1, 7, 14, 21]


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


def printed(value: Any) -> Any:
    tf.print(value)
    return value


def with_variable() -> Any:
    variable = tf.Variable(3, dtype=tf.int64)
    return Dataset.range(4).map(lambda value: value + variable)


def with_mutable_table() -> Any:
    changing = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1)
    return Dataset.range(4).map(changing.lookup)


def made_by_python() -> Any:
    return Dataset.from_generator(lambda: iter(range(3)), output_signature=tf.TensorSpec([], tf.int64)).map(lambda value: value + 1)


REFUSED: dict[str, tuple[Build, Edit, str]] = {
    "no such op": (plain, edit("parallelize", "map_7"), "no op map_7"),
    "parallel already": (in_parallel_cycles, edit("parallelize", "interleave"), "no serial map, batch or interleave"),
    "python": (lambda: Dataset.range(3).map(stateful_python), edit("parallelize", "map"), r"calls Python \(PyFunc"),
    "seeded draws": (
        lambda: Dataset.range(3).map(lambda value: tf.random.uniform([], seed=4)),
        edit("parallelize", "map"),
        r"seed \(RandomUniform",
    ),
    "printing": (lambda: Dataset.range(3).map(printed), edit("parallelize", "map"), r"a stateful op \(PrintV2"),
    "one call, python": (
        lambda: Dataset.range(3).map(stateful_python, num_parallel_calls=1),
        edit("set-parallelism", "map"),
        r"calls Python \(PyFunc",
    ),
    "one call, seeded draws": (
        lambda: Dataset.range(3).map(lambda value: tf.random.uniform([], seed=4), num_parallel_calls=1),
        edit("set-parallelism", "map", 2),
        r"seed \(RandomUniform",
    ),
    "one call, seeded draws in an interleave": (
        lambda: Dataset.range(3).interleave(
            lambda value: Dataset.range(3).map(lambda inner: tf.random.uniform([], seed=4)), cycle_length=2, num_parallel_calls=1
        ),
        edit("set-parallelism", "interleave", 2),
        r"seed \(RandomUniform",
    ),
    "python in another order": (
        lambda: Dataset.range(6).interleave(lambda value: Dataset.range(3).map(stateful_python), cycle_length=2).shuffle(9),
        edit("set-cycle-length", "interleave", 3),
        r"calls Python \(PyFunc",
    ),
    "as many inputs as TensorFlow likes": (
        lambda: Dataset.range(3).flat_map(lambda value: Dataset.range(4).interleave(Dataset.range)),
        edit("parallelize", "interleave"),
        "which are others in parallel",
    ),
    "a number that cannot be tuned": (
        lambda: tf.data.TFRecordDataset(["a", "b"], num_parallel_reads=2).shuffle(9),
        edit("set-cycle-length", "interleave"),
        "which TensorFlow cannot tune",
    ),
    "a variable": (with_variable, edit("insert-prefetch", "map"), "holds a variable"),
    "a table that changes": (with_mutable_table, edit("insert-prefetch", "map"), "holds a table that can change"),
    "order is promised": (read_in_turn, edit("interleave", "flat_map", 4), "order after flat_map is promised"),
    "order of a cycle is promised": (in_cycles, edit("set-cycle-length", "interleave", 4), "order after interleave is promised"),
    "a seed promises order": (
        lambda: in_cycles().shuffle(10, seed=3),
        edit("set-cycle-length", "interleave", 4),
        "order after interleave is promised",
    ),
    "a shuffle of one shuffles nothing": (
        lambda: in_cycles().shuffle(1),
        edit("set-cycle-length", "interleave", 4),
        "order after interleave is promised",
    ),
    "more calls than inputs": (in_parallel_cycles, edit("set-parallelism", "interleave", 9), "it opens 4 inputs"),
    "fewer inputs than calls": (
        lambda: in_parallel_cycles().shuffle(9),
        edit("set-cycle-length", "interleave", 1),
        "must open as many inputs",
    ),
    "parallelism of a serial op": (plain, edit("set-parallelism", "map", 2), "no constant number of parallel calls"),
    "nonsense number": (plain, edit("set-buffer", "prefetch", 0), "needs 1 or more"),
    "buffer of a shuffle": (lambda: Dataset.range(3).shuffle(2), edit("set-buffer", "shuffle", 5), "decides the order"),
    "prefetch twice": (plain, edit("insert-prefetch", "batch"), "a prefetch after batch already"),
    "prefetch after prefetch": (plain, edit("insert-prefetch", "prefetch"), "a prefetch after prefetch already"),
    "cache of draws": (drawn, edit("insert-cache", "map"), "would freeze what RandomUniform gave"),
    "cache after draws": (lambda: drawn().map(lambda a, b: b), edit("insert-cache", "map_2"), "would freeze what RandomUniform"),
    "cache of a shuffle": (
        lambda: Dataset.range(4).shuffle(4).map(pair),
        edit("insert-cache", "map"),
        "freeze the order of the shuffle",
    ),
    "cache of the endless": (lambda: Dataset.range(4).repeat().map(pair).take(3), edit("insert-cache", "map"), "is repeated"),
    "cache of what is endless inside": (
        lambda: Dataset.range(4).interleave(lambda value: Dataset.range(value + 1).repeat(), cycle_length=2).map(pair).take(9),
        edit("insert-cache", "map"),
        "inside a function, maybe without end",
    ),
    "cache of what may be endless inside": (
        lambda: Dataset.range(4).flat_map(lambda value: Dataset.range(3).repeat(value)),
        edit("insert-cache", "flat_map"),
        "inside a function, maybe without end",
    ),
    "cache of python": (lambda: Dataset.range(3).map(stateful_python), edit("insert-cache", "map"), r"freeze what Python \(PyFunc"),
    "cache of a generator": (made_by_python, edit("insert-cache", "map"), "GeneratorDataset|Python"),
    "cache inside": (read_in_turn, edit("insert-cache", "map"), "inside a function"),
    "cache twice": (lambda: Dataset.range(3).map(pair).cache(), edit("insert-cache", "map"), "a cache after map already"),
    "vectorize draws": (lambda: drawn().batch(2), edit("vectorize", "map"), "one draw for each sample"),
    "vectorize slices": (
        lambda: Dataset.from_tensor_slices([[1, 2], [3, 4]]).map(lambda row: row[:1]).batch(2),
        edit("vectorize", "map"),
        "it calls StridedSlice",
    ),
    "vectorize sums": (
        lambda: Dataset.from_tensor_slices([[1, 2], [3, 4]]).map(tf.reduce_sum).batch(2),
        edit("vectorize", "map"),
        "cannot take a whole batch: it calls",
    ),
    "vectorize ranks": (
        lambda: Dataset.from_tensor_slices(([[1, 2], [3, 4]], [5, 6])).map(lambda row, one: row * one).batch(2),
        edit("vectorize", "map"),
        "tensors of different ranks",
    ),
    "vectorize arrays": (
        lambda: Dataset.from_tensor_slices([[1, 2], [3, 4]]).map(lambda row: tf.add(row, [10, 20])).batch(2),
        edit("vectorize", "map"),
        "with an array",
    ),
    "vectorize constants": (lambda: Dataset.range(4).map(lambda _: 7).batch(2), edit("vectorize", "map"), "same for every sample"),
    "vectorize ragged rows": (
        lambda: Dataset.range(4).map(tf.range).map(lambda row: row * 2).padded_batch(2),
        edit("vectorize", "map_2"),
        "no map right before a batch",
    ),
    "vectorize unbatched": (lambda: Dataset.range(4).map(pair), edit("vectorize", "map"), "no map right before a batch"),
    "filter on what is made": (
        lambda: Dataset.range(9).map(lambda value: value * 2).filter(lambda value: value > 4),
        edit("swap", "filter"),
        "component 0, which the map makes",
    ),
    "swap of draws": (
        lambda: Dataset.range(4).map(lambda value: tf.random.uniform([], seed=1)).shuffle(3),
        edit("swap", "shuffle"),
        "cannot change places",
    ),
    "swap of anything": (plain, edit("swap", "batch"), "what can: filter before map"),
    "cached draws": (
        lambda: Dataset.range(4).cache().map(lambda v: tf.random.uniform([])),
        edit("swap", "map"),
        "freeze what RandomUniform",
    ),
    "repeated draws": (lambda: drawn().repeat().cache().take(3), edit("swap", "cache"), "freeze what RandomUniform"),
    "threads without a number": (plain, edit("use-private-threads", "map"), "a number of threads"),
    "reader without a number": (
        lambda: tf.data.TFRecordDataset("none", buffer_size=64),
        edit("set-buffer", "TFRecordDataset"),
        "number of bytes",
    ),
    "called by another function": (
        lambda: Dataset.range(3).flat_map(tf.function(lambda value: Dataset.range(value).prefetch(1))),
        edit("set-buffer", "prefetch", 3),
        "inside a function that the function of flat_map calls",
    ),
    "no flat_map": (in_cycles, edit("interleave", "interleave"), "is no flat_map"),
}


@pytest.mark.parametrize(("build", "asked", "phrase"), REFUSED.values(), ids=REFUSED)
def test_a_precondition_that_does_not_hold_is_named(build: Build, asked: Edit, phrase: str) -> None:
    dataset = build()
    with pytest.raises(EditError, match=phrase):
        apply(dataset, [asked])

"""The proof that two pipelines give the same: true for edits that change nothing else, refused for every planted difference."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np
import pytest

from cs_input_analyzer.records import Edit

pytestmark = pytest.mark.tf

tf: Any = pytest.importorskip("tensorflow")

from cs_input_analyzer.tfdata.edits import apply  # noqa: E402
from cs_input_analyzer.tfdata.edits.difference import parting, read, turns  # noqa: E402
from cs_input_analyzer.worker.equality import FEW_INPUTS, Proof, prove  # noqa: E402

Dataset = tf.data.Dataset


def proof(original: Any, edited: Any, seconds: float = 20) -> Proof:
    return prove(original, edited, seconds=seconds)


def edited(dataset: Any, *edits: tuple[Any, str, int | None]) -> Any:
    return apply(dataset, [Edit(kind=kind, op=op, value=value) for kind, op, value in edits])


def numbers() -> Any:
    return Dataset.range(24)


def endless() -> Any:
    return numbers().shuffle(9).repeat().map(lambda value: value * 2).batch(4).prefetch(1)


def augmented() -> Any:
    return numbers().map(lambda value: (value, tf.random.uniform([3]) < 0.5, tf.random.normal([]))).batch(4)


def read_in_turn(shuffle_files: bool = False, shuffle: bool = False) -> Any:
    files = Dataset.range(7)
    files = files.shuffle(7) if shuffle_files else files
    dataset = files.flat_map(lambda value: Dataset.from_tensors(value).repeat(5))
    dataset = dataset.shuffle(6) if shuffle else dataset
    return dataset.map(lambda value: value * 2).batch(4, drop_remainder=True).repeat()


def odd_elements() -> Any:
    """NaN, ragged, sparse, strings, an optional component that is None, and a 0-dimensional one."""
    return numbers().map(
        lambda value: {
            "nan": tf.constant(float("nan")),
            "ragged": tf.RaggedTensor.from_row_splits(tf.range(value), [0, value // 2, value]),
            "sparse": tf.sparse.from_dense([value, 0, 1]),
            "text": tf.strings.as_string(value),
            "none": None,
        }
    )


def interleaved(cycle: int) -> Any:
    return Dataset.range(6).interleave(
        lambda v: Dataset.range(v * 10, v * 10 + 5), cycle_length=cycle, num_parallel_calls=2, deterministic=False
    )


def mapped(function: Callable[[Any], Any], **more: Any) -> Any:
    return numbers().map(function, **more)


def plus_one(value: Any) -> Any:
    return value + 1


def with_draw(value: Any) -> Any:
    return value, tf.random.uniform([])


def looked_up() -> Any:
    keys = tf.constant([1, 2], tf.int64)
    return mapped(tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, keys), -1).lookup)


def by_python(function: Callable[[Any], Any]) -> Any:
    return mapped(lambda value: tf.ensure_shape(tf.numpy_function(function, [value], tf.int64), []))


GENERATORS = (random.Random(3), np.random.default_rng(3), np.random.RandomState(3))


def drawn(value: Any) -> Any:
    """Add what each kind of Python's generators draws."""
    own = GENERATORS[0].randrange(99) + GENERATORS[1].integers(99) + GENERATORS[2].randint(99)
    return np.int64(value + own + random.randrange(99) + np.random.randint(99))


class Jitter:
    """An augmentation with a generator of its own."""

    def __init__(self) -> None:
        self.draw = np.random.default_rng()

    def __call__(self, value: Any) -> Any:
        return self.method(value)

    def method(self, value: Any) -> Any:
        return np.int64(value + self.draw.integers(9999))


def drawing() -> Iterator[int]:
    """Elements in an order that each pass draws."""
    yield from random.sample(range(1000), 40)


def by_py_function(function: Callable[[Any], Any]) -> Any:
    return mapped(lambda value: tf.ensure_shape(tf.py_function(lambda one: function(one.numpy()), [value], tf.int64), []))


def drawn_before(build: Callable[[], Any]) -> Any:
    """Costly work in a serial map, then Python that draws, then a shuffle: as many write it."""
    return build().shuffle(100).batch(4).repeat()


# The pipeline, and kind, op and value of each edit.
SAME: dict[str, tuple[Any, ...]] = {
    "endless and shuffled": (endless, ("parallelize", "map", 2), ("set-buffer", "prefetch", 5)),
    "augmented": (augmented, ("parallelize", "map", None)),
    "cache before augmentation": (lambda: mapped(plus_one).map(with_draw).repeat(), ("insert-cache", "map", None)),
    "odd elements": (odd_elements, ("parallelize", "map", 2), ("insert-prefetch", "map", None)),
    "files shuffled, in turn": (lambda: read_in_turn(shuffle_files=True), ("interleave", "flat_map", None)),
    "in turn, order promised": (read_in_turn, ("interleave", "flat_map", None)),
    "Python that draws": (lambda: by_python(drawn), ("insert-prefetch", "map", None)),
    "Python that draws, eager": (lambda: by_py_function(drawn), ("insert-prefetch", "map", None)),
    "Python with a generator of its own": (lambda: by_python(Jitter().method), ("insert-prefetch", "map", None)),
    "Python that can be called": (lambda: by_python(Jitter()), ("insert-prefetch", "map", None)),
    "Python that draws before a shuffle": (
        lambda: drawn_before(lambda: mapped(plus_one).map(lambda v: tf.numpy_function(drawn, [v], tf.int64))),
        *(("parallelize", "map", None), ("insert-prefetch", "batch", None)),
    ),
    "table": (looked_up, ("parallelize", "map", None)),
    "generator": (
        lambda: Dataset.from_generator(lambda: iter(range(9)), output_signature=tf.TensorSpec([], tf.int64)).batch(2),
        ("insert-prefetch", "batch", None),
    ),
    "python that always gives the same": (lambda: by_python(plus_one), ("insert-prefetch", "map", None)),
    "unknown cardinality": (lambda: numbers().filter(lambda v: v % 3 == 0).map(plus_one), ("parallelize", "map", None)),
    "several at once, order moot in one": (
        lambda: read_in_turn(shuffle=True),
        *(("interleave", "flat_map", 4), ("parallelize", "map", 2), ("parallelize", "batch", 2), ("insert-prefetch", "repeat", 2)),
    ),
    "any order, in batches": (lambda: interleaved(2).map(plus_one).batch(4).repeat(), ("set-cycle-length", "interleave", 5)),
    "wider, a cache between": (
        lambda: Dataset.range(7).flat_map(lambda v: Dataset.range(v)).cache().shuffle(6).repeat().batch(4),
        ("interleave", "flat_map", 4),
    ),
    "a cache moved": (lambda: numbers().cache().map(plus_one).repeat(), ("swap", "map", None)),
    "a cache in a file": (lambda: mapped(plus_one).cache("/nowhere/at/all").batch(2), ("parallelize", "map", None)),
    "no element in a tensor": (lambda: mapped(lambda _: (tf.zeros([0]), tf.zeros([2, 0, 3]))), ("parallelize", "map", None)),
}


@pytest.mark.parametrize("case", SAME.values(), ids=SAME)
def test_edits_that_change_only_speed_are_proven(case: tuple[Any, ...]) -> None:
    dataset = case[0]()
    found = proof(dataset, edited(dataset, *case[1:]))
    assert found.status == "proven", found
    assert found.elements > 0


def divided() -> Any:
    return mapped(lambda v: tf.debugging.check_numerics(tf.cast(v, tf.float32) / tf.cast(v - 2, tf.float32), "zero"))


def repeated_inside(count: Callable[[Any], Any]) -> Any:
    return Dataset.range(8).flat_map(lambda v: Dataset.from_tensors(v).repeat(count(v))).shuffle(8).batch(2)


counter = count()
PLANTED: dict[str, tuple[Callable[[], Any], Callable[[], Any], str]] = {
    "one element less": (lambda: numbers().filter(lambda v: v >= 0), lambda: numbers().filter(lambda v: v < 23), "ends after 23"),
    "one element less, known": (numbers, lambda: numbers().take(23), "23 elements in a pass instead of 24"),
    "two swapped": (numbers, lambda: Dataset.from_tensor_slices(tf.constant([1, 0, *range(2, 24)], tf.int64)), "element 0 differs"),
    "another type": (numbers, lambda: mapped(lambda v: tf.cast(v, tf.int32)), "of another kind"),
    "another shape": (lambda: numbers().batch(4), lambda: numbers().batch(4, drop_remainder=True), "of another kind"),
    "endless": (numbers, lambda: numbers().repeat(), "endless elements"),
    "a bit": (
        lambda: mapped(lambda v: tf.cast(v, tf.float32)),
        *(lambda: mapped(lambda v: tf.cast(v, tf.float32) * 1.0000001), "differs"),
    ),
    "minus zero": (lambda: mapped(lambda v: tf.constant(0.0)), lambda: mapped(lambda v: tf.constant(-0.0)), "element 0 differs"),
    "shuffled": (numbers, lambda: numbers().shuffle(9), "does not shuffle as the original"),
    "shuffled less": (lambda: numbers().shuffle(9), lambda: numbers().shuffle(2), "does not shuffle as the original"),
    "any order": (
        lambda: mapped(lambda v: v, num_parallel_calls=2, deterministic=True),
        *(lambda: mapped(lambda v: v, num_parallel_calls=2, deterministic=False), "may change from run to run"),
    ),
    "frozen augmentation": (
        lambda: mapped(with_draw).repeat(2),
        *(lambda: mapped(with_draw).cache().repeat(2), "kept from one pass to the next"),
    ),
    "another seed": (
        lambda: numbers().shuffle(9, seed=1),
        lambda: numbers().shuffle(9, seed=2),
        "does not shuffle as the original",
    ),
    "sparse elsewhere": (
        lambda: mapped(lambda v: tf.sparse.from_dense([0, 1, 0])),
        *(lambda: mapped(lambda v: tf.sparse.from_dense([1, 0, 0])), "element 0 differs"),
    ),
    "no augmentation": (lambda: mapped(with_draw), lambda: mapped(lambda v: (v, tf.constant(0.5))), "drawn at random|differs"),
    "lost behind a shuffle": (
        lambda: numbers().filter(lambda v: v >= 0).shuffle(9).batch(3),
        *(lambda: numbers().filter(lambda v: v < 23).shuffle(9).batch(3), "1 are missing and 0 are new"),
    ),
    "doubled before a shuffle": (
        lambda: repeated_inside(lambda v: 2),
        *(lambda: repeated_inside(lambda v: 2 + tf.cast(v == 3, tf.int64)), "0 are missing and 1 are new"),
    ),
    "other batches before a shuffle": (
        lambda: Dataset.range(8).flat_map(Dataset.range).batch(2).shuffle(9),
        *(lambda: Dataset.range(8).interleave(Dataset.range, cycle_length=3).batch(2).shuffle(9), "are missing"),
    ),
    "python that counts": (
        lambda: by_python(lambda _: next(counter)),
        *(lambda: by_python(lambda _: next(counter)), "its Python code may give something else"),
    ),
    "python that draws other numbers": (
        lambda: by_python(drawn),
        *(lambda: by_python(lambda value: drawn(value) + 1), "element 0 differs"),
    ),
    "a generator that draws": (
        lambda: Dataset.from_generator(drawing, output_signature=tf.TensorSpec([], tf.int64)),
        *(lambda: Dataset.from_generator(drawing, output_signature=tf.TensorSpec([], tf.int64)), "its Python code may give"),
    ),
    "nothing at all": (lambda: numbers().filter(lambda v: v < 0), lambda: numbers().filter(lambda v: v < 0), "no element"),
    "fails": (divided, divided, "the original fails at element 2"),
    "ragged rows split elsewhere": (
        lambda: mapped(lambda v: tf.RaggedTensor.from_row_splits([1, 2, 3], [0, 1, 3])),
        *(lambda: mapped(lambda v: tf.RaggedTensor.from_row_splits([1, 2, 3], [0, 2, 3])), "element 0 differs"),
    ),
}


def files_of(lengths: tuple[int, ...], cycle: int, *, shuffle: bool = False) -> Any:
    """Files of so many records, read `cycle` at a time; each record its own number."""
    each = tf.constant(lengths, tf.int64)
    names = Dataset.range(len(lengths))
    names = names.shuffle(len(lengths)) if shuffle else names
    return names.interleave(lambda file: Dataset.range(file * 1000, file * 1000 + each[file]), cycle_length=cycle)


# What the elements are, where the records of files come in another order: which are neighbours, which come first.
ORDERED: dict[str, Callable[[Any], Any]] = {
    "as they come": lambda records: records,
    "batches": lambda records: records.batch(5),
    "windows": lambda records: records.window(5, drop_remainder=True).flat_map(lambda window: window.batch(5)),
    "running sums": lambda records: records.scan(tf.constant(0, tf.int64), lambda state, value: (state + value, state + value)),
    "the first ones": lambda records: records.take(7),
    "the first ones, shuffled": lambda records: records.take(7).shuffle(9),
    "the first of the shuffled": lambda records: records.shuffle(4).take(7),
    "all but the first of the shuffled": lambda records: records.shuffle(4).skip(7),
    "up to one": lambda records: records.take_while(lambda value: value != 1002),
    "the first of each": lambda records: records.map(lambda value: value % 7).unique(),
    "numbered": lambda records: records.enumerate(),
    "paired with the shuffled": lambda records: Dataset.zip((records, records.shuffle(9))),
    "shuffled by seed": lambda records: records.shuffle(9, seed=4),
}


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("behind", ORDERED.values(), ids=ORDERED)
def test_an_order_of_records_is_not_freed_by_that_of_their_files(behind: Callable[[Any], Any], shuffle: bool) -> None:
    original, other = (behind(files_of((6, 5, 6, 5), cycle, shuffle=shuffle)) for cycle in (1, 3))
    found = proof(original, other)
    assert found.status == "refused", found


@pytest.mark.parametrize("behind", ["take", "window"])
def test_an_op_that_may_give_any_order_does_not_free_who_is_first(behind: str) -> None:
    def build(cycle: int) -> Any:
        records = interleaved(cycle)
        return records.take(9) if behind == "take" else records.window(3).flat_map(lambda window: window.batch(3))

    assert proof(build(2), build(5)).status == "refused"


@pytest.mark.parametrize("lengths", [(1, 2), (2, 1)])
def test_a_pass_in_one_order_of_the_files_stands_for_no_other(lengths: tuple[int, int]) -> None:
    """Read in turn or both at a time, the short file first gives the same; the names are shuffled, so it may come last."""
    found = proof(files_of(lengths, 1, shuffle=True), files_of(lengths, 2, shuffle=True))
    assert found.status == "refused", found
    # In the order that is promised the first ends before the second begins, or they differ.
    in_turn = proof(files_of(lengths, 1), files_of(lengths, 2))
    assert in_turn.status == ("proven" if lengths[0] == 1 else "refused"), in_turn


@pytest.fixture
def ticking(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that goes on by so much whenever it is read."""
    ticks = count()
    monkeypatch.setattr("time.monotonic", lambda: next(ticks) * request.param)


@pytest.mark.parametrize("ticking", [0.01], indirect=True)
@pytest.mark.usefixtures("ticking")
def test_the_first_ones_do_not_stand_for_what_another_cycle_gives_later() -> None:
    """Four files, of each 256 records at a time: the fifth file comes into it after a thousand records."""

    def build(cycle: int) -> Any:
        read = Dataset.range(64).interleave(
            lambda file: Dataset.range(file * 1000, file * 1000 + 1000), cycle_length=cycle, block_length=256
        )
        return read.take(9000).shuffle(16).batch(4)

    assert prove(build(4), build(4).prefetch(2), seconds=1).reason == "the first ones, in order"
    found = prove(build(4), build(8), seconds=1)
    assert found.status == "refused", found
    assert found.elements < 256


FEW = {
    "the first ones": lambda read: read(1).take(600_000).shuffle(100),
    "batches": lambda read: read(16).batch(64).shuffle(32),
    "running sums": lambda read: read(1).scan(tf.constant(0, tf.int64), lambda state, value: (state + value, state)).shuffle(9),
    "python": lambda read: read(1).map(lambda v: tf.numpy_function(lambda number: number, [v], tf.int64)).shuffle(9),
}


@pytest.mark.parametrize("build", FEW.values(), ids=FEW)
def test_a_few_files_stand_for_none_where_what_lies_between_looks_at_more_than_one_record(build: Callable[[Any], Any]) -> None:
    """With a few of them all are open at a time, and nothing is cut off; with all of them that is not so."""

    def reader(factor: int) -> Callable[[int], Any]:
        return lambda cycle: Dataset.range(20_000).interleave(
            lambda file: Dataset.range(file * 60, file * 60 + 60), cycle_length=cycle * factor
        )

    original, other = build(reader(1)), build(reader(4))
    where = parting(read(original), read(other))
    assert where is None or where.sources is None
    assert proof(original, other, seconds=2).status == "refused"


def test_turns_are_those_of_the_op_that_takes_them() -> None:
    def of(dataset: Any) -> Any:
        return turns(read(dataset).ops)

    one = of(files_of((3, 4), 1).map(lambda value: value).shuffle(3))
    assert of(files_of((3, 4), 1).prefetch(2).map(lambda value: value).cache().shuffle(3)) == one
    assert of(edited(Dataset.range(2).flat_map(Dataset.range), ("interleave", "flat_map", None)).map(plus_one).shuffle(3)) == one
    assert of(files_of((3, 4), 2)) != one
    of_two = [Dataset.range(2).interleave(Dataset.range, cycle_length=2, block_length=block) for block in (1, 2)]
    assert of(of_two[0]) != of(of_two[1])
    assert of(edited(of_two[0], ("parallelize", "interleave", 2))) == of(of_two[0])
    # Inside a function the graph does not tell what TensorFlow will choose: by the calls, and by the CPUs.
    inner = [
        Dataset.range(2).flat_map(lambda _, calls=calls: Dataset.range(3).interleave(Dataset.range, num_parallel_calls=calls))
        for calls in (None, 2)
    ]
    assert of(inner[0]) != of(inner[1])
    assert proof(*inner).status == "refused"


def printed(value: Any) -> Any:
    tf.print(value)
    return value


def with_generator() -> Any:
    generator = tf.random.Generator.from_seed(1)
    return numbers().map(lambda value: generator.uniform([]))


INCOMPARABLE: dict[str, tuple[Callable[[], Any], str]] = {
    "datasets": (lambda: numbers().window(3), "its elements are datasets"),
    "optionals": (lambda: numbers().map(tf.experimental.Optional.from_value), "Optional"),
    "generator": (with_generator, r"stateful op \(RngReadAndSkip\)"),
    "gamma draws": (lambda: numbers().map(lambda v: tf.random.gamma([], 1.0)), r"stateful op \(RandomGamma\)"),
    "printing": (lambda: numbers().map(printed), r"stateful op \(PrintV2\)"),
    "snapshot": (lambda: numbers().snapshot("/nowhere/at/all"), "writes files"),
}
PLANTED |= {name: (build, build, phrase) for name, (build, phrase) in INCOMPARABLE.items()}


@pytest.mark.parametrize(("build", "other", "phrase"), PLANTED.values(), ids=PLANTED)
def test_what_is_not_the_same_is_refused_and_named(build: Callable[[], Any], other: Callable[[], Any], phrase: str) -> None:
    found = proof(build(), other())
    assert found.status == "refused", found
    assert re.search(phrase, found.reason), found


def test_a_service_is_declined_by_name() -> None:
    dispatcher = tf.data.experimental.service.DispatchServer()
    worker = tf.data.experimental.service.WorkerServer(
        tf.data.experimental.service.WorkerConfig(dispatcher_address=dispatcher.target.split("://")[1])
    )
    dataset = numbers().apply(tf.data.experimental.service.distribute("parallel_epochs", dispatcher.target))
    found = proof(dataset, dataset)
    worker._stop()
    dispatcher._stop()
    assert found.status == "refused"
    assert "tf.data service" in found.reason


@pytest.mark.parametrize("ticking", [0.01], indirect=True)
@pytest.mark.usefixtures("ticking")
def test_a_part_of_a_shuffled_pass_proves_nothing() -> None:
    """The clock runs out before the pass is over: one that is compared as a whole may not pass for proven."""
    dataset = Dataset.range(400).flat_map(lambda value: Dataset.from_tensors(value).repeat(40)).shuffle(400)
    wider = edited(dataset, ("interleave", "flat_map", 4))
    found = prove(dataset, wider, seconds=1)
    assert found.status == "refused"
    assert "whole pass" in found.reason


@pytest.mark.long
def test_what_the_two_have_in_common_may_lie_further_up_than_what_differs() -> None:
    """Ops after the edited one are alike, and a part of what comes before it stands for all of that."""

    def reader() -> Any:
        names = Dataset.range(20_000).map(lambda value: value + 1).prefetch(2)
        records = names.flat_map(lambda value: Dataset.from_tensors(value).repeat(60))
        return records.map(lambda value: value * 3).filter(lambda value: value % 2 == 0).shuffle(100).batch(7)

    found = proof(reader(), edited(reader(), ("interleave", "flat_map", 4)), seconds=16)
    assert found.status == "proven"
    assert "the first" in found.reason
    assert found.elements in [inputs // 2 * 60 for inputs in FEW_INPUTS]


def test_where_nothing_is_in_common_no_part_stands_for_all() -> None:
    pair = [read(Dataset.range(first, first + 40).map(lambda value: value + 1).shuffle(9).batch(2)) for first in (0, 2)]
    found = parting(*pair)
    assert found.sources is None


def test_the_users_own_dataset_is_not_moved() -> None:
    def build() -> Any:
        return numbers().shuffle(24, seed=5).cache().batch(4)

    dataset, fresh = build(), build()
    proof(dataset, edited(dataset, ("insert-prefetch", "batch", None)))
    assert [batch.numpy().tolist() for batch in dataset] == [batch.numpy().tolist() for batch in fresh]


@pytest.mark.parametrize("ticking", [1.0], indirect=True)
@pytest.mark.usefixtures("ticking")
def test_too_few_elements_prove_nothing() -> None:
    dataset = numbers().repeat().batch(4)
    found = prove(dataset, edited(dataset, ("insert-prefetch", "batch", None)), seconds=2)
    assert found.status == "refused"
    assert "came to be compared in the time there was" in found.reason
    assert found.elements < 4


def test_leave_to_reorder_may_not_move_to_another_op() -> None:
    def build(first: bool, second: bool) -> Any:
        mapped = numbers().map(lambda value: value + 1, num_parallel_calls=2, deterministic=first)
        return mapped.map(lambda value: value * 2, num_parallel_calls=2, deterministic=second)

    assert proof(build(True, False), build(True, False)).status == "proven"
    assert proof(build(True, False), build(True, True)).status == "proven"  # less leave than before
    assert "from run to run" in proof(build(True, False), build(False, True)).reason

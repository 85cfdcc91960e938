"""The proof that two pipelines give the same: true for edits that change nothing else, refused for every planted difference."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.tf

tf: Any = pytest.importorskip("tensorflow")

from cs_input_analyzer.tfdata.edits import apply  # noqa: E402
from cs_input_analyzer.tfdata.edits.difference import parting, read, turns  # noqa: E402
from cs_input_analyzer.trial import equality  # noqa: E402
from tests.tfdata.written import ORDERED, built, draw, edits_of, generated, printed  # noqa: E402, F401

Dataset = tf.data.Dataset


def dataset(code: str) -> Any:
    return built(code, globals())


def edited(original: Any, *asked: tuple[Any, ...]) -> Any:
    return apply(original, edits_of(*asked))


def proof(original: Any, other: Any, seconds: float = 20) -> equality.Proof:
    return equality.prove(original, other, seconds=seconds)


def _tick(monkeypatch: pytest.MonkeyPatch, step_s: float) -> None:
    ticks = count()
    monkeypatch.setattr("time.monotonic", lambda: next(ticks) * step_s)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare endless pipelines for some hundred elements, however busy the host is."""
    _tick(monkeypatch, 0.005)


@pytest.fixture
def ticking(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that goes on by so much whenever it is read."""
    _tick(monkeypatch, request.param)


# --- what users write ---------------------------------------------------------------------------------------------------------


def numbers() -> Any:
    return Dataset.range(24)


def plus_one(value: Any) -> Any:
    return value + 1


def odd(value: Any) -> dict[str, Any]:
    """NaN, ragged, sparse, strings, an optional component that is None, and tensors without an element."""
    return {
        "nan": tf.constant(float("nan")),
        "ragged": tf.RaggedTensor.from_row_splits(tf.range(value), [0, value // 2, value]),
        "sparse": tf.sparse.from_dense([value, 0, 1]),
        "text": tf.strings.as_string(value),
        "none": None,
        "empty": (tf.zeros([0]), tf.zeros([2, 0, 3])),
    }


def read_in_turn(names: Any) -> Any:
    return names.flat_map(lambda value: Dataset.from_tensors(value).repeat(5))


def repeated(counts: Callable[[Any], Any]) -> Any:
    return Dataset.range(8).flat_map(lambda v: Dataset.from_tensors(v).repeat(counts(v))).shuffle(8).batch(2)


def any_order(cycle: int) -> Any:
    names = Dataset.range(6)
    inner = lambda v: Dataset.range(v * 10, v * 10 + 5)  # noqa: E731
    return names.interleave(inner, cycle_length=cycle, num_parallel_calls=2, deterministic=False)


def files_of(lengths: tuple[int, ...], cycle: int, *, shuffle: bool = False) -> Any:
    """Files of so many records, read `cycle` at a time; each record its own number."""
    each = tf.constant(lengths, tf.int64)
    names = Dataset.range(len(lengths))
    names = names.shuffle(len(lengths)) if shuffle else names
    return names.interleave(lambda file: Dataset.range(file * 1000, file * 1000 + each[file]), cycle_length=cycle)


def table() -> Any:
    keys = tf.constant([1, 2], tf.int64)
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, keys), -1)


def reordering(first: bool, second: bool) -> Any:
    """Two parallel maps that may, or may not, give their elements in any order."""
    mapped = numbers().map(plus_one, num_parallel_calls=2, deterministic=not first)
    return mapped.map(lambda value: value * 2, num_parallel_calls=2, deterministic=not second)


def with_generator() -> Any:
    generator = tf.random.Generator.from_seed(1)
    return numbers().map(lambda value: generator.uniform([]))


def by_python(function: Callable[[Any], Any]) -> Any:
    return numbers().map(lambda value: tf.ensure_shape(tf.numpy_function(function, [value], tf.int64), []))


def by_py_function(function: Callable[[Any], Any]) -> Any:
    return numbers().map(lambda value: tf.ensure_shape(tf.py_function(lambda one: function(one.numpy()), [value], tf.int64), []))


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


def drawing() -> Any:
    """A generator of elements in an order that each pass draws."""

    def generate() -> Iterator[int]:
        yield from random.sample(range(1000), 40)

    return Dataset.from_generator(generate, output_signature=tf.TensorSpec([], tf.int64))


counter = count()


# --- the same -----------------------------------------------------------------------------------------------------------------

# The pipeline, and kind, op and value of each edit.
SAME: list[tuple[Any, ...]] = [
    ("numbers().shuffle(9).repeat().map(plus_one).batch(4).prefetch(1)", ("parallelize", "map", 2), ("set-buffer", "prefetch", 5)),
    ("numbers().map(draw).batch(4)", ("parallelize", "map")),
    ("numbers().map(plus_one).map(draw).repeat()", ("insert-cache", "map")),
    ("numbers().map(odd)", ("parallelize", "map", 2), ("insert-prefetch", "map")),
    ("read_in_turn(Dataset.range(7).shuffle(7)).batch(4).repeat()", ("interleave", "flat_map")),
    (
        "read_in_turn(Dataset.range(7)).shuffle(6).map(plus_one).batch(4, drop_remainder=True).repeat()",
        *(("interleave", "flat_map", 4), ("parallelize", "map", 2), ("insert-prefetch", "repeat", 2)),
    ),
    ("read_in_turn(Dataset.range(7).repeat()).shuffle(6).batch(4)", ("interleave", "flat_map", 4)),
    ("any_order(2).map(plus_one).batch(4).repeat()", ("set-cycle-length", "interleave", 5)),
    ("Dataset.range(7).flat_map(Dataset.range).cache().shuffle(6).repeat().batch(4)", ("interleave", "flat_map", 4)),
    ("numbers().filter(lambda v: v % 3 == 0).map(plus_one)", ("parallelize", "map")),
    ("numbers().map(table().lookup)", ("parallelize", "map")),
    ("numbers().cache().map(plus_one).repeat()", ("swap", "map")),
    ("Dataset.range(7).shuffle(7).flat_map(Dataset.range).map(plus_one).shuffle(6).repeat().batch(4)", ("insert-cache", "map")),
    ("numbers().map(plus_one).cache('/nowhere/at/all').batch(2)", ("parallelize", "map")),
    # Python, chance taken out of it
    ("generated().batch(2)", ("insert-prefetch", "batch")),
    ("by_python(plus_one)", ("insert-prefetch", "map")),
    ("by_python(drawn)", ("insert-prefetch", "map")),
    ("by_py_function(drawn)", ("insert-prefetch", "map")),
    ("by_python(Jitter().method)", ("insert-prefetch", "map")),
    ("by_python(Jitter())", ("insert-prefetch", "map")),
    (
        "numbers().map(plus_one).map(lambda v: tf.numpy_function(drawn, [v], tf.int64)).shuffle(100).batch(4).repeat()",
        *(("parallelize", "map"), ("insert-prefetch", "batch")),
    ),
]


@pytest.mark.parametrize("case", SAME, ids=lambda case: case[0][:60])
@pytest.mark.usefixtures("quick")
def test_edits_that_change_only_speed_are_proven(case: tuple[Any, ...]) -> None:
    original = dataset(case[0])
    found = proof(original, edited(original, *case[1:]))
    assert found.status == "proven", found
    assert found.elements > 0


def test_passes_of_other_orders_are_compared_where_a_shuffle_follows() -> None:
    original = dataset("numbers().shuffle(9).map(plus_one).shuffle(6).repeat().batch(4)")
    found = proof(original, edited(original, ("insert-cache", "map")))
    assert (found.status, found.elements, found.pass_elements) == ("proven", 48, 6)
    other = dataset("numbers().shuffle(9).map(lambda v: tf.minimum(v + 1, 20)).cache().shuffle(6).repeat().batch(4)")
    assert "are missing" in proof(original, other).reason


# --- what differs -------------------------------------------------------------------------------------------------------------

# The two pipelines, and what is said of their difference; nothing where there is none.
PAIRS: list[tuple[str, str, str]] = [
    ("numbers().filter(lambda v: v >= 0)", "numbers().filter(lambda v: v < 23)", "ends after 23"),
    ("numbers()", "numbers().take(23)", "23 elements in a pass instead of 24"),
    (
        "read_in_turn(Dataset.range(7))",
        "read_in_turn(Dataset.range(7).repeat())",
        "endless elements in a pass instead of an unknown",
    ),
    ("numbers()", "numbers().repeat()", "endless elements"),
    ("numbers()", "Dataset.from_tensor_slices(tf.constant([1, 0, *range(2, 24)], tf.int64))", "element 0 differs"),
    ("numbers()", "numbers().map(lambda v: tf.cast(v, tf.int32))", "of another kind"),
    ("numbers().batch(4)", "numbers().batch(4, drop_remainder=True)", "of another kind"),
    ("numbers().map(lambda v: tf.cast(v, tf.float32))", "numbers().map(lambda v: tf.cast(v, tf.float32) * 1.0000001)", "differs"),
    ("numbers().map(lambda v: 0.0)", "numbers().map(lambda v: -0.0)", "element 0 differs"),
    (
        "numbers().map(lambda v: tf.sparse.from_dense([0, 1, 0]))",
        "numbers().map(lambda v: tf.sparse.from_dense([1, 0, 0]))",
        "element 0 differs",
    ),
    (
        "numbers().map(lambda v: tf.RaggedTensor.from_row_splits([1, 2, 3], [0, 1, 3]))",
        "numbers().map(lambda v: tf.RaggedTensor.from_row_splits([1, 2, 3], [0, 2, 3]))",
        "element 0 differs",
    ),
    ("numbers().filter(lambda v: v < 0)", "numbers().filter(lambda v: v < 0)", "no element"),
    # Order and chance
    ("numbers()", "numbers().shuffle(9)", "does not shuffle as the original"),
    ("numbers().shuffle(9)", "numbers().shuffle(2)", "does not shuffle as the original"),
    ("numbers().shuffle(9, seed=1)", "numbers().shuffle(9, seed=2)", "does not shuffle as the original"),
    ("reordering(False, False)", "reordering(True, False)", "may change from run to run"),
    ("reordering(False, True)", "reordering(False, True)", ""),
    ("reordering(False, True)", "reordering(False, False)", ""),
    ("reordering(False, True)", "reordering(True, False)", "from run to run"),
    ("numbers().map(draw).repeat(2)", "numbers().map(draw).cache().repeat(2)", "kept from one pass to the next"),
    ("numbers().shuffle(9).repeat(2)", "numbers().shuffle(9).cache().repeat(2)", "kept from one pass to the next"),
    (
        "numbers().shuffle(9).take(5).shuffle(5).repeat(2)",  # which five, too
        "numbers().shuffle(9).take(5).cache().shuffle(5).repeat(2)",
        "kept from one pass to the next",
    ),
    ("numbers().map(draw)", "numbers().map(lambda v: (v, 0.5))", "drawn at random|differs"),
    (
        "numbers().filter(lambda v: v >= 0).shuffle(9).batch(3)",
        "numbers().filter(lambda v: v < 23).shuffle(9).batch(3)",
        "1 are missing and 0 are new",
    ),
    ("repeated(lambda v: 2)", "repeated(lambda v: 2 + tf.cast(v == 3, tf.int64))", "0 are missing and 1 are new"),
    (
        "Dataset.range(8).flat_map(Dataset.range).batch(2).shuffle(9)",
        "Dataset.range(8).interleave(Dataset.range, cycle_length=3).batch(2).shuffle(9)",
        "are missing",
    ),
    # An op of any order does not free who is first.
    ("any_order(2).take(9)", "any_order(5).take(9)", "element|order"),
    (
        "any_order(2).window(3).flat_map(lambda window: window.batch(3))",
        "any_order(5).window(3).flat_map(lambda window: window.batch(3))",
        "element|order",
    ),
    # Read in turn or both at a time, the short file first gives the same; where names are shuffled, it may come last.
    ("files_of((1, 2), 1)", "files_of((1, 2), 2)", ""),
    ("files_of((2, 1), 1)", "files_of((2, 1), 2)", "element 1 differs"),
    ("files_of((1, 2), 1, shuffle=True)", "files_of((1, 2), 2, shuffle=True)", "take turns|differs"),
    ("files_of((2, 1), 1, shuffle=True)", "files_of((2, 1), 2, shuffle=True)", "take turns|differs"),
    # Python
    ("by_python(lambda _: next(counter))", "by_python(lambda _: next(counter))", "its Python code may give something else"),
    ("by_python(drawn)", "by_python(lambda value: drawn(value) + 1)", "element 0 differs"),
    ("drawing()", "drawing()", "its Python code may give"),
]
# Of these nothing can be compared, not even with themselves.
INCOMPARABLE: list[tuple[str, str]] = [
    (
        "numbers().map(lambda v: tf.debugging.check_numerics(tf.cast(v, tf.float32) / tf.cast(v - 2, tf.float32), 'zero'))",
        "the original fails at element 2",
    ),
    ("numbers().window(3)", "its elements are datasets"),
    ("numbers().map(tf.experimental.Optional.from_value)", "Optional"),
    ("with_generator()", r"stateful op \(RngReadAndSkip\)"),
    ("numbers().map(lambda v: tf.random.gamma([], 1.0))", r"stateful op \(RandomGamma\)"),
    ("numbers().map(printed)", r"stateful op \(PrintV2\)"),
    ("numbers().snapshot('/nowhere/at/all')", "writes files"),
]
PAIRS += [(code, code, phrase) for code, phrase in INCOMPARABLE]


@pytest.mark.parametrize(("original", "other", "phrase"), PAIRS, ids=lambda text: text[:40])
@pytest.mark.usefixtures("quick")
def test_what_is_not_the_same_is_refused_and_named(original: str, other: str, phrase: str) -> None:
    found = proof(dataset(original), dataset(other))
    assert found.status == ("refused" if phrase else "proven"), found
    assert re.search(phrase, found.reason), found


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("behind", ORDERED.values(), ids=ORDERED)
@pytest.mark.usefixtures("quick")
def test_an_order_of_records_is_not_freed_by_that_of_their_files(behind: Callable[[Any], Any], shuffle: bool) -> None:
    original, other = (behind(files_of((6, 5, 6, 5), cycle, shuffle=shuffle)) for cycle in (1, 3))
    found = proof(original, other)
    assert found.status == "refused", found


def test_a_service_is_declined_by_name() -> None:
    dispatcher = tf.data.experimental.service.DispatchServer()
    worker = tf.data.experimental.service.WorkerServer(
        tf.data.experimental.service.WorkerConfig(dispatcher_address=dispatcher.target.split("://")[1])
    )
    served = numbers().apply(tf.data.experimental.service.distribute("parallel_epochs", dispatcher.target))
    found = proof(served, served)
    worker._stop()
    dispatcher._stop()
    assert found.status == "refused"
    assert "tf.data service" in found.reason


def test_the_users_own_dataset_is_not_moved() -> None:
    original, fresh = (dataset("numbers().shuffle(24, seed=5).cache().batch(4)") for _ in range(2))
    proof(original, edited(original, ("insert-prefetch", "batch")))
    assert [batch.numpy().tolist() for batch in original] == [batch.numpy().tolist() for batch in fresh]


# --- a part does not stand for all ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ticking", [0.01], indirect=True)
@pytest.mark.usefixtures("ticking")
def test_the_first_ones_do_not_stand_for_what_another_cycle_gives_later() -> None:
    """Four files, of each 256 records at a time: the fifth file comes into it after a thousand records."""

    def build(cycle: int) -> Any:
        of_file = lambda file: Dataset.range(file * 1000, file * 1000 + 1000)  # noqa: E731
        return Dataset.range(64).interleave(of_file, cycle_length=cycle, block_length=256).take(9000).shuffle(16).batch(4)

    assert proof(build(4), build(4).prefetch(2), seconds=1).reason == "the first ones, in order"
    found = proof(build(4), build(8), seconds=1)
    assert found.status == "refused", found
    assert found.elements < 256


@pytest.mark.parametrize("ticking", [0.01], indirect=True)
@pytest.mark.usefixtures("ticking")
def test_a_part_of_a_shuffled_pass_proves_nothing() -> None:
    """The clock runs out before the pass is over: one that is compared as a whole may not pass for proven."""
    original = Dataset.range(400).flat_map(lambda value: Dataset.from_tensors(value).repeat(40)).shuffle(400)
    found = proof(original, edited(original, ("interleave", "flat_map", 4)), seconds=1)
    assert found.status == "refused"
    assert "whole pass" in found.reason


@pytest.mark.parametrize("ticking", [1.0], indirect=True)
@pytest.mark.usefixtures("ticking")
def test_too_few_elements_prove_nothing() -> None:
    original = numbers().repeat().batch(4)
    found = proof(original, edited(original, ("insert-prefetch", "batch")), seconds=2)
    assert found.status == "refused"
    assert "could be compared in the available time" in found.reason
    assert found.elements < 4


# A few files do not stand for all of these: an op looks at more than one record, or the two have nothing in common.
FEW = {
    "the first ones": "many(cycle).take(600_000).shuffle(100)",
    "batches": "many(16 * cycle).batch(64).shuffle(32)",
    "running sums": "many(cycle).scan(tf.constant(0, tf.int64), lambda state, value: (state + value, state)).shuffle(9)",
    "python": "many(cycle).map(lambda v: tf.numpy_function(lambda number: number, [v], tf.int64)).shuffle(9)",
    "other numbers": "Dataset.range(cycle, cycle + 40_000).map(plus_one).shuffle(9).batch(2)",
}


def many(cycle: int) -> Any:
    return Dataset.range(20_000).interleave(lambda file: Dataset.range(file * 60, file * 60 + 60), cycle_length=cycle)


@pytest.mark.parametrize("code", FEW.values(), ids=FEW)
@pytest.mark.usefixtures("quick")
def test_a_few_files_stand_for_none_where_more_than_one_record_counts(code: str) -> None:
    """With a few of them all are open at a time, and nothing is cut off; with all of them that is not so."""
    original, other = (built(code, {**globals(), "cycle": cycle}) for cycle in (1, 4))
    where = parting(read(original), read(other))
    assert where is None or where.sources is None
    assert proof(original, other, seconds=1).status == "refused"


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
    assert found.elements in [inputs // 2 * 60 for inputs in equality.FEW_INPUTS]


def test_turns_are_those_of_the_op_that_takes_them() -> None:
    def of(code: str, *asked: tuple[Any, ...]) -> Any:
        made = dataset(code)
        return turns(read(edited(made, *asked) if asked else made).ops)

    one = of("files_of((3, 4), 1).map(plus_one).shuffle(3)")
    assert of("files_of((3, 4), 1).prefetch(2).map(plus_one).cache().shuffle(3)") == one
    assert of("Dataset.range(2).flat_map(Dataset.range).map(plus_one).shuffle(3)", ("interleave", "flat_map")) == one
    assert of("files_of((3, 4), 2)") != one
    in_blocks = "Dataset.range(2).interleave(Dataset.range, cycle_length=2, block_length={})"
    assert of(in_blocks.format(1)) != of(in_blocks.format(2))
    assert of(in_blocks.format(1), ("parallelize", "interleave", 2)) == of(in_blocks.format(1))
    # Inside a function the graph does not tell what TensorFlow will choose: by the calls, and by the CPUs.
    inside = "Dataset.range(2).flat_map(lambda _: Dataset.range(3).interleave(Dataset.range, num_parallel_calls={}))"
    assert of(inside.format(None)) != of(inside.format(2))
    assert proof(dataset(inside.format(None)), dataset(inside.format(2))).status == "refused"

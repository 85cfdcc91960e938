"""The in-graph loop against a clock outside the graph, and what it counts."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cs_input_analyzer.records import SamplesPerElement
from cs_input_analyzer.worker.journal import JournalWriter, read_journal
from cs_input_analyzer.worker.sampler import sample
from cs_input_analyzer.worker.sampling import (
    CAPACITY,
    SamplingLoop,
    bytes_of,
    digest_of,
    harness_us_per_batch,
    samples_in,
    shapes_of,
)
from cs_input_analyzer.worker.side_thread import Sampling

pytestmark = pytest.mark.tf

tf: Any = pytest.importorskip("tensorflow")
Dataset = tf.data.Dataset

SLEEP_S = 0.02
# Two clocks of one host, each read with its own rounding.
CLOCK_GRAIN_S = 1e-4


def sleepy(batches: int, made_s: list[tuple[float, float]] | None = None) -> Any:
    """Batches that take `SLEEP_S` each, spent in Python where nobody optimizes it away; notes when each was begun and done."""

    def wait(value: Any) -> Any:
        began_s = time.time()
        time.sleep(SLEEP_S)
        if made_s is not None:
            made_s.append((began_s, time.time()))
        return value

    def through_python(value: Any) -> Any:
        return tf.ensure_shape(tf.py_function(wait, [value], tf.int64), [])

    return Dataset.range(batches).map(through_python)


def sampled(dataset: Any, batches: int, counted_in: int | None = None) -> Any:
    return SamplingLoop(counted_in=counted_in)(iter(dataset), batches)


def test_stamps_agree_with_a_clock_outside_the_graph() -> None:
    made_s: list[tuple[float, float]] = []
    one_by_one = tf.data.Options()  # TensorFlow would put a prefetch behind the map, which begins the next element by itself
    one_by_one.autotune.enabled = False
    one_by_one.experimental_optimization.inject_prefetch = False
    dataset = sleepy(100, made_s).with_options(one_by_one)
    loop = SamplingLoop()
    iterator = iter(dataset)
    loop(iterator, 1)  # traces
    made_s.clear()
    chunk = loop(iterator, 10)
    made_s.append((time.time(), math.inf))
    assert len(chunk.stamps_s) == 10
    assert len(made_s) == 11
    assert not chunk.ended
    assert chunk.error is None
    # However long the host pauses in between: no stamp is ahead of its element, and none waits until the next one is begun.
    for stamp_s, (_, ready_s), (next_s, _) in zip(chunk.stamps_s, made_s, made_s[1:], strict=False):
        assert ready_s - CLOCK_GRAIN_S <= stamp_s <= next_s + CLOCK_GRAIN_S


def test_one_call_takes_what_it_is_asked_for_and_at_most_what_its_memory_holds() -> None:
    chunk = sampled(Dataset.from_tensors(0).repeat(), CAPACITY + 5)
    assert (len(chunk.stamps_s), chunk.ended) == (CAPACITY, False)
    dataset = Dataset.range(100)
    iterator, loop = iter(dataset), SamplingLoop()
    assert len(loop(iterator, 30).stamps_s) == 30
    assert int(next(iterator)) == 30
    assert len(loop(iterator, until_s=0.0).stamps_s) == 1  # the first is asked for in any case
    assert 0 < harness_us_per_batch(200) < 1e5


def test_an_early_end_holds_no_stamp_of_the_call_before() -> None:
    """Many times over, because calls in quick succession are what made old stamps look new."""
    dataset = Dataset.range(300)
    loop = SamplingLoop()
    for _ in range(20):
        whole, few = iter(dataset), iter(dataset.take(5))
        loop(whole, 300)
        short = loop(few, 300)
        assert (len(short.stamps_s), short.ended, short.error, short.samples) == (5, True, None, None)
        assert np.all(np.diff(short.stamps_s) >= 0)


def test_an_error_of_the_users_function_is_an_error_and_not_the_end() -> None:
    checked = Dataset.range(10).map(
        lambda x: tf.debugging.check_numerics(tf.cast(1, tf.float32) / tf.cast(4 - x, tf.float32), "bad")
    )
    chunk = sampled(checked, 50)
    assert len(chunk.stamps_s) == 4
    assert not chunk.ended
    assert isinstance(chunk.error, tf.errors.InvalidArgumentError)


def growing() -> Any:
    return Dataset.range(1, 9).map(lambda x: tf.range(x))


def odd_even() -> Any:
    """Batches of 3, 3, 2."""
    return Dataset.range(8).batch(3)


@pytest.mark.parametrize(
    ("build", "counted_in", "counts"),
    [
        (odd_even, 0, [3, 3, 2]),
        (lambda: odd_even().map(lambda x: {"a": (x, tf.ones([4]))}), 0, [3, 3, 2]),
        (lambda: odd_even().map(lambda x: (tf.constant(0.5), x)), 1, [3, 3, 2]),  # a scalar stands first
        (lambda: odd_even().map(lambda x: (tf.zeros([9]), x)), 1, [3, 3, 2]),  # a table of fixed size stands first
        (lambda: growing().ragged_batch(3), 0, [3, 3, 2]),
        (lambda: odd_even().map(lambda x: tf.sparse.from_dense(tf.one_hot(x, 10))), 0, [3, 3, 2]),
        (lambda: odd_even().map(lambda x: tf.py_function(lambda y: y, [x], tf.int64)), 0, [3, 3, 2]),  # of unknown rank
        (lambda: growing().bucket_by_sequence_length(lambda x: tf.shape(x)[0], [4, 7], [3, 2, 1]), 0, [3, 2, 1, 1, 1]),
    ],
)
def test_every_batch_is_counted_in_the_loop_and_outside(build: Callable[[], Any], counted_in: int, counts: list[int]) -> None:
    dataset = build()
    chunk = sampled(dataset, 50, counted_in)
    assert chunk.samples.tolist() == counts
    assert len(chunk.stamps_s) == len(counts)
    found = SamplesPerElement(value=None, source="batches", counted_in=counted_in)
    assert [samples_in(element, found) for element in dataset] == counts


def test_batches_of_batches_are_counted_by_the_rows() -> None:
    dataset = Dataset.range(20).batch(4, drop_remainder=True).batch(2)
    found = SamplesPerElement(value=8, source="batches", counted_in=0, rows=4)
    chunk = SamplingLoop(counted_in=0, rows=4)(iter(dataset), 9)
    assert chunk.samples.tolist() == [8, 8, 4] == [samples_in(element, found) for element in dataset]


def test_the_shapes_of_an_element_are_those_of_its_components() -> None:
    element = {"a": tf.zeros([3, 2]), "b": (tf.ragged.constant([[1], [2, 3]]), tf.sparse.from_dense([[0, 1]])), "c": tf.constant(1)}
    assert shapes_of(element) == ((3, 2), (2, None), (1, 2), ())


@pytest.mark.parametrize(
    ("make", "size"),
    [
        (lambda: tf.zeros([4, 5], tf.float16), 40),
        (lambda: {"a": tf.zeros([3], tf.int64), "b": (tf.zeros([], tf.uint8), tf.zeros([2, 2], tf.float32))}, 24 + 1 + 16),
        (lambda: tf.constant(["", "abc", "ü"]), 5),
        (lambda: tf.ragged.constant([[1, 2], [], [3]], tf.int32, row_splits_dtype=tf.int64), 3 * 4 + 4 * 8),
        (lambda: tf.sparse.from_dense(tf.constant([[0, 7], [0, 0], [8, 0]], tf.int32)), 2 * 4 + 2 * 2 * 8 + 2 * 8),
        (lambda: (), 0),
        (lambda: tf.zeros([0, 7]), 0),
    ],
)
def test_bytes_of_an_element(make: Callable[[], Any], size: int) -> None:
    assert bytes_of(make()) == size


def test_short_passes_are_written_together_and_nothing_of_them_is_lost(tmp_path: Path) -> None:
    """Writing after each pass would be a part of a pass of a few milliseconds: eleven percent of one of 30 ms, as was seen."""
    dataset = Dataset.range(40).batch(4).prefetch(2)
    first = SamplesPerElement(value=4, source="batch(4)")
    given = Sampling(dataset=dataset, iterator=iter(dataset), ops=(), samples=first, min_window_s=1.0, max_window_s=1.0)
    sample(JournalWriter(tmp_path), given)
    journal = read_journal(tmp_path)
    passes = [event for event in journal.events if event["event"] == "epoch"]
    chunks = [event for event in journal.events if event["event"] == "chunk"]
    assert max(event["batches"] for event in chunks) > 10  # more than a pass
    assert len(journal.stamps_s) == sum(event["batches"] for event in chunks) >= passes[-1]["batches"] == 10 * len(passes)
    assert (np.diff(journal.stamps_s) >= 0).all()


def test_a_window_of_batches_that_take_longer_than_it_goes_on_until_there_is_a_rate(tmp_path: Path) -> None:
    def slowly(value: Any) -> Any:
        time.sleep(0.15)
        return value

    dataset = Dataset.range(100).map(lambda value: tf.ensure_shape(tf.numpy_function(slowly, [value], tf.int64), []))
    one = SamplesPerElement(value=1, source="map")
    given = Sampling(dataset=dataset, iterator=iter(dataset), ops=(), samples=one, min_window_s=0.1, max_window_s=0.1)
    sample(JournalWriter(tmp_path), given)
    journal = read_journal(tmp_path)
    assert len(journal.stamps_s) == 3
    assert journal.last("done")["stopped_by"] == "budget"


ELEMENTS = [
    ([1, 2], ["a", "b"]),
    ([1, 3], ["a", "b"]),
    ([1, 2], ["a", "c"]),
    ([1.5, float("nan")], ["a", "b"]),
    (tf.ragged.constant([[1], [2, 3]]), ["a", "b"]),
    (tf.ragged.constant([[1, 2], [3]]), ["a", "b"]),
    (tf.sparse.from_dense([[0, 1], [2, 0]]), ["a", "b"]),
]


def test_a_digest_tells_elements_apart_and_not_the_same_one() -> None:
    digests = [
        digest_of({"x": x, "y": tf.constant(y)})
        for x, y in ((tf.constant(x) if isinstance(x, list) else x, y) for x, y in ELEMENTS)
    ]
    assert len(set(digests)) == len(ELEMENTS)
    assert None not in digests
    long = [digest_of(tf.constant([b"head" * 10**6 + tail, b"another"])) for tail in (b"a", b"b")]
    assert long[0] != long[1]
    again = digest_of({"x": tf.constant([1, 2]), "y": tf.constant(["a", "b"])})
    assert again == digests[0]


@pytest.mark.parametrize("element", [tf.zeros([8, 4]), (tf.ones([4]), tf.fill([4], "x")), tf.constant(3), tf.zeros([0, 3])])
def test_made_up_elements_have_no_digest(element: Any) -> None:
    assert digest_of(element) is None

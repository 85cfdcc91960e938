"""What is done beside the sampling loop, and what it must not do to it: no pause, no lost rate, no lost costs."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cs_input_analyzer.records import SamplesPerElement
from cs_input_analyzer.worker import side_thread
from cs_input_analyzer.worker.journal import Journal, JournalError, JournalWriter, read_journal
from cs_input_analyzer.worker.sampler import sample
from cs_input_analyzer.worker.sampling import SamplingLoop
from cs_input_analyzer.worker.side_thread import POLL_RATIO, Sampling
from tests.tf_versions import needs_costs

pytestmark = pytest.mark.tf

ONE = SamplesPerElement(value=1, source="made so")


def sampled(folder: Path, build: Callable[[Any], Any], seconds: float = 1.0) -> Journal:
    import tensorflow as tf

    from cs_input_analyzer.tfdata import graph

    with graph.recorded_sources() as log:
        dataset = build(tf.data.Dataset)
    iterator = iter(dataset)
    next(iterator)
    given = Sampling(
        dataset=dataset,
        iterator=iterator,
        ops=graph.read_graph(dataset, log, target="t").ops,
        samples=ONE,
        min_window_s=seconds,
        max_window_s=seconds,
    )
    sample(JournalWriter(folder), given)
    return read_journal(folder)


def through_python(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    import tensorflow as tf

    return lambda value: tf.ensure_shape(tf.numpy_function(function, [value], tf.int64), [])


def test_the_loop_is_entered_once_for_a_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the journal and the counters do makes no gap between two batches."""
    calls: list[int | None] = []
    run = SamplingLoop.__call__

    def counted(self: Any, iterator: Any, batches: int | None = None, *given: Any, **named: Any) -> Any:
        calls.append(batches)
        return run(self, iterator, batches, *given, **named)

    monkeypatch.setattr(SamplingLoop, "__call__", counted)
    slow = through_python(lambda value: (time.sleep(0.001), value)[1])
    journal = sampled(tmp_path, lambda dataset: dataset.range(10**9).map(slow))
    of_the_window = [batches for batches in calls if batches is None]
    assert len(of_the_window) == 1
    assert len([event for event in journal.events if event["event"] == "chunk"]) > 3
    assert journal.last("done")["stopped_by"] == "budget"


@needs_costs
def test_iterators_that_end_inside_one_batch_are_seen(tmp_path: Path) -> None:
    """A whole pass happens while the loop waits for one batch, and its iterators are gone when the batch comes."""
    slow = through_python(lambda value: (time.sleep(0.002), value)[1])
    journal = sampled(tmp_path, lambda dataset: dataset.range(200).map(slow).shuffle(200).batch(200).repeat(), 2.0)
    assert journal.last("costs")["seen"]["map"]["elements"] > 200


def test_the_rate_is_measured_on_where_snapshots_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model_of, taken = side_thread.model_of, []

    def dies(iterator: Any) -> bytes | None:
        taken.append(1)
        if len(taken) > 1:
            raise RuntimeError("Attempting to capture an EagerTensor")
        return model_of(iterator)

    monkeypatch.setattr(side_thread, "model_of", dies)
    journal = sampled(tmp_path, lambda dataset: dataset.range(10**9).map(lambda x: x + 1))
    assert len(taken) <= 3  # after a failure only at the end
    assert len(journal.stamps_s) > 100


def test_a_generator_that_holds_pythons_lock_is_measured(tmp_path: Path) -> None:
    holding = ctypes.PyDLL(None)  # calls through it keep the lock

    def rows() -> Any:
        for number in range(10**6):
            holding.usleep(200_000)
            yield number

    import tensorflow as tf

    spec = tf.TensorSpec([], tf.int64)
    journal = sampled(tmp_path, lambda dataset: dataset.from_generator(rows, output_signature=spec), 1.5)
    assert len(journal.stamps_s) >= 3
    assert journal.last("costs") is not None


@needs_costs
def test_snapshots_of_a_thousand_short_iterators_a_second_are_bounded(tmp_path: Path) -> None:
    def build(dataset: Any) -> Any:
        return dataset.range(10**9).flat_map(lambda start: dataset.range(start, start + 2).map(lambda x: x + 1))

    polls = sampled(tmp_path, build, 2.0).last("costs")["polls"]
    assert polls["count"] > 0
    one_s = polls["taken_s"] / polls["count"]
    assert polls["taken_s"] <= POLL_RATIO * polls["over_s"] + 10 * one_s


@needs_costs
def test_costs_of_a_loop_that_hangs_are_written_when_its_time_is_over(tmp_path: Path) -> None:
    release, count = threading.Event(), iter(range(10**6))

    def hangs(value: Any) -> Any:
        if next(count) == 300:
            release.wait(60)
        time.sleep(0.001)
        return value

    def build(dataset: Any) -> Any:
        return dataset.range(10**6).map(through_python(hangs))

    sampling = threading.Thread(target=sampled, args=(tmp_path, build, 0.5))
    sampling.start()
    while (costs := read_journal(tmp_path).last("costs")) is None and sampling.is_alive():
        time.sleep(0.05)
    release.set()
    sampling.join()
    assert costs is not None
    assert costs["seen"]["map"]["elements"] > 0


def test_a_journal_that_cannot_be_written_beside_the_loop_ends_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise JournalError("No space left on device")

    monkeypatch.setattr(JournalWriter, "chunk", full)
    with pytest.raises(JournalError, match="No space left"):
        sampled(tmp_path, lambda dataset: dataset.range(10**9), 5.0)


def test_an_iterator_is_let_go_only_when_no_snapshot_of_it_is_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model_of, polled = side_thread.model_of, []
    made: list[bool] = []
    is_polling = threading.Event()

    def slow(iterator: Any) -> bytes | None:
        is_polling.set()
        time.sleep(0.01)
        polled.append(iterator)
        is_polling.clear()
        return model_of(iterator)

    def begin_pass(self: Any, make: Callable[[], Any]) -> Any:
        def watched() -> Any:
            made.append(is_polling.is_set())
            return make()

        return plain(self, watched)

    plain = side_thread.SideThread.begin_pass
    monkeypatch.setattr(side_thread, "model_of", slow)
    monkeypatch.setattr(side_thread, "CLOSEST_POLL_S", 0.001)
    monkeypatch.setattr(side_thread, "FIRST_POLL_S", 0.001)
    monkeypatch.setattr(side_thread, "POLL_RATIO", 1.0)
    monkeypatch.setattr(side_thread.SideThread, "begin_pass", begin_pass)
    for turn in range(30):  # a busy host polls seldom
        (tmp_path / str(turn)).mkdir()
        sampled(tmp_path / str(turn), lambda dataset: dataset.range(20).map(lambda x: x + 1))
        if len(polled) > 10 and len(made) > 10:
            break
    assert len(polled) > 10
    assert len(made) > 10
    assert not any(made)

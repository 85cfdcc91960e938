"""What a worker writes down while it samples: passes, AUTOTUNE's values, counters. In this process."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cs_input_analyzer.records import SamplesPerElement, WorkerResult
from cs_input_analyzer.worker import meter
from cs_input_analyzer.worker.journal import Journal, JournalWriter, read_journal
from cs_input_analyzer.worker.summary import Ending, worker_result
from tests.tf_versions import needs_costs

pytestmark = pytest.mark.tf

CLEAN = Ending(returncode=0, killed_for=None, output_tail="")
BATCH = 4
BATCHES = 25  # of one pass
AUTOTUNE = -1
SLOW_S = 0.005


def short_passes(tf: Any) -> Any:
    def busy(x: Any) -> Any:
        square = tf.random.stateless_uniform([64, 64], [1, 2]) + tf.cast(x, tf.float32) * 0
        return x + tf.cast(tf.reduce_sum(tf.linalg.matmul(square, square)) * 0, x.dtype)

    mapped = tf.data.Dataset.range(BATCH * BATCHES).map(busy, num_parallel_calls=AUTOTUNE)
    return mapped.batch(BATCH, drop_remainder=True).prefetch(AUTOTUNE)


def repeated(tf: Any) -> Any:
    return short_passes(tf).repeat()


def read_once(tf: Any) -> Any:
    elements = iter(range(40))
    return tf.data.Dataset.from_generator(lambda: elements, output_signature=tf.TensorSpec([], tf.int64)).batch(BATCH)


def sampled(folder: Path, build: Callable[[Any], Any], *, want_costs: bool = True, window_s: float = 0.6) -> Journal:
    """The journal of a worker that built, read its first batch, and sampled for `window_s`."""
    import tensorflow as tf

    from cs_input_analyzer.tfdata import graph
    from cs_input_analyzer.worker.sampler import sample
    from cs_input_analyzer.worker.side_thread import Sampling

    folder.mkdir(exist_ok=True)
    with graph.recorded_sources() as log:
        dataset = build(tf)
    ops = graph.read_graph(dataset, log, target="t").ops
    iterator = iter(dataset)
    next(iterator)
    journal = JournalWriter(folder)
    journal.event("first_batch", first_batch_s=0.1, bytes=8 * BATCH, samples=BATCH)
    given = Sampling(
        dataset=dataset,
        iterator=iterator,
        ops=ops,
        samples=SamplesPerElement(value=BATCH, source="t"),
        min_window_s=0.0,
        max_window_s=window_s,
        target_error_ratio=1e-9,  # never precise enough: it samples to the end of its time
        want_costs=want_costs,
    )
    sample(journal, given)
    return read_journal(folder)


def result_of(journal: Journal) -> WorkerResult:
    return worker_result(journal, CLEAN, index=0, node="n")


def events(journal: Journal, kind: str) -> list[Any]:
    return [event for event in journal.events if event["event"] == kind]


@pytest.fixture(scope="module")
def passes(tmp_path_factory: pytest.TempPathFactory) -> Journal:
    return sampled(tmp_path_factory.mktemp("passes"), short_passes, window_s=1.2)


def test_each_pass_that_ended_is_told_with_its_batches(passes: Journal) -> None:
    edges = [event["batches"] for event in events(passes, "epoch")]
    done = passes.last("done")
    assert len(edges) == done["epochs"] > 2
    # The first batch of the first pass was read before sampling.
    assert edges == [BATCHES * number - 1 for number in range(1, len(edges) + 1)]
    # A new iterator fills its buffers anew; the pipeline itself has no such gap.
    result = result_of(passes)
    assert result.steady_state.epoch_gap_s > result.batch_gap_s.p50


@pytest.mark.parametrize(("build", "stopped_by"), [(repeated, "budget"), (read_once, "data_end")])
def test_what_cannot_be_seen_of_a_pipeline_is_none(build: Callable[[Any], Any], stopped_by: str, tmp_path: Path) -> None:
    journal = sampled(tmp_path, build, window_s=1.0)
    state = result_of(journal).steady_state
    assert state.stopped_by == stopped_by
    if build is repeated:  # its passes are inside the pipeline
        assert len(journal.stamps_s) > 2 * BATCHES
        assert events(journal, "epoch") == []
    assert state.epoch_gap_s is None  # passes that end inside, or that cannot begin again, have no gap


def slow_first_pass(samples: int, *, is_known: bool = True, is_repeated: bool = True) -> Callable[[Any], Any]:
    """Each sample takes `SLOW_S` until the cache has it. `is_known`: whether TensorFlow knows how many there are."""

    def build(tf: Any) -> Any:
        def wait(value: Any) -> Any:
            time.sleep(SLOW_S)
            return value

        def slow(value: Any) -> Any:
            return tf.ensure_shape(tf.py_function(wait, [value], tf.int64), [])

        found = tf.data.Dataset.range(samples).map(slow)
        cached = (found if is_known else found.filter(lambda value: value >= 0)).cache()
        return (cached.repeat() if is_repeated else cached).batch(BATCH, drop_remainder=True)

    return build


@pytest.mark.parametrize("want_costs", [True, False])
def test_a_window_is_of_the_full_cache(want_costs: bool, tmp_path: Path) -> None:
    journal = sampled(tmp_path, slow_first_pass(200), want_costs=want_costs, window_s=4.0)
    result = result_of(journal)
    filled = journal.last("cache_filled")
    assert not result.steady_state.is_filling_cache
    assert result.steady_state.transient_batches > filled["batches"]
    assert result.samples_per_s.low > 1 / SLOW_S  # the first pass cannot be faster
    if want_costs:  # what filled the cache is no cost of the passes that read it
        assert "map" not in journal.last("costs")["seen"]
    else:
        assert len(events(journal, "memory")) == 1


def test_no_snapshot_is_counted_where_tensorflow_gives_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "model_reader", lambda: None)
    assert sampled(tmp_path, repeated).last("costs")["polls"]["count"] == 0


def test_a_first_pass_that_does_not_end_is_told(tmp_path: Path) -> None:
    result = result_of(sampled(tmp_path, slow_first_pass(100_000)))
    assert result.steady_state.is_filling_cache
    assert result.samples_per_s.estimate < 1 / SLOW_S


def without_model(cached: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Autotune is off, so TensorFlow shows no model of the iterator, as before 2.17."""

    def build(tf: Any) -> Any:
        options = tf.data.Options()
        options.autotune.enabled = False
        return cached(tf).with_options(options)

    return build


@pytest.mark.parametrize(
    ("build", "is_filling"),
    [
        (slow_first_pass(21), False),
        (slow_first_pass(21, is_repeated=False), False),
        (slow_first_pass(21, is_known=False, is_repeated=False), False),
        (slow_first_pass(100_000), True),
        (slow_first_pass(100_000, is_known=False, is_repeated=False), True),
        (slow_first_pass(100_000, is_known=False), None),  # nobody knows how long a pass is
        (repeated, False),  # there is no cache
    ],
)
def test_a_first_pass_is_told_without_a_model(build: Callable[[Any], Any], is_filling: bool | None, tmp_path: Path) -> None:
    result = result_of(sampled(tmp_path, without_model(build), window_s=1.5))
    assert result.steady_state.is_filling_cache is is_filling
    if build is not repeated:
        assert (result.samples_per_s.estimate > 1 / SLOW_S) == (is_filling is False)


def test_each_chunk_has_its_counters(passes: Journal) -> None:
    times = [at_s for at_s, _ in passes.readings()]
    assert len(times) == len(events(passes, "chunk")) + 1
    assert times == sorted(times)
    result = result_of(passes)
    assert result.pss_bytes > 50e6  # TensorFlow is in it
    assert 0 <= result.noise.others_ratio <= 1


# --- bytes of files -------------------------------------------------------------------------------------------------------------

RECORDS = 20_000
LUMP_BYTES = 8 << 20


@pytest.mark.parametrize(
    ("kind", "want_costs"),
    [
        pytest.param("plain", True, marks=needs_costs),
        pytest.param("plain", False, marks=needs_costs),
        pytest.param("packed", True, marks=needs_costs),
        pytest.param("lines", True, marks=needs_costs),
        ("fields", True),
    ],
)
def test_bytes_are_those_of_the_records_however_large_the_read_buffer(tmp_path: Path, kind: str, want_costs: bool) -> None:
    """All of the file fits into one read buffer."""
    import tensorflow as tf

    path, draw = str(tmp_path / kind), random.Random(1)
    records = [bytes(draw.choices(b"0123456789abcdef", k=179)) for _ in range(RECORDS)]
    if kind in ("plain", "packed"):
        with tf.io.TFRecordWriter(path, "GZIP" if kind == "packed" else "") as writer:
            for record in records:
                writer.write(record)
    else:
        begins = ["" if kind == "lines" else f"{100_000 + number}," for number in range(RECORDS)]
        Path(path).write_bytes(b"".join(begin.encode() + record + b"\n" for begin, record in zip(begins, records, strict=True)))
    made = {
        "plain": lambda: tf.data.TFRecordDataset(path, buffer_size=LUMP_BYTES),
        "packed": lambda: tf.data.TFRecordDataset(path, "GZIP", LUMP_BYTES),
        "lines": lambda: tf.data.TextLineDataset(path, buffer_size=LUMP_BYTES),
        "fields": lambda: tf.data.experimental.CsvDataset(path, [0, ""], buffer_size=LUMP_BYTES).map(lambda _, text: text),
    }[kind]

    def build(tf: Any) -> Any:
        return made().repeat().map(tf.strings.length).batch(BATCH)

    found = result_of(sampled(tmp_path / "worker", build, want_costs=want_costs)).bytes_read_per_sample
    assert found == pytest.approx(Path(path).stat().st_size / RECORDS, rel=0.02)

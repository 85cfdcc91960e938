"""Fixes tried in one process: each step is told as it is done, and what is told reads back whatever is cut off."""

from __future__ import annotations

from typing import Any

import pytest

from cs_input_analyzer.measure.fixes import Outcome, outcomes_of, try_fixes
from cs_input_analyzer.measure.journal import Candidate, Order
from cs_input_analyzer.records import Edit, Estimate

GAIN = {"estimate": 1.5, "low": 1.2, "high": 1.9, "count": 5}
STORY: list[dict[str, Any]] = [
    {"event": "fix_begun", "index": 0},
    {"event": "fix_proof", "index": 0, "proven": True, "reason": "in order", "elements": 40},
    {"event": "fix_begun", "index": 1},
    {"event": "fix_proof", "index": 1, "proven": False, "reason": "element 3 differs", "elements": 3},
    {"event": "fix_begun", "index": 2},
    {"event": "fix_proof", "index": 2, "proven": True, "reason": "in order", "elements": 12},
    {"event": "fix_untimed", "index": 2, "reason": "filling the cache takes longer"},
    {"event": "fix_begun", "index": None},
    {"event": "fix_begun", "index": 0},
    {"event": "fix_gain", "index": 0, "gain": GAIN},
    {"event": "fixes_kept", "indices": [0], "gain": GAIN, "elements": 40},
    {"event": "fixes_over"},
]


def test_a_whole_story_reads_back() -> None:
    told = outcomes_of(STORY, 3)
    assert told.each[0] == Outcome(is_proven=True, elements=40, gain=Estimate(**GAIN))
    assert told.each[1] == Outcome(is_proven=False, reason="element 3 differs", elements=3)
    assert told.each[2] == Outcome(is_proven=True, reason="filling the cache takes longer", elements=12)
    assert (told.kept, told.gain, told.elements, told.running, told.is_over) == ((0,), Estimate(**GAIN), 40, None, True)


@pytest.mark.parametrize("length", range(len(STORY)))
def test_a_story_that_breaks_off_keeps_what_was_told_and_names_who_ran(length: int) -> None:
    told = outcomes_of(STORY[:length], 3)
    assert not told.is_over
    assert told.each[0].is_proven == (length >= 2)
    assert told.running == {1: 0, 3: 1, 5: 2, 9: 0, 10: 0, 11: 0}.get(length)
    assert (told.each[0].gain is not None) == (length >= 10)


def make_order(**overrides: Any) -> Order:
    what = {"target": "a.py:f", "pickled": None, "params_json": None, "mode": "train", "num_workers": 1, "worker_index": 0}
    how = {"tf_config": "{}", "batch_size": None, "target_error_ratio": 0.02, "min_window_s": 1.0, "max_window_s": 2.0}
    fields: dict[str, Any] = {**what, **how, "want_graph": True, "want_costs": True}
    return Order(**{**fields, **overrides})


def test_an_order_carries_candidates() -> None:
    candidates = (
        Candidate(name="CSI101", edits=(Edit(kind="parallelize", op="map"), Edit(kind="set-buffer", op="prefetch", value=2))),
    )
    order = make_order(candidates=candidates, fixes_s=9.5)
    assert Order.from_line(order.to_line()) == order
    assert Order.from_line(make_order().to_line()).candidates == ()


def candidate(*edits: tuple[Any, str, int | None]) -> Candidate:
    return Candidate(name="X", edits=tuple(Edit(kind=kind, op=op, value=value) for kind, op, value in edits))


@pytest.mark.tf
def test_a_slow_map_is_cached_and_the_rest_is_refused_by_name() -> None:
    tf = pytest.importorskip("tensorflow")

    def costly(value: Any) -> Any:
        matrix = tf.linalg.matmul(tf.fill([160, 160], tf.cast(value, tf.float32)), tf.ones([160, 160]))
        return tf.reduce_sum(matrix)

    options = tf.data.Options()
    options.autotune.enabled = False  # else TensorFlow makes the map parallel by itself
    dataset = tf.data.Dataset.range(64).map(costly).repeat().batch(4).with_options(options)
    events: list[dict[str, Any]] = []

    def tell(name: str, **fields: Any) -> None:
        events.append({"event": name, **fields})

    candidates = [
        candidate(("insert-cache", "map", None)),
        candidate(("insert-cache", "batch", None)),
        candidate(("insert-prefetch", "range", 1)),
        candidate(("remove", "map", None)),
    ]
    try_fixes(tell, dataset, candidates, seconds=14)
    told = outcomes_of(events, len(candidates))
    assert told.is_over
    assert told.each[0].is_proven
    assert told.each[0].gain is not None
    assert told.each[0].gain.low > 1.5
    assert told.kept[0] == 0
    assert told.gain is not None
    assert told.gain.low > 1
    assert "is repeated" in told.each[1].reason
    assert "neither a prefetch nor a cache" in told.each[3].reason
    assert told.elements > 0


@pytest.mark.tf
def test_a_fix_that_does_nothing_is_not_kept() -> None:
    tf = pytest.importorskip("tensorflow")
    dataset = tf.data.Dataset.range(100).repeat().batch(10).prefetch(2)
    events: list[dict[str, Any]] = []

    def tell(name: str, **fields: Any) -> None:
        events.append({"event": name, **fields})

    try_fixes(
        tell,
        dataset,
        [candidate(("use-private-threads", "batch", 2), ("remove", "prefetch", None), ("insert-prefetch", "batch", 2))],
        seconds=6,
    )
    told = outcomes_of(events, 1)
    assert told.each[0].is_proven
    assert told.each[0].gain is not None
    assert told.kept == ((0,) if told.each[0].gain.low > 1 else ())


@pytest.mark.tf
def test_no_time_proves_nothing() -> None:
    tf = pytest.importorskip("tensorflow")
    events: list[dict[str, Any]] = []

    def tell(name: str, **fields: Any) -> None:
        events.append({"event": name, **fields})

    try_fixes(tell, tf.data.Dataset.range(9).map(lambda value: value), [candidate(("parallelize", "map", None))], seconds=0)
    told = outcomes_of(events, 1)
    assert told.is_over
    assert told.each[0] == Outcome(reason="no time was left to prove it")

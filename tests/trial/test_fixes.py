"""Fixes tried in one process: each step is told as it is done, and what is told reads back whatever is cut off."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import pytest

from cs_input_analyzer.errors import TargetError
from cs_input_analyzer.records import Candidate, Edit, Estimate, SourceChange
from cs_input_analyzer.trial.fixes import Outcome, Outcomes, outcomes_of, try_fixes
from cs_input_analyzer.worker.stopwatch import Stopwatch

pytestmark = pytest.mark.tf

tf: Any = pytest.importorskip("tensorflow")


PATIENCE_S = 600.0  # where nothing takes its time: what is timed is faked, and proofs end by themselves


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Endless pipelines are compared for a moment."""
    monkeypatch.setattr("cs_input_analyzer.trial.equality.LONGEST_IN_ORDER_S", 0.2)


@pytest.mark.parametrize("told", [0, 1, 2])
def test_what_was_told_last_reads_back_whatever_came_after_it(told: int) -> None:
    gain = Estimate(estimate=1.5, low=1.2, high=1.9, count=5)
    untold = Outcomes(each=(Outcome(), Outcome()))
    begun = replace(untold, running=1)
    timed = Outcomes(each=(Outcome(is_proven=True, elements=40, gain=gain), Outcome(reason="no")), kept=(0,), gain=gain, of=9)
    events = [{"event": "fixes", **json.loads(json.dumps(asdict(one)))} for one in (begun, timed)]
    assert outcomes_of([{"event": "memory"}, *events[:told], {"event": "done"}], 2) == (untold, begun, timed)[told]


def candidate(*edits: tuple[Any, str, int | None]) -> Candidate:
    return Candidate(name="X", edits=tuple(Edit(kind=kind, op=op, value=value) for kind, op, value in edits))


def tried(dataset: Any, *fixes: Candidate, seconds: float = 12, watch: Any = None, **source: Any) -> Any:
    events: list[dict[str, Any]] = []
    report = lambda name, **fields: events.append({"event": name, **fields})  # noqa: E731
    try_fixes(report, dataset, fixes, seconds=seconds, watch=watch or Stopwatch(), **source)
    return outcomes_of(events, len(fixes))


def test_a_slow_map_is_cached_and_the_rest_is_refused_by_name() -> None:

    def costly(value: Any) -> Any:
        matrix = tf.linalg.matmul(tf.fill([160, 160], tf.cast(value, tf.float32)), tf.ones([160, 160]))
        return tf.reduce_sum(matrix)

    options = tf.data.Options()
    options.autotune.enabled = False  # else TensorFlow makes the map parallel by itself
    dataset = tf.data.Dataset.range(64).map(costly).repeat().batch(4).with_options(options)
    edits: Any = [("insert-cache", "map", None), ("insert-cache", "batch", None), ("set-cycle-length", "map", 2)]
    told = tried(dataset, *map(candidate, edits), seconds=36)  # patience for a busy host: what is clear ends sooner
    assert told.is_over
    assert told.each[0].is_proven
    assert told.each[0].gain.low > 1.5
    assert told.kept[0] == 0
    assert told.gain.low > 1
    assert "is repeated" in told.each[1].reason
    assert told.each[2].reason == "map has no cycle length"
    assert told.elements > 0


def test_no_time_proves_nothing() -> None:
    told = tried(tf.data.Dataset.range(9).map(lambda value: value), candidate(("parallelize", "map", None)), seconds=0)
    assert told.is_over
    assert told.each[0] == Outcome(reason="not measured: no time was left to compare its elements")


class FakeWatch:
    """In place of a stopwatch: keeps what it was asked to do, in order, with the dataset."""

    def __init__(self, can_fill: bool = True) -> None:
        self.done: list[tuple[str, Any, int]] = []
        self.can_fill = can_fill

    def fill(self, dataset: Any, elements: int, deadline_s: float) -> bool:
        self.done.append(("fill", dataset, elements))
        return self.can_fill

    def rate_per_s(self, dataset: Any, block_s: float) -> float:
        self.done.append(("time", dataset, 0))
        return 1.0


def cached(*, endless: bool = False) -> Any:
    dataset = tf.data.Dataset.range(24).map(lambda value: value + 1).cache().shuffle(5)
    return (dataset.repeat() if endless else dataset).batch(4)


PARALLEL_MAP, PREFETCH = candidate(("parallelize", "map", None)), candidate(("insert-prefetch", "batch", 2))


@pytest.mark.parametrize("endless", [True, False])
def test_where_the_original_has_a_cache_all_caches_are_full_before_anything_is_timed(endless: bool) -> None:
    """Else a pipeline that reads the files once more is compared with one that need not."""
    watch = FakeWatch()
    told = tried(
        cached(endless=endless), PARALLEL_MAP, PREFETCH, seconds=24, watch=watch
    )  # a busy host needs more than the usual time
    assert all(one.gain is not None for one in told.each)
    full: list[Any] = []
    for what, dataset, elements in watch.done:
        if what == "fill":
            assert elements > 24 // 4  # more than a pass
            full.append(dataset)
        else:
            assert any(dataset is one for one in full)
    assert len(full) >= 3


@pytest.mark.parametrize(
    ("can_fill", "is_short", "phrase"), [(False, False, "takes longer than there is time"), (True, True, "no memory")]
)
def test_a_cache_that_cannot_be_filled_leaves_every_fix_untimed_and_says_why(
    can_fill: bool, is_short: bool, phrase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = FakeWatch(can_fill)
    monkeypatch.setattr("cs_input_analyzer.trial.fixes.is_memory_short", lambda more_bytes=0: is_short)
    told = tried(cached(), PARALLEL_MAP, PREFETCH, watch=watch)
    assert all(one.is_proven and one.gain is None and phrase in one.reason for one in told.each), told
    assert not any(what == "time" for what, _, _ in watch.done)


class KilledError(BaseException):
    """The process is gone: nothing after this is told."""


@pytest.mark.parametrize("dies", ["when timed", "at the end", "when filled"])
def test_a_combination_that_brings_the_process_down_is_blamed_on_the_newest_of_it(
    dies: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each fix by itself runs; what was put together dies: nothing that holds the newest may count as kept."""
    events: list[dict[str, Any]] = []
    watch = FakeWatch()
    calls = []

    def run_rounds(watch: Any, datasets: Any, over: Any, *, begin: Any, **rest: Any) -> Any:
        calls.append(tuple(datasets))
        rates: dict[Any, list[float]] = {}
        for name in datasets:
            begin(name)
            is_together = len(calls) > 1 and name == 1
            if (dies == "when timed" and is_together) or (dies == "at the end" and len(calls) == 3 and name == "before"):
                raise KilledError
            rates[name] = [{"original": 1.0, "before": 2.0, 0: 2.0, 1: 1.5}.get(name, 1.0) * (2 if is_together else 1)] * 4
        yield rates

    def fill(dataset: Any, elements: int, deadline_s: float) -> bool:
        if dies == "when filled" and calls:
            raise KilledError
        return True

    monkeypatch.setattr("cs_input_analyzer.trial.fixes.run_rounds", run_rounds)
    monkeypatch.setattr(watch, "fill", fill)
    report = lambda name, **fields: events.append({"event": name, **fields})  # noqa: E731
    with pytest.raises(KilledError):
        try_fixes(report, cached(), [PARALLEL_MAP, PREFETCH], seconds=PATIENCE_S, watch=watch)
    told = outcomes_of(events, 2)
    assert told.running == 1
    assert told.kept == ((0, 1) if dies == "at the end" else (0,))
    assert not told.is_over


# A file of an input function: each line is a statement that a fix may change.
TEXT = "map\nbatch\n"


def changed(line: int, after: str, *edits: tuple[Any, str, int | None], before: str = "") -> Candidate:
    """A fix that is a change of a line of the file, and the same as edits of the graph."""
    statement = before or TEXT.splitlines()[line - 1]
    return replace(candidate(*edits), change=SourceChange(source=f"a.py:{line}", before=statement, after=after))


def built(texts: Mapping[str, str]) -> Any:
    """The dataset of the file: its first line says of what kind the map is, its last whether there is a prefetch."""
    first, last = texts["a.py"].splitlines()
    if first == "handed_over":
        raise TargetError("a.py is not loaded anew here")
    if first == "broken":
        raise AttributeError("'function' object has no attribute 'cache'")
    dataset = tf.data.Dataset.range(0 if first == "empty" else 24)
    step = 2 if first == "wrong" else 1
    if first == "fails":
        dataset = dataset.map(lambda value: tf.cast(tf.io.decode_raw(["ab", "c"], tf.uint8)[0, 0], tf.int64))
    dataset = dataset.map(lambda value: value + step, num_parallel_calls=2 if first == "parallel" else None).shuffle(5).repeat()
    return dataset.batch(4).prefetch(1) if last == "prefetch" else dataset.batch(4)


def faked_rounds(watch: Any, datasets: Any, over: Any, *, begin: Any, **rest: Any) -> Any:
    """Rounds in which everything that is tried gains."""
    for name in datasets:
        begin(name)
    yield {name: [{"original": 1.0, "before": 2.0}.get(name, 3.0)] * 4 for name in datasets}


def tried_in_source(monkeypatch: pytest.MonkeyPatch, *fixes: Candidate) -> Outcomes:
    monkeypatch.setattr("cs_input_analyzer.trial.fixes.run_rounds", faked_rounds)
    return tried(built({"a.py": TEXT}), *fixes, seconds=PATIENCE_S, texts={"a.py": TEXT}, rebuild=built)


MAP, AHEAD = ("parallelize", "map", 2), ("insert-prefetch", "batch", 1)
REPEATED = ("insert-cache", "batch", None)  # would freeze what chance gives, and looks equal with chance taken out

# The changed map, its edit of the graph; whether the fix is proven, what became of the source, and why.
SOURCES: list[tuple[Candidate, bool, str, str]] = [
    (changed(1, "parallel", MAP), True, "proven", ""),
    (changed(1, "wrong", MAP), True, "fails", "with it, "),
    (changed(1, "broken", MAP), True, "fails", "AttributeError"),
    (changed(1, "handed_over", MAP), True, "not run", "not loaded anew"),
    (changed(1, "parallel", REPEATED), False, "ran", ""),
    # Without an edit a source is run, and only run.
    (changed(1, "parallel"), False, "ran", ""),
    (changed(1, "broken"), False, "fails", "AttributeError: 'function' object has no attribute 'cache'"),
    (changed(1, "empty"), False, "fails", "no element comes with it"),
    (changed(1, "fails"), False, "fails", "your code fails with it: InvalidArgumentError"),
    (changed(1, "handed_over"), False, "not run", "not loaded anew"),
]


def test_a_changed_source_is_proven_and_where_it_cannot_be_the_changed_graph_is(monkeypatch: pytest.MonkeyPatch) -> None:
    told = tried_in_source(monkeypatch, *(fix for fix, *_ in SOURCES))
    for outcome, (fix, is_proven, source, reason) in zip(told.each, SOURCES, strict=True):
        assert (outcome.is_proven, outcome.source) == (is_proven, source), outcome
        assert reason in outcome.source_reason
        assert bool(reason) == bool(outcome.source_reason)
        assert (outcome.gain is not None) == (outcome.elements > 0) == is_proven
        assert ("is repeated" in outcome.reason) == (REPEATED[0] in [edit.kind for edit in fix.edits])


@pytest.mark.parametrize(
    ("more", "patched"),
    [
        ([changed(2, "prefetch", AHEAD)], (0, 1)),
        ([candidate(AHEAD)], (0,)),  # has no source: all edit the graph, and the source is proven alone
        ([changed(1, "prefetch", AHEAD)], (0,)),  # the same words of the same statement
        ([changed(2, "wrong", AHEAD, before="another")], (0,)),  # it is not there
        ([candidate(("use-private-threads", "batch", 2)), changed(2, "prefetch", AHEAD)], (0, 2)),  # proven by itself
    ],
    ids=["both", "no source", "meets", "elsewhere", "some of what was kept"],
)
def test_fixes_that_are_kept_are_one_patch_as_far_as_they_can_be(
    more: list[Candidate], patched: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tried_in_source(monkeypatch, changed(1, "parallel", MAP), *more)
    assert told.is_over
    assert told.kept == tuple(range(len(more) + 1))
    assert told.patched == patched
    assert told.patch.is_proven
    assert told.patch.elements > 0
    assert told.patch.gain is not None
    assert (told.patch.gain == told.gain) == (patched == told.kept)

"""Journals of the monitor: one worker's, several workers', cut and hostile ones."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cs_input_analyzer as csia
from cs_input_analyzer.runs.inspection import inspect_run
from cs_input_analyzer.runs.journal import read_journal
from tests.builders import make_analysis, make_capacity_model, make_consumption
from tests.runs import logs
from tests.runs.loops import MS, Batch, loop_of, monitor_of, train


def journal(
    *,
    worker: str = "worker-0",
    workers: int = 2,
    began_s: float = 0.0,
    gap_s: float = 0.1,
    count: int = 120,
    batch: int = 32,
    verdict: str = "unknown",
    **wait: float,
) -> list[str]:
    """As the monitor writes it: a start, a line for each step, a log every five, an end."""
    share = wait or None
    start = {"worker": worker, "workers": workers, "time_unix_s": 1.7e9 + began_s, "batch_size": batch}
    entries: list[dict[str, Any]] = [{"event": "start", "format": 1, **start, "source": "iterator"}]
    for step in range(1, count + 1):
        at, rate = step * gap_s, batch / gap_s
        times = {"wait_s": 0.0, "step_s": gap_s, "phase": "steady"}
        entries.append({"event": "step", "step": step, "steps": 1, "at_s": at, "samples": batch, **times})
        if step % 5 == 0:
            entries.append({"event": "log", "step": step, "at_s": at + gap_s, "loss": 1.0, "rate": rate, "global_rate": rate})
    total = {"at_s": count * gap_s, "steps": count, "samples": count * batch}
    entries.append({"event": "end", **total, "verdict": verdict, "why": "", "wait_ratio": share})
    return [json.dumps(entry) for entry in entries]


def test_a_wait_share_decides(tmp_path: Path) -> None:
    for low, high, verdict in ((0.3, 0.4, "input_bound"), (0.0, 0.01, "accelerator_bound"), (0.04, 0.2, "unknown")):
        lines = journal(estimate=(low + high) / 2, low=low, high=high)
        found = inspect_run(logs.write(tmp_path / f"{verdict}.jsonl", lines))
        assert found.verdict == verdict
        assert found.evidence["wait_ratio"] == pytest.approx((low + high) / 2)
        # Without waiting a third of the time it would have taken half as much again.
        assert found.change.demand_samples_per_s == pytest.approx(320 / (1 - (low + high) / 2), rel=1e-3)


def keras_journal(*, passes: int, verdict: str, why: str, stall_s: float = 0.1) -> list[str]:
    """As the monitor of Keras writes it: one log step at the end of each pass, and the verdict after training."""
    entries: list[dict[str, Any]] = [{"event": "start", "time_unix_s": 1.7e9, "batch_size": 32, "source": "keras"}]
    step, at = 0, 0.0
    for epoch in range(1, passes + 1):
        entries.append({"event": "epoch", "step": step, "epoch": epoch, "at_s": at})
        for phase in ("epoch_edge", *["steady"] * 19):
            step, at = step + 1, at + (0.1 if step % 20 != 10 else stall_s)
            entries.append({"event": "step", "step": step, "steps": 1, "at_s": at, "samples": 32, "phase": phase})
        entries.append({"event": "log", "step": step, "steps": step, "at_s": at + 0.1, "rate": 320.0, "global_rate": 319.0})
        at += 1.0
    total = {"at_s": at, "steps": step, "samples": 32 * step}
    entries.append({"event": "end", **total, "verdict": verdict, "why": why, "wait_ratio": None})
    return [json.dumps(entry) for entry in entries]


def test_a_training_of_keras_has_its_rate_and_the_verdict_of_its_monitor(tmp_path: Path) -> None:
    """A log step stands at the end of each pass alone: the steps between them give the rate."""
    for verdict, why in (
        ("accelerator_bound", "training took 320"),
        ("input_bound", "all"),
        ("unknown", "no dataset"),
        ("[]", "x"),
    ):
        found = inspect_run(logs.write(tmp_path / "run.jsonl", keras_journal(passes=6, verdict=verdict, why=why)))
        assert found.verdict == (verdict if verdict != "[]" else "unknown")
        assert why in found.reasons
        assert found.rates.steady_samples_per_s is not None
        assert found.rates.steady_samples_per_s.estimate == pytest.approx(320, rel=0.02)
        assert (found.rates.rate_samples_per_s, found.rates.global_rate_samples_per_s) == (320.0, 319.0)


def test_uneven_steps_do_not_outweigh_an_input_that_was_read_alone(tmp_path: Path) -> None:
    for verdict, expected in (("accelerator_bound", "accelerator_bound"), ("unknown", "input_bound")):
        lines = keras_journal(passes=6, verdict=verdict, why="the input has room to spare", stall_s=2.0)
        assert inspect_run(logs.write(tmp_path / "run.jsonl", lines)).verdict == expected


def test_a_long_pause_that_the_monitor_explains_is_no_stall(tmp_path: Path) -> None:
    lines = journal()
    for place in range(81, len(lines)):  # an epoch's edge of ten seconds, told before its log line
        entry = json.loads(lines[place])
        entry["at_s"] += 10.0
        if "global_rate" in entry:
            entry["global_rate"] = None
        lines[place] = json.dumps(entry)
    phase = json.dumps({"event": "phase", "phase": "epoch_edge", "at_s": 6.7, "duration_s": 10.0, "step": 67})
    plain = inspect_run(logs.write(tmp_path / "plain.jsonl", lines))
    told = inspect_run(logs.write(tmp_path / "told.jsonl", [*lines[:81], phase, *lines[81:]]))
    assert plain.stall_count == 1
    assert told.stall_count == 0


def test_validation_between_passes_is_no_stall(tmp_path: Path) -> None:
    lines = journal(count=20)[:1]
    for epoch in range(6):
        for entry in map(json.loads, journal(count=20)[1:-1]):
            entry["at_s"] += epoch * 7.0 + (5.0 if entry["event"] == "log" and entry["step"] == 20 else 0.0)
            entry["step"] += 20 * epoch
            entry["global_rate"] = None
            if entry["event"] == "log" and entry["step"] % 20 == 0:
                told = {"at_s": entry["at_s"] - 5.0, "duration_s": 5.0, "step": entry["step"]}
                lines.append(json.dumps({"event": "evaluation", **told}))
            lines.append(json.dumps(entry))
    plain = inspect_run(logs.write(tmp_path / "plain.jsonl", [line for line in lines if "evaluation" not in line]))
    told = inspect_run(logs.write(tmp_path / "told.jsonl", lines))
    assert (plain.verdict, plain.stall_count) == ("input_bound", 6)
    assert (told.verdict, told.stall_count) == ("unknown", 0)
    assert logs.steady_steps(told) == pytest.approx(10)
    assert [span.duration_s for span in told.timeline if span.phase == "evaluation"] == pytest.approx([5.0] * 6)


def test_a_journal_without_log_steps_is_read_by_its_steps(tmp_path: Path) -> None:
    lines = [line for line in journal() if '"log"' not in line]
    found = inspect_run(logs.write(tmp_path / "steps.jsonl", lines))
    assert logs.steady_steps(found) == pytest.approx(10)
    assert found.rates.rate_samples_per_s is None, "it was never logged"


@pytest.mark.parametrize("log_every", [0, 10])
def test_the_time_between_passes_is_no_stall(log_every: int, tmp_path: Path) -> None:
    loop = loop_of(compute=10 * MS, batches=50, dispatch_s=10 * MS)
    with monitor_of(loop, log_dir=tmp_path, log_every=0) as monitor:
        for _ in range(5):
            loop.given = 0
            train(loop, monitor, log_every=log_every, sync_every=10)
            loop.clock.sleep(5.0)
    found = inspect_run(tmp_path)
    assert found.stall_count == 0
    assert logs.steady(found) == pytest.approx(8 / 15e-3, rel=0.05)


def test_a_log_without_time_stamps_hides_no_journal(tmp_path: Path) -> None:
    loop = loop_of(compute=10 * MS, batches=200, dispatch_s=10 * MS)
    with monitor_of(loop, log_dir=tmp_path) as monitor:
        train(loop, monitor, log_every=10)
    logs.write(tmp_path / "slurm-1.out", monitor.lines)
    found = inspect_run(tmp_path)
    assert {source.kind for source in found.sources} == {"console log", "step journal"}
    assert logs.steady(found) == pytest.approx(8 / 15e-3, rel=0.05)


def test_short_batches_count_as_what_they_hold(tmp_path: Path) -> None:
    sizes = [64, 32, 32, 16]
    loop = loop_of(compute=10 * MS, batches=200, dispatch_s=10 * MS)
    with csia.InputMonitor(
        (Batch((sizes[place % 4],)) for place, _ in enumerate(loop)),
        batch_size=64,
        clock=loop.clock,
        console=None,
        environ={},
        log_dir=tmp_path,
        tensorboard=False,
    ) as monitor:
        train(loop, monitor, sync_every=1)
    found = inspect_run(tmp_path)
    assert (found.rates.batch_size, logs.steady(found)) == (36, pytest.approx(36 / 15e-3, rel=0.01))
    analysis = make_analysis(capacity=make_capacity_model(), consumption=make_consumption(7000.0, batch_size=64))
    assert not any("another network" in note for note in inspect_run(tmp_path, analysis=analysis).notes)


@pytest.mark.parametrize("number", [lambda step: 10_000 + step, lambda step: step // 4, lambda step: step % 400 + 1])
def test_steps_are_counted_as_seen_whatever_the_loop_calls_them(number: Callable[[int], int], tmp_path: Path) -> None:
    """Those of a run that goes on, of gradients that are summed up, of one pass. The monitor logs once before the loop does."""
    loop = loop_of(compute=10 * MS, batches=1000, dispatch_s=10 * MS)
    with monitor_of(loop, log_dir=tmp_path, log_every=100) as monitor:
        for step, _ in enumerate(monitor, start=1):
            loop.train()
            if step % 200 == 0:
                loop.synchronise()
                monitor.log(step=number(step))
    found = inspect_run(tmp_path)
    assert logs.steady(found) == pytest.approx(8 / 15e-3, rel=0.01)
    assert max(span.step or 0 for span in found.timeline) == max(1000, number(1000))


def rate_in(folder: Path) -> float:
    """The steady rate of the one journal that counts there; each step of 0.1 s is 320 samples a second."""
    found = inspect_run(folder)
    assert found.workers == ()
    assert sum(source.kind == "step journal" for source in found.sources) == 1
    return found.rates.steady_samples_per_s.estimate


HERE, BELOW, BESIDE = "steps.jsonl", "monitor-2/steps.jsonl", "monitor-3/steps.jsonl"


@pytest.mark.parametrize(
    ("files", "runs"),
    [
        # Of a cell that was run twice the second counts; the first takes 40 s.
        ({HERE: journal(workers=1, gap_s=0.2, count=200), BELOW: journal(workers=1, began_s=60)}, 1),
        # Ranks that do not know of each other are not added up.
        (dict.fromkeys((HERE, BELOW, BESIDE), journal(workers=1)), 1),
        # A second start begins a second run.
        ({HERE: [*journal(gap_s=1.0)[:-20], "", *journal()]}, 2),
        # One that is cut is read until there.
        ({HERE: [*journal()[:90], journal()[90][:40]]}, 1),
    ],
    ids=["a cell twice", "strangers", "two starts", "cut"],
)
def test_of_several_journals_the_newest_counts(files: dict[str, list[str]], runs: int, tmp_path: Path) -> None:
    for name, lines in files.items():
        logs.write(tmp_path / name, lines)
    assert rate_in(tmp_path) == pytest.approx(320)
    found = inspect_run(tmp_path)
    assert found.runs_found == runs
    assert sum("left aside" in note for note in found.notes) == len(files) - 1


@pytest.mark.parametrize("first", ["training", "validation"])
def test_of_training_and_validation_the_training_counts(tmp_path: Path, first: str) -> None:
    training = journal(workers=1, began_s=0 if first == "training" else 0.01)
    validation = journal(workers=1, began_s=0.01 if first == "training" else 0, gap_s=0.05, count=60)
    root, below = (training, validation) if first == "training" else (validation, training)
    logs.write(tmp_path / "steps.jsonl", root)
    logs.write(tmp_path / "monitor-2" / "steps.jsonl", below)
    assert rate_in(tmp_path) == pytest.approx(320)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(("estimate", "low", "high")), inner, max_size=3),
    max_leaves=4,
)
KEYS = st.sampled_from(
    ("step", "at_s", "rate", "global_rate", "wait_ratio", "verdict", "why", "duration_s", "worker", "batch_size", "samples")
)
EVENTS = st.sampled_from(("start", "step", "log", "interval", "checkpoint", "verdict", "end", "epoch", "new in a later version"))


@given(st.lists(st.tuples(EVENTS, st.dictionaries(KEYS, JSON, max_size=6)), max_size=30), st.lists(st.binary(max_size=40)))
def test_no_content_raises_or_invents_a_rate(entries: list[tuple[str, dict[str, Any]]], damaged: list[bytes]) -> None:
    lines = [json.dumps({**values, "event": event}).encode() for event, values in entries]
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"\n".join([*lines, *damaged]))
        file.flush()
        found = read_journal(Path(file.name), 0.0)
    given_rates = {float(v) for _, values in entries for v in values.values() if isinstance(v, int | float) and abs(v) < 1e300}
    for writer in found.run.writers:
        assert writer.last("rate") is None or writer.last("rate") in given_rates


def test_of_several_workers_one_counts_and_its_rate_is_none_of_the_run(tmp_path: Path) -> None:
    for worker in ("worker-0", "worker-1"):
        lines = journal(worker=worker, workers=2, estimate=0.4, low=0.3, high=0.5)
        logs.write(tmp_path / worker / "steps.jsonl", lines)
    logs.write(tmp_path / "steps.jsonl", journal(workers=1, began_s=5, count=1000))  # an evaluator, which is no worker
    logs.write(tmp_path / "performance" / "performance.json", [json.dumps({"est_samples_per_sec": 2500.0})])
    found = inspect_run(tmp_path)
    assert (found.verdict, "reached_ratio" in found.evidence, found.change.input_factor) == ("input_bound", False, None)
    assert any("one of 2 workers" in note for note in found.notes)

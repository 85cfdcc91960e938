"""Runs and writers of a log: what belongs together, and what hostile logs may not do."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cs_input_analyzer.runs.console_log import LoggedRun, read_console_log
from cs_input_analyzer.runs.inspection import inspect_run
from cs_input_analyzer.runs.pace import pace_of
from tests.runs import logs

GAPS = st.lists(st.integers(500, 60_000).map(lambda value: value / 1000), min_size=1, max_size=30)


def read(data: bytes) -> list[LoggedRun]:
    runs, _ = read_console_log(re.split(rb"[\r\n]", data))
    return runs


def text(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def rates_of(lines: list[str]) -> set[float]:
    return {float(part.split(" ")[0]) for line in lines for part in line.split("Rate=")[1:]}


@settings(deadline=None)  # the first rate of all loads a library of statistics
@given(GAPS, st.data())
def test_a_cut_log_never_raises_and_never_invents_a_rate(gaps: list[float], data: st.DataObject) -> None:
    lines = logs.smoothed_log(gaps)
    whole = text(lines)
    cut = whole[data.draw(st.integers(0, len(whole))) : data.draw(st.integers(0, len(whole)))]
    for run in read(cut):
        for writer in run.writers:
            assert {writer.last("rate"), writer.last("global_rate")} <= {None, *rates_of(lines)}
            steady = pace_of(writer, run.finished).steady_steps_per_s
            # Between no two lines did it go faster or slower than this.
            assert steady is None or 10 / max(gaps) * 0.99 <= steady.estimate <= 10 / min(gaps) * 1.01


@pytest.mark.parametrize("label", ["{}: ", "[1,{}]<stdout>:", "[rank{}]: ", "[default{}]:"])
def test_ranks_of_different_pace_are_told_apart_by_their_labels(label: str, tmp_path: Path) -> None:
    pairs = zip(logs.smoothed_log([5.0] * 29), logs.smoothed_log([10.0] * 29), strict=True)
    found = logs.inspected(tmp_path, [label.format(rank) + line for pair in pairs for rank, line in enumerate(pair)])
    assert (found.runs_found, found.notes) == (1, ())
    assert logs.steady(found) in (pytest.approx(128.0, rel=0.01), pytest.approx(64.0, rel=0.01))


@pytest.mark.parametrize("labels", [("0: ", "1: ", "2: "), ("", "", "")], ids=["labelled", "in turn"])
def test_ranks_in_one_log_are_told_apart(labels: tuple[str, ...], tmp_path: Path) -> None:
    lines = [
        label + logs.train_line(logs.stamp(10.0 * place + 0.1 * rank), 10 * place, 64.0, 64.0)
        for place in range(1, 30)
        for rank, label in enumerate(labels)
    ]
    found = logs.inspected(tmp_path, lines)
    assert (found.runs_found, found.stall_count) == (1, 0)
    assert logs.steady_steps(found) == pytest.approx(1.0, rel=0.01)


def test_of_two_runs_one_after_the_other_the_newest_counts(tmp_path: Path) -> None:
    older = logs.smoothed_log([10.0] * 8)
    newer = [line.replace("2024-03-01", "2024-03-05") for line in logs.smoothed_log([20.0] * 8)]
    start = ["2024-03-05 11:59:00,000 INFO:   Beginning appliance run"]
    for between in (start, []):
        found = logs.inspected(tmp_path, [*older, *between, *newer])
        assert found.runs_found == 2
        assert logs.steady_steps(found) == pytest.approx(0.5)
        assert found.stall_count == 0, "the night between two runs is no stall"


@pytest.mark.parametrize("began_step", [120, 125, 155])
def test_a_run_that_goes_on_from_an_earlier_step_is_one_of_its_own(began_step: int, tmp_path: Path) -> None:
    """Nothing marks its start, and its steps need not lie on those of the run before."""
    before = logs.smoothed_log([5.0] * 19)
    after = logs.smoothed_log([5.0] * 29, began_s=300.0, began_step=began_step)
    found = logs.inspected(tmp_path, [*before, *after])
    assert (found.runs_found, found.stall_count) == (2, 0)
    assert logs.steady(found) == pytest.approx(128.0, rel=0.01)


def test_a_run_that_goes_on_from_its_last_step_keeps_its_batch_size(tmp_path: Path) -> None:
    """GlobalRate counts anew from there, though steps do not."""
    before = logs.smoothed_log([5.0] * 19)
    start = [f"{logs.stamp(at)} INFO:   {text}" for at, text in ((130, "Compiling the model."), (190, "Beginning appliance run"))]
    after = logs.smoothed_log([5.0] * 29, began_s=195.0, began_step=200)
    found = logs.inspected(tmp_path, [*before, *start, *after])
    assert (found.rates.batch_size, found.stall_count) == (64, 0)
    assert logs.steady(found) == pytest.approx(128.0, rel=0.01)


@pytest.mark.parametrize("places", [(10,), (5, 10), (0,)], ids=["at the end", "between, too", "before"])
def test_the_evaluations_of_an_estimator_hide_no_training(places: tuple[int, ...], tmp_path: Path) -> None:
    plain = logs.estimator_log(logs.ESTIMATOR_ROWS)
    lines = list(plain)
    for place in sorted(places, reverse=True):
        step = logs.ESTIMATOR_ROWS[place - 1][0] if place else 0
        result = f"INFO:tensorflow:Saving dict for global step {step}: accuracy = 0.97, global_step = {step}, loss = 0.08"
        lines.insert(place, result)
    found = inspect_run(logs.write(tmp_path / "evaluated.log", lines))
    expected = inspect_run(logs.write(tmp_path / "plain.log", plain))
    assert found.runs_found == expected.runs_found == 1
    assert found.workers == ()
    if 5 not in places:  # after an evaluation between two lines, the time from one to the other is not the training's
        assert found.rates == expected.rates
    assert [span.phase for span in found.timeline].count("evaluation") == len(places)
    (run,) = read(text(lines))
    (writer,) = run.writers
    assert len(writer.lines) == len(plain)


def test_two_runs_mixed_line_by_line_get_no_verdict(tmp_path: Path) -> None:
    quick, slow = logs.smoothed_log([5.0] * 20), logs.smoothed_log([40.0] * 20, steps=100)
    logs.write(tmp_path / "run.log", [line for pair in zip(quick, slow, strict=True) for line in pair])
    logs.write(tmp_path / "performance.json", ['{"est_samples_per_sec": 128.0, "suspected_input_bottleneck": "true"}'])
    found = inspect_run(tmp_path)
    assert (found.verdict, found.confidence) == ("unknown", None)
    assert any("mixed" in note for note in found.notes)


def test_training_and_evaluation_in_turn_are_one_run(tmp_path: Path) -> None:
    lines, at = [], 0.0
    for lap in range(6):
        lines.append(f"{logs.stamp(at)} INFO:   Beginning appliance run")
        for place in range(5):
            at += 10
            lines.append(logs.train_line(logs.stamp(at), 10 * (5 * lap + place + 1), 64.0, 64.0))
        at += 100
        lines += [logs.eval_line(logs.stamp(at - 50), 5, 99.0), logs.eval_line(logs.stamp(at), 10, 99.0)]
    found = logs.inspected(tmp_path, lines)
    assert found.runs_found == 1
    assert found.stall_count == 0
    assert {stall.cause for stall in found.stalls} <= {"evaluation", "set-up"}
    assert logs.steady_steps(found) == pytest.approx(1.0)
    assert found.rates.rate_samples_per_s == 64.0, "an evaluation's rate is none of training"


def stalled(gap_s: float, every: int, count: int = 60) -> list[float]:
    return [gap_s if place % every == every - 1 else 2.0 for place in range(count)]


def test_stalls_at_regular_steps_are_starvation(tmp_path: Path) -> None:
    found = logs.inspected(tmp_path, logs.smoothed_log(stalled(30.0, 6)))
    assert found.verdict == "input_bound"
    assert found.stall_count == 10
    assert found.rates.undisturbed_samples_per_s == pytest.approx(320, rel=0.01)
    assert logs.steady(found) < 310


def saved_in(gaps: list[float], places: range, length_s: float) -> list[str]:
    """The log with a checkpoint of that length in the gaps at these places."""
    lines, at = [], 5.0
    for place, (line, gap) in enumerate(zip(logs.smoothed_log(gaps), [*gaps, 0.0], strict=True)):
        lines.append(line)
        if place in places:
            lines += logs.checkpoint_lines(logs.stamp(at), logs.stamp(at + length_s), 10 * (place + 1))
        at += gap
    return lines


def test_the_same_stalls_with_checkpoints_in_them_are_not(tmp_path: Path) -> None:
    found = logs.inspected(tmp_path, saved_in(stalled(30.0, 6), range(5, 60, 6), 28.0))
    assert found.verdict == "unknown"
    assert found.stall_count == 0
    assert {stall.cause for stall in found.stalls} == {"checkpoint"}
    assert found.rates.undisturbed_samples_per_s is None
    assert sum(span.phase == "checkpoint" for span in found.timeline) == 10

    # A short one in some of the stalls does not hide these.
    gaps = stalled(30.0, 6)
    found = logs.inspected(tmp_path, saved_in(gaps, range(5, 60, 12), 1.0))
    assert found.stall_count == 5
    assert logs.steady_steps(found) == pytest.approx(600 / sum(gaps), rel=0.02)


def noisy(line: str) -> str:
    bar = f"  7%|█▋        | 7/100 [00:01<00:12,  7.4it/s]\r{line}"
    return f"{bar}\n日志 \x00 \udcff\n\x1b[1m{line[:40]}\n"


@pytest.mark.parametrize("form", ["\r\n", "\r", " \t\n", noisy], ids=["DOS", "returns", "blanks", "bars, colours, foreign text"])
def test_how_lines_end_and_what_stands_between_them_makes_no_difference(tmp_path: Path, form: str | Callable[[str], str]) -> None:
    lines = logs.smoothed_log([3.0] * 10)
    plain = inspect_run(logs.write(tmp_path / "a.log", lines))
    written = [line + form if isinstance(form, str) else form(line) for line in lines]
    other = inspect_run(logs.write(tmp_path / "b.log", written, ending=""))
    assert (other.rates, other.stalls, other.verdict) == (plain.rates, plain.stalls, plain.verdict)


def test_a_gzipped_log_is_the_same_log(tmp_path: Path) -> None:
    lines = logs.smoothed_log([3.0] * 40)
    plain = inspect_run(logs.write(tmp_path / "a.log", lines))
    packed = gzip.compress(text(lines))
    (tmp_path / "b.log.gz").write_bytes(packed)
    assert inspect_run(tmp_path / "b.log.gz").rates == plain.rates
    (tmp_path / "c.log.gz").write_bytes(packed[: len(packed) // 2])
    cut = inspect_run(tmp_path / "c.log.gz")
    assert "cut" in cut.sources[0].note
    assert cut.rates.global_rate_samples_per_s in rates_of(lines)


def test_a_clock_that_is_set_back_is_in_no_rate_and_no_stall(tmp_path: Path) -> None:
    lines = [logs.train_line(logs.stamp(10.0 * place - 3600 * (place >= 20)), 10 * place, 64.0, 64.0) for place in range(1, 40)]
    found = logs.inspected(tmp_path, lines)
    assert found.stall_count == 0
    assert any("backwards" in note for note in found.notes)
    assert logs.steady_steps(found) == pytest.approx(1.0)


@pytest.mark.parametrize("kind", ["no stamps", "stamps that stand still", "stamps that all run backwards"])
def test_without_times_there_are_the_logged_rates_alone(tmp_path: Path, kind: str) -> None:
    at = {"no stamps": lambda place: "", "stamps that stand still": lambda place: logs.stamp(0)}
    of_line = at.get(kind, lambda place: logs.stamp(1000.0 - 10 * place))
    found = logs.inspected(tmp_path, [logs.train_line(of_line(place), 10 * place, 64.0, 65.0) for place in range(1, 40)])
    rates = found.rates
    assert (rates.steady_steps_per_s, rates.rate_samples_per_s, rates.global_rate_samples_per_s) == (None, 64.0, 65.0)
    assert found.stall_count == 0
    assert any("backwards" in note for note in found.notes) == (kind == "stamps that all run backwards")
    assert kind != "no stamps" or all(span.start_s is None for span in found.timeline)


LINES = [
    *logs.smoothed_log([1.0, 2.0]),
    *logs.estimator_log(logs.ESTIMATOR_ROWS[:3]),
    logs.eval_line(logs.stamp(4), 5, 9.0),
    *logs.checkpoint_lines(logs.stamp(1), logs.stamp(2), 7),
    "Beginning appliance run",
    "global_step = 4, loss = 1",
    "Processed 640 training sample(s) in 3.5 seconds.",
]


@given(st.lists(st.sampled_from(LINES) | st.text(max_size=30), max_size=40))
def test_no_order_of_lines_raises(lines: list[str]) -> None:
    for run in read("\n".join(lines).encode("utf-8", "surrogateescape")):
        for writer in run.writer_groups()[-1]:
            pace = pace_of(writer, run.finished)
            assert pace.steady_steps_per_s is None or pace.steady_steps_per_s.low > 0


def test_phases_of_a_start_are_in_the_timeline(tmp_path: Path) -> None:
    start = [
        (0, "Compiling the model. This may take a few minutes."),
        (90, "Compile artifacts successfully written to remote compile directory."),
        (95, "Compile was successful!"),
        (96, "Programming Cerebras Wafer Scale Cluster for execution."),
        (130, "About to send initial weights"),
        (140, "Finished sending initial weights"),
        (141, "Waiting for device programming to complete"),
        (200, "Device programming is complete"),
        (201, "Waiting for input workers to prime the data pipeline and begin streaming ..."),
        (801, "Input workers have begun streaming input data"),
        (802, "Beginning appliance run"),
    ]
    lines = [f"{logs.stamp(at)} INFO:   {words}" for at, words in start]
    alone = logs.inspected(tmp_path, lines[6:7])
    assert [(span.phase, span.start_s, span.duration_s) for span in alone.timeline] == [("programming", 0.0, None)]  # without end
    assert alone.verdict == "unknown"
    lines += [logs.train_line(logs.stamp(802 + 10 * place), 10 * place, 64.0, 64.0) for place in range(1, 20)]
    found = logs.inspected(tmp_path, lines)
    assert [(span.phase, span.start_s, span.duration_s) for span in found.timeline] == [
        ("compile", 0.0, 90.0),
        ("programming", 96.0, 104.0),
        ("weights", 130.0, 10.0),
        ("priming", 201.0, 600.0),
        ("train", 802.0, 190.0),
    ]


def test_checkpoints_told_by_each_rank_count_once(tmp_path: Path) -> None:
    lines = [f"{rank}: {line}" for rank in range(3) for line in logs.smoothed_log([2.0] * 5)]
    for edge in (0, 1):
        lines += [f"{rank}: {logs.checkpoint_lines(logs.stamp(30), logs.stamp(40), 60)[edge]}" for rank in range(3)]
    found = logs.inspected(tmp_path, lines)
    assert [span.duration_s for span in found.timeline if span.phase == "checkpoint"] == [10.0]


def test_one_long_gap_between_two_lines_is_one_observation(tmp_path: Path) -> None:
    """However many steps lie in it: its parts agree because nobody looked."""
    lines = [
        logs.train_line(logs.stamp(at), step, 64.0, 64.0) for at, step in ((10, 10), (20, 20), (10_000, 10_000), (10_010, 10_010))
    ]
    steady = logs.inspected(tmp_path, lines).rates.steady_steps_per_s
    assert steady.high > 1.5 * steady.estimate

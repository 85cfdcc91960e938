"""The command, and the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cs_input_analyzer.cli import main
from cs_input_analyzer.report import render
from cs_input_analyzer.report.pictures import pictures_of
from cs_input_analyzer.runs.inspection import inspect_run
from tests.builders import make_analysis, make_capacity_model
from tests.runs import logs


@pytest.fixture
def starved_log(tmp_path: Path) -> Path:
    return logs.write(tmp_path / "run.log", logs.excerpt("ViT-base, 2.5"))


def test_the_console_says_the_verdict_within_80_columns(starved_log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect-run", str(starved_log), "--current", "2x8x4", "--full"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("INPUT-BOUND")
    assert all(len(line) <= 80 for line in shown.splitlines() if str(starved_log) not in line)
    for words in ("Timeline", "checkpoint", "GlobalRate", "776", "What was read"):
        assert words in shown


def test_the_next_command_keeps_the_launch(starved_log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect-run", str(starved_log), "--current", "2x8x4"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"cs_input_analyzer inspect-run {starved_log} --current 2x8x4 --full"


def test_the_json_has_what_scripts_read(starved_log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "found.json"
    assert main(["inspect-run", str(starved_log), "--json", str(out), "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    document = json.loads(out.read_text())
    assert document["schema_version"] == 1
    assert document["verdict"] == "input_bound"
    assert 0.8 <= document["confidence"] <= 1
    assert document["rates"]["global_rate_samples_per_s"] == 776.21
    assert {span["phase"] for span in document["timeline"]} == {"train", "checkpoint"}
    assert 4 < document["evidence"]["burst_ratio"] < 5.5
    assert document["change"]["input_factor"] > 3


def test_the_page_stands_alone(starved_log: Path, tmp_path: Path) -> None:
    page = tmp_path / "found.html"
    assert main(["inspect-run", str(starved_log), "--html", str(page), "-q"]) == 0
    text = page.read_text()
    assert "INPUT-BOUND" in text
    assert "http" not in text.split("<body>")[1]
    assert 'data-chart="timeline"' in text
    assert 'data-chart="steps"' in text
    assert json.loads(text.split('id="inspection">')[1].split("</script>")[0])["verdict"] == "input_bound"


def test_a_hostile_name_stays_text(tmp_path: Path) -> None:
    log = logs.write(tmp_path / "a<script>[red]\x1b[31m наш.log", logs.smoothed_log([2.0] * 10))
    found = inspect_run(log)
    assert "\x1b" not in render(found, "console", full=True)
    assert "<script>[red]" not in render(found, "html")
    assert json.loads(render(found, "json"))["path"] == str(log)


def test_a_saved_analysis_plans_the_change(starved_log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "saved.json"
    saved.write_text(render(make_analysis(capacity=make_capacity_model()), "json"))
    assert main(["inspect-run", str(starved_log), "--analysis", str(saved), "--current", "2x4x2"]) == 0
    assert "capacity model" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.log"], "missing.log"),
        ([".", "--current", "1x2"], "layout"),
        ([".", "--current", "1x1x1,1x2x1"], "a layout is written"),
        ([".", "--json", "no/such/folder/out.json"], "no/such"),
        ([".", "--analysis", "missing.json"], "missing.json"),
        ([], "PATH"),
    ],
)
def test_what_the_user_can_put_right_ends_with_2(
    arguments: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    logs.write(tmp_path / "run.log", logs.smoothed_log([2.0] * 10))
    assert main(["inspect-run", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_a_timeline_of_many_checkpoints_is_shown_in_part(tmp_path: Path) -> None:
    lines = []
    for place in range(1, 200):
        at = 20.0 * place
        lines.append(logs.train_line(logs.stamp(at), 10 * place, 32.0, 32.0))
        lines += logs.checkpoint_lines(logs.stamp(at + 1), logs.stamp(at + 6), 10 * place)
    found = logs.inspected(tmp_path, lines)
    assert len(found.timeline) == 200
    assert found.evidence["checkpoints"] == 199
    assert logs.steady(found) == pytest.approx(32.0)
    assert any("no interval between lines is free of checkpoints" in note for note in found.notes)
    assert found.rates.global_rate_samples_per_s == 32.0
    assert len(render(found, "console", full=True).splitlines()) < 100
    assert render(found, "html").count('class="stretch') <= 24


@pytest.mark.parametrize("count", [0, 1, 10, 1000])
def test_the_spans_hold_every_step_once_and_are_few(count: int, tmp_path: Path) -> None:
    found = logs.inspected(tmp_path, logs.smoothed_log([2.0] * count, steps=10))
    assert len(found.spans) == min(count, 120)
    assert sum(span.steps for span in found.spans) == 10 * count
    assert all(span.steps_per_s == pytest.approx(5.0) for span in found.spans)
    ends = [span.step + span.steps for span in found.spans]
    assert [span.step for span in found.spans[1:]] == ends[:-1]
    assert ("steps" in pictures_of(found)) == (count >= 2)


def test_pauses_are_marked_and_their_absence_too(tmp_path: Path) -> None:
    for name, gaps, pauses in (("even", [2.0] * 30, 0), ("paused", [*[2.0] * 15, 60.0, *[2.0] * 15], 1)):
        chart = pictures_of(logs.inspected(tmp_path / name, logs.smoothed_log(gaps)))["steps"]
        assert chart.svg.count('class="rule pause"') == pauses, name
        assert len([key for key in chart.keys if key.look == "pause"]) == pauses, name

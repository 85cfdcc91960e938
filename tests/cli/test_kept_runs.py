"""Runs that are kept, so that the next command needs no file."""

from __future__ import annotations

import webbrowser
from dataclasses import replace
from pathlib import Path

import pytest
from builders import make_analysis, make_plan

from cs_input_analyzer.cli import kept, main
from cs_input_analyzer.records import Analysis
from cs_input_analyzer.report import load

Printed = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache" / "cs_input_analyzer"


def run(nodes: int) -> Analysis:
    return make_analysis(recommendation=make_plan(f"{nodes}x1x1"))


def test_the_newest_are_kept_for_their_owner_alone(cache: Path) -> None:
    paths = [kept.keep(run(nodes)) for nodes in range(1, kept.MOST_KEPT + 4)]
    assert kept.kept() == paths[3:]
    assert load(paths[-1]) == run(kept.MOST_KEPT + 3)
    assert (cache / "runs").stat().st_mode & 0o077 == 0


def test_no_secret_of_a_command_is_in_the_name_of_its_file() -> None:
    target = "python run.py --api-key sk-live-9f8A7b6C5d --batch 32"
    made = make_analysis()
    path = kept.keep(replace(made, pipeline=replace(made.pipeline, target=target)))
    assert "run.py" in path.name
    assert "9f8A7b6C5d" not in path.name


@pytest.mark.parametrize("command", ["report", "plan", "validate", "compare"])
def test_where_none_is_kept_the_command_says_what_to_do(command: str, capsys: Printed) -> None:
    assert main([command]) == 2
    error = capsys.readouterr().err
    assert "no run is kept here yet" in error
    assert "cs_input_analyzer analyze TARGET" in error


def test_one_kept_run_is_not_enough_to_compare(capsys: Printed) -> None:
    kept.keep(run(1))
    assert main(["compare"]) == 2
    assert main(["compare", str(kept.kept()[0])]) == 0
    assert "Traceback" not in capsys.readouterr().err


def test_without_a_file_the_newest_is_taken_and_named(capsys: Printed) -> None:
    for nodes in (3, 2):
        kept.keep(run(nodes))
    assert main(["report"]) == 0
    shown = capsys.readouterr()
    assert "nodes 2" in shown.out
    assert str(kept.kept()[-1]) in shown.err
    assert main(["report", str(kept.kept()[0])]) == 0
    shown = capsys.readouterr()
    assert "nodes 3" in shown.out
    assert shown.err == ""


def test_a_plan_is_kept_and_says_what_to_type_next_without_a_file(capsys: Printed) -> None:
    kept.keep(run(1))
    assert main(["plan", "--demand", "1000"]) == 0
    shown = capsys.readouterr()
    assert [line for line in shown.out.splitlines() if "RUN.json" in line] == []
    assert shown.out.splitlines()[-1] == "cs_input_analyzer report --full"
    assert len(kept.kept()) == 2
    assert f"run kept in {kept.kept()[-1]}" in shown.err
    assert load(kept.kept()[-1]).parent is not None
    assert main(["plan", "--demand", "1000", "--json", "mine.json"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "cs_input_analyzer report mine.json --full"


def test_validate_runs_no_code_of_the_newest_without_a_word(capsys: Printed) -> None:
    kept.keep(run(1))
    assert main(["validate"]) == 2
    assert "--yes" in capsys.readouterr().err


def test_a_cache_that_cannot_be_written_costs_nothing_else(cache: Path, capsys: Printed) -> None:
    cache.mkdir(parents=True)
    (cache / "runs").write_text("")
    assert kept.keep(run(1)) is None
    assert "the run is not kept" in capsys.readouterr().err


def test_view_writes_the_page_and_opens_it(cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed) -> None:
    kept.keep(run(1))
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: bool(opened.append(address)))
    assert main(["report", "--view"]) == 0
    assert main(["report", "--view", "-o", "my page.html"]) == 0
    assert opened == [(cache / "report.html").as_uri(), (Path.cwd() / "my page.html").as_uri()]
    assert load(cache / "report.html") == run(1)
    assert "no browser could be opened here" in capsys.readouterr().err
    assert main(["report", "--view", "--format", "md"]) == 2
    assert main(["report", "--view", "-o", "run.csv"]) == 2

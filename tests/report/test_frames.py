"""Every table of a run, for spreadsheets and notebooks: all records, all fields, nothing that runs."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from pathlib import Path

import pytest
from builders import make_analysis, make_bare_analysis
from hostile import HOSTILE, hostile
from hypothesis import HealthCheck, given, settings
from page_runs import usual_run
from record_strategies import analyses

from cs_input_analyzer.api import load_analysis
from cs_input_analyzer.cli import main
from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.records import Analysis, Finding, Op, OpCost
from cs_input_analyzer.report import render, render_table
from cs_input_analyzer.report.frames import TABLES, frames
from cs_input_analyzer.report.wording import visible


def rows(analysis: Analysis, table: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(render_table(analysis, table), newline="")))


def counts(run: Analysis) -> dict[str, int]:
    """How many records of each kind there are, counted at the run itself."""
    workers = [worker for item in run.measurements for worker in item.workers]
    plan, capacity = run.recommendation, run.capacity
    return {
        "workers": len(workers),
        "measurements": len(run.measurements),
        "blocks": sum(len(worker.block_samples_per_s) for worker in workers),
        "gaps": sum(len(worker.batch_gaps_s) for worker in workers),
        "tuned": sum(len(worker.tuned) for worker in workers),
        "ops": len(run.pipeline.ops),
        "elements": len(run.pipeline.element_spec),
        "costs": len(run.profile.ops) if run.profile else 0,
        "stations": len(run.stations),
        "reads": len(run.storage.reads) if run.storage else 0,
        "capacity": len(capacity.workers) if capacity else 0,
        "contention": len(capacity.contention) if capacity else 0,
        "scaling": len(run.scaling.points) if run.scaling else 0,
        "launches": 1 + len(plan.alternatives) if plan else 0,
        "what_if": len(plan.what_if) if plan else 0,
        "findings": len(run.findings),
        "validation": len(run.validation.rows) if run.validation else 0,
    }


@pytest.mark.parametrize("run", [usual_run(), make_bare_analysis()], ids=["usual", "bare"])
def test_every_record_has_its_row(run: Analysis) -> None:
    expected = counts(run)
    assert set(expected) == set(TABLES)
    assert {name: len(rows(run, name)) for name in TABLES} == expected
    assert {name: len(frame) for name, frame in frames(run).items()} == expected


def test_columns_do_not_depend_on_the_run() -> None:
    usual, bare = frames(usual_run()), frames(make_bare_analysis())
    for name in TABLES:
        assert list(usual[name].columns) == list(bare[name].columns)
        assert len(usual[name].columns) == len(set(usual[name].columns))


@pytest.mark.parametrize(("record", "table"), [(Op, "ops"), (OpCost, "costs"), (Finding, "findings")])
def test_every_field_has_its_column(record: type, table: str) -> None:
    columns = {name.partition(".")[0] for name in frames(usual_run())[table].columns}
    assert {field.name for field in dataclasses.fields(record)} <= columns


def test_numbers_arrive() -> None:
    run = usual_run()
    plan, costs = run.recommendation, rows(run, "costs")
    assert plan is not None
    assert run.profile is not None
    assert [row["self_cpu_s_per_sample"] for row in costs] == [str(op.self_cpu_s_per_sample) for op in run.profile.ops]
    first, *others = rows(run, "launches")
    assert (first["role"], first["layout"]) == ("recommended", str(plan.layout))
    assert float(first["predicted_samples_per_s.low"]) == plan.predicted_samples_per_s.low
    assert [row["layout"] for row in others] == [str(other.layout) for other in plan.alternatives]
    assert [json.loads(row["evidence"]) for row in rows(run, "findings")] == [dict(item.evidence) for item in run.findings]
    lost = rows(run, "findings")[0]
    assert (lost["measured_gain.estimate"], lost["op"]) == ("", "")
    assert frames(run)["costs"]["self_cpu_s_per_sample"].sum() == pytest.approx(
        sum(op.self_cpu_s_per_sample or 0 for op in run.profile.ops)
    )


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("table", ["ops", "findings", "measurements", "launches"])
def test_hostile_text_stays_in_its_cell(table: str, name: str) -> None:
    run = hostile(make_analysis(), HOSTILE[name])
    found = rows(run, table)
    assert len(found) == counts(run)[table]
    assert all(None not in row for row in found)
    if table == "ops":
        assert {row["name"].removeprefix("'") for row in found} == {visible(HOSTILE[name])}
        assert all(row["name"].startswith("'") for row in found) or not HOSTILE[name].startswith("=")


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(analyses())
def test_any_run_makes_its_tables(analysis: Analysis) -> None:
    assert {name: len(rows(analysis, name)) for name in TABLES} == counts(analysis)


def test_no_such_table() -> None:
    with pytest.raises(UsageError, match="there are workers, measurements"):
        render_table(make_analysis(), "nonsense")


# --- the command and the notebook --------------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path: Path) -> str:
    path = tmp_path / "run.json"
    path.write_text(render(usual_run(), "json"), encoding="utf-8")
    return str(path)


def test_the_command_writes_one_table_or_all(saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", saved, "--table", "findings"]) == 0
    assert capsys.readouterr().out.rstrip("\n") == render_table(usual_run(), "findings").rstrip("\n")
    assert main(["report", saved, "--table", "ops", "-o", str(tmp_path / "ops.txt")]) == 0
    assert (tmp_path / "ops.txt").read_text() == render_table(usual_run(), "ops")
    folder = tmp_path / "tables"
    folder.mkdir()
    assert main(["report", saved, "--table", "all", "-o", str(folder)]) == 0
    assert {path.name for path in folder.iterdir()} == {f"{name}.csv" for name in TABLES}
    assert (folder / "what_if.csv").read_text() == render_table(usual_run(), "what_if")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--table", "nonsense"], "there is no table"),
        (["--table", "all"], "name the folder"),
        (["--table", "all", "-o", "/nowhere/at/all"], "cannot write into the folder /nowhere/at/all: no such file"),
        (["--table", "all", "-o", __file__], "file exists"),
        (["--table", "ops", "--format", "html"], "tables are CSV"),
    ],
)
def test_what_cannot_be_written_ends_with_two(
    saved: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", saved, *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err


def test_from_python(saved: str, tmp_path: Path) -> None:
    run = load_analysis(saved)
    assert set(run.tables()) == set(TABLES)
    run.to_csv(tmp_path / "findings.csv", table="findings")
    assert (tmp_path / "findings.csv").read_text() == render_table(usual_run(), "findings")
    run.to_csv(tmp_path / "workers.csv")
    assert (tmp_path / "workers.csv").read_text() == render(usual_run(), "csv")

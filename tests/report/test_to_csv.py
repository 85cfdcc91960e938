"""Every table of a run, for spreadsheets and notebooks: all records, all fields, units in the names, nothing that runs."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from builders import make_analysis, make_measurement, make_steady_state, make_worker
from hostile import hostile
from page_runs import usual_run
from rendered import table_rows

from cs_input_analyzer.api import load_analysis
from cs_input_analyzer.cli import main
from cs_input_analyzer.records import Finding, Op, OpCost
from cs_input_analyzer.report import render, render_table
from cs_input_analyzer.report.to_csv import TABLES, frames, to_csv
from cs_input_analyzer.units import visible


@pytest.mark.parametrize(("record", "table"), [(Op, "ops"), (OpCost, "costs"), (Finding, "findings")])
def test_every_field_has_its_column(record: type, table: str) -> None:
    columns = {name.partition(".")[0] for name in frames(usual_run())[table].columns}
    assert {field.name for field in dataclasses.fields(record)} <= columns


def test_numbers_arrive() -> None:
    run = usual_run()
    plan, costs = run.recommendation, table_rows(run, "costs")
    assert [row["self_cpu_s_per_sample"] for row in costs] == [str(op.self_cpu_s_per_sample) for op in run.profile.ops]
    first, *others = table_rows(run, "launches")
    assert (first["role"], first["layout"]) == ("recommended", str(plan.layout))
    assert float(first["predicted_samples_per_s.low"]) == plan.predicted_samples_per_s.low
    assert [row["layout"] for row in others] == [str(other.layout) for other in plan.alternatives]
    assert [json.loads(row["evidence"]) for row in table_rows(run, "findings")] == [dict(item.evidence) for item in run.findings]
    unmeasured = table_rows(run, "findings")[0]
    assert (unmeasured["measured_gain.estimate"], unmeasured["op"]) == ("", "")
    assert frames(run)["costs"]["self_cpu_s_per_sample"].sum() == pytest.approx(
        sum(op.self_cpu_s_per_sample or 0 for op in run.profile.ops)
    )


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", " +"])
def test_a_formula_is_text_and_plain_text_and_negative_numbers_are_left_alone(start: str) -> None:
    text = f"{start}1+1"
    assert {row["node"] for row in table_rows(hostile(make_analysis(), text))} == {f"'{visible(text)}"}
    assert {row["node"] for row in table_rows(make_analysis())} == {"probe-01"}
    assert "'" not in to_csv(make_analysis())


def test_missing_cells_are_empty_and_whole_numbers_stay_whole() -> None:
    good, lost = table_rows(make_analysis(measurements=(make_measurement("1x2x3", (900.0, None)),)))
    assert good["peak_rss_bytes"].isdigit()
    empty = ("peak_rss_bytes", "samples_per_s.estimate", "steady_state.blocks", "noise.others_ratio")
    assert {lost[name] for name in empty} == {""}
    assert (lost["nodes"], lost["tasks_per_node"], lost["cpus_per_task"], lost["status"]) == ("1", "2", "3", "lost")


@pytest.mark.parametrize(("moved", "cell"), [(None, ""), ((), "0"), (("map.n", "prefetch.m"), "2")])
def test_a_list_inside_a_cell_is_counted(moved: tuple[str, ...] | None, cell: str) -> None:
    worker = make_worker(900.0, steady_state=make_steady_state(moved=moved))
    (row,) = table_rows(make_analysis(measurements=(make_measurement("1x1x1", workers=(worker,)),)))
    assert row["steady_state.moved_count"] == cell
    assert "steady_state.moved" not in row


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
    assert main(["report", saved, "--table", "all", "-o", str(folder)]) == 0
    assert {path.name for path in folder.iterdir()} == {f"{name}.csv" for name in TABLES}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--table", "nonsense"], "there is no table 'nonsense'; there are workers, measurements"),
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
    for table in ("findings", "workers"):
        run.to_csv(tmp_path / "table.csv", table=table)
        assert (tmp_path / "table.csv").read_text() == render_table(usual_run(), table)

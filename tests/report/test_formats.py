"""One door to every format: what each ending means, what each file holds, and what is not loaded unless it is asked for."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from builders import make_analysis, make_bare_analysis, make_launch_lines, make_measurement, make_plan, make_worker
from hostile import hostile
from page_runs import usual_run
from pages import Page
from rendered import csv_rows

from cs_input_analyzer.api import load_analysis
from cs_input_analyzer.cli import main
from cs_input_analyzer.errors import AnalyzerError, UsageError
from cs_input_analyzer.records import Analysis
from cs_input_analyzer.report import ENDINGS, FORMATS, Format, format_of, load, render, write_text_atomically
from cs_input_analyzer.report import to_html as module
from cs_input_analyzer.report.to_csv import COLUMNS
from cs_input_analyzer.report.to_html import MEANINGS, templates_dir
from cs_input_analyzer.report.to_json import plain
from cs_input_analyzer.units import visible
from tests.functional.running import loaded_after


def test_every_ending_names_a_format_and_others_are_refused() -> None:
    assert set(ENDINGS.values()) == set(FORMATS)
    for ending, format in ENDINGS.items():
        assert format_of(f"a.b/run{ending.upper()}") == format
    for path in ("run", "run.pdf", ".json/run", "run.json.gz"):
        with pytest.raises(UsageError, match="--format"):
            format_of(path)
    with pytest.raises(UsageError, match="console, html, md, json, csv, sbatch, env"):
        render(make_analysis(), "pdf")  # type: ignore[arg-type]


@pytest.mark.parametrize("format", ["html", "json"])
def test_a_saved_report_renders_again_to_the_same_text(tmp_path: Path, format: Format) -> None:
    path = tmp_path / "saved"
    write_text_atomically(path, render(make_analysis(), format))
    again = load(path)
    for other in FORMATS:
        assert render(again, other) == render(make_analysis(), other)


def test_importing_loads_nothing_heavy_and_reading_neither_tensorflow_nor_a_renderer(tmp_path: Path) -> None:
    heavy = ("tensorflow", "pandas", "jinja2", "rich", "numpy")
    code = "import cs_input_analyzer.report, cs_input_analyzer.report.to_json, cs_input_analyzer.report.to_html"
    assert loaded_after(f"{code}, cs_input_analyzer.report.to_csv, cs_input_analyzer.report.to_console", *heavy) == set()
    path = tmp_path / "run.json"
    path.write_text(render(make_analysis(), "json"))
    assert loaded_after(f"from cs_input_analyzer.report import load; load({str(path)!r})", *heavy) == set()


# --- sbatch and env ------------------------------------------------------------------------------------------------------------


def test_env_is_for_a_shell_to_source_and_sbatch_is_the_file_of_the_plan(tmp_path: Path) -> None:
    file = tmp_path / "plan.env"
    file.write_text(render(make_analysis(recommendation=make_plan("3x4x2", launch=None)), "env"))
    shell = subprocess.run(
        ["bash", "-c", '. "$0" && env', str(file)], env={}, capture_output=True, text=True, timeout=60, check=True
    )
    assert {"DEF_NODES=3", "DEF_TASKS=4", "DEF_CPUS=2"} <= set(shell.stdout.splitlines())
    text = "#!/bin/bash\n#SBATCH --comment='\x1b <b> [red]'\n"
    assert render(make_analysis(recommendation=make_plan(launch=make_launch_lines(sbatch=text))), "sbatch") == text


def test_env_and_sbatch_need_a_plan() -> None:
    for plan in (None, make_plan(launch=None)):
        with pytest.raises(UsageError, match="no recommended launch"):
            render(make_bare_analysis(recommendation=plan), "sbatch")
    with pytest.raises(UsageError, match="no recommended launch, so there is no value of DEF_NODES"):
        render(make_bare_analysis(recommendation=None), "env")
    with pytest.raises(UsageError, match="the reason"):
        render(make_bare_analysis(recommendation=None, no_plan="the reason"), "env")


# --- lines to copy -------------------------------------------------------------------------------------------------------------


def test_launch_lines_can_be_copied() -> None:
    launch = make_launch_lines(
        csrun_wse="csrun_wse python run.py --params configs/of_a_folder_with_a_long_name/params_resnet50.yaml"
    )
    run = make_analysis(recommendation=make_plan(launch=launch))
    lines, page = render(run, "console", full=True, width=60).split("\n"), Page(render(run, "html"))
    for text in (launch.defaults, launch.csrun_wse, launch.srun, run.command, "DEF_NODES=2\nDEF_TASKS=16\nDEF_CPUS=2"):
        assert set(text.split("\n")) <= set(lines)
        assert text in page.text
    assert launch.sbatch in page.text
    assert len(page.attribute("data-copy")) == 8  # with two commands to type next
    bare = Page(render(make_bare_analysis(), "html"))
    assert "launch" not in bare.attribute("id")
    assert len(bare.attribute("data-copy")) == 3


def test_a_source_line_is_not_broken_in_a_narrow_table() -> None:
    run = make_analysis()
    assert run.profile is not None
    ops = tuple(
        replace(op, name=f"from_tensor_slices_{line}", source=f"/home/me/dataloaders/input_pipeline.py:{line}")
        for line, op in enumerate(run.profile.ops, 10)
    )
    shown = render(replace(run, profile=replace(run.profile, ops=ops)), "console", full=True, width=80)
    cells = [line.rpartition("  ")[2] for line in shown.partition("Cost of each op")[2].split("\n")]
    assert {f"input_pipeline.py:{line}" for line in range(10, 10 + len(ops))} <= set(cells)


# --- CSV -----------------------------------------------------------------------------------------------------------------------


def test_each_column_is_a_path_of_the_document_and_any_run_has_all() -> None:
    document: list[dict[str, list[object]]] = plain(usual_run().measurements)  # type: ignore[assignment]
    workers = [worker for launch in document for worker in launch["workers"]]
    of_launch, of_worker = set(pd.json_normalize(document).columns), set(pd.json_normalize(workers).columns)  # type: ignore[arg-type]
    paths = [name.removeprefix("launch.") for name in COLUMNS if name.startswith("launch.")]
    assert set(paths) - of_launch == {"number"}
    assert {name for name in COLUMNS if not name.startswith("launch.")} <= of_worker
    for run in (usual_run(), make_bare_analysis()):
        assert render(run, "csv").splitlines()[0] == ",".join(COLUMNS)


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", " +"])
def test_a_formula_is_text_and_negative_numbers_are_left_alone(start: str) -> None:
    text = f"{start}1+1"
    assert {row["node"] for row in csv_rows(hostile(make_analysis(), text))} == {f"'{visible(text)}"}
    below = make_analysis(measurements=(make_measurement("1x1x1", workers=(make_worker(900.0, cpu_s_per_sample=-0.5),)),))
    assert csv_rows(below)[0]["cpu_s_per_sample"] == "-0.5"


@pytest.mark.parametrize("number", [2**70, 10**400, 1e300, 9.3e18, -(2.0**63), 7])
def test_numbers_of_any_size_arrive_beside_missing_ones(number: float) -> None:
    workers = (make_worker(900.0, private_bytes=number), make_worker(None, index=1, private_bytes=None))
    row, lost = csv_rows(make_analysis(measurements=(make_measurement("1x2x1", workers=workers),)))
    assert (type(number)(row["private_bytes"]), lost["private_bytes"]) == (number, "")
    assert row["peak_rss_bytes"].isdigit()


def test_the_command_and_python_write_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, saved = render(usual_run(), "csv"), tmp_path / "run.json"
    saved.write_text(render(usual_run(), "json"), encoding="utf-8")
    assert main(["report", str(saved), "--format", "csv"]) == 0
    assert capsys.readouterr().out.rstrip("\n") == text.rstrip("\n")
    load_analysis(saved).to_csv(tmp_path / "python.csv")
    assert main(["report", str(saved), "-o", str(tmp_path / "command.csv")]) == 0
    assert [(tmp_path / name).read_text() for name in ("command.csv", "python.csv")] == [text, text]


# --- the page ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [make_analysis, make_bare_analysis])
def test_nothing_is_fetched(make: Callable[[], Analysis]) -> None:
    text = render(make(), "html")
    page = Page(text)
    assert page.kinds == ["run", None]
    assert page.attribute("src") == []
    assert all(link is not None and link.startswith(("#", "data:")) for link in page.attribute("href"))
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|https?://", text)
    (policy,) = [attributes["content"] for _, attributes in page.tags if attributes.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert policy.startswith("default-src 'none'")


def test_figures_are_explained_and_changes_are_marked_for_who_sees_no_colors() -> None:
    finding = replace(make_analysis().findings[0], before="ds.map(f)", after="ds.map(g)")
    page = render(make_analysis(findings=(finding,)), "html")
    assert f'<span class="term" tabindex="0" data-tip="{MEANINGS["extrapolation"]}">extrapolation</span>' in page
    assert all(meaning and not meaning.endswith(".") for meaning in MEANINGS.values())
    assert "<del>- ds.map(f)</del>" in page
    assert "<ins>+ ds.map(g)</ins>" in page
    assert 'class="change"' not in render(make_analysis(), "html")
    assert module._breakable("12 samples/s of /data/<run>/f.py:3") == "12 samples/s of /<wbr>data/<wbr>&lt;run&gt;/<wbr>f.py:3"


def test_a_usual_page_is_small_and_our_own_part_of_it_is_smaller() -> None:
    assert len(render(usual_run(), "html").encode()) < 200_000
    assert sum(path.stat().st_size for path in templates_dir().iterdir() if path.is_file()) < 80_000


def test_templates_are_found_in_a_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = tmp_path / "site-packages/cs_input_analyzer/report"
    # What another package may have put beside ours is not ours.
    for folder in (inside / "templates", tmp_path / "site-packages/reports/templates"):
        folder.mkdir(parents=True)
        (folder / "report.html.j2").write_text("")
    monkeypatch.setattr(module, "__file__", str(inside / "to_html.py"))
    assert templates_dir() == inside / "templates"
    monkeypatch.setattr(module, "__file__", str(tmp_path / "a/b/c/to_html.py"))
    with pytest.raises(AnalyzerError, match="installation is incomplete"):
        templates_dir()

"""One door to every format; what is not asked for is not loaded."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from builders import make_analysis, make_bare_analysis, make_launch_lines, make_plan

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.report import ENDINGS, FORMATS, Format, format_of, load, render, write_text_atomically
from tests.functional.running import loaded_after


def test_every_ending_names_a_format() -> None:
    assert set(ENDINGS.values()) == set(FORMATS)
    for ending, format in ENDINGS.items():
        assert format_of(f"a.b/run{ending.upper()}") == format


@pytest.mark.parametrize("path", ["run", "run.pdf", ".json/run", "run.json.gz"])
def test_an_ending_that_says_nothing(path: str) -> None:
    with pytest.raises(UsageError, match="--format"):
        format_of(path)


def test_no_such_format() -> None:
    with pytest.raises(UsageError, match="console, html, md, json, csv, sbatch, env"):
        render(make_analysis(), "pdf")  # type: ignore[arg-type]


def test_sbatch_is_the_file_of_the_plan_unchanged() -> None:
    text = "#!/bin/bash\n#SBATCH --comment='\x1b <b> [red]'\n"
    plan = make_plan(launch=make_launch_lines(sbatch=text))
    assert render(make_analysis(recommendation=plan), "sbatch") == text


def test_env_is_for_a_shell_to_source(tmp_path: Path) -> None:
    file = tmp_path / "plan.env"
    file.write_text(render(make_analysis(recommendation=make_plan("3x4x2")), "env"))
    assert file.read_text() == "export DEF_NODES=3\nexport DEF_TASKS=4\nexport DEF_CPUS=2\n"
    shell = subprocess.run(
        ["bash", "-c", '. "$0" && env', str(file)], env={}, capture_output=True, text=True, timeout=60, check=True
    )
    assert {"DEF_NODES=3", "DEF_TASKS=4", "DEF_CPUS=2"} <= set(shell.stdout.splitlines())


def test_env_and_sbatch_need_a_plan_and_env_no_launch_lines() -> None:
    for plan in (None, make_plan(launch=None)):
        with pytest.raises(UsageError, match="no recommended launch"):
            render(make_bare_analysis(recommendation=plan), "sbatch")
    assert render(make_analysis(recommendation=make_plan("1x2x1", launch=None)), "env").startswith("export DEF_NODES=1\n")
    with pytest.raises(UsageError, match="no recommended launch, so there is no value of DEF_NODES"):
        render(make_bare_analysis(recommendation=None), "env")
    with pytest.raises(UsageError, match="the reason"):
        render(make_bare_analysis(recommendation=None, no_plan="the reason"), "env")


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

"""What is gone says so, with what to do instead, wherever a user may type it."""

from __future__ import annotations

from pathlib import Path

import pytest

import cs_input_analyzer as csia
from cs_input_analyzer.cli import main
from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.gone import GONE
from cs_input_analyzer.records import Options
from cs_input_analyzer.report import render
from cs_input_analyzer.workflows import replan
from tests.builders import make_analysis


@pytest.mark.parametrize("option", GONE["option"])
def test_an_option_that_is_gone_says_what_to_do(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", "nothing.py:f", option, "3"]) == 2
    assert f"`{option}` is gone: {GONE['option'][option]}" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("option", GONE["option"])
def test_a_keyword_that_is_gone_says_what_to_do(option: str) -> None:
    keyword = option.removeprefix("--").replace("-", "_")
    assert keyword not in Options.__dataclass_fields__
    with pytest.raises(UsageError, match="is gone: ") as raised:
        csia.analyze("nothing.py:f", **{keyword: 3})
    assert "unknown keyword" not in str(raised.value)
    with pytest.raises(UsageError, match="is gone: "):
        replan.plan(make_analysis(), command="", **{keyword: 3})


@pytest.mark.parametrize("name", GONE["name"])
def test_a_name_that_is_gone_says_what_to_do(name: str) -> None:
    with pytest.raises(AttributeError, match=f"`{name}` is gone: "):
        getattr(csia, name)


@pytest.mark.parametrize("command", GONE["command"])
def test_a_command_that_is_gone_says_what_to_do(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command]) == 2
    assert f"`{command}` is gone: {GONE['command'][command]}" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("form", GONE["format"])
def test_a_format_that_is_gone_says_what_to_do(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.json").write_text(render(make_analysis(), "json"))
    assert main(["report", str(tmp_path / "run.json"), "--format", form]) == 2
    assert f"`{form}` is gone: {GONE['format'][form]}" in " ".join(capsys.readouterr().err.split())

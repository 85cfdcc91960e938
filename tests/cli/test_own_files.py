"""The question whether code may run on the user's own files: asked on a terminal alone, and once for a target in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from cs_input_analyzer.cli import running
from cs_input_analyzer.cli.running import OwnFiles
from cs_input_analyzer.errors import NotIsolatedError

REFUSED = NotIsolatedError("nothing was run")


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[bool]:
    """Answers to come; there is no terminal where there are none."""
    left: list[bool] = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "is_tty", lambda stream: bool(left))
    monkeypatch.setattr(running.click, "confirm", lambda *_, **__: left.pop(0))
    return left


def test_without_a_terminal_nothing_is_asked(answers: list[bool]) -> None:
    with pytest.raises(NotIsolatedError):
        OwnFiles("data.py:input_fn", False).ask(REFUSED)


def test_a_no_is_a_no_and_is_not_remembered(answers: list[bool]) -> None:
    answers += [False, False]
    for _ in range(2):
        with pytest.raises(NotIsolatedError):
            OwnFiles("data.py:input_fn", False).ask(REFUSED)
    assert answers == []


def test_a_yes_is_remembered_for_that_target_in_that_folder(
    answers: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers.append(True)
    for _ in range(2):
        OwnFiles("data.py:input_fn", False).ask(REFUSED)
    with pytest.raises(NotIsolatedError):
        OwnFiles("data.py:other", False).ask(REFUSED)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(NotIsolatedError):
        OwnFiles("data.py:input_fn", False).ask(REFUSED)


@pytest.mark.parametrize("text", ["", "{}", "[1]", "no JSON", '["\\ud800"]'])
def test_a_broken_memory_is_none(answers: list[bool], tmp_path: Path, text: str) -> None:
    memory = tmp_path / "cache" / "cs_input_analyzer" / "on_own_files.json"
    memory.parent.mkdir(parents=True)
    memory.write_text(text)
    answers.append(True)
    OwnFiles("data.py:input_fn", False).ask(REFUSED)
    OwnFiles("data.py:input_fn", False).ask(REFUSED)
    assert answers == []

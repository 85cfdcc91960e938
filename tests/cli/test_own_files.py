"""The question whether code may run on the user's own files: asked on a terminal alone, each time."""

from __future__ import annotations

import pytest

from cs_input_analyzer.cli import running
from cs_input_analyzer.errors import NotIsolatedError

REFUSED = NotIsolatedError("nothing was run")


@pytest.mark.parametrize(("is_terminal", "answer"), [(False, True), (True, False), (True, True)])
def test_only_a_yes_on_a_terminal_is_one(is_terminal: bool, answer: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "is_tty", lambda stream: is_terminal)
    monkeypatch.setattr(running.click, "confirm", lambda *_, **__: answer)
    if is_terminal and answer:
        running.ask_for_own_files(REFUSED)
    else:
        with pytest.raises(NotIsolatedError):
            running.ask_for_own_files(REFUSED)


@pytest.mark.parametrize("is_allowed", [False, True])
def test_the_question_comes_where_there_can_be_no_copies_and_the_command_begins_again(
    is_allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[NotIsolatedError] = []
    monkeypatch.setattr(running, "_Interrupts", object)
    monkeypatch.setattr(running, "ask_for_own_files", asked.append)

    def measure(progress: object, on_own_files: bool) -> str:
        if not on_own_files:
            raise REFUSED
        return "found"

    assert running.Output({}, is_quiet=True).measured(60.0, measure, is_allowed) == "found"
    assert asked == ([] if is_allowed else [REFUSED])

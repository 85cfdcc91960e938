"""Help that helps: short first, all of it when asked for, nothing cut."""

from __future__ import annotations

import re

import click
import pytest

from cs_input_analyzer.cli import COMMANDS, cli, main
from cs_input_analyzer.cli.command import MOST_SHOWN
from cs_input_analyzer.cli.original import original

OPTION = re.compile(r"^  (?:-\w, )?(--[a-z-]+)", re.MULTILINE)
ALL = [*(command.name for command in COMMANDS), "python"]


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(click.formatting, "FORCED_WIDTH", 80)


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(words) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", ALL)
def test_help_is_short_and_help_all_has_every_option(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = original if name == "python" else cli.commands[name]
    there = {option.opts[-1] for option in command.params if isinstance(option, click.Option)} | {"--help"}
    short = OPTION.findall(shown(capsys, name, "--help"))
    assert len(short) <= MOST_SHOWN + 2
    if len(there) > MOST_SHOWN:
        assert "--help-all" in short
        assert len(OPTION.findall(shown(capsys, name, "--help-all"))) == len(there)
    else:
        assert len(short) == len(there)


def test_commands_stand_in_the_order_of_use_and_no_summary_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "--help")
    listed = text[text.index("Commands:") :]
    assert re.findall(r"^  ([a-z-]+) ", listed, re.MULTILINE) == [command.name for command in COMMANDS]
    assert "..." not in listed
    for summary in COMMANDS.values():
        assert summary in listed


def test_examples_are_commands_that_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    texts = [shown(capsys, "--help"), *(shown(capsys, command.name, "--help") for command in COMMANDS)]
    examples = [
        line.strip() for text in texts for line in text.splitlines() if re.match(r"  (srun \S+ \S+ )?cs_input_analyzer ", line)
    ]
    assert len(examples) >= 10
    for line in examples:
        assert len(line) <= 78, line
        words = line[line.index("cs_input_analyzer") :].split()[1:]
        command = original if words[0] == "python" else cli.commands[words[0]]
        known = {name for option in command.params for name in option.opts}
        assert {word for word in words[1:] if word.startswith("--")} - known <= ({"--mode"} if words[0] == "python" else set())

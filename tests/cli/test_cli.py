"""The command line's own manners: what it prints cannot act on a terminal, and a reader that leaves is told from a verdict."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cs_input_analyzer import __main__ as command_line
from cs_input_analyzer.cli import main, original, rules, running, terminal
from cs_input_analyzer.errors import InputFunctionError, UsageError
from cs_input_analyzer.records import Capture, CaptureCandidate, Fixes, Layout, Patch
from cs_input_analyzer.report import load, render
from cs_input_analyzer.workflows import launched
from tests.builders import make_analysis, make_host
from tests.functional.running import ran
from tests.report.hostile import HOSTILE

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u2066\ud800-\udfff]")
TITLE = "\x1b]0;owned\x07\x1b[2J"


@pytest.fixture
def run_file(tmp_path: Path) -> str:
    file = tmp_path / "run.json"
    file.write_text(render(make_analysis(host=make_host(tensorflow_version=None)), "json"))  # so nothing is said of versions
    return str(file)


# --- who reads ---------------------------------------------------------------------------------------------------------------


def ended(arguments: Sequence[str], root: Path, stream: str) -> tuple[int, str]:
    """The exit code with nobody reading one of the streams, and what came on the other."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    other = "stderr" if stream == "stdout" else "stdout"
    with open(write_end, "w") as out:
        done: Any = subprocess.run(
            [sys.executable, "-m", "cs_input_analyzer", *arguments],
            cwd=root,
            text=True,
            timeout=60,
            check=False,
            **{stream: out, other: subprocess.PIPE},
        )
    return done.returncode, getattr(done, other)


@pytest.mark.parametrize(
    "arguments",
    [
        ["report", "RUN", "--format", "json"],
        ["--version"],
        ["python", "--help"],
    ],
    ids=" ".join,
)
def test_a_reader_that_leaves_ends_it_with_a_code_of_its_own(arguments: list[str], run_file: str, root: Path) -> None:
    """Not with 1, which says that a gate has tripped."""
    given = [run_file if argument == "RUN" else argument for argument in arguments]
    assert ended(given, root, "stdout") == (141, "")


def test_complaints_that_nobody_reads_change_nothing(run_file: str, root: Path) -> None:
    code, out = ended(["report", run_file], root, "stderr")
    assert code == 0
    assert "ACCELERATOR-BOUND" in out
    assert ended(["report", "no-such-run.json"], root, "stderr") == (2, "")
    assert ended(["no-such-command"], root, "stderr") == (2, "")


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("report RUN >&- 2>&-", 4),
        ("report RUN <&- 2>&-", 0),
        ("report nosuch.json <&- >&- 2>&-", 2),
        ("rules >&-", 4),
        ("validate RUN <&-", 2),
    ],
)
def test_a_stream_that_is_closed_changes_no_exit_code(command: str, code: int, run_file: str, root: Path) -> None:
    """As in a `cron` table, or a service that closes what it does not use."""
    done = ran(["sh", "-c", f"{sys.executable} -m cs_input_analyzer {command.replace('RUN', run_file)}"], root)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert ("standard output is closed" in done.stderr) == (command == "rules >&-")


DEAD_TERMINAL = """
import sys
from cs_input_analyzer.cli.terminal import Progress, complain, print_text
sys.stdin.readline()  # until the terminal is gone
with Progress(False, 60.0) as progress:
    progress("measuring 1x1x1", 0.5)
complain("a message")
print_text("a report")
"""


def test_a_terminal_that_is_gone_ends_nothing(root: Path) -> None:
    """As when a connection is lost: what was measured is still to be saved."""
    ours, theirs = os.openpty()
    command = [sys.executable, "-c", DEAD_TERMINAL]
    with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        os.close(ours)
        process.communicate(b"\n", timeout=60)
    assert process.returncode == 0


@pytest.mark.parametrize(
    "environment",
    [
        {"COLUMNS": "abc"},
        {"COLUMNS": "1"},
        {"COLUMNS": "9" * 30},
        {"TERM": ""},
    ],
    ids=str,
)
def test_a_terminal_that_says_odd_things_of_itself_is_written_to(
    environment: dict[str, str], run_file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert main(["report", run_file, "--full"]) == 0
    assert "samples/s" in " ".join(capsys.readouterr().out.split()) or environment == {"COLUMNS": "1"}


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "cs_input_analyzer: interrupted"),
        (EOFError("a pipe to somebody ended"), 70, "this is a bug"),
        (RuntimeError("can't start new thread"), 4, "end other processes of yours, or raise their limit"),
        (ValueError(TITLE), 70, "Traceback"),
        (InputFunctionError(f"raised {TITLE}", f"Traceback {TITLE}"), 3, "Traceback"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_ends_a_command_has_its_code_and_acts_on_no_terminal(
    error: BaseException, code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> str:
        raise error

    monkeypatch.setattr(rules, "print_text", fails)
    assert main(["rules"]) == code
    shown = capsys.readouterr().err
    assert said in shown
    assert CONTROL.search(shown) is None


def test_ctrl_c_while_the_commands_are_imported_leaves_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupting(ModuleType):
        def __getattr__(self, name: str) -> None:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "cs_input_analyzer.cli", Interrupting("cs_input_analyzer.cli"))
    assert command_line.main() == running.EXIT_INTERRUPTED
    assert capsys.readouterr().err == "cs_input_analyzer: interrupted\n"


def test_shells_can_complete_commands(root: Path) -> None:
    asked = {"_CS_INPUT_ANALYZER_COMPLETE": "zsh_complete", "COMP_WORDS": "cs_input_analyzer ins", "COMP_CWORD": "1"}
    done = ran([sys.executable, "-m", "cs_input_analyzer"], root, **asked)
    assert (done.returncode, done.stderr) == (0, "")
    assert "inspect-run" in done.stdout


# --- what is printed ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [TITLE, "a\r\x1b[Kb", *HOSTILE.values()])
def test_nothing_of_others_acts_on_the_terminal(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    terminal.complain(f"message {text}", f"details {text}")
    terminal.Progress(False)(f"progress {text}", 0.5)
    shown = capsys.readouterr().err
    assert CONTROL.search(shown) is None
    for part in ("details", "cs_input_analyzer: message", "cs_input_analyzer: progress"):
        assert part in shown


def test_lines_and_tabs_of_a_message_stay(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.complain("first\n\tsecond\r\nthird", 'Traceback\n  File "x.py"\n')
    assert capsys.readouterr().err == 'Traceback\n  File "x.py"\ncs_input_analyzer: first\n    second\nthird\n'


@pytest.mark.parametrize(
    "arguments", [["report", f"no{TITLE}.json"], [f"no{TITLE}"], ["rules", f"--no{TITLE}"], ["report", "no\udc80"]]
)
def test_names_in_errors_cannot_either(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    shown = capsys.readouterr().err
    assert "no\\" in shown
    assert CONTROL.search(shown) is None


def test_what_a_script_is_found_to_hold_cannot(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    one = CaptureCandidate(number=1, kind="fit", call=f"fit{TITLE}", code=None, source=f"/x{TITLE}.py:3", mode="train")
    found = Capture(command=f"python {TITLE}", picked=1, candidates=(one,), stand_ins=(TITLE,), notes=(TITLE,))
    for line in original.listed(found):
        original.complain(line)
    shown = capsys.readouterr().err
    assert "capture 1: fit\\x1b" in shown
    assert CONTROL.search(shown) is None


# --- what was measured is not lost -------------------------------------------------------------------------------------------

PATCH = Patch(diff="--- ./x.py\n+++ ./x.py\n@@ -1 +1 @@\n-a\n+b\n", folder="/data", codes=("CSI101",), proven=True)


@pytest.mark.parametrize("more", [(), ("--quiet",)])
def test_a_patch_that_cannot_be_written_takes_nothing_along(
    more: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "patches"
    folder.mkdir()
    layout = Layout.parse("1x1x1")
    found = make_analysis(fixes=Fixes(codes=("CSI101",), edits=(), measured_gain=None, layout=layout, patch=PATCH))

    def tunes(*_: object, **__: object) -> object:
        folder.rmdir()  # there when it was asked for, gone a minute later
        return found

    monkeypatch.setattr(launched, "analyze", tunes)
    saved = tmp_path / "run.json"
    arguments = ["tune", f"{__file__}:f", "--write-patch", str(folder / "a.patch"), "--json", str(saved), *more]
    assert main(arguments) == UsageError.exit_code
    told = capsys.readouterr()
    assert load(str(saved)).fixes == found.fixes
    assert "+b" in told.out
    last = told.err.splitlines()[-1]
    assert last.startswith("cs_input_analyzer: cannot write")
    assert "a.patch" in last


def test_a_file_that_cannot_be_written_does_not_take_the_patch_along(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    patch = tmp_path / "a.patch"

    def write() -> None:
        patch.write_text("diff")

    output = running.Output({"json": str(tmp_path / "gone" / "run.json")}, is_quiet=True)
    with pytest.raises(UsageError, match="no folder"):
        output.deliver(make_analysis(), lambda **_: "the report", write)
    assert patch.read_text() == "diff"
    assert capsys.readouterr().out == "the report\n"

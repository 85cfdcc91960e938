"""Progress: what runs now, the rate so far and the time left; one live line on a terminal, a line for each step in a pipe."""

from __future__ import annotations

import io
import re
import sys
import types
from typing import Any

import pytest
from rich.console import Console

from cs_input_analyzer import api
from cs_input_analyzer.cli.terminal import Progress

STEPS = (("importing TensorFlow", 0.0), ("measuring 1x1x1", 0.1), ("measuring 1x1x1", 0.2), ("measuring 1x1x2", 0.45))


def test_a_pipe_gets_one_line_for_each_step(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(False, 60.0) as progress:
        for step in STEPS:
            progress(*step)
    assert capsys.readouterr().err.splitlines() == [
        "cs_input_analyzer: importing TensorFlow",
        "cs_input_analyzer: measuring 1x1x1, up to 54 s left",
        "cs_input_analyzer: measuring 1x1x2, up to 33 s left",
    ]
    with Progress(True, 60.0) as progress:
        progress(*STEPS[1])
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("width", [50, 120])
def test_a_terminal_has_one_line_that_counts_down_between_steps(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    times = [100.0]
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    with Progress(False, 60.0, clock=lambda: times[-1]) as progress:
        for what, ratio in (*STEPS, ("measuring 1x16x2 as 256 workers (1x1x2 gave 1,042 samples/s as measured)", 0.5)):
            progress(what, ratio)
        shown = []
        for now in (100.0, 107.0, 200.0):
            times.append(now)
            out = io.StringIO()
            Console(file=out, width=width).print(progress._bar.get_renderable())
            shown.append(out.getvalue().rstrip("\n"))
    assert [line for text in shown for line in text.splitlines()] == shown
    assert all("measuring 1x" in line and len(line) <= width for line in shown)
    assert [re.findall(r"up to \d+ s left, ", line) for line in shown] == [[f"up to {left} s left, "] for left in (30, 23, 0)]
    assert ("1,042 samples/s" in shown[0]) == (width > 100)


def test_a_notebook_shows_a_bar_until_the_run_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    handle = types.SimpleNamespace(update=lambda shown: seen.append(shown))
    display: Any = types.ModuleType("IPython.display")
    display.HTML, display.display = str, lambda shown, display_id: handle
    ipython: Any = types.ModuleType("IPython")
    shell = types.SimpleNamespace()
    ipython.get_ipython = lambda: shell
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    with api._shown(None, 60.0) as progress:  # IPython on a terminal
        progress(*STEPS[1])
    assert seen == []
    shell.kernel = object()
    with api._shown(None, 60.0) as progress:
        progress("measuring <b>", 0.5)
    assert seen == ['<progress max="1" value="0.500"></progress> measuring &lt;b&gt;, up to 30 s left', ""]
    told: list[str] = []
    with api._shown(lambda what, ratio: told.append(what), 60.0) as progress:
        progress(*STEPS[0])
    assert (told, len(seen)) == (["importing TensorFlow"], 2)

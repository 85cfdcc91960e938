"""The terminal: progress and complaints on stderr, reports on stdout, wherever these lead."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from cs_input_analyzer.records import Analysis


class Progress:
    """Progress on stderr: a live bar on a terminal, one plain line per step elsewhere, nothing when quiet."""

    def __init__(self, is_quiet: bool) -> None:
        self._is_quiet = is_quiet
        self._bar: Any = None
        self._task: Any = None
        self._last = ""

    def __enter__(self) -> Progress:
        if not self._is_quiet and is_terminal(sys.stderr):
            from rich import progress as live
            from rich.console import Console

            text = live.TextColumn("{task.description}", markup=False)
            columns = (live.SpinnerColumn(), text, live.BarColumn(), live.TimeElapsedColumn())
            self._bar = live.Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("starting", total=1.0)
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, what: str, done_ratio: float) -> None:
        if self._bar is not None:
            self._bar.update(self._task, description=what, completed=min(1.0, done_ratio))
        elif not self._is_quiet and what != self._last:
            click.echo(f"cs_input_analyzer: {what}", err=True)
        self._last = what


def tell_versions(found: Analysis) -> None:
    """Says on stderr that a saved run is of another TensorFlow than the one that is installed here."""
    from cs_input_analyzer.measure.host import tensorflow_version

    then, here = found.host.tensorflow_version, tensorflow_version()
    if then is not None and here is not None and then != here:
        complain(
            f"warning: this run was measured with TensorFlow {then}, here is {here}: the pipeline may be faster or slower with it; "
            "analyze it again before you launch with this version"
        )


def complain(message: str, details: str = "") -> None:
    if details:
        click.echo(details.rstrip(), err=True)
    click.echo(f"cs_input_analyzer: {message}", err=True)


class OutputError(Exception):
    """Standard output goes to a full disk."""


def print_text(text: str) -> None:
    try:
        click.echo(text.rstrip("\n"), color=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError((error.strerror or str(error)).lower()) from None


def hide_stdout() -> None:
    """So that the interpreter does not fail once more when it flushes what could not be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def is_terminal(stream: Any) -> bool:
    return bool(stream.isatty()) and "NO_COLOR" not in os.environ


def width() -> int | None:
    return None if sys.stdout.isatty() else int(os.environ.get("COLUMNS", "") or 80)

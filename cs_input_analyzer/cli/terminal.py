"""The terminal: progress and complaints on stderr, reports on stdout, wherever these lead."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import sys
from collections.abc import Callable
from typing import Any, TextIO, cast

import click

from cs_input_analyzer.units import format_seconds, visible

MOST_COLUMNS = 1000  # of nobody's terminal


class _Lasting:
    """A stream whose terminal may go away: what cannot be written then is dropped, as nobody is there to read it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            hide(self._stream)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            hide(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Progress:
    """Progress on stderr: one live line on a terminal, one plain line per step elsewhere, nothing when quiet.

    `max_seconds`: the time budget, of which `done_ratio` is spent; None without one.
    """

    def __init__(self, is_quiet: bool, max_seconds: float | None = None, clock: Callable[[], float] | None = None) -> None:
        self._is_quiet = is_quiet
        self._max_seconds = max_seconds
        self._clock = clock
        self._bar: Any = None
        self._last = ""

    def __enter__(self) -> Progress:
        if not self._is_quiet and is_terminal(sys.stderr):
            from rich import progress as live
            from rich.console import Console
            from rich.text import Text

            class What(live.ProgressColumn):
                def render(self, task: Any) -> Text:  # the time left counts down between two steps
                    end_s = task.fields["end_s"]
                    left = "" if end_s is None else f"{time_left(end_s - task.get_time())}, "
                    return Text(left + task.description, no_wrap=True, overflow="ellipsis")

            columns = (live.SpinnerColumn(), live.BarColumn(bar_width=12), What())
            console = Console(file=cast(TextIO, _Lasting(sys.stderr)))
            self._bar = live.Progress(*columns, console=console, transient=True, get_time=self._clock)
            self._bar.add_task("starting", total=1.0, end_s=None)
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, what: str, done_ratio: float) -> None:
        """Tell the running stage, and the time that is left."""
        left_s = self._max_seconds * (1 - done_ratio) if self._max_seconds and done_ratio > 0 else None
        if self._bar is not None:
            end_s = None if left_s is None else self._bar.get_time() + left_s
            self._bar.update(0, description=visible(what), completed=min(1.0, done_ratio), end_s=end_s)
        elif not self._is_quiet and what != self._last:
            complain(what if not left_s or left_s < 1 else f"{what}, {time_left(left_s)}")
        self._last = what


def time_left(seconds: float) -> str:
    """Return `up to 38 s left`."""
    return f"up to {format_seconds(max(0, round(seconds)))} left"


def complain(message: str, details: str = "") -> None:
    """Print one line of ours on stderr, after the details."""
    if details:
        print_on_stderr(details.rstrip())
    print_on_stderr(f"cs_input_analyzer: {message}")


def is_tty(stream: TextIO | None) -> bool:
    """Return whether a stream leads to a terminal; None stands for one that was closed before we began."""
    return stream is not None and stream.isatty()


def print_on_stderr(text: str) -> None:
    """Print text on stderr. Names and records of others cannot act on the terminal.

    A closed stderr is no failure: the results are delivered elsewhere.
    """
    try:
        click.echo(visible(text), err=True)
    except OSError:
        hide(sys.stderr)


class OutputError(Exception):
    """Standard output goes to a full disk."""


class ReaderLeft(Exception):
    """Standard output goes to a closed pipe. This is no OSError: click makes exit code 1 of a broken pipe."""


def print_text(text: str, *, is_paged: bool = False) -> None:
    """Print a report on standard output. A terminal that has gone away is no failure: files are written elsewhere.

    Args:
        is_paged: use the user's pager if the terminal has too few lines.

    Raises:
        OutputError, ReaderLeft: it cannot be printed.
    """
    try:
        if sys.stdout is None:
            raise OutputError("standard output is closed")
        is_shown = is_paged and is_tty(sys.stdin) and is_tty(sys.stdout)
        if is_shown and text.count("\n") > shutil.get_terminal_size().lines:
            os.environ.setdefault("LESS", "-FRX")
            click.echo_via_pager(text, color=is_terminal(sys.stdout))
            return
        click.echo(text.rstrip("\n"), color=True)
    except BrokenPipeError:
        raise ReaderLeft from None
    except OSError as error:
        if error.errno == errno.EIO and stat.S_ISCHR(os.fstat(sys.stdout.fileno()).st_mode):
            hide(sys.stdout)
            return
        raise OutputError((error.strerror or str(error)).lower()) from None


def hide(stream: TextIO) -> None:
    """So that the interpreter does not fail once more when it flushes what could not be written."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # a stream of somebody else's may have no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def is_terminal(stream: Any) -> bool:
    """Return whether a stream is a terminal that wants colours."""
    return stream is not None and bool(stream.isatty()) and "NO_COLOR" not in os.environ


def width() -> int:
    """Columns of the terminal that the report goes to; 80 in a pipe. `COLUMNS` says otherwise."""
    return min(shutil.get_terminal_size().columns, MOST_COLUMNS)

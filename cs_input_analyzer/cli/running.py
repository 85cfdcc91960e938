"""What the commands that measure do around it: files to write, signals, delivery of what was found."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cs_input_analyzer.cli.terminal import Progress, complain, is_terminal, print_on_stderr, print_text, width
from cs_input_analyzer.errors import AnalyzerError, Mistakes, UsageError

if TYPE_CHECKING:
    from cs_input_analyzer.records import Analysis
    from cs_input_analyzer.report import Format

Found = TypeVar("Found")

EXIT_TRIPPED = 1
EXIT_INTERRUPTED = 130


def taken_outputs(choices: dict[str, Any]) -> dict[Format, str]:
    """The files to write, taken out of the choices."""
    from cs_input_analyzer import report as reports

    return {form: file for form in reports.FORMATS if (file := choices.pop(f"{form}_file", None))}


def check_outputs(outputs: dict[Format, str], mistakes: Mistakes) -> None:
    """Notes those that cannot be written."""
    from cs_input_analyzer.report.files import check_writable

    for path in outputs.values():
        with mistakes:
            check_writable(path)


def measured(
    is_quiet: bool, is_verbose: bool, max_seconds: float, measure: Callable[[Callable[[str, float], None]], Found]
) -> Found:
    """What `measure` found in a budget of `max_seconds`. It is given what shows progress; Ctrl-C or SIGTERM may stop it."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # Slurm's way to say stop: keep what was measured
    try:
        with Progress(is_quiet, max_seconds) as progress:
            return measure(progress)
    except AnalyzerError:
        if is_verbose:
            print_on_stderr(traceback.format_exc().rstrip())
        raise


def interrupted() -> int:
    complain("interrupted: the report holds what was measured until then")
    return EXIT_INTERRUPTED


def deliver(
    found: Analysis,
    outputs: dict[Format, str],
    is_quiet: bool,
    rendered: Callable[..., str],
    write_more: Callable[[], None] | None = None,
    *,
    is_full: bool = False,
) -> None:
    """Writes all the files, and what else `write_more` writes, and prints what is `rendered`.

    One that cannot be written does not take the others along, nor what was measured: then the report is printed even if quiet was
    asked for. Raises the last failure.
    """
    from cs_input_analyzer import report as reports

    written: list[str] = []
    failures: list[AnalyzerError] = []
    for form, path in outputs.items():
        try:
            reports.write_text_atomically(path, reports.render(found, form))
            written.append(f"{form} written to {path}")
        except AnalyzerError as error:
            failures.append(error)
    try:
        if write_more is not None:
            write_more()
    except AnalyzerError as error:
        failures.append(error)
    if failures or not is_quiet:
        print_text(rendered(width=width(), color=is_terminal(sys.stdout)), is_paged=is_full)
    if not is_quiet:
        for line in written:
            print_on_stderr(line)
    for failure in failures[:-1]:
        complain(str(failure))
    if failures:
        raise failures[-1]


def check_trusted(command: str, run_file: str, named: str, typed: str | None, is_trusted: bool) -> None:
    """A run file may be a stranger's: the code that it names is run when the user names it too, or has seen it and says yes.

    Raises UsageError.
    """
    from cs_input_analyzer.worker import capture

    shown = capture.parse_script(named).command if capture.is_script(named) else named
    if typed is not None and typed.split() != shown.split():
        raise UsageError(f"--target {typed}: {run_file} is a run of {shown}")
    if typed is not None or is_trusted:
        return
    print_on_stderr(f"{run_file} names this code, which would be run here:\n  {shown}\n  in {os.getcwd()}")
    if not (sys.stdin.isatty() and sys.stderr.isatty() and click.confirm("Run it?", err=True)):
        raise UsageError(f"{command} runs the code that {run_file} names: add --yes if you trust it")

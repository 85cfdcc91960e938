"""The frame of commands that measure: files to write, signals, delivery of the result."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cs_input_analyzer.cli.command import mistakes
from cs_input_analyzer.cli.terminal import Progress, complain, is_terminal, is_tty, print_on_stderr, print_text, width
from cs_input_analyzer.errors import AnalyzerError, NotIsolatedError, UsageError
from cs_input_analyzer.masking import masked_command

if TYPE_CHECKING:
    from cs_input_analyzer.records import Analysis
    from cs_input_analyzer.report import Format

Found = TypeVar("Found")

EXIT_TRIPPED = 1
EXIT_INTERRUPTED = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Interrupts:
    """Interrupt at the first Ctrl-C, at Slurm's SIGTERM, or at the SIGHUP of a lost connection.

    Later signals are ignored while the report is written. The third Ctrl-C ends this process: its workers end with it, and a
    guard removes their files.
    """

    def __init__(self) -> None:
        self.seen: list[int] = []
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN or number == signal.SIGTERM:  # as `nohup` leaves SIGHUP
                signal.signal(number, self)

    def __call__(self, number: int, frame: object) -> None:
        self.seen.append(number)
        if len(self.seen) == 1:
            raise KeyboardInterrupt
        if number == signal.SIGINT:
            if self.seen.count(signal.SIGINT) > 2:
                os._exit(EXIT_INTERRUPTED)
            os.write(2, b"\ncs_input_analyzer: reporting what was measured; a third Ctrl-C gives it up\n")


def ignore_late_signals() -> None:
    """Once all is saved: the interpreter takes its handlers away before it ends, and a late signal would change the exit code."""
    for number in SIGNALS:
        handler = signal.getsignal(number)
        if isinstance(handler, _Interrupts) and handler.seen:
            signal.signal(number, signal.SIG_IGN)


@dataclass(frozen=True)
class Output:
    """The destinations of a result: `files` by their formats, and the terminal, in full or in short, unless it is quiet."""

    files: dict[Format, str]
    is_quiet: bool
    is_verbose: bool = False
    is_full: bool = False
    fail_on: str | None = None

    @classmethod
    def taken(cls, choices: dict[str, Any]) -> Output:
        """Taken out of the choices of a command; files that cannot be written are noted among its mistakes."""
        from cs_input_analyzer.files import check_writable
        from cs_input_analyzer.report import FORMATS

        files = {form: file for form in FORMATS if (file := choices.pop(f"{form}_file", None))}
        writers: dict[Path, str] = {}
        for form, path in files.items():
            with mistakes():
                target = check_writable(path)
                other = writers.setdefault(target, form)
                if other != form and (target.is_file() or not target.exists()):  # a device may take several
                    raise UsageError(f"--{other} and --{form} name the same file, {path}: give each its own")
        taken = {name: choices.pop(name, None) for name in ("quiet", "verbose", "full", "fail_on")}
        return cls(files, bool(taken["quiet"]), bool(taken["verbose"]), bool(taken["full"]), taken["fail_on"])

    def measured(
        self, max_seconds: float, measure: Callable[[Callable[[str, float], None], bool], Found], on_own_files: bool
    ) -> Found:
        """Return what `measure` found in a budget of `max_seconds`; a signal may stop it.

        Args:
            measure: is given what shows progress, and whether code may run on the user's own files.
            on_own_files: whether it may without a question, as `--on-own-files` says.
        """
        _Interrupts()
        try:
            try:
                with Progress(self.is_quiet, max_seconds) as progress:
                    return measure(progress, on_own_files)
            except NotIsolatedError as error:
                ask_for_own_files(error)
            with Progress(self.is_quiet, max_seconds) as progress:
                return measure(progress, True)
        except AnalyzerError:
            if self.is_verbose:
                print_on_stderr(traceback.format_exc().rstrip())
            raise

    def deliver(
        self,
        found: Any,
        rendered: Callable[..., str] | None = None,
        write_more: Callable[[], None] | None = None,
        *,
        keeps: bool = False,
    ) -> None:
        """Write all the files, and what else `write_more` writes; print what is `rendered`, else the report.

        A file that cannot be written does not take the others along, nor what was measured: then the report is printed even if
        quiet was asked for. Raise the last failure.

        Args:
            keeps: keep the run for commands that are given no file.
        """
        from cs_input_analyzer import report as reports
        from cs_input_analyzer.cli.kept import keep

        run_file = self.files.get("json")
        kept = keep(found) if keeps else None
        if kept is not None and run_file is None:
            run_file = reports.NEWEST

        writes: list[tuple[Callable[[], None], str]] = [
            (partial(self._write, path, found, form), f"{form} written to {path}") for form, path in self.files.items()
        ]
        writes += [] if write_more is None else [(write_more, "")]
        written: list[str] = []
        failures: list[AnalyzerError] = []
        for write, said in writes:
            try:
                write()
                written.append(said)
            except AnalyzerError as error:
                failures.append(error)
        if failures or not self.is_quiet:
            show = rendered or partial(reports.render, found, "console", full=self.is_full, run_file=run_file)
            print_text(show(width=width(), color=is_terminal(sys.stdout)), is_paged=self.is_full)
        written += [] if kept is None or "json" in self.files else [f"run kept in {kept}: report, plan and validate take it"]
        for line in filter(None, () if self.is_quiet else written):
            print_on_stderr(line)
        for failure in failures[:-1]:
            complain(str(failure))
        if failures:
            raise failures[-1]

    def _write(self, path: str, found: Any, form: Format) -> None:
        from cs_input_analyzer import report as reports

        reports.write_report(path, reports.render(found, form, run_file=self.files.get("json") or self.files.get("html")), form)

    def exit_code(self, found: Analysis, *, is_interrupted: bool) -> int:
        """Return the exit code of a run, and print the reason if it is not 0."""
        from cs_input_analyzer.rules import gone_among

        if said := gone_among(code for op in found.pipeline.ops for code in op.ignored):
            complain(f"warning: a comment in your code names {said}")
        if is_interrupted:
            complain("interrupted: the report holds what was measured until then")
            return EXIT_INTERRUPTED
        warned = any(finding.severity in ("warning", "error") for finding in found.findings)
        is_tripped = {"input-bound": found.verdict == "input_bound", "warning": warned}.get(self.fail_on or "", False)
        return EXIT_TRIPPED if is_tripped else 0


def ask_for_own_files(error: NotIsolatedError) -> None:
    """Ask on a terminal whether code may run on the user's own files. Raise `error` unless the user says yes."""
    if not (is_tty(sys.stdin) and is_tty(sys.stderr)):
        raise error
    print_on_stderr(f"{error}")
    if not click.confirm("Run it on your own files?", err=True):
        raise error


def typed_command(*more: str) -> str:
    """Return the command line as it was typed, with `more` words."""
    return shlex.join(["cs_input_analyzer", *sys.argv[1:], *more])


def check_trusted(command: str, run_file: str, named: str, typed: str | None, is_trusted: bool) -> str:
    """Return the target to run: that of the file, but with the secrets of a command that was typed again.

    A run file may be a stranger's: the code that it names is run when the user names it too, or has seen it and says yes.

    Raises:
        UsageError: the user has not said yes, or names other code.
    """
    from cs_input_analyzer.worker import capture

    script = capture.parse_script(named) if capture.is_script(named) else None
    shown = script.command if script is not None else named
    if typed is not None and masked_command(typed)[0].split() != masked_command(shown)[0].split():
        raise UsageError(f"--target {masked_command(typed)[0]}: {run_file} is a run of {shown}")
    if typed is not None and script is not None:
        return capture.from_command(shlex.split(typed), number=script.number).target
    if typed is not None or is_trusted:
        return named
    print_on_stderr(f"{run_file} names this code, which would be run here:\n  {shown}\n  in {os.getcwd()}")
    if not (is_tty(sys.stdin) and is_tty(sys.stderr) and click.confirm("Run it?", err=True)):
        raise UsageError(f"{command} runs the code that {run_file} names: add --yes if you trust it")
    return named

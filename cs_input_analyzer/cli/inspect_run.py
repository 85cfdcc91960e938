"""`inspect-run`: a run that already happened."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal

import click

from cs_input_analyzer.cli import options as shared
from cs_input_analyzer.cli.command import Command
from cs_input_analyzer.cli.terminal import complain, is_terminal, print_text, width
from cs_input_analyzer.errors import AnalyzerError, UsageError

if TYPE_CHECKING:
    from cs_input_analyzer.records import Layout


@click.command("inspect-run", cls=Command)
@click.argument("path")
@click.option(
    "--current", callback=shared.LAYOUTS, metavar="NxTxC", help="The launch of the run; else DEF_NODES, DEF_TASKS, DEF_CPUS."
)
@click.option("--analysis", "run_file", metavar="RUN.json", help="A saved analysis of the same input: its model plans the change.")
@click.option("--json", "json_file", metavar="FILE", help="Write what was found.")
@click.option("--html", "html_file", metavar="FILE", help="Write it as a page.")
@shared.FULL
@click.option("-q", "--quiet", is_flag=True, help="No report: only files and the exit code.")
def inspect_run(
    path: str,
    current: tuple[Layout, ...] | None,
    run_file: str | None,
    json_file: str | None,
    html_file: str | None,
    full: bool,
    quiet: bool,
) -> int:
    """Read what a run left at PATH; say whether it waited for its input.

    PATH is a console log (also gzipped), performance.json, compile_report.txt, a TensorBoard event file, a monitor's steps.jsonl,
    or a folder that holds several of these.
    """
    import os
    from pathlib import Path

    from cs_input_analyzer import choices, report
    from cs_input_analyzer import run_logs as reading
    from cs_input_analyzer.report.files import check_writable

    if current is not None and len(current) != 1:
        raise UsageError("--current takes one layout, for example 4x8x4")
    for file in (json_file, html_file):
        if file is not None:
            check_writable(file)
    analysis = report.load(run_file) if run_file is not None else None
    layout = current[0] if current else choices.current_from(os.environ)
    found = reading.inspect_run(Path(path), current=layout, analysis=analysis)
    failures: list[AnalyzerError] = []
    outputs: tuple[tuple[str | None, Literal["json", "html"]], ...] = ((json_file, "json"), (html_file, "html"))
    for file, form in outputs:
        try:
            if file is not None:
                report.write_text_atomically(file, report.render(found, form))
        except AnalyzerError as error:
            failures.append(error)
    if failures or not quiet:
        shown = report.render(found, "console", width=width(), color=is_terminal(sys.stdout), full=full)
        print_text(shown, is_paged=full)
    for failure in failures[:-1]:
        complain(str(failure))
    if failures:
        raise failures[-1]
    return 0

"""`report`: a saved run, rendered again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from cs_input_analyzer.cli import options as shared
from cs_input_analyzer.cli.terminal import is_terminal, print_text, tell_versions, width

if TYPE_CHECKING:
    from cs_input_analyzer.report import Format


@click.command()
@click.argument("run_file", metavar="RUN.json|RUN.html")
@click.option(
    "--format",
    "form",
    type=click.Choice(["console", "html", "json", "csv", "sbatch", "log"]),
    help="By the ending of FILE when not given; console on the terminal.",
)
@click.option("-o", "--output", metavar="FILE", help="Write there instead of to the terminal.")
@shared.with_options(shared.RULES)
def report(run_file: str, form: Format | None, output: str | None, select: tuple[str, ...], ignore: tuple[str, ...]) -> int:
    """Render a saved run again, from its JSON or its HTML."""
    from dataclasses import replace

    from cs_input_analyzer import report as reports
    from cs_input_analyzer.rules import is_wanted

    found = reports.load(run_file)
    tell_versions(found)
    found = replace(found, findings=tuple(finding for finding in found.findings if is_wanted(finding.code, select, ignore)))
    wanted: Format = form or (reports.format_of(output) if output else "console")
    if output is not None:
        reports.write_text_atomically(output, reports.render(found, wanted))
    else:
        print_text(reports.render(found, wanted, width=width(), color=is_terminal(sys.stdout)))
    return 0

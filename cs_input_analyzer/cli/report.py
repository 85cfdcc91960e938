"""`report`: a saved run, rendered again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from cs_input_analyzer.cli import options as shared
from cs_input_analyzer.cli.command import Command
from cs_input_analyzer.cli.terminal import complain, is_terminal, print_text, width
from cs_input_analyzer.gone import gone_message

if TYPE_CHECKING:
    from cs_input_analyzer.report import Format


class _FormatChoice(click.Choice):  # type: ignore[type-arg]  # before click 8.2 it took no type
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if message := gone_message("format", str(value)):
            raise click.BadParameter(message, ctx, param)
        chosen: str = super().convert(value, param, ctx)
        return chosen


@click.command(cls=Command)
@click.argument("run_file", metavar="RUN.json|RUN.html")
@click.option(
    "--format",
    "form",
    type=_FormatChoice(["console", "html", "md", "json", "csv", "sbatch", "env"]),
    help="By the ending of FILE when not given; console on the terminal.",
)
@shared.FULL
@click.option("-o", "--output", metavar="FILE", help="Write there instead of to the terminal.")
@shared.with_options(shared.RULES)
def report(
    run_file: str,
    form: Format | None,
    output: str | None,
    full: bool,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
) -> int:
    """Render a saved run again, from its JSON or its HTML."""
    from dataclasses import replace

    from cs_input_analyzer import report as reports
    from cs_input_analyzer.report.run_document import launch_notes
    from cs_input_analyzer.rules import is_wanted

    found = reports.load(run_file)
    found = replace(found, findings=tuple(finding for finding in found.findings if is_wanted(finding.code, select, ignore)))
    wanted: Format = form or (reports.format_of(output) if output else "console")
    if wanted == "sbatch" and found.recommendation is not None:
        for note in launch_notes(found.recommendation):
            complain(note)
    if output is not None:
        reports.write_report(output, reports.render(found, wanted, full=full, run_file=run_file), wanted)
    else:
        text = reports.render(found, wanted, width=width(), color=is_terminal(sys.stdout), full=full, run_file=run_file)
        print_text(text, is_paged=full and wanted == "console")
    return 0

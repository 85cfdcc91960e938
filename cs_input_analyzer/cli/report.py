"""`report`: a saved run, rendered again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cs_input_analyzer.cli import options as shared
from cs_input_analyzer.cli.command import Command
from cs_input_analyzer.cli.kept import given_or_newest
from cs_input_analyzer.cli.terminal import complain, is_terminal, print_text, width
from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.gone import gone_message

if TYPE_CHECKING:
    from cs_input_analyzer.report import Format


class _FormatChoice(click.Choice):  # type: ignore[type-arg]  # before click 8.2 it took no type
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if message := gone_message("format", str(value)):
            raise click.BadParameter(message, ctx, param)
        chosen: str = super().convert(value, param, ctx)
        return chosen


@click.command(cls=Command, examples=("cs_input_analyzer report --view", "cs_input_analyzer report run.json -o run.md"))
@shared.RUN
@click.option(
    "--format",
    "form",
    type=_FormatChoice(["console", "html", "md", "json", "csv", "sbatch", "env"]),
    help="By the ending of FILE when not given; console on the terminal.",
)
@shared.FULL
@click.option("-o", "--output", metavar="FILE", help="Write there instead of to the terminal.")
@click.option("--view", is_flag=True, help="Open the HTML report in your browser; with -o it stays there.")
@shared.with_options(shared.RULES)
def report(
    run_file: str | None,
    form: Format | None,
    output: str | None,
    full: bool,
    view: bool,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
) -> int:
    """Render a saved run again, from its JSON or its HTML; by default the newest run that is kept."""
    from dataclasses import replace

    from cs_input_analyzer import report as reports
    from cs_input_analyzer.report.first_screen import launch_notes
    from cs_input_analyzer.rules import is_wanted

    (file,) = given_or_newest(run_file)
    found = reports.load(file)
    found = replace(found, findings=tuple(finding for finding in found.findings if is_wanted(finding.code, select, ignore)))
    wanted: Format = form or (reports.format_of(output) if output else "html" if view else "console")
    if view and wanted != "html":
        raise UsageError(f"--view opens the HTML report, and {'--format' if form else '-o'} asks for {wanted}")
    if view:
        return _view(reports.render(found, "html", run_file=file), output)
    if wanted == "sbatch" and found.recommendation is not None:
        for note in launch_notes(found.recommendation):
            complain(note)
    if output is not None:
        reports.write_report(output, reports.render(found, wanted, full=full, run_file=file), wanted)
    else:
        text = reports.render(found, wanted, width=width(), color=is_terminal(sys.stdout), full=full, run_file=file)
        print_text(text, is_paged=full and wanted == "console")
    return 0


def _view(page: str, output: str | None) -> int:
    """Write the page and open it; say where it is, as a machine without a display opens nothing."""
    import webbrowser

    from cs_input_analyzer import report as reports
    from cs_input_analyzer.files import cache_folder

    path = output or str(cache_folder() / "report.html")
    reports.write_report(path, page, "html")
    complain(f"html written to {path}")
    if not webbrowser.open(Path(path).absolute().as_uri()):
        complain("no browser could be opened here: copy the file to a machine with one, or open it there")
    return 0

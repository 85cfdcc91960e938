"""`inspect-run`: a run that already happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cs_input_analyzer.cli import options as shared
from cs_input_analyzer.cli.command import Command
from cs_input_analyzer.cli.running import Output
from cs_input_analyzer.errors import Mistakes, UsageError

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
    **choices: Any,
) -> int:
    """Read what a run left at PATH; say whether it waited for its input.

    PATH is a console log (also gzipped), performance.json, compile_report.txt, a TensorBoard event file, a monitor's steps.jsonl,
    or a folder that holds several of these.
    """
    import os
    from pathlib import Path

    from cs_input_analyzer import report
    from cs_input_analyzer import run_logs as reading
    from cs_input_analyzer.choices import current_from

    if current is not None and len(current) != 1:
        raise UsageError("--current takes one layout, for example 4x8x4")
    found_wrong = Mistakes()
    output = Output.taken(choices, found_wrong)
    found_wrong.raise_any()
    analysis = report.load(run_file) if run_file is not None else None
    layout = current[0] if current else current_from(os.environ)
    found = reading.inspect_run(Path(path), current=layout, analysis=analysis)
    output.deliver(found)
    return 0

"""`inspect-run`: a run that already happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cs_input_analyzer.cli import options as shared
from cs_input_analyzer.cli.command import Command, mistakes
from cs_input_analyzer.cli.running import Output

if TYPE_CHECKING:
    from cs_input_analyzer.records import Layout


@click.command("inspect-run", cls=Command)
@click.argument("path")
@click.option(
    "--current", callback=shared.LAYOUT, metavar="NxTxC", help="The launch of the run; else DEF_NODES, DEF_TASKS, DEF_CPUS."
)
@click.option("--analysis", "run_file", metavar="RUN.json", help="A saved analysis of the same input: its model plans the change.")
@shared.value("--json", "json_file", help="Write what was found.")
@shared.value("--html", "html_file", help="Write it as a page.")
@shared.FULL
@shared.QUIET
def inspect_run(path: str, current: Layout | None, run_file: str | None, **choices: Any) -> int:
    """Read what a run left at PATH; say whether it waited for its input.

    PATH is a console log (also gzipped), performance.json, compile_report.txt, a TensorBoard event file, a monitor's steps.jsonl,
    or a folder that holds several of these.
    """
    import os
    from pathlib import Path

    from cs_input_analyzer import report
    from cs_input_analyzer.request.options import current_from
    from cs_input_analyzer.runs.inspection import inspect_run as inspected

    output = Output.taken(choices)
    mistakes().raise_any()
    analysis = report.load(run_file) if run_file is not None else None
    output.deliver(inspected(Path(path), current=current or current_from(os.environ), analysis=analysis))
    return 0

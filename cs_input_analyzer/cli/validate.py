"""`validate`: launches what a saved run predicts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from cs_input_analyzer.cli import options as shared
from cs_input_analyzer.cli.command import Command, mistakes
from cs_input_analyzer.cli.kept import given_or_newest
from cs_input_analyzer.cli.running import Output, check_trusted
from cs_input_analyzer.errors import UsageError

if TYPE_CHECKING:
    from cs_input_analyzer.records import Layout


@click.command(cls=Command, examples=("cs_input_analyzer validate --layouts 1x2x1,1x1x2",))
@shared.RUN
@click.option(
    "--layouts", callback=shared.LAYOUTS, metavar="NxTxC,…", help="What to launch, instead of the plan and its neighbours."
)
@click.option("--target", metavar="TARGET", help="What the run analyzed, typed again: then it is run without a question.")
@click.option("--yes", is_flag=True, help="Run what the file names; without this or --target it is shown first.")
@click.option("--rounds", type=int, default=3, show_default=True, help="Fresh launches of each layout, if there is time.")
@shared.with_options(
    (shared.SECRETS, shared.CPUS, shared.LAUNCHER),
    shared.SLURM,
    shared.SBATCH_ARGS,
    shared.max_seconds(120.0),
    shared.OWN_FILES,
    shared.FILES,
)
def validate(run_file: str | None, layouts: tuple[Layout, ...] | None, target: str | None, yes: bool, **choices: Any) -> int:
    """Launch what a saved run recommends, and its neighbours, on this host or on Slurm's nodes; show predicted against measured.

    RUN is by default the newest run that is kept. The input function that it names runs again, so its code and its data must be
    where they were, and you must trust them. RUN stays as it is; --json FILE writes the run with the result in it.
    """
    from cs_input_analyzer import report as reports
    from cs_input_analyzer.workflows import launched

    if layouts == ():
        raise UsageError("--layouts names no layout; write for example --layouts 1x1x1,1x2x1")
    (file,) = given_or_newest(run_file)
    run = reports.load(file)
    named = check_trusted("validate", file, run.pipeline.target, target, yes)
    run = replace(run, pipeline=replace(run.pipeline, target=named))
    output = Output.taken(choices)
    mistakes().raise_any()
    on_own_files = choices.pop("on_own_files")
    found = output.measured(
        choices["max_seconds"],
        lambda progress, is_allowed: launched.validate(
            run, layouts=layouts or (), progress=progress, on_own_files=is_allowed, **choices
        ),
        on_own_files,
    )
    tried = found.validation
    assert tried is not None
    output.deliver(found, partial(reports.render_validation, found), keeps=True)
    return output.exit_code(found, is_interrupted=tried.interrupted)

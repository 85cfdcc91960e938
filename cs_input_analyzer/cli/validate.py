"""`validate`: launches what a saved run predicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cs_input_analyzer.cli import options as shared
from cs_input_analyzer.cli.running import deliver, interrupted, measured, outputs_of
from cs_input_analyzer.cli.terminal import tell
from cs_input_analyzer.errors import UsageError

if TYPE_CHECKING:
    from cs_input_analyzer.records import Layout


@click.command()
@click.argument("run_file", metavar="RUN.json|RUN.html")
@click.option(
    "--layouts", callback=shared.LAYOUTS, metavar="NxTxC,…", help="What to launch, instead of the plan and its neighbours."
)
@click.option("--rounds", type=int, default=3, show_default=True, help="Fresh launches of each layout, if there is time.")
@shared.with_options((shared.CPUS, shared.LAUNCHER), shared.SLURM, shared.SBATCH_ARGS, shared.max_seconds(120.0), shared.FILES)
def validate(run_file: str, layouts: tuple[Layout, ...] | None, **choices: Any) -> int:
    """Launch what a saved run recommends, and its neighbours, on this host or on Slurm's nodes; show predicted against measured.

    The input function runs again, so its code and its data must be where they were. RUN stays as it is; --json FILE writes the run
    with the result in it.
    """
    from cs_input_analyzer import api
    from cs_input_analyzer import report as reports

    if layouts == ():
        raise UsageError("--layouts names no layout; write for example --layouts 1x1x1,1x2x1")
    run = reports.load(run_file)
    outputs, is_quiet, is_verbose = outputs_of(choices), choices.pop("quiet"), choices.pop("verbose")
    found = measured(is_quiet, is_verbose, lambda told: api.validate(run, layouts=layouts or (), progress=told, **choices))
    tried = found.validation
    assert tried is not None
    deliver(found, outputs, is_quiet, lambda **shape: reports.render_validation(tried, **shape))
    if not outputs and not is_quiet:
        tell("this is written nowhere: --json FILE writes the run with it, --html FILE its report")
    return interrupted() if tried.interrupted else 0

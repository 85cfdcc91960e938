"""`plan`: a saved run planned again, for another demand, cluster or launch in use today."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from cs_input_analyzer.cli import options as shared
from cs_input_analyzer.cli.analyze import one_layout
from cs_input_analyzer.cli.command import Command, mistakes
from cs_input_analyzer.cli.running import Output, typed_command
from cs_input_analyzer.cli.terminal import print_on_stderr


@click.command(cls=Command, notes_more=True)
@click.argument("run_file", metavar="RUN.json|RUN.html")
@shared.with_options(shared.DEMAND, shared.CLUSTER, (shared.PARTITION, shared.EXCLUDE_NODES), shared.LAUNCH, shared.OUTPUT)
def plan(run_file: str, **choices: Any) -> int:
    """Plan a saved run again, without measuring: the verdict, the launch and its alternatives for what is given here.

    What is left out stays as it is in RUN. RUN stays as it is, too; --json FILE writes the run with the new plan, which names RUN.
    """
    from cs_input_analyzer import api
    from cs_input_analyzer import report as reports

    found_wrong = mistakes()
    output = Output.taken(choices)
    choices["current"] = one_layout(choices["current"], found_wrong)
    source_of = click.get_current_context().get_parameter_source
    typed = {name: choice for name, choice in choices.items() if source_of(name) is ParameterSource.COMMANDLINE}
    run = None
    with found_wrong:
        run = reports.load(run_file)
    if run is None:
        found_wrong.raise_any()
    assert run is not None
    found = api.plan(run, path=run_file, command=typed_command(), mistakes=found_wrong, **typed)
    output.deliver(found)
    if not output.files and not output.is_quiet:
        print_on_stderr("this is written nowhere: --json FILE writes the run with this plan, --html FILE its report")
    return output.exit_code(found, is_interrupted=False)

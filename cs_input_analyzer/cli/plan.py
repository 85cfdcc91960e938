"""`plan`: a saved run planned again, for another demand, cluster or launch in use today."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from cs_input_analyzer.cli import options as shared
from cs_input_analyzer.cli.command import Command, mistakes
from cs_input_analyzer.cli.kept import given_or_newest
from cs_input_analyzer.cli.running import Output, typed_command


@click.command(cls=Command, notes_more=True, examples=("cs_input_analyzer plan --demand 20k --nodes 4 --cpus-per-node 64",))
@shared.RUN
@shared.with_options(shared.DEMAND, shared.CLUSTER, (shared.PARTITION, shared.EXCLUDE_NODES), shared.LAUNCH, shared.OUTPUT)
def plan(run_file: str | None, **choices: Any) -> int:
    """Plan a saved run again, without measuring: the verdict, the launch and its alternatives for what is given here.

    What is left out stays as it is in RUN, by default the newest run that is kept. RUN stays as it is, too; --json FILE writes the
    run with the new plan, which names RUN.
    """
    from cs_input_analyzer import report as reports
    from cs_input_analyzer.workflows import replan

    found_wrong = mistakes()
    output = Output.taken(choices)
    source_of = click.get_current_context().get_parameter_source
    typed = {name: choice for name, choice in choices.items() if source_of(name) is ParameterSource.COMMANDLINE}
    run = None
    with found_wrong:
        (file,) = given_or_newest(run_file)
        run = reports.load(file)
    if run is None:
        found_wrong.raise_any()
    assert run is not None
    found = replan.plan(run, path=file, command=typed_command(), mistakes=found_wrong, **typed)
    output.deliver(found, keeps=True)
    return output.exit_code(found, is_interrupted=False)

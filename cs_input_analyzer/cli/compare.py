"""`compare`: two saved runs beside each other, and a gate for the new one."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from cs_input_analyzer.cli import options as shared
from cs_input_analyzer.cli.command import Command, mistakes
from cs_input_analyzer.cli.kept import given_or_newest
from cs_input_analyzer.cli.running import EXIT_INTERRUPTED, EXIT_TRIPPED, Output, check_trusted
from cs_input_analyzer.cli.terminal import complain
from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.units import format_ratio

if TYPE_CHECKING:
    from cs_input_analyzer.records import Comparison


@click.command(cls=Command)
@click.argument("old_file", metavar="[OLD.json|OLD.html]", required=False)
@click.argument("new_file", metavar="[NEW.json|NEW.html]", required=False)
@shared.value("--json", "json_file", help="Write the comparison.")
@shared.value("--html", "html_file", help="Write it as a page: the two runs side by side.")
@click.option(
    "--fail-if-slower",
    "percent",
    type=float,
    metavar="PCT",
    help="Exit 1 if a launch is slower by more than PCT percent, and that for sure: with its whole interval.",
)
@click.option("--measure", is_flag=True, help="Launch both input functions again, in turns, and compare these launches.")
@click.option("--layouts", callback=shared.LAYOUTS, metavar="NxTxC,…", help="What --measure launches; default: what both measured.")
@click.option("--rounds", type=int, default=3, show_default=True, help="Fresh launches of each with --measure, if there is time.")
@click.option("--yes", is_flag=True, help="With --measure, run what the files name without a question.")
@shared.with_options((shared.SECRETS, shared.CPUS), shared.max_seconds(120.0), shared.OWN_FILES)
@shared.FULL
@shared.QUIET
def compare(old_file: str | None, new_file: str | None, percent: float | None, measure: bool, yes: bool, **choices: Any) -> int:
    """Say what changed between two saved runs, and distinguish change from noise.

    Compared are the launches that both measured. Without NEW it is the newest run that is kept, without both the newest two. Equal
    pipelines are wrongly called faster or slower in one comparison of ten, at most.
    """
    from cs_input_analyzer import report
    from cs_input_analyzer.workflows import launched

    if percent is not None and not (math.isfinite(percent) and 0 <= percent < 100):
        raise UsageError(f"--fail-if-slower {percent:g}: percent of the old rate, from 0 to below 100, for example 5")
    output = Output.taken(choices)
    mistakes().raise_any()
    old_path, new_path = given_or_newest(old_file, new_file)
    if measure:
        old, new = report.load(old_path), report.load(new_path)  # once: what is run is what was shown
        for file, run in ((old_path, old), (new_path, new)):
            check_trusted("compare --measure", file, run.pipeline.target, None, yes)
        choices["layouts"] = choices["layouts"] or ()
        on_own_files = choices.pop("on_own_files")
        found = output.measured(
            choices["max_seconds"],
            lambda progress, is_allowed: launched.compare(
                old, new, measure=True, progress=progress, on_own_files=is_allowed, **choices
            ),
            on_own_files,
        )
        found = replace(found, old=replace(found.old, path=old_path), new=replace(found.new, path=new_path))
    else:
        found = launched.compare(old_path, new_path, progress=lambda what, spent_ratio: None)
    output.deliver(found)
    if found.interrupted:
        complain("interrupted: the comparison is of what was measured until then")
        return EXIT_INTERRUPTED
    return 0 if percent is None else _gate(found, percent)


def _gate(found: Comparison, percent: float) -> int:
    """Return the exit code of `--fail-if-slower`, and print the reason."""
    from cs_input_analyzer.workflows.compare import is_slower_by

    if is_slower_by(found, percent / 100):
        complain(f"--fail-if-slower {percent:g}: the new run is slower by more than that")
        return EXIT_TRIPPED
    if found.smallest_slowdown_ratio > percent / 100:
        seen = f"a slowdown of less than about {format_ratio(found.smallest_slowdown_ratio)} would not have been seen"
        complain(
            f"--fail-if-slower {percent:g}: not tripped, but {seen}; more launches (--max-seconds) on an idle host see smaller ones"
        )
    return 0

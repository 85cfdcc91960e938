"""The original tool's form: `cs_input_analyzer [OPTIONS] python run.py ARGS…`, the user's own script in place of a target."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cs_input_analyzer.cli import options as shared
from cs_input_analyzer.cli.analyze import is_tripped, options_of
from cs_input_analyzer.cli.running import EXIT_TRIPPED, deliver, interrupted, measured, outputs_of
from cs_input_analyzer.cli.terminal import complain, print_text
from cs_input_analyzer.errors import UsageError

if TYPE_CHECKING:
    from cs_input_analyzer.records import Analysis, Capture, Options

USAGE = "[OPTIONS] python SCRIPT.py ARGS…"
# Modes of a script that stop short of training; the launch lines are for one that trains.
NOT_TRAINING = ("validate_only", "compile_only")
AVAILABLE = ("--available-nodes", "--available_nodes", "--avail_nodes")


class _Form(click.Command):
    def format_usage(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(context.command_path, USAGE)


def is_original(arguments: Sequence[str], commands: Collection[str]) -> bool:
    """Whether these arguments are a script's command line, perhaps after options, and no command of ours."""
    from cs_input_analyzer.capture import is_python

    if not arguments or arguments[0] in commands or arguments[0] in ("-h", "--help", "-V", "--version"):
        return False
    return arguments[0].startswith("-") or is_python(arguments[0])


@click.command(
    cls=_Form,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110, "allow_interspersed_args": False},
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.option(*AVAILABLE, "available_nodes", type=int, metavar="N", help="Nodes of the cluster, as --nodes; default: DEF_NODES.")
@click.option(
    "--capture", "number", type=int, metavar="N", help="Which of the places where the script takes data; default: its training."
)
@shared.with_options(
    shared.DEMAND,
    shared.CLUSTER,
    shared.max_seconds(60.0),
    shared.MEASURE,
    shared.SLURM,
    shared.RULES,
    shared.LAUNCH[:-1],
    (click.option("--mount-dirs", "--mount_dirs", "mount_dirs", metavar="A,B", help="Folders to mount in the container."),),
    shared.OUTPUT,
)
def original(words: tuple[str, ...], available_nodes: int | None, number: int | None, **choices: Any) -> int:
    """Run your own training script up to the input function it would train on, and analyze that. The training never runs."""
    from cs_input_analyzer import capture
    from cs_input_analyzer import report as reports

    if not words:
        raise UsageError(f"which script? cs_input_analyzer {USAGE}")
    if words[1:] in (("--help",), ("-h",)):
        print_text(click.get_current_context().get_help())
        return 0
    if number is not None and number < 1:
        raise UsageError(f"--capture {number}: candidates are counted from 1")
    script = capture.from_command(words)
    outputs = outputs_of(choices)
    fail_on, is_quiet, is_verbose = choices.pop("fail_on"), choices.pop("quiet"), choices.pop("verbose")
    choices["nodes"] = _nodes(available_nodes, choices)
    choices["train_command"] = choices["train_command"] or training_command(words)
    options = options_of(None, (), choices)
    if not is_quiet and (other := capture.other_python(words[0])) is not None:
        complain(f"the script runs in {sys.executable}, where cs_input_analyzer is installed, and not in {other}")
    line = shlex.join(["cs_input_analyzer", *sys.argv[1:]])
    found = measured(is_quiet, is_verbose, lambda told: _captured(script, number, options, told, line, is_quiet))
    deliver(found, outputs, is_quiet, lambda **shape: reports.render(found, "console", **shape))
    if found.interrupted:
        return interrupted()
    return EXIT_TRIPPED if is_tripped(found, fail_on) else 0


def _captured(script: Any, number: int | None, options: Options, told: Any, line: str, is_quiet: bool) -> Analysis:
    """Finds what the script would train on, and analyzes it in what is left of the time."""
    from cs_input_analyzer import api
    from cs_input_analyzer.launch.script import find_captures, pick

    told(f"running {script.command} up to its input", 0.0)
    found, spent_s = find_captures(script, options.max_seconds, options.worker_memory_bytes)
    found = pick(found, number)
    if not is_quiet:
        for text in listed(found):
            complain(text)
    mode = next(candidate.mode for candidate in found.candidates if candidate.number == found.picked)
    shorter = replace(options, mode=mode, max_seconds=max(options.max_seconds - spent_s, options.max_seconds / 2))
    target = replace(script, number=found.picked).target
    analyzed = api.run(target, shorter, declared=None, progress=told, command=line)
    budget = replace(analyzed.budget, total_s=analyzed.budget.total_s + spent_s)
    return replace(analyzed, capture=found, options=replace(shorter, max_seconds=options.max_seconds), budget=budget)


def listed(found: Capture) -> list[str]:
    """All candidates, one a line, and what is to be known of them."""
    lines = []
    for one in found.candidates:
        path, _, line = one.source.rpartition(":")
        where = f"{os.path.relpath(path)}:{line}" if Path(path).is_relative_to(Path.cwd()) else one.source
        lines.append(f"capture {one.number}: {one.call} at {where}{' (taken)' if one.number == found.picked else ''}")
    if len(found.candidates) > 1:
        lines.append("--capture N takes another one")
    if found.stand_ins:
        lines.append(f"not installed, so a stand-in took its place: {', '.join(found.stand_ins)}")
    return [*lines, *found.notes]


def training_command(words: Sequence[str]) -> str:
    """The script's command line, as one that trains."""
    kept: list[str] = []
    for word in words:
        option, equals, value = word.partition("=")
        if option.startswith("-") and option.lstrip("-") in NOT_TRAINING:
            continue
        if word in NOT_TRAINING:  # the word after --mode
            kept.append("train")
        else:
            kept.append(f"{option}=train" if equals and value in NOT_TRAINING else word)
    return shlex.join(kept)


def _nodes(available_nodes: int | None, choices: dict[str, Any]) -> int | None:
    """Of the option, else of DEF_NODES where nothing else says what the cluster is. Raises UsageError."""
    nodes: int | None = choices["nodes"]
    if available_nodes is not None:
        if nodes is not None and nodes != available_nodes:
            raise UsageError(f"--available-nodes {available_nodes} and --nodes {nodes}: give one of them")
        if available_nodes < 1:
            raise UsageError(f"--available-nodes {available_nodes}: must be 1 or more")
        return available_nodes
    default = os.environ.get("DEF_NODES", "")
    if nodes is not None or not default or choices["cluster"] is not None or choices["launcher"] == "slurm":
        return nodes
    if not default.isdigit() or int(default) < 1:
        raise UsageError(f"DEF_NODES={default}: not a number of nodes; set it right, unset it, or give --available-nodes")
    return int(default)

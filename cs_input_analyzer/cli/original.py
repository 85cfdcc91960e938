"""The original tool's form: `cs_input_analyzer [OPTIONS] python run.py ARGS…`, the user's own script in place of a target."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cs_input_analyzer.cli import options as shared
from cs_input_analyzer.cli.analyze import on_own_files, request_of
from cs_input_analyzer.cli.command import ALL, Command, mistakes
from cs_input_analyzer.cli.running import Output, typed_command
from cs_input_analyzer.cli.terminal import complain, print_text
from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.masking import masked_command
from cs_input_analyzer.model.train_command import is_python, without_launcher

if TYPE_CHECKING:
    from cs_input_analyzer.records import Analysis, Capture
    from cs_input_analyzer.request.request import Request

USAGE = "[OPTIONS] python SCRIPT.py ARGS…"
AVAILABLE = ("--available-nodes", "--available_nodes", "--avail_nodes")


class _Form(Command):
    def format_usage(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(context.command_path, USAGE)


def is_original(arguments: Sequence[str], commands: Collection[str]) -> bool:
    """Return whether these arguments are the command line of a script, perhaps after options, and no command of ours."""
    if not arguments or arguments[0] in commands or arguments[0] in ("-h", "--help", "-V", "--version"):
        return False
    return arguments[0].startswith("-") or is_python(arguments[0])


def check_begins_with_python(words: Sequence[str]) -> None:
    """Raise UsageError with the line to type, for a script without its Python or behind a launcher."""
    try:
        meant = ["python", *words] if words[0].endswith(".py") else without_launcher(words, "")
    except UsageError:
        return
    if len(meant) != len(words) and is_python(meant[0]):
        typed = ["cs_input_analyzer", *sys.argv[1:]]
        before = typed[: -len(words)] if typed[-len(words) :] == list(words) else typed[:1]
        raise UsageError(f"the script's command begins with its Python: type {shlex.join([*before, *meant])}")


def check_is_no_command_of_a_script(command: str, words: Sequence[str]) -> None:
    """Raise UsageError with the line to type, if Python and its script stand behind a command that takes an input function."""
    at = next((at for at, word in enumerate(words[:-1]) if is_python(word) and not words[at + 1].startswith("--")), None)
    if command not in ("analyze", "tune") or at is None:
        return
    line = shlex.join(["cs_input_analyzer", *words])
    if command == "tune":
        line = shlex.join(["cs_input_analyzer", *words[at:]])
        raise UsageError(f"tune takes an input function, path/file.py:function; of a script, {line} shows the fixes")
    raise UsageError(f"a script stands in place of a command: type {line}")


@click.command(
    cls=_Form,
    notes_more=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110, "allow_interspersed_args": False},
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.option(*AVAILABLE, "available_nodes", type=int, metavar="N", help="Nodes of the cluster, as --nodes; default: DEF_NODES.")
@click.option(
    "--capture", "number", type=int, metavar="N", help="Which of the places where the script takes data; default: its training."
)
@click.option("--list-captures", is_flag=True, help="Only list the places where the script takes data.")
@shared.with_options(
    shared.STAND_INS,
    shared.analysis(),
    shared.RULES,
    shared.LAUNCH[:-1],
    shared.grouped("What runs", shared.INPUT_CONTEXT),
    shared.grouped(
        "Launch lines",
        click.option("--mount-dirs", "--mount_dirs", "mount_dirs", metavar="A,B", help="Folders to mount in the container."),
    ),
    shared.OUTPUT,
)
def original(words: tuple[str, ...], available_nodes: int | None, number: int | None, list_captures: bool, **choices: Any) -> int:
    """Run your own training script up to the input function it would train on, and analyze that. The training never runs."""
    from cs_input_analyzer.worker import capture

    if not words:
        raise UsageError(f"which script? cs_input_analyzer {USAGE}")
    if not is_python(words[0]):  # it may be the value of an unknown option
        mistakes().raise_any()
    if words[1:] in (("--help",), ("-h",), ("--help-all",)):
        context = click.get_current_context()
        context.meta[ALL] = words[1] == "--help-all"
        print_text(context.get_help())
        return 0
    check_begins_with_python(words)
    found_wrong, script = mistakes(), None
    output = Output.taken(choices)
    with found_wrong:
        choices["nodes"] = _nodes(available_nodes, choices)
    if number is not None and number < 1:
        found_wrong.note(f"--capture {number}: candidates are counted from 1")
    with found_wrong:
        script = capture.from_command(words)
    if script is not None:
        choices["train_command"] = choices["train_command"] or shlex.join(words)
    request = request_of(None if script is None else script.target, None, (), choices, typed_command())
    assert script is not None
    if not output.is_quiet and (other := capture.other_python(words[0])) is not None:
        complain(f"the script runs in {sys.executable}, where cs_input_analyzer is installed, and not in {other}")
    if list_captures:
        places, _ = output.measured(
            request.options.max_seconds,
            lambda progress, is_allowed: _places(script, number, on_own_files(request, is_allowed), progress),
            request.options.on_own_files,
        )
        print_text("\n".join(listed(places)))
        return 0
    found = output.measured(
        request.options.max_seconds,
        lambda progress, is_allowed: _captured(script, number, on_own_files(request, is_allowed), progress, output.is_quiet),
        request.options.on_own_files,
    )
    output.deliver(found, keeps=True)
    return output.exit_code(found, is_interrupted=found.interrupted)


def _places(script: Any, number: int | None, request: Request, progress: Any) -> tuple[Capture, float]:
    """Return the places where the script takes data, with the one to analyze picked, and the seconds that it took."""
    from cs_input_analyzer.engines.script import find_captures, pick

    options = request.options
    progress(f"running {masked_command(script.command)[0]} up to its input", 0.0)
    found, spent_s = find_captures(
        script,
        options.start_timeout_s,
        options.worker_memory_bytes,
        packages=options.stand_ins,
        last=number,
        isolates=not options.on_own_files,
        has_network=not options.no_network,
    )
    return pick(found, number), spent_s


def _captured(script: Any, number: int | None, request: Request, progress: Any, is_quiet: bool) -> Analysis:
    """Find the input that the script would train on, and analyze it."""
    from cs_input_analyzer.workflows import launched

    found, spent_s = _places(script, number, request, progress)
    if not is_quiet:
        for text in listed(found):
            complain(text)
    mode = next(candidate.mode for candidate in found.candidates if candidate.number == found.picked)
    target, options = replace(script, number=found.picked).target, replace(request.options, mode=mode)
    request = replace(request, target=target, options=options, ends_epochs=found.ends_epochs)
    analyzed = launched.analyze(request, progress=progress)
    spent = analyzed.budget
    budget = replace(spent, import_s=spent.import_s + spent_s, total_s=spent.total_s + spent_s)
    runs = 1 + sum(len(measurement.workers) for measurement in analyzed.measurements)
    return replace(analyzed, capture=replace(found, runs=runs), budget=budget)


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


def _nodes(available_nodes: int | None, choices: dict[str, Any]) -> int | None:
    """Return the nodes of the option, else of DEF_NODES if no other option names the cluster. Raise UsageError."""
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
    if not re.fullmatch("[1-9][0-9]{0,6}", default):
        raise UsageError(f"DEF_NODES={default}: not a number of nodes; set it right, unset it, or give --available-nodes")
    return int(default)

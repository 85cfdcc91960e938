"""The command line: options in, exit code out. Nothing but this package catches our errors or prints.

Each command is in a module of its own; COMMANDS is written out.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import click

from cs_input_analyzer import __version__
from cs_input_analyzer.cli import analyze, compare, hosts, inspect_run, original, plan, report, rules, tune, validate, wafer
from cs_input_analyzer.cli.command import write_examples
from cs_input_analyzer.cli.running import EXIT_INTERRUPTED, ignore_late_signals
from cs_input_analyzer.cli.terminal import OutputError, ReaderLeft, complain, hide, print_on_stderr
from cs_input_analyzer.errors import AnalyzerError, LaunchError, UsageError
from cs_input_analyzer.gone import gone_message
from cs_input_analyzer.masking import hide_in, masked_words

# In the order of use.
COMMANDS: dict[click.Command, str] = {
    analyze.demo: "Try it: analyze a small sample that is written for it.",
    analyze.analyze: "Measure an input function, and plan a launch.",
    tune.tune: "Prove and measure fixes, and write them as a patch.",
    plan.plan: "Plan a saved run for other nodes or another demand.",
    validate.validate: "Launch a plan, and compare it with its prediction.",
    report.report: "Show a saved run: terminal, page, Markdown, CSV.",
    compare.compare: "Say what changed between two saved runs.",
    inspect_run.inspect_run: "Say whether a run that is over waited for its input.",
    wafer.wafer: "Predict how fast a wafer consumes samples.",
    hosts.cluster: "Write a cluster file, for --cluster FILE.",
    hosts.tf_config: "Print the TF_CONFIG of this Slurm task.",
    rules.list_rules: "List the rules that findings come from.",
    rules.explain: "Explain one rule.",
}
EXAMPLES = (
    "cs_input_analyzer demo",
    "cs_input_analyzer analyze data.py:train_input_fn --demand 7000",
    "cs_input_analyzer python run.py --mode train",
)
NAME = "cs_input_analyzer"
# A file or a module, and the function in it.
TARGET = re.compile(r"[^-:][^:]*:[A-Za-z_]\w*")
EXIT_BUG = 70
# Python's words where the kernel grants a user no more threads.
NO_THREAD = "can't start new thread"
# As a shell says of a program that was ended by SIGPIPE.
EXIT_BROKEN_PIPE = 141


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        write_examples(formatter, EXAMPLES)

    def resolve_command(self, context: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.commands:
            if message := gone_message("command", args[0]):
                raise UsageError(message)
            original.check_begins_with_python(args)
            if TARGET.fullmatch(args[0]):
                raise UsageError(f"which command? To measure it, type {shlex.join([NAME, 'analyze', *args])}")
        original.check_is_no_command_of_a_script(args[0], args[1:])
        return super().resolve_command(context, args)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, "-V", "--version", prog_name=NAME)
def cli() -> None:
    """Measure a tf.data input function; learn how many nodes, tasks and CPUs feed the accelerator.

    Or put your own script in place of a command, [--available-nodes N] [--mount-dirs A,B] python run.py ARGS…: it runs up to the
    input function that it would train on, and that is analyzed. `cs_input_analyzer python --help` lists its options.
    """


for command, summary in COMMANDS.items():
    command.short_help = summary
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; the table of codes is in docs/interfaces.md."""
    given = list(arguments) if arguments is not None else sys.argv[1:]
    secrets = masked_words(given)[1]
    try:
        command = original.original if original.is_original(given, cli.commands) else cli
        result = _outcome(command, given)
        return result if isinstance(result, int) else 0
    except click.Abort:
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        advice = "" if context is None else f" ({context.command_path} --help shows how)"
        complain(secrets.hide(f"{error.format_message()}{advice}"))
        return error.exit_code
    except AnalyzerError as error:
        hide_in(error, secrets)
        for line in getattr(error, "lines", ()) or (str(error),):
            complain(line, getattr(error, "details", ""))
        if error.exit_code != UsageError.exit_code:
            _complain_of_limits()
        return error.exit_code
    except KeyboardInterrupt:
        complain("interrupted")
        return EXIT_INTERRUPTED
    except (ReaderLeft, BrokenPipeError):  # as `head` does; the latter while click printed a help or the version
        hide(sys.stdout)
        return EXIT_BROKEN_PIPE
    except OutputError as error:
        hide(sys.stdout)
        complain(f"the report could not be printed: {error}; free some space there, or send it to a file elsewhere")
        return LaunchError.exit_code
    except Exception as error:
        if isinstance(error, RuntimeError) and NO_THREAD in str(error):
            complain(f"{error}: end other processes of yours, or raise their limit")
            _complain_of_limits()
            return LaunchError.exit_code
        complain("this is a bug of cs_input_analyzer; please report it with the lines above", secrets.hide(traceback.format_exc()))
        return EXIT_BUG
    finally:
        ignore_late_signals()


def _complain_of_limits() -> None:
    from cs_input_analyzer.host.limits import low_limits

    if advice := low_limits():
        complain(advice)


def _outcome(command: click.Command, arguments: Sequence[str]) -> Any:
    """As `command.main`, which would take a broken pipe for exit code 1, that of --fail-on, and an end of file for Ctrl-C."""
    if f"_{NAME.upper()}_COMPLETE" in os.environ:  # a shell asks how a line may go on
        command.main(args=list(arguments), prog_name=NAME)
    if not arguments:
        print_on_stderr(cli.make_context(NAME, [], resilient_parsing=True).get_help())
        return UsageError.exit_code
    try:
        with command.make_context(NAME, list(arguments)) as context:
            return command.invoke(context)
    except click.exceptions.Exit as over:
        return over.exit_code

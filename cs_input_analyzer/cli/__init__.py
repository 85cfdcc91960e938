"""The command line: options in, exit code out. Nothing but this package catches our errors or prints.

Each command is in a module of its own; COMMANDS is written out.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence

import click

from cs_input_analyzer import __version__
from cs_input_analyzer.cli import analyze, compare, hosts, inspect_run, original, report, rules, tune, validate, wafer
from cs_input_analyzer.cli.running import EXIT_INTERRUPTED
from cs_input_analyzer.cli.terminal import OutputError, complain, hide_stdout
from cs_input_analyzer.errors import AnalyzerError, LaunchError

COMMANDS = (
    analyze.analyze,
    analyze.demo,
    report.report,
    validate.validate,
    compare.compare,
    tune.tune,
    hosts.tf_config,
    wafer.wafer,
    inspect_run.inspect_run,
    hosts.reference,
    rules.list_rules,
    rules.explain,
)
EXIT_BUG = 70


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, "-V", "--version", prog_name="cs_input_analyzer")
def cli() -> None:
    """Measure a tf.data input function; learn how many nodes, tasks and CPUs feed the accelerator.

    Or put your own script in place of a command, [--available-nodes N] [--mount-dirs A,B] python run.py ARGS…: it runs up to the
    input function that it would train on, and that is analyzed. `cs_input_analyzer python --help` lists its options.
    """


for command in COMMANDS:
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code; the table of codes is in docs/interfaces.md."""
    try:
        given = list(arguments) if arguments is not None else sys.argv[1:]
        command = original.original if original.is_original(given, cli.commands) else cli
        result = command.main(args=given, prog_name="cs_input_analyzer", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.Abort:
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except AnalyzerError as error:
        complain(str(error), getattr(error, "details", ""))
        return error.exit_code
    except KeyboardInterrupt:
        complain("interrupted")
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of our output left, as `head` does
        hide_stdout()
        return EXIT_BUG
    except OutputError as error:
        hide_stdout()
        complain(f"the report could not be printed: {error}; free some space there, or save it with --json FILE elsewhere")
        return LaunchError.exit_code
    except Exception:
        traceback.print_exc()
        complain("this is a bug of cs_input_analyzer; please report it with the lines above")
        return EXIT_BUG

"""A command that reads all of its options before it complains of any."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import click

from cs_input_analyzer.errors import Mistakes
from cs_input_analyzer.gone import gone_message

KEY = "cs_input_analyzer.mistakes"
ALL = "cs_input_analyzer.help_all"
# So many options have room on one screen.
MOST_SHOWN = 20


def _show_all(ctx: click.Context, option: click.Parameter, is_given: bool) -> None:
    if is_given and not ctx.resilient_parsing:
        ctx.meta[ALL] = True
        click.echo(ctx.get_help())
        ctx.exit()


HELP_ALL = click.Option(
    ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=_show_all, help="Show all options and exit."
)


def write_examples(formatter: click.HelpFormatter, examples: Sequence[str]) -> None:
    """Print the examples below the usage."""
    if examples:
        with formatter.section("Examples"):
            for line in examples:
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


class Command(click.Command):
    """Note options that cannot be read, and give them their defaults meanwhile.

    An unknown option is noted and left out, with its value where the line has a word too many otherwise. An argument that is
    missing ends the reading.

    Help shows options in groups. Of a command with many, `--help` shows those that are used most, and `--help-all` the rest.

    Attributes:
        notes_more: the command looks for more mistakes by itself, and raises all `mistakes()` before it begins.
        examples: command lines, shown by its help.
    """

    def __init__(self, *args: Any, notes_more: bool = False, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._notes_more, self._examples = notes_more, examples
        if len(self.params) > MOST_SHOWN:
            self.params.append(HELP_ALL)
        for parameter in self.params:
            noting = functools.partial(_noting, parameter, parameter.process_value)
            parameter.process_value = noting  # type: ignore[method-assign]

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the examples below the text."""
        super().format_help_text(ctx, formatter)
        write_examples(formatter, self._examples)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the options by group: the usual ones, or all with `--help-all`."""
        options = [parameter for parameter in self.get_params(ctx) if isinstance(parameter, click.Option)]
        is_short = HELP_ALL in options and not ctx.meta.get(ALL)
        groups: dict[str, list[tuple[str, str]]] = {}
        for option in options:
            record = option.get_help_record(ctx)
            if record is not None and not (is_short and not getattr(option, "is_common", True)):
                groups.setdefault(getattr(option, "group", "Options"), []).append(record)
        last = groups.pop("Options", [])
        for title, records in {**groups, "Options": last}.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the line without its unknown options, and note these."""
        unknown: list[str] = []
        values: list[str] = []
        while True:
            try:
                return super().parse_args(ctx, [word for word in args if word not in values])
            except click.NoSuchOption as error:
                place = next((at for at, word in enumerate(args) if word.partition("=")[0] == error.option_name), None)
                if place is None:  # one of several letters behind one dash
                    raise
                mistakes_of(ctx).note(gone_message("option", error.option_name) or error.format_message())
                unknown += [word for word in args[place + 1 : place + 2] if "=" not in args[place] and not word.startswith("-")]
                args = args[:place] + args[place + 1 :]
            except click.UsageError:
                if ctx.resilient_parsing or not mistakes_of(ctx):
                    raise
                if values or not unknown:
                    mistakes_of(ctx).raise_any()
                values = unknown

    def invoke(self, ctx: click.Context) -> Any:
        """Raise UsageError for all mistakes, unless the command does that itself."""
        if not self._notes_more:
            mistakes().raise_any()
        return super().invoke(ctx)


def mistakes() -> Mistakes:
    """Return the mistakes of the command line so far."""
    return mistakes_of(click.get_current_context())


def mistakes_of(context: click.Context) -> Mistakes:
    """Return the mistakes that were noted in a context."""
    found: Mistakes = context.meta.setdefault(KEY, Mistakes())
    return found


def _noting(parameter: click.Parameter, process: Callable[[click.Context, Any], Any], ctx: click.Context, value: Any) -> Any:
    try:
        return process(ctx, value)
    except click.MissingParameter:
        raise
    except click.BadParameter as error:
        if ctx.resilient_parsing:
            raise
        error.ctx, error.param = error.ctx or ctx, error.param or parameter
        mistakes_of(ctx).note(error.format_message())
        return None if parameter.required else process(ctx, parameter.get_default(ctx))  # a command with mistakes does not begin

"""A command that reads all of its options before it complains of any."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from cs_input_analyzer.errors import Mistakes
from cs_input_analyzer.gone import gone_message

KEY = "cs_input_analyzer.mistakes"


class Command(click.Command):
    """Notes options that cannot be read, and gives them their defaults meanwhile.

    An unknown option is noted and left out, with its value where the line has a word too many otherwise. An argument that is
    missing ends the reading.

    `notes_more`: the command looks for more mistakes by itself, and raises all `mistakes()` before it begins.
    """

    def __init__(self, *args: Any, notes_more: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._notes_more = notes_more
        for parameter in self.params:
            noting = functools.partial(_noting, parameter, parameter.process_value)
            parameter.process_value = noting  # type: ignore[method-assign]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Reads the line without its unknown options, which are noted."""
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
        """Raises UsageError, unless the command does that by itself."""
        if not self._notes_more:
            mistakes().raise_any()
        return super().invoke(ctx)


def mistakes() -> Mistakes:
    """What is wrong with the command line, as far as it was read."""
    return mistakes_of(click.get_current_context())


def mistakes_of(context: click.Context) -> Mistakes:
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

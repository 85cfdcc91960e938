"""A command that reads all of its options before it complains of any."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from cs_input_analyzer.errors import Mistakes

__all__ = ["Command", "mistakes"]

KEY = "cs_input_analyzer.mistakes"


class Command(click.Command):
    """Notes options that cannot be read, and gives them their defaults meanwhile.

    An unknown option, which may have a value, and an argument that is missing end the reading.

    `notes_more`: the command looks for more mistakes by itself, and raises all `mistakes()` before it begins.
    """

    def __init__(self, *args: Any, notes_more: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._notes_more = notes_more
        for parameter in self.params:
            noting = functools.partial(_noting, parameter, parameter.process_value)
            parameter.process_value = noting  # type: ignore[method-assign]

    def invoke(self, ctx: click.Context) -> Any:
        """Raises UsageError, unless the command does that by itself."""
        if not self._notes_more:
            mistakes().raise_any()
        return super().invoke(ctx)


def mistakes() -> Mistakes:
    """What is wrong with the command line, as far as it was read."""
    found: Mistakes = click.get_current_context().meta.setdefault(KEY, Mistakes())
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
        ctx.meta.setdefault(KEY, Mistakes()).note(error.format_message())
        return None if parameter.required else process(ctx, parameter.get_default(ctx))  # a command with mistakes does not begin

"""`python -m cs_input_analyzer.cli.interfaces` rewrites the generated parts of docs/interfaces.md: options and fields of the JSON.

A part stands between `<!-- options of COMMAND -->`, or `<!-- fields of RECORD -->`, and `<!-- end -->`.
"""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import click

from cs_input_analyzer import records
from cs_input_analyzer.cli import cli

PAGE = Path("docs/interfaces.md")
_PART = re.compile(r"(?P<begin><!-- (?P<kind>options|fields) of (?P<name>[\w-]+) -->\n).*?(?P<end><!-- end -->\n)", re.DOTALL)
# A command beside the one whose table lists the options that both have.
_LISTED = ("analyze",)


def rewritten(page: str) -> str:
    """Return the page with its generated parts made anew."""
    makers = {"options": options_table, "fields": fields_table}
    return _PART.sub(lambda match: match["begin"] + makers[match["kind"]](match["name"]) + match["end"], page)


def options_table(name: str) -> str:
    """Return the options of a command as tables, one for each group. Those of `analyze` stand in its own tables alone."""
    command = cli.commands[name]
    elsewhere = {_key(option) for other in _LISTED if other != name for option in _options(cli.commands[other])}
    groups: dict[str, list[str]] = {}
    for option in _options(command):
        if _key(option) not in elsewhere:
            groups.setdefault(getattr(option, "group", "Options"), []).append(_option_row(option, command))
    tables = []
    for title, rows in groups.items():
        head = ["| option | meaning |", "|---|---|"]
        tables.append("\n".join([*([f"**{title}**", ""] if len(groups) > 1 else []), *head, *rows, ""]))
    return "\n".join(tables)


def _options(command: click.Command) -> Iterator[click.Option]:
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden and option.name != "help_all":
            yield option


def _key(option: click.Option) -> tuple[Any, ...]:
    return (*option.opts, option.help)


def _option_row(option: click.Option, command: click.Command) -> str:
    record = option.get_help_record(click.Context(command))
    assert record is not None
    words, meaning = (" ".join(text.split()).replace("|", "\\|") for text in record)
    return f"| {', '.join(f'`{word}`' for word in words.split(', '))} | {meaning} |"


def fields_table(name: str) -> str:
    """Return the fields of a record, and of all records in it. Records of a run stand in its own table alone.

    A name that ends in `?` may be null, in `[]` is a list. A word behind it is the record that it holds, or `a / b` the values.
    """
    of_run = [] if name == "Analysis" else _reached(records.Analysis)
    listed = [record for record in _reached(getattr(records, name)) if record not in of_run]
    rows = [f"| {record.__name__} | {', '.join(map(_field, get_type_hints(record).items()))} |" for record in listed]
    return "\n".join(["| record | fields |", "|---|---|", *rows, ""])


def _reached(root: type) -> list[type]:
    """Return a record and all records that it may hold, in the order of their fields."""
    found = [root]
    for record in found:  # grows meanwhile
        inner = dict.fromkeys(_inside(hint)[0] for hint in get_type_hints(record).values())
        found += [one for one in inner if _is_record(one) and one not in found]
    return found


def _is_record(hint: Any) -> bool:
    return isinstance(hint, type) and dataclasses.is_dataclass(hint)


def _field(named: tuple[str, Any]) -> str:
    inside, mark = _inside(named[1])
    values = " / ".join(map(str, get_args(inside))) if get_origin(inside) is Literal else ""
    return f"`{named[0]}{mark}` {inside.__name__ if _is_record(inside) else values}".rstrip()


def _inside(hint: Any) -> tuple[Any, str]:
    """Return the type of a field, or of a list's items, and its mark."""
    if get_origin(hint) in (types.UnionType, Union) and type(None) in get_args(hint):
        inside, mark = _inside(next(part for part in get_args(hint) if part is not type(None)))
        return inside, f"{mark}?"
    if get_origin(hint) is tuple:
        inside, mark = _inside(get_args(hint)[0])
        return inside, f"[]{mark}"
    return hint, ""


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

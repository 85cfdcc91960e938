"""Pieces of a console report: headings, paragraphs, facts, tables, and lines to copy, on a terminal of any width.

User text reaches rich only as `Text`, never as markup, and without control characters.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from cs_input_analyzer.report.pictures import Picture
from cs_input_analyzer.report.tables import Column, Table
from cs_input_analyzer.report.wording import Facts, visible

if TYPE_CHECKING:
    from rich.console import Console

# Where nobody says how wide: what every terminal and every mail shows whole.
DEFAULT_WIDTH = 80
# Below this a table with an interval in it is a column of single letters.
SMALLEST_WIDTH = 40
# Names and messages of thousands of characters are cut here; the JSON has them whole.
LONGEST_TEXT = 2000
# A file name and a line number, mostly.
SHORTEST_SOURCE = 16
# What stays on one line: the indent of a text goes with its first word.
_WORD = re.compile(r"^\s*\S+|\S+")
# Blank columns between two columns of a table.
GAP = 2
# A column of text may get as narrow as this, so that numbers beside it stay whole.
LEAST_TEXT = 8


def console_on(out: io.StringIO, width: int | None, color: bool) -> Console:
    """A terminal that writes to `out` and looks at nothing else."""
    from rich.console import Console

    return Console(
        file=out,
        width=max(width or DEFAULT_WIDTH, SMALLEST_WIDTH),
        color_system="standard" if color else None,
        force_terminal=color,
        force_jupyter=False,
        no_color=not color,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
        # Else rich would look at COLUMNS, NO_COLOR and TERM, and the same run would print differently.
        _environ={},
    )


def text_of(out: io.StringIO) -> str:
    """What was printed."""
    # Cells are padded to their column; nobody wants those spaces in a file or a mail.
    return "\n".join(line.rstrip(" ") for line in out.getvalue().splitlines()) + "\n"


def heading_on(console: Console, title: str, *, is_apart: bool = True) -> None:
    """A line across the terminal, with a blank one before it where it `is_apart`."""
    from rich.text import Text

    if is_apart:
        console.print()
    console.print(Text(f"── {title} ".ljust(console.width, "─"), style="bold"))


def line_on(console: Console, text: str, *, style: str = "", indent: str = "") -> None:
    """A paragraph, folded at the width; lines after a newline of its own are indented as the first."""
    from rich.text import Text

    console.print(Text(indent + _cut(visible(text)).replace("\n", f"\n{' ' * len(indent)}"), style=style, overflow="fold"))


def facts_on(console: Console, facts: Facts) -> None:
    """`label  text`, the text folded in its own column."""
    from rich.table import Table as Grid
    from rich.text import Text

    if not facts:
        return
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for label, text in facts:
        grid.add_row(Text(f"  {label}"), Text(_cut(visible(text))))
    console.print(grid)


def table_on(console: Console, table: Table, *, heading: bool = True, styles: tuple[str, ...] = ()) -> None:
    """`styles`: of the rows, one for each; none: the row that stands out is bold."""
    from rich.table import Table as Grid
    from rich.text import Text

    if not table.rows:
        return
    if heading:
        heading_on(console, table.title)
    grid = Grid(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="underline")
    shown = [index for index, column in enumerate(table.columns) if column.needs_width <= console.width]
    columns = [table.columns[index] for index in shown]
    rows = [
        [_shortened(row[index], _room(table, index, console.width), table.columns[index]) for index in shown] for row in table.rows
    ]
    keeps_numbers = _numbers_fit(columns, rows, console.width)
    for column, width in zip(columns, _widths(columns, rows, console.width), strict=True):
        side: Literal["right", "left"] = "right" if column.is_number else "left"
        whole = column.is_number and keeps_numbers
        grid.add_column(Text(column.name), justify=side, vertical="top", overflow="fold", no_wrap=whole, width=width)
    for number, row in enumerate(rows):
        style = styles[number] if styles else "bold" if number == table.strong else ""
        grid.add_row(*map(Text, row), style=style or None)
    console.print(grid)
    if table.remarks:
        console.print()
    for remark in table.remarks:
        line_on(console, remark)


def _numbers_fit(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> bool:
    """Whether every number can stay on one line, beside some letters of each text; else they fold rather than lose digits."""
    from rich.cells import cell_len

    needed = GAP * (len(columns) - 1)
    for column, cells in zip(columns, zip(*rows, strict=True), strict=True):
        longest = max(map(cell_len, cells))
        needed += max(longest, *map(cell_len, column.name.split("\n"))) if column.is_number else min(longest, LEAST_TEXT)
    return needed <= width


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[int | None]:
    """Widths at which no word is broken, what is left over shared by the texts that can use it; None for all where words must
    break, or all fits anyway."""
    from rich.cells import cell_len

    cells = [[*column.name.split("\n"), *texts] for column, texts in zip(columns, zip(*rows, strict=True), strict=True)]
    longest = [max(map(cell_len, texts)) for texts in cells]
    words = [max((cell_len(word) for text in texts for word in _WORD.findall(text)), default=0) for texts in cells]
    found = [whole if column.is_number else word for column, whole, word in zip(columns, longest, words, strict=True)]
    left = width - GAP * (len(columns) - 1) - sum(found)
    if left < 0 or sum(longest) - sum(found) <= left:
        return [None] * len(columns)
    folding = sorted((index for index in range(len(columns)) if longest[index] > found[index]), key=lambda i: longest[i] - found[i])
    for place, index in enumerate(folding):
        more = min(longest[index] - found[index], left // (len(folding) - place))
        found[index] += more
        left -= more
    return list(found)


def picture_on(console: Console, picture: Picture | None, *, heading: bool = True) -> None:
    """Its caption, then a line for each row; nothing where there is no picture."""
    from rich.table import Table as Grid
    from rich.text import Text

    if picture is None:
        return
    if heading:
        heading_on(console, picture.title)
    else:
        console.print()
    line_on(console, picture.caption)
    grid = Grid.grid(padding=(0, GAP, 0, 0))
    grid.add_column(no_wrap=True, overflow="ellipsis", max_width=max(console.width // 4, 10), style="dim")
    grid.add_column(no_wrap=True, overflow="crop")
    grid.add_column(overflow="fold")
    for label, drawing, text in picture.rows:
        grid.add_row(Text(_cut(visible(label))), Text(drawing), Text(_cut(visible(text))))
    console.print(grid)


def picture_width(console: Console) -> int:
    """Columns that a drawing may take, beside its label and its text."""
    return max(console.width * 2 // 7, 8)


def _room(table: Table, index: int, width: int) -> int:
    """Columns that a cell may take: a third of the line, or for sources what the other cells of the table leave."""
    if not table.columns[index].keeps_end:
        return max(width // 3, 16)
    others = [place for place, column in enumerate(table.columns) if place != index and column.needs_width <= width]
    return max(width - sum(_needed(table, place, width) + GAP for place in others), SHORTEST_SOURCE)


def _needed(table: Table, index: int, width: int) -> int:
    """Columns that the cells of one column would fill; long texts fold at half the line, others are cut at a third."""
    column = table.columns[index]
    longest = max(len(text) for text in (*(row[index] for row in table.rows), *column.name.split("\n")))
    return min(longest, width // 2 if column.is_long else width // 3)


def copyable_on(console: Console, label: str, text: str) -> None:
    """Lines as they are to be pasted: unbroken, unindented, nothing before them on the line."""
    from rich.text import Text

    if label:
        console.print()
        line_on(console, f"{label}:", style="dim")
    for line in visible(text).rstrip("\n").split("\n"):
        console.print(Text(line, style="bold"), soft_wrap=True)


def _shortened(text: str, longest: int, column: Column) -> str:
    if column.is_long:
        return _cut(text)
    if len(text) <= longest:
        return text
    if not column.keeps_end:
        return text[: longest - 1] + "…"
    # Of a path, whole names from its end: `…/input_fn.py:42`.
    end = text[-longest + 1 :]
    _, slash, names = end.partition("/")
    return f"…/{names}" if slash and names else f"…{end}"


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}… ({len(text) - LONGEST_TEXT} characters more in the JSON)"

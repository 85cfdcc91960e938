"""Pieces of a console report: headings, paragraphs, facts, tables, and lines to copy, on a terminal of any width.

User text reaches rich only as `Text`, never as markup, and without control characters.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cs_input_analyzer.report.tables import Table
from cs_input_analyzer.report.wording import Pairs
from cs_input_analyzer.units import visible

if TYPE_CHECKING:
    from rich.console import Console

# Where nobody says how wide: what every terminal and every mail shows whole.
DEFAULT_WIDTH = 80
# Below this a table with an interval in it is a column of single letters.
SMALLEST_WIDTH = 40
# Names and messages of thousands of characters are cut here; the JSON has them whole.
LONGEST_TEXT, LONGEST_CELL = 2000, 400
# Blank columns between two columns of a table.
GAP = 2
# A column of text may get as narrow as this, so that numbers beside it stay whole.
LEAST_TEXT = 6


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
    """What was printed, without the spaces that pad cells to their column."""
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

    console.print(Text(indent + cut(visible(text)).replace("\n", f"\n{' ' * len(indent)}"), style=style, overflow="fold"))


def facts_on(console: Console, facts: Pairs) -> None:
    from rich.table import Table as Grid
    from rich.text import Text

    if not facts:
        return
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for label, text in facts:
        grid.add_row(Text(f"  {label}"), Text(cut(visible(text))))
    console.print(grid)


def copyable_on(console: Console, text: str, label: str = "") -> None:
    """Lines as they are to be pasted: unbroken, unindented, nothing before them on the line."""
    from rich.text import Text

    if label:
        line_on(console, f"{label}:", style="dim")
    for line in visible(text).rstrip("\n").split("\n"):
        console.print(Text(line, style="bold"), soft_wrap=True)


def table_on(console: Console, table: Table, styles: Sequence[str] = ()) -> None:
    """`styles`: of the rows, one for each; none: the row that stands out is bold."""
    from rich.cells import cell_len
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="underline")
    shown = [index for index, column in enumerate(table.columns) if column.needs_width <= console.width]
    columns = [table.columns[index] for index in shown]
    rows = [[cut(row[index], LONGEST_CELL) for index in shown] for row in table.rows]
    # Numbers stay whole where all of them fit beside a few letters of each text.
    least = GAP * (len(columns) - 1)
    for place, column in enumerate(columns):
        longest = max(map(cell_len, [*column.name.split("\n"), *(row[place] for row in rows)]))
        least += longest if column.is_number else min(longest, LEAST_TEXT)
    for column in columns:
        grid.add_column(
            Text(column.name),
            justify="right" if column.is_number else "left",
            overflow="fold",
            no_wrap=column.is_number and least <= console.width,
        )
    for number, row in enumerate(rows):
        style = styles[number] if styles else "bold" if number == table.strong else ""
        grid.add_row(*map(Text, row), style=style or None)
    console.print(grid)
    if table.remarks:
        console.print()
    for remark in table.remarks:
        line_on(console, remark)


def cut(text: str, most: int = LONGEST_TEXT) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} characters more in the JSON)"

"""Document -> text for a terminal or a pipe: at most a screen of it, or all.

Lines to copy stand alone at the left edge, never wrapped. User text reaches rich only as its `Text`, never as markup, and without
control characters.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from cs_input_analyzer.report.document import Bars, Card, Column, Copyable, Document, Facts, Part, Section, Table, Text
from cs_input_analyzer.report.strip import narrowed
from cs_input_analyzer.report.wording import Pairs, one_line
from cs_input_analyzer.units import visible

if TYPE_CHECKING:
    from rich.console import Console

# If no width is given: every terminal and every mail shows so many columns whole.
DEFAULT_WIDTH = 80
# Below this a table with an interval in it is a column of single letters.
SMALLEST_WIDTH = 40
# Names and messages of thousands of characters are cut here; the JSON has them whole.
LONGEST_TEXT, LONGEST_CELL = 2000, 400
# Blank columns between two columns of a table.
GAP = 2
# A column of text may get as narrow as this, so that numbers beside it stay whole.
LEAST_TEXT = 6
# Lines of a short report, at this width or a wider one.
MOST_LINES = 30
# Columns of the margin with the words of a short report, and of the longest bar.
MARGIN, BAR = 8, 20
# Letters of the longest rate.
LONGEST_RATE = 24
# Eighths of a column.
EIGHTHS = " ▏▎▍▌▋▊▉"
# Lines of code that a fix on the first screen shows.
LINES_OF_A_CHANGE = 4
# Lines that one text may take in a short report; fewer are tried where the report would be longer than a screen.
LINES_OF_A_TEXT = (3, 2, 1)
# A notice gets at least these: its reason is at its end.
LINES_OF_A_NOTICE = 2

# What stands before the file of a source line in a table.
_FOLDER = re.compile(r"…/[^/\s]+/(?=[^/\s]+:\d)")
# Of a long path in a sentence, the last folder and the file are enough.
_PATH = re.compile(r"(?:/[^/\s,;)]+){2,}(/[^/\s,;)]+/[^/\s,;)]+)")

HEADLINE_STYLES = {
    "input_bound": "bold red",
    "balanced": "bold yellow",
    "accelerator_bound": "bold green",
    "unsafe": "bold red",
    "worse": "bold red",
    "better": "bold green",
}
TONES = {"notice": "yellow", "note": "dim", "danger": "red", "demand": "yellow", "supply": "cyan", "plan": "green"}
SEVERITY_STYLES = {"info": "cyan", "warning": "yellow", "error": "bold red"}
CHANGE_STYLES = {" ": "dim", "-": "red", "+": "green"}
ROW_STYLES = {"worse": "red", "better": "green", "same": "", "other": "cyan"}


def to_console(document: Document, *, full: bool = False, width: int | None = None, color: bool = False) -> str:
    """Return the report. Lines have at most `width` columns (80 if None), except lines to copy.

    Without `full` it has at most `MOST_LINES` lines, lines to copy counted once. With `color=False` there is no escape sequence.
    """
    if full:
        return _printed(document, width, color, None)
    text = ""
    for most in LINES_OF_A_TEXT:
        text = _printed(document, width, color, most)
        if len(text.splitlines()) <= MOST_LINES:
            break
    return text


def _printed(document: Document, width: int | None, color: bool, most: int | None) -> str:
    """Return the report. `most`: lines that one text may take in a short report; None for the long one."""
    out, is_full = io.StringIO(), most is None
    console = console_on(out, width, color)
    if document.headline:
        style = HEADLINE_STYLES.get(document.mark, "bold")
        line_on(console, _shortened(document.headline, console.width, most), style=style)
    for notice in document.notices:
        line_on(console, _shortened(notice, console.width, most and max(most, LINES_OF_A_NOTICE)), style="bold yellow")
    for number, section in enumerate(document.shown(full=is_full)):
        if section.label and not is_full and console.width >= SMALLEST_WIDTH + MARGIN:
            _beside_label(console, section, most or 1)
            continue
        if number or not document.headline:
            heading_on(console, section.title, is_apart=is_full)
        for place, part in enumerate(section.parts):
            if is_full and place and not (isinstance(part, Text) and isinstance(section.parts[place - 1], Text)):
                console.print()
            _part(console, part, most)
    if document.closing and not is_full:
        heading_on(console, document.closing[0], is_apart=False)
        copyable_on(console, "\n".join(document.closing[1:]))
    return text_of(out)


def _beside_label(console: Console, section: Section, most: int) -> None:
    """Print a section with its label in the margin. Lines to copy begin at the left edge all the same."""
    label = section.label
    for part in section.parts:
        if isinstance(part, Copyable):
            _part(console, part, most)
            continue
        out = io.StringIO()
        _part(console_on(out, console.width - MARGIN, console.color_system is not None), part, most)
        for line in out.getvalue().rstrip("\n").split("\n"):
            console.out(label.ljust(MARGIN), end="", style="bold", highlight=False)
            console.file.write(f"{line.rstrip(' ')}\n")
            label = ""


def _cut_rate(rate: str) -> str:
    return rate if len(rate) <= LONGEST_RATE else f"{rate[: LONGEST_RATE - 1]}…"


def _bars(console: Console, bars: Bars, most: int | None) -> None:
    """Print a line for each rate: its label, itself, a bar if there is room for one, and where it comes from."""
    from rich.table import Table as Grid
    from rich.text import Text as Styled

    has_room, rates = console.width >= DEFAULT_WIDTH, [_cut_rate(bar.rate) for bar in bars.rows]
    beside = max(map(len, rates), default=0) + max((len(bar.label) for bar in bars.rows), default=0)
    rest = console.width - beside - BAR - 3 * GAP - 2
    grid = Grid.grid(padding=(0, GAP, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, justify="right")
    if has_room:
        grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for bar, rate in zip(bars.rows, rates, strict=True):
        eighths = min(max(1, round(bar.ratio * BAR * 8)), BAR * 8)
        drawn = Styled(("█" * (eighths // 8) + EIGHTHS[eighths % 8]).rstrip(), style=TONES.get(bar.tone, ""))
        told = Styled(_shortened(bar.text, rest, None if most is None or not has_room else 1))
        grid.add_row(Styled(f"  {bar.label}"), Styled(rate), *((drawn,) if has_room else ()), told)
    console.print(grid)


def _part(console: Console, part: Part, most: int | None) -> None:
    if isinstance(part, Bars):
        _bars(console, part, most)
    elif isinstance(part, Text) and part.tone == "strip":
        line_on(console, narrowed(part.text, console.width))
    elif isinstance(part, Text):
        line_on(console, _shortened(part.text, console.width, most), style=TONES.get(part.tone, ""))
    elif isinstance(part, Facts) and part.is_large and most is not None:
        line_on(console, "   ".join(f"{name} {value}" for name, value in part.pairs), style="bold")
    elif isinstance(part, Facts) and part.is_large:
        copyable_on(console, "\n".join(f"{name}: {value}" for name, value in part.pairs))
    elif isinstance(part, Facts):
        pairs = part.pairs
        if most is not None:
            room = console.width - max((len(label) for label, _ in pairs), default=0) - 4
            pairs = tuple((label, _shortened(_PATH.sub(r"…\1", text), room, most)) for label, text in pairs)
        facts_on(console, pairs)
    elif isinstance(part, Table):
        table_on(console, part, [ROW_STYLES[mark] for mark in part.marks])
    elif isinstance(part, Card):
        _card(console, part, most)
    elif isinstance(part, Copyable) and part.instead:
        line_on(console, f"{part.label}: {part.instead}", style="dim")
    elif isinstance(part, Copyable):
        copyable_on(console, part.text, part.label if most is None else "")


def _shortened(text: str, width: int, most: int | None) -> str:
    """Return as much of a text as `most` lines of that width hold. Its paths are cut first."""
    if most is None:
        return text
    lines: list[str] = []
    for shown in (one_line(text), _PATH.sub(r"…\1", one_line(text))):
        lines = textwrap.wrap(shown, max(width, 8), max_lines=most, placeholder=" …", break_on_hyphens=False)
        if not lines or not lines[-1].endswith(" …"):
            break
    return "\n".join(lines)


def _card(console: Console, card: Card, most: int | None) -> None:
    if card.is_brief:
        head = " ".join(filter(None, (card.at or card.op, card.code, card.name, card.gain)))
        line_on(console, _shortened(head, console.width, 1), style="bold")
        if card.gain and card.code_change:
            _change(console, [line for line in card.code_change if line[0] != " "][:LINES_OF_A_CHANGE], console.width - 2)
            return
        line_on(console, _shortened(card.message, console.width - 2, 2), indent="  ")
        if card.fix:
            line_on(console, _shortened(f"→ {card.fix}", console.width - 2, most), indent="  ")
        return
    change = f"{card.change}: " if card.change else ""
    line_on(console, f"{change}{card.severity} {card.code}: {card.message}", style=SEVERITY_STYLES[card.severity])
    facts_on(console, card.facts)
    _change(console, card.code_change, LONGEST_TEXT, "    ")


def _change(console: Console, lines: Sequence[tuple[str, str]], width: int, indent: str = "  ") -> None:
    """Print lines of code. Of a line that is too long, the part that changes is shown."""
    letters = zip(*(text for _, text in lines), strict=False)
    alike = sum(1 for _ in takewhile(lambda at: len({*at}) == 1, letters)) if len(lines) > 1 else 0
    for mark, text in lines:
        line, room = f"{mark} {text}", width - 2
        if len(text) > room and alike > room // 2:
            begin = max(0, min(alike - room // 2, len(text) - room + 1))
            text = f"…{text[begin:]}"
            line = f"{mark} {text}"
        line_on(console, line if len(line) <= width else f"{line[: width - 1]}…", style=CHANGE_STYLES[mark], indent=indent)


def console_on(out: io.StringIO, width: int | None, color: bool) -> Console:
    """Return a terminal that writes to `out` and looks at nothing else."""
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
    """Return the printed text without the spaces that pad cells to their column."""
    return "\n".join(line.rstrip(" ") for line in out.getvalue().splitlines()) + "\n"


def heading_on(console: Console, title: str, *, is_apart: bool = True) -> None:
    """Print a line across the terminal, with a blank line before it if it `is_apart`."""
    from rich.text import Text as Styled

    if is_apart:
        console.print()
    console.print(Styled(f"── {title} ".ljust(console.width, "─"), style="bold"))


def line_on(console: Console, text: str, *, style: str = "", indent: str = "") -> None:
    """Print a paragraph, folded at the width; its further lines are indented as the first."""
    from rich.text import Text as Styled

    console.print(Styled(indent + cut(visible(text)).replace("\n", f"\n{' ' * len(indent)}"), style=style, overflow="fold"))


def facts_on(console: Console, facts: Pairs) -> None:
    """Print labels with their texts in two columns."""
    from rich.table import Table as Grid
    from rich.text import Text as Styled

    if not facts:
        return
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for label, text in facts:
        grid.add_row(Styled(f"  {label}"), Styled(cut(visible(text))))
    console.print(grid)


def copyable_on(console: Console, text: str, label: str = "") -> None:
    """Print lines as they are to be pasted: unbroken, unindented, nothing before them on the line."""
    from rich.text import Text as Styled

    if label:
        line_on(console, f"{label}:", style="dim")
    for line in visible(text).rstrip("\n").split("\n"):
        console.print(Styled(line, style="bold"), soft_wrap=True)


def table_on(console: Console, table: Table, styles: Sequence[str] = ()) -> None:
    """Print a table. `styles`: one for each row; without any, the row that stands out is bold."""
    from rich.table import Table as Grid
    from rich.text import Text as Styled

    grid = Grid(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="underline")
    shown = [index for index, column in enumerate(table.columns) if column.needs_width <= console.width]
    columns = [table.columns[index] for index in shown]
    rows = [[cut(row[index], LONGEST_CELL) for index in shown] for row in table.rows]
    gaps = GAP * (len(columns) - 1)
    if gaps + sum(_widths(columns, rows)) > console.width:  # the findings name the folder
        rows = [[_FOLDER.sub("", cell) for cell in row] for row in rows]
    widths = _widths(columns, rows)

    def fits(whole: Sequence[bool]) -> bool:
        return (
            gaps + sum(width if kept else min(width, LEAST_TEXT) for width, kept in zip(widths, whole, strict=True))
            <= console.width
        )

    # Numbers and source lines stay whole where all of them fit beside a few letters of each text, else numbers alone.
    numbers = [column.is_number for column in columns]
    lines_too = [column.is_number or column.name == "source" for column in columns]
    whole = next((kept for kept in (lines_too, numbers) if fits(kept)), [False] * len(columns))
    for column, kept in zip(columns, whole, strict=True):
        grid.add_column(Styled(column.name), justify="right" if column.is_number else "left", overflow="fold", no_wrap=kept)
    for number, row in enumerate(rows):
        style = styles[number] if styles else "bold" if number == table.strong else ""
        grid.add_row(*map(Styled, row), style=style or None)
    console.print(grid)
    if table.remarks:
        console.print()
    for remark in table.remarks:
        line_on(console, remark)


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the width of each column that breaks no cell."""
    from rich.cells import cell_len

    cells = [[*column.name.split("\n"), *(row[place] for row in rows)] for place, column in enumerate(columns)]
    return [max(map(cell_len, each)) for each in cells]


def cut(text: str, most: int = LONGEST_TEXT) -> str:
    """Return a text, shortened if it is longer than a person reads."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} characters more in the JSON)"

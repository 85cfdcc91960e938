"""Document -> text for a terminal or a pipe: at most a screen of it, or all.

Lines to copy stand alone at the left edge, never wrapped. User text reaches rich only as `Text`, never as markup, and without
control characters.
"""

from __future__ import annotations

import io
import re
import textwrap
from typing import TYPE_CHECKING

from cs_input_analyzer.report.document import (
    Bars,
    Card,
    Copyable,
    Document,
    Facts,
    Figure,
    Flow,
    Part,
    Section,
    TableOf,
    Text,
    Values,
    in_unit_of,
)
from cs_input_analyzer.report.pictures import pictures_of
from cs_input_analyzer.report.tables import Table
from cs_input_analyzer.report.terminal import (
    console_on,
    copyable_on,
    facts_on,
    heading_on,
    line_on,
    picture_on,
    picture_width,
    table_on,
    text_of,
)
from cs_input_analyzer.report.wording import one_line

if TYPE_CHECKING:
    from rich.console import Console

# Lines of a short report, at this width or a wider one.
MOST_LINES = 40
# Lines that one text may take in a short report; fewer are tried where the report would be longer than a screen.
LINES_OF_A_TEXT = (3, 2, 1)

# Of a long path in a sentence, the last folder and the file are enough.
_PATH = re.compile(r"(?:/[^/\s,;)]+){2,}(/[^/\s,;)]+/[^/\s,;)]+)")

HEADLINE_STYLES = {
    "input_bound": "bold red",
    "balanced": "bold yellow",
    "accelerator_bound": "bold green",
    "worse": "bold red",
    "better": "bold green",
}
TONES = {"notice": "yellow", "note": "dim", "worse": "red", "better": "green"}
SEVERITY_STYLES = {"info": "cyan", "warning": "yellow", "error": "bold red"}
CHANGE_STYLES = {" ": "dim", "-": "red", "+": "green"}
ROW_STYLES = {"worse": "red", "better": "green", "same": "", "other": "cyan"}


def to_console(document: Document, *, full: bool = False, width: int | None = None, color: bool = False) -> str:
    """The report, every line at most `width` columns (80 where None) but for the lines that are to be copied.

    Without `full` it has at most `MOST_LINES` lines, lines to copy counted once. With `color=False` there is no escape sequence.
    """
    if full:
        return _full(document, width, color)
    text = ""
    for most in LINES_OF_A_TEXT:
        text = _brief(document, width, color, most)
        if len(text.splitlines()) <= MOST_LINES:
            break
    return text


def _brief(document: Document, width: int | None, color: bool, most: int) -> str:
    out = io.StringIO()
    console = console_on(out, width, color)
    line_on(console, _shortened(document.headline, console.width, most), style=HEADLINE_STYLES.get(document.mark, "bold"))
    for notice in document.notices:
        line_on(console, notice, style="bold yellow")
    for number, section in enumerate(document.brief()):
        if number:
            heading_on(console, section.title, is_apart=False)
        for part in section.parts:
            _brief_part(console, part, most)
    if document.closing:
        heading_on(console, document.closing[0], is_apart=False)
        copyable_on(console, "", "\n".join(document.closing[1:]))
    return text_of(out)


def _brief_part(console: Console, part: Part, most: int) -> None:
    if isinstance(part, Card):
        place, gain = part.at or part.op or "the pipeline", part.gain or "gain not measured"
        line_on(console, _shortened(f"{place}: {gain} ({part.view.code})", console.width, 1), style="bold")
        line_on(console, _shortened(part.view.message, console.width - 2, 2), indent="  ")
        if part.fix:
            line_on(console, _shortened(f"→ {part.fix}", console.width - 2, most), indent="  ")
    elif isinstance(part, Facts | Bars):
        pairs = part.pairs if isinstance(part, Facts) else tuple((bar.label, bar.text) for bar in part.bars)
        room = console.width - max((len(label) for label, _ in pairs), default=0) - 4
        facts_on(console, tuple((label, _shortened(_PATH.sub(r"…\1", text), room, most)) for label, text in pairs))
    elif isinstance(part, Values):
        copyable_on(console, "", "\n".join(f"{name}: {value}" for name, value in part.values))
    elif isinstance(part, Copyable):
        copyable_on(console, "", part.text)
    else:
        _part(console, part, {})


def _shortened(text: str, width: int, most: int) -> str:
    """As much of a text as `most` lines of that width hold."""
    return "\n".join(textwrap.wrap(one_line(text), max(width, 8), max_lines=most, placeholder=" …")) or text[:width]


# --- all of it ---------------------------------------------------------------------------------------------------------------


def _full(document: Document, width: int | None, color: bool) -> str:
    out = io.StringIO()
    console = console_on(out, width, color)
    if document.headline:
        line_on(console, document.headline, style=HEADLINE_STYLES.get(document.mark, "bold"))
    for notice in document.notices:
        line_on(console, notice, style="bold yellow")
    sections = document.full()
    pictures = _pictures(sections, console)
    for number, section in enumerate(sections):
        shown = tuple(part for part in section.parts if not (isinstance(part, Figure) and part.name not in pictures))
        if not shown:
            continue
        if number or not document.headline:
            heading_on(console, section.title)
        for place, part in enumerate(shown):
            if place and not (isinstance(part, Text | TableOf) and isinstance(shown[place - 1], type(part))):
                console.print()
            _part(console, part, pictures)
    return text_of(out)


def _pictures(sections: tuple[Section, ...], console: Console) -> dict[str, object]:
    drawn = next((part for section in sections for part in section.parts if isinstance(part, Figure)), None)
    if drawn is None:
        return {}
    return dict(in_unit_of(drawn.analysis, pictures_of(drawn.analysis, picture_width(console))))


def _part(console: Console, part: Part, pictures: dict[str, object]) -> None:
    if isinstance(part, Text):
        line_on(console, part.text, style=TONES.get(part.tone, ""))
    elif isinstance(part, Facts):
        facts_on(console, part.pairs)
    elif isinstance(part, Bars):
        facts_on(console, () if part.has_table else tuple((bar.label, bar.text) for bar in part.bars))
    elif isinstance(part, Values):
        copyable_on(console, "", "\n".join(f"{name}: {value}" for name, value in part.values))
    elif isinstance(part, TableOf):
        folded, more = _folded(part.table)
        table_on(console, folded, heading=part.heading, styles=tuple(ROW_STYLES[mark] for mark in part.marks))
        if more:
            line_on(console, more, style="dim")
    elif isinstance(part, Flow):
        table_on(console, part.table, heading=False)
    elif isinstance(part, Figure):
        picture_on(console, pictures.get(part.name), heading=part.heading)  # type: ignore[arg-type]
    elif isinstance(part, Copyable):
        if not part.is_file:
            copyable_on(console, part.label, part.text)
        else:
            line_on(console, f"{part.label}: cs_input_analyzer report RUN.json --format sbatch", style="dim")
    else:
        _card(console, part)


def _card(console: Console, card: Card) -> None:
    view, change = card.view, f"{card.change}: " if card.change else ""
    line_on(console, f"{change}{view.severity} {view.code}: {view.message}", style=SEVERITY_STYLES[view.severity])
    facts_on(console, view.facts)
    for mark, text in view.change:
        line_on(console, f"{mark} {text}", style=CHANGE_STYLES[mark], indent="    ")


def _folded(table: Table) -> tuple[Table, str]:
    """The table without its minor rows, and a line about them; the table as it is where there are hardly any."""
    from dataclasses import replace

    if len(table.minor) < 2 or table.strong in table.minor:
        return table, ""
    rows = tuple(row for place, row in enumerate(table.rows) if place not in table.minor)
    strong = None if table.strong is None else table.strong - sum(place < table.strong for place in table.minor)
    names = ", ".join(table.rows[place][0] for place in table.minor)
    return replace(table, rows=rows, strong=strong), f"{len(table.minor)} more rows under 1 % each: {names}"

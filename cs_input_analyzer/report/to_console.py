"""Document -> text for a terminal or a pipe: at most a screen of it, or all.

Lines to copy stand alone at the left edge, never wrapped. User text reaches rich only as `Text`, never as markup, and without
control characters.
"""

from __future__ import annotations

import io
import re
import textwrap
from typing import TYPE_CHECKING

from cs_input_analyzer.report.document import Card, Copyable, Document, Facts, Part, Text
from cs_input_analyzer.report.tables import Table
from cs_input_analyzer.report.terminal import console_on, copyable_on, facts_on, heading_on, line_on, table_on, text_of
from cs_input_analyzer.report.wording import Pairs, one_line

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
TONES = {"notice": "yellow", "note": "dim"}
SEVERITY_STYLES = {"info": "cyan", "warning": "yellow", "error": "bold red"}
CHANGE_STYLES = {" ": "dim", "-": "red", "+": "green"}
ROW_STYLES = {"worse": "red", "better": "green", "same": "", "other": "cyan"}


def to_console(document: Document, *, full: bool = False, width: int | None = None, color: bool = False) -> str:
    """The report, every line at most `width` columns (80 where None) but for the lines that are to be copied.

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
    """`most`: lines that one text may take in a short report; None is the long one."""
    out, is_full = io.StringIO(), most is None
    console = console_on(out, width, color)
    if document.headline:
        style = HEADLINE_STYLES.get(document.mark, "bold")
        line_on(console, _shortened(document.headline, console.width, most), style=style)
    for notice in document.notices:
        line_on(console, _shortened(notice, console.width, most), style="bold yellow")
    for number, section in enumerate(document.shown(full=is_full)):
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


def _part(console: Console, part: Part, most: int | None) -> None:
    if isinstance(part, Text):
        line_on(console, _shortened(part.text, console.width, most), style=TONES.get(part.tone, ""))
    elif isinstance(part, Facts) and part.is_large:
        copyable_on(console, "\n".join(f"{name}: {value}" for name, value in part.pairs))
    elif isinstance(part, Facts):
        _facts(console, part.pairs, most)
    elif isinstance(part, Table):
        table_on(console, part, [ROW_STYLES[mark] for mark in part.marks])
    elif isinstance(part, Card) and part.is_brief:
        _brief_card(console, part, most)
    elif isinstance(part, Card):
        _card(console, part)
    elif isinstance(part, Copyable) and part.instead:
        line_on(console, f"{part.label}: {part.instead}", style="dim")
    elif isinstance(part, Copyable):
        copyable_on(console, part.text, part.label if most is None else "")


def _facts(console: Console, pairs: Pairs, most: int | None) -> None:
    if most is not None:
        room = console.width - max((len(label) for label, _ in pairs), default=0) - 4
        pairs = tuple((label, _shortened(_PATH.sub(r"…\1", text), room, most)) for label, text in pairs)
    facts_on(console, pairs)


def _brief_card(console: Console, card: Card, most: int | None) -> None:
    head = " ".join(filter(None, (card.code, card.at or card.op, card.gain)))
    line_on(console, _shortened(head, console.width, 1), style="bold")
    line_on(console, _shortened(card.message, console.width - 2, 2), indent="  ")
    if card.fix:
        line_on(console, _shortened(f"→ {card.fix}", console.width - 2, most), indent="  ")


def _shortened(text: str, width: int, most: int | None) -> str:
    """As much of a text as `most` lines of that width hold."""
    if most is None:
        return text
    return "\n".join(textwrap.wrap(one_line(text), max(width, 8), max_lines=most, placeholder=" …", break_on_hyphens=False))


def _card(console: Console, card: Card) -> None:
    change = f"{card.change}: " if card.change else ""
    line_on(console, f"{change}{card.severity} {card.code}: {card.message}", style=SEVERITY_STYLES[card.severity])
    facts_on(console, card.facts)
    for mark, text in card.code_change:
        line_on(console, f"{mark} {text}", style=CHANGE_STYLES[mark], indent="    ")

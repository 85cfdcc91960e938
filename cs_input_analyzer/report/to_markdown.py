"""Document -> Markdown, for pull requests and notebooks: the short report, or all of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cs_input_analyzer.report.document import Bars, Card, Copyable, Document, Facts, Part, Table, Text
from cs_input_analyzer.report.wording import one_line
from cs_input_analyzer.units import visible

# What Markdown or the HTML inside it would act on.
_ACTIVE = re.compile(r"([\\`*_\[\]<>|#~!$&@:])")
_WORD = re.compile(r"\S+")
# What GitHub makes a link or a mention of, escaped or not, as it looks at the finished page: addresses, people, issues, commits.
_LINKED = re.compile(
    r"@|://|#[0-9]|GH-[0-9]|www\.|mailto:|xmpp:|(?<![0-9a-z])(?=[0-9]{0,39}[a-f])(?=[a-f]{0,39}[0-9])[0-9a-f]{7,40}(?![0-9a-z])",
    re.IGNORECASE,
)
# What begins a list, a heading or a line across the page at the start of a paragraph.
_BEGINS = re.compile(r"([-+=]|[0-9]{1,9}(?=[.)](?:\s|$)))")
_BACKTICKS = re.compile("`+")


def to_markdown(document: Document, *, full: bool = False) -> str:
    """Return GitHub's Markdown. No text of a user can act in it: it is escaped, or stands in a code block."""
    lines = [f"## {_plain(document.headline or document.title)}", "", _code(document.name)]
    lines += [line for notice in document.notices for line in ("", f"**{_plain(notice)}**")]
    for section in document.shown(full=full):
        lines += ["", f"### {_plain(section.title)}", *(line for part in section.parts for line in _part(part))]
    if document.closing:
        lines += ["", _plain(document.closing[0]), *_block("\n".join(document.closing[1:]))]
    return re.sub("\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def _part(part: Part) -> Iterator[str]:
    if isinstance(part, Text):
        shown = _code(part.text) if part.tone == "strip" else _paragraph(part.text)
        yield from ("", f"**{shown}**" if part.tone == "danger" else shown)
    elif isinstance(part, Bars):
        yield from (
            "",
            *(f"- **{_plain(bar.label)}**: {_plain(', '.join(filter(None, (bar.rate, bar.text))))}" for bar in part.rows),
        )
    elif isinstance(part, Facts) and part.is_large:
        yield from _block("\n".join(f"{name}: {value}" for name, value in part.pairs))
    elif isinstance(part, Facts):
        yield from ("", *(f"- **{_plain(label)}**: {_plain(text)}" for label, text in part.pairs))
    elif isinstance(part, Copyable):
        yield from ("", _plain(part.label), *_block(part.text))
    elif isinstance(part, Table):
        yield from _table(part)
    elif isinstance(part, Card):
        yield from _card(part)


def _card(card: Card) -> Iterator[str]:
    place = f" {_code(card.at or card.op)}" if card.at or card.op else ""
    gain = f" **{_plain(card.gain)}**" if card.gain else ""
    change = f"{card.change}: " if card.change else ""
    said = (card.fix or card.message) if card.is_brief and card.gain else card.message
    severity = "" if card.is_brief else f"{card.severity} "
    yield f"- {change}{severity}{_plain(card.code)}{place}{gain}: {_plain(said)}"
    if card.is_brief and not card.gain and card.fix:
        yield f"  - fix: {_plain(card.fix)}"
    if not card.is_brief:
        yield from (f"  - {_plain(label)}: {_plain(text)}" for label, text in card.facts)
    if card.code_change and (card.gain or not card.is_brief):
        yield from (f"  {line}" for line in _block("\n".join(f"{mark} {text}" for mark, text in card.code_change), "diff"))


def _table(table: Table) -> Iterator[str]:
    yield ""
    yield f"| {' | '.join(_plain(column.name) or ' ' for column in table.columns)} |"
    yield f"| {' | '.join('---:' if column.is_number else ':---' for column in table.columns)} |"
    yield from (f"| {' | '.join(map(_plain, row))} |" for row in table.rows)
    yield from (line for remark in table.remarks for line in ("", _paragraph(remark)))


def _block(text: str, language: str = "") -> Iterator[str]:
    """Yield a code block with a fence longer than any run of backticks in it."""
    fence = "`" * max(3, *(len(run) + 1 for run in ["", *_BACKTICKS.findall(text)]))
    yield from ("", f"{fence}{language}", *visible(text).rstrip("\n").split("\n"), fence)


def _code(text: str) -> str:
    fence = "`" * (max((len(run) for run in _BACKTICKS.findall(text)), default=0) + 1)
    space = " " if text[:1] == "`" or text[-1:] == "`" else ""
    return f"{fence}{space}{one_line(text)}{space}{fence}" if text else ""


def _paragraph(text: str) -> str:
    """Return text for the start of a line."""
    shown = _plain(text).lstrip()
    begins = _BEGINS.match(shown)
    if begins is None:
        return shown
    return f"{begins[1]}\\{shown[begins.end() :]}" if begins[1].isdigit() else f"\\{shown}"


def _plain(text: str) -> str:
    """Return text for the inside of a line. A word that would become a link stands as code, in which nothing acts."""
    return _WORD.sub(_word, visible(text).replace("\n", " "))


def _word(match: re.Match[str]) -> str:
    word = match[0]
    if _LINKED.search(word) is None:
        return _ACTIVE.sub(r"\\\1", word)
    return _code(word).replace("|", "\\|")  # also in code it would end the cell of a table

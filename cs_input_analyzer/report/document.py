"""What a report says, built once from a record and rendered by every format: a headline, sections, and the parts of a section.

Parts hold text and no markup. A renderer decides how a part is shown, never what it says or in which order the parts stand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from cs_input_analyzer.records import Severity
from cs_input_analyzer.report.chart import Chart
from cs_input_analyzer.report.tables import Column, Table
from cs_input_analyzer.report.wording import Pairs

# `brief`: in the short reports only; `full`: in the long ones only. The first screen of the page has both.
Level = Literal["brief", "full", "both"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """One paragraph."""

    text: str
    tone: Literal["", "notice", "note"] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Labels with their texts. `is_large`: the values of the launch."""

    pairs: Pairs
    is_large: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Copyable:
    """Text to copy as it is. `instead`: what a console prints of text so long that only the page has room for it."""

    label: str
    text: str
    instead: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One finding. `code_change`: lines of code, each with its mark: `-` before, `+` after, blank where both have it.

    `change`: `new` or `gone` in a comparison. `is_brief`: its place, what to change and the gain, cut to size.
    """

    code: str
    severity: Severity
    message: str
    facts: Pairs
    code_change: Pairs
    anchor: str
    gain: str = ""
    op: str = ""
    at: str = ""
    fix: str = ""
    change: str = ""
    is_brief: bool = False
    is_folded: bool = False


Part: TypeAlias = Text | Facts | Table | Chart | Copyable | Card


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Parts under a title. `anchor` names it on the page. `is_folded`: the page opens it on demand."""

    anchor: str
    title: str
    parts: tuple[Part, ...]
    level: Level = "full"
    is_folded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A report. `kind`: what it is of, and the name of the `record` in the page; `name`: what was looked at; `mark`: the verdict;
    `first`: the first screen; `closing`: the answer in a few words, then commands to type next."""

    kind: str
    title: str
    first: tuple[Section, ...]
    name: str = ""
    mark: str = ""
    headline: str = ""
    sections: tuple[Section, ...] = ()
    closing: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    footer: str = ""
    record: Any = None

    def shown(self, *, full: bool) -> tuple[Section, ...]:
        other = "brief" if full else "full"
        return tuple(section for section in (*self.first, *self.sections) if section.level != other)


def section(anchor: str, title: str, *parts: Part | None, **more: Any) -> Section | None:
    """A section of those parts that hold something; None without any."""
    held = tuple(part for part in parts if part is not None and _holds(part))
    return Section(anchor=anchor, title=title, parts=held, **more) if held else None


def _holds(part: Part) -> bool:
    content = {Text: "text", Facts: "pairs", Table: "rows", Copyable: "text"}.get(type(part))
    return content is None or bool(getattr(part, content))


def slug(text: str) -> str:
    """Letters, digits, `_` and `-` of a text, for an anchor."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-")[:60] or "x"


def present(*sections: Section | None) -> tuple[Section, ...]:
    return tuple(found for found in sections if found is not None)


# What stays in any case: the run itself and the user's code.
KEPT = ("record", "code_change")
# Letters of a text that a report shows; nobody reads on, and what is longer is whole in the JSON.
LONGEST_SHOWN = 4000
# Where a report counts in samples: in rates and in costs. An option is named as it is.
_COUNTED = re.compile(r"\bsamples(?=/s\b| per second)|(?<=\bper[ \n])sample\b|(?<=\bone )sample\b|\ba sample\b|\bsample(?= time)")


def in_elements(document: Document) -> Document:
    """Return a document that counts in elements where it said samples, for runs whose elements hold an unknown number of samples.

    Text to copy stays.
    """

    def counted(text: str) -> str:
        return _COUNTED.sub(lambda match: match[0].replace("a sample", "an element").replace("sample", "element"), text)

    changed: Document = _with_texts(document, counted, KEPT)
    return changed


def shortened(document: Document) -> Document:
    """Return a document without the rest of texts that are longer than a reader reads. Text to copy stays whole."""

    def short(text: str) -> str:
        return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}… ({len(text):,} characters)"

    changed: Document = _with_texts(document, short, ("record",))
    return changed


def _with_texts(value: Any, change: Callable[[str], str], kept: Collection[str]) -> Any:
    """A part of a document, or all of it, with its texts changed, but for fields that are kept and for text to copy."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, tuple | list):
        return type(value)(_with_texts(item, change, kept) for item in value)
    if isinstance(value, Mapping):
        return {name: _with_texts(item, change, kept) for name, item in value.items()}
    if isinstance(value, Document | Section | Text | Facts | Table | Column | Chart | Card):
        return replace(
            value, **{name: _with_texts(getattr(value, name), change, kept) for name in value.__slots__ if name not in kept}
        )
    return value

"""What a report says, built once from a record and rendered by every format: a headline, sections, and the parts of a section.

Parts hold text and no markup. A renderer decides how a part is shown, never what it says or in which order the parts stand.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, TypeVar

from cs_input_analyzer.records import Analysis, Severity
from cs_input_analyzer.report.charts.view import Chart
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
    """Labels with their texts. `folded`: the page shows them on demand, under this title. `is_large`: the values of the launch."""

    pairs: Pairs
    folded: str = ""
    is_large: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar of a picture that the page draws itself. Places and lengths are percent of the width of the picture.

    `low` and `high` draw an interval, `dot` a point; `even` is where a line across the picture stands.
    """

    label: str
    text: str
    role: str
    length: float = 0.0
    low: float | None = None
    high: float | None = None
    dot: float | None = None
    even: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """Bars below each other; a format without pictures shows their labels and texts, unless a table says the same."""

    bars: tuple[Bar, ...]
    name: str = ""
    note: str = ""
    has_table: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A picture. `has_table`: the same table stands beside it in the section."""

    chart: Chart
    has_table: bool = False
    heading: bool = False


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


Part: TypeAlias = Text | Facts | Bars | Table | Figure | Copyable | Card


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Parts under a title. `anchor` names it on the page. `is_folded`: the page opens it on demand. `count`: of the navigation."""

    anchor: str
    title: str
    parts: tuple[Part, ...]
    level: Level = "full"
    is_folded: bool = False
    count: int | None = None


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
    content = {Text: "text", Facts: "pairs", Bars: "bars", Table: "rows", Copyable: "text"}.get(type(part))
    return content is None or bool(getattr(part, content))


def present(*sections: Section | None) -> tuple[Section, ...]:
    return tuple(found for found in sections if found is not None)


ELEMENT_WORDS = (
    ("samples/s", "elements/s"),
    ("samples per second", "elements per second"),
    ("per\nsample", "per\nelement"),
    ("per sample", "per element"),
    ("of one sample", "of one element"),
    ("for one sample", "for one element"),
    ("a sample", "an element"),
    ("sample time", "element time"),
)
Held = TypeVar("Held")


def in_unit_of(analysis: Analysis, held: Held) -> Held:
    """What is said of a run, in elements where nobody knows how many samples one of its elements holds, so that no rate is printed
    in a unit that it does not have. Text to copy stays."""
    samples = analysis.pipeline.samples_per_element
    found: Held = _reworded(held) if samples is not None and samples.is_unknown else held
    return found


def _reworded(value: Any) -> Any:
    if isinstance(value, str):
        for ours, other in ELEMENT_WORDS:
            value = value.replace(ours, other)
        return value
    if isinstance(value, tuple | list):
        return type(value)(map(_reworded, value))
    if isinstance(value, Mapping):
        return {_reworded(key): _reworded(item) for key, item in value.items()}
    if isinstance(value, Copyable | Analysis) or not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    kept = ("record", "anchor", *(() if isinstance(value, Column) else ("name",)))
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.name not in kept}
    return replace(value, **{name: _reworded(item) for name, item in fields.items()})

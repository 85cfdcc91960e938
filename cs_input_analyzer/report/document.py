"""The contents of a report, built once from a record and rendered by every format: a headline, sections, parts of a section.

Parts hold text and no markup, but for the drawing of a picture. A renderer decides how a part is shown, never what it says or in
which order the parts stand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from cs_input_analyzer.records import Estimate, Op, OpCost, Severity
from cs_input_analyzer.report.wording import Pairs, one_line, short_source
from cs_input_analyzer.units import MISSING, format_count, format_rate, format_rate_short

# `brief`: in the short reports only; `full`: in the long ones only. The first screen of the page has both.
Level = Literal["brief", "full", "both"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """One paragraph. `strip`: the strip of ops, which the page draws instead."""

    text: str
    tone: Literal["", "notice", "note", "danger", "strip"] = ""


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
class Bar:
    """A rate: its length, as a ratio of the longest bar's, and in words."""

    label: str
    ratio: float
    rate: str
    text: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """Rates on one scale, one below the other."""

    rows: tuple[Bar, ...]


YES_OR_NO = {True: "yes", False: "no", None: MISSING}
# What a column shows of a record: an attribute by its path (`steady_state.window_s`), or what a function makes of the record.
Getter = str | Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table.

    Attributes:
        of: the attribute of a record that it shows.
        form: makes text of the value.
        needs_width: characters that a line must have for it; the page always shows it.
    """

    name: str
    meaning: str
    of: Getter = ""
    form: Callable[[Any], str] = str
    is_number: bool = False
    needs_width: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of texts.

    Attributes:
        strong: the place of the row that stands out.
        remarks: sentences below it.
        marks: the meaning of each row's change.
        chart: the picture that it stands for.
        anchors: addresses of the rows.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    strong: int | None = None
    remarks: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    chart: str = ""
    anchors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """The meaning of a look in a picture. `href`: its link on the page; `more`: further words."""

    look: str
    text: str
    href: str = ""
    more: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A picture, as wide as its place.

    Attributes:
        name: the `data-chart` of its element.
        svg: its drawing, as markup.
        table: the same as text.
    """

    name: str
    title: str
    caption: str
    svg: str
    table: Table
    keys: tuple[Key, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One finding. `code_change`: lines of code, each with its mark: `-` before, `+` after, blank where both have it.

    `name`: of the rule. `change`: `new` or `gone` in a comparison. `is_brief`: its place, what to change and the gain, cut to size.
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
    name: str = ""
    is_brief: bool = False
    is_folded: bool = False


Part: TypeAlias = Text | Facts | Bars | Table | Chart | Copyable | Card


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Parts under a title. `anchor` names it on the page. `is_folded`: the page opens it on demand.

    `label`: a word for the margin of a short console, in place of the title.
    """

    anchor: str
    title: str
    parts: tuple[Part, ...]
    level: Level = "full"
    is_folded: bool = False
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A report.

    Attributes:
        kind: the kind of its record, and the name of the `record` in the page.
        name: the name of the input function, run or network.
        mark: the verdict.
        first: the first screen.
        closing: a few words, then commands to type next.
        about: where and when it was made.
    """

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
    about: str = ""
    record: Any = None

    def shown(self, *, full: bool) -> tuple[Section, ...]:
        """Return the sections of the long report, or of the short one."""
        other = "brief" if full else "full"
        return tuple(section for section in (*self.first, *self.sections) if section.level != other)


def section(anchor: str, title: str, *parts: Part | None, **more: Any) -> Section:
    """Return a section of those parts that hold something. Without a title it has that of its first table."""
    contents = {Text: "text", Facts: "pairs", Bars: "rows", Table: "rows", Copyable: "text"}
    held = tuple(part for part in parts if part is not None and getattr(part, contents.get(type(part), ""), True))
    title = title or next((part.title for part in held if isinstance(part, Table)), "")
    return Section(anchor=anchor, title=title, parts=held, **more)


def slug(text: str) -> str:
    """Return letters, digits, `_` and `-` of a text, for an anchor."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-")[:60] or "x"


def present(*sections: Section) -> tuple[Section, ...]:
    """Return the sections that have a part."""
    return tuple(found for found in sections if found.parts)


# Letters of a text that a report shows; nobody reads on, and what is longer is whole in the JSON.
LONGEST_SHOWN = 4000
# Where a report counts in samples: in rates and in costs. An option and a path are named as they are.
_COUNTED = re.compile(
    r"(?<!/)\bsamples(?=/s(?![\w/-]|\.\w)| per second)"
    r"|(?<=\bper[ \n])sample\b|(?<=\bone )sample\b|\ba sample\b|\bsample(?= time)"
)


def in_elements(document: Document) -> Document:
    """Return a document that counts in elements where it said samples, for runs whose elements hold an unknown number of samples.

    Text to copy stays.
    """

    def counted(text: str) -> str:
        return _COUNTED.sub(lambda match: match[0].replace("a sample", "an element").replace("sample", "element"), text)

    changed: Document = _with_texts(document, counted, ("record", "code_change"))
    return changed


def shortened(document: Document) -> Document:
    """Return a document without the rest of texts that are longer than a reader reads. Text to copy stays whole."""

    def short(text: str) -> str:
        return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}… ({len(text):,} characters)"

    changed: Document = _with_texts(document, short, ("record", "svg"))
    return changed


def _with_texts(value: Any, change: Callable[[str], str], kept: Collection[str]) -> Any:
    """Return a part of a document with its texts changed. Fields in `kept` and text to copy stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, tuple | list):
        return type(value)(_with_texts(item, change, kept) for item in value)
    if isinstance(value, Mapping):
        return {name: _with_texts(item, change, kept) for name, item in value.items()}
    if isinstance(value, Document | Section | Text | Facts | Bars | Bar | Table | Column | Chart | Key | Card):
        return replace(
            value, **{name: _with_texts(getattr(value, name), change, kept) for name in value.__slots__ if name not in kept}
        )
    return value


def table_of(title: str, columns: Iterable[Column], records: Iterable[Any], **more: Any) -> Table:
    """Return a table with a row for each record. Columns that only a wide line shows are left out if no record has them."""

    def cell(column: Column, record: Any) -> str:
        value = value_of(record, column.of)
        return MISSING if value is None else one_line(column.form(value))

    columns = tuple(columns)
    rows = [tuple(cell(column, record) for column in columns) for record in records]
    kept = [at for at, column in enumerate(columns) if not column.needs_width or any(row[at] != MISSING for row in rows)]
    shown = tuple(columns[at] for at in kept)
    return Table(title=title, columns=shown, rows=tuple(tuple(row[at] for at in kept) for row in rows), **more)


def value_of(record: Any, of: Getter) -> Any:
    """Return the value of a record that a column shows; None if a part of the path is missing."""
    if not isinstance(of, str):
        return of(record)
    for name in of.split("."):
        record = None if record is None else getattr(record, name)
    return record


def number(name: str, meaning: str, of: Getter, form: Callable[[Any], str] = format_count, needs_width: int = 0) -> Column:
    """Return a column of numbers."""
    return Column(name=name, meaning=meaning, of=of, form=form, is_number=True, needs_width=needs_width)


def text(name: str, meaning: str, of: Getter, **more: Any) -> Column:
    """Return a column of texts."""
    return Column(name=name, meaning=meaning, of=of, **more)


def rates(name: str, meaning: str, of: str) -> tuple[Column, Column]:
    """Return the columns of a rate and of its interval."""

    def interval(rate: Estimate) -> str:
        return MISSING if rate.low == rate.high else f"{format_rate_short(rate.low)}–{format_rate_short(rate.high)}"

    known = number("90 %\ninterval", "where the true rate lies with 90 % probability", of, interval)
    return number(name, meaning, of, lambda rate: bare_rate(rate.estimate)), known


def bare_rate(value: float | None) -> str:
    """Return a rate without its unit."""
    return format_rate(value, "").strip()


def source_text(op: Op | OpCost) -> str | None:
    """Return the user's line, and beside it the line of the package that built the op."""
    if op.source is None or op.library_source is None:
        return op.source and short_source(op.source)
    return f"{short_source(op.source)} (in {short_source(op.library_source)})"


def layout(meaning: str = "nodes x tasks per node x CPUs per task", of: Getter = "layout") -> Column:
    """Return the column of the launch."""
    return text("layout", meaning, of)


PREDICTED = rates("samples/s", "predicted samples per second", "predicted_samples_per_s")
MEETS = text("meets\ndemand", "headroom included, at a probability of 0.9", "meets_demand", form=YES_OR_NO.__getitem__)
LIMITED_BY = text("limited by", "the resource to add for more", "limited_by")
SOURCE = text("source", "where your code makes the op", source_text)

"""Tables of a report: records in, text cells out. One table is a list of columns, each with what it shows of a record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from cs_input_analyzer.records import Estimate, Op, OpCost
from cs_input_analyzer.report.wording import one_line, short_source
from cs_input_analyzer.units import MISSING, format_count, format_rate, format_rate_short

YES_OR_NO = {True: "yes", False: "no", None: MISSING}
# What a column shows of a record: an attribute by its path (`steady_state.window_s`), or what a function makes of the record.
Getter = str | Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: what it shows `of` a record, in which `form`. `needs_width`: characters that a line must have for it; the page
    always shows it."""

    name: str
    meaning: str
    of: Getter = ""
    form: Callable[[Any], str] = str
    is_number: bool = False
    needs_width: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of texts. `strong`: the place of the row that stands out; `remarks`: sentences below it;
    `marks`: what changes mean; `chart`: the picture that it is."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    strong: int | None = None
    remarks: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    chart: str = ""


def table_of(title: str, columns: Iterable[Column], records: Iterable[Any], **more: Any) -> Table:
    """A row for each record. Details (columns that only a wide line shows) are left out where no record has them."""
    columns = tuple(columns)
    rows = [tuple(_cell(column, record) for column in columns) for record in records]
    kept = [at for at, column in enumerate(columns) if not column.needs_width or any(row[at] != MISSING for row in rows)]
    shown = tuple(columns[at] for at in kept)
    return Table(title=title, columns=shown, rows=tuple(tuple(row[at] for at in kept) for row in rows), **more)


def value_of(record: Any, of: Getter) -> Any:
    """What a column shows of a record; None where a part of the path is missing."""
    if not isinstance(of, str):
        return of(record)
    for name in of.split("."):
        record = None if record is None else getattr(record, name)
    return record


def _cell(column: Column, record: Any) -> str:
    value = value_of(record, column.of)
    return MISSING if value is None else one_line(column.form(value))


def number(name: str, meaning: str, of: Getter, form: Callable[[Any], str] = format_count, needs_width: int = 0) -> Column:
    return Column(name=name, meaning=meaning, of=of, form=form, is_number=True, needs_width=needs_width)


def text(name: str, meaning: str, of: Getter, **more: Any) -> Column:
    return Column(name=name, meaning=meaning, of=of, **more)


def rates(name: str, meaning: str, of: str) -> tuple[Column, Column]:
    """An estimate of a rate, and its interval in a column of its own."""

    def interval(rate: Estimate) -> str:
        return MISSING if rate.low == rate.high else f"{format_rate_short(rate.low)}–{format_rate_short(rate.high)}"

    known = number("90 %\ninterval", "where the true rate lies with 90 % probability", of, interval)
    return number(name, meaning, of, lambda rate: bare_rate(rate.estimate)), known


def bare_rate(value: float | None) -> str:
    return format_rate(value, "").strip()


def source_text(op: Op | OpCost) -> str | None:
    """The user's line, and beside it that of the package which built the op."""
    if op.source is None or op.library_source is None:
        return op.source and short_source(op.source)
    return f"{short_source(op.source)} (in {short_source(op.library_source)})"


def layout(meaning: str = "nodes x tasks per node x CPUs per task", of: Getter = "layout") -> Column:
    return text("layout", meaning, of)


PREDICTED = rates("samples/s", "predicted samples per second", "predicted_samples_per_s")
MEETS = text("meets\ndemand", "headroom included, at a probability of 0.9", "meets_demand", form=YES_OR_NO.__getitem__)
LIMITED_BY = text("limited by", "the resource to add for more", "limited_by")
SOURCE = text("source", "where your code makes the op", source_text)

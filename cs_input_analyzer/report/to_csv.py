"""Analysis -> tables of pandas and CSV, one for each kind of record in it: for notebooks and spreadsheets.

Every column is a field of a record, `part.field` where it is one of a part; units are in the names, an empty cell is missing. A
list of records is a table of its own, any other list or mapping is one cell, as JSON.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Union

from cs_input_analyzer import records
from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.records import Alternative, Analysis, Layout, Measurement, Station, ValidationRow, WorkerResult
from cs_input_analyzer.report.tables import Getter, value_of
from cs_input_analyzer.report.to_json import plain
from cs_input_analyzer.units import visible

if TYPE_CHECKING:
    import pandas as pd

Cells = dict[str, object]
# The names of the columns, and rows of as many cells.
Table = Callable[[Analysis], tuple[Iterable[str], Iterable[Iterable[Any]]]]

# A spreadsheet runs a cell that begins like a formula; a quote in front makes it text (OWASP, "CSV Injection").
FORMULA_STARTS = ("=", "+", "-", "@")
# Lists that are no cell: hundreds of resampled numbers, or what has a table of its own.
LEFT_OUT = ("replicates", "workers")
LEFT_OUT_OF_WORKERS = ("tuned", "block_samples_per_s", "batch_gaps_s")


def to_csv(analysis: Analysis, table: str = "workers") -> str:
    """One of the `TABLES`, with a head line even where it has no row; by default all workers of all measurements.

    Raises:
        UsageError: there is no such table.
    """
    if table not in TABLES:
        raise UsageError(f"there is no table {table!r}; there are {', '.join(TABLES)}")
    import pandas as pd

    columns, rows = TABLES[table](analysis)
    # Whole numbers beside missing ones stay whole only as objects.
    safe = [[*map(_safe, row)] for row in rows]
    return str(pd.DataFrame(safe, columns=[*columns], dtype=object).to_csv(index=False, lineterminator="\n"))


def frames(analysis: Analysis) -> dict[str, pd.DataFrame]:
    """Every table of a run by its name in `TABLES`; those that the run has nothing for have their columns and no row."""
    import pandas as pd

    found = ((name, *make(analysis)) for name, make in TABLES.items())
    return {name: pd.DataFrame([*rows], columns=[*columns], dtype=object).convert_dtypes() for name, columns, rows in found}


def _safe(cell: Any) -> Any:
    if not isinstance(cell, str):
        return cell
    # Control characters would break the row for some readers (a bare carriage return) and act on a terminal.
    shown = visible(cell)
    return f"'{shown}" if shown.lstrip().startswith(FORMULA_STARTS) else shown


def _of(record: type, items: Getter, *first: str) -> Table:
    """A table of records, by their path in the run. With the columns `first` before the fields, `items` gives these cells, too."""

    def table(run: Analysis) -> tuple[Iterable[str], Iterable[Iterable[Any]]]:
        found = value_of(run, items) or ()
        rows = ((*cells, *_flat(record, item).values()) for *cells, item in (found if first else zip(found, strict=True)))
        return (*first, *_flat(record, None)), rows

    return table


def _traces(name: str, value: str, field: str) -> Table:
    def table(run: Analysis) -> tuple[Iterable[str], Iterable[Iterable[Any]]]:
        rows = ((number, at.index, place, item) for number, at in _all(run) for place, item in enumerate(getattr(at, field)))
        return ("measurement", "index", name, value), rows

    return table


def _all(run: Analysis) -> Iterator[tuple[int, WorkerResult]]:
    return ((number, worker) for number, launch in enumerate(run.measurements) for worker in launch.workers)


def _workers(run: Analysis) -> tuple[Iterable[str], Iterable[Iterable[Any]]]:
    rows = (_worker(number, run.measurements[number], worker).values() for number, worker in _all(run))
    return _worker(0, None, None), rows


def _worker(number: int, launch: Measurement | None, worker: WorkerResult | None) -> Cells:
    cells: Cells = {"measurement": number}
    cells |= {name: launch and getattr(launch, name) for name in ("role", "cache_state", "isolation")}
    cells |= {field.name: launch and getattr(launch.layout, field.name) for field in dataclasses.fields(Layout)}
    cells["num_workers"] = launch and launch.num_workers
    for name, cell in _flat(WorkerResult, worker).items():
        if name == "steady_state.moved":
            moved = value_of(worker, "steady_state.moved")
            cells["steady_state.moved_count"] = None if moved is None else len(moved)
        elif name not in LEFT_OUT_OF_WORKERS:
            cells[name] = cell
    return cells


def _launches(run: Analysis) -> Iterator[tuple[str, Alternative]]:
    plan = run.recommendation
    if plan is not None:
        yield "recommended", Alternative.of(plan, note=plan.why)
        yield from (("alternative", other) for other in plan.alternatives)


def _validation(run: Analysis) -> tuple[Iterable[str], Iterable[Iterable[Any]]]:
    rows = run.validation.rows if run.validation is not None else ()
    columns = (*_flat(ValidationRow, None), "error_ratio", "is_inside")
    return columns, ((*_flat(ValidationRow, row).values(), row.error_ratio, row.is_inside) for row in rows)


TABLES: dict[str, Table] = {
    "workers": _workers,
    "measurements": _of(Measurement, lambda run: enumerate(run.measurements), "measurement"),
    "blocks": _traces("block", "samples_per_s", "block_samples_per_s"),
    "gaps": _traces("batch", "gap_s", "batch_gaps_s"),
    "tuned": _of(
        records.TunedParameter,
        lambda run: ((number, worker.index, item) for number, worker in _all(run) for item in worker.tuned),
        "measurement",
        "index",
    ),
    "ops": _of(records.Op, "pipeline.ops"),
    "elements": _of(records.Component, "pipeline.element_spec"),
    "costs": _of(records.OpCost, "profile.ops"),
    "stations": _of(Station, "stations"),
    "reads": _of(records.ReadRate, "storage.reads"),
    "capacity": _of(records.WorkerPoint, "capacity.workers"),
    "contention": _of(records.ContentionPoint, "capacity.contention"),
    "scaling": _of(records.ScalingPoint, "scaling.points"),
    "launches": _of(Alternative, _launches, "role"),
    "what_if": _of(records.WhatIf, "recommendation.what_if"),
    "functions": _of(records.FunctionUse, "functions"),
    "findings": _of(records.Finding, "findings"),
    "validation": _validation,
}


def _flat(record: type, value: Any) -> Cells:
    """The cells of a record by name, those of its parts after the part's name; all empty where there is none. A layout is one."""
    cells: Cells = {}
    for name, annotation in _hints(record).items():
        item, part = None if value is None else getattr(value, name), _part(annotation)
        if part is not None and part is not Layout:
            cells |= {f"{name}.{inner}": cell for inner, cell in _flat(part, item).items()}
        elif name not in LEFT_OUT or typing.get_origin(annotation) is not tuple:
            shown = json.dumps(plain(item), ensure_ascii=False) if isinstance(item, tuple | Mapping) else item
            cells[name] = str(item) if isinstance(item, Layout) else shown
    return cells


@functools.cache
def _hints(record: type) -> dict[str, Any]:
    hints = typing.get_type_hints(record)
    return {field.name: hints[field.name] for field in dataclasses.fields(record)}


def _part(annotation: Any) -> type | None:
    """The record that a field may hold; None for anything else."""
    if typing.get_origin(annotation) in (Union, types.UnionType):
        return next((found for item in typing.get_args(annotation) if (found := _part(item)) is not None), None)
    return annotation if dataclasses.is_dataclass(annotation) and isinstance(annotation, type) else None

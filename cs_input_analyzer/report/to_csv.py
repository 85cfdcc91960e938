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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

from cs_input_analyzer import records
from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.records import Analysis, Layout, Measurement, Station, WorkerResult
from cs_input_analyzer.report.planned import as_alternative
from cs_input_analyzer.report.to_json import plain
from cs_input_analyzer.report.wording import visible

if TYPE_CHECKING:
    import pandas as pd

Cells = dict[str, object]

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
    safe = ({name: _safe(cell) for name, cell in row.items()} for row in rows)
    return str(pd.DataFrame(list(safe), columns=list(columns), dtype=object).to_csv(index=False, lineterminator="\n"))


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


Table = Callable[[Analysis], tuple[Iterable[str], Iterable[Cells]]]


def _of(record: type, items: Callable[[Analysis], Iterable[Any]]) -> Table:
    return lambda run: (_flat(record, None), (_flat(record, item) for item in items(run)))


def _behind(first: Sequence[str], record: type, items: Callable[[Analysis], Iterable[tuple[Sequence[object], Any]]]) -> Table:
    """A table of records with the cells `first` before those of the fields."""
    return lambda run: (
        (*first, *_flat(record, None)),
        (dict(zip(first, cells, strict=True)) | _flat(record, item) for cells, item in items(run)),
    )


def _traces(name: str, value: str, field: str) -> Table:
    return lambda run: (
        ("measurement", "index", name, value),
        (
            {"measurement": number, "index": worker.index, name: place, value: item}
            for number, worker in _all_workers(run)
            for place, item in enumerate(getattr(worker, field))
        ),
    )


def _all_workers(run: Analysis) -> Iterator[tuple[int, WorkerResult]]:
    return ((number, worker) for number, launch in enumerate(run.measurements) for worker in launch.workers)


def _workers(run: Analysis) -> tuple[Iterable[str], Iterable[Cells]]:
    rows = (
        _worker(number, run.measurements[number], worker, next(iter(run.stations), None)) for number, worker in _all_workers(run)
    )
    return _worker(0, None, None, None), rows


def _worker(number: int, launch: Measurement | None, worker: WorkerResult | None, bottleneck: Station | None) -> Cells:
    """`bottleneck`: what held one worker of its layout back; its cells are empty in rows of other layouts."""
    cells: Cells = {"measurement": number}
    cells |= {name: launch and getattr(launch, name) for name in ("role", "cache_state", "isolation")}
    cells |= {field.name: launch and getattr(launch.layout, field.name) for field in dataclasses.fields(Layout)}
    cells["num_workers"] = launch and launch.num_workers
    for name, cell in _flat(WorkerResult, worker).items():
        if name == "steady_state.moved":
            state = worker.steady_state if worker is not None else None
            cells["steady_state.moved_count"] = None if state is None or state.moved is None else len(state.moved)
        elif name not in LEFT_OUT_OF_WORKERS:
            cells[name] = cell
    is_here = bottleneck is not None and launch is not None and bottleneck.layout == launch.layout
    held = _flat(Station, bottleneck if is_here else None)
    return cells | {f"bottleneck.{name}": cell for name, cell in held.items() if name != "layout"}


def _launches(run: Analysis) -> Iterator[tuple[Sequence[object], Any]]:
    plan = run.recommendation
    if plan is not None:
        yield ("recommended",), as_alternative(plan, plan.why)
        yield from ((("alternative",), other) for other in plan.alternatives)


def _tuned(run: Analysis) -> Iterator[tuple[Sequence[object], Any]]:
    return (((number, worker.index), item) for number, worker in _all_workers(run) for item in worker.tuned)


def _validation(run: Analysis) -> tuple[Iterable[str], Iterable[Cells]]:
    rows = run.validation.rows if run.validation is not None else ()
    columns = (*_flat(records.ValidationRow, None), "error_ratio", "is_inside")
    return columns, (
        _flat(records.ValidationRow, row) | {"error_ratio": row.error_ratio, "is_inside": row.is_inside} for row in rows
    )


TABLES: dict[str, Table] = {
    "workers": _workers,
    "measurements": _behind(
        ("measurement",), Measurement, lambda run: (((number,), item) for number, item in enumerate(run.measurements))
    ),
    "blocks": _traces("block", "samples_per_s", "block_samples_per_s"),
    "gaps": _traces("batch", "gap_s", "batch_gaps_s"),
    "tuned": _behind(("measurement", "index"), records.TunedParameter, _tuned),
    "ops": _of(records.Op, lambda run: run.pipeline.ops),
    "elements": _of(records.Component, lambda run: run.pipeline.element_spec),
    "costs": _of(records.OpCost, lambda run: run.profile.ops if run.profile is not None else ()),
    "stations": _of(Station, lambda run: run.stations),
    "reads": _of(records.ReadRate, lambda run: run.storage.reads if run.storage is not None else ()),
    "capacity": _of(records.WorkerPoint, lambda run: run.capacity.workers if run.capacity is not None else ()),
    "contention": _of(records.ContentionPoint, lambda run: run.capacity.contention if run.capacity is not None else ()),
    "scaling": _of(records.ScalingPoint, lambda run: run.scaling.points if run.scaling is not None else ()),
    "launches": _behind(("role",), records.Alternative, _launches),
    "what_if": _of(records.WhatIf, lambda run: run.recommendation.what_if if run.recommendation is not None else ()),
    "functions": _of(records.FunctionUse, lambda run: run.functions),
    "findings": _of(records.Finding, lambda run: run.findings),
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
            is_list = isinstance(item, tuple | Mapping)
            cells[name] = (
                json.dumps(plain(item), ensure_ascii=False) if is_list else str(item) if isinstance(item, Layout) else item
            )
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

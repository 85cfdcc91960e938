"""Analysis -> tables of pandas, one for each kind of record in it: for notebooks and spreadsheets.

Every column is a field of a record, `part.field` where it is one of a part; units are in the names, an empty cell is missing. A
list of records is a table of its own, any other list or mapping is one cell, as JSON.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Union

from cs_input_analyzer.records import (
    Alternative,
    Analysis,
    Component,
    ContentionPoint,
    Finding,
    Layout,
    Measurement,
    Op,
    OpCost,
    ReadRate,
    ScalingPoint,
    Station,
    TunedParameter,
    ValidationRow,
    WhatIf,
    WorkerPoint,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TABLES", "frame", "frames"]

Rows = tuple[tuple[str, ...], Iterable[Mapping[str, object]]]

# Of the run file only: hundreds of resampled numbers, of no use alone.
LEFT_OUT = ("replicates", "workers")


def frames(analysis: Analysis) -> dict[str, pd.DataFrame]:
    """Every table of a run by its name in `TABLES`; those that the run has nothing for have their columns and no row."""
    return {name: frame(analysis, name).convert_dtypes() for name in TABLES}


def frame(analysis: Analysis, name: str) -> pd.DataFrame:
    """One of them, every column of plain objects. Raises KeyError for a name that is not in `TABLES`."""
    import pandas as pd

    columns, rows = TABLES[name](analysis)
    # Columns of whole numbers stay whole where a value is missing: object columns are kept as they are.
    found: pd.DataFrame = pd.DataFrame(list(rows), columns=list(columns), dtype=object)
    return found


# --- tables ------------------------------------------------------------------------------------------------------------------


def _workers(analysis: Analysis) -> Rows:
    from cs_input_analyzer.report.to_csv import worker_columns, worker_rows

    return tuple(worker_columns()), worker_rows(analysis)


def _measurements(analysis: Analysis) -> Rows:
    rows = ({"measurement": number} | _cells(item) for number, item in enumerate(analysis.measurements))
    return ("measurement", *_columns(Measurement)), rows


def _blocks(analysis: Analysis) -> Rows:
    """Rates of equal stretches of each worker's window, in order."""
    rows = (
        {"measurement": number, "index": worker.index, "block": place, "samples_per_s": rate}
        for number, item in enumerate(analysis.measurements)
        for worker in item.workers
        for place, rate in enumerate(worker.block_samples_per_s)
    )
    return ("measurement", "index", "block", "samples_per_s"), rows


def _gaps(analysis: Analysis) -> Rows:
    """Times between the last batches of each worker, in order."""
    rows = (
        {"measurement": number, "index": worker.index, "batch": place, "gap_s": gap}
        for number, item in enumerate(analysis.measurements)
        for worker in item.workers
        for place, gap in enumerate(worker.batch_gaps_s)
    )
    return ("measurement", "index", "batch", "gap_s"), rows


def _tuned(analysis: Analysis) -> Rows:
    """What AUTOTUNE had chosen in each worker."""
    rows = (
        {"measurement": number, "index": worker.index} | _cells(parameter)
        for number, item in enumerate(analysis.measurements)
        for worker in item.workers
        for parameter in worker.tuned
    )
    return ("measurement", "index", *_columns(TunedParameter)), rows


def _launches(analysis: Analysis) -> Rows:
    """The plan and its alternatives."""
    plan = analysis.recommendation
    columns = ("role", *_columns(Alternative))
    if plan is None:
        return columns, ()
    first = Alternative(
        layout=plan.layout,
        input_workers=plan.input_workers,
        predicted_samples_per_s=plan.predicted_samples_per_s,
        limited_by=plan.limited_by,
        memory_bytes_per_node=plan.memory_bytes_per_node,
        meets_demand=plan.meets_demand,
        note=plan.why,
    )
    return columns, (
        {"role": role} | _cells(launch)
        for role, launch in (("recommended", first), *(("alternative", other) for other in plan.alternatives))
    )


def _validation(analysis: Analysis) -> Rows:
    found = analysis.validation.rows if analysis.validation is not None else ()
    rows = (_cells(row) | {"error_ratio": row.error_ratio, "is_inside": row.is_inside} for row in found)
    return (*_columns(ValidationRow), "error_ratio", "is_inside"), rows


def _listed(record: type, items: Callable[[Analysis], Iterable[Any]]) -> Callable[[Analysis], Rows]:
    return lambda analysis: (_columns(record), (_cells(item) for item in items(analysis)))


TABLES: dict[str, Callable[[Analysis], Rows]] = {
    "workers": _workers,
    "measurements": _measurements,
    "blocks": _blocks,
    "gaps": _gaps,
    "tuned": _tuned,
    "ops": _listed(Op, lambda run: run.pipeline.ops),
    "elements": _listed(Component, lambda run: run.pipeline.element_spec),
    "costs": _listed(OpCost, lambda run: run.profile.ops if run.profile is not None else ()),
    "stations": _listed(Station, lambda run: run.stations),
    "reads": _listed(ReadRate, lambda run: run.storage.reads if run.storage is not None else ()),
    "capacity": _listed(WorkerPoint, lambda run: run.capacity.workers if run.capacity is not None else ()),
    "contention": _listed(ContentionPoint, lambda run: run.capacity.contention if run.capacity is not None else ()),
    "scaling": _listed(ScalingPoint, lambda run: run.scaling.points if run.scaling is not None else ()),
    "launches": _launches,
    "what_if": _listed(WhatIf, lambda run: run.recommendation.what_if if run.recommendation is not None else ()),
    "findings": _listed(Finding, lambda run: run.findings),
    "validation": _validation,
}


# --- records -----------------------------------------------------------------------------------------------------------------


def _columns(record: type) -> tuple[str, ...]:
    """Names of the cells of a record, those of its parts after the part's name; a layout is one cell."""
    hints = _hints(record)
    names: list[str] = []
    for field in dataclasses.fields(record):
        part = _part(hints[field.name])
        if part is not None and part is not Layout:
            names += [f"{field.name}.{name}" for name in _columns(part)]
        elif field.name not in LEFT_OUT or not _is_list(hints[field.name]):
            names.append(field.name)
    return tuple(names)


def _cells(record: Any) -> dict[str, object]:
    cells: dict[str, object] = {}
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if isinstance(value, Layout):
            cells[field.name] = str(value)
        elif dataclasses.is_dataclass(value):
            cells |= {f"{field.name}.{name}": cell for name, cell in _cells(value).items()}
        elif isinstance(value, (tuple, Mapping)):
            if field.name not in LEFT_OUT:
                cells[field.name] = json.dumps(_plain(value), ensure_ascii=False)
        elif value is not None or _is_cell(_hints(record.__class__)[field.name]):
            cells[field.name] = value
    return cells


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value


def _is_cell(annotation: Any) -> bool:
    part = _part(annotation)
    return part is None or part is Layout


@functools.cache
def _hints(record: type) -> dict[str, Any]:
    return typing.get_type_hints(record)


def _part(annotation: Any) -> type | None:
    """The record that a field may hold; None for anything else."""
    if typing.get_origin(annotation) in (Union, types.UnionType):
        return next((found for item in typing.get_args(annotation) if (found := _part(item)) is not None), None)
    return annotation if dataclasses.is_dataclass(annotation) and isinstance(annotation, type) else None


def _is_list(annotation: Any) -> bool:
    return typing.get_origin(annotation) is tuple

"""Analysis -> CSV: one row per worker, or another table of `frames`. Units are in the column names; an empty cell is missing."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.records import Analysis, BatchGap, Estimate, Measurement, Noise, Station, SteadyState, WorkerResult
from cs_input_analyzer.report.wording import visible

# A spreadsheet runs a cell that begins like a formula; a quote in front makes it text (OWASP, "CSV Injection").
FORMULA_STARTS = ("=", "+", "-", "@")

# Lists, which have tables of their own.
NOT_A_CELL = ("tuned", "block_samples_per_s", "batch_gaps_s")
# Of a list inside a part, how many there are: 0 where there are none, empty where it was not read.
COUNTED = {"moved": "moved_count"}
# What held one worker of a layout back; empty in rows of other layouts.
BOTTLENECK = tuple(field.name for field in dataclasses.fields(Station) if field.name != "layout")


def to_csv(analysis: Analysis, table: str = "workers") -> str:
    """One table of `frames.TABLES`, with a head line even where it has no row; by default all workers of all measurements.

    Raises:
        UsageError: there is no such table.
    """
    import pandas as pd

    from cs_input_analyzer.report.frames import TABLES, frame

    if table not in TABLES:
        raise UsageError(f"there is no table {table!r}; there are {', '.join(TABLES)}")
    found = frame(analysis, table)
    rows = [[_text(cell) if isinstance(cell, str) else cell for cell in row] for row in found.itertuples(index=False, name=None)]
    # Whole numbers beside missing ones stay whole only as objects.
    return str(pd.DataFrame(rows, columns=found.columns, dtype=object).to_csv(index=False, lineterminator="\n"))


def worker_rows(analysis: Analysis) -> Iterator[dict[str, object]]:
    """One for each worker of each measurement."""
    first = next(iter(analysis.stations), None)
    for number, measurement in enumerate(analysis.measurements):
        for worker in measurement.workers:
            yield _row(number, measurement, worker, first)


def worker_columns() -> list[str]:
    columns = ["measurement", "role", "cache_state", "isolation", "nodes", "tasks_per_node", "cpus_per_task", "num_workers"]
    parts = {"samples_per_s": Estimate, "batch_gap_s": BatchGap, "steady_state": SteadyState, "noise": Noise}
    for field in dataclasses.fields(WorkerResult):
        if field.name in parts:
            columns += [f"{field.name}.{COUNTED.get(part.name, part.name)}" for part in dataclasses.fields(parts[field.name])]
        elif field.name not in NOT_A_CELL:
            columns.append(field.name)
    return [*columns, *(f"bottleneck.{name}" for name in BOTTLENECK)]


def _row(number: int, measurement: Measurement, worker: WorkerResult, bottleneck: Station | None) -> dict[str, object]:
    cells: dict[str, object] = {
        "measurement": number,
        "role": measurement.role,
        "cache_state": measurement.cache_state,
        "isolation": measurement.isolation,
        "num_workers": measurement.num_workers,
    }
    cells |= {field.name: getattr(measurement.layout, field.name) for field in dataclasses.fields(measurement.layout)}
    for field in dataclasses.fields(worker):
        value = getattr(worker, field.name)
        if dataclasses.is_dataclass(value):
            cells |= {f"{field.name}.{name}": cell for name, cell in _part_cells(value)}
        elif field.name not in NOT_A_CELL:
            cells[field.name] = value
    if bottleneck is not None and bottleneck.layout == measurement.layout:
        cells |= {f"bottleneck.{name}": getattr(bottleneck, name) for name in BOTTLENECK}
    return cells


def _part_cells(part: Any) -> Iterator[tuple[str, object]]:
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if field.name in COUNTED:
            yield COUNTED[field.name], None if value is None else len(value)
        else:
            yield field.name, value


def _text(value: str) -> str:
    # Control characters would break the row for some readers (a bare carriage return) and act on a terminal.
    shown = visible(value)
    return f"'{shown}" if shown.lstrip().startswith(FORMULA_STARTS) else shown

"""Analysis -> CSV: one row per worker, for spreadsheets and notebooks. Units are in the column names; an empty cell is missing."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from cs_input_analyzer.records import Analysis, BatchGap, Estimate, Measurement, Noise, Station, SteadyState, WorkerResult
from cs_input_analyzer.report.wording import visible

# A spreadsheet runs a cell that begins like a formula; a quote in front makes it text (OWASP, "CSV Injection").
FORMULA_STARTS = ("=", "+", "-", "@")

# Kept in the run file only: lists of their own.
NOT_A_CELL = ("tuned", "block_samples_per_s")
# Of a list inside a part, how many there are: 0 where there are none, empty where it was not read.
COUNTED = {"moved": "moved_count"}
# What held one worker of a layout back; empty in rows of other layouts.
BOTTLENECK = tuple(field.name for field in dataclasses.fields(Station) if field.name != "layout")


def to_csv(analysis: Analysis) -> str:
    """A tidy table of all workers of all measurements, with a head line even where nothing was measured."""
    import pandas as pd

    runs = enumerate(analysis.measurements)
    first = next(iter(analysis.stations), None)
    rows = [_row(number, measurement, worker, first) for number, measurement in runs for worker in measurement.workers]
    # Columns of whole numbers stay whole where a value is missing: object columns are written as they are.
    return str(pd.DataFrame(rows, columns=_columns(), dtype=object).to_csv(index=False, lineterminator="\n"))


def _columns() -> list[str]:
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
    return {name: _text(value) if isinstance(value, str) else value for name, value in cells.items()}


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

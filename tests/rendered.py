"""Runs as text, for tests of what stands in a report: all of it where nothing else is asked for."""

from __future__ import annotations

import csv
import io
from typing import Any

from cs_input_analyzer.records import Analysis
from cs_input_analyzer.report import render


def to_html(run: Analysis) -> str:
    return render(run, "html")


def to_console(run: Analysis, *, full: bool = True, **shape: Any) -> str:
    return render(run, "console", full=full, **shape)


def csv_rows(run: Analysis) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(render(run, "csv"), newline="")))

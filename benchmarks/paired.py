"""Statistics and output that the benchmarks share: paired ratios with a bound, a table, a JSON file."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import stats

CONFIDENCE = 0.90


def arguments(description: str | None, **extra: tuple[type, object, str]) -> argparse.Namespace:
    """Return the options of a benchmark: `--json FILE`, and `extra` ones as name=(type, default, help)."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="write the numbers there too")
    for name, (kind, default, text) in extra.items():
        parser.add_argument(f"--{name}", type=kind, default=default, help=f"{text} (default {default})")
    return parser.parse_args()


def ratio_bounds(above: Sequence[float], below: Sequence[float]) -> dict[str, float]:
    """Geometric mean of paired ratios above/below, its 90 % interval, and its one-sided upper 90 % bound (t on logs)."""
    logs = np.log(np.asarray(above) / np.asarray(below))
    mean, error = float(logs.mean()), float(logs.std(ddof=1) / math.sqrt(len(logs)))
    two_sided = float(stats.t.ppf(0.5 + CONFIDENCE / 2, len(logs) - 1)) * error
    one_sided = float(stats.t.ppf(CONFIDENCE, len(logs) - 1)) * error
    return {
        "ratio": math.exp(mean),
        "low": math.exp(mean - two_sided),
        "high": math.exp(mean + two_sided),
        "upper_bound": math.exp(mean + one_sided),
        "pairs": len(logs),
    }


def ratio_text(bounds: Mapping[str, float], digits: int) -> str:
    """Return the ratio with its interval."""
    ratio, low, high = (f"{bounds[name]:.{digits}f}" for name in ("ratio", "low", "high"))
    return f"{ratio} ({low} to {high})"


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right")
    for row in rows:
        table.add_row(*row)
    console = Console()
    if not console.is_terminal:  # a file has room for whole columns
        console.width = 200
    console.print(table)


def save(path: str | None, result: dict[str, object]) -> None:
    host = {"cpus": len(os.sched_getaffinity(0)), "machine": platform.machine(), "python": platform.python_version()}
    if path:
        Path(path).write_text(json.dumps({"host": host, **result}, indent=1) + "\n")


def middle(values: Sequence[float]) -> float:
    return float(median(values))

"""Analysis -> CSV for spreadsheets: one row for each worker of each measurement, and the columns of its launch.

A column is named by its path in the JSON document, with units in the names. An empty cell is a missing value.
"""

from __future__ import annotations

from typing import Any

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.records import Analysis
from cs_input_analyzer.report.to_json import plain
from cs_input_analyzer.units import visible

# A spreadsheet runs a cell that begins like a formula; a quote in front makes it text (OWASP, "CSV Injection").
FORMULA_STARTS = ("=", "+", "-", "@")
# `launch.number` is the index in `measurements`. Lists, traces among them, are in the JSON document only.
COLUMNS = (
    "launch.number",
    "launch.role",
    "launch.why",
    "launch.cache_state",
    "launch.isolation",
    "launch.layout.nodes",
    "launch.layout.tasks_per_node",
    "launch.layout.cpus_per_task",
    "launch.num_workers",
    "launch.samples_per_s.estimate",
    "launch.samples_per_s.low",
    "launch.samples_per_s.high",
    "launch.page_cache_ratio",
    "index",
    "node",
    "status",
    "message",
    "samples_per_s.estimate",
    "samples_per_s.low",
    "samples_per_s.high",
    "batches_per_s",
    "cpu_s_per_sample",
    "import_s",
    "build_s",
    "first_batch_s",
    "batch_gap_s.p50",
    "batch_gap_s.p95",
    "batch_gap_s.p99",
    "batch_gap_s.max",
    "bytes_read_per_sample",
    "physical_bytes_read_per_sample",
    "bytes_out_per_sample",
    "private_bytes",
    "shared_bytes",
    "pss_bytes",
    "peak_rss_bytes",
    "buffered_bytes",
    "file_count",
    "steady_state.transient_s",
    "steady_state.window_s",
    "steady_state.batches",
    "steady_state.stopped_by",
    "noise.run_queue_wait_ratio",
    "noise.steal_ratio",
    "noise.others_ratio",
)


def to_csv(analysis: Analysis) -> str:
    """Return the workers as CSV, with a head line even where nothing was measured."""
    try:
        import numpy as np
        import pandas as pd
    except ImportError:
        raise UsageError("the format csv needs pandas: pip install pandas") from None

    def safe(cell: Any) -> Any:
        """Return a text that no program acts on: no formula, and no control character. Other cells stay."""
        shown = visible(cell) if isinstance(cell, str) else cell
        return f"'{shown}" if isinstance(cell, str) and shown.lstrip().startswith(FORMULA_STARTS) else shown

    document: Any = plain(analysis.measurements)
    launches = [({**launch, "number": number}, launch["workers"]) for number, launch in enumerate(document)]
    rows = [{**worker, "launch": launch} for launch, workers in launches for worker in workers]
    frame = pd.json_normalize(rows).reindex(columns=[*COLUMNS]).apply(lambda column: column.map(safe))
    with np.errstate(invalid="ignore"):  # of floats that no whole number is as large as
        whole = frame.convert_dtypes()  # whole numbers stay whole beside missing ones
    return str(whole.to_csv(index=False, lineterminator="\n"))

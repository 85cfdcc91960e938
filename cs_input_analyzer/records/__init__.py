"""The records of the analyzer, in the order in which data flows through them. READ THESE FIRST, then `workflows/analyze.py`.

    machine ─▶ pipeline ─▶ measured ─▶ model ─▶ plan ─▶ findings ─▶ run
    (`inspection` and `comparison` are what two other stories give: `inspect-run` and `compare`)

Rules that hold everywhere: frozen and keyword-only; SI floats, units in names, tuples and not lists, `None` for what is missing and
never 0, ratios between 0 and 1. A field that is an `Estimate` carries its 90 % interval. The field names are the keys of the JSON
(docs/interfaces.md), so an `Analysis` that is written out structurally *is* the run file.
"""

# ruff: noqa: F401, F403  (all records of each module, for others)

from __future__ import annotations

from cs_input_analyzer.records.comparison import *
from cs_input_analyzer.records.findings import *
from cs_input_analyzer.records.inspection import *
from cs_input_analyzer.records.machine import *
from cs_input_analyzer.records.measured import *
from cs_input_analyzer.records.model import *
from cs_input_analyzer.records.pipeline import *
from cs_input_analyzer.records.plan import *
from cs_input_analyzer.records.run import *
from wafer_model import Consumption, Estimate

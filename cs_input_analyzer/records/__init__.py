"""The records of the analyzer, in the order of the data. Read these first, then `workflows/analyze.py`.

    machine ─▶ pipeline ─▶ measured ─▶ model ─▶ plan ─▶ findings ─▶ run
    (`inspection` and `comparison` hold the results of `inspect-run` and `compare`)

Rules for all records: they are frozen and keyword-only. Numbers are SI floats, and names carry the unit. Sequences are
tuples. A missing value is `None`, never 0. Ratios lie between 0 and 1. An `Estimate` carries its 90 % interval. The
field names are the keys of the JSON (docs/interfaces.md), so an `Analysis` that is written out structurally *is* the
run file.
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

"""Analysis -> pictures: one function for each, which gives a Vega-Lite specification and the table that says the same.

A picture is drawn where its numbers are there; one whose numbers are missing, or make no sense (an edited run), is left out, and
the page says the rest. The pipeline is drawn by the page itself, as rows: on a phone, in print and without JavaScript it must be
read, and no chart library sets text so.
"""

from __future__ import annotations

import json

import numpy as np

from cs_input_analyzer.records import Analysis
from cs_input_analyzer.report.charts.batch_gaps import batch_gaps
from cs_input_analyzer.report.charts.layouts import layouts
from cs_input_analyzer.report.charts.memory import memory
from cs_input_analyzer.report.charts.op_costs import op_costs
from cs_input_analyzer.report.charts.pipeline import PipelineRow, pipeline_rows
from cs_input_analyzer.report.charts.rate_over_time import rate_over_time
from cs_input_analyzer.report.charts.supply_demand import supply_demand
from cs_input_analyzer.report.charts.timeline import timeline
from cs_input_analyzer.report.charts.view import CONFIG, Chart, Panel, Spec

__all__ = ["CHARTS", "CONFIG", "Chart", "Panel", "PipelineRow", "Spec", "charts_of", "pipeline_rows"]

CHARTS = (supply_demand, op_costs, batch_gaps, rate_over_time, memory, timeline, layouts)


def charts_of(analysis: Analysis) -> dict[str, Chart]:
    """Every picture that there is something to draw for, by its name."""
    found = {}
    for draw in CHARTS:
        try:
            # What overflows is an error here, and not a warning and an infinite number.
            with np.errstate(all="raise"):
                chart = draw(analysis)
            json.dumps([panel.spec for panel in chart.panels] if chart is not None else None, allow_nan=False)
        except (ArithmeticError, ValueError, LookupError, TypeError):
            # A run edited by hand can hold numbers that no model can be asked with. The page says all that it holds anyway.
            continue
        if chart is not None:
            found[chart.name] = chart
    return found

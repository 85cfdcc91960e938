"""Analysis -> pictures: one function for each, which gives a Vega-Lite specification and the table that says the same.

A picture is drawn where its numbers are there; one whose numbers are missing, or make no sense (an edited run), is left out, and
the page says the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cs_input_analyzer.records import Analysis
    from cs_input_analyzer.report.charts.view import Chart


def charts_of(analysis: Analysis) -> dict[str, Chart]:
    """Every picture that there is something to draw for, by its name."""
    import json

    import numpy as np

    from cs_input_analyzer.report.charts.launches import supply_demand
    from cs_input_analyzer.report.charts.times import batch_gaps, rate_over_time

    found = {}
    for draw in (supply_demand, batch_gaps, rate_over_time):
        try:
            # What overflows is an error here, and not a warning and an infinite number.
            with np.errstate(all="raise"):
                chart = draw(analysis)
            json.dumps(chart and chart.spec, allow_nan=False)
        except (ArithmeticError, ValueError, LookupError, TypeError, Warning):
            # A run edited by hand can hold numbers that no model can be asked with. The page says all that it holds anyway.
            continue
        if chart is not None:
            found[chart.name] = chart
    return found

"""The numbers behind the pictures of a report: points of curves and grids, worked out from the records of one run. Pure.

A report formats records and computes nothing, so what a picture needs beside them is made here: what the capacity model says about
launches around the plan (`launches`), how batch times scatter (`gaps`), what flows along each edge of the pipeline (`flow`), how
the accelerator is fed from moment to moment (`feeding`). The same run gives the same numbers, today's or a saved one.
"""

from __future__ import annotations

from cs_input_analyzer.planning.curves.feeding import FeedingCurve, FeedingPoint, feeding_curve
from cs_input_analyzer.planning.curves.flow import FlowRow, bottleneck_op, flow_rows
from cs_input_analyzer.planning.curves.gaps import GapBin, gap_bins, wanted_gap_s
from cs_input_analyzer.planning.curves.launches import current_prediction, feeds, launch_grid, throughput_curve

__all__ = [
    "FeedingCurve",
    "FeedingPoint",
    "FlowRow",
    "GapBin",
    "bottleneck_op",
    "current_prediction",
    "feeding_curve",
    "feeds",
    "flow_rows",
    "gap_bins",
    "launch_grid",
    "throughput_curve",
    "wanted_gap_s",
]

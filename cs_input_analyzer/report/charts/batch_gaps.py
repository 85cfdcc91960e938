"""How the time between two batches scatters, and how that stands to what the accelerator needs."""

from __future__ import annotations

from cs_input_analyzer.planning.curves import GapBin, gap_bins, wanted_gap_s
from cs_input_analyzer.records import Analysis, BatchGap, Measurement
from cs_input_analyzer.report.charts.view import Chart, Panel, Spec, axis, field, labelled, layered, time_unit, tooltip
from cs_input_analyzer.report.measuring import shown_measurement
from cs_input_analyzer.report.tables import Column, Table
from cs_input_analyzer.units import format_count, format_ratio, format_seconds

HEIGHT = 240
MOST_GAPS = 20_000

SHARE = Column(name="share", meaning="of all batches that were recorded", is_number=True)


def batch_gaps(analysis: Analysis) -> Chart | None:
    measurement = shown_measurement(analysis)
    if measurement is None:
        return None
    gaps = [gap for worker in measurement.workers for gap in worker.batch_gaps_s]
    # Evenly through the workers: each is in order of time, and all are alike in length.
    shown = gaps[:: max(1, -(-len(gaps) // MOST_GAPS))]
    bins = gap_bins(shown)
    if not bins:
        return None
    quantiles = _longest_tail(measurement)
    marks = [("p50", quantiles.p50), ("p95", quantiles.p95), ("p99", quantiles.p99)] if quantiles is not None else []
    wanted = wanted_gap_s(analysis)
    unit_s, unit = time_unit(bins[len(bins) // 2].high_s)
    layers = [_bars(bins, unit_s, unit)]
    layers += [_rule(name, seconds, unit_s, "var(--soft)", place) for place, (name, seconds) in enumerate(marks) if seconds > 0]
    if wanted is not None:
        # At the right end of the picture its text stands before it.
        layers.append(_rule("needed", wanted, unit_s, "var(--bad)", 3, before=wanted > bins[-1].low_s))
    needs = f" To feed the accelerator, each worker of the plan must give a batch every {format_seconds(wanted)}." if wanted else ""
    return Chart(
        name="batch-gaps",
        title="Time between batches",
        caption=f"Batches of {_whose(measurement)} by the time since the one before. A wafer stalls on the tail.{needs}",
        panels=(Panel(spec=layered(layers, height=HEIGHT), height=HEIGHT + 60),),
        table=_table(bins),
        note=_note(len(gaps), len(shown), measurement),
    )


def _whose(measurement: Measurement) -> str:
    count = len(measurement.measured_workers)
    return f"the worker of {measurement.layout}" if count == 1 else f"the {format_count(count)} workers of {measurement.layout}"


def _note(found: int, shown: int, measurement: Measurement) -> str:
    batches = measurement.steady_state.batches if measurement.steady_state is not None else None
    part = f"The last {format_count(found)} batches that were recorded"
    of = f" of {format_count(batches)} in the window of one worker" if batches and batches > found else ""
    taken = f"; every {round(found / shown)}th of them is counted" if shown < found else ""
    return f"{part}{of}{taken}."


def _longest_tail(measurement: Measurement) -> BatchGap | None:
    gaps = [worker.batch_gap_s for worker in measurement.workers if worker.batch_gap_s is not None]
    return max(gaps, key=lambda gap: gap.p99, default=None)


X = field("low", scale={"type": "log", "nice": False})


def _bars(bins: tuple[GapBin, ...], unit_s: float, unit: str) -> Spec:
    rows = [
        {
            "low": bin.low_s / unit_s,
            "high": bin.high_s / unit_s,
            "share": bin.share_ratio,
            "time": f"{format_seconds(bin.low_s)} to {format_seconds(bin.high_s)}",
            "batches": format_count(bin.count),
            "of all": format_ratio(bin.share_ratio),
            "none": 0,
        }
        for bin in bins
        if bin.count
    ]
    return {
        "data": {"values": rows},
        "mark": {"type": "rect", "color": "var(--supply)", "opacity": 0.85},
        "encoding": {
            "x": {**X, "axis": axis(f"{unit} (log scale)", ",~r", tickCount=6)},
            "x2": {"field": "high"},
            "y": field("none", axis=axis("share of the batches", "~%"), scale={"zero": True}),
            "y2": {"field": "share"},
            "tooltip": tooltip("time", "batches", "of all"),
        },
    }


def _rule(name: str, seconds: float, unit_s: float, color: str, place: int, *, before: bool = False) -> Spec:
    row = {"low": seconds / unit_s, "label": f"{name} {format_seconds(seconds)}"}
    # One below the other: quantiles lie close together.
    side = {"align": "right", "dx": -5} if before else {"align": "left", "dx": 5}
    label = labelled({"x": X, "y": {"value": 0}}, color, bold=True, baseline="top", dy=16 * place, **side)
    rule = {"mark": {"type": "rule", "color": color, "strokeDash": [4, 3], "strokeWidth": 1.5}, "encoding": {"x": X}}
    return {"data": {"values": [row]}, "layer": [rule, *label]}


def _table(bins: tuple[GapBin, ...]) -> Table:
    columns = (
        Column(name="from", meaning="time since the batch before", is_number=True),
        Column(name="to", meaning="end of this bin", is_number=True),
        Column(name="batches", meaning="how many took so long", is_number=True),
        SHARE,
    )
    rows = tuple(
        (format_seconds(bin.low_s), format_seconds(bin.high_s), format_count(bin.count), format_ratio(bin.share_ratio))
        for bin in bins
    )
    return Table(title="Time between batches", columns=columns, rows=rows)

"""Analysis -> pictures: a Vega-Lite specification each, and the table that says the same.

A picture whose numbers are missing, or make no sense (an edited run), is left out. The page says the rest.
"""

from __future__ import annotations

import json

import numpy as np

from cs_input_analyzer.model.curves import feeds, gap_bins, throughput_curve, wanted_gap_s
from cs_input_analyzer.records import Alternative, Analysis, Estimate, LaunchPlan, Measurement, Prediction, WorkerResult
from cs_input_analyzer.report.chart import SECONDS, SHARE, Row, axis, field, labels, layer, shown, tooltip
from cs_input_analyzer.report.document import YES_OR_NO, Chart, Spec
from cs_input_analyzer.report.wording import AS_MEASURED, one_line, plan_currency, shown_measurement
from cs_input_analyzer.report.workers import longest_tail, workers_to_show
from cs_input_analyzer.units import counted, format_count, format_estimate, format_rate, format_ratio, format_seconds

SUPPLY_HEIGHT, TIME_HEIGHT = 230, 240
# Room above the demand; a curve that goes on for decades above it would press all else to the floor.
HEADROOM = 1.8
TIPS = ("launch", "predicted", "limited by", "meets demand")
# Lines that the eye can follow.
MOST_LINES = 8


def pictures_of(analysis: Analysis) -> dict[str, Chart]:
    """Return every picture that there is something to draw for, by its name."""
    found = {}
    for draw in (supply_demand, batch_gaps, rate_over_time):
        try:
            # An overflow is an error here, and not a warning and an infinite number.
            with np.errstate(all="raise"):
                chart = draw(analysis)
            json.dumps(chart and chart.spec, allow_nan=False)
        except (ArithmeticError, ValueError, LookupError, TypeError, Warning):
            # A run edited by hand can hold numbers that no model can be asked with. The page says all that it holds anyway.
            continue
        if chart is not None:
            found[chart.name] = chart
    return found


def supply_demand(analysis: Analysis) -> Chart | None:
    """Draw throughput against input workers: the interval band, the demand, the plan, the launch in use."""
    curve, plan = throughput_curve(analysis), analysis.recommendation
    if plan is None or not curve:
        return None
    demand = analysis.consumption.samples_per_s if analysis.consumption is not None else None
    near = len(curve)
    if demand is not None:  # up to well above the demand and past the plan, and one more, so that the curve is seen to go on
        enough = HEADROOM * max(demand.high, plan.predicted_samples_per_s.high)
        near = sum(at.samples_per_s.estimate <= enough or at.input_workers <= plan.input_workers for at in curve)
    rows = [_point(at, feeds(at, analysis)) for at in curve[: max(near + 1, 3)]]
    deliver = " ".join(filter(None, ("deliver", plan_currency(analysis))))
    return Chart(
        name="supply-demand",
        title="Supply against demand",
        caption=f"What launches of {counted(plan.cpus_per_task, 'CPU')} a task {deliver}, with the 90 % band, and what the "
        "accelerator takes.",
        layers=_supply_layers(analysis, plan, rows, demand),
        height=SUPPLY_HEIGHT,
        table=shown("Supply against demand", rows, "launch", "streaming", *TIPS[1:]),
        note="Larger launches, far above the demand, are not drawn." if len(rows) < len(curve) else "",
    )


def _supply_layers(analysis: Analysis, plan: LaunchPlan, rows: list[Row], demand: Estimate | None) -> list[Spec]:
    x = field("workers", axis=axis("input workers", tickMinStep=1), scale={"nice": False, "zero": False})
    low, rate, tips = field("low", axis=axis("samples/s")), field("rate"), tooltip(*TIPS)
    curve = {"color": "var(--supply)", "interpolate": "monotone"}
    dots = {"filled": True, "size": 28, "color": "var(--supply)"}
    layers = [
        layer(rows, "area", {**curve, "opacity": 0.18}, x=x, y=low, y2={"field": "high"}),
        layer(rows, "line", {**curve, "strokeWidth": 2.5, "point": dots}, x=x, y=rate, tooltip=tips),
    ]
    if demand is not None:
        row: Row = {**_rates(demand), "label": f"demand {format_estimate(demand)}"}
        if demand.low < demand.high:
            layers.append(layer([row], "rect", {"color": "var(--demand)", "opacity": 0.16}, y=field("low"), y2={"field": "high"}))
        layers.append(layer([row], "rule", {"color": "var(--demand)", "strokeDash": [6, 4], "strokeWidth": 2}, y=rate))
        beside = {"align": "right", "baseline": "bottom", "dx": -2, "dy": -5}
        layers += labels([row], "var(--soft)", mark=beside, y=rate, x={"value": "width"})
    marked = [(_point(plan, plan.meets_demand), f"plan {plan.layout}", "var(--plan)", {"shape": "diamond", "size": 220})]
    dot = {"shape": "circle", "size": 110}
    others = [at for at in plan.alternatives if at.is_current and at.layout != plan.layout]
    can_run = [at for at in others if at.predicted_samples_per_s.estimate > 0]
    marked += [(_point(at, at.meets_demand), "in use today", "var(--ink)", dot) for at in can_run]
    for point, label, color, shape in marked:
        row, look = point | {"label": label}, {"color": color, "filled": True, "opacity": 1, "stroke": "var(--card)", **shape}
        layers.append(layer([row], "rule", {"color": color, "strokeWidth": 2}, x=x, y=field("low"), y2={"field": "high"}))
        layers.append(layer([row], "point", look, x=x, y=rate, tooltip=tips))
        # On the side of the curve that is free, and inside the picture.
        is_right = row["workers"] > rows[-1]["workers"] / 2
        side = {"align": "right", "dx": -12, "dy": -12} if is_right else {"align": "left", "dx": 12, "dy": 14}
        layers += labels([row], color, mark={"fontWeight": 600, **side}, x=x, y=rate)
    return layers


def _point(at: Prediction | LaunchPlan | Alternative, meets: bool | None) -> Row:
    rate = at.samples_per_s if isinstance(at, Prediction) else at.predicted_samples_per_s
    return {
        "workers": at.input_workers,
        **_rates(rate),
        "launch": str(at.layout),
        "streaming": format_count(at.input_workers),
        "predicted": format_estimate(rate),
        "limited by": one_line(at.limited_by),
        "meets demand": YES_OR_NO[meets],
    }


def _rates(rate: Estimate) -> Row:
    return {"rate": rate.estimate, "low": rate.low, "high": rate.high}


def batch_gaps(analysis: Analysis) -> Chart | None:
    """Draw how the time between two batches scatters, beside the time that the accelerator needs."""
    measurement = shown_measurement(analysis)
    gaps = [] if measurement is None else [gap for worker in measurement.workers for gap in worker.batch_gaps_s]
    rows = [
        {
            "low": bin.low_s,
            "high": bin.high_s,
            "share": bin.share_ratio,
            "time": f"{format_seconds(bin.low_s)} to {format_seconds(bin.high_s)}",
            "batches": format_count(bin.count),
            "of all": format_ratio(bin.share_ratio),
            "none": 0,
        }
        for bin in gap_bins(gaps)
        if bin.count
    ]
    if measurement is None or not rows:
        return None
    wanted = wanted_gap_s(analysis)
    needs = f" To feed the accelerator, each worker of the plan must give a batch every {format_seconds(wanted)}." if wanted else ""
    whose = f"{counted(len(measurement.measured_workers), 'worker')} of {measurement.layout}"
    return Chart(
        name="batch-gaps",
        title="Time between batches",
        caption=f"Batches of {whose} by the time since the one before. A wafer stalls on the tail.{needs}",
        layers=_gap_layers(rows, measurement, wanted),
        height=TIME_HEIGHT,
        table=shown("Time between batches", rows, "time", "batches", "of all"),
        note=f"The last {format_count(len(gaps))} batches that were recorded.",
    )


def _gap_layers(rows: list[Row], measurement: Measurement, wanted: float | None) -> list[Spec]:
    x = field("low", axis=axis("time since the last batch (log scale)", SECONDS, tickCount=6), scale={"type": "log", "nice": False})
    share = {"y": field("none", axis=axis("share of the batches", SHARE), scale={"zero": True}), "y2": {"field": "share"}}
    bars = {"color": "var(--supply)", "opacity": 0.85}
    layers = [layer(rows, "rect", bars, x=x, x2={"field": "high"}, **share, tooltip=tooltip("time", "batches", "of all"))]
    tail = longest_tail(measurement)
    marks = [] if tail is None else [(name, getattr(tail[0], name), "var(--soft)") for name in ("p50", "p95", "p99")]
    marks += [] if wanted is None else [("needed", wanted, "var(--bad)")]
    for place, (name, seconds, color) in enumerate(marks):
        if seconds > 0:
            row: Row = {"low": seconds, "label": f"{name} {format_seconds(seconds)}"}
            layers.append(layer([row], "rule", {"color": color, "strokeDash": [4, 3], "strokeWidth": 1.5}, x=x))
            # One below the other: quantiles lie close together.
            written = {"fontWeight": 600, "baseline": "top", "dx": 5, "dy": 16 * place}
            layers += labels([row], color, mark=written, x=x, y={"value": 0})
    return layers


def rate_over_time(analysis: Analysis) -> Chart | None:
    """Draw the transient that was cut off, and the window that was kept."""
    measurement = shown_measurement(analysis)
    timed = () if measurement is None else tuple(filter(_blocks, measurement.workers))
    if measurement is None or not timed:
        return None
    workers = workers_to_show(timed, MOST_LINES)
    rows = [row for worker in workers for row in _blocks(worker)]
    # The longest of them: from its end on, every worker is in its window.
    transient_s = max(worker.steady_state.transient_s for worker in workers if worker.steady_state is not None)
    return Chart(
        name="rate-over-time",
        title="Throughput over time",
        caption=f"The workers of {measurement.layout} {AS_MEASURED}, from the first batch on. What lies in the shaded part was "
        "cut off (MSER-5): buffers fill and AUTOTUNE searches there.",
        layers=_rate_layers(rows, transient_s),
        height=TIME_HEIGHT,
        table=shown("Throughput over time", rows, "worker", "time", "throughput"),
        note=f"{format_count(len(workers))} of {format_count(len(timed))} workers are drawn." if len(workers) < len(timed) else "",
    )


def _blocks(worker: WorkerResult) -> list[Row]:
    state = worker.steady_state
    if not worker.block_samples_per_s or state is None or state.window_s <= 0:
        return []
    length_s = state.window_s / len(worker.block_samples_per_s)
    rows: list[Row] = []
    for place, rate in enumerate(worker.block_samples_per_s):
        begin_s, end_s = (state.transient_s + at * length_s for at in (place, place + 1))
        text = {"time": f"{format_seconds(begin_s)} to {format_seconds(end_s)}", "throughput": format_rate(rate)}
        rows.append({"worker": f"worker {worker.index}", "begin": begin_s, "middle": begin_s + length_s / 2, "rate": rate, **text})
    return rows


def _rate_layers(rows: list[Row], transient_s: float) -> list[Spec]:
    x = field("middle", scale={"nice": False, "zero": True}, axis=axis("time since iterating began", SECONDS))
    rate = field("rate", axis=axis("samples/s of one worker"), scale={"zero": True})
    dots = {"filled": True, "size": 22, "color": "var(--supply)"}
    line, tips = {"color": "var(--supply)", "strokeWidth": 1.8, "point": dots}, tooltip("worker", "time", "throughput")
    cut_off: Row = {"begin": 0, "end": transient_s, "label": f"cut off: {format_seconds(transient_s)}"}
    begin = {**x, "field": "begin"}
    return [
        layer([cut_off], "rect", {"color": "var(--quiet)", "opacity": 0.22}, x=begin, x2={"field": "end"}),
        *labels([cut_off], "var(--soft)", mark={"baseline": "top", "dx": 5, "dy": 4}, x=begin, y={"value": 0}),
        layer(rows, "line", line, x=x, y=rate, detail={"field": "worker"}, tooltip=tips),
    ]

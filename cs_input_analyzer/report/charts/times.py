"""Pictures of time: how batches scatter, how the rate went through the window, and how the accelerator is fed."""

from __future__ import annotations

from cs_input_analyzer.planning.curves import FeedingCurve, GapBin, feeding_curve, gap_bins, wanted_gap_s
from cs_input_analyzer.records import Analysis, Measurement, WorkerResult
from cs_input_analyzer.report.charts.view import (
    Chart,
    Panel,
    Row,
    Spec,
    axis,
    coloured,
    field,
    labels,
    layer,
    rate_form,
    shown,
    time_unit,
    tooltip,
)
from cs_input_analyzer.report.wording import shown_measurement
from cs_input_analyzer.report.workers import longest_tail, workers_to_show
from cs_input_analyzer.units import counted, format_count, format_rate, format_ratio, format_seconds

HEIGHT = 240
MOST_GAPS = 20_000
# Lines that the eye can follow.
MOST_LINES = 8
# A supply so many times the demand would press all else to the floor.
FAR_ABOVE = 3.0
# The table has a row for so many points of the picture.
POINTS_PER_ROW = 6
FEED_COLORS = {"wanted": "var(--demand)", "taken": "var(--supply)", "supply, as predicted": "var(--plan)"}


def batch_gaps(analysis: Analysis) -> Chart | None:
    """How the time between two batches scatters, and how that stands to what the accelerator needs."""
    measurement = shown_measurement(analysis)
    gaps = [] if measurement is None else [gap for worker in measurement.workers for gap in worker.batch_gaps_s]
    # Evenly through the workers: each is in order of time, and all are alike in length.
    step = max(1, -(-len(gaps) // MOST_GAPS))
    bins = gap_bins(gaps[::step])
    if measurement is None or not bins:
        return None
    wanted = wanted_gap_s(analysis)
    needs = f" To feed the accelerator, each worker of the plan must give a batch every {format_seconds(wanted)}." if wanted else ""
    unit_s, unit = time_unit(bins[len(bins) // 2].high_s)
    rows = [_bin(bin, unit_s) for bin in bins if bin.count]
    whose = f"{counted(len(measurement.measured_workers), 'worker')} of {measurement.layout}"
    return Chart(
        name="batch-gaps",
        title="Time between batches",
        caption=f"Batches of {whose} by the time since the one before. A wafer stalls on the tail.{needs}",
        panels=(Panel(layers=_gap_layers(rows, bins[-1].low_s, unit_s, unit, measurement, wanted), height=HEIGHT),),
        table=shown("Time between batches", rows, "time", "batches", "of all"),
        note=f"The last {format_count(len(gaps))} batches that were recorded{f', one of {step}' if step > 1 else ''}.",
    )


def _bin(bin: GapBin, unit_s: float) -> Row:
    return {
        "low": bin.low_s / unit_s,
        "high": bin.high_s / unit_s,
        "share": bin.share_ratio,
        "time": f"{format_seconds(bin.low_s)} to {format_seconds(bin.high_s)}",
        "batches": format_count(bin.count),
        "of all": format_ratio(bin.share_ratio),
        "none": 0,
    }


def _gap_layers(
    rows: list[Row], last_s: float, unit_s: float, unit: str, measurement: Measurement, wanted: float | None
) -> list[Spec]:
    x = field("low", scale={"type": "log", "nice": False})
    layers = [
        layer(
            rows,
            "rect",
            {"color": "var(--supply)", "opacity": 0.85},
            x={**x, "axis": axis(f"{unit} (log scale)", ",~r", tickCount=6)},
            x2={"field": "high"},
            y=field("none", axis=axis("share of the batches", "~%"), scale={"zero": True}),
            y2={"field": "share"},
            tooltip=tooltip("time", "batches", "of all"),
        )
    ]
    tail = longest_tail(measurement)
    marks = [] if tail is None else [(name, getattr(tail[0], name), "var(--soft)") for name in ("p50", "p95", "p99")]
    marks += [] if wanted is None else [("needed", wanted, "var(--bad)")]
    for place, (name, seconds, color) in enumerate(marks):
        if seconds > 0:
            row: Row = {"low": seconds / unit_s, "label": f"{name} {format_seconds(seconds)}"}
            # At the right end of the picture its text stands before it. One below the other: quantiles lie close together.
            side = {"align": "right", "dx": -5} if name == "needed" and seconds > last_s else {"align": "left", "dx": 5}
            layers.append(layer([row], "rule", {"color": color, "strokeDash": [4, 3], "strokeWidth": 1.5}, x=x))
            written = {"fontWeight": 600, "baseline": "top", "dy": 16 * place, **side}
            layers += labels([row], color, mark=written, x=x, y={"value": 0})
    return layers


def rate_over_time(analysis: Analysis) -> Chart | None:
    """The transient that was cut off, and the window that was kept."""
    measurement = shown_measurement(analysis)
    found = () if measurement is None else measurement.workers
    timed = tuple(
        worker
        for worker in found
        if worker.block_samples_per_s and worker.steady_state is not None and worker.steady_state.window_s > 0
    )
    if measurement is None or not timed:
        return None
    workers = workers_to_show(timed, MOST_LINES)
    rows = [row for worker in workers for row in _blocks(worker)]
    return Chart(
        name="rate-over-time",
        title="Throughput over time",
        caption=f"The workers of {measurement.layout}, from the first batch on. What lies in the shaded part was cut off (MSER-5): "
        "buffers fill and AUTOTUNE searches there.",
        panels=(Panel(layers=_rate_layers(workers, rows), height=HEIGHT),),
        table=shown("Throughput over time", rows, "worker", "time", "throughput"),
        note=f"{format_count(len(workers))} of {format_count(len(timed))} workers are drawn." if len(workers) < len(timed) else "",
    )


def _blocks(worker: WorkerResult) -> list[Row]:
    state = worker.steady_state
    assert state is not None
    length_s = state.window_s / len(worker.block_samples_per_s)
    rows: list[Row] = []
    for place, rate in enumerate(worker.block_samples_per_s):
        begin_s, end_s = (state.transient_s + at * length_s for at in (place, place + 1))
        text = {"time": f"{format_seconds(begin_s)} to {format_seconds(end_s)}", "throughput": format_rate(rate)}
        middle_s = begin_s + length_s / 2
        rows.append({"worker": f"worker {worker.index}", "begin": begin_s, "end": end_s, "middle": middle_s, "rate": rate, **text})
    return rows


def _rate_layers(workers: tuple[WorkerResult, ...], rows: list[Row]) -> list[Spec]:
    states = [worker.steady_state for worker in workers if worker.steady_state is not None]
    # The longest of them: from its end on, every worker is in its window.
    first = max(states, key=lambda state: state.transient_s)
    said = f"{format_seconds(first.transient_s)}, {format_count(first.transient_batches)} batches cut off"
    cut: Row = {"from": 0, "to": first.transient_s, "label": "cut off", "what": said}
    x = field("from", scale={"nice": False, "zero": True}, axis=axis("seconds since iterating began", ",~r"))
    highest = max(max(worker.block_samples_per_s) for worker in workers)
    dots = {"filled": True, "size": 22, "color": "var(--supply)"}
    return [
        layer([cut], "rect", {"color": "var(--quiet)", "opacity": 0.2}, x=x, x2={"field": "to"}, tooltip=tooltip("what")),
        *labels([cut], "var(--soft)", mark={"baseline": "top", "dx": 6, "dy": 4}, x=x, y={"value": 0}),
        layer(
            rows,
            "line",
            {"color": "var(--supply)", "strokeWidth": 1.8, "point": dots},
            x=field("middle"),
            y=field("rate", axis=axis("samples/s of one worker", rate_form(highest)), scale={"zero": True}),
            detail={"field": "worker"},
            tooltip=tooltip("worker", "time", "throughput"),
        ),
    ]


def timeline(analysis: Analysis) -> Chart | None:
    """Supply and demand from moment to moment, with a pause as a checkpoint makes one."""
    measured, plan = shown_measurement(analysis), analysis.recommendation
    if measured is None or plan is None:
        return None
    curve = feeding_curve(analysis, [worker.batch_gaps_s for worker in measured.workers])
    if curve is None:
        return None
    rows: list[Row] = [
        {
            "time": (point.begin_s + point.end_s) / 2,
            "taken": point.taken_samples_per_s,
            "wanted": point.wanted_samples_per_s,
            "when": f"{format_seconds(point.begin_s)} to {format_seconds(point.end_s)}",
            "got": format_rate(point.taken_samples_per_s),
            "would take": format_rate(point.wanted_samples_per_s),
        }
        for point in curve.points
    ]
    supply, notes = plan.predicted_samples_per_s.estimate, []
    is_far = supply > FAR_ABOVE * max(point.wanted_samples_per_s for point in curve.points)
    if is_far:
        notes.append(f"The predicted supply, {format_rate(supply)}, lies far above the picture.")
    if curve.simulated_workers < plan.input_workers:
        few, all_of_them = format_count(curve.simulated_workers), format_count(plan.input_workers)
        notes.append(f"{few} workers stand for the {all_of_them} of the plan, at the rate of all.")
    return Chart(
        name="timeline",
        title="Feeding the accelerator",
        caption="What the accelerator would take, and what it gets: measured batches of the workers, replayed through buffers "
        f"of {format_count(curve.depth)} batches each. Where the areas part, it waits for input. The pause in the middle is as a "
        "checkpoint makes one; its length is assumed.",
        panels=(Panel(layers=_feed_layers(rows, curve, None if is_far else supply), height=HEIGHT),),
        table=shown("Feeding the accelerator", rows[::POINTS_PER_ROW], "when", "got", "would take"),
        key=tuple(FEED_COLORS.items())[: 2 if is_far else 3],
        note=" ".join(notes),
    )


def _feed_layers(rows: list[Row], curve: FeedingCurve, supply: float | None) -> list[Spec]:
    x = field("time", axis=axis("seconds, warm-up left out", ",~r"), scale={"nice": False})
    y = field("wanted", axis=axis("samples/s", rate_form(curve.points[0].wanted_samples_per_s)), scale={"zero": True})
    color, tips = coloured(FEED_COLORS), tooltip("when", "got", "would take")
    wanted, taken = ([{**row, "what": what} for row in rows] for what in ("wanted", "taken"))
    layers = [
        layer(wanted, "area", {"opacity": 0.35, "interpolate": "step"}, x=x, y=y, color=color, tooltip=tips),
        layer(taken, "line", {"strokeWidth": 2, "interpolate": "step"}, x=x, y=field("taken"), color=color, tooltip=tips),
    ]
    if supply is not None:
        row: Row = {"supply": supply, "what": "supply, as predicted", "rate": format_rate(supply)}
        rule = {"strokeDash": [6, 4], "strokeWidth": 1.5}
        layers.append(layer([row], "rule", rule, y=field("supply"), color=color, tooltip=tooltip("what", "rate")))
    pause: Row = {"time": curve.pause_begin_s, "end": curve.pause_end_s, "label": "checkpoint (assumed)"}
    layers.append(layer([pause], "rect", {"color": "var(--quiet)", "opacity": 0.25}, x=x, x2={"field": "end"}))
    return [*layers, *labels([pause], "var(--soft)", mark={"baseline": "top", "dx": 5, "dy": 4}, x=x, y={"value": 0})]

"""Pictures of time: how batches scatter, how the rate went through the window, and how the accelerator is fed."""

from __future__ import annotations

from cs_input_analyzer.planning.curves import FeedingCurve, GapBin, feeding_curve, gap_bins, wanted_gap_s
from cs_input_analyzer.records import Analysis, BatchGap, LaunchPlan, Measurement, SteadyState, WorkerResult
from cs_input_analyzer.report.charts.view import (
    Chart,
    Row,
    Spec,
    axis,
    coloured,
    field,
    labels,
    layer,
    panel,
    rate_form,
    time_unit,
    tooltip,
)
from cs_input_analyzer.report.tables import number, table_of, text
from cs_input_analyzer.report.wording import shown_measurement, whose_workers
from cs_input_analyzer.report.workers import workers_to_show
from cs_input_analyzer.units import format_count, format_estimate, format_rate, format_ratio, format_seconds

HEIGHT = 240
MOST_GAPS = 20_000
# Lines that the eye can follow.
MOST_LINES = 8
# A supply so many times the demand would press all else to the floor.
FAR_ABOVE = 3.0
# The table has a row for so many points of the picture.
POINTS_PER_ROW = 6
FEED_COLORS = {"wanted": "var(--demand)", "taken": "var(--supply)", "supply, as predicted": "var(--plan)"}


# --- time between batches ----------------------------------------------------------------------------------------------------


def batch_gaps(analysis: Analysis) -> Chart | None:
    """How the time between two batches scatters, and how that stands to what the accelerator needs."""
    measurement = shown_measurement(analysis)
    gaps = [] if measurement is None else [gap for worker in measurement.workers for gap in worker.batch_gaps_s]
    # Evenly through the workers: each is in order of time, and all are alike in length.
    shown = gaps[:: max(1, -(-len(gaps) // MOST_GAPS))]
    bins = gap_bins(shown)
    if measurement is None or not bins:
        return None
    wanted = wanted_gap_s(analysis)
    needs = f" To feed the accelerator, each worker of the plan must give a batch every {format_seconds(wanted)}." if wanted else ""
    columns = (
        number("from", "time since the batch before", "low_s", format_seconds),
        number("to", "end of this bin", "high_s", format_seconds),
        number("batches", "how many took so long", "count"),
        number("share", "of all batches that were recorded", "share_ratio", format_ratio),
    )
    heights = tuple(float(bin.count) for bin in bins)
    return Chart(
        name="batch-gaps",
        title="Time between batches",
        caption=f"Batches of {whose_workers(measurement)} by the time since the one before. A wafer stalls on the tail.{needs}",
        panels=(panel(_gap_layers(bins, measurement, wanted), HEIGHT),),
        table=table_of("Time between batches", columns, bins),
        note=_gap_note(len(gaps), len(shown), measurement),
        drawn=(
            (
                f"{format_seconds(bins[0].low_s)} …",
                heights,
                f"… {format_seconds(bins[-1].high_s)}, {format_count(len(gaps))} batches",
            ),
        ),
    )


def _gap_note(found: int, shown: int, measurement: Measurement) -> str:
    batches = measurement.steady_state.batches if measurement.steady_state is not None else None
    of = f" of {format_count(batches)} in the window of one worker" if batches and batches > found else ""
    taken = f"; every {round(found / shown)}th of them is counted" if shown < found else ""
    return f"The last {format_count(found)} batches that were recorded{of}{taken}."


def longest_tail(measurement: Measurement) -> tuple[BatchGap, WorkerResult] | None:
    """The gaps of the worker with the longest tail."""
    gaps = [(worker.batch_gap_s, worker) for worker in measurement.workers if worker.batch_gap_s is not None]
    return max(gaps, key=lambda pair: pair[0].p99, default=None)


def _gap_layers(bins: tuple[GapBin, ...], measurement: Measurement, wanted: float | None) -> list[Spec]:
    unit_s, unit = time_unit(bins[len(bins) // 2].high_s)
    log_scale = {"type": "log", "nice": False}
    rows: list[Row] = [
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
    bars = layer(
        rows,
        "rect",
        {"color": "var(--supply)", "opacity": 0.85},
        x=field("low", scale=log_scale, axis=axis(f"{unit} (log scale)", ",~r", tickCount=6)),
        x2={"field": "high"},
        y=field("none", axis=axis("share of the batches", "~%"), scale={"zero": True}),
        y2={"field": "share"},
        tooltip=tooltip("time", "batches", "of all"),
    )
    tail = longest_tail(measurement)
    marks = [] if tail is None else [(name, getattr(tail[0], name), "var(--soft)") for name in ("p50", "p95", "p99")]
    layers, x = [bars], field("low", scale=log_scale)
    for place, (name, seconds, color) in enumerate([*marks, *([("needed", wanted, "var(--bad)")] if wanted is not None else [])]):
        if seconds <= 0:
            continue
        row: Row = {"low": seconds / unit_s, "label": f"{name} {format_seconds(seconds)}"}
        # At the right end of the picture its text stands before it. One below the other: quantiles lie close together.
        side = {"align": "right", "dx": -5} if name == "needed" and seconds > bins[-1].low_s else {"align": "left", "dx": 5}
        written = {"fontWeight": 600, "baseline": "top", "dy": 16 * place, **side}
        layers.append(layer([row], "rule", {"color": color, "strokeDash": [4, 3], "strokeWidth": 1.5}, x=x))
        layers += labels([row], color, mark=written, x=x, y={"value": 0})
    return layers


# --- rate over time ----------------------------------------------------------------------------------------------------------


def rate_over_time(analysis: Analysis) -> Chart | None:
    """The transient that was cut off, and the window that was kept."""
    measurement = shown_measurement(analysis)
    workers = () if measurement is None else measurement.workers
    timed = tuple(
        worker
        for worker in workers
        if worker.block_samples_per_s and worker.steady_state is not None and worker.steady_state.window_s > 0
    )
    if measurement is None or not timed:
        return None
    shown = workers_to_show(timed, MOST_LINES)
    rows = [row for worker in shown for row in _blocks(worker)]
    columns = (
        text("worker", "by its index in TF_CONFIG", lambda row: row["worker"]),
        number("time", "since iterating began", lambda row: row["time"], str),
        number("samples/s", "rate of that worker in that stretch of its window", lambda row: row["shown"], str),
    )
    return Chart(
        name="rate-over-time",
        title="Throughput over time",
        caption=f"{'Each worker' if len(timed) > 1 else 'The worker'} of {measurement.layout} through the window that was kept.",
        panels=(panel(_rate_layers(shown, rows), HEIGHT, room=50),),
        table=table_of("Throughput over time", columns, rows),
        note=f"{format_count(len(shown))} of {format_count(len(timed))} workers are drawn." if len(shown) < len(timed) else "",
        drawn=tuple((f"worker {worker.index}", worker.block_samples_per_s, _span(worker.block_samples_per_s)) for worker in shown),
    )


def _span(values: tuple[float, ...]) -> str:
    return f"{format_rate(min(values), '').strip()} to {format_rate(max(values))}"


def _blocks(worker: WorkerResult) -> list[Row]:
    """The blocks of the window, which are of equal length."""
    state, found = worker.steady_state, worker.block_samples_per_s
    assert state is not None
    length_s = state.window_s / len(found)
    starts = [state.transient_s + place * length_s for place in range(len(found))]
    return [
        {
            "worker": f"worker {worker.index}",
            "begin": start,
            "end": start + length_s,
            "middle": start + length_s / 2,
            "rate": rate,
            "time": f"{format_seconds(start)} to {format_seconds(start + length_s)}",
            "shown": format_rate(rate),
        }
        for start, rate in zip(starts, found, strict=True)
    ]


def _rate_layers(workers: tuple[WorkerResult, ...], rows: list[Row]) -> list[Spec]:
    states = [worker.steady_state for worker in workers if worker.steady_state is not None]
    # The longest of them: from its end on, every worker is in its window.
    first: SteadyState = max(states, key=lambda state: state.transient_s)
    said = f"{format_seconds(first.transient_s)}, {format_count(first.transient_batches)} batches: buffers fill, AUTOTUNE searches"
    cut: Row = {"from": 0, "to": first.transient_s, "label": "cut off (MSER-5)", "what": said}
    x = field("from", scale={"nice": False, "zero": True}, axis=axis("seconds since iterating began", ",~r"))
    bands: list[Row] = [
        {
            "begin": worker.steady_state.transient_s,
            "end": worker.steady_state.transient_s + worker.steady_state.window_s,
            "low": worker.samples_per_s.low,
            "high": worker.samples_per_s.high,
            "interval": format_estimate(worker.samples_per_s),
        }
        for worker in workers
        if worker.steady_state is not None and worker.samples_per_s is not None
    ]
    sides = {"x": field("begin"), "x2": {"field": "end"}, "y": field("low"), "y2": {"field": "high"}}
    highest = max(max(worker.block_samples_per_s) for worker in workers)
    dots = {"filled": True, "size": 22, "color": "var(--supply)"}
    return [
        layer([cut], "rect", {"color": "var(--quiet)", "opacity": 0.2}, x=x, x2={"field": "to"}, tooltip=tooltip("what")),
        *labels([cut], "var(--soft)", mark={"baseline": "top", "dx": 6, "dy": 4}, x=x, y={"value": 0}),
        layer(bands, "rect", {"color": "var(--supply)", "opacity": 0.15}, **sides, tooltip=tooltip("interval")),
        layer(
            rows,
            "line",
            {"color": "var(--supply)", "strokeWidth": 1.8, "point": dots},
            x=field("middle"),
            y=field("rate", axis=axis("samples/s of one worker", rate_form(highest)), scale={"zero": True}),
            detail={"field": "worker"},
            tooltip=tooltip("worker", "time", "shown"),
        ),
    ]


# --- feeding -----------------------------------------------------------------------------------------------------------------


def timeline(analysis: Analysis) -> Chart | None:
    """Supply and demand from moment to moment, with a pause as a checkpoint makes one."""
    shown, plan = shown_measurement(analysis), analysis.recommendation
    if shown is None or plan is None:
        return None
    curve = feeding_curve(analysis, [worker.batch_gaps_s for worker in shown.workers])
    if curve is None:
        return None
    wanted, taken = (tuple(getattr(point, f"{name}_samples_per_s") for point in curve.points) for name in ("wanted", "taken"))
    is_far = plan.predicted_samples_per_s.estimate > FAR_ABOVE * max(wanted)
    columns = (
        number("time", "of the simulation, after its warm-up", "begin_s", format_seconds),
        number("taken", "what the accelerator got then", "taken_samples_per_s", format_rate),
        number("wanted", "what it would have taken", "wanted_samples_per_s", format_rate),
    )
    return Chart(
        name="timeline",
        title="Feeding the accelerator",
        caption=(
            "What the accelerator would take, and what it gets: measured batches of the workers, replayed through their buffers of "
            f"{format_count(curve.depth)} batches each. Where they part, it waits for input. The pause in the middle is as a "
            "checkpoint makes one; its length is assumed."
        ),
        panels=(panel(_feed_layers(curve, None if is_far else plan.predicted_samples_per_s.estimate), HEIGHT),),
        table=table_of("Feeding the accelerator", columns, curve.points[::POINTS_PER_ROW]),
        key=tuple(FEED_COLORS.items())[: 2 if is_far else 3],
        note=_feed_note(plan, curve, is_far),
        drawn=(("wanted", wanted, f"up to {format_rate(max(wanted))}"), ("taken", taken, f"up to {format_rate(max(taken))}")),
    )


def _feed_note(plan: LaunchPlan, curve: FeedingCurve, is_far: bool) -> str:
    notes = []
    if is_far:
        notes.append(f"The predicted supply, {format_rate(plan.predicted_samples_per_s.estimate)}, lies far above the picture.")
    if curve.simulated_workers < plan.input_workers:
        few, all_of_them = format_count(curve.simulated_workers), format_count(plan.input_workers)
        notes.append(f"{few} workers stand for the {all_of_them} of the plan, at the rate of all.")
    return " ".join(notes)


def _feed_layers(curve: FeedingCurve, supply: float | None) -> list[Spec]:
    x = field("time", axis=axis("seconds, warm-up left out", ",~r"), scale={"nice": False})
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
    y = field("wanted", axis=axis("samples/s", rate_form(curve.points[0].wanted_samples_per_s)), scale={"zero": True})
    common = {"x": x, "color": coloured(FEED_COLORS), "tooltip": tooltip("when", "got", "would take")}
    pause: Row = {"time": curve.pause_begin_s, "end": curve.pause_end_s, "label": "checkpoint (assumed)"}
    layers = [
        layer([{**row, "what": "wanted"} for row in rows], "area", {"opacity": 0.35, "interpolate": "step"}, y=y, **common),
        layer(
            [{**row, "what": "taken"} for row in rows],
            "line",
            {"strokeWidth": 2, "interpolate": "step"},
            y=field("taken"),
            **common,
        ),
    ]
    if supply is not None:
        predicted: Row = {"supply": supply, "what": "supply, as predicted", "rate": format_rate(supply)}
        rule = {"strokeDash": [6, 4], "strokeWidth": 1.5}
        layers.append(
            layer([predicted], "rule", rule, y=field("supply"), color=coloured(FEED_COLORS), tooltip=tooltip("what", "rate"))
        )
    layers.append(layer([pause], "rect", {"color": "var(--quiet)", "opacity": 0.25}, x=x, x2={"field": "end"}))
    return [*layers, *labels([pause], "var(--soft)", mark={"baseline": "top", "dx": 5, "dy": 4}, x=x, y={"value": 0})]

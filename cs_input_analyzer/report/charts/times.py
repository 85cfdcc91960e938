"""Pictures of time: how batches scatter, and how the rate went through the window."""

from __future__ import annotations

from cs_input_analyzer.planning.curves import GapBin, gap_bins, wanted_gap_s
from cs_input_analyzer.records import Analysis, Measurement, WorkerResult
from cs_input_analyzer.report.charts.view import (
    SECONDS,
    SHARE,
    Chart,
    Row,
    Spec,
    axis,
    field,
    labels,
    layer,
    shown,
    tooltip,
)
from cs_input_analyzer.report.wording import AS_MEASURED, shown_measurement
from cs_input_analyzer.report.workers import longest_tail, workers_to_show
from cs_input_analyzer.units import counted, format_count, format_rate, format_ratio, format_seconds

HEIGHT = 240
# Lines that the eye can follow.
MOST_LINES = 8


def batch_gaps(analysis: Analysis) -> Chart | None:
    """How the time between two batches scatters, and how that stands to what the accelerator needs."""
    measurement = shown_measurement(analysis)
    gaps = [] if measurement is None else [gap for worker in measurement.workers for gap in worker.batch_gaps_s]
    rows = [_bin(bin) for bin in gap_bins(gaps) if bin.count]
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
        height=HEIGHT,
        table=shown("Time between batches", rows, "time", "batches", "of all"),
        note=f"The last {format_count(len(gaps))} batches that were recorded.",
    )


def _bin(bin: GapBin) -> Row:
    return {
        "low": bin.low_s,
        "high": bin.high_s,
        "share": bin.share_ratio,
        "time": f"{format_seconds(bin.low_s)} to {format_seconds(bin.high_s)}",
        "batches": format_count(bin.count),
        "of all": format_ratio(bin.share_ratio),
        "none": 0,
    }


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
    """The transient that was cut off, and the window that was kept."""
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
        height=HEIGHT,
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

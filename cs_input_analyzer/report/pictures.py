"""Records -> pictures: a drawing each, and the table that says the same.

A picture whose numbers are missing, or make no sense (an edited run), is left out. The page says the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from cs_input_analyzer.model.curves import feeds, gap_bins, highest_usual, throughput_curve, wanted_gap_s, wanted_worker_rate
from cs_input_analyzer.records import (
    Alternative,
    Analysis,
    Estimate,
    LaunchPlan,
    Measurement,
    Prediction,
    RunInspection,
    WorkerResult,
)
from cs_input_analyzer.report.chart import (
    Frame,
    Row,
    Scale,
    area,
    axis_number,
    bars,
    belt,
    curve,
    diamond,
    dots,
    framed,
    level,
    shade,
    shown,
    upright,
)
from cs_input_analyzer.report.document import YES_OR_NO, Chart, Key
from cs_input_analyzer.report.strip import pipeline_strip
from cs_input_analyzer.report.wording import AS_MEASURED, one_line, plan_currency, shown_measurement
from cs_input_analyzer.report.workers import longest_tail, workers_to_show
from cs_input_analyzer.units import counted, format_count, format_estimate, format_rate, format_ratio, format_seconds

# Room above the demand; a curve that goes on for decades above it would press all else to the floor.
HEADROOM = 1.8
# Room above the highest point.
ABOVE = 1.06
TIPS = ("launch", "predicted", "limited by", "meets demand")
# Lines that the eye can follow.
MOST_LINES = 8


def pictures_of(found: Analysis | RunInspection) -> dict[str, Chart]:
    """Return every picture that there is something to draw for, by its name."""
    of_analysis: Sequence[Callable[[Any], Chart | None]] = (pipeline_strip, supply_demand, batch_gaps, rate_over_time)
    of_run: Sequence[Callable[[Any], Chart | None]] = (rate_over_steps,)
    charts = {}
    for draw in of_analysis if isinstance(found, Analysis) else of_run:
        try:
            # An overflow is an error here, and not a warning and an infinite number.
            with np.errstate(all="raise"):
                chart = draw(found)
        except (ArithmeticError, ValueError, LookupError, TypeError, Warning):
            # A run edited by hand can hold numbers that no model can be asked with. The page says all that it holds anyway.
            continue
        if chart is not None:
            charts[chart.name] = chart
    return charts


def _tip(row: Row, *names: str) -> str:
    return "\n".join(f"{name}: {row[name]}" for name in names)


def supply_demand(analysis: Analysis) -> Chart | None:
    """Draw throughput against input workers: the interval band, the demand, the plan, the launch in use."""
    predicted, plan = throughput_curve(analysis), analysis.recommendation
    if plan is None or not predicted:
        return None
    demand = analysis.consumption.samples_per_s if analysis.consumption is not None else None
    near = len(predicted)
    if demand is not None:  # up to well above the demand and past the plan, and one more, so that the curve is seen to go on
        enough = HEADROOM * max(demand.high, plan.predicted_samples_per_s.high)
        near = sum(at.samples_per_s.estimate <= enough or at.input_workers <= plan.input_workers for at in predicted)
    rows = [_point(at, feeds(at, analysis)) for at in predicted[: max(near + 1, 3)]]
    deliver = " ".join(filter(None, ("deliver", plan_currency(analysis))))
    keys = [Key(look="supply", text="supply, 90 % band")]
    keys += [] if demand is None else [Key(look="demand", text=f"demand {format_estimate(demand)}")]
    return Chart(
        name="supply-demand",
        title="Supply against demand",
        caption=f"What launches of {counted(plan.cpus_per_task, 'CPU')} a task {deliver}, with the 90 % band, and what the "
        "accelerator takes.",
        svg=_supply_svg(analysis, plan, rows, demand),
        keys=tuple(keys),
        table=shown("Supply against demand", rows, "launch", "streaming", *TIPS[1:]),
        note="Larger launches, far above the demand, are not drawn." if len(rows) < len(predicted) else "",
    )


def _supply_svg(analysis: Analysis, plan: LaunchPlan, rows: list[Row], demand: Estimate | None) -> str:
    others = [at for at in plan.alternatives if at.is_current and at.layout != plan.layout]
    today = [_point(at, at.meets_demand) for at in others if at.predicted_samples_per_s.estimate > 0]
    marked = [_point(plan, plan.meets_demand), *today]
    workers = [row["workers"] for row in (*rows, *marked)]
    highest = max([row["high"] for row in (*rows, *marked)] + ([demand.high] if demand is not None else []))
    across = Scale(title="input workers", low=min(workers), high=max(workers), form=axis_number, is_whole=True)
    frame = Frame(x=across, y=Scale(title="samples/s", low=0.0, high=ABOVE * highest, form=axis_number), rows=len(marked))
    lows, highs, rates = ([(row["workers"], row[name]) for row in rows] for name in ("low", "high", "rate"))
    marks = [area(frame, lows, highs, "supply")]
    if demand is not None:
        marks += [belt(frame, demand.low, demand.high, "demand")] if demand.low < demand.high else []
        marks.append(level(frame, demand.estimate, "demand", f"demand {format_estimate(demand)}"))
    marks += [curve(frame, rates, "supply"), dots(frame, [(r["workers"], r["rate"], _tip(r, *TIPS)) for r in rows], "supply")]
    for place, row in enumerate(marked):
        look, label = ("today", "in use today") if place else ("plan", f"plan {plan.layout}")
        at, rate, tip = row["workers"], row["rate"], _tip(row, *TIPS)
        marks.append(upright(frame, at, look, label=label, row=place, tip=tip, low=row["low"]))
        marks.append(dots(frame, [(at, rate, tip)], look, 6) if place else diamond(frame, at, rate, look, tip))
    return framed(frame, *marks)


def _point(at: Prediction | LaunchPlan | Alternative, meets: bool | None) -> Row:
    rate = at.samples_per_s if isinstance(at, Prediction) else at.predicted_samples_per_s
    return {
        "workers": at.input_workers,
        "rate": rate.estimate,
        "low": rate.low,
        "high": rate.high,
        "launch": str(at.layout),
        "streaming": format_count(at.input_workers),
        "predicted": format_estimate(rate),
        "limited by": one_line(at.limited_by),
        "meets demand": YES_OR_NO[meets],
    }


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
        caption=f"Batches of {whose} by the time since the one before. Long gaps make the wafer wait.{needs}",
        svg=_gaps_svg(rows, measurement, wanted),
        table=shown("Time between batches", rows, "time", "batches", "of all"),
        note=f"The last {format_count(len(gaps))} batches that were recorded.",
    )


def _gaps_svg(rows: list[Row], measurement: Measurement, wanted: float | None) -> str:
    tail = longest_tail(measurement)
    marks = [] if tail is None else [(name, getattr(tail[0], name), "quantile") for name in ("p50", "p95", "p99")]
    marks += [] if wanted is None else [("needed", wanted, "needed")]
    marks = [(name, seconds, look) for name, seconds, look in marks if seconds > 0]
    times = [*(row["low"] for row in rows), *(row["high"] for row in rows), *(seconds for _, seconds, _ in marks)]
    title = "time since the last batch (log scale)"
    across = Scale(title=title, low=min(times), high=max(times), form=format_seconds, is_log=True)
    share = Scale(title="share of the batches", low=0.0, high=ABOVE * max(row["share"] for row in rows), form=format_ratio)
    frame = Frame(x=across, y=share, rows=len(marks))
    spans = [(row["low"], row["high"], row["share"], _tip(row, "time", "batches", "of all")) for row in rows]
    drawn = [bars(frame, spans, "supply")]
    # One below the other: quantiles lie close together.
    for place, (name, seconds, look) in enumerate(marks):
        drawn.append(upright(frame, seconds, look, label=f"{name} {format_seconds(seconds)}", row=place))
    return framed(frame, *drawn)


def rate_over_time(analysis: Analysis) -> Chart | None:
    """Draw the warm-up that was not counted, the window that was kept, and what each worker must give."""
    measurement = shown_measurement(analysis)
    timed = () if measurement is None else tuple(filter(_blocks, measurement.workers))
    if measurement is None or not timed:
        return None
    workers = workers_to_show(timed, MOST_LINES)
    lines = [_blocks(worker) for worker in workers]
    rows = list(chain.from_iterable(lines))
    wanted = wanted_worker_rate(analysis)
    # The longest of them: from its end on, every worker is in its window.
    transient_s = max(worker.steady_state.transient_s for worker in workers if worker.steady_state is not None)
    usual = highest_usual([row["rate"] for row in rows])
    across = Scale(title="time since iterating began", low=0.0, high=max(row["end"] for row in rows), form=format_seconds)
    rate = Scale(title="samples/s of one worker", low=0.0, high=ABOVE * max(usual, wanted or 0.0), form=axis_number)
    frame = Frame(x=across, y=rate, rows=1)
    marks = [shade(frame, 0.0, transient_s, "warm-up", label=f"warm-up {format_seconds(transient_s)}")]
    for line in lines:
        marks.append(curve(frame, [(row["middle"], row["rate"]) for row in line], "one-of-many"))
        marks.append(dots(frame, [(r["middle"], r["rate"], _tip(r, "worker", "time", "throughput")) for r in line], "supply"))
    needed = "" if wanted is None else f"needed of each worker of the plan: {format_rate(wanted)}"
    marks += [] if wanted is None else [level(frame, wanted, "demand", needed)]
    caption = f"The workers of {measurement.layout} {AS_MEASURED}, from the first batch on. The shaded warm-up is not counted: "
    few = f"{format_count(len(workers))} of {format_count(len(timed))} workers are drawn." if len(workers) < len(timed) else ""
    return Chart(
        name="rate-over-time",
        title="Throughput over time",
        caption=f"{caption}buffers fill and AUTOTUNE searches there.",
        svg=framed(frame, *marks),
        keys=(Key(look="supply", text="workers"), *((Key(look="demand", text=needed),) if needed else ())),
        table=shown("Throughput over time", rows, "worker", "time", "throughput"),
        note=" ".join(filter(None, (few, _clipped([row["rate"] for row in rows], rate.high, format_rate)))),
    )


def _clipped(rates: Sequence[float], high: float, form: Callable[[float], str]) -> str:
    """Say which points lie above the picture."""
    above = [rate for rate in rates if rate > high]
    return f"Arrows: {counted(len(above), 'point')} above the picture, up to {form(max(above))}." if above else ""


def _blocks(worker: WorkerResult) -> list[Row]:
    state = worker.steady_state
    if not worker.block_samples_per_s or state is None or state.window_s <= 0:
        return []
    length_s = state.window_s / len(worker.block_samples_per_s)
    rows: list[Row] = []
    for place, rate in enumerate(worker.block_samples_per_s):
        begin_s, end_s = (state.transient_s + at * length_s for at in (place, place + 1))
        text = {"time": f"{format_seconds(begin_s)} to {format_seconds(end_s)}", "throughput": format_rate(rate)}
        rows.append({"worker": f"worker {worker.index}", "end": end_s, "middle": begin_s + length_s / 2, "rate": rate, **text})
    return rows


def rate_over_steps(found: RunInspection) -> Chart | None:
    """Draw how fast the run trained, with its pauses."""
    batch, demand = found.rates.batch_size, found.change.demand_samples_per_s
    unit = "samples/s" if batch else "steps/s"

    def form(rate: float) -> str:
        return format_rate(rate, unit)

    rows: list[Row] = [
        {
            "middle": span.step + span.steps / 2,
            "rate": span.steps_per_s * (batch or 1.0),
            "steps": f"{format_count(span.step)} to {format_count(span.step + span.steps)}",
            "took": format_seconds(span.duration_s),
            "throughput": form(span.steps_per_s * (batch or 1.0)),
        }
        for span in found.spans
        if span.steps_per_s is not None
    ]
    if len(rows) < 2:
        return None
    demand = demand if batch else None
    rates = [row["rate"] for row in rows]
    rate = Scale(title=unit, low=0.0, high=ABOVE * max(highest_usual(rates), demand or 0.0), form=axis_number)
    last = found.spans[-1].step + found.spans[-1].steps
    frame = Frame(x=Scale(title="step", low=found.spans[0].step, high=last, form=axis_number, is_whole=True), y=rate)
    pauses = [(stall, "explained" if stall.cause not in ("none known", "read late") else "pause") for stall in found.stalls]
    marks = []
    for stall, look in pauses:
        tip = f"{format_seconds(stall.duration_s)} after step {format_count(stall.step)}; cause: {stall.cause}"
        marks.append(upright(frame, stall.step, look, tip=tip))
    marks += [level(frame, demand, "demand", f"demand {form(demand)}")] if demand else []
    marks.append(curve(frame, [(row["middle"], row["rate"]) for row in rows], "supply"))
    marks.append(dots(frame, [(row["middle"], row["rate"], _tip(row, "steps", "took", "throughput")) for row in rows], "supply", 2))
    looks = {look for _, look in pauses}
    named = {"pause": "pause without a known cause", "explained": "pause for a checkpoint, an evaluation or set-up"}
    keys = [Key(look="supply", text="rate"), *(Key(look=look, text=text) for look, text in named.items() if look in looks)]
    keys += [Key(look="demand", text=f"what the accelerator would take: {form(demand)}")] if demand else []
    return Chart(
        name="steps",
        title="Rate over steps",
        caption="How fast the run trained, from its own lines. Upright lines are its longest pauses.",
        svg=framed(frame, *marks),
        keys=tuple(keys),
        table=shown("Rate over steps", rows, "steps", "took", "throughput"),
        note=_clipped(rates, rate.high, form),
    )

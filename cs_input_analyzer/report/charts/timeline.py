"""Supply and demand from moment to moment, with a pause as a checkpoint makes one."""

from __future__ import annotations

from cs_input_analyzer.planning.curves import FeedingCurve, feeding_curve
from cs_input_analyzer.records import Analysis, LaunchPlan
from cs_input_analyzer.report.charts.view import Chart, Panel, Spec, axis, coloured, field, labelled, layered, rate_form, tooltip
from cs_input_analyzer.report.measuring import shown_measurement
from cs_input_analyzer.report.tables import Column, Table, bare_rate
from cs_input_analyzer.units import format_count, format_rate, format_seconds

HEIGHT = 240
# A supply so many times the demand would press all else to the floor.
FAR_ABOVE = 3.0
# The table has a row for so many points of the picture.
POINTS_PER_ROW = 6


def timeline(analysis: Analysis) -> Chart | None:
    shown, plan = shown_measurement(analysis), analysis.recommendation
    if shown is None or plan is None:
        return None
    curve = feeding_curve(analysis, [worker.batch_gaps_s for worker in shown.workers])
    if curve is None:
        return None
    supply, wanted = plan.predicted_samples_per_s.estimate, max(point.wanted_samples_per_s for point in curve.points)
    is_far = supply > FAR_ABOVE * wanted
    layers = [_wanted(curve), _taken(curve), *([] if is_far else [_supply(plan)]), _pause(curve)]
    return Chart(
        name="timeline",
        title="Feeding the accelerator",
        caption=(
            "What the accelerator would take, and what it gets: measured batches of the workers, replayed through their buffers of "
            f"{format_count(curve.depth)} batches each. Where the areas part, it waits for input. The pause in the middle is as a "
            "checkpoint makes one; its length is assumed."
        ),
        panels=(Panel(spec=layered(layers, height=HEIGHT), height=HEIGHT + 60),),
        table=_table(curve),
        key=tuple(COLORS.items())[: 2 if is_far else 3],
        note=_note(plan, curve, is_far),
    )


def _note(plan: LaunchPlan, curve: FeedingCurve, is_far: bool) -> str:
    notes = []
    if is_far:
        notes.append(f"The predicted supply, {format_rate(plan.predicted_samples_per_s.estimate)}, lies far above the picture.")
    if curve.simulated_workers < plan.input_workers:
        few, all_of_them = format_count(curve.simulated_workers), format_count(plan.input_workers)
        notes.append(f"{few} workers stand for the {all_of_them} of the plan, at the rate of all.")
    return " ".join(notes)


COLORS = {"wanted": "var(--demand)", "taken": "var(--supply)", "supply, as predicted": "var(--plan)"}
X = field("time", axis=axis("seconds, warm-up left out", ",~r"), scale={"nice": False})


def _rows(curve: FeedingCurve) -> list[dict[str, object]]:
    return [
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


def _wanted(curve: FeedingCurve) -> Spec:
    return {
        "data": {"values": [{**row, "what": "wanted"} for row in _rows(curve)]},
        "mark": {"type": "area", "opacity": 0.35, "interpolate": "step"},
        "encoding": {
            "x": X,
            "y": field("wanted", axis=axis("samples/s", rate_form(curve.points[0].wanted_samples_per_s)), scale={"zero": True}),
            "color": coloured(COLORS),
            "tooltip": tooltip("when", "got", "would take"),
        },
    }


def _taken(curve: FeedingCurve) -> Spec:
    return {
        "data": {"values": [{**row, "what": "taken"} for row in _rows(curve)]},
        "mark": {"type": "line", "strokeWidth": 2, "interpolate": "step"},
        "encoding": {"x": X, "y": field("taken"), "color": coloured(COLORS), "tooltip": tooltip("when", "got", "would take")},
    }


def _supply(plan: LaunchPlan) -> Spec:
    rate = plan.predicted_samples_per_s.estimate
    return {
        "data": {"values": [{"supply": rate, "what": "supply, as predicted", "rate": format_rate(rate)}]},
        "mark": {"type": "rule", "strokeDash": [6, 4], "strokeWidth": 1.5},
        "encoding": {"y": field("supply"), "color": coloured(COLORS), "tooltip": tooltip("what", "rate")},
    }


def _pause(curve: FeedingCurve) -> Spec:
    row = {"time": curve.pause_begin_s, "end": curve.pause_end_s, "label": "checkpoint (assumed)"}
    return {
        "data": {"values": [row]},
        "layer": [
            {"mark": {"type": "rect", "color": "var(--quiet)", "opacity": 0.25}, "encoding": {"x": X, "x2": {"field": "end"}}},
            *labelled({"x": X, "y": {"value": 0}}, "var(--soft)", baseline="top", dx=5, dy=4),
        ],
    }


def _table(curve: FeedingCurve) -> Table:
    columns = (
        Column(name="time", meaning="of the simulation, after its warm-up", is_number=True),
        Column(name="taken,\nsamples/s", meaning="what the accelerator got then", is_number=True),
        Column(name="wanted,\nsamples/s", meaning="what it would have taken", is_number=True),
    )
    rows = tuple(
        (format_seconds(point.begin_s), bare_rate(point.taken_samples_per_s), bare_rate(point.wanted_samples_per_s))
        for point in curve.points[::POINTS_PER_ROW]
    )
    return Table(title="Feeding the accelerator", columns=columns, rows=rows)

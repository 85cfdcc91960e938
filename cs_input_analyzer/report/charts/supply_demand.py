"""Throughput against input workers: the interval band, the demand, the chosen plan, what was measured."""

from __future__ import annotations

from cs_input_analyzer.planning.curves import current_prediction, feeds, throughput_curve
from cs_input_analyzer.records import Analysis, Estimate, Prediction
from cs_input_analyzer.report.charts.view import (
    Chart,
    Panel,
    Spec,
    axis,
    field,
    interval_fields,
    labelled,
    layered,
    rate_form,
    tooltip,
)
from cs_input_analyzer.report.tables import INTERVAL, LAYOUT, LIMITED_BY, MEETS, PREDICTED, YES_OR_NO, Column, Table, rate_cells
from cs_input_analyzer.report.wording import one_line
from cs_input_analyzer.units import counted, format_count, format_estimate

HEIGHT = 230
# Room above the demand; a curve that goes on for decades above it would press all else to the floor.
HEADROOM = 1.8


def supply_demand(analysis: Analysis) -> Chart | None:
    curve, plan = throughput_curve(analysis), analysis.recommendation
    if plan is None or not curve:
        return None
    demand = analysis.consumption.samples_per_s if analysis.consumption is not None else None
    shown = _near(curve, plan.predicted_samples_per_s, demand, plan.input_workers)
    rows = [_point(prediction, analysis) for prediction in shown]
    layers = [_band(rows, max(at.samples_per_s.high for at in shown)), _line(rows)]
    if demand is not None:
        layers += _demand(demand)
    layers.append(_mark(_plan_point(analysis), "var(--plan)", "diamond", 220, "plan"))
    current = current_prediction(analysis)
    if current is not None and current.layout != plan.layout:
        layers.append(_mark(_point(current, analysis) | {"label": "in use today"}, "var(--ink)", "circle", 110, "in use"))
    left_out = len(curve) - len(shown)
    return Chart(
        name="supply-demand",
        title="Supply against demand",
        caption=(
            f"What launches of {counted(plan.cpus_per_task, 'CPU')} a task deliver, with the 90 % "
            "band. The diamond is the recommended launch; the dashed line is what the accelerator takes."
        ),
        panels=(Panel(spec=layered(layers, height=HEIGHT), height=HEIGHT + 60),),
        table=_table(shown, analysis),
        note=f"{format_count(left_out)} larger launches, far above the demand, are not drawn." if left_out else "",
    )


def _near(curve: tuple[Prediction, ...], plan: Estimate, demand: Estimate | None, workers: int) -> tuple[Prediction, ...]:
    """The part of the curve that matters: up to well above the demand and past the plan."""
    if demand is None:
        return curve
    enough = HEADROOM * max(demand.high, plan.high)
    near = sum(at.samples_per_s.estimate <= enough or at.input_workers <= workers for at in curve)
    # One more, so that the curve is seen to go on.
    return curve[: max(near + 1, 3)]


def _point(prediction: Prediction, analysis: Analysis) -> dict[str, object]:
    return {
        "workers": prediction.input_workers,
        **interval_fields(prediction.samples_per_s),
        "launch": str(prediction.layout),
        "predicted": format_estimate(prediction.samples_per_s),
        "limited by": one_line(prediction.limited_by),
        "meets demand": YES_OR_NO[feeds(prediction, analysis)],
    }


def _plan_point(analysis: Analysis) -> dict[str, object]:
    plan = analysis.recommendation
    assert plan is not None
    return {
        "workers": plan.input_workers,
        **interval_fields(plan.predicted_samples_per_s),
        "launch": str(plan.layout),
        "predicted": format_estimate(plan.predicted_samples_per_s),
        "limited by": one_line(plan.limited_by),
        "meets demand": YES_OR_NO[plan.meets_demand],
        "label": f"plan {plan.layout}",
    }


TIPS = tooltip("launch", "predicted", "limited by", "meets demand")
X = field("workers", axis=axis("input workers", ",d", tickMinStep=1), scale={"nice": False, "zero": False})


def _band(rows: list[dict[str, object]], highest: float) -> Spec:
    return {
        "data": {"values": rows},
        "mark": {"type": "area", "color": "var(--supply)", "opacity": 0.18, "interpolate": "monotone"},
        "encoding": {"x": X, "y": field("low", axis=axis("samples/s", rate_form(highest))), "y2": {"field": "high"}},
    }


def _line(rows: list[dict[str, object]]) -> Spec:
    return {
        "data": {"values": rows},
        "mark": {
            "type": "line",
            "color": "var(--supply)",
            "strokeWidth": 2.5,
            "interpolate": "monotone",
            "point": {"filled": True, "size": 28, "color": "var(--supply)"},
        },
        "encoding": {"x": X, "y": field("rate"), "tooltip": TIPS},
    }


def _demand(demand: Estimate) -> list[Spec]:
    row = {**interval_fields(demand), "label": f"demand {format_estimate(demand)}"}
    values = {"values": [row]}
    band: list[Spec] = [
        {
            "data": values,
            "mark": {"type": "rect", "color": "var(--demand)", "opacity": 0.16},
            "encoding": {"y": field("low"), "y2": {"field": "high"}},
        }
    ]
    return [
        *(band if demand.low < demand.high else []),
        {
            "data": values,
            "mark": {"type": "rule", "color": "var(--demand)", "strokeDash": [6, 4], "strokeWidth": 2},
            "encoding": {"y": field("rate")},
        },
        {
            "data": values,
            "layer": labelled(
                {"y": field("rate"), "x": {"value": "width"}}, "var(--soft)", align="right", baseline="bottom", dx=-2, dy=-5
            ),
        },
    ]


def _mark(row: dict[str, object], color: str, shape: str, size: int, name: str) -> Spec:
    """A launch that stands out, with its interval and its name."""
    where = {"x": X, "y": field("rate")}
    point = {"type": "point", "filled": True, "opacity": 1, "stroke": "var(--card)"}
    return {
        "data": {"values": [row]},
        "layer": [
            {
                "mark": {"type": "rule", "color": color, "strokeWidth": 2},
                "encoding": {"x": X, "y": field("low"), "y2": {"field": "high"}},
            },
            {
                "mark": {**point, "shape": shape, "size": size, "color": color},
                "encoding": {**where, "tooltip": TIPS},
            },
            *labelled(where, color, bold=True, dx=12, dy=14),
        ],
        "name": name,
    }


def _table(shown: tuple[Prediction, ...], analysis: Analysis) -> Table:
    columns = (
        LAYOUT,
        Column(name="workers", meaning="tasks that stream", is_number=True),
        PREDICTED,
        INTERVAL,
        MEETS,
        LIMITED_BY,
    )
    rows = tuple(
        (
            str(at.layout),
            format_count(at.input_workers),
            *rate_cells(at.samples_per_s),
            YES_OR_NO[feeds(at, analysis)],
            one_line(at.limited_by),
        )
        for at in shown
    )
    return Table(title="Supply against demand", columns=columns, rows=rows)

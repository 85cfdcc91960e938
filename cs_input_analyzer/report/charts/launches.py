"""The picture of launches: supply against demand."""

from __future__ import annotations

from cs_input_analyzer.planning.curves import feeds, throughput_curve
from cs_input_analyzer.records import Alternative, Analysis, Estimate, LaunchPlan, Prediction
from cs_input_analyzer.report.charts.view import Chart, Row, Spec, axis, field, labels, layer, shown, tooltip
from cs_input_analyzer.report.tables import YES_OR_NO
from cs_input_analyzer.report.wording import one_line, plan_currency
from cs_input_analyzer.units import counted, format_count, format_estimate

HEIGHT = 230
# Room above the demand; a curve that goes on for decades above it would press all else to the floor.
HEADROOM = 1.8
TIPS = ("launch", "predicted", "limited by", "meets demand")


def supply_demand(analysis: Analysis) -> Chart | None:
    """Throughput against input workers: the interval band, the demand, the plan, the launch in use."""
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
        height=HEIGHT,
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

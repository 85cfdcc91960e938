"""Pictures of launches: supply against demand, and which launches feed the accelerator."""

from __future__ import annotations

from cs_input_analyzer.planning.curves import feeds, launch_grid, throughput_curve
from cs_input_analyzer.records import Alternative, Analysis, Estimate, LaunchPlan, Prediction
from cs_input_analyzer.report.charts.view import Chart, Row, Spec, axis, coloured, field, labels, layer, shown, tooltip
from cs_input_analyzer.report.tables import YES_OR_NO
from cs_input_analyzer.report.wording import one_line
from cs_input_analyzer.units import MISSING, counted, format_count, format_estimate

HEIGHT, CELL_HEIGHT = 230, 22
# Room above the demand; a curve that goes on for decades above it would press all else to the floor.
HEADROOM = 1.8
FEEDS, SHORT, CANNOT, RUNS = "feeds the accelerator", "falls short", "cannot run", "can run"
COLORS = {FEEDS: "var(--good-fill)", RUNS: "var(--supply)", SHORT: "var(--bad-fill)", CANNOT: "var(--track)"}
# The faintest cell that runs is still told from one that does not.
FAINTEST = 0.25
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
    return Chart(
        name="supply-demand",
        title="Supply against demand",
        caption=f"What launches of {counted(plan.cpus_per_task, 'CPU')} a task deliver, with the 90 % band, and what the "
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
        "nodes": at.layout.nodes,
        "tasks": at.layout.tasks_per_node,
        "cpus": at.layout.cpus_per_task,
        "launch": str(at.layout),
        "streaming": format_count(at.input_workers),
        "predicted": format_estimate(rate),
        "limited by": one_line(at.limited_by),
        "meets demand": YES_OR_NO[meets],
    }


def _rates(rate: Estimate) -> Row:
    return {"rate": rate.estimate, "low": rate.low, "high": rate.high}


def layouts(analysis: Analysis) -> Chart | None:
    """Nodes x tasks of the plan's size as a heat map: where launches can run, and where they feed the accelerator."""
    grid, plan = launch_grid(analysis), analysis.recommendation
    if plan is None or not grid:
        return None
    highest = max(at.samples_per_s.estimate for at in grid)
    rows = [_cell(at, highest, analysis) for at in grid]
    asked = "" if analysis.consumption is None else " It feeds the accelerator where it is sure of the demand with headroom."
    return Chart(
        name="layouts",
        title="Which launches feed it",
        caption=f"Each cell is a launch of {counted(plan.cpus_per_task, 'CPU')} a task: the stronger its colour, the higher its "
        f"predicted rate.{asked} The outlined cell is the recommended one; numbers between those shown were left out, evenly.",
        layers=_grid_layers(rows, str(plan.layout)),
        height=CELL_HEIGHT * len({row["tasks"] for row in rows}) + 10,
        table=shown("Which launches feed it", rows, "launch", "what", "predicted", "limited by"),
        key=tuple((what, COLORS[what]) for what in ((RUNS, CANNOT) if analysis.consumption is None else (FEEDS, SHORT, CANNOT))),
    )


def _grid_layers(rows: list[Row], plan: str) -> list[Spec]:
    scale = {"paddingInner": 0.06, "paddingOuter": 0.03}
    across = {"title": "nodes", "labelAngle": 0, "domain": False, "ticks": False}
    where = {
        "x": field("nodes", "ordinal", scale=scale, axis=across),
        "y": field("tasks", "ordinal", sort="descending", scale=scale, axis={"title": "tasks per node"}),
        "tooltip": tooltip("launch", "what", "predicted", "limited by"),
    }
    strength = {**field("strength"), "scale": {"domain": [0, 1], "range": [0, 1]}, "legend": None}
    cells = layer(rows, "rect", {"cornerRadius": 3}, **where, color=coloured(COLORS), opacity=strength)
    rim = {"fill": None, "stroke": "var(--ink)", "strokeWidth": 2.5, "cornerRadius": 3}
    planned = [row for row in rows if row["launch"] == plan]
    return [cells, *([layer(planned, "rect", rim, **where)] if planned else [])]


def _cell(at: Prediction, highest: float, analysis: Analysis) -> Row:
    what = CANNOT if at.problem is not None else {True: FEEDS, False: SHORT, None: RUNS}[feeds(at, analysis)]
    share = at.samples_per_s.estimate / highest if highest > 0 else 0.0
    strength = 1.0 if what == CANNOT else FAINTEST + (1 - FAINTEST) * share
    problem = {} if at.problem is None else {"predicted": MISSING, "limited by": one_line(at.problem)}
    return {**_point(at, feeds(at, analysis)), "what": what, "strength": strength, **problem}

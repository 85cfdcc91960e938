"""Pictures of launches: supply against demand, the memory of a node, and which launches feed the accelerator."""

from __future__ import annotations

from cs_input_analyzer.planning.curves import current_prediction, feeds, launch_grid, throughput_curve
from cs_input_analyzer.records import Analysis, Estimate, LaunchPlan, Prediction
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
    tooltip,
)
from cs_input_analyzer.report.tables import YES_OR_NO
from cs_input_analyzer.report.wording import one_line
from cs_input_analyzer.units import MISSING, counted, format_bytes, format_count, format_estimate

HEIGHT, BAR_HEIGHT, CELL_HEIGHT = 230, 38, 22
GIB = 2**30
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
        panels=(Panel(layers=_supply_layers(analysis, plan, rows, demand), height=HEIGHT),),
        table=shown("Supply against demand", rows, "launch", "streaming", *TIPS[1:]),
        note="Larger launches, far above the demand, are not drawn." if len(rows) < len(curve) else "",
    )


def _supply_layers(analysis: Analysis, plan: LaunchPlan, rows: list[Row], demand: Estimate | None) -> list[Spec]:
    x = field("workers", axis=axis("input workers", ",d", tickMinStep=1), scale={"nice": False, "zero": False})
    low = field("low", axis=axis("samples/s", rate_form(max(float(str(row["high"])) for row in rows))))
    across, rate, tips = {"x": x, "y": low, "y2": {"field": "high"}}, field("rate"), tooltip(*TIPS)
    curve = {"color": "var(--supply)", "interpolate": "monotone"}
    dots = {"filled": True, "size": 28, "color": "var(--supply)"}
    layers = [
        layer(rows, "area", {**curve, "opacity": 0.18}, **across),
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
    current = current_prediction(analysis)
    if current is not None and current.layout != plan.layout:
        dot = {"shape": "circle", "size": 110}
        marked.append((_point(current, feeds(current, analysis)), "in use today", "var(--ink)", dot))
    for point, label, color, shape in marked:
        row, look = point | {"label": label}, {"color": color, "filled": True, "opacity": 1, "stroke": "var(--card)", **shape}
        layers.append(layer([row], "rule", {"color": color, "strokeWidth": 2}, x=x, y=field("low"), y2={"field": "high"}))
        layers.append(layer([row], "point", look, x=x, y=rate, tooltip=tips))
        layers += labels([row], color, mark={"fontWeight": 600, "dx": 12, "dy": 14}, x=x, y=rate)
    return layers


def _point(at: Prediction | LaunchPlan, meets: bool | None) -> Row:
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


def memory(analysis: Analysis) -> Chart | None:
    """Memory of a node, by launch, against what a node has: the plan first, then its alternatives, each layout once."""
    plan, limit = analysis.recommendation, analysis.cluster.memory_bytes_per_node
    if plan is None:
        return None
    sizes = {other.layout: other.memory_bytes_per_node for other in reversed(plan.alternatives) if other.layout != plan.layout}
    sizes[plan.layout] = plan.memory_bytes_per_node
    names = {analysis.options.current: " (in use)", plan.layout: " (plan)"}
    rows: list[Row] = [
        {"launch": f"{place}{names.get(place, '')}", "GiB": size / GIB, "size": format_bytes(size)}
        for place, size in reversed(sizes.items())
        if size is not None
    ]
    if not rows:
        return None
    names_axis = {"title": None, "labelColor": "var(--ink)", "labelLimit": 220}
    above = {"align": "right", "baseline": "bottom", "dx": 0, "dy": -3, "color": "var(--bad)"}
    end: Row = {"limit": limit / GIB, "label": f"a node has {format_bytes(limit)}"}
    bars = layer(
        rows,
        "bar",
        {"cornerRadius": 2, "color": "var(--supply)"},
        y=field("launch", "nominal", sort=None, axis=names_axis),
        x=field("GiB", axis=axis("GiB on each node", ",~r", grid=True)),
        tooltip=tooltip("launch", "size"),
    )
    rule = layer([end], "rule", {"color": "var(--bad)", "strokeWidth": 2}, x=field("limit"), tooltip=tooltip("label"))
    text = layer([end], "text", above, x=field("limit"), y={"value": 0}, text={"field": "label"})
    return Chart(
        name="memory",
        title="Memory of a node",
        caption=f"What the workers of a node hold, by launch, and what a node has, {format_bytes(limit)}.",
        panels=(Panel(layers=[bars, rule, text], height=BAR_HEIGHT * len(rows) + 10),),
        table=shown("Memory of a node", rows, "launch", "size"),
    )


def layouts(analysis: Analysis) -> Chart | None:
    """Nodes x tasks x CPUs as heat maps: where launches can run, and where they feed the accelerator."""
    grid, plan = launch_grid(analysis), analysis.recommendation
    if plan is None or not grid:
        return None
    highest = max(at.samples_per_s.estimate for at in grid)
    panels = []
    for cpus in sorted({at.layout.cpus_per_task for at in grid}):
        cells = [at for at in grid if at.layout.cpus_per_task == cpus]
        # A row in which nothing can run says nothing.
        running = sorted({at.layout.tasks_per_node for at in cells if at.problem is None}, reverse=True)
        rows = [_cell(at, highest, analysis) for at in cells if at.layout.tasks_per_node in running]
        if rows:
            height, title = CELL_HEIGHT * len(running) + 10, f"{counted(cpus, 'CPU')} per task"
            panels.append(Panel(layers=_grid_layers(rows, running, str(plan.layout)), height=height, title=title))
    asked = "" if analysis.consumption is None else " It feeds the accelerator where it is sure of the demand with headroom."
    # What no node has CPUs for is most of the cube.
    fitting = [_cell(at, highest, analysis) for at in grid if at.layout.cpus_per_node <= analysis.cluster.cpus_per_node]
    return Chart(
        name="layouts",
        title="Which launches feed it",
        caption=f"Each cell is a launch: the stronger its colour, the higher its predicted rate.{asked} The outlined cell is the "
        "recommended one; numbers between those shown were left out, evenly.",
        panels=tuple(panels),
        table=shown("Which launches feed it", fitting, "launch", "what", "predicted", "limited by"),
        key=tuple((what, COLORS[what]) for what in ((RUNS, CANNOT) if analysis.consumption is None else (FEEDS, SHORT, CANNOT))),
    )


def _grid_layers(rows: list[Row], tasks: list[int], plan: str) -> list[Spec]:
    scale = {"paddingInner": 0.06, "paddingOuter": 0.03}
    across = {"title": "nodes", "labelAngle": 0, "domain": False, "ticks": False}
    where = {
        "x": field("nodes", "ordinal", scale=scale, axis=across),
        "y": field("tasks", "ordinal", sort=tasks, scale=scale, axis={"title": "tasks per node"}),
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
    return {
        "nodes": at.layout.nodes,
        "tasks": at.layout.tasks_per_node,
        "what": what,
        "strength": 1.0 if what == CANNOT else FAINTEST + (1 - FAINTEST) * share,
        "launch": str(at.layout),
        "predicted": MISSING if at.problem is not None else format_estimate(at.samples_per_s),
        "limited by": one_line(at.problem or at.limited_by),
    }

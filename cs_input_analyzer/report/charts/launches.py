"""Pictures of launches: supply against demand, the memory of a node, and which launches feed the accelerator."""

from __future__ import annotations

from collections.abc import Sequence

from cs_input_analyzer.planning.curves import current_prediction, feeds, launch_grid, throughput_curve
from cs_input_analyzer.records import Alternative, Analysis, Estimate, LaunchPlan, Prediction
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
    panel,
    rate_form,
    tooltip,
)
from cs_input_analyzer.report.tables import LIMITED_BY, WORKERS, YES_OR_NO, layout, number, rates, table_of, text
from cs_input_analyzer.report.wording import one_line
from cs_input_analyzer.units import MISSING, counted, format_bytes, format_count, format_estimate, format_rate

HEIGHT, BAR_HEIGHT, CELL_HEIGHT = 230, 38, 22
GIB = 2**30
# Room above the demand; a curve that goes on for decades above it would press all else to the floor.
HEADROOM = 1.8
# Rows that a terminal has room for.
MOST_BARS = 12
FEEDS, SHORT, CANNOT, RUNS = "feeds the accelerator", "falls short", "cannot run", "can run"
COLORS = {FEEDS: "var(--good-fill)", RUNS: "var(--supply)", SHORT: "var(--bad-fill)", CANNOT: "var(--track)"}
# The faintest cell that runs is still told from one that does not.
FAINTEST = 0.25

PREDICTED = rates("samples/s", "predicted samples per second", "samples_per_s")


# --- supply against demand ---------------------------------------------------------------------------------------------------


def supply_demand(analysis: Analysis) -> Chart | None:
    """Throughput against input workers: the interval band, the demand, the plan, the launch in use."""
    curve, plan = throughput_curve(analysis), analysis.recommendation
    if plan is None or not curve:
        return None
    demand = analysis.consumption.samples_per_s if analysis.consumption is not None else None
    shown = _near(curve, plan.predicted_samples_per_s, demand, plan.input_workers)
    meets = text("meets\ndemand", "headroom included, at a probability of 0.9", lambda at: YES_OR_NO[feeds(at, analysis)])
    left_out = len(curve) - len(shown)
    return Chart(
        name="supply-demand",
        title="Supply against demand",
        caption=f"What launches of {counted(plan.cpus_per_task, 'CPU')} a task deliver, and what the accelerator takes.",
        panels=(panel(_supply_layers(analysis, plan, shown, demand), HEIGHT),),
        table=table_of("Supply against demand", (layout(), WORKERS, *PREDICTED, meets, LIMITED_BY), shown),
        note=f"{format_count(left_out)} larger launches, far above the demand, are not drawn." if left_out else "",
        drawn=tuple(
            (f"{at.layout}{' (plan)' if at.layout == plan.layout else ''}", at.samples_per_s.estimate, _rate_text(at, analysis))
            for at in _few(shown, plan)
        ),
        limit=None if demand is None else (demand.estimate, f"the demand, {format_rate(demand.estimate)}"),
    )


def _near(curve: tuple[Prediction, ...], plan: Estimate, demand: Estimate | None, workers: int) -> tuple[Prediction, ...]:
    """The part of the curve that matters: up to well above the demand and past the plan, and one more: it is seen to go on."""
    if demand is None:
        return curve
    enough = HEADROOM * max(demand.high, plan.high)
    near = sum(at.samples_per_s.estimate <= enough or at.input_workers <= workers for at in curve)
    return curve[: max(near + 1, 3)]


def _few(curve: Sequence[Prediction], plan: LaunchPlan) -> list[Prediction]:
    """At most as many as a terminal has room for: evenly, the plan among them."""
    places = {step * (len(curve) - 1) // (MOST_BARS - 2) for step in range(MOST_BARS - 1)}
    return [at for place, at in enumerate(curve) if place in places or at.layout == plan.layout]


def _rate_text(at: Prediction, analysis: Analysis) -> str:
    return f"{format_estimate(at.samples_per_s)}{', short' if feeds(at, analysis) is False else ''}"


def _supply_layers(analysis: Analysis, plan: LaunchPlan, shown: Sequence[Prediction], demand: Estimate | None) -> list[Spec]:
    rows = [_point(at.input_workers, at.samples_per_s, at.layout, at.limited_by, feeds(at, analysis)) for at in shown]
    tips = tooltip("launch", "predicted", "limited by", "meets demand")
    x = field("workers", axis=axis("input workers", ",d", tickMinStep=1), scale={"nice": False, "zero": False})
    low = field("low", axis=axis("samples/s", rate_form(max(at.samples_per_s.high for at in shown))))
    band = {"color": "var(--supply)", "opacity": 0.18, "interpolate": "monotone"}
    dots = {"filled": True, "size": 28, "color": "var(--supply)"}
    line = {"color": "var(--supply)", "strokeWidth": 2.5, "interpolate": "monotone", "point": dots}
    layers = [
        layer(rows, "area", band, x=x, y=low, y2={"field": "high"}),
        layer(rows, "line", line, x=x, y=field("rate"), tooltip=tips),
        *([] if demand is None else _demand_layers(demand)),
    ]
    marked = [_point(plan.input_workers, plan.predicted_samples_per_s, plan.layout, plan.limited_by, plan.meets_demand)]
    marked[0] |= {"label": f"plan {plan.layout}", "color": "var(--plan)", "shape": "diamond", "size": 220}
    current = current_prediction(analysis)
    if current is not None and current.layout != plan.layout:
        used = _point(current.input_workers, current.samples_per_s, current.layout, current.limited_by, feeds(current, analysis))
        marked.append(used | {"label": "in use today", "color": "var(--ink)", "shape": "circle", "size": 110})
    for row in marked:
        color = str(row["color"])
        dot = {"filled": True, "opacity": 1, "stroke": "var(--card)", "shape": row["shape"], "size": row["size"], "color": color}
        layers.append(layer([row], "rule", {"color": color, "strokeWidth": 2}, x=x, y=field("low"), y2={"field": "high"}))
        layers.append(layer([row], "point", dot, x=x, y=field("rate"), tooltip=tips))
        layers += labels([row], color, mark={"fontWeight": 600, "dx": 12, "dy": 14}, x=x, y=field("rate"))
    return layers


def _point(workers: int, rate: Estimate, where: object, limited_by: str, meets: bool | None) -> Row:
    return {
        "workers": workers,
        "rate": rate.estimate,
        "low": rate.low,
        "high": rate.high,
        "launch": str(where),
        "predicted": format_estimate(rate),
        "limited by": one_line(limited_by),
        "meets demand": YES_OR_NO[meets],
    }


def _demand_layers(demand: Estimate) -> list[Spec]:
    row: Row = {"rate": demand.estimate, "low": demand.low, "high": demand.high, "label": f"demand {format_estimate(demand)}"}
    rule = {"color": "var(--demand)", "strokeDash": [6, 4], "strokeWidth": 2}
    band = layer([row], "rect", {"color": "var(--demand)", "opacity": 0.16}, y=field("low"), y2={"field": "high"})
    beside = {"align": "right", "baseline": "bottom", "dx": -2, "dy": -5}
    return [
        *([band] if demand.low < demand.high else []),
        layer([row], "rule", rule, y=field("rate")),
        *labels([row], "var(--soft)", mark=beside, y=field("rate"), x={"value": "width"}),
    ]


# --- memory ------------------------------------------------------------------------------------------------------------------


def memory(analysis: Analysis) -> Chart | None:
    """Memory of a node, by launch, against what a node has: the plan first, then its alternatives, each layout once."""
    plan, limit, shared = analysis.recommendation, analysis.cluster.memory_bytes_per_node, None
    if plan is None:
        return None
    held: list[LaunchPlan | Alternative] = [plan, *(other for other in plan.alternatives if other.layout != plan.layout)]
    held = [launch for launch in held if launch.memory_bytes_per_node is not None]
    if not held or limit <= 0:
        return None
    if analysis.capacity is not None and analysis.capacity.private_bytes is not None:
        shared = analysis.capacity.shared_bytes
    names = {plan.layout: f"{plan.layout} (plan)"}
    if analysis.options.current is not None:
        names.setdefault(analysis.options.current, f"{analysis.options.current} (in use)")
    sizes = [(names.get(launch.layout, str(launch.layout)), launch.memory_bytes_per_node or 0) for launch in held]
    rows = [row for name, size in sizes for row in _memory_rows(name, size, shared)]
    colors = {"private to each task": "var(--supply)", "shared by the tasks of a node": "var(--wait)", "in all": "var(--supply)"}
    used = {what: color for what, color in colors.items() if any(row["what"] == what for row in rows)}
    columns = (
        text("launch", "nodes x tasks per node x CPUs per task", lambda pair: pair[0]),
        number("memory\nper node", "private memory of every task, and once what they share", lambda pair: pair[1], format_bytes),
        number("limit", "memory of a node", lambda _: limit, format_bytes),
    )
    return Chart(
        name="memory",
        title="Memory of a node",
        caption="What the workers of a node hold, by launch, and what a node has.",
        panels=(panel(_memory_layers(rows, used, limit), BAR_HEIGHT * len(held) + 10, room=70),),
        table=table_of("Memory of a node", columns, sizes),
        key=tuple(used.items()) if len(used) > 1 else (),
        drawn=tuple(
            (name, float(size), f"{format_bytes(size)}{'' if size <= limit else ', more than a node has'}")
            for name, size in sizes[:MOST_BARS]
        ),
        limit=(float(limit), f"what a node has, {format_bytes(limit)}"),
    )


def _memory_rows(name: str, size: int, shared: int | None) -> list[Row]:
    parts = [("in all", size, 0)]
    if shared is not None and 0 <= shared <= size:
        parts = [("private to each task", size - shared, 0), ("shared by the tasks of a node", shared, 1)]
    common: Row = {"launch": name, "in all": format_bytes(size)}
    return [{**common, "what": what, "GiB": part / GIB, "order": order, "size": format_bytes(part)} for what, part, order in parts]


def _memory_layers(rows: list[Row], colors: dict[str, str], limit: int) -> list[Spec]:
    row: Row = {"limit": limit / GIB, "label": f"a node has {format_bytes(limit)}"}
    above = {"align": "right", "baseline": "bottom", "dx": 0, "dy": -3, "color": "var(--bad)"}
    names = {"title": None, "labelColor": "var(--ink)", "labelLimit": 220}
    return [
        layer(
            rows,
            "bar",
            {"cornerRadius": 2},
            y=field("launch", "nominal", sort=None, axis=names),
            x=field("GiB", axis=axis("GiB on each node", ",~r", grid=True), stack="zero"),
            color=coloured(colors),
            order={"field": "order"},
            tooltip=tooltip("launch", "what", "size", "in all"),
        ),
        layer([row], "rule", {"color": "var(--bad)", "strokeWidth": 2}, x=field("limit"), tooltip=tooltip("label")),
        layer([row], "text", above, x=field("limit"), y={"value": 0}, text={"field": "label"}),
    ]


# --- which launches feed it --------------------------------------------------------------------------------------------------


def layouts(analysis: Analysis) -> Chart | None:
    """Nodes x tasks x CPUs as heat maps: where launches can run, and where they feed the accelerator."""
    grid, plan = launch_grid(analysis), analysis.recommendation
    if plan is None or not grid:
        return None
    panels = [_cpus_panel(count, grid, plan, analysis) for count in sorted({at.layout.cpus_per_task for at in grid})]
    asked = "" if analysis.consumption is None else " It feeds the accelerator where it is sure of the demand with headroom."
    rate, interval = rates("samples/s", "predicted samples per second", "samples_per_s")
    columns = (
        layout(),
        number(rate.name, rate.meaning, lambda at: None if at.problem is not None else at.samples_per_s, rate.form),
        number(interval.name, interval.meaning, lambda at: None if at.problem is not None else at.samples_per_s, interval.form),
        text("meets\ndemand", "headroom included, at a probability of 0.9", lambda at: YES_OR_NO[feeds(at, analysis)]),
        text(
            "limited by", "the resource to add for more, or why it cannot run", lambda at: at.problem or at.limited_by, is_long=True
        ),
    )
    # What no node has CPUs for is most of the cube.
    fitting = [at for at in grid if at.layout.cpus_per_node <= analysis.cluster.cpus_per_node]
    return Chart(
        name="layouts",
        title="Which launches feed it",
        caption=(
            f"Each cell is a launch: the stronger its colour, the higher its predicted rate.{asked} The outlined cell is the "
            "recommended one; numbers between those shown were left out, evenly."
        ),
        panels=tuple(shown for shown in panels if shown is not None),
        table=table_of("Which launches feed it", columns, fitting),
        key=tuple((what, COLORS[what]) for what in ((RUNS, CANNOT) if analysis.consumption is None else (FEEDS, SHORT, CANNOT))),
    )


def _cpus_panel(cpus: int, grid: tuple[Prediction, ...], plan: LaunchPlan, analysis: Analysis) -> Panel | None:
    cells = [at for at in grid if at.layout.cpus_per_task == cpus]
    # A row in which nothing can run says nothing.
    running = sorted({at.layout.tasks_per_node for at in cells if at.problem is None}, reverse=True)
    shown = [at for at in cells if at.layout.tasks_per_node in running]
    if not shown:
        return None
    highest = max(at.samples_per_s.estimate for at in grid)
    rows = [_cell(at, highest, analysis) for at in shown]
    nodes = sorted({at.layout.nodes for at in shown})
    scale = {"paddingInner": 0.06, "paddingOuter": 0.03}
    across = {"title": "nodes", "labelAngle": 0, "domain": False, "ticks": False}
    x = field("nodes", "ordinal", sort=nodes, scale=scale, axis=across)
    y = field("tasks", "ordinal", sort=running, scale=scale, axis={"title": "tasks per node"})
    strength = {**field("strength"), "scale": {"domain": [0, 1], "range": [0, 1]}, "legend": None}
    tips = tooltip("launch", "what", "predicted", "limited by")
    layers = [layer(rows, "rect", {"cornerRadius": 3}, x=x, y=y, color=coloured(COLORS), opacity=strength, tooltip=tips)]
    planned = [row for row in rows if row["launch"] == str(plan.layout)]
    if planned:
        rim = {"fill": None, "stroke": "var(--ink)", "strokeWidth": 2.5, "cornerRadius": 3}
        layers.append(layer(planned, "rect", rim, x=x, y=y, tooltip=tips))
    return panel(layers, CELL_HEIGHT * len(running) + 10, title=f"{counted(cpus, 'CPU')} per task")


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

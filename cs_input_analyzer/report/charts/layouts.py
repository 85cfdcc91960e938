"""Nodes × tasks × CPUs as heat maps: where launches can run, and where they feed the accelerator."""

from __future__ import annotations

from collections.abc import Sequence

from cs_input_analyzer.planning.curves import feeds, launch_grid
from cs_input_analyzer.records import Analysis, Prediction
from cs_input_analyzer.report.charts.view import Chart, Panel, Spec, coloured, field, layered, tooltip
from cs_input_analyzer.report.tables import INTERVAL, LAYOUT, MEETS, PREDICTED, YES_OR_NO, Column, Table, rate_cells
from cs_input_analyzer.report.wording import one_line
from cs_input_analyzer.units import MISSING, counted, format_estimate

CELL_HEIGHT = 22
FEEDS, SHORT, CANNOT, RUNS = "feeds the accelerator", "falls short", "cannot run", "can run"
COLORS = {FEEDS: "var(--good-fill)", RUNS: "var(--supply)", SHORT: "var(--bad-fill)", CANNOT: "var(--track)"}
# The faintest cell that runs is still told from one that does not.
FAINTEST = 0.25


def layouts(analysis: Analysis) -> Chart | None:
    grid, plan = launch_grid(analysis), analysis.recommendation
    if plan is None or not grid:
        return None
    cpus = sorted({at.layout.cpus_per_task for at in grid})
    panels = [_panel([at for at in grid if at.layout.cpus_per_task == count], grid, analysis) for count in cpus]
    asked = "" if analysis.consumption is None else " It feeds the accelerator where its low end reaches the demand with headroom."
    return Chart(
        name="layouts",
        title="Which launches feed it",
        caption=(
            f"Each cell is a launch: the stronger its colour, the higher its predicted rate.{asked} The outlined cell is the "
            "recommended one; numbers between those shown were left out, evenly."
        ),
        panels=tuple(panel for panel in panels if panel is not None),
        table=_table(grid, analysis),
        key=tuple((what, COLORS[what]) for what in ((RUNS, CANNOT) if analysis.consumption is None else (FEEDS, SHORT, CANNOT))),
    )


def _panel(cells: list[Prediction], grid: tuple[Prediction, ...], analysis: Analysis) -> Panel | None:
    # A row in which nothing can run says nothing.
    running = {at.layout.tasks_per_node for at in cells if at.problem is None}
    shown = [at for at in cells if at.layout.tasks_per_node in running]
    if not shown:
        return None
    highest = max(at.samples_per_s.estimate for at in grid)
    rows = [_cell(at, highest, analysis) for at in shown]
    height = CELL_HEIGHT * len(running) + 10
    cpus = cells[0].layout.cpus_per_task
    nodes = sorted({at.layout.nodes for at in shown})
    tasks = sorted(running, reverse=True)
    where = _places(nodes, tasks)
    layers = [_cells(rows, where), *_outlined(rows, where)]
    return Panel(spec=layered(layers, height=height), title=f"{counted(cpus, 'CPU')} per task", height=height + 60)


def _cell(at: Prediction, highest: float, analysis: Analysis) -> dict[str, object]:
    plan = analysis.recommendation
    reaches = feeds(at, analysis)
    what = CANNOT if at.problem is not None else {True: FEEDS, False: SHORT, None: RUNS}[reaches]
    share = at.samples_per_s.estimate / highest if highest > 0 else 0.0
    return {
        "nodes": at.layout.nodes,
        "tasks": at.layout.tasks_per_node,
        "what": what,
        "strength": 1.0 if what == CANNOT else FAINTEST + (1 - FAINTEST) * share,
        "launch": str(at.layout),
        "predicted": MISSING if at.problem is not None else format_estimate(at.samples_per_s),
        "limited by": one_line(at.problem or at.limited_by),
        "is_plan": plan is not None and at.layout == plan.layout,
    }


def _places(nodes: Sequence[int], tasks: Sequence[int]) -> dict[str, Spec]:
    scale = {"paddingInner": 0.06, "paddingOuter": 0.03}
    across = {"title": "nodes", "labelAngle": 0, "domain": False, "ticks": False}
    return {
        "x": field("nodes", "ordinal", sort=[*nodes], scale=scale, axis=across),
        "y": field("tasks", "ordinal", sort=[*tasks], scale=scale, axis={"title": "tasks per node"}),
    }


def _cells(rows: list[dict[str, object]], where: dict[str, Spec]) -> Spec:
    return {
        "data": {"values": rows},
        "mark": {"type": "rect", "cornerRadius": 3},
        "encoding": {
            **where,
            "color": coloured(COLORS),
            "opacity": {"field": "strength", "type": "quantitative", "scale": {"domain": [0, 1], "range": [0, 1]}, "legend": None},
            "tooltip": tooltip("launch", "what", "predicted", "limited by"),
        },
    }


def _outlined(rows: list[dict[str, object]], where: dict[str, Spec]) -> list[Spec]:
    plan = [row for row in rows if row["is_plan"]]
    if not plan:
        return []
    return [
        {
            "data": {"values": plan},
            "mark": {"type": "rect", "fill": None, "stroke": "var(--ink)", "strokeWidth": 2.5, "cornerRadius": 3},
            "encoding": {**where, "tooltip": tooltip("launch", "what", "predicted")},
        }
    ]


def _table(grid: tuple[Prediction, ...], analysis: Analysis) -> Table:
    columns = (
        LAYOUT,
        PREDICTED,
        INTERVAL,
        MEETS,
        Column(name="limited by", meaning="the resource to add for more, or why it cannot run", is_long=True),
    )
    rows = tuple(
        (
            str(at.layout),
            *((MISSING, MISSING) if at.problem is not None else rate_cells(at.samples_per_s)),
            YES_OR_NO[feeds(at, analysis)],
            one_line(at.problem or at.limited_by),
        )
        for at in grid
        # What no node has CPUs for is most of the cube.
        if at.layout.cpus_per_node <= analysis.cluster.cpus_per_node
    )
    return Table(title="Which launches feed it", columns=columns, rows=rows)

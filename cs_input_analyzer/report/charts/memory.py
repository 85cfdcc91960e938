"""Memory of a node, by launch, against what a node has."""

from __future__ import annotations

from dataclasses import dataclass

from cs_input_analyzer.records import Analysis, CapacityModel, Layout
from cs_input_analyzer.report.charts.view import Chart, Panel, Spec, axis, coloured, field, layered, tooltip
from cs_input_analyzer.report.tables import LAYOUT, Column, Table
from cs_input_analyzer.report.wording import one_line
from cs_input_analyzer.units import format_bytes, format_count

BAR_HEIGHT = 38
GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class _Launch:
    name: str
    layout: Layout
    memory_bytes: int


def memory(analysis: Analysis) -> Chart | None:
    launches = _launches(analysis)
    limit = analysis.cluster.memory_bytes_per_node
    if not launches:
        return None
    rows = [row for launch in launches for row in _rows(launch, analysis.capacity)]
    colors = {"private to each task": "var(--supply)", "shared by the tasks of a node": "var(--wait)", "in all": "var(--supply)"}
    used = {what: color for what, color in colors.items() if any(row["what"] == what for row in rows)}
    height = BAR_HEIGHT * len(launches) + 10
    return Chart(
        name="memory",
        title="Memory of a node",
        caption="What the workers of a node hold, by launch (nodes x tasks per node x CPUs per task), and what a node has.",
        panels=(Panel(spec=layered([_bars(rows, used), _limit(limit)], height=height), height=height + 70),),
        table=_table(launches, limit),
        key=tuple(used.items()) if len(used) > 1 else (),
    )


def _launches(analysis: Analysis) -> list[_Launch]:
    """The plan first, then its alternatives, each layout once."""
    plan = analysis.recommendation
    if plan is None:
        return []
    known = [("plan", plan.layout, plan.memory_bytes_per_node)]
    known += [
        ("in use" if other.layout == analysis.options.current else "", other.layout, other.memory_bytes_per_node)
        for other in plan.alternatives
        if other.layout != plan.layout
    ]
    return [_Launch(name=name, layout=layout, memory_bytes=size) for name, layout, size in known if size is not None]


def _rows(launch: _Launch, model: CapacityModel | None) -> list[dict[str, object]]:
    label = f"{launch.layout} ({launch.name})" if launch.name else str(launch.layout)
    common = {"launch": label, "in all": format_bytes(launch.memory_bytes)}
    shared = model.shared_bytes if model is not None else None
    if model is None or model.private_bytes is None or shared is None or not 0 <= shared <= launch.memory_bytes:
        parts = [("in all", launch.memory_bytes, 0)]
    else:
        parts = [("private to each task", launch.memory_bytes - shared, 0), ("shared by the tasks of a node", shared, 1)]
    return [{**common, "what": what, "GiB": size / GIB, "order": order, "size": format_bytes(size)} for what, size, order in parts]


def _bars(rows: list[dict[str, object]], colors: dict[str, str]) -> Spec:
    return {
        "data": {"values": rows},
        "mark": {"type": "bar", "cornerRadius": 2},
        "encoding": {
            "y": field("launch", "nominal", sort=None, axis={"title": None, "labelColor": "var(--ink)", "labelLimit": 220}),
            "x": field("GiB", axis=axis("GiB on each node", ",~r", grid=True), stack="zero"),
            "color": coloured(colors),
            "order": {"field": "order"},
            "tooltip": tooltip("launch", "what", "size", "in all"),
        },
    }


def _limit(limit_bytes: int) -> Spec:
    row = {"limit": limit_bytes / GIB, "label": f"a node has {format_bytes(limit_bytes)}"}
    return {
        "data": {"values": [row]},
        "layer": [
            {
                "mark": {"type": "rule", "color": "var(--bad)", "strokeWidth": 2},
                "encoding": {"x": field("limit"), "tooltip": tooltip("label")},
            },
            {
                "mark": {"type": "text", "align": "right", "baseline": "bottom", "dx": 0, "dy": -3, "color": "var(--bad)"},
                "encoding": {"x": field("limit"), "y": {"value": 0}, "text": {"field": "label"}},
            },
        ],
    }


def _table(launches: list[_Launch], limit_bytes: int) -> Table:
    columns = (
        LAYOUT,
        Column(name="tasks\nper node", meaning="each holds its private memory, the chief too", is_number=True),
        Column(name="memory\nper node", meaning="private memory of every task, and once what they share", is_number=True),
        Column(name="limit", meaning="memory of a node", is_number=True),
        Column(name="note", meaning="which launch this is"),
    )
    rows = tuple(
        (
            str(launch.layout),
            format_count(launch.layout.tasks_per_node),
            format_bytes(launch.memory_bytes),
            format_bytes(limit_bytes),
            one_line(launch.name),
        )
        for launch in launches
    )
    return Table(title="Memory of a node", columns=columns, rows=rows)

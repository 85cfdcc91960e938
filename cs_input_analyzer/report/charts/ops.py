"""Pictures of ops: where the time of a sample goes, and the pipeline as rows.

The pipeline is drawn by the page's own HTML and CSS and not by the chart library: the text stays text on a phone, in print, to a
screen reader and without JavaScript, an op of 500 costs no more than a table row, and each leads to its finding.
"""

from __future__ import annotations

from collections.abc import Mapping

from cs_input_analyzer.planning.curves import FlowRow, flow_rows
from cs_input_analyzer.records import Analysis, OpCost
from cs_input_analyzer.report.charts.view import Chart, Row, axis, coloured, field, layer, panel, time_unit, tooltip
from cs_input_analyzer.report.costs import NEAR_RATIO, op_cost_table
from cs_input_analyzer.report.document import PipelineRow
from cs_input_analyzer.report.tables import bare_rate
from cs_input_analyzer.report.wording import one_line, parameters_text
from cs_input_analyzer.units import format_bytes_per_s, format_count, format_rate, format_ratio, format_seconds

# More bars than these say no more than the table.
MOST_BARS = 18
BAR_HEIGHT = 30
LONGEST_NAME = 34
# Ops that are drawn: a longer pipeline shows the costliest, and counts the others.
MOST_ROWS = 120
# Strands beside each other that have a place of their own.
LAST_LANE = 7


def op_costs(analysis: Analysis) -> Chart | None:
    """CPU and wait of each op, as bars."""
    profile = analysis.profile
    known = [] if profile is None else [op for op in profile.ops if _time_s(op) > 0]
    if profile is None or not known:
        return None
    costliest = sorted(known, key=_time_s, reverse=True)[:MOST_BARS]
    unit_s, unit = time_unit(_time_s(costliest[0]))
    rows = [row for op in known if op in costliest for row in _cost_rows(op, unit_s)]
    colors = {"CPU": "var(--supply)", "CPU of no op": "var(--quiet)", "wait": "var(--wait)"}
    used = {what: color for what, color in colors.items() if any(row["what"] == what for row in rows)}
    bars = layer(
        rows,
        "bar",
        {"cornerRadius": 2},
        y=field("op", "nominal", sort=None, axis={"title": None, "labelLimit": 230, "labelColor": "var(--ink)"}),
        x=field("length", axis=axis(f"{unit} for one sample", ",~r", grid=True), stack="zero"),
        color=coloured(used),
        order={"field": "order"},
        tooltip=tooltip("op", "what", "time", "share of the CPU", "source"),
    )
    left_out = len(known) - len(costliest)
    return Chart(
        name="op-costs",
        title="Cost of each op",
        caption="Time of one sample in each op, in the order in which elements pass: on a CPU, and waiting (CPU, storage, locks).",
        panels=(panel([bars], BAR_HEIGHT * len(costliest), room=50),),
        table=op_cost_table(profile),
        key=tuple(used.items()),
        note=f"The {format_count(left_out)} cheapest ops are in the table only." if left_out else "",
    )


def _time_s(op: OpCost) -> float:
    return max(op.self_cpu_s_per_sample or 0.0, 0.0) + max(op.wait_s_per_sample or 0.0, 0.0)


def _cost_rows(op: OpCost, unit_s: float) -> list[Row]:
    name = one_line(op.name)
    short = name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
    common: Row = {"op": short, "share of the CPU": format_ratio(op.share_ratio), "source": one_line(op.source or "")}
    parts = (("CPU" if op.is_op else "CPU of no op", op.self_cpu_s_per_sample), ("wait", op.wait_s_per_sample))
    return [
        {**common, "what": what, "length": seconds / unit_s, "time": format_seconds(seconds), "order": order}
        for order, (what, seconds) in enumerate(parts)
        if seconds is not None and seconds > 0
    ]


def pipeline_rows(analysis: Analysis, anchors: Mapping[int, str]) -> tuple[tuple[PipelineRow, ...], str]:
    """The rows of the picture, and what was left out. `anchors`: of the findings, by their place among those of the analysis."""
    flow = flow_rows(analysis)
    costliest = sorted(range(len(flow)), key=lambda place: (not flow[place].is_bottleneck, -_cpu_s(flow[place])))
    kept = {0, len(flow) - 1, *costliest[: MOST_ROWS - 2]} if len(flow) > MOST_ROWS else set(range(len(flow)))
    found: dict[str, str] = {}
    for place, finding in enumerate(analysis.findings):
        if finding.op is not None and place in anchors:
            found.setdefault(finding.op, anchors[place])
    first = analysis.stations[0] if analysis.stations else None
    # Where no op is a station near its limit, the one that stands out is only the costliest.
    is_near = first is not None and first.op is not None and first.utilization_ratio >= NEAR_RATIO
    mark = "bottleneck" if is_near else "most CPU time"
    rows = tuple(_row(row, mark, found.get(row.op.name, "")) for place, row in enumerate(flow) if place in kept)
    left_out = f"{format_count(len(rows))} of {format_count(len(flow))} ops are drawn, the costliest among them; the table has all."
    return rows, left_out if len(rows) < len(flow) else ""


def _cpu_s(row: FlowRow) -> float:
    return (row.cost.self_cpu_s_per_sample or 0.0) if row.cost is not None else 0.0


def _row(row: FlowRow, mark: str, finding: str) -> PipelineRow:
    cost = row.cost
    share = cost.share_ratio if cost is not None else None
    spent = cost.self_cpu_s_per_sample if cost is not None else None
    flows = (
        "" if row.elements_per_s is None else format_rate(row.elements_per_s, "elements/s"),
        "" if row.bytes_per_s is None else format_bytes_per_s(row.bytes_per_s),
    )
    parallel = "" if cost is None or cost.parallelism is None else f"× {bare_rate(cost.parallelism)}"
    return PipelineRow(
        name=one_line(row.op.name),
        more=parameters_text(row.op),
        source=one_line(row.op.source or ""),
        parallel="serial" if cost is not None and cost.is_serial else parallel,
        cost="" if spent is None else f"{format_seconds(spent)} a sample, {format_ratio(share)} of the CPU",
        share=None if share is None else round(min(max(share, 0.0), 1.0) * 100, 2),
        edge=", ".join(part for part in flows if part),
        lane=min(row.lane, LAST_LANE),
        lanes=tuple(sorted({min(lane, LAST_LANE) for lane in row.lanes})),
        merges=tuple(lane for lane in row.merges if lane <= LAST_LANE),
        depth=min(row.depth, 4),
        role="bottleneck" if row.is_bottleneck else "waits" if row.waits_for_it else "",
        mark=mark if row.is_bottleneck else "",
        finding=finding,
    )

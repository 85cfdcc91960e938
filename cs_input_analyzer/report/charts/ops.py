"""The picture of where the time of a sample goes, op by op."""

from __future__ import annotations

from cs_input_analyzer.records import Analysis, OpCost
from cs_input_analyzer.report.charts.view import Chart, Panel, Row, axis, coloured, field, layer, time_unit, tooltip
from cs_input_analyzer.report.costs import op_cost_table
from cs_input_analyzer.report.wording import one_line
from cs_input_analyzer.units import format_count, format_ratio, format_seconds

# More bars than these say no more than the table.
MOST_BARS = 18
BAR_HEIGHT = 30
LONGEST_NAME = 34


def op_costs(analysis: Analysis) -> Chart | None:
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
        panels=(Panel(layers=[bars], height=BAR_HEIGHT * len(costliest)),),
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

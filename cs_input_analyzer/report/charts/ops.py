"""The picture of where the time of a sample goes, op by op."""

from __future__ import annotations

from cs_input_analyzer.records import Analysis, OpCost
from cs_input_analyzer.report.charts.view import SECONDS, Chart, Row, axis, coloured, field, layer, tooltip
from cs_input_analyzer.report.wording import one_line
from cs_input_analyzer.units import format_count, format_ratio, format_seconds

# More bars than these say no more than the table.
MOST_BARS = 18
BAR_HEIGHT = 30


def op_costs(analysis: Analysis) -> Chart | None:
    profile = analysis.profile
    known = [] if profile is None else [op for op in profile.ops if _time_s(op) > 0]
    if profile is None or not known:
        return None
    costliest = sorted(known, key=_time_s, reverse=True)[:MOST_BARS]
    rows = [row for op in known if op in costliest for row in _cost_rows(op)]
    colors = {"CPU": "var(--supply)", "CPU of no op": "var(--quiet)", "wait": "var(--wait)"}
    used = {what: color for what, color in colors.items() if any(row["what"] == what for row in rows)}
    bars = layer(
        rows,
        "bar",
        {"cornerRadius": 2},
        y=field("op", "nominal", sort=None, axis={"title": None, "labelLimit": 230, "labelColor": "var(--ink)"}),
        x=field("seconds", axis=axis("time for one sample", SECONDS, grid=True), stack="zero"),
        color=coloured(used),
        order={"field": "order"},
        tooltip=tooltip("op", "what", "time", "share of the CPU", "source"),
    )
    left_out = len(known) - len(costliest)
    return Chart(
        name="op-costs",
        title="Cost of each op",
        caption="Time of one sample in each op, in the order in which elements pass: on a CPU, and waiting (CPU, storage, locks).",
        layers=[bars],
        height=BAR_HEIGHT * len(costliest),
        key=tuple(used.items()),
        note=f"The {format_count(left_out)} cheapest ops are in the table only." if left_out else "",
    )


def _time_s(op: OpCost) -> float:
    return max(op.self_cpu_s_per_sample or 0.0, 0.0) + max(op.wait_s_per_sample or 0.0, 0.0)


def _cost_rows(op: OpCost) -> list[Row]:
    common: Row = {"op": one_line(op.name), "share of the CPU": format_ratio(op.share_ratio), "source": one_line(op.source or "")}
    parts = (("CPU" if op.is_op else "CPU of no op", op.self_cpu_s_per_sample), ("wait", op.wait_s_per_sample))
    return [
        {**common, "what": what, "seconds": seconds, "time": format_seconds(seconds), "order": order}
        for order, (what, seconds) in enumerate(parts)
        if seconds is not None and seconds > 0
    ]

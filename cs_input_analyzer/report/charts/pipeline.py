"""The pipeline as rows: what the page draws its graph of, op by op, with what flows along each edge.

Drawn by the page's own HTML and CSS and not by the chart library: the text stays text on a phone, in print, to a screen reader and
without JavaScript, an op of 500 costs no more than a table row, and each leads to its finding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cs_input_analyzer.planning.curves import FlowRow, flow_rows
from cs_input_analyzer.records import Analysis, Finding
from cs_input_analyzer.report.stations import NEAR_RATIO
from cs_input_analyzer.report.tables import bare_rate
from cs_input_analyzer.report.wording import one_line, parameters_text
from cs_input_analyzer.units import format_bytes_per_s, format_count, format_rate, format_ratio, format_seconds

__all__ = ["PipelineRow", "Shown", "pipeline_rows"]

# Ops that are drawn: a longer pipeline shows those that matter, and counts the others.
MOST_ROWS = 120
# Strands beside each other that have a place of their own.
MOST_LANES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineRow:
    """One op of the picture. `share`: percent of the CPU time, for its bar; `lanes` are strands by place, `merges` end here.

    `mark` says what is special about it; `skipped` counts ops before this one that are not drawn; `finding` is the anchor of what
    was found in this op.
    """

    name: str
    kind: str
    parameters: str
    source: str
    parallel: str
    cost: str
    share: float | None
    edge: str
    lane: int
    lanes: tuple[int, ...]
    merges: tuple[int, ...]
    depth: int
    is_bottleneck: bool
    waits_for_it: bool
    mark: str
    skipped: int
    finding: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The picture. `lanes`: strands side by side at its widest; `note`: what was left out."""

    rows: tuple[PipelineRow, ...]
    lanes: int
    note: str


def pipeline_rows(analysis: Analysis, anchors: Mapping[int, str]) -> Shown:
    """Args: anchors: of the findings, by their place among those of the analysis."""
    flow = flow_rows(analysis)
    keep = _kept(flow)
    found = _anchor_by_op(analysis.findings, anchors)
    rows: list[PipelineRow] = []
    skipped = 0
    for place, row in enumerate(flow):
        if place not in keep:
            skipped += 1
            continue
        mark = _mark(analysis) if row.is_bottleneck else ""
        rows.append(_row(row, mark, skipped, found.get(row.op.name, "")))
        skipped = 0
    left_out = len(flow) - len(rows)
    note = (
        f"{format_count(len(rows))} of {format_count(len(flow))} ops are drawn, the dearest among them; the table has all."
        if left_out
        else ""
    )
    widest = max((lane for row in rows for lane in row.lanes), default=0) + 1
    return Shown(rows=tuple(rows), lanes=min(widest, MOST_LANES), note=note)


def _kept(flow: tuple[FlowRow, ...]) -> set[int]:
    if len(flow) <= MOST_ROWS:
        return set(range(len(flow)))
    ranked = sorted(range(len(flow)), key=lambda place: (not flow[place].is_bottleneck, -_seconds(flow[place])))
    ends = {0, len(flow) - 1}
    return ends | set(ranked[: MOST_ROWS - len(ends)])


def _seconds(row: FlowRow) -> float:
    return (row.cost.self_cpu_s_per_sample or 0.0) if row.cost is not None else 0.0


def _anchor_by_op(findings: tuple[Finding, ...], anchors: Mapping[int, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for place, finding in enumerate(findings):
        if finding.op is not None and place in anchors:
            found.setdefault(finding.op, anchors[place])
    return found


def _row(row: FlowRow, mark: str, skipped: int, finding: str) -> PipelineRow:
    cost = row.cost
    share = cost.share_ratio if cost is not None else None
    return PipelineRow(
        name=one_line(row.op.name),
        kind=one_line(row.op.kind),
        parameters=parameters_text(row.op),
        source=one_line(row.op.source or ""),
        parallel=_parallel(row),
        cost=_cost(row),
        share=None if share is None else round(min(max(share, 0.0), 1.0) * 100, 2),
        edge=_edge(row),
        lane=min(row.lane, MOST_LANES - 1),
        lanes=tuple(sorted({min(lane, MOST_LANES - 1) for lane in row.lanes})),
        merges=tuple(lane for lane in row.merges if lane < MOST_LANES),
        depth=row.depth,
        is_bottleneck=row.is_bottleneck,
        waits_for_it=row.waits_for_it,
        mark=mark,
        skipped=skipped,
        finding=finding,
    )


def _mark(analysis: Analysis) -> str:
    """Where no op is a station near its limit, the one that stands out is only the dearest."""
    first = analysis.stations[0] if analysis.stations else None
    is_near = first is not None and first.op is not None and first.utilization_ratio >= NEAR_RATIO
    return "bottleneck" if is_near else "most CPU time"


def _parallel(row: FlowRow) -> str:
    if row.cost is not None and row.cost.is_serial:
        return "serial"
    if row.cost is not None and row.cost.parallelism is not None:
        return f"× {bare_rate(row.cost.parallelism)}"
    return ""


def _cost(row: FlowRow) -> str:
    if row.cost is None or row.cost.self_cpu_s_per_sample is None:
        return ""
    return f"{format_seconds(row.cost.self_cpu_s_per_sample)} a sample, {format_ratio(row.cost.share_ratio)} of the CPU"


def _edge(row: FlowRow) -> str:
    """What leaves the op, in the worker that was profiled."""
    parts = (
        None if row.elements_per_s is None else format_rate(row.elements_per_s, "elements/s"),
        None if row.bytes_per_s is None else format_bytes_per_s(row.bytes_per_s),
    )
    return ", ".join(part for part in parts if part is not None)

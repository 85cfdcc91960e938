"""The pictures of the page, drawn with characters for the console: the same records and curves, bars and sparklines.

Only lengths of bars are computed here: geometry, not facts. A picture whose numbers are missing, or make no sense (an edited run),
is left out, as on the page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cs_input_analyzer.records import Analysis, Layout, Measurement, OpCost, Prediction
from cs_input_analyzer.report.measuring import shown_measurement
from cs_input_analyzer.report.wording import one_line
from cs_input_analyzer.report.workers import workers_to_show
from cs_input_analyzer.units import counted, format_bytes, format_count, format_estimate, format_rate, format_ratio, format_seconds

__all__ = ["PICTURES", "Picture", "bar", "pictures_of", "sparkline"]

LEVELS = " ▁▂▃▄▅▆▇█"
EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
MARK = "│"
# Rows that a reader compares at a glance.
MOST_LINES = 6
MOST_BARS = 12
# Room at the right end of the bars, so that the longest does not read as "all there is".
MARGIN_RATIO = 1.08
# A curve that goes on for decades above the demand would press all else to the left.
ENOUGH_RATIO = 1.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Rows of label, drawing and text, and what they show."""

    title: str
    caption: str
    rows: tuple[tuple[str, str, str], ...]


def pictures_of(analysis: Analysis, width: int) -> dict[str, Picture]:
    """Every picture that there is something to draw for, by the name that it has on the page; drawings at most `width` wide."""
    import numpy as np

    found: dict[str, Picture] = {}
    for name, draw in PICTURES.items():
        try:
            # What overflows is an error here, and not a warning and an infinite number.
            with np.errstate(all="raise"):
                picture = draw(analysis, width)
        except (ArithmeticError, ValueError, LookupError, TypeError):
            continue
        if picture is not None:
            found[name] = picture
    return found


# --- characters --------------------------------------------------------------------------------------------------------------


def sparkline(values: Sequence[float], width: int) -> str:
    """One character for each value, by its height over zero; means of neighbours where there are more than `width`."""
    step = max(1, -(-len(values) // width))
    means = [sum(chunk) / len(chunk) for chunk in (values[at : at + step] for at in range(0, len(values), step))]
    highest = max(means, default=0.0)
    if highest <= 0:
        return LEVELS[0] * len(means)
    # What is not zero is seen.
    return "".join(LEVELS[0] if mean <= 0 else LEVELS[max(1, round(8 * min(mean / highest, 1.0)))] for mean in means)


def bar(share: float, width: int, mark: float | None = None) -> str:
    """A bar over `share` of the width, to an eighth of a character; a line at `mark`, another share."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    drawn = ("█" * (eighths // 8) + EIGHTHS[eighths % 8]).ljust(width)
    if mark is None:
        return drawn.rstrip()
    at = min(int(min(max(mark, 0.0), 1.0) * width), width - 1)
    return f"{drawn[:at]}{MARK}{drawn[at + 1 :]}".rstrip()


# --- pictures ----------------------------------------------------------------------------------------------------------------


def _supply_demand(analysis: Analysis, width: int) -> Picture | None:
    """Launches with the CPUs of the plan, by rising workers, against the demand."""
    from cs_input_analyzer.planning.curves import feeds, throughput_curve

    plan, curve = analysis.recommendation, throughput_curve(analysis)
    if plan is None or len(curve) < 2:
        return None
    demand = analysis.consumption.samples_per_s.estimate if analysis.consumption is not None else None
    shown = _around(_near(curve, max(plan.predicted_samples_per_s.estimate, demand or 0.0), plan.input_workers), plan.layout)
    widest = max([at.samples_per_s.estimate for at in shown] + ([demand] if demand is not None else [])) * MARGIN_RATIO
    rows = tuple(
        (
            f"{at.layout}{' (plan)' if at.layout == plan.layout else ''}",
            bar(at.samples_per_s.estimate / widest, width, None if demand is None else demand / widest),
            f"{format_estimate(at.samples_per_s)}{', short' if feeds(at, analysis) is False else ''}",
        )
        for at in shown
    )
    line = "" if demand is None else f" The line is the demand, {format_rate(demand)}; short: the low end misses it, with headroom."
    caption = f"Predicted rates of launches with {counted(plan.cpus_per_task, 'CPU')} per task.{line}"
    return Picture(title="Supply against demand", caption=caption, rows=rows)


def _near(curve: Sequence[Prediction], rate: float, workers: int) -> Sequence[Prediction]:
    """The part that matters: up to well above the demand and the plan, and one more, so that it is seen to go on."""
    near = sum(at.samples_per_s.estimate <= ENOUGH_RATIO * rate or at.input_workers <= workers for at in curve)
    return curve[: near + 1]


def _around(curve: Sequence[Prediction], plan: Layout) -> list[Prediction]:
    """At most as many as there is room for: evenly, the plan among them."""
    if len(curve) <= MOST_BARS:
        return list(curve)
    places = {step * (len(curve) - 1) // (MOST_BARS - 2) for step in range(MOST_BARS - 1)}
    return [at for place, at in enumerate(curve) if place in places or at.layout == plan]


def _op_costs(analysis: Analysis, width: int) -> Picture | None:
    """CPU and wait of each op, end to end."""
    profile = analysis.profile
    timed = [] if profile is None else [op for op in profile.ops if _cpu_s(op) + _wait_s(op) > 0]
    if not timed:
        return None
    dearest = sorted(timed, key=lambda op: -_cpu_s(op) - _wait_s(op))[:MOST_BARS]
    widest = max(_cpu_s(op) + _wait_s(op) for op in dearest)
    rows = tuple((one_line(op.name), _cost_bar(op, widest, width), _cost_text(op)) for op in timed if op in dearest)
    left = len(timed) - len(rows)
    more = f" The {format_count(left)} cheapest are in the table only." if left > 0 else ""
    return Picture(title="Cost of each op", caption=f"Time of one sample: CPU █, wait ░.{more}", rows=rows)


def _cpu_s(op: OpCost) -> float:
    return max(op.self_cpu_s_per_sample or 0.0, 0.0)


def _wait_s(op: OpCost) -> float:
    return max(op.wait_s_per_sample or 0.0, 0.0)


def _cost_bar(op: OpCost, widest: float, width: int) -> str:
    whole = round((_cpu_s(op) + _wait_s(op)) / widest * width)
    cpu = min(round(_cpu_s(op) / widest * width), whole)
    return "█" * cpu + "░" * (whole - cpu) or "▏"


def _cost_text(op: OpCost) -> str:
    wait = f", wait {format_seconds(_wait_s(op))}" if _wait_s(op) > 0 else ""
    share = f" ({format_ratio(op.share_ratio)})" if op.share_ratio is not None else ""
    return f"{format_seconds(_cpu_s(op))}{share}{wait}"


def _batch_gaps(analysis: Analysis, width: int) -> Picture | None:
    """How many batches took how long, on a log scale."""
    from cs_input_analyzer.planning.curves import gap_bins, wanted_gap_s

    shown = shown_measurement(analysis)
    gaps = [] if shown is None else [gap for worker in shown.workers for gap in worker.batch_gaps_s]
    bins = gap_bins(gaps)
    if shown is None or not bins:
        return None
    wanted = wanted_gap_s(analysis)
    needed = f" To feed the accelerator, each worker of the plan must give one every {format_seconds(wanted)}." if wanted else ""
    row = (
        f"{format_seconds(bins[0].low_s)} …",
        sparkline([bin.count for bin in bins], max(width, 8)),
        f"… {format_seconds(bins[-1].high_s)}, {format_count(len(gaps))} batches",
    )
    caption = f"Batches of {_whose(shown)} by the time since the one before, log scale.{needed}"
    return Picture(title="Time between batches", caption=caption, rows=(row,))


def _rate_over_time(analysis: Analysis, width: int) -> Picture | None:
    """Each worker's rate through its window."""
    shown = shown_measurement(analysis)
    timed = [] if shown is None else [worker for worker in shown.workers if worker.block_samples_per_s]
    if shown is None or not timed:
        return None
    rows = []
    for worker in workers_to_show(tuple(timed), MOST_LINES):
        rates = worker.block_samples_per_s
        span = f"{format_rate(min(rates), '').strip()} to {format_rate(max(rates))}"
        rows.append((f"worker {worker.index}", sparkline(rates, width), span))
    left = len(timed) - len(rows)
    more = f" {format_count(left)} more workers are not drawn." if left > 0 else ""
    caption = f"Rates of {_whose(shown)} through the window that was kept, each from zero to its highest.{more}"
    return Picture(title="Throughput over time", caption=caption, rows=tuple(rows))


def _whose(measurement: Measurement) -> str:
    count = len(measurement.measured_workers)
    return f"the worker of {measurement.layout}" if count == 1 else f"the {format_count(count)} workers of {measurement.layout}"


def _memory(analysis: Analysis, width: int) -> Picture | None:
    """The plan and its alternatives against what a node has."""
    plan, limit = analysis.recommendation, analysis.cluster.memory_bytes_per_node
    if plan is None or limit <= 0:
        return None
    known = {plan.layout: plan.memory_bytes_per_node}
    known |= {other.layout: other.memory_bytes_per_node for other in plan.alternatives if other.layout != plan.layout}
    sized = [(layout, size) for layout, size in known.items() if size is not None][:MOST_BARS]
    widest = max([limit, *(size for _, size in sized)])
    rows = tuple(
        (
            f"{layout}{' (plan)' if layout == plan.layout else ''}",
            bar(size / widest, width, limit / widest),
            f"{format_bytes(size)}{'' if size <= limit else ', more than a node has'}",
        )
        for layout, size in sized
    )
    caption = f"Memory that the workers of a node hold, by launch. The line is what a node has, {format_bytes(limit)}."
    return Picture(title="Memory of a node", caption=caption, rows=rows) if rows else None


def _timeline(analysis: Analysis, width: int) -> Picture | None:
    """What the accelerator takes from moment to moment, before and after an assumed pause."""
    from cs_input_analyzer.planning.curves import feeding_curve

    shown = shown_measurement(analysis)
    if shown is None or analysis.recommendation is None:
        return None
    curve = feeding_curve(analysis, [worker.batch_gaps_s for worker in shown.workers])
    if curve is None:
        return None
    taken = [point.taken_samples_per_s for point in curve.points]
    wanted = [point.wanted_samples_per_s for point in curve.points]
    highest = max(max(taken), max(wanted))
    rows = tuple(
        (name, sparkline(values, width), f"up to {format_rate(max(values))}")
        for name, values in (("wanted", wanted), ("taken", taken))
    )
    span_s = curve.points[-1].end_s - curve.points[0].begin_s
    caption = (
        f"Measured batches replayed for {format_seconds(span_s)} through buffers of {format_count(curve.depth)} batches; the pause "
        "in the middle is as a checkpoint makes one, its length is assumed."
    )
    return Picture(title="Feeding the accelerator", caption=caption, rows=rows) if highest > 0 else None


def _layouts(analysis: Analysis, width: int) -> Picture | None:
    """Nodes across, tasks per node down, with the CPUs per task of the plan."""
    from cs_input_analyzer.planning.curves import feeds, launch_grid

    plan = analysis.recommendation
    if plan is None:
        return None
    grid = [at for at in launch_grid(analysis) if at.layout.cpus_per_task == plan.cpus_per_task]
    cells = {(at.layout.tasks_per_node, at.layout.nodes): at for at in grid}
    nodes = sorted({at.layout.nodes for at in grid})
    running = sorted({at.layout.tasks_per_node for at in grid if at.problem is None}, reverse=True)
    across = max(len(format_count(node)) for node in nodes) + 1 if nodes else 1
    if not running or across * len(nodes) > width:
        return None

    def drawn(at: Prediction) -> str:
        if at.problem is not None:
            return "·"
        sign = "○" if feeds(at, analysis) is False else "●"
        return f"[{sign}" if at.layout == plan.layout else sign

    rows = [(counted(tasks, "task"), "".join(drawn(cells[tasks, node]).rjust(across) for node in nodes), "") for tasks in running]
    rows.append(("nodes", "".join(format_count(node).rjust(across) for node in nodes), ""))
    meaning = "● can run, · cannot" if analysis.consumption is None else "● feeds the accelerator, ○ falls short, · cannot run"
    caption = f"Launches with {counted(plan.cpus_per_task, 'CPU')} per task, tasks per node over nodes: {meaning}, [ the plan."
    return Picture(title="Which launches feed it", caption=caption, rows=tuple(rows))


PICTURES: dict[str, Callable[[Analysis, int], Picture | None]] = {
    "supply-demand": _supply_demand,
    "op-costs": _op_costs,
    "batch-gaps": _batch_gaps,
    "rate-over-time": _rate_over_time,
    "memory": _memory,
    "timeline": _timeline,
    "layouts": _layouts,
}

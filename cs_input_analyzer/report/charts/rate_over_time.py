"""Throughput over time: the transient that was cut off, and the window that was kept."""

from __future__ import annotations

from cs_input_analyzer.records import Analysis, WorkerResult
from cs_input_analyzer.report.charts.view import Chart, Panel, Spec, axis, field, labelled, layered, rate_form, tooltip
from cs_input_analyzer.report.measuring import shown_measurement
from cs_input_analyzer.report.tables import Column, Table, bare_rate
from cs_input_analyzer.units import format_count, format_estimate, format_rate, format_seconds

HEIGHT = 240
# Lines that the eye can follow.
MOST_LINES = 8


def rate_over_time(analysis: Analysis) -> Chart | None:
    measurement = shown_measurement(analysis)
    if measurement is None:
        return None
    timed = [worker for worker in measurement.workers if worker.block_samples_per_s and worker.steady_state is not None]
    timed = [worker for worker in timed if worker.steady_state is not None and worker.steady_state.window_s > 0]
    if not timed:
        return None
    shown = _spread(timed)
    rows = [row for worker in shown for row in _rows(worker)]
    many, highest = len(timed) > 1, max(max(worker.block_samples_per_s) for worker in shown)
    return Chart(
        name="rate-over-time",
        title="Throughput over time",
        caption=(
            f"{'Each worker' if many else 'The worker'} of {measurement.layout}, from its first batch on. What lies in the shaded "
            "part was cut off: buffers fill and AUTOTUNE searches there (MSER-5). The band is the 90 % interval of the rest."
        ),
        panels=(Panel(spec=layered([_transient(shown), _band(shown), _lines(rows, highest)], height=HEIGHT), height=HEIGHT + 50),),
        table=_table(rows),
        note=_note(len(timed), len(shown)),
    )


def _note(found: int, shown: int) -> str:
    return (
        f"{format_count(shown)} of {format_count(found)} workers are drawn, from the slowest to the fastest."
        if shown < found
        else ""
    )


def _spread(workers: list[WorkerResult]) -> list[WorkerResult]:
    """The slowest, the fastest and as many between them, evenly."""
    if len(workers) <= MOST_LINES:
        return workers
    ranked = sorted(workers, key=lambda worker: worker.samples_per_s.estimate if worker.samples_per_s is not None else 0.0)
    return [ranked[place * (len(ranked) - 1) // (MOST_LINES - 1)] for place in range(MOST_LINES)]


def _rows(worker: WorkerResult) -> list[dict[str, object]]:
    """The blocks of the window, which are of equal length."""
    state, rates = worker.steady_state, worker.block_samples_per_s
    assert state is not None
    length_s = state.window_s / len(rates)
    starts = [state.transient_s + place * length_s for place in range(len(rates))]
    return [
        {
            "worker": f"worker {worker.index}",
            "begin": start,
            "end": start + length_s,
            "middle": start + length_s / 2,
            "rate": rate,
            "time": f"{format_seconds(start)} to {format_seconds(start + length_s)}",
            "samples/s": format_rate(rate),
        }
        for start, rate in zip(starts, rates, strict=True)
    ]


def _transient(workers: list[WorkerResult]) -> Spec:
    """The longest of them: from its end on, every worker is in its window."""
    states = [worker.steady_state for worker in workers if worker.steady_state is not None]
    longest = max(states, key=lambda state: state.transient_s)
    row = {
        "from": 0,
        "to": longest.transient_s,
        "label": "cut off",
        "what": f"{format_seconds(longest.transient_s)}, {format_count(longest.transient_batches)} batches cut off",
    }
    x = field("from", scale={"nice": False, "zero": True}, axis=axis("seconds since iterating began", ",~r"))
    return {
        "data": {"values": [row]},
        "layer": [
            {
                "mark": {"type": "rect", "color": "var(--quiet)", "opacity": 0.2},
                "encoding": {"x": x, "x2": {"field": "to"}, "tooltip": tooltip("what")},
            },
            {"mark": {"type": "rule", "color": "var(--soft)", "strokeDash": [4, 3]}, "encoding": {"x": field("to")}},
            *labelled({"x": x, "y": {"value": 0}}, "var(--soft)", baseline="top", dx=6, dy=4),
        ],
    }


def _band(workers: list[WorkerResult]) -> Spec:
    rows = [
        {
            "begin": worker.steady_state.transient_s,
            "end": worker.steady_state.transient_s + worker.steady_state.window_s,
            "low": worker.samples_per_s.low,
            "high": worker.samples_per_s.high,
            "rate": worker.samples_per_s.estimate,
            "interval": format_estimate(worker.samples_per_s),
        }
        for worker in workers
        if worker.steady_state is not None and worker.samples_per_s is not None
    ]
    x, x2 = field("begin"), {"field": "end"}
    return {
        "data": {"values": rows},
        "layer": [
            {
                "mark": {"type": "rect", "color": "var(--supply)", "opacity": 0.15},
                "encoding": {"x": x, "x2": x2, "y": field("low"), "y2": {"field": "high"}, "tooltip": tooltip("interval")},
            },
            {
                "mark": {"type": "rule", "color": "var(--supply)", "strokeDash": [2, 3], "opacity": 0.8},
                "encoding": {"x": x, "x2": x2, "y": field("rate")},
            },
        ],
    }


def _lines(rows: list[dict[str, object]], highest: float) -> Spec:
    return {
        "data": {"values": rows},
        "mark": {
            "type": "line",
            "color": "var(--supply)",
            "strokeWidth": 1.8,
            "point": {"filled": True, "size": 22, "color": "var(--supply)"},
        },
        "encoding": {
            "x": field("middle"),
            "y": field("rate", axis=axis("samples/s of one worker", rate_form(highest)), scale={"zero": True}),
            "detail": {"field": "worker"},
            "tooltip": tooltip("worker", "time", "samples/s"),
        },
    }


def _table(rows: list[dict[str, object]]) -> Table:
    columns = (
        Column(name="worker", meaning="by its index in TF_CONFIG"),
        Column(name="time", meaning="since iterating began", is_number=True),
        Column(name="samples/s", meaning="rate of that worker in that stretch of its window", is_number=True),
    )
    cells = tuple((str(row["worker"]), str(row["time"]), bare_rate(_number(row["rate"]))) for row in rows)
    return Table(title="Throughput over time", columns=columns, rows=cells)


def _number(value: object) -> float | None:
    return value if isinstance(value, float) else None

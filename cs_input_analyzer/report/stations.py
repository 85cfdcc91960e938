"""What holds one worker back: a sentence about the bottleneck, and the table of every ceiling."""

from __future__ import annotations

from cs_input_analyzer.records import LaunchPlan, Station
from cs_input_analyzer.report.tables import SOURCE, Column, Table, bare_rate
from cs_input_analyzer.report.wording import one_line
from cs_input_analyzer.units import MISSING, counted, format_rate, format_ratio

# A station that is used less is no bottleneck: something that was not looked at holds the worker back, or the host was busy.
NEAR_RATIO = 0.7

MEANINGS = {
    "CPU": "all CPUs of the worker",
    "serial op": "one thread walks through this op and its neighbours",
    "fixed parallelism": "as many calls at a time as the op is told to make",
    "Python (GIL)": "Python functions share the interpreter's lock",
    "readers": "the file reading as it is written, measured alone",
    "storage bandwidth": "the most that the file system gave to any number of streams",
    "storage latency": "so few streams read at a time that each read is waited for",
    "slowest shard": "batches are taken from the workers in turn: all wait for the one with the heaviest shard",
}


def stations_table(stations: tuple[Station, ...]) -> Table:
    """Every ceiling of one worker, the bottleneck first and standing out."""
    columns = (
        Column(name="station", meaning="; ".join(f"{kind}: {meaning}" for kind, meaning in MEANINGS.items())),
        Column(name="op", meaning="the op that is the station, where it is one"),
        Column(name="ceiling,\nsamples/s", meaning="samples per second that it alone would allow one worker", is_number=True),
        Column(name="used", meaning="the measured rate over that ceiling: the bottleneck is near 100 %", is_number=True),
        SOURCE,
    )
    rows = tuple(
        (
            station.kind,
            one_line(station.op or MISSING),
            bare_rate(station.samples_per_s),
            format_ratio(station.utilization_ratio),
            one_line(station.source or MISSING),
        )
        for station in stations
    )
    return Table(title=f"Bottleneck{_whose(stations)}", columns=columns, rows=rows, strong=0 if rows else None)


def bottleneck_sentence(stations: tuple[Station, ...], plan: LaunchPlan | None = None) -> str:
    """What to look at first; empty where no station is known. Workers of the plan with other CPUs have a limit of their own."""
    if not stations:
        return ""
    first = stations[0]
    op = f" `{one_line(first.op)}`" if first.op else ""
    at = f", at {one_line(first.source)}" if first.source else ""
    figures = f"at most {format_rate(first.samples_per_s)}, {format_ratio(first.utilization_ratio)} used{at}"
    named = f"{first.kind}{op} ({MEANINGS[first.kind]}): {figures}"
    if plan is not None and first.layout is not None and first.layout.cpus_per_task != plan.cpus_per_task:
        limit = one_line(plan.limited_by)
        named += f". The plan's workers have {counted(plan.cpus_per_task, 'CPU')} instead, and the plan is limited by {limit}"
    if first.utilization_ratio >= NEAR_RATIO:
        return f"bottleneck: {named}"
    return f"nothing that was looked at is near its limit, or the host was busy with other work; nearest: {named}"


def _whose(stations: tuple[Station, ...]) -> str:
    layout = next((station.layout for station in stations if station.layout is not None), None)
    return f" (one worker of {layout})" if layout is not None else ""

"""What the memory of a worker did while it was sampled for long, read from its journal, whole or not."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np

from cs_input_analyzer.machines.page_cache import evenly
from cs_input_analyzer.records import Layout, Soak, SoakPoint
from cs_input_analyzer.worker.journal import Journal

POINTS = 120
SHORTEST_S = 60.0
# The first quarter fills buffers, imports and warms up; growth is from the moments after it to the last ones.
FILLING_RATIO = 0.25
MOMENTS_RATIO = 0.15
# Memory that grew by less did not: allocators and libraries take and give as much back.
LEAST_BYTES = 32 * 2**20
LEAST_RATIO = 0.02
CAUSE_RATIO = 0.25
LEAST_BLOCKS = 50_000
BLOCK_RATIO = 0.1
PYTHON = "Python"


def soak_of(journal: Journal, layout: Layout, asked_s: float, ended: str) -> Soak | None:
    """None where the worker was not sampled at all. `ended`: why it ended early; empty where it did not."""
    points = _points(journal)
    if not points:
        return None
    seconds = points[-1].at_s
    later = [point for point in points if point.at_s >= FILLING_RATIO * seconds]
    return Soak(
        layout=layout,
        asked_s=asked_s,
        seconds=seconds,
        points=tuple(points[index] for index in evenly(range(len(points)), POINTS)),
        rss_growth_bytes_per_min=_slope_per_min(later) if seconds >= SHORTEST_S else None,
        grown=_grown(later),
        ended=ended,
    )


def _points(journal: Journal) -> list[SoakPoint]:
    """A moment for each chunk, with the buffers as they were read last."""
    found, buffered, began_s = list[SoakPoint](), dict[str, int](), 0.0
    for event in journal.events:
        if event["event"] == "costs":  # a count of bytes can fall below 0
            buffered = {name: max(0, int(counts["buffered_bytes"])) for name, counts in event["seen"].items()}
        if event["event"] not in ("sampling", "chunk") or event["counters"].get("at_s") is None:
            continue
        counters = event["counters"]
        began_s = began_s or counters["at_s"]
        found.append(
            SoakPoint(
                at_s=counters["at_s"] - began_s,
                rss_bytes=counters.get("rss_bytes"),
                python_blocks=counters.get("python_blocks"),
                buffered_bytes=buffered,
            )
        )
    return found


def _slope_per_min(points: Sequence[SoakPoint]) -> float | None:
    """Least squares over the moments whose memory is known."""
    known = [(point.at_s / 60, point.rss_bytes) for point in points if point.rss_bytes is not None]
    if len(known) < 3:
        return None
    at_min, rss_bytes = np.asarray(known, dtype=float).T
    return float(np.polyfit(at_min, rss_bytes, 1)[0])


def _grown(points: Sequence[SoakPoint]) -> str | None:
    count = max(1, round(MOMENTS_RATIO * len(points)))
    first, last = points[:count], points[-count:]
    rss_bytes = [median(point.rss_bytes or 0 for point in some) for some in (first, last)]
    grown = rss_bytes[1] - rss_bytes[0]
    if grown < max(LEAST_BYTES, LEAST_RATIO * rss_bytes[0]):
        return None
    names = dict.fromkeys(name for point in last for name in point.buffered_bytes)
    by_op = {
        name: median(p.buffered_bytes.get(name, 0) for p in last) - median(p.buffered_bytes.get(name, 0) for p in first)
        for name in names
    }
    op = max(by_op, key=lambda name: by_op[name], default=None)
    if op is not None and by_op[op] >= CAUSE_RATIO * grown:
        return op
    blocks = [median(point.python_blocks or 0 for point in some) for some in (first, last)]
    return PYTHON if blocks[1] - blocks[0] >= max(LEAST_BLOCKS, BLOCK_RATIO * blocks[0]) else None

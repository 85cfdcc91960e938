"""What a journal says of memory over a long time, whole or cut off."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cs_input_analyzer.machines.counters import Counters
from cs_input_analyzer.records import Layout, Soak
from cs_input_analyzer.worker.journal import JournalWriter, read_journal
from cs_input_analyzer.worker.soak import POINTS, soak_of

MIB = 2**20
LAYOUT = Layout(nodes=1, tasks_per_node=1, cpus_per_task=2)
COUNTS = {"head": "shuffle", "merged": [], "absent": [], "wall_s": 0.0, "elements": 0, "bytes_in": 0, "bytes_out": 0}


def soaked(
    folder: Path,
    rss: Callable[[float], float],
    buffers: Mapping[str, Callable[[float], float]],
    *,
    blocks: Callable[[float], float] = lambda t: 200_000,
    seconds: float = 600.0,
    ended: str = "",
    **given: Any,
) -> Soak | None:
    """A worker whose memory and buffers follow these functions of the seconds, looked at 200 times."""
    writer = JournalWriter(folder)
    writer.event("built", build_s=0.1, pipeline=None, file_count=None, files=[])
    for at_s in np.linspace(0, seconds, 200):
        seen = {name: COUNTS | {"buffered_elements": 1, "buffered_bytes": int(size(at_s))} for name, size in buffers.items()}
        writer.event("costs", seen=seen, tuned=[], harness_us=None)
        counters = Counters(
            **dict.fromkeys(("cpu_s", "read_bytes", "physical_read_bytes", "run_s", "queued_s", "host_cpu_s", "host_steal_s"), 0),
            rss_bytes=int(rss(at_s)),
            at_s=1000.0 + at_s,
            python_blocks=int(blocks(at_s)),
        )
        writer.chunk(np.arange(3.0), None, counters, at_s)
    if given.get("torn"):
        with (folder / "events.jsonl").open("ab") as file:
            file.write(b'{"event": "chunk", "counters": {"at_')
    return soak_of(read_journal(folder), LAYOUT, 600.0, ended)


def growing(bytes_per_s: float, start: float = 1000 * MIB) -> Callable[[float], float]:
    return lambda t: start + bytes_per_s * t


@pytest.mark.parametrize(
    ("rss", "buffers", "blocks", "grown"),
    [
        (growing(MIB), {"shuffle": growing(0.9 * MIB), "prefetch": growing(0)}, growing(0, 2e5), "shuffle"),
        (growing(MIB), {"shuffle": growing(0), "prefetch": growing(0.5 * MIB)}, growing(0, 2e5), "prefetch"),
        (growing(MIB), {"shuffle": growing(0.01 * MIB)}, growing(5000, 2e5), "Python"),
        (growing(MIB), {"shuffle": growing(0.01 * MIB)}, growing(1, 2e5), None),
        (growing(0), {"shuffle": growing(0.5 * MIB)}, growing(0, 2e5), None),
        (growing(0.01 * MIB), {"shuffle": growing(0.01 * MIB)}, growing(0, 2e5), None),
        (growing(MIB), {}, growing(0, 2e5), None),
    ],
)
def test_what_grew_is_named_where_it_explains_the_memory(
    rss: Any, buffers: Any, blocks: Any, grown: str | None, tmp_path: Path
) -> None:
    soak = soaked(tmp_path, rss, buffers, blocks=blocks)
    assert soak.grown == grown


def test_the_slope_leaves_out_the_fill_of_the_first_quarter(tmp_path: Path) -> None:
    soak = soaked(tmp_path, lambda t: min(t, 100.0) * 10 * MIB + t * MIB / 60, {"shuffle": growing(0)})
    assert soak.rss_growth_bytes_per_min == pytest.approx(MIB, rel=0.01)
    assert len(soak.points) == POINTS
    assert (soak.seconds, soak.asked_s, soak.ended) == (600.0, 600.0, "")


def test_one_that_was_cut_off_keeps_what_it_has(tmp_path: Path) -> None:
    soak = soaked(tmp_path, growing(MIB), {"shuffle": growing(MIB)}, seconds=90.0, ended="interrupted while sampling", torn=True)
    assert (soak.seconds, soak.grown, soak.ended) == (90.0, "shuffle", "interrupted while sampling")
    assert soak.rss_growth_bytes_per_min == pytest.approx(60 * MIB, rel=0.01)


def test_a_short_one_has_no_slope_and_one_without_a_batch_is_none(tmp_path: Path) -> None:
    soak = soaked(tmp_path, growing(MIB), {"shuffle": growing(MIB)}, seconds=30.0)
    assert soak.rss_growth_bytes_per_min is None
    (tmp_path / "none").mkdir()
    JournalWriter(tmp_path / "none").event("loading")
    assert soak_of(read_journal(tmp_path / "none"), LAYOUT, 600.0, "lost") is None

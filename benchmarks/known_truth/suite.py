"""The planted cases, the files they read, and whether an analysis names them."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from benchmarks import slowfs
from cs_input_analyzer.records import Analysis, StationKind

RECORD_BYTES = 4096
HEAVY_RATIO = 4
CPUS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One planted bottleneck.

    Attributes:
        function: of `benchmarks.known_truth.pipelines`.
        planted: what must be named first; `op`: at which op, where it is one.
        records: of each of the `files`; the first file's are longer where `is_skewed`.
        slow: how slow the file system is (arguments of `slowfs.mounted`); empty for this host's own.
    """

    name: str
    function: str
    planted: StationKind
    op: str | None = None
    files: int = 8
    records: int = 512
    is_skewed: bool = False
    slow: Mapping[str, float] = field(default_factory=dict)

    @property
    def target(self) -> str:
        return f"benchmarks.known_truth.pipelines:{self.function}"


CASES = (
    Case(name="heavy parallel map", function="cpu", planted="CPU"),
    Case(name="serial map", function="serial", planted="serial op", op="map"),
    Case(name="one call at a time", function="one_call", planted="fixed parallelism", op="map"),
    Case(name="two calls that wait", function="two_waiting_calls", planted="fixed parallelism", op="map"),
    Case(
        name="sequential reads, slow to answer",
        function="one_file_after_the_other",
        planted="storage latency",
        op="flat_map",
        files=32,
        slow={"read_latency_s": 0.004},
    ),
    Case(
        name="narrow file system",
        function="many_files_at_once",
        planted="storage bandwidth",
        files=32,
        slow={"bytes_per_s": 40e6},
    ),
    Case(name="Python in parallel", function="python", planted="Python (GIL)", op="map"),
    Case(name="one heavy file of four", function="sharded", planted="slowest shard", files=4, is_skewed=True),
    Case(name="balanced control", function="balanced", planted="CPU"),
)


@contextlib.contextmanager
def files_of(case: Case) -> Iterator[dict[str, Any]]:
    """Write the case's files, mount its file system, and yield the params of its input function."""
    from sample_pipelines.tfrecords import write_files

    with tempfile.TemporaryDirectory(prefix="known_truth_") as folder, contextlib.ExitStack() as mounts:
        light, heavy = os.urandom(RECORD_BYTES), os.urandom(RECORD_BYTES * HEAVY_RATIO)
        first = repeat(heavy if case.is_skewed else light, case.records)
        write_files(Path(folder), chain(first, repeat(light)), (case.records,) * case.files)
        place = mounts.enter_context(slowfs.mounted(folder, **case.slow)) if case.slow else folder
        yield {"files": f"{place}/*.tfrecord"}


def is_named_first(case: Case, analysis: Analysis) -> bool:
    if not analysis.stations:
        return False
    first = analysis.stations[0]
    return first.kind == case.planted and (case.op is None or first.op == case.op)

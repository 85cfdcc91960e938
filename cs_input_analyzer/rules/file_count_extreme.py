"""All data in one huge file, or in thousands of tiny ones.

One file is read by one thread from front to end: no `interleave` can read several places at a time, no shuffle of files mixes
it, and workers cannot divide it. Tiny files cost an open, a look-up of the name and a first wait each; over a network that is a
millisecond or several, in which a file of a megabyte could have been read, and the metadata server of a shared file system
serves all nodes.

Fix: records in files of 100 to 200 MB, and some multiple of the number of workers of them.

A warning where reading was measured to hold the worker back, or where files of 64 KiB or less were not measured; else for your
information.

Silent for other sizes, and where there are fewer files than workers that divide them (CSI301 is about that).
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.pipeline.threads import reader_ops
from cs_input_analyzer.planning.evidence import READING, bottleneck, workers_of
from cs_input_analyzer.records import Case, FileSet, Finding, Storage
from cs_input_analyzer.units import format_bytes, format_count, format_ratio

HUGE_BYTES = 256 * 2**20
MANY = 1000
SMALL_BYTES = 2**20
TINY_BYTES = 64 * 2**10
GOOD_BYTES = 128 * 2**20


def find(case: Case) -> Iterator[Finding]:
    files, workers = case.pipeline.files, workers_of(case)
    if files is None or (case.is_sharded and workers is not None and workers > files.count):
        return
    mean = files.bytes / files.count
    is_tiny = files.count >= MANY and mean <= SMALL_BYTES
    if not is_tiny and not (files.count == 1 and files.bytes >= HUGE_BYTES):
        return
    is_measured = bool(case.stations)
    is_slow = bottleneck(case, READING) is not None
    is_bad = is_slow or (is_tiny and mean <= TINY_BYTES and not is_measured)
    reader = next(iter(reader_ops(case.pipeline.ops)), None)
    waiting = _waiting_ratio(mean, case.storage) if is_tiny else None
    wait = f": {format_ratio(waiting)} of the reading is waiting for the next file to open" if waiting is not None else ""
    message = f"{format_count(files.count)} files of {format_bytes(mean)} each{wait}" if is_tiny else _huge(files)
    yield Finding(
        severity="warning" if is_bad else "info",
        message=message,
        op=reader.name if reader else None,
        evidence={"files": files.count, "mean_bytes": mean, "waiting_ratio": waiting, "workers": workers},
        fix=f"write the data into {_target(files, workers)} files or so",
    )


def _huge(files: FileSet) -> str:
    return f"one file holds all {format_bytes(files.bytes)}: one thread reads it, and workers cannot divide it"


def _target(files: FileSet, workers: int | None) -> int:
    """Files of about 128 MiB, but at least four for each worker."""
    return max(-(-files.bytes // GOOD_BYTES), 4 * (workers or 1), 1)


def _waiting_ratio(mean_bytes: float, storage: Storage | None) -> float | None:
    """Share of one reader's time that passes before the first byte of a file; None where the storage was not measured."""
    alone = next((read for read in storage.reads if read.streams == 1), None) if storage is not None else None
    if alone is None or alone.bytes_per_s <= 0:
        return None
    return alone.latency_s / (alone.latency_s + mean_bytes / alone.bytes_per_s)

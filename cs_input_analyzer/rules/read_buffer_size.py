"""Records are read through a buffer that is too small for this file system.

A reader asks for one buffer at a time and waits for it. A small one means many system calls (at 1 KiB, reading from memory
takes twice as long), and over a network many round trips: with a buffer of b bytes and a latency of t seconds, one stream gets
at most b / t. TensorFlow's own is 256 KiB, right for local disks; where a read takes ten milliseconds that is 26 MB/s.

Fix: leave `buffer_size` out of `TFRecordDataset` on local disks; several MiB where the file system answers slowly.

A warning for a buffer of 4 KiB or less, or where reading holds the worker back; for your information for other small buffers.

Silent from 64 KiB on, and for the default, unless reading was measured to hold the worker back and a read to take 5 ms or more; and
where a whole file fits into the buffer, of which a larger one would hold no more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from cs_input_analyzer.pipeline.edits import source_change
from cs_input_analyzer.pipeline.edits.set_buffer import DEFAULT_BYTES
from cs_input_analyzer.pipeline.op_kinds import kinds_with
from cs_input_analyzer.planning.evidence import READING, bottleneck
from cs_input_analyzer.records import Case, Edit, Finding, Storage
from cs_input_analyzer.units import format_bytes, format_seconds

READERS = kinds_with("reads-list")
TINY_BYTES = 4 * 2**10
SMALL_BYTES = 64 * 2**10
SLOW_S = 0.005
MOST_BYTES = 16 * 2**20


def find(case: Case) -> Iterator[Finding]:
    latency_s = _latency_s(case.storage)
    is_waiting = bottleneck(case, READING) is not None
    is_slow = is_waiting and latency_s is not None and latency_s >= SLOW_S
    for op in case.pipeline.ops:
        given = op.parameters.get("buffer_size")
        # TensorFlow writes -1, here `AUTOTUNE`, for the default.
        size = given if isinstance(given, int) and not isinstance(given, bool) else DEFAULT_BYTES
        is_small = size < SMALL_BYTES
        if op.kind not in READERS or size >= _file_bytes(case) or not (is_small or (is_slow and size < MOST_BYTES // 4)):
            continue
        better = _better(case.storage) if is_slow else DEFAULT_BYTES
        if better <= size:
            continue
        slowly = f", and a read takes {format_seconds(latency_s)} here" if is_slow else ""
        edits = (Edit(kind="set-buffer", op=op.name, value=better),)
        after = source_change(edits, case.pipeline.ops)
        yield Finding(
            severity="warning" if size <= TINY_BYTES or is_waiting else "info",
            message=f"files are read {format_bytes(size) if size else 'a record'} at a time{slowly}",
            op=op.name,
            evidence={"buffer_size": size, "latency_s": latency_s, "is_reading_the_bottleneck": is_waiting},
            fix=f"read with a buffer of {format_bytes(better)}",
            before=op.code if after else None,
            after=after,
            edits=edits if op.kind == "TFRecord" else (),
        )


def _file_bytes(case: Case) -> float:
    """Of a file, on average; endless where that is not known."""
    files = case.pipeline.files
    return files.bytes / files.count if files is not None and files.count and files.bytes else math.inf


def _latency_s(storage: Storage | None) -> float | None:
    return max((read.latency_s for read in storage.reads), default=None) if storage is not None else None


def _better(storage: Storage | None) -> int:
    """What one stream can receive in twice the latency, as a power of two from 1 MiB to 16 MiB."""
    reads = storage.reads if storage is not None else ()
    wanted = max((2 * read.latency_s * read.bytes_per_s / read.streams for read in reads), default=0.0)
    size = 2**20
    while size < min(wanted, MOST_BYTES):
        size *= 2
    return size

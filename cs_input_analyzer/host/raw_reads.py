"""Read files with several threads at once, as record readers do, without TensorFlow and without parsing.

Each stream reads one piece of a file after another, 256 KiB at a time. No byte is read twice. The window closes when the first
stream finds nothing left, so that all streams were busy throughout. Python's `preadv` releases the interpreter's lock.
"""

from __future__ import annotations

import collections
import csv
import io
import math
import os
import statistics
import threading
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from cs_input_analyzer.host.page_cache import opened
from cs_input_analyzer.records import CacheChoice, ReadRate

READ_BYTES = 256 * 1024  # TFRecordDataset and TextLineDataset ask for this without a buffer size of the user
SMALLEST_PIECE_BYTES = 4 * READ_BYTES
LARGEST_PIECE_BYTES = 64 << 20
PIECE_STEP_BYTES = 4 << 20
# The number of files whose beginnings stand for the others.
LOOKED_AT = 8
# A read that takes longer than this past its window hangs. Its thread is left behind, because nobody can end it.
HANG_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Name a part of a file that one stream reads at a time."""

    path: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Hold the result of `streams` readers. `rate` is None if they read nothing; `read` is in the cache now."""

    rate: ReadRate | None
    read: tuple[Piece, ...]
    hangs: bool


@dataclass(slots=True, kw_only=True)
class _Stream:
    """Hold the result of one reader. Only its thread writes here. `firsts`: seconds and bytes of the first reads of its pieces."""

    bytes: int = 0
    firsts: list[tuple[float, int]] = field(default_factory=list)
    read: list[Piece] = field(default_factory=list)
    ended_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Describe the beginnings of some files.

    Attributes:
        packed_ratio: bytes of file for each byte of content; 1 if the files are not compressed.
        line_bytes: bytes of file for each line, or for each record of several lines in quotes.
    """

    packed_ratio: float
    line_bytes: float | None


def look_into(paths: Sequence[str]) -> Look | None:
    """Look at the beginnings of at most `LOOKED_AT` of the files, spread over all. Return None if none can be read."""
    packed = unpacked = whole = lines = 0
    for path in paths[:: max(1, -(-len(paths) // LOOKED_AT))]:
        try:
            with open(path, "rb") as file:
                raw = file.read(READ_BYTES)
        except OSError:
            continue
        content = _unpacked(raw)
        packed, unpacked = packed + len(raw), unpacked + len(content)
        ended = content[: content.rfind(b"\n") + 1].decode(errors="replace")
        try:
            lines += sum(1 for _ in csv.reader(io.StringIO(ended, newline="")))
            whole += len(ended.encode())
        except csv.Error:
            continue
    if not unpacked:
        return None
    return Look(packed_ratio=packed / unpacked, line_bytes=whole / lines * packed / unpacked if lines else None)


def _unpacked(raw: bytes) -> bytes:
    """Return the content of the beginning of a file: unpacked if it is gzip, of one or more members, or zlib."""
    parts: list[bytes] = []
    left = raw
    while left:
        member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # gzip or zlib, as the header says
        try:
            parts.append(member.decompress(left))
        except zlib.error:  # not packed, or something else behind the last member
            break
        left = member.unused_data
    return b"".join(parts) if parts else raw


def pieces_of(sizes: Mapping[str, int], most_streams: int) -> tuple[Piece, ...]:
    """Cut files (path -> bytes) into pieces for the streams.

    The first piece of every file comes first, then the second of every file, and so on.

    So streams read different files, like those of an interleave, while there are as many files as streams.
    """
    wanted = sum(sizes.values()) // (4 * max(1, most_streams))
    wanted = wanted // PIECE_STEP_BYTES * PIECE_STEP_BYTES or wanted // READ_BYTES * READ_BYTES
    length = min(LARGEST_PIECE_BYTES, max(SMALLEST_PIECE_BYTES, wanted))
    pieces = [
        Piece(path=path, offset=offset, length=min(length, size - offset))
        for path, size in sizes.items()
        for offset in range(0, size, length)
    ]
    return tuple(sorted(pieces, key=lambda piece: piece.offset))


def read_window(pieces: Sequence[Piece], streams: int, seconds: float, state: CacheChoice) -> Window:
    """Read with `streams` threads until the time or the data end. Skip files that are gone, shortened or forbidden."""
    if not 0 < streams <= len(pieces):
        return Window(rate=None, read=(), hangs=False)
    left = collections.deque(pieces)
    go, over = threading.Event(), threading.Event()
    records = [_Stream() for _ in range(streams)]
    end_s = math.inf

    def stream(record: _Stream) -> None:
        go.wait()
        while not over.is_set() and time.monotonic() < end_s:
            try:
                piece = left.popleft()
            except IndexError:  # nothing is left
                break
            _read_piece(piece, record, lambda: over.is_set() or time.monotonic() >= end_s)
        over.set()
        record.ended_s = time.monotonic()

    threads = [threading.Thread(target=stream, args=(record,), daemon=True) for record in records]
    for thread in threads:
        thread.start()
    began_s = time.monotonic()
    end_s = began_s + seconds
    go.set()
    for thread in threads:
        thread.join(max(0.0, seconds + HANG_S - (time.monotonic() - began_s)))
    over.set()
    hangs = any(record.ended_s is None for record in records)
    ended_s = time.monotonic() if hangs else max(record.ended_s or began_s for record in records)
    read = tuple(piece for record in records for piece in tuple(record.read))
    return Window(rate=_rate(records, streams, ended_s - began_s, state), read=read, hangs=hangs)


def _read_piece(piece: Piece, record: _Stream, is_over: Callable[[], bool]) -> None:
    done, buffer = 0, memoryview(bytearray(READ_BYTES))
    with suppress(OSError), opened(piece.path) as file:
        while file is not None and done < piece.length and not is_over():
            began_s = time.monotonic()
            count = os.preadv(file.fd, [buffer[: piece.length - done]], piece.offset + done)
            if not count:  # the file has become shorter
                break
            if not done:
                record.firsts.append((time.monotonic() - began_s, count))
            record.bytes += count
            done += count
    if done:
        record.read.append(replace(piece, length=done))


def _rate(records: Sequence[_Stream], streams: int, elapsed_s: float, state: CacheChoice) -> ReadRate | None:
    """Return the rate. Its latency is that of the first reads of pieces: read-ahead has mostly fetched the later ones."""
    firsts = [first for record in records for first in tuple(record.firsts)]
    if not firsts or elapsed_s <= 0:
        return None
    return ReadRate(
        streams=streams,
        cache_state=state,
        bytes_per_s=sum(record.bytes for record in records) / elapsed_s,
        latency_s=statistics.median(seconds for seconds, _ in firsts),
        read_bytes=int(statistics.median(size for _, size in firsts)),
    )

"""Measure the file system under the pipeline, without TensorFlow: its type, what is cached, how fast it reads at 1, 2, 4… streams.

Before a cold window the pipeline's own files are dropped from this host's cache. Each window "as is" reads other data, and drops
again what it brought in, so that the cache stays as it was.
"""

from __future__ import annotations

import os
import stat
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from cs_input_analyzer.host.mounts import file_system_of
from cs_input_analyzer.host.page_cache import THREADS, drop, evenly, evict, is_absent
from cs_input_analyzer.host.raw_reads import Piece, pieces_of, read_window
from cs_input_analyzer.records import CacheChoice, ReadRate, Storage

STREAMS = (1, 2, 4, 8)
PROBED_FILES = 1024
# From here on each cold window has its own data: the file server may still hold those of the previous window.
OWN_DATA_BYTES = 1 << 30
MIN_WINDOW_S = 0.05
MAX_WINDOW_S = 0.5


def probe_storage(
    paths: Sequence[str],
    *,
    cache: CacheChoice,
    dataset_bytes: int,
    seconds: float,
    streams: Sequence[int] = STREAMS,
) -> Storage | None:
    """Measure the storage of these files within `seconds`, or little more. Return None if none of them can be read.

    The reads hold, by number of streams, the bytes per second of all streams together, and the median seconds of an unprepared
    read. There are none for `warm` files, which come out of memory. They are called `as-is` if the cache could not be emptied. A
    number of streams with too little data or time is left out. Bad files are skipped.

    Only `cache="cold"` empties the cache, of these files alone, and leaves it empty.
    """
    sizes = _sizes(evenly(paths, PROBED_FILES))
    if not sizes:
        return None
    began_s = time.monotonic()
    deadline_s = began_s + seconds
    evicted = evict(paths, deadline_s=began_s + seconds / 2) if cache == "cold" else None
    pieces = pieces_of(sizes, max(streams, default=1))
    seconds_each = min(MAX_WINDOW_S, max(MIN_WINDOW_S, (deadline_s - time.monotonic()) / max(1, len(streams))))
    reads: tuple[ReadRate, ...] = ()
    if cache != "warm":
        reads = _rates(pieces, cache, streams, seconds_each, deadline_s)
    folders = Counter(os.path.dirname(os.path.abspath(path)) for path in sizes)
    file_system, is_shared = file_system_of(folders.most_common(1)[0][0])
    return Storage(
        directory=os.path.commonpath(list(folders)),
        file_system=file_system,
        is_shared=is_shared,
        dataset_bytes=dataset_bytes,
        cached_ratio=None,
        evicted=evicted,
        reads=reads,
    )


def _rates(
    pieces: tuple[Piece, ...],
    cache: CacheChoice,
    streams: Sequence[int],
    seconds_each: float,
    deadline_s: float,
) -> tuple[ReadRate, ...]:
    """Return the rates, from one window for each number of streams.

    Cold windows begin with their files out of the cache, and leave it so. The others keep the cache as it was: each has its own
    data, and drops again what was not cached.
    """
    is_cold = cache == "cold"
    absent = dict.fromkeys(pieces, False) if is_cold else _looked_at(pieces, deadline_s)
    lengths = {(piece.path, piece.offset): piece.length for piece, is_absent_now in absent.items() if is_absent_now}
    rates: list[ReadRate] = []
    touched: list[tuple[str, int, int]] = []
    for count, part in zip(streams, _dealt(tuple(absent), streams, is_own=not is_cold), strict=True):
        if time.monotonic() >= deadline_s:
            break
        is_evicted = is_cold and evict([piece.path for piece in part], deadline_s=deadline_s) is not False
        window = read_window(part, count, seconds_each, "cold" if is_evicted else "as-is")
        places = [(piece.path, piece.offset) for piece in window.read]
        touched += [(*known, lengths[known]) for known in places if known in lengths]
        for place in touched:
            drop(*place)
        if window.rate is not None:
            rates.append(window.rate)
        if window.hangs:
            return tuple(rates)
    for place in touched:  # read-ahead that was still on its way
        drop(*place)
    if is_cold:  # the windows filled it, and the next measurement wants a cold cache
        evict([piece.path for piece in pieces])
    return tuple(rates)


def _looked_at(pieces: Sequence[Piece], deadline_s: float) -> dict[Piece, bool]:
    """Return which pieces are not in the cache. Looking takes at most half of the time; unseen pieces are left out."""
    now_s = time.monotonic()
    half_s = now_s + (deadline_s - now_s) / 2

    def look(piece: Piece) -> bool | None:
        return None if time.monotonic() >= half_s else is_absent(piece.path, piece.offset, piece.length)

    with ThreadPoolExecutor(THREADS) as pool:
        return {piece: found for piece, found in zip(pieces, pool.map(look, pieces), strict=True) if found is not None}


def _dealt(pieces: tuple[Piece, ...], streams: Sequence[int], *, is_own: bool) -> list[tuple[Piece, ...]]:
    """Return the pieces for each window: its own if asked for or if that costs nothing, else all pieces for each."""
    windows = len(streams)
    if not is_own and sum(piece.length for piece in pieces) < windows * OWN_DATA_BYTES:
        return [pieces] * windows
    files = {path: number for number, path in enumerate(dict.fromkeys(piece.path for piece in pieces))}
    if len(files) >= windows * max(streams, default=1):  # whole files: read-ahead past a piece then stays within the window
        return [tuple(piece for piece in pieces if files[piece.path] % windows == window) for window in range(windows)]
    return [pieces[window::windows] for window in range(windows)]


def _sizes(paths: Iterable[str]) -> dict[str, int]:
    """Return the sizes of files that are not empty and that we may read."""
    found = {}
    for path in paths:
        with suppress(OSError, ValueError):  # a NUL in the name is a ValueError
            status = os.stat(path)
            if stat.S_ISREG(status.st_mode) and status.st_size and os.access(path, os.R_OK, effective_ids=True):
                found[path] = status.st_size
    return found

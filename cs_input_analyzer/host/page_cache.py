"""Measure which part of the pipeline's files is in this host's page cache, and empty or fill it.

Other files stay untouched, and nobody needs to be root.

`mincore`, asked about a mapping of a file, answers only the owner of the file and those who may write it. Since Linux 5.2 it tells
all others that every page is there, to hide the reads of others. So it is not asked about the files of others; None
means "the kernel does not tell".

`posix_fadvise` empties the cache of this host only. A file server keeps its own, which nothing here can reach.
"""

from __future__ import annotations

import ctypes
import functools
import math
import mmap
import os
import random
import stat
import time
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

Item = TypeVar("Item", bound=Hashable)

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Above these a sample is asked about. Opening a file over a network takes a millisecond, walking cached pages 15 ms a gigabyte.
SAMPLED_FILES = 2000
SAMPLED_BYTES = 4 << 30
RANGE_BYTES = 1 << 20
MIN_RANGES = 16
# The part that may be left in an empty cache: pages that another process maps, or is reading right now.
EMPTY_RATIO = 0.02
# Looking at a file mostly waits for it to open. Over a network that takes a while, but many can open side by side.
THREADS = 8


def cached_ratio(paths: Sequence[str], *, deadline_s: float = math.inf) -> float | None:
    """Return the share (0 to 1) of the bytes of these files in this host's page cache. Read none of them.

    For many or large files an even sample is asked about: `SAMPLED_FILES` files, `SAMPLED_BYTES` bytes. Return None if the kernel
    does not tell about at least half of the sample, if no file can be opened, or if all are empty.
    """
    chosen = evenly(paths, SAMPLED_FILES)
    random.Random(len(chosen)).shuffle(chosen)  # the part that a deadline leaves is still an even sample
    ranges = max(MIN_RANGES, SAMPLED_BYTES // RANGE_BYTES // max(1, len(chosen)))

    def look(path: str) -> tuple[int, float | None] | None:
        if time.monotonic() >= deadline_s:
            return None
        with opened(path) as file:
            return None if file is None else (file.size_bytes, _file_ratio(file, ranges))

    with ThreadPoolExecutor(THREADS) as pool:
        seen = [found for found in pool.map(look, chosen) if found is not None]
    size_bytes = sum(size for size, _ in seen)
    told = [(size, ratio) for size, ratio in seen if ratio is not None]
    told_bytes = sum(size for size, _ in told)
    if not told_bytes or told_bytes * 2 < size_bytes:
        return None
    return sum(size * ratio for size, ratio in told) / told_bytes


def cached_bytes(fd: int, offset: int, length: int) -> int | None:
    """Return how many of `length` bytes from `offset` (a multiple of the page size) are cached; None if unknown."""
    pages = _pages(fd, offset, length) if _is_told(fd) else None
    return None if pages is None else min(pages * PAGE_BYTES, length)


def evict(paths: Sequence[str], *, deadline_s: float = math.inf) -> bool | None:
    """Drop these files, and no others, from this host's page cache.

    Return whether they are out of it, as far as they can be opened; None if the kernel does not tell.
    """
    unique = tuple(dict.fromkeys(paths))

    def reach(path: str) -> bool:
        if time.monotonic() >= deadline_s:
            return False
        drop(path)
        return True

    with ThreadPoolExecutor(THREADS) as pool:
        is_reached = all(list(pool.map(reach, unique)))
    left_ratio = cached_ratio(unique, deadline_s=deadline_s)
    return False if not is_reached else None if left_ratio is None else left_ratio <= EMPTY_RATIO


def warm(paths: Sequence[str], deadline_s: float) -> None:
    """Read these files once, in their order, until the deadline. Data larger than the memory do not stay."""

    def read(path: str) -> None:
        with opened(path) as file:
            if file is None:
                return
            buffer = bytearray(min(RANGE_BYTES, max(1, file.size_bytes)))
            offset = 0
            try:
                while time.monotonic() < deadline_s and (count := os.preadv(file.fd, [buffer], offset)):
                    offset += count
            except OSError:
                return

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(read, dict.fromkeys(paths)))


def is_absent(path: str, offset: int, length: int) -> bool:
    """Return whether less than half of this part of a file is cached; False if the kernel does not tell."""
    with opened(path) as file:
        cached = None if file is None else cached_bytes(file.fd, offset, length)
    return cached is not None and cached * 2 < length


def drop(path: str, offset: int = 0, length: int = 0) -> None:
    """Drop this part of a file from the cache; with no length, all from there on."""
    with opened(path) as file:
        if file is None:
            return
        with suppress(OSError):  # a read-only mount has no dirty pages, which are not dropped
            os.fsync(file.fd)
        with suppress(OSError):
            os.posix_fadvise(file.fd, offset, length, os.POSIX_FADV_DONTNEED)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFile:
    """Hold an open regular file and its size."""

    fd: int
    size_bytes: int


@contextmanager
def opened(path: str) -> Iterator[OpenFile | None]:
    """Open a regular file for reading; yield None if there is none, or no permission. Never wait for a pipe's writer."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError):  # a NUL in the name is a ValueError
        yield None
        return
    try:
        status = os.fstat(fd)
        yield OpenFile(fd=fd, size_bytes=status.st_size) if stat.S_ISREG(status.st_mode) else None
    finally:
        os.close(fd)


def evenly(items: Sequence[Item], count: int) -> list[Item]:
    """Return at most `count` of the items, at equal distances; each once."""
    unique = list(dict.fromkeys(items))
    if len(unique) <= count:
        return unique
    return [unique[index * len(unique) // count] for index in range(count)]


def _file_ratio(file: OpenFile, ranges: int) -> float | None:
    """Return the cached share of one file, from `ranges` even ranges if it is larger; None if unknown or empty."""
    if file.size_bytes <= ranges * RANGE_BYTES:
        spans = [(0, file.size_bytes)] if file.size_bytes else []
    else:
        step = file.size_bytes / ranges
        middles = (int(step * (index + 0.5)) - RANGE_BYTES // 2 for index in range(ranges))
        spans = [(max(0, middle) // PAGE_BYTES * PAGE_BYTES, RANGE_BYTES) for middle in middles]
    found = 0
    for offset, length in spans:
        cached = cached_bytes(file.fd, offset, length)
        if cached is None:
            return None
        found += cached
    asked = sum(length for _, length in spans)
    return found / asked if asked else None


@functools.cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    return libc


def _is_told(fd: int) -> bool:
    """Return whether the kernel tells: its own rule (`can_do_mincore`) wants the owner of a file, or one who may write it."""
    try:
        return os.fstat(fd).st_uid == os.geteuid() or os.access(f"/proc/self/fd/{fd}", os.W_OK, effective_ids=True)
    except OSError:
        return False


def _pages(fd: int, offset: int, length: int) -> int | None:
    begin = offset // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
    try:
        mapped = mmap.mmap(fd, offset + length - begin, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ, offset=begin)
    except (OSError, ValueError):  # no mapping on this file system; or the file has become shorter
        return None
    with mapped:
        view = np.frombuffer(mapped, np.uint8)
        pages = np.zeros(-(-len(view) // PAGE_BYTES), np.uint8)
        status = _libc().mincore(view.ctypes.data, len(view), pages.ctypes.data)
        del view  # a mapping that is still looked at cannot be closed
    skipped = (offset - begin) // PAGE_BYTES
    return int(np.count_nonzero(pages[skipped:] & 1)) if status == 0 else None

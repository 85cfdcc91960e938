"""Bytes of a log -> the few lines worth parsing, in one pass and in constant memory.

Lines end at a newline or at a carriage return (progress bars). Looking for a fixed word in a block of bytes takes a third of a
nanosecond a byte, cutting the block into lines and asking each of them thirty times that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

LONGEST_LINE = 4096
"""Bytes of a line that are looked at, before and behind the word that was found."""

READ_WHOLE = 20_000
"""Lines of interest that are all read. A log with more is a sample beyond: the first lines of each block, in one piece."""

LINES_PER_BLOCK = 8
"""Of each kind, once that many were read."""


@dataclass(slots=True)
class Scanned:
    """What went through: filled while the lines are taken."""

    size_bytes: int = 0
    lines: int = 0
    is_sampled: bool = False


def lines_with(needles: tuple[bytes, ...], blocks: Iterable[bytes], scanned: Scanned) -> Iterator[bytes]:
    """Every line that holds a needle, once, without its ending, in the order of the file; the last one even if it has no ending."""
    rest = b""
    for block in blocks:
        scanned.size_bytes += len(block)
        held = rest + block
        end = max(held.rfind(b"\n"), held.rfind(b"\r")) + 1
        rest = held[end:][-LONGEST_LINE:]
        if end:
            yield from _in_block(needles, held[:end], scanned)
    if rest:
        yield from _in_block(needles, rest, scanned)


def _in_block(needles: tuple[bytes, ...], block: bytes, scanned: Scanned) -> Iterator[bytes]:
    ends: dict[int, int] = {}
    for needle in needles:
        place, found = block.find(needle), 0
        while place >= 0:
            if scanned.lines + len(ends) > READ_WHOLE and found >= LINES_PER_BLOCK:
                scanned.is_sampled = True
                break
            start, end = _line_around(block, place)
            ends[start] = end
            found += 1
            place = block.find(needle, end)
    scanned.lines += len(ends)
    for start in sorted(ends):
        yield block[start : ends[start]]


def _line_around(block: bytes, place: int) -> tuple[int, int]:
    """The line that holds `place`. Every search is bounded, or a log without newlines would be searched again for each hit."""
    first = max(0, place - LONGEST_LINE)
    start = max(block.rfind(b"\n", first, place), block.rfind(b"\r", first, place)) + 1 or first
    last = min(len(block), place + LONGEST_LINE)
    newline = block.find(b"\n", place, last)
    end = last if newline < 0 else newline
    carriage = block.find(b"\r", place, end)
    return start, end if carriage < 0 else carriage

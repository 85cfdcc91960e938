"""Opens a log or a journal, whatever state it is in, and finds the few lines in it that are worth parsing, in one pass.

Lines end at a newline or at a carriage return (progress bars). Searching a block of bytes for a fixed word takes a third of a
nanosecond a byte; cutting the block into lines and matching each of them takes thirty times that.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Stays in a CPU's second cache while it is searched a dozen times.
BLOCK_BYTES = 1 << 18
# Bytes of a line that are read, before and behind the word that was found.
LONGEST_LINE = 4096
# Lines of interest that are all read. A log with more is a sample beyond: the first lines of each block, in one piece.
READ_WHOLE = 20_000
# Of each kind, once that many were read.
LINES_PER_BLOCK = 8
SURELY_UNPACKED_BYTES, MOST_UNPACKED_RATIO = 1 << 28, 300
GZIP_MAGIC = b"\x1f\x8b"


@dataclass(slots=True)
class LogFile:
    """A file that is being read. `trouble`: why it ended before its end; `is_sampled`: it holds more lines than were read."""

    path: Path
    trouble: str = ""
    is_sampled: bool = False
    _lines: int = 0

    def blocks(self) -> Iterator[bytes]:
        """The bytes, unpacked where they are gzipped. What cannot be read ends the file, and `trouble` says so."""
        try:
            with self.path.open("rb") as raw:
                if raw.peek(2)[:2] == GZIP_MAGIC:
                    with gzip.GzipFile(fileobj=raw) as unpacked:
                        # `read` would lose what it has unpacked when it meets the damage.
                        while block := unpacked.read1(BLOCK_BYTES):
                            yield block
                            if unpacked.tell() > max(SURELY_UNPACKED_BYTES, MOST_UNPACKED_RATIO * raw.tell()):
                                self.trouble = "it unpacks to hundreds of times its size, as no log does: read until there"
                                return
                else:
                    while block := raw.read(BLOCK_BYTES):
                        yield block
        except (EOFError, gzip.BadGzipFile, zlib.error):
            self.trouble = "the gzip file is cut or damaged: read until there"
        except OSError as error:
            self.trouble = f"read until an error: {(error.strerror or str(error)).lower()}"

    def lines(self, needles: tuple[bytes, ...]) -> Iterator[bytes]:
        """Every line that holds a needle, once, without its ending, in the order of the file; also a last one without an ending."""
        rest = b""
        for block in self.blocks():
            held = rest + block
            end = max(held.rfind(b"\n"), held.rfind(b"\r")) + 1
            rest = held[end:][-LONGEST_LINE:]
            if end:
                yield from self._in_block(needles, held[:end])
        if rest:
            yield from self._in_block(needles, rest)

    def _in_block(self, needles: tuple[bytes, ...], block: bytes) -> Iterator[bytes]:
        ends: dict[int, int] = {}
        for needle in needles:
            place, found = block.find(needle), 0
            while place >= 0:
                if self._lines + len(ends) > READ_WHOLE and found >= LINES_PER_BLOCK:
                    self.is_sampled = True
                    break
                start, end = _line_around(block, place)
                ends[start] = end
                found += 1
                place = block.find(needle, end)
        self._lines += len(ends)
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

"""Read a log or a journal, whatever state it is in, and yield the few lines that are worth parsing, in one pass."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

BLOCK_BYTES = 1 << 18
# The last bytes of a line that are looked at.
LONGEST_LINE = 1 << 13
GZIP_MAGIC = b"\x1f\x8b"


@dataclass(slots=True)
class LogFile:
    """A file that is being read. `trouble`: why it ended before its end."""

    path: Path
    trouble: str = ""

    def blocks(self) -> Iterator[bytes]:
        """Yield the bytes, unpacked if they are gzipped. What cannot be read ends the file, and `trouble` says so."""
        try:
            with self.path.open("rb") as raw:
                # `read` of a packed file would lose what it has unpacked when it meets damage.
                read = gzip.GzipFile(fileobj=raw).read1 if raw.peek(2)[:2] == GZIP_MAGIC else raw.read
                while block := read(BLOCK_BYTES):
                    yield block
        except (EOFError, gzip.BadGzipFile, zlib.error):
            self.trouble = "the gzip file is cut or damaged: read until there"
        except OSError as error:
            self.trouble = f"read until an error: {(error.strerror or str(error)).lower()}"

    def lines(self, worth_parsing: re.Pattern[bytes]) -> Iterator[bytes]:
        """Yield the lines in which the pattern is found. They end at a newline, or a carriage return (progress bars)."""
        rest = b""
        for block in chain(self.blocks(), [b"\n"]):
            held = (rest + block).replace(b"\r", b"\n")
            end, place = held.rfind(b"\n") + 1, 0
            while found := worth_parsing.search(held, place, end):
                start = max(place, held.rfind(b"\n", place, found.start()) + 1)
                place = held.find(b"\n", found.end())
                yield held[start:place][-LONGEST_LINE:]
            rest = held[end:][-LONGEST_LINE:]

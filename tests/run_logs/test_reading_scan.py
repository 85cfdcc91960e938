"""The lines worth parsing, whatever the blocks."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.run_logs import scan
from cs_input_analyzer.run_logs.scan import LONGEST_LINE, Scanned, lines_with

NEEDLES = (b"ab", b"GlobalRate=", b"bb")


def scanned(data: bytes, size: int) -> list[bytes]:
    blocks = [data[place : place + size] for place in range(0, len(data), size)]
    return list(lines_with(NEEDLES, blocks, Scanned()))


@given(
    st.lists(st.sampled_from((b"ab", b"cd", b"bb", b"x", b"GlobalRate=1", b"\n", b"\r", b"\r\n", b"\n\n")), max_size=60),
    st.integers(1, 50),
)
def test_every_line_with_a_needle_comes_once_and_in_order(parts: list[bytes], size: int) -> None:
    data = b"".join(parts)
    lines = [line for line in re.split(rb"[\r\n]+", data) if any(needle in line for needle in NEEDLES)]
    assert scanned(data, size) == lines


def test_a_file_without_newlines_is_held_in_little_memory() -> None:
    seen = Scanned()
    piece = b"x" * 10_000 + b"ab"
    lines = list(lines_with(NEEDLES, (piece for _ in range(200)), seen))
    assert all(len(line) <= 2 * LONGEST_LINE for line in lines)
    assert seen.size_bytes == 200 * len(piece)


def test_a_log_of_more_lines_than_are_read_is_sampled_and_says_so(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(scan, "READ_WHOLE", 500)
    monkeypatch.setattr(scan, "LINES_PER_BLOCK", 10)
    block = b"".join(b"line %d ab\n" % number for number in range(1000)) + b"GlobalRate=7\n"
    seen = Scanned()
    lines = list(lines_with(NEEDLES, [block] * 4, seen))
    assert seen.is_sampled
    assert len(lines) < 1000
    assert lines.count(b"GlobalRate=7") == 4, "rare lines are all read"
    assert lines[:500] == [b"line %d ab" % number for number in range(500)], "the first lines are all read"


def test_a_log_that_is_read_whole_does_not_claim_to_be_sampled() -> None:
    seen = Scanned()
    assert len(list(lines_with(NEEDLES, [b"ab\n" * 1000], seen))) == 1000
    assert not seen.is_sampled

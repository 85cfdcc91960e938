"""The lines worth parsing, whatever the blocks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.run_logs import scan
from cs_input_analyzer.run_logs.scan import LONGEST_LINE, LogFile

NEEDLES = (b"ab", b"GlobalRate=", b"bb")


@dataclass(slots=True)
class Blocks(LogFile):
    """A file whose blocks are given."""

    given: Iterable[bytes] = ()

    def blocks(self) -> Iterator[bytes]:
        yield from self.given


def blocks(given: Iterable[bytes]) -> Blocks:
    return Blocks(Path("run.log"), given=given)


@given(
    st.lists(st.sampled_from((b"ab", b"cd", b"bb", b"x", b"GlobalRate=1", b"\n", b"\r", b"\r\n", b"\n\n")), max_size=60),
    st.integers(1, 50),
)
def test_every_line_with_a_needle_comes_once_and_in_order(parts: list[bytes], size: int) -> None:
    data = b"".join(parts)
    lines = [line for line in re.split(rb"[\r\n]+", data) if any(needle in line for needle in NEEDLES)]
    assert list(blocks(data[place : place + size] for place in range(0, len(data), size)).lines(NEEDLES)) == lines


def test_a_file_without_newlines_is_held_in_little_memory() -> None:
    lines = list(blocks(b"x" * 10_000 + b"ab" for _ in range(200)).lines(NEEDLES))
    assert all(len(line) <= 2 * LONGEST_LINE for line in lines)


def test_a_log_of_more_lines_than_are_read_is_sampled_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    block = b"".join(b"line %d ab\n" % number for number in range(1000)) + b"GlobalRate=7\n"
    whole = blocks([block] * 4)
    assert len(list(whole.lines(NEEDLES))) == 4004
    assert not whole.is_sampled
    monkeypatch.setattr(scan, "READ_WHOLE", 500)
    monkeypatch.setattr(scan, "LINES_PER_BLOCK", 10)
    sampled = blocks([block] * 4)
    lines = list(sampled.lines(NEEDLES))
    assert sampled.is_sampled
    assert len(lines) < 1000
    assert lines.count(b"GlobalRate=7") == 4, "rare lines are all read"
    assert lines[:500] == [b"line %d ab" % number for number in range(500)], "the first lines are all read"

"""Files of a store, read by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cs_input_analyzer.machines.storage import STREAMS
from cs_input_analyzer.worker import sources
from cs_input_analyzer.worker.journal import JournalWriter, read_journal


def test_a_store_is_read_with_more_and_more_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "STORE_S", 0.05)
    opened: list[str] = []

    @contextmanager
    def reader(path: str) -> Iterator[Callable[[int, int], int]]:
        opened.append(path)
        yield lambda offset, length: length

    files = [(f"gs://bucket/part-{number}", number << 20) for number in range(16)]
    sources.sample_store(JournalWriter(tmp_path), files, reader)
    reads = read_journal(tmp_path).last("store")["reads"]
    assert [read["streams"] for read in reads] == list(STREAMS)
    assert all(read["bytes_per_s"] > 0 and read["cache_state"] == "as-is" for read in reads)
    assert "gs://bucket/part-0" not in opened  # which holds nothing

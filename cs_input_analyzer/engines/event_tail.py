"""Reads the kinds of events that a worker has appended to its journal since the last read."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from pathlib import Path

from cs_input_analyzer.worker.journal import EVENTS


class EventTail:
    """Follows the events of one journal. Only what is new is read: who watches runs on the host that is measured."""

    def __init__(self, folder: Path) -> None:
        self.kinds: set[str] = set()
        self._path = folder / EVENTS
        self._read_bytes = 0
        self._lock = threading.Lock()  # several launches may wait for one worker

    def new(self) -> list[str]:
        """Kinds of events, in the order in which they came; also kinds that came before. A half-written line waits."""
        with self._lock:
            kinds = _kinds(self._new_lines())
            self.kinds.update(kinds)
        return kinds

    def _new_lines(self) -> list[bytes]:
        try:
            if self._path.stat().st_size <= self._read_bytes:
                return []
            with self._path.open("rb") as file:
                file.seek(self._read_bytes)
                whole, end, _ = file.read().rpartition(b"\n")
        except OSError:
            return []
        self._read_bytes += len(whole) + len(end)
        return whole.split(b"\n")


def _kinds(lines: Iterable[bytes]) -> list[str]:
    kinds: dict[str, None] = {}
    for line in lines:
        try:
            kinds[str(json.loads(line)["event"])] = None
        except (ValueError, KeyError, TypeError):
            continue
    return list(kinds)

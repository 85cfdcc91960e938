"""Reads the kinds of events that a worker has appended to its journal since the last read."""

from __future__ import annotations

import threading
from pathlib import Path

from cs_input_analyzer.worker.journal import EVENTS, events_in


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
            kinds = list(dict.fromkeys(str(event["event"]) for event in events_in(self._new_lines())))
            self.kinds.update(kinds)
        return kinds

    def _new_lines(self) -> bytes:
        try:
            if self._path.stat().st_size <= self._read_bytes:
                return b""
            with self._path.open("rb") as file:
                file.seek(self._read_bytes)
                whole, end, _ = file.read().rpartition(b"\n")
        except OSError:
            return b""
        self._read_bytes += len(whole) + len(end)
        return whole

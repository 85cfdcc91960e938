"""Measures the memory of a worker and its descendants from another process, at next to no cost for the host that is measured."""

from __future__ import annotations

import os
import re
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cs_input_analyzer.machines.counters import read_start

PROC = Path("/proc")
# Children are looked for this often, and less often where looking takes long: at most this part of the time goes into it.
LOOK_S = 1.0
LOOK_RATIO = 0.01
# The same for adding up what is shared, which the kernel does page by page (tens of milliseconds for some gigabytes).
WEIGH_S = 1.0
WEIGH_RATIO = 0.05

Clock = Callable[[], float]


class ProcessTree:
    """Finds the descendants of processes. One tree is shared by all that watch workers of one host: it reads every process of the
    host, at most once a second whoever asks."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._children: Mapping[int, Sequence[int]] = {}
        self._again_s = float("-inf")

    def descendants(self, pid: int) -> tuple[int, ...]:
        """All of them, as of about a second ago; none of a process that is gone."""
        began_s = self._clock()
        if began_s >= self._again_s:
            self._children = _children_of_all()
            now_s = self._clock()
            self._again_s = now_s + max(LOOK_S, (now_s - began_s) / LOOK_RATIO)
        found: dict[int, None] = {}
        waiting = [pid]
        while waiting:
            for child in self._children.get(waiting.pop(), ()):
                if child not in found and child != pid:
                    found[child] = None
                    waiting.append(child)
        return tuple(found)


class MemoryWatch:
    """Compares the memory of one worker and its descendants with a limit."""

    def __init__(self, pid: int, tree: ProcessTree, clock: Clock = time.monotonic) -> None:
        self._pid, self._tree, self._clock = pid, tree, clock
        self._children: tuple[int, ...] = ()
        self._look_again_s = self._weigh_again_s = self._rested_s = float("-inf")
        self._cleared_bytes = 0

    def is_above(self, limit_bytes: int) -> bool:
        """Cheap while what is resident, added up, is below the limit.

        Above it that proves nothing: pages that children share with the worker they were forked from are counted for each. What is
        held then is the sum of proportional shares (PSS), added up anew when more has become resident than was left, and now and
        then, as children that write to shared pages make them their own.
        """
        now_s = self._clock()
        if now_s >= self._look_again_s:
            self._look_again_s = now_s + LOOK_S
            self._children = self._tree.descendants(self._pid)
        family = (self._pid, *self._children)
        resident_bytes = sum(map(rss_bytes, family))
        not_before_s = self._weigh_again_s if resident_bytes <= self._cleared_bytes else self._rested_s
        if resident_bytes <= limit_bytes or now_s < not_before_s:
            return False
        held_bytes = sum(map(pss_bytes, family))
        after_s = self._clock()
        self._weigh_again_s = after_s + max(WEIGH_S, (after_s - now_s) / WEIGH_RATIO)
        self._rested_s = after_s + (after_s - now_s)
        self._cleared_bytes = resident_bytes + limit_bytes - held_bytes
        return held_bytes > limit_bytes


def rss_bytes(pid: int) -> int:
    """Resident memory of a process, shared or not; 0 for one that is gone."""
    fields = read_start(f"{PROC}/{pid}/statm").split()
    return int(fields[1]) * resource.getpagesize() if len(fields) > 1 else 0


def pss_bytes(pid: int) -> int:
    """Proportional resident memory: each page divided by the processes that map it; all of it where that is not reported."""
    found = re.search(rb"^Pss:\s+(\d+) kB", read_start(f"{PROC}/{pid}/smaps_rollup"), re.MULTILINE)
    return int(found[1]) * 1024 if found else rss_bytes(pid)


def _children_of_all() -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for name in os.listdir(PROC):
        if name.isdigit():
            # After the command in brackets, which may hold anything: state, parent.
            fields = read_start(f"{PROC}/{name}/stat").rpartition(b")")[2].split(None, 2)
            if len(fields) > 1:
                children.setdefault(int(fields[1]), []).append(int(name))
    return children

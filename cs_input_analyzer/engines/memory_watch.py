"""Measure the memory of a worker and its descendants from another process, at little cost for the measured host."""

from __future__ import annotations

import re
import resource
import time

from cs_input_analyzer.host.counters import ProcessTree, read_start

# The largest part of the time that may go into reading proportional shares while the limit is far. The kernel adds them page by
# page: some gigabytes take tens of milliseconds.
WEIGH_RATIO = 0.05

_SHARE = re.compile(rb"^(Pss|Pss_Anon|Pss_Shmem):\s+(\d+) kB", re.MULTILINE)


class MemoryWatch:
    """Compare the memory of one worker and its descendants with a limit."""

    def __init__(self, pid: int, tree: ProcessTree) -> None:
        self._pid, self._tree = pid, tree
        self._weigh_again_s = float("-inf")
        self._safe_rss_bytes = 0

    def is_above(self, limit_bytes: int) -> bool:
        """Return whether the worker and its descendants hold more memory than the limit.

        The sum of resident memory is cheap. But it counts a page once for each process that shares it, and pages of mapped files.
        So the proportional shares (PSS) are summed only if that sum is above the limit: at once if it has grown by what was left
        below the limit, else from time to time. A shared page may become private without any growth.
        """
        began_s = time.monotonic()
        family = (self._pid, *self._tree.descendants(self._pid))
        resident_bytes = sum(map(rss_bytes, family))
        is_safe = began_s < self._weigh_again_s and resident_bytes <= self._safe_rss_bytes
        if is_safe or resident_bytes <= limit_bytes:
            return False
        held_bytes = sum(map(pss_bytes, family))
        ended_s = time.monotonic()
        self._weigh_again_s = ended_s + (ended_s - began_s) / WEIGH_RATIO
        self._safe_rss_bytes = resident_bytes + limit_bytes - held_bytes
        return held_bytes > limit_bytes


def rss_bytes(pid: int) -> int:
    """Return the resident memory of a process, shared or not; 0 if the process is gone."""
    fields = read_start(f"/proc/{pid}/statm").split()
    return int(fields[1]) * resource.getpagesize() if len(fields) > 1 else 0


def pss_bytes(pid: int) -> int:
    """Return the proportional resident memory: each page divided by the processes that map it. Fall back to all resident memory.

    Pages of mapped files do not count: the kernel takes them back when memory is short. An old kernel does not tell them
    apart, and they count.
    """
    shares = dict(_SHARE.findall(read_start(f"/proc/{pid}/smaps_rollup")))
    if b"Pss_Anon" in shares and b"Pss_Shmem" in shares:
        return (int(shares[b"Pss_Anon"]) + int(shares[b"Pss_Shmem"])) * 1024
    return int(shares[b"Pss"]) * 1024 if b"Pss" in shares else rss_bytes(pid)

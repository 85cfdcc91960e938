"""What the kernel knows about this process: CPU, bytes, memory, waiting. Whatever cannot be read is None."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from pathlib import Path

import psutil

PROC = Path("/proc")
NANOSECONDS = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Totals since the process began; differences of two of them describe a window.

    Attributes:
        cpu_s: user + system of all threads, finished ones too, plus the live and the reaped child processes.
        read_bytes: asked for by read calls (`rchar`); `physical_read_bytes`: fetched from storage.
        run_s, queued_s: time the threads alive now ran, and waited for a CPU (schedstat).
        host_cpu_s, host_steal_s: CPU time of the whole host, and what its hypervisor took.
    """

    cpu_s: float
    read_bytes: int | None
    physical_read_bytes: int | None
    run_s: float | None
    queued_s: float | None
    host_cpu_s: float | None
    host_steal_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes now: what only this process holds, what it shares (its proportional part), and the high-water mark of RSS."""

    private_bytes: int | None
    shared_bytes: int | None
    peak_rss_bytes: int | None


def read_counters() -> Counters:
    own = resource.getrusage(resource.RUSAGE_SELF)
    reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
    io = _key_values(PROC / "self/io")
    run_s, queued_s = _schedstat()
    host_cpu_s, host_steal_s = _host_cpu()
    return Counters(
        cpu_s=own.ru_utime + own.ru_stime + reaped.ru_utime + reaped.ru_stime + _live_children_cpu_s(),
        read_bytes=io.get("rchar"),
        physical_read_bytes=io.get("read_bytes"),
        run_s=run_s,
        queued_s=queued_s,
        host_cpu_s=host_cpu_s,
        host_steal_s=host_steal_s,
    )


def read_memory() -> Memory:
    rollup = _key_values(PROC / "self/smaps_rollup")
    status = _key_values(PROC / "self/status")
    private = [rollup.get(key) for key in ("Private_Clean", "Private_Dirty")]
    shared = [rollup.get(key) for key in ("Shared_Clean", "Shared_Dirty")]
    peak = status.get("VmHWM")
    return Memory(
        private_bytes=_sum_kib(private),
        shared_bytes=_sum_kib(shared),
        peak_rss_bytes=peak * 1024 if peak is not None else None,
    )


def _sum_kib(parts: list[int | None]) -> int | None:
    return None if any(part is None for part in parts) else sum(part for part in parts if part is not None) * 1024


def _key_values(path: Path) -> dict[str, int]:
    """`key: number …` lines; empty when the file cannot be read (another kernel, a hardened /proc)."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {}
    found = {}
    for line in lines:
        key, _, rest = line.partition(":")
        first = rest.split()
        if first and first[0].isdigit():
            found[key] = int(first[0])
    return found


def _schedstat() -> tuple[float | None, float | None]:
    run = queued = 0
    try:
        for task in os.scandir(PROC / "self/task"):
            fields = Path(task.path, "schedstat").read_text().split()
            run += int(fields[0])
            queued += int(fields[1])
    except (OSError, ValueError, IndexError):
        return None, None
    return run * NANOSECONDS, queued * NANOSECONDS


def _host_cpu() -> tuple[float | None, float | None]:
    try:
        fields = [int(field) for field in (PROC / "stat").read_text().split("\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return None, None
    tick = os.sysconf("SC_CLK_TCK")
    return sum(fields) / tick, fields[7] / tick if len(fields) > 7 else None


def _live_children_cpu_s() -> float:
    try:
        children = psutil.Process().children(recursive=True)
    except (psutil.Error, OSError):
        return 0.0
    total = 0.0
    for child in children:
        try:
            times = child.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system
    return total

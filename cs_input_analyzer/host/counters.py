"""Read the kernel's counts of this process: CPU, bytes, memory, waiting. An unreadable count is None."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
NANOSECONDS = 1e-9
# Finding the descendants means reading every process of the host: milliseconds, on a busy node tens of them. It is done this often,
# and less often where it takes long: at most this part of the time goes into it.
LOOK_S = 1.0
LOOK_RATIO = 0.01
# Files of threads that stay open: a process has 1,024 descriptors by default, and the user's pipeline needs them.
MOST_KEPT = 256
# Lines of a thousand CPUs.
STAT_BYTES = 1 << 17
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Hold totals of a process and its descendants since it began. The difference of two of them describes a window.

    An ended process counts if its parent waited for it: the kernel then adds its CPU time and bytes to the parent's.

    Attributes:
        cpu_s: user and system time of all threads, also finished ones.
        read_bytes: asked for by read calls (`rchar`), without the reads of this counting.
        physical_read_bytes: fetched from storage.
        run_s: time that the threads alive now ran (schedstat).
        queued_s: time that they waited for a CPU.
        host_cpu_s: CPU time of the whole host.
        host_steal_s: CPU time that its hypervisor took.
        switches: times that a thread of the process itself gave up its CPU, or lost it.
        preempted_switches: times that it lost the CPU while it had work.
        own_cpus_s: time of the CPUs that this process may use.
        own_cpus_busy_s: time in which these were not idle, for any process, or taken by the hypervisor.
        processes: the number alive now.
    """

    cpu_s: float
    read_bytes: int | None
    physical_read_bytes: int | None
    run_s: float | None
    queued_s: float | None
    host_cpu_s: float | None
    host_steal_s: float | None
    switches: int | None = None
    preempted_switches: int | None = None
    own_cpus_s: float | None = None
    own_cpus_busy_s: float | None = None
    processes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Hold the present memory in bytes.

    It has the memory of this process and its descendants only, the memory that others share, the proportional part of both, and the
    peak of RSS.
    """

    private_bytes: int | None
    shared_bytes: int | None
    peak_rss_bytes: int | None
    pss_bytes: int | None = None


class ProcessTree:
    """Find the descendants of processes.

    All watchers of workers on one host share one tree. It reads every process of the host, at most once a second.
    """

    def __init__(self) -> None:
        self._children: Mapping[int, Sequence[int]] = {}
        self._again_s = float("-inf")

    def descendants(self, pid: int) -> tuple[int, ...]:
        """Return all descendants as of about a second ago; none of a process that is gone."""
        began_s = time.monotonic()
        if began_s >= self._again_s:
            self._children = _children_of_all()
            now_s = time.monotonic()
            self._again_s = now_s + max(LOOK_S, (now_s - began_s) / LOOK_RATIO)
        found: dict[int, None] = {}
        waiting = [pid]
        while waiting:
            for child in self._children.get(waiting.pop(), ()):
                if child not in found and child != pid:
                    found[child] = None
                    waiting.append(child)
        return tuple(found)


class CounterReader:
    """Read the counters of this process and its descendants while they work.

    A reading takes some 0.1 ms, under 0.5 ms with 200 threads, and 0.1 ms for each descendant. Files of /proc stay open. It
    remembers the child processes, so one reader belongs to one process.
    """

    def __init__(self) -> None:
        self._own_cpus = {b"cpu%d" % number for number in os.sched_getaffinity(0)}
        self._proc = str(PROC)
        self._tree = ProcessTree()
        self._kept: dict[str, int] = {}
        self._threads: dict[str, int] = {}
        self._own_bytes = 0

    def read(self, *, threads: bool = True) -> Counters:
        """Return the present totals. Without `threads`, times of single threads are None: each thread has its own file."""
        own = resource.getrusage(resource.RUSAGE_SELF)
        reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
        own_bytes = self._own_bytes  # the next total holds the bytes of this reading
        io = _key_values(self._text("self/io"))
        run_s, queued_s = self._schedstat() if threads else (None, None)
        host_cpu_s, host_steal_s, own_cpus_s, own_cpus_busy_s = self._cpus()
        cpu_s = own.ru_utime + own.ru_stime + reaped.ru_utime + reaped.ru_stime
        below = self._descendants(threads) if has_children() else _Below()
        return Counters(
            cpu_s=cpu_s + below.cpu_s,
            read_bytes=io["rchar"] - own_bytes + below.read_bytes if "rchar" in io else None,
            physical_read_bytes=io["read_bytes"] + below.physical_read_bytes if "read_bytes" in io else None,
            run_s=run_s if run_s is None else run_s + below.run_s,
            queued_s=queued_s if queued_s is None else queued_s + below.queued_s,
            host_cpu_s=host_cpu_s,
            host_steal_s=host_steal_s,
            switches=own.ru_nvcsw + own.ru_nivcsw,
            preempted_switches=own.ru_nivcsw,
            own_cpus_s=own_cpus_s,
            own_cpus_busy_s=own_cpus_busy_s,
            processes=1 + below.processes,
        )

    def close(self) -> None:
        """Close the files that were kept open."""
        for file in (*self._kept.values(), *self._threads.values()):
            os.close(file)
        self._kept.clear()
        self._threads.clear()

    def _text(self, name: str, size: int = 1 << 14) -> bytes:
        """Return the start of a file of /proc that stays open. Its bytes are no reads of the pipeline."""
        try:
            if name not in self._kept:
                self._kept[name] = os.open(f"{self._proc}/{name}", os.O_RDONLY | os.O_CLOEXEC)
            content = os.pread(self._kept[name], size, 0)
        except OSError:
            return b""
        self._own_bytes += len(content)
        return content

    def _schedstat(self) -> tuple[float | None, float | None]:
        """Sum the time that the threads ran and queued. Leave out a thread that ends meanwhile."""
        folder = f"{self._proc}/self/task"
        try:
            names = set(os.listdir(folder))
        except OSError:
            return None, None
        for name in self._threads.keys() - names:
            os.close(self._threads.pop(name))
        run = queued = seen = 0
        for name in names:
            file = self._threads.get(name)
            try:
                content = os.pread(file, 64, 0) if file is not None else self._schedstat_of(name, f"{folder}/{name}/schedstat")
            except OSError:
                continue
            self._own_bytes += len(content)
            fields = content.split()
            if len(fields) >= 2:
                run += int(fields[0])
                queued += int(fields[1])
                seen += 1
        return (run * NANOSECONDS, queued * NANOSECONDS) if seen else (None, None)

    def _schedstat_of(self, name: str, path: str) -> bytes:
        """Read the file of a new thread, and keep it open."""
        if len(self._threads) >= MOST_KEPT:
            return read_start(path, 64)
        try:
            self._threads[name] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            return os.pread(self._threads[name], 64, 0)
        except OSError:
            return b""

    def _cpus(self) -> tuple[float | None, float | None, float | None, float | None]:
        """Return CPU time of the host, time that its hypervisor took, and time of our own CPUs, all of it and busy.

        user, nice, system, idle, iowait, irq, softirq and steal are the first eight fields of a line of /proc/stat.
        """
        own: list[list[int]] = []
        host: list[int] = []
        try:
            for line in self._text("stat", STAT_BYTES).split(b"\n"):
                name, *fields = line.split()[:9] or [b""]
                if name == b"cpu":
                    host = [int(field) for field in fields]
                elif name in self._own_cpus:
                    own.append([int(field) for field in fields])
        except ValueError:
            return None, None, None, None
        if not host:
            return None, None, None, None
        whole = sum(map(sum, own)) / _TICKS_PER_S if own else None
        idle = sum(sum(fields[3:5]) for fields in own) / _TICKS_PER_S
        busy = None if whole is None else whole - idle
        return sum(host) / _TICKS_PER_S, host[7] / _TICKS_PER_S if len(host) > 7 else None, whole, busy

    def _descendants(self, threads: bool) -> _Below:
        """Sum the counts of the descendants alive now, and of those that they waited for."""
        below = _Below()
        for pid in self._tree.descendants(os.getpid()):
            # After the command in brackets: state, …; utime, stime, cutime, cstime are fields 14 to 17 of proc(5).
            fields = self._of(pid, "stat").rpartition(b")")[2].split()
            if len(fields) < 15:
                continue
            below.processes += fields[0] != b"Z"
            below.cpu_s += sum(map(int, fields[11:15])) / _TICKS_PER_S
            io = _key_values(self._of(pid, "io"))
            below.read_bytes += io.get("rchar", 0)
            below.physical_read_bytes += io.get("read_bytes", 0)
            if threads:
                for thread in _names(f"{self._proc}/{pid}/task"):
                    run, queued, *_ = [*self._of(pid, f"task/{thread}/schedstat").split(), 0, 0]
                    below.run_s += int(run) * NANOSECONDS
                    below.queued_s += int(queued) * NANOSECONDS
        return below

    def _of(self, pid: int, name: str) -> bytes:
        content = read_start(f"{self._proc}/{pid}/{name}")
        self._own_bytes += len(content)
        return content


@dataclass(slots=True)
class _Below:
    """Sum counts over descendants. Leave out unreadable counts of processes that are gone or of another user."""

    processes: int = 0
    cpu_s: float = 0.0
    read_bytes: int = 0
    physical_read_bytes: int = 0
    run_s: float = 0.0
    queued_s: float = 0.0


def read_memory(inherited_shared_bytes: int = 0) -> Memory:
    """Return the present memory of this process and its descendants.

    For a descendant only its own memory counts: pages from its fork are its parent's, as long as neither writes to them.

    A forked worker shares pages with the process that it came from. Workers of a real launch would not. So anonymous pages count as
    private even if others map them. Library pages that only the other process has touched so far (`inherited_shared_bytes` in all)
    count as shared.
    """
    rollup = _key_values(read_start(f"{PROC}/self/smaps_rollup"))
    rss, anonymous = rollup.get("Rss"), rollup.get("Anonymous")
    status = _key_values(read_start(f"{PROC}/self/status"))
    peak = status.get("VmHWM")
    if rss is None or anonymous is None:
        return Memory(private_bytes=None, shared_bytes=None, peak_rss_bytes=_bytes(peak))
    shared = max(0, rss - anonymous)
    untouched = max(0, inherited_shared_bytes // 1024 - shared)
    pss, of_anonymous = rollup.get("Pss"), rollup.get("Pss_Anon")
    pss = pss - of_anonymous + anonymous if pss is not None and of_anonymous is not None else pss
    below = sum(map(_private_kib, ProcessTree().descendants(os.getpid()))) if has_children() else 0
    return Memory(
        private_bytes=_bytes(anonymous + below),
        shared_bytes=_bytes(shared + untouched),
        peak_rss_bytes=_bytes(peak + untouched + below if peak is not None else None),
        pss_bytes=_bytes(pss + below if pss is not None else None),
    )


def _private_kib(pid: int) -> int:
    return _key_values(read_start(f"{PROC}/{pid}/smaps_rollup")).get("Private_Dirty", 0)


def _bytes(kib: int | None) -> int | None:
    return None if kib is None else kib * 1024


def _key_values(content: bytes) -> dict[str, int]:
    """Return the numbers of `key: number …` lines; none if the file could not be read (another kernel, a hardened /proc)."""
    found = {}
    for line in content.decode(errors="replace").splitlines():
        key, _, rest = line.partition(":")
        first = rest.split()
        if first and first[0].isdigit():
            found[key] = int(first[0])
    return found


def read_start(path: str, size: int = 1 << 14) -> bytes:
    """Return the start of a file of /proc, or nothing if unreadable. One call costs a quarter of `Path.read_bytes`."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(file, size)
    except OSError:
        return b""
    finally:
        os.close(file)


def has_children() -> bool:
    """Return whether this process has child processes. It takes a microsecond; a scan would read every process of the host."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _names(folder: str) -> Iterable[str]:
    try:
        return [name for name in os.listdir(folder) if name.isdigit()]
    except OSError:
        return ()


def _children_of_all() -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for pid in _names(str(PROC)):
        fields = read_start(f"{PROC}/{pid}/stat").rpartition(b")")[2].split()  # of a process that is gone, none
        if fields:
            children.setdefault(int(fields[1]), []).append(int(pid))
    return children

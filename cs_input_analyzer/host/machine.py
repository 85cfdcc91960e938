"""Read facts about this machine, and how many of its CPUs we may use."""

from __future__ import annotations

import os
import platform
import re
import socket
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import psutil

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.host.limits import low_limits
from cs_input_analyzer.records import Host

CGROUP = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")
CPUS = Path("/sys/devices/system/cpu")
OLDEST_TENSORFLOW = (2, 12)
NUMA_NODES = Path("/sys/devices/system/node")
# For control groups of version 2 and 1: the limit, the use, and the name of the file cache in `memory.stat`.
_MEMORY_FILES = (
    ("memory.max", "memory.current", r"(?:in)?active_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", r"total_(?:in)?active_file"),
)


class Memory(NamedTuple):
    """Hold free and total memory."""

    free_bytes: int
    total_bytes: int


def read_host(cpus: int | None = None) -> Host:
    """Return the machine with its CPU budget. `cpus`: the user's own limit. Raise UsageError if it exceeds the machine's."""
    budget, source = cpu_budget(cpus)
    return Host(
        hostname=socket.gethostname(),
        cpus=os.cpu_count() or 1,
        cpu_model=_cpu_model(),
        memory_bytes=memory_here().total_bytes,
        cpu_budget=budget,
        cpu_budget_source=source,
        python_version=platform.python_version(),
        tensorflow_version=tensorflow_version(),
        threads_per_core=threads_per_core(budget_cpus(budget)),
        numa_cpus=numa_cpus(budget_cpus(budget)),
        is_virtual=_is_virtual(),
        low_limits=low_limits(),
    )


def cpu_budget(
    cpus: int | None = None, *, environ: Mapping[str, str] = os.environ, cgroup: Path = CGROUP, affinity: int | None = None
) -> tuple[int, str]:
    """Return min(affinity, cgroup quota, SLURM_CPUS_PER_TASK, the user's limit), and which of them decided.

    A quota of a part of a CPU counts as one: a worker cannot have less. Raise UsageError for `cpus` outside the affinity.
    """
    allowed = affinity if affinity is not None else len(os.sched_getaffinity(0))
    limits = [(allowed, "affinity")]
    quota = cgroup_quota_cpus(cgroup)
    if quota is not None:
        limits.append((max(1, int(quota)), "cgroup quota"))
    slurm = environ.get("SLURM_CPUS_PER_TASK", "")
    if slurm.isdigit() and int(slurm) > 0:
        limits.append((int(slurm), "SLURM_CPUS_PER_TASK"))
    if cpus is not None:
        if not 1 <= cpus <= allowed:
            raise UsageError(f"--cpus {cpus}: this process may use {allowed} CPUs (its affinity)")
        limits.append((cpus, "--cpus"))
    return min(limits, key=lambda limit: limit[0])


def cgroup_quota_cpus(root: Path = CGROUP) -> float | None:
    """Return the CPUs that the control group grants, version 2 (`cpu.max`) or 1 (`cpu.cfs_quota_us`); None without a limit.

    Inside a container the mounted root is the own group. On a bare host the own group's path lies below it.
    """
    quotas = []
    for level in _group_levels("cpu", _own_groups(), root):
        fields = _read(level / "cpu.max").split() or [_read(level / "cpu.cfs_quota_us"), _read(level / "cpu.cfs_period_us")]
        if len(fields) == 2 and all(map(str.isdigit, fields)) and int(fields[0]):  # not "max", not -1
            quotas.append(int(fields[0]) / int(fields[1]))
    return min(quotas, default=None)  # the tightest level binds


def oom_kills(groups: Path = OWN_GROUPS, root: Path = CGROUP) -> int:
    """Return the number of processes that the kernel has ended because our control group ran out of memory.

    Version 2 of control groups counts them in `memory.events`, version 1 in `memory.oom_control`.
    """
    own = _own_groups(groups)
    folders = [root / own[""]] if "" in own else []
    folders += [root / "memory" / own["memory"]] if "memory" in own else []
    total = 0
    for file in (folder / name for folder in folders for name in ("memory.events", "memory.oom_control")):
        fields = dict(line.split() for line in _read(file).splitlines() if len(line.split()) == 2)
        total = max(total, int(fields.get("oom_kill", 0)))
    return total


def memory_here(groups: Path = OWN_GROUPS, root: Path = CGROUP) -> Memory:
    """Return the memory of the host, or of a control group around us that leaves less.

    The file cache of a group counts as free: the kernel drops it before it ends a process.
    """
    host = psutil.virtual_memory()
    free, total = [int(host.available)], [int(host.total)]
    for level in _group_levels("memory", _own_groups(groups), root):
        for limit, used, cache in _MEMORY_FILES:
            sizes = [_read(level / limit), _read(level / used)]
            if all(map(str.isdigit, sizes)):  # not "max"
                dropped = sum(map(int, re.findall(rf"^{cache} (\d+)$", _read(level / "memory.stat"), re.MULTILINE)))
                free.append(max(0, int(sizes[0]) - int(sizes[1]) + dropped))
                total.append(int(sizes[0]))
    return Memory(free_bytes=min(free), total_bytes=min(total))


def whole_cores(cpus: int, threads_per_core: int) -> int:
    """Return the number of CPUs of as many whole cores as hold these. Slurm binds a task to whole cores."""
    return -(-cpus // threads_per_core) * threads_per_core


def task_cpus(
    allowed: Collection[int], tasks: int, cpus_per_task: int, first: int = 0, root: Path = CPUS
) -> tuple[tuple[int, ...], ...]:
    """Return the CPUs of each task of a node, core by core, as `--cpu-bind=cores` deals them.

    A task of one CPU has both threads of its core while there are enough cores. Tasks share CPUs if there are too few.

    Args:
        first: number of CPUs, in this order, that are dealt last; other launches have them.
    """
    by_core = sorted(allowed, key=lambda cpu: topology_of(cpu, root))
    threads = max(len(threads_of_core(cpu, root).intersection(allowed)) for cpu in allowed) or 1
    each = whole_cores(cpus_per_task, threads)
    if tasks * each > len(by_core):
        each = cpus_per_task
    else:
        first = whole_cores(first, threads)
    return tuple(_neighbours(by_core, first + task * each, each) for task in range(tasks))


def _neighbours(allowed: Sequence[int], first: int, count: int) -> tuple[int, ...]:
    return tuple(sorted({allowed[(first + offset) % len(allowed)] for offset in range(count)}))


def budget_cpus(budget: int) -> list[int]:
    """Return the numbers of the CPUs for workers of this host, neighbours first.

    They are in the order of the topology: socket, last-level cache, core, thread. So a worker has whole cores that share a cache,
    as with `srun --cpu-bind=cores`. The numbers themselves often count one thread of every core first.
    """
    return sorted(os.sched_getaffinity(0), key=topology_of)[:budget]


def topology_of(cpu: int, root: Path = CPUS) -> tuple[int, int, int, int]:
    """Return the place of a CPU: its socket, the first CPU of its last-level cache, the first of its core, and its own number."""
    socket = _read(root / f"cpu{cpu}" / "topology" / "physical_package_id").strip()
    cache = min(_cpu_list(_read(root / f"cpu{cpu}" / "cache" / "index3" / "shared_cpu_list")), default=0)
    core = min(threads_of_core(cpu, root), default=cpu)
    return int(socket) if socket.isdigit() else 0, cache, core, cpu


def threads_per_core(cpus: Collection[int] | None = None, *, root: Path = CPUS) -> int | None:
    """Return the hardware threads of a core of this machine; of `cpus`, how many share a core.

    The first core stands for all. Of `cpus`, fewer share a core if not all its threads are among them. Return None if the kernel
    does not tell, or if the cores differ.
    """
    of_each = [threads_of_core(cpu, root) for cpu in ((0,) if cpus is None else cpus)]
    counts = {len(threads if cpus is None else threads.intersection(cpus)) for threads in of_each}
    return counts.pop() or None if len(counts) == 1 else None


def numa_cpus(cpus: Collection[int], root: Path = NUMA_NODES) -> int | None:
    """Return the number of these CPUs on the NUMA node with most of them; None if the kernel does not tell."""
    return max((len(_cpu_list(_read(path)).intersection(cpus)) for path in root.glob("node[0-9]*/cpulist")), default=0) or None


def threads_of_core(cpu: int, root: Path = CPUS) -> frozenset[int]:
    """Return the CPUs of this CPU's core, itself included; none if the kernel does not tell."""
    return _cpu_list(_read(root / f"cpu{cpu}" / "topology" / "thread_siblings_list"))


def _cpu_list(text: str) -> frozenset[int]:
    """Return the CPUs of `0,64` or `0-1`; empty for anything else."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not (first.isdigit() and (last or first).isdigit()):
            return frozenset()
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def tensorflow_version() -> str | None:
    """Return the version of the package that provides the module `tensorflow`; None if there is none.

    It comes from the package's metadata: importing TensorFlow, or searching a slow disk for it, would cost seconds.
    """
    with suppress(metadata.PackageNotFoundError):
        return metadata.version("tensorflow")
    providers = metadata.packages_distributions().get("tensorflow", ())  # tensorflow-cpu, a nightly, a vendor's build
    return metadata.version(providers[0]) if providers else None


def check_tensorflow() -> None:
    """Raise UsageError if there is no TensorFlow that workers can measure with."""
    version = tensorflow_version()
    if version is None and find_spec("tensorflow") is None:
        raise UsageError(
            "TensorFlow is not installed here. Install the one that you train with, or the newest: "
            "pip install 'cs_input_analyzer[tensorflow]'"
        )
    numbers = re.match(r"(\d+)\.(\d+)", version or "")
    if numbers and tuple(map(int, numbers.groups())) < OLDEST_TENSORFLOW:
        oldest = ".".join(map(str, OLDEST_TENSORFLOW))
        raise UsageError(f"TensorFlow {version} is too old to be measured: TensorFlow {oldest} or newer is needed")


def _own_groups(groups: Path = OWN_GROUPS) -> dict[str, str]:
    """Return the control-group path by controller (`""` for version 2), without the leading slash."""
    found = {}
    for line in _read(groups).splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        for controller in controllers.split(","):
            found[controller] = path.lstrip("/") or "."
    return found


def _group_levels(controller: str, own: Mapping[str, str], root: Path) -> Iterator[Path]:
    """Yield the folders of our control group and of those above it, of version 2 or of a controller of version 1."""
    bases = [(root, own.get(""))] + [(root / name, own.get(controller)) for name in (controller, f"{controller},cpuacct")]
    for base, group in bases:
        for folder in (base / (group or "."), base):
            inside = folder.resolve()  # a parent's limit binds its children too
            yield from (level for level in (inside, *inside.parents) if level.is_relative_to(base.resolve()))


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _cpu_model() -> str | None:
    for line in _read(Path("/proc/cpuinfo")).splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or None


def _is_virtual() -> bool | None:
    """Return whether a hypervisor runs this machine; None if the kernel does not tell."""
    flags = [line for line in _read(Path("/proc/cpuinfo")).splitlines() if line.startswith("flags")]
    return "hypervisor" in flags[0].split() if flags else None


def utc_now() -> str:
    """Return the present time in UTC to the second, as ISO 8601, to date a run."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")

"""The CPU budget: the smallest of several limits, in both versions of control groups."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from types import SimpleNamespace

import pytest

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.host.machine import (
    budget_cpus,
    cgroup_quota_cpus,
    cpu_budget,
    memory_here,
    numa_cpus,
    read_host,
    threads_per_core,
)


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def version_1(folder: str, quota: str) -> dict[str, str]:
    return {f"{folder}/cpu.cfs_quota_us": f"{quota}\n", f"{folder}/cpu.cfs_period_us": "100000\n"}


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ({}, {}, None),
        ({}, {"cpu.max": "250000 100000\n"}, 2.5),
        ({}, {"cpu.max": "max 100000\n"}, None),
        ({}, version_1("cpu", "50000"), 0.5),
        ({}, version_1("cpu", "-1"), None),
        # Of nested groups the tightest binds.
        ({"": "job/step"}, {"job/cpu.max": "150000 100000\n", "job/step/cpu.max": "max 100000\n"}, 1.5),
        ({"": "job/step"}, {"job/cpu.max": "300000 100000\n", "job/step/cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu": "job/step"}, version_1("cpu/job", "50000") | version_1("cpu/job/step", "-1"), 0.5),
        ({"cpu": "job/step"}, version_1("cpu/job", "200000") | version_1("cpu/job/step", "50000"), 0.5),
    ],
)
def test_the_quota_of_a_control_group(
    own: dict[str, str], files: dict[str, str], expected: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cs_input_analyzer.host.machine._own_groups", lambda: own)
    for name, text in files.items():
        put(tmp_path / name, text)
    assert cgroup_quota_cpus(tmp_path) == expected


@pytest.mark.parametrize(
    ("affinity", "quota", "slurm", "cpus", "expected"),
    [
        (8, None, None, None, (8, "affinity")),
        (8, "400000 100000", None, None, (4, "cgroup quota")),
        (8, "50000 100000", "junk", None, (1, "cgroup quota")),
        (8, None, "3", None, (3, "SLURM_CPUS_PER_TASK")),
        (8, "400000 100000", "3", 2, (2, "--cpus")),
        (2, "400000 100000", "16", None, (2, "affinity")),
        (8, None, "", None, (8, "affinity")),
    ],
)
def test_the_smallest_limit_decides(
    tmp_path: Path, affinity: int, quota: str | None, slurm: str | None, cpus: int | None, expected: tuple[int, str]
) -> None:
    if quota:
        put(tmp_path / "cpu.max", quota)
    environ = {} if slurm is None else {"SLURM_CPUS_PER_TASK": slurm}
    assert cpu_budget(cpus, environ=environ, cgroup=tmp_path, affinity=affinity) == expected


@pytest.mark.parametrize("cpus", [0, -1, 9])
def test_more_cpus_than_there_are_is_refused(tmp_path: Path, cpus: int) -> None:
    with pytest.raises(UsageError, match="may use 8 CPUs"):
        cpu_budget(cpus, environ={}, cgroup=tmp_path, affinity=8)


MEGABYTE = 2**20


def limited(limit: int | str, used: int, cache: int, version: int = 2) -> dict[str, str]:
    """Files of a group whose numbers are in megabytes."""
    names = ("memory.max", "memory.current", "")
    if version == 1:
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
    size = limit if isinstance(limit, str) else str(limit * MEGABYTE)
    parts = {"anon": used, "inactive_file": cache // 2, "active_file": cache - cache // 2, "unevictable": 0}
    stat = "".join(f"{names[2]}{name} {part * MEGABYTE}\n" for name, part in parts.items())
    return {names[0]: f"{size}\n", names[1]: f"{used * MEGABYTE}\n", "memory.stat": stat}


@pytest.mark.parametrize(
    ("groups", "of_levels", "free", "total"),
    [
        ("", {}, 5000, 8000),
        ("0::/\n", {"": limited("max", 100, 50)}, 5000, 8000),
        ("0::/\n", {"": limited(3000, 1000, 400)}, 2400, 3000),
        ("0::/\n", {"": limited(6000, 5900, 200)}, 300, 6000),
        ("0::/\n", {"": limited(100, 400, 0)}, 0, 100),
        ("0::/\n", {"": limited(7000, 100, 0)}, 5000, 7000),  # the host has less
        ("0::/job/step\n", {"job": limited(2000, 1500, 0), "job/step": limited("max", 10, 0)}, 500, 2000),
        ("4:memory:/job\n0::/\n", {"memory/job": limited(1000, 200, 100, version=1)}, 900, 1000),
        ("4:memory:/job\n", {"memory/job": limited(2**43, 200, 100, version=1)}, 5000, 8000),  # what version 1 writes for none
        ("0::/\n", {"": {"memory.max": "1000000\n"}}, 5000, 8000),  # what it holds is not told
    ],
)
def test_memory_is_that_of_the_group_that_leaves_least(
    groups: str,
    of_levels: dict[str, dict[str, str]],
    free: int,
    total: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = SimpleNamespace(available=5000 * MEGABYTE, total=8000 * MEGABYTE)
    monkeypatch.setattr("psutil.virtual_memory", lambda: host)
    put(tmp_path / "groups", groups)
    for level, files in of_levels.items():
        for name, text in files.items():
            put(tmp_path / "cgroup" / level / name, text)
    assert memory_here(tmp_path / "groups", tmp_path / "cgroup") == (free * MEGABYTE, total * MEGABYTE)


# --- threads of a core ------------------------------------------------------------------------------------------------------------


def topology(root: Path, siblings: dict[int, str]) -> Path:
    for cpu, text in siblings.items():
        put(root / f"cpu{cpu}" / "topology" / "thread_siblings_list", f"{text}\n")
    return root


@pytest.mark.parametrize(
    ("text", "expected"), [("0", 1), ("0,64", 2), ("0-1", 2), ("0-3", 4), ("0-1,8-9", 4), ("", None), ("none", None), ("0-", 1)]
)
def test_threads_of_a_core_as_the_kernel_writes_them(tmp_path: Path, text: str, expected: int | None) -> None:
    assert threads_per_core(root=topology(tmp_path, {0: text})) == expected


@pytest.mark.parametrize(
    ("cpus", "expected"),
    [
        ((0, 1, 2, 3), 1),  # a CPU of each core, the other thread of which is not among them
        ((0, 4), 2),
        (range(8), 2),
        ((0,), 1),
        ((0, 4, 1), None),  # one core whole, of another one half
        ((8, 9), None),  # the kernel does not tell
        ((), None),
    ],
)
def test_only_threads_that_may_be_used_share_a_core(tmp_path: Path, cpus: tuple[int, ...], expected: int | None) -> None:
    root = topology(tmp_path, {cpu: f"{cpu % 4},{cpu % 4 + 4}" for cpu in range(8)})
    assert threads_per_core(cpus, root=root) == expected


@pytest.mark.parametrize(
    ("nodes", "cpus", "expected"),
    [
        (["0-31,64-95", "32-63,96-127"], range(128), 64),
        (["0-31", "32-63"], range(40), 32),
        (["0-31", "32-63"], range(28, 34), 4),  # what another job left
        (["0-1", ""], (0, 1), 2),  # a node of memory alone
        (["0-1"], (), None),
        ([], (0, 1), None),
    ],
)
def test_cpus_of_a_numa_node(tmp_path: Path, nodes: list[str], cpus: Collection[int], expected: int | None) -> None:
    for number, text in enumerate(nodes):
        put(tmp_path / f"node{number}" / "cpulist", f"{text}\n")
    assert numa_cpus(cpus, tmp_path) == expected


def test_the_host_tells_of_the_cpus_that_workers_are_given() -> None:
    host = read_host()
    assert host.threads_per_core == threads_per_core(budget_cpus(host.cpu_budget))
    assert host.threads_per_core is None or 1 <= host.threads_per_core <= host.cpu_budget
    assert read_host(1).threads_per_core in (1, None)

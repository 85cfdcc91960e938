"""The CPU budget: the smallest of several limits, in both versions of control groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.measure.host import cgroup_quota_cpus, cpu_budget, cpu_sets


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_version_2_quota(tmp_path: Path) -> None:
    put(tmp_path / "cpu.max", "250000 100000\n")
    assert cgroup_quota_cpus(tmp_path) == 2.5


def test_version_2_without_a_limit(tmp_path: Path) -> None:
    put(tmp_path / "cpu.max", "max 100000\n")
    assert cgroup_quota_cpus(tmp_path) is None


def test_version_1_quota(tmp_path: Path) -> None:
    put(tmp_path / "cpu/cpu.cfs_quota_us", "50000\n")
    put(tmp_path / "cpu/cpu.cfs_period_us", "100000\n")
    assert cgroup_quota_cpus(tmp_path) == 0.5


def test_version_1_without_a_limit(tmp_path: Path) -> None:
    put(tmp_path / "cpu/cpu.cfs_quota_us", "-1\n")
    put(tmp_path / "cpu/cpu.cfs_period_us", "100000\n")
    assert cgroup_quota_cpus(tmp_path) is None


def test_no_control_groups_at_all(tmp_path: Path) -> None:
    assert cgroup_quota_cpus(tmp_path) is None


@pytest.mark.parametrize(
    ("affinity", "quota", "slurm", "cpus", "expected"),
    [
        (8, None, None, None, (8, "affinity")),
        (8, "400000 100000", None, None, (4, "cgroup quota")),
        (8, "50000 100000", None, None, (1, "cgroup quota")),
        (8, None, "3", None, (3, "SLURM_CPUS_PER_TASK")),
        (8, "400000 100000", "3", 2, (2, "--cpus")),
        (2, "400000 100000", "16", None, (2, "affinity")),
        (8, None, "", None, (8, "affinity")),
        (8, None, "junk", None, (8, "affinity")),
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


def test_cpu_sets_lie_side_by_side_and_wrap_when_oversubscribed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {4, 5, 6, 7})
    assert cpu_sets(2, 2, 4) == ((4, 5), (6, 7))
    assert cpu_sets(3, 1, 2) == ((4,), (5,), (4,))
    assert cpu_sets(1, 8, 4) == ((4, 5, 6, 7),)

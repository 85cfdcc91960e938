"""What Slurm's programs print, from 20.11 to 25.x, as a cluster to plan for. No Slurm is needed: these are their words."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.host.cluster.slurm import SlurmNodes, cluster_of, discover
from cs_input_analyzer.host.cluster.slurm_commands import our_environment
from cs_input_analyzer.host.cluster.slurm_text import (
    NodeFacts,
    PartitionFacts,
    is_usable,
    nodes_from_text,
    partitions_from_text,
)

MIB = 1 << 20

# One node, as old versions, without CPUEfctv, and new ones write it.
TEXTS = {
    "20.11": (
        "NodeName=c1 Arch=x86_64 CoresPerSocket=16  CPUAlloc=4 CPUTot=64 CPULoad=3.9 AvailableFeatures=milan,ib "
        "ActiveFeatures=milan,ib Gres=(null) NodeAddr=c1 NodeHostName=c1 Version=20.11.8 OS=Linux 3.10.0 #1 SMP Wed Oct 13 "
        "RealMemory=257000 AllocMem=0 FreeMem=100 Sockets=2 Boards=1 MemSpecLimit=1000 State={state} ThreadsPerCore=2 TmpDisk=0 "
        "Partitions=main,long  BootTime=2021-10-25T15:48:07 CfgTRES=cpu=64,mem=257000M AllocTRES=cpu=4 Comment=(null)"
    ),
    "22.05": (
        "NodeName=c1 Arch=x86_64 CoresPerSocket=16 CPUAlloc=0 CPUEfctv=64 CPUTot=68 CPULoad=0.00 AvailableFeatures=milan,ib "
        "ActiveFeatures=milan,ib Gres=(null) NodeAddr=c1 NodeHostName=c1 Version=22.05.8 OS=Linux 6.12 #1 SMP Debian 1:6.12 "
        "RealMemory=256000 AllocMem=0 FreeMem=1086 Sockets=2 Boards=1 State={state} ThreadsPerCore=2 TmpDisk=0 Weight=1 "
        "Partitions=main,long BootTime=2025-04-02T20:28:31 Reason=low disk State=GONE [root@2025-01-01]"
    ),
}


def node(name: str = "n1", **changes: Any) -> NodeFacts:
    facts = NodeFacts(
        name=name,
        cpus=16,
        threads_per_core=1,
        memory_bytes=64 << 30,
        is_accelerator=False,
        states=frozenset({"IDLE"}),
        partitions=("main",),
    )
    return replace(facts, **changes)


def partition(name: str = "main", **changes: Any) -> PartitionFacts:
    facts = PartitionFacts(
        name=name, is_default=name == "main", is_up=True, max_nodes=None, max_cpus_per_node=None, max_memory_bytes_per_node=None
    )
    return replace(facts, **changes)


def found(*nodes: NodeFacts, **changes: Any) -> SlurmNodes:
    choices: dict[str, Any] = {"wanted": None, "exclude": (), "version": "slurm 22.05.8"}
    partitions = changes.pop("partitions", (partition(),))
    return cluster_of(nodes, partitions, **{**choices, **changes})


# --- reading -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", TEXTS)
def test_text_of_every_version_tells_the_same(version: str) -> None:
    (facts,) = nodes_from_text(TEXTS[version].format(state="IDLE"))
    assert (facts.name, facts.cpus, facts.threads_per_core, facts.memory_bytes) == ("c1", 64, 2, 256000 * MIB)
    assert (facts.is_accelerator, facts.partitions) == (False, ("main", "long"))
    assert is_usable(facts)


UNUSABLE = (
    *("DOWN", "DOWN*", "IDLE*", "IDLE+DRAIN", "MIXED+DRAIN", "DRAINED", "FAIL", "IDLE+NOT_RESPONDING", "MAINT", "IDLE+MAINTENANCE"),
    *("RESERVED", "DOWN*+DRAIN", "UNKNOWN", "FUTURE", "IDLE+INVALID_REG", "idle$"),
)
BUSY_OR_SLEEPING = ("IDLE", "ALLOCATED", "MIXED", "COMPLETING", "IDLE~", "IDLE+CLOUD+POWERED_DOWN", "IDLE#", "MIXED+PLANNED")


@pytest.mark.parametrize("state", UNUSABLE + BUSY_OR_SLEEPING)
def test_a_node_that_cannot_be_had_is_not_usable(state: str) -> None:
    (facts,) = nodes_from_text(TEXTS["22.05"].format(state=state))
    assert is_usable(facts) is (state in BUSY_OR_SLEEPING)


ACCELERATORS = ("cs:1", "wse:1", "cs2:1", "gpu:2,cs:1(S:0)", "cs_system:1", "CS-2:1")


@pytest.mark.parametrize("gres", [*ACCELERATORS, "(null)", "gpu:a100:4(S:0-1)", "craynetwork:4", "nic:cs:1", "csmall:1"])
def test_the_accelerators_node_is_known_by_its_resource(gres: str) -> None:
    (facts,) = nodes_from_text(TEXTS["22.05"].format(state="IDLE").replace("Gres=(null)", f"Gres={gres}"))
    assert facts.is_accelerator is (gres in ACCELERATORS)


@pytest.mark.parametrize(("free", "memory_mb"), [("18315", 18315), ("N/A", 1)])
def test_the_free_memory_stands_for_one_that_the_site_has_not_set(free: str, memory_mb: int) -> None:
    (facts,) = nodes_from_text(f"NodeName=n1 CPUTot=4 RealMemory=1 AllocMem=0 FreeMem={free} State=IDLE Partitions=main")
    assert facts.memory_bytes == memory_mb * MIB


def test_partitions_and_their_limits() -> None:
    text = (
        "PartitionName=main AllowGroups=ALL Default=YES QoS=N/A MaxNodes=UNLIMITED MaxTime=UNLIMITED MaxCPUsPerNode=UNLIMITED "
        "Nodes=c[1-4] State=UP TotalCPUs=256 TotalNodes=4 MaxMemPerNode=UNLIMITED\n"
        "PartitionName=short AllowGroups=ALL Default=NO MaxNodes=2 MaxTime=01:00:00 MaxCPUsPerNode=8 Nodes=c[1-2] State=DOWN "
        "MaxMemPerNode=64000\n"
    )
    main, short = partitions_from_text(text)
    assert main == partition("main")
    assert (short.is_default, short.is_up, short.max_nodes, short.max_cpus_per_node) == (False, False, 2, 8)
    assert short.max_memory_bytes_per_node == 64000 * MIB


@given(st.text(max_size=200))
def test_whatever_is_printed_something_is_read(text: str) -> None:
    nodes_from_text(text)
    nodes_from_text(f"NodeName={text}")
    partitions_from_text(f"PartitionName={text}")


def test_variables_of_an_outer_job_do_not_reach_the_next_call() -> None:
    outer = {"SLURM_CPUS_PER_TASK": "4", "SBATCH_PARTITION": "x", "SRUN_CPUS_PER_TASK": "2", "SLURM_CONF": "/c", "PATH": "/bin"}
    assert our_environment(outer) == {"SLURM_CONF": "/c", "PATH": "/bin"}


def test_the_account_of_our_job_is_the_users() -> None:
    paying = {"SBATCH_ACCOUNT": "proj", "SBATCH_QOS": "high", "SBATCH_RESERVATION": "week"}
    assert our_environment(paying) == paying


# --- choosing ----------------------------------------------------------------------------------------------------------------


def test_what_can_be_used_is_counted_and_the_rest_named() -> None:
    cluster = found(
        node("n1"),
        node("n2", states=frozenset({"ALLOCATED"})),
        node("n3", states=frozenset({"IDLE", "DRAIN"})),
        node("n4", states=frozenset({"DOWN", "NOT_RESPONDING"})),
        node("wafer", is_accelerator=True),
        node("other", partitions=("long",)),
        node("n5"),
        exclude=("n5",),
    )
    assert cluster.alike == ("n1", "n2", "n3", "n4", "n5")
    facts = cluster.cluster
    assert (facts.partition, facts.excluded_nodes, facts.nodes) == ("main", ("wafer", "n5"), 2)
    assert (facts.cpus_per_node, facts.memory_bytes_per_node) == (16, 64 << 30)
    assert "other" not in facts.source
    for word in ("22.05.8", "2 of 6 nodes", "n3", "n4", "wafer", "--exclude-nodes"):
        assert word in facts.source


def test_of_several_kinds_the_one_with_most_cpus_is_taken_with_its_smallest_memory() -> None:
    cluster = found(*(node(f"s{i}", cpus=8) for i in range(3)), node("l1", cpus=64), node("l2", cpus=64, memory_bytes=32 << 30))
    assert cluster.alike == ("l1", "l2")
    assert (cluster.cluster.cpus_per_node, cluster.cluster.memory_bytes_per_node) == (64, 32 << 30)
    assert set(cluster.cluster.excluded_nodes) == {"s0", "s1", "s2"}


DOWN = frozenset({"DOWN"})


@pytest.mark.parametrize(
    ("other", "is_excluded"),
    [
        (node("x", states=DOWN), False),
        (node("x", states=DOWN, memory_bytes=128 << 30), False),
        (node("x", states=DOWN, cpus=8), True),
        (node("x", states=DOWN, threads_per_core=2), True),
        (node("x", states=DOWN, memory_bytes=1 << 30), True),
        (node("x", states=DOWN, is_accelerator=True), True),
        (node("x", states=frozenset({"FUTURE"}), cpus=0), False),  # a name that Slurm refuses
        (node("x", cpus=8, partitions=("long",)), False),  # not there to be given
    ],
)
def test_what_is_down_today_may_be_up_at_the_launch_and_must_be_of_the_kind(other: NodeFacts, is_excluded: bool) -> None:
    cluster = found(node("n1"), node("n2"), other)
    assert cluster.cluster.nodes == 2
    assert ("x" in cluster.cluster.excluded_nodes) is is_excluded
    assert not set(cluster.cluster.excluded_nodes) & set(cluster.alike)


def with_scontrol(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program in `folder` that answers as Slurm's `scontrol` does, and the folder on PATH."""
    (folder / "scontrol").write_text(SCONTROL)
    (folder / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


SCONTROL = """#!/bin/sh
case "$*" in
--version) echo slurm 20.11.9 ;;
*node) printf 'NodeName=%s CPUTot=8 RealMemory=1000 State=IDLE ThreadsPerCore=1 Partitions=%s\\n' a main b big c big ;;
*partition) echo PartitionName=main Default=YES State=UP; echo PartitionName=big Default=NO State=UP ;;
esac
"""


@pytest.mark.parametrize(
    ("asked", "job", "partition"), [(None, None, "main"), (None, "big", "big"), ("main", "big", "main"), (None, "", "main")]
)
def test_inside_a_job_its_partition_is_the_one_unless_another_is_named(
    asked: str | None, job: str | None, partition: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_scontrol(tmp_path, monkeypatch)
    if job is not None:
        monkeypatch.setenv("SLURM_JOB_PARTITION", job)
    cluster = discover(asked)
    assert cluster.cluster.partition == partition
    assert cluster.alike == (("a",) if partition == "main" else ("b", "c"))


@pytest.mark.parametrize(("most", "nodes"), [(None, 4), (3, 3), (8, 4)])
def test_limits_bound_the_nodes_and_are_said(most: int | None, nodes: int) -> None:
    limits = partition(max_nodes=most, max_cpus_per_node=4, max_memory_bytes_per_node=1 << 30)
    cluster = found(*(node(f"n{i}") for i in range(4)), partitions=(limits,)).cluster
    assert (cluster.nodes, cluster.cpus_per_node, cluster.memory_bytes_per_node) == (nodes, 4, 1 << 30)
    assert (";" in cluster.source) is (nodes < 4)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"wanted": "nope"}, "--partition nope: Slurm has main, long"),
        ({"wanted": "down"}, "not up"),
        ({"exclude": ("n9",)}, "no such node"),
        ({"exclude": ("n1",)}, "no node that can be used"),
        ({"wanted": "long"}, "it has none"),
    ],
)
def test_what_cannot_be_is_refused_with_the_choices(changes: dict[str, Any], words: str) -> None:
    partitions = (partition(), partition("long"), partition("down", is_up=False))
    with pytest.raises(UsageError, match=words):
        found(node(), partitions=partitions, **changes)


def test_without_a_default_partition_one_must_be_named() -> None:
    two = (partition("a", is_default=False), partition("b", is_default=False))
    with pytest.raises(UsageError, match=r"--partition \(a, b\)|a, b"):
        found(node(), partitions=two)
    one = found(node(partitions=("a",)), partitions=two[:1])
    assert one.cluster.partition == "a"

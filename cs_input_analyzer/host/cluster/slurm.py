"""Find the cluster in Slurm: how many nodes of one kind the user may have, and the hardware of each."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from cs_input_analyzer.errors import LaunchError, UsageError
from cs_input_analyzer.host.cluster import slurm_commands
from cs_input_analyzer.host.cluster.slurm_text import (
    NodeFacts,
    PartitionFacts,
    is_usable,
    nodes_from_text,
    partitions_from_text,
)
from cs_input_analyzer.model.node_list import expand_nodelist
from cs_input_analyzer.records import Cluster
from cs_input_analyzer.units import several


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNodes:
    """Hold the cluster to plan for, and its nodes.

    The cluster excludes nodes of its partition that Slurm would give now or later: the accelerator's, those that the user excluded,
    those of another kind.

    `alike`: names of the counted nodes, and of nodes of their kind that are not available now or were excluded.
    """

    cluster: Cluster
    alike: tuple[str, ...]


def discover(partition: str | None = None, exclude: Sequence[str] = ()) -> SlurmNodes:
    """Ask Slurm for its nodes.

    Args:
        partition: its name; None: that of the job we are in, else the default one.
        exclude: node lists, such as `n[1-3]`, that are not to be used.

    Raises:
        LaunchError: Slurm is not here, or does not answer.
        UsageError: no such partition, or no usable node in it, with the reasons.
    """
    slurm_commands.check_installed(("scontrol",), "--cluster slurm")
    version = _asked(["scontrol", "--version"]).strip()
    nodes = nodes_from_text(_asked(["scontrol", "--oneliner", "show", "node"]))
    partitions = partitions_from_text(_asked(["scontrol", "--oneliner", "show", "partition"]))
    names = tuple(name for text in exclude for name in expand_nodelist(text))
    return cluster_of(
        nodes,
        partitions,
        wanted=partition or os.environ.get("SLURM_JOB_PARTITION") or None,
        exclude=names,
        version=version,
    )


def _asked(words: Sequence[str]) -> str:
    done = slurm_commands.run(words)
    if done.returncode != 0:
        raise LaunchError(f"{' '.join(words[:3])} failed: {done.stderr.strip() or f'exit status {done.returncode}'}")
    return done.stdout


def cluster_of(
    nodes: Sequence[NodeFacts],
    partitions: Sequence[PartitionFacts],
    *,
    wanted: str | None,
    exclude: Sequence[str],
    version: str,
) -> SlurmNodes:
    """Return the nodes of one kind that the user may have. Raise UsageError; see `discover`.

    A partition of several kinds gives the kind with most CPUs in all: a launch has the same tasks on every node.
    """
    partition = _chosen(partitions, wanted)
    members = [node for node in nodes if partition.name in node.partitions]
    unknown = [node for node in exclude if node not in {each.name for each in nodes}]
    if unknown:
        raise UsageError(f"--exclude-nodes {','.join(unknown)}: Slurm has no such node")
    kept, out = _sorted_out(members, exclude)
    if not kept:
        why = f": {_listed(out)}" if out else ": it has none"
        raise UsageError(f"partition {partition.name} of Slurm has no node that can be used{why}")
    kinds: Counter[tuple[int, int | None]] = Counter()
    for node in kept:
        kinds[node.cpus, node.threads_per_core] += node.cpus
    kind = max(kinds, key=lambda key: (kinds[key], key[0]))
    alike = [node for node in kept if (node.cpus, node.threads_per_core) == kind]
    for node in kept:
        if node not in alike:
            out[f"of another kind, with {node.cpus} CPUs"] += 1
    cpus = min(kind[0], partition.max_cpus_per_node or kind[0])
    count = min(len(alike), partition.max_nodes or len(alike))
    memory = min(node.memory_bytes for node in alike)
    # Also nodes that are down: they may be up when the plan is launched. Slurm refuses the names of future nodes.
    of_kind = [
        node
        for node in members
        if not node.is_accelerator and (node.cpus, node.threads_per_core) == kind and node.memory_bytes >= memory
    ]
    taken = {node.name for node in of_kind if node.name not in exclude}
    excluded = tuple(node.name for node in members if node.name not in taken and "FUTURE" not in node.states)
    source = f"Slurm ({version}), partition {partition.name}: {len(alike)} of {len(members)} nodes"
    source += f" ({_listed(out)} left out)" if out else ""
    source += f"; the partition grants a job {count}" if count < len(alike) else ""
    return SlurmNodes(
        cluster=Cluster(
            nodes=count,
            cpus_per_node=cpus,
            memory_bytes_per_node=min(memory, partition.max_memory_bytes_per_node or memory),
            threads_per_core=kind[1],
            name="slurm",
            source=source,
            partition=partition.name,
            excluded_nodes=excluded,
        ),
        alike=tuple(node.name for node in of_kind),
    )


def _sorted_out(members: Sequence[NodeFacts], exclude: Sequence[str]) -> tuple[list[NodeFacts], Counter[str]]:
    """Return the nodes that are available now, and the reasons why others are not, with their counts."""
    out: Counter[str] = Counter()
    kept: list[NodeFacts] = []
    for node in members:
        if node.name in exclude:
            out["named by --exclude-nodes"] += 1
        elif node.is_accelerator:
            out[f"the accelerator's own ({node.name})"] += 1
        elif not is_usable(node):
            out[f"{' and '.join(sorted(node.states)).lower().replace('_', ' ')} ({node.name})"] += 1
        else:
            kept.append(node)
    return kept, out


def _chosen(partitions: Sequence[PartitionFacts], wanted: str | None) -> PartitionFacts:
    names = ", ".join(partition.name for partition in partitions)
    if not partitions:
        raise UsageError("Slurm shows no partition to this user")
    if wanted is not None:
        found = next((partition for partition in partitions if partition.name == wanted), None)
        if found is None:
            raise UsageError(f"--partition {wanted}: Slurm has {names}")
    else:
        found = next(
            (partition for partition in partitions if partition.is_default), partitions[0] if len(partitions) == 1 else None
        )
        if found is None:
            raise UsageError(f"Slurm has no default partition: name one with --partition ({names})")
    if not found.is_up:
        raise UsageError(f"partition {found.name} of Slurm is not up; there are {names}: --partition names one")
    return found


def _listed(out: Counter[str]) -> str:
    return several([f"{count} {what}" for what, count in out.items()])

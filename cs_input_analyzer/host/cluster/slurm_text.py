"""Read the output of `scontrol` on nodes and partitions. Its text form is the same from Slurm 20.11 to 25.x.

JSON is not read: 20.11 does not write it, some builds cannot, and its form changed with 21.08, 23.02 and 23.11.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MEBIBYTE = 1 << 20
# Slurm's value of RealMemory if slurm.conf does not set it. The memory that is free now is then the best that Slurm knows.
UNSET_MEMORY_MB = 1

# A node in one of these states gets no task, now or soon. Slurm starts nodes that are powered down when a job wants them.
UNUSABLE = frozenset(
    {"DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "ERROR", "UNKNOWN", "FUTURE", "NOT_RESPONDING", "MAINT"}
    | {"MAINTENANCE", "RESERVED", "INVALID", "INVALID_REG", "INVAL", "POWERED_DOWN_FAIL", "REBOOT_ISSUED", "REBOOT_REQUESTED"}
)
# Suffixes of states in text (sinfo(1), "NODE STATE CODES"), and the meaning of those that make a node unusable.
_SUFFIXES = "*~#!%$@^-"
_UNUSABLE_SUFFIXES = {"*": "NOT_RESPONDING", "$": "MAINT"}
# Names that sites give to the resource or feature of the node that a wafer is attached to.
_ACCELERATOR = re.compile(r"(cs|csx|wse|wafer|cerebras)[-_]?(system)?[-_]?\d*", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """Hold one node of Slurm.

    Attributes:
        states: words in capitals, such as `IDLE`, `DRAIN`.
        cpus: available to jobs.
        is_accelerator: whether a generic resource or a feature is named for the wafer.
    """

    name: str
    cpus: int
    threads_per_core: int | None
    memory_bytes: int
    is_accelerator: bool
    states: frozenset[str]
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """Hold one partition; None for a limit that it does not set."""

    name: str
    is_default: bool
    is_up: bool
    max_nodes: int | None
    max_cpus_per_node: int | None
    max_memory_bytes_per_node: int | None


def is_usable(node: NodeFacts) -> bool:
    """Return whether Slurm can give the node a task, now or when it is started."""
    return not node.states & UNUSABLE


def nodes_from_text(text: str) -> tuple[NodeFacts, ...]:
    """Read `scontrol --oneliner show node` of any version."""
    found = []
    for fields in _records(text, "NodeName"):
        cpus = _number(fields.get("CPUEfctv")) or _number(fields.get("CPUTot"))
        memory = _number(fields.get("RealMemory"))
        if memory == UNSET_MEMORY_MB:
            memory = _number(fields.get("FreeMem")) or memory
        if cpus is None or memory is None:
            continue
        # Keep only the names of resources: `cs:1,gpu:a100:4(S:0-1)` -> cs gpu.
        resources = [word.split(":")[0] for word in _words(re.sub(r"\([^()]*\)", "", fields.get("Gres", "")))]
        own = (*resources, *_words(fields.get("AvailableFeatures") or fields.get("Features")))
        found.append(
            NodeFacts(
                name=fields["NodeName"],
                cpus=cpus,
                threads_per_core=_number(fields.get("ThreadsPerCore")),
                memory_bytes=(memory - (_number(fields.get("MemSpecLimit")) or 0)) * MEBIBYTE,
                is_accelerator=any(map(_ACCELERATOR.fullmatch, own)),
                states=frozenset(_states(fields.get("State", "UNKNOWN"))),
                partitions=_words(fields.get("Partitions")),
            )
        )
    return tuple(found)


def partitions_from_text(text: str) -> tuple[PartitionFacts, ...]:
    """Read `scontrol --oneliner show partition` of any version."""
    return tuple(
        PartitionFacts(
            name=fields["PartitionName"],
            is_default=fields.get("Default") == "YES",
            is_up=fields.get("State", "UP") == "UP",
            max_nodes=_number(fields.get("MaxNodes")),
            max_cpus_per_node=_number(fields.get("MaxCPUsPerNode")),
            max_memory_bytes_per_node=None if (memory := _number(fields.get("MaxMemPerNode"))) is None else memory * MEBIBYTE,
        )
        for fields in _records(text, "PartitionName")
    )


def _records(text: str, first: str) -> Iterator[dict[str, str]]:
    """Yield the `Key=value` pairs of each line. A value may hold spaces (`OS`, `Reason`). The first of repeated keys counts."""
    for line in text.splitlines():
        if not line.startswith(f"{first}="):
            continue
        fields: dict[str, str] = {}
        for name, value in re.findall(r"(?:^|(?<=\s))([A-Za-z][A-Za-z/:_]*)=(.*?)(?=\s+[A-Za-z][A-Za-z/:_]*=|\s*$)", line):
            fields.setdefault(name, value.strip())
        yield fields


def _number(text: str | None) -> int | None:
    """Return a number; None for other texts: `UNLIMITED`, `(null)`, `N/A`."""
    return int(text) if text is not None and re.fullmatch(r"\d{1,15}", text) else None


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in (text or "").split(",") if word.strip() not in ("", "(null)"))


def _states(text: str) -> Iterator[str]:
    for word in text.upper().split("+"):
        name = word.rstrip(_SUFFIXES)
        if name:
            yield name
        yield from (_UNUSABLE_SUFFIXES[suffix] for suffix in word[len(name) :] if suffix in _UNUSABLE_SUFFIXES)

"""A launch (`Layout`), the nodes that it runs on (`Cluster`) and the measuring machine (`Host`)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.units import parse_bytes, parse_bytes_per_s
from wafer_model import Estimate

# A number beyond these is a typing error. No machine has a quarter of these nodes. The widest systems ever sold had 4,096 hardware
# threads. No machine has an exbibyte of memory in all its nodes. TensorFlow needs a hundred times the least memory. Planning for
# the widest takes four seconds, and twenty if its nodes are shared.
MOST_NODES = 1_000_000
MOST_CPUS_PER_NODE = 1 << 12
LEAST_MEMORY_BYTES_PER_NODE = 1 << 20
MOST_MEMORY_BYTES_PER_NODE = 1 << 60
# No storage, link or memory in use is slower or faster than this.
LEAST_BYTES_PER_S, MOST_BYTES_PER_S = 1e3, 1e18
Launcher = Literal["local", "slurm"]
SpeedBasis = Literal["this host", "stated", "same model", "reference loop", "CPU models"]
"""The source of a speed ratio. Only runs saved by 0.1 and 0.2 hold the last two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A launch: `nodes` × `tasks_per_node` × `cpus_per_task`, written `NxTxC`."""

    nodes: int
    tasks_per_node: int
    cpus_per_task: int

    def __post_init__(self) -> None:
        """Raise UsageError for an invalid launch, as an edited run may hold."""
        counts: tuple[object, ...] = (self.nodes, self.tasks_per_node, self.cpus_per_task)
        if not all(isinstance(count, int) and count >= 1 for count in counts):
            raise UsageError(f"invalid launch {self}: nodes, tasks and CPUs must each be at least 1")

    def __str__(self) -> str:
        return f"{self.nodes}x{self.tasks_per_node}x{self.cpus_per_task}"

    @classmethod
    def parse(cls, text: str) -> Layout:
        """Return the launch that `"2x8x4"` names. Raise UsageError for another form.

        The numbers are nodes, tasks per node and CPUs per task.
        """
        match = re.fullmatch(r"\s*([1-9]\d{0,6})x([1-9]\d{0,6})x([1-9]\d{0,6})\s*", text)
        if match is None:
            raise UsageError(f"a layout is written NODESxTASKSxCPUS with positive whole numbers, for example 2x8x4; got {text!r}")
        nodes, tasks, cpus = map(int, match.groups())
        return cls(nodes=nodes, tasks_per_node=tasks, cpus_per_task=cpus)

    @property
    def tasks(self) -> int:
        """Return the tasks of all nodes together."""
        return self.nodes * self.tasks_per_node

    @property
    def cpus(self) -> int:
        """Return the CPUs of all nodes together."""
        return self.nodes * self.cpus_per_node

    @property
    def cpus_per_node(self) -> int:
        """Return the CPUs that the tasks of one node use."""
        return self.tasks_per_node * self.cpus_per_task


THIS_HOST = "this host"
"""`Cluster.source` of the machine that measures."""


# Fields of a cluster that may be given as texts: `128GiB`, `5GB/s`.
_FROM_TEXT: dict[str, Callable[[str], float]] = {
    "memory_bytes_per_node": parse_bytes,
    "network_bytes_per_s_per_node": parse_bytes_per_s,
    "storage_bytes_per_s": parse_bytes_per_s,
    "memory_bandwidth_bytes_per_s_per_node": parse_bytes_per_s,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The CPU nodes that will feed the accelerator. Sizes and bandwidths may be given as texts: `128GiB`, `5GB/s`.

    Attributes:
        cpus_per_node: CPUs as Slurm counts them (hardware threads if SMT is on).
        threads_per_core: 1 without SMT; None if unknown.
        network_bytes_per_s_per_node: bandwidth of one node in each direction; None if unknown.
        storage_bytes_per_s: ceiling of the shared file system over all nodes; None if neither declared nor measured.
        speed_ratio: speed of one CPU of a node over one of the measuring host; None if unknown.
        speed_basis: the source of that ratio; has no meaning if the ratio is None.
        memory_bandwidth_bytes_per_s_per_node: None if unknown.
        source: the source of these numbers: `this host`, `flags`, a file, a preset and its citation.
        measured_storage_bytes_per_s: `storage_bytes_per_s` with its interval, if several nodes showed it; None otherwise.
        partition: the Slurm partition of these nodes; None if Slurm was not asked.
        excluded_nodes: nodes of the partition that a launch must not get: the accelerator's own, or nodes of another kind.
        is_measured: whether the workers ran on nodes of this cluster as Slurm tasks, and so showed its shared storage.
    """

    nodes: int
    cpus_per_node: int
    memory_bytes_per_node: int
    name: str = "cluster"
    threads_per_core: int | None = None
    cpu_model: str | None = None
    network_bytes_per_s_per_node: float | None = None
    storage_bytes_per_s: float | None = None
    speed_ratio: Estimate | None = None
    speed_basis: SpeedBasis = "stated"
    memory_bandwidth_bytes_per_s_per_node: float | None = None
    source: str = "declared"
    measured_storage_bytes_per_s: Estimate | None = None
    partition: str | None = None
    excluded_nodes: tuple[str, ...] = ()
    is_measured: bool = False

    if TYPE_CHECKING:  # dataclasses give an argument the type of its field, which holds no text

        def __init__(
            self,
            *,
            nodes: int,
            cpus_per_node: int,
            memory_bytes_per_node: int | str,
            name: str = ...,
            threads_per_core: int | None = ...,
            cpu_model: str | None = ...,
            network_bytes_per_s_per_node: float | str | None = ...,
            storage_bytes_per_s: float | str | None = ...,
            speed_ratio: Estimate | None = ...,
            speed_basis: SpeedBasis = ...,
            memory_bandwidth_bytes_per_s_per_node: float | str | None = ...,
            source: str = ...,
            measured_storage_bytes_per_s: Estimate | None = ...,
            partition: str | None = ...,
            excluded_nodes: tuple[str, ...] = ...,
            is_measured: bool = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        """Read sizes and bandwidths that are texts. Raise UsageError for numbers that no cluster has."""
        for name, read in _FROM_TEXT.items():
            if isinstance(getattr(self, name), str):
                object.__setattr__(self, name, read(getattr(self, name)))
        threads = 1 if self.threads_per_core is None else self.threads_per_core
        counts: tuple[tuple[str, Any, int, int], ...] = (
            ("nodes", self.nodes, 1, MOST_NODES),
            ("CPUs per node", self.cpus_per_node, 1, MOST_CPUS_PER_NODE),
            ("bytes of memory per node", self.memory_bytes_per_node, LEAST_MEMORY_BYTES_PER_NODE, MOST_MEMORY_BYTES_PER_NODE),
            ("threads per core", threads, 1, MOST_CPUS_PER_NODE),
        )
        for name, count, least, most in counts:
            if not isinstance(count, int) or isinstance(count, bool):
                raise UsageError(f"a cluster has a whole number of {name}, got {count!r} ({self.source})")
            if count < least:
                unit = "" if count < 1 else "; sizes take a unit, for example 128GiB"
                raise UsageError(f"a cluster cannot have {count:,} {name} ({self.source}){unit}")
            if count > most:
                raise UsageError(f"a cluster cannot have more than {most:,} {name} ({self.source})")
        rates: tuple[tuple[str, Any], ...] = (
            ("storage", self.storage_bytes_per_s),
            ("network", self.network_bytes_per_s_per_node),
            ("memory", self.memory_bandwidth_bytes_per_s_per_node),
        )
        for name, rate in rates:
            if rate is not None and not (isinstance(rate, (int, float)) and 0 < rate < math.inf):
                said = f"{rate!r} ({self.source})"
                raise UsageError(f"the {name} bandwidth must be a positive number of bytes per second, got {said}")
            if rate is not None and not LEAST_BYTES_PER_S <= rate <= MOST_BYTES_PER_S:
                limits = f"{LEAST_BYTES_PER_S:g} to {MOST_BYTES_PER_S:g} bytes per second"
                raise UsageError(f"a {name} bandwidth of {rate:g} bytes per second ({self.source}) is impossible; give {limits}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The machine that measured.

    Attributes:
        threads_per_core: usable CPUs that share a core, 1 if each has its own; None if unknown.
        numa_cpus: usable CPUs of the largest NUMA node; None if unknown.
        is_virtual: whether it is a virtual machine; no counter shows its neighbours on the same cores. None if unknown.
        site_errors: natural logarithms of validated over predicted rates of earlier runs on this site.
        low_limits: a sentence about limits (ulimit) that are too low for TensorFlow.
    """

    hostname: str
    cpus: int
    cpu_model: str | None
    memory_bytes: int
    cpu_budget: int
    cpu_budget_source: str
    python_version: str
    tensorflow_version: str | None
    threads_per_core: int | None = None
    numa_cpus: int | None = None
    is_virtual: bool | None = None
    site_errors: tuple[float, ...] = ()
    low_limits: str = ""

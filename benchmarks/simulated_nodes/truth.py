"""Read a truth from YAML: nodes, a cluster, a pipeline, and how far launches scatter. `laws` and `events` know its rates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml

from cs_input_analyzer.records import Feed

Part = TypeVar("Part")


@dataclass(frozen=True, kw_only=True)
class Node:
    cpus: int
    sockets: int = 1
    threads_per_core: int = 1
    memory_bytes: float = 0.0
    all_core_clock: float = 1.0
    smt_gain: float = 0.2
    memory_bytes_per_s: float | None = None
    remote_slowdown: float = 1.0

    @property
    def cores(self) -> int:
        return self.cpus // self.threads_per_core


@dataclass(frozen=True, kw_only=True)
class Nodes:
    nodes: int = 1
    storage_bytes_per_s: float | None = None
    storage_is_declared: bool = True
    spread: float = 0.0
    measured_nodes: int = 1


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    parallel_s: float
    serial_s: float = 0.0
    python_s: float = 0.0
    handoff_s: float = 0.0
    contention: float = 0.0
    coherence: float = 0.0
    memory_bytes: float = 0.0
    read_bytes: float = 0.0
    read_wait_s: float = 0.0
    readers: int = 4
    element_cv: float = 0.3
    worker_bytes: float = 1e9
    files: int = 100_000

    @property
    def cpu_s(self) -> float:
        """CPU seconds of a sample on one idle CPU."""
        return self.parallel_s + self.serial_s + self.python_s + self.handoff_s


@dataclass(frozen=True, kw_only=True)
class Noise:
    process: float = 0.015
    launch: float = 0.02
    window: float = 0.015
    others: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Truth:
    """One YAML file. `simulates` names the module that knows its rates."""

    name: str
    simulates: Literal["law", "events"]
    node: Node
    cluster: Nodes
    pipeline: Pipeline
    noise: Noise = field(default_factory=Noise)
    feed: Feed = "first-come"


@dataclass(frozen=True, kw_only=True)
class WorkerRate:
    """Samples/s of one worker, CPU seconds of a sample, and those of its serial op and of its Python functions."""

    samples_per_s: float
    cpu_s_per_sample: float
    serial_s: float
    python_s: float


Rates = Callable[[int, int, int], WorkerRate]
"""(nodes, tasks on each, CPUs per task) -> what each of these workers delivers."""


def read_truth(path: Path) -> Truth:
    """Return the truth of a file. Raise SystemExit with the key that is wrong."""
    values = yaml.safe_load(path.read_text())
    parts: dict[str, type[Any]] = {"node": Node, "cluster": Nodes, "pipeline": Pipeline, "noise": Noise}
    if not isinstance(values, dict) or values.get("simulates") not in ("law", "events"):
        raise SystemExit(f"{path}: a truth is a mapping with `simulates: law` or `simulates: events`")
    if unknown := set(values) - {"name", "simulates", "feed", *parts}:
        raise SystemExit(f"{path}: unknown keys {sorted(unknown)}")
    read = {key: _part(path, key, kind, values.get(key) or {}) for key, kind in parts.items()}
    return Truth(
        name=str(values.get("name", path.stem)), simulates=values["simulates"], feed=values.get("feed", "first-come"), **read
    )


def _part(path: Path, key: str, kind: type[Part], values: Any) -> Part:
    known = {one.name for one in fields(kind)}  # type: ignore[arg-type]
    if not isinstance(values, dict) or set(values) - known:
        raise SystemExit(f"{path}: {key} has the keys {sorted(known)}, got {values!r}")
    # YAML reads 2e11 as text, as its numbers need a point and a sign.
    numbers = {name: float(value) if isinstance(value, str) else value for name, value in values.items()}
    try:
        return kind(**numbers)
    except TypeError as error:
        raise SystemExit(f"{path}: {key}: {error}") from None

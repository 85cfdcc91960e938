"""Two runs of one input function beside each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cs_input_analyzer.records.findings import Finding
from cs_input_analyzer.records.machine import Layout
from cs_input_analyzer.records.measured import CacheChoice, Station
from cs_input_analyzer.records.run import Tool, VerdictName
from cs_input_analyzer.units import in_a_line
from wafer_model import Estimate

RateDirection = Literal["faster", "slower", "no difference seen"]
CostDirection = Literal["dearer", "cheaper", "no difference seen", "new", "gone", "not comparable"]
MemoryDirection = Literal["more", "less", "no difference seen"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    """What stands at the top of each side. `path`: the file that it was read from.

    `is_planned_as_measured` and `idle_factor`: as of the `Analysis`.
    """

    path: str
    target: str
    created_at: str
    hostname: str
    tensorflow_version: str | None
    verdict: VerdictName
    confidence: float | None
    verdict_layout: Layout | None
    demand_samples_per_s: Estimate | None
    plan: Layout | None
    predicted_samples_per_s: Estimate | None
    meets_demand: bool | None
    memory_bytes_per_node: int | None
    bottleneck: Station | None
    interrupted: bool = False
    is_planned_as_measured: bool = False
    idle_factor: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RateChange:
    """One launch that both runs measured: the same layout, worker count and state of the page cache.

    Attributes:
        old_samples_per_s, new_samples_per_s: on an idle node, geometric mean over the fresh launches, how many of them is its
            `count`; the interval is of that run's launches alone.
        ratio: new over old; its intervals hold for all rows of a comparison together with 90 % probability.
        change: `no difference seen` unless the whole interval lies on one side of 1.
        old_cpu_s_per_sample, new_cpu_s_per_sample: mean over the processes; None where it was not read.
    """

    layout: Layout
    num_workers: int
    old_cache_state: CacheChoice
    new_cache_state: CacheChoice
    old_samples_per_s: Estimate
    new_samples_per_s: Estimate
    ratio: Estimate
    change: RateDirection
    old_cpu_s_per_sample: float | None = None
    new_cpu_s_per_sample: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpChange:
    """CPU of one op for one sample, by its name; of kind `process` the sum of all.

    `noise_s`: how far the two may lie apart by chance, with 90 % probability for all ops together; None where that cannot be said.
    `not comparable`: the two profiles are of other launches, or one has no number for the op.
    """

    name: str
    kind: str
    source: str | None
    old_cpu_s_per_sample: float | None
    new_cpu_s_per_sample: float | None
    noise_s: float | None
    change: CostDirection


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryChange:
    """Memory that one worker of a launch holds alone, the largest of them."""

    layout: Layout
    num_workers: int
    old_bytes: int
    new_bytes: int
    change: MemoryDirection


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingChange:
    """A finding that only one of the runs has, by its code and op."""

    change: Literal["new", "gone"]
    finding: Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Something other than the pipeline in which the runs differ, or that was not quiet; `old` and `new` as text."""

    name: str
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Comparison:
    """Two runs of one input function, beside each other.

    Attributes:
        rates: by rising tasks and CPUs.
        spread_ratio: standard deviation of the rates of fresh launches alike, relative, in both runs together: what the intervals
            of `rates` rest on, the error of each rate and what is assumed included.
        ops: the costliest first; the first is the whole process.
        findings: new ones first.
        doubts: what makes the comparison doubtful; empty where nothing does.
        not_compared: launches that only one of the runs holds, a sentence each.
        rounds: fresh launches of both, in turns, that the rates are of; 0 where they are those that the runs hold.
    """

    schema_version: int
    tool: Tool
    old: ComparedRun
    new: ComparedRun
    rates: tuple[RateChange, ...]
    spread_ratio: float
    ops: tuple[OpChange, ...]
    memory: tuple[MemoryChange, ...]
    findings: tuple[FindingChange, ...]
    doubts: tuple[Difference, ...]
    not_compared: tuple[str, ...] = ()
    rounds: int = 0

    def __repr__(self) -> str:
        row = next(iter(self.rates), None)
        rate = "" if row is None else f": {row.layout} {row.change}, {row.ratio.estimate:.3g} times the rate"
        return in_a_line(f"Comparison of {len(self.rates)} launch{'' if len(self.rates) == 1 else 'es'}{rate}")

    @property
    def smallest_slowdown_ratio(self) -> float:
        """Return the smallest slowdown that the row known best would show."""
        return min(1 - row.ratio.low / row.ratio.estimate for row in self.rates)

    @property
    def slower(self) -> tuple[RateChange, ...]:
        return tuple(row for row in self.rates if row.change == "slower")

    @property
    def faster(self) -> tuple[RateChange, ...]:
        return tuple(row for row in self.rates if row.change == "faster")

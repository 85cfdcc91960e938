"""Two runs of one input function, compared."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    """The summary of one side of a comparison.

    Attributes:
        path: the file that the run was read from.
        is_planned_as_measured, idle_factor: as in `Analysis`.
    """

    path: str
    target: str
    created_at: str
    hostname: str
    tensorflow_version: str | None
    verdict: VerdictName
    verdict_layout: Layout | None
    demand_samples_per_s: Estimate | None
    plan: Layout | None
    predicted_samples_per_s: Estimate | None
    meets_demand: bool | None
    memory_bytes_per_node: int | None
    bottleneck: Station | None
    is_planned_as_measured: bool = False
    idle_factor: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RateChange:
    """The rates of one launch that both runs measured: same layout, worker count and state of the page cache.

    Attributes:
        old_samples_per_s, new_samples_per_s: rate on an idle node, geometric mean over `count` fresh launches. The interval uses
            the launches of that run alone.
        ratio: new over old. Its intervals hold for all rows of a comparison together with 90 % probability.
        change: `no difference seen` unless the whole interval lies on one side of 1.
    """

    layout: Layout
    num_workers: int
    old_cache_state: CacheChoice
    new_cache_state: CacheChoice
    old_samples_per_s: Estimate
    new_samples_per_s: Estimate
    ratio: Estimate
    change: RateDirection


@dataclass(frozen=True, slots=True, kw_only=True)
class OpChange:
    """The CPU time of one op per sample in both runs, matched by name. A row of kind `process` holds the sum of all ops.

    Attributes:
        noise_s: largest difference that chance explains, with 90 % probability for all ops together; None if unknown.
        change: `not comparable` if the two profiles are of different launches, or one has no number for the op.
    """

    name: str
    kind: str
    source: str | None
    old_cpu_s_per_sample: float | None
    new_cpu_s_per_sample: float | None
    noise_s: float | None
    change: CostDirection


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingChange:
    """A finding that only one of the runs has, matched by its code and op."""

    change: Literal["new", "gone"]
    finding: Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A difference between the runs besides the pipeline, or noise in one of them; `old` and `new` are text."""

    name: str
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Comparison:
    """Two runs of one input function, compared.

    Attributes:
        rates: sorted by tasks, then CPUs.
        spread_ratio: relative standard deviation of the rates of repeated launches, pooled over both runs. The intervals of
            `rates` rest on it; it includes the error of each rate and the assumed spread.
        ops: the costliest first, after the row of the whole process.
        findings: new ones first.
        doubts: reasons to doubt the comparison; empty if there are none.
        not_compared: launches that only one of the runs holds, a sentence each.
        rounds: fresh launches of both runs, in turns, behind the rates; 0 if the rates are those that the runs hold.
        interrupted: Ctrl-C ended them early.
    """

    schema_version: int
    tool: Tool
    old: ComparedRun
    new: ComparedRun
    rates: tuple[RateChange, ...]
    spread_ratio: float
    ops: tuple[OpChange, ...]
    findings: tuple[FindingChange, ...]
    doubts: tuple[Difference, ...]
    not_compared: tuple[str, ...] = ()
    rounds: int = 0
    interrupted: bool = False

    def __repr__(self) -> str:
        row = next(iter(self.rates), None)
        rate = "" if row is None else f": {row.layout} {row.change}, {row.ratio.estimate:.3g} times the rate"
        return in_a_line(f"Comparison of {len(self.rates)} launch{'' if len(self.rates) == 1 else 'es'}{rate}")

    @property
    def smallest_slowdown_ratio(self) -> float:
        """Return the smallest slowdown that the most precise row would show."""
        return min(1 - row.ratio.low / row.ratio.estimate for row in self.rates)

    @property
    def slower(self) -> tuple[RateChange, ...]:
        """Return the launches that became slower beyond doubt."""
        return tuple(row for row in self.rates if row.change == "slower")

    @property
    def faster(self) -> tuple[RateChange, ...]:
        """Return the launches that became faster beyond doubt."""
        return tuple(row for row in self.rates if row.change == "faster")

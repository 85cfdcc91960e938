"""Findings with their proof and gain, and `Case`, the input of a rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from cs_input_analyzer.records.machine import Cluster, Host, Layout
from cs_input_analyzer.records.measured import Measurement, Profile, Station, Storage
from cs_input_analyzer.records.model import CapacityModel
from cs_input_analyzer.records.pipeline import Edit, PipelineGraph, Scalar, SourceChange
from cs_input_analyzer.records.plan import Alternative, LaunchPlan
from cs_input_analyzer.units import in_a_line
from wafer_model import Estimate

Mode = Literal["train", "eval"]
Severity = Literal["info", "warning", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """The training parameters found in the params.

    Attributes:
        half: the 16-bit type of the training (`float16`, `bfloat16`, `cbfloat16`); None if not set.
    """

    steps: int | None = None
    epochs: int | None = None
    half: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The input of a rule.

    Attributes:
        is_sharded: each worker reads its own files, by a `shard` op or by Python code.
        demand_samples_per_s: rate that the accelerator asks for; None if unknown.
        ends_epochs: the training takes the data anew for each epoch, so their end is that of an epoch.
    """

    pipeline: PipelineGraph
    mode: Mode
    is_sharded: bool
    measurements: tuple[Measurement, ...]
    profile: Profile | None
    plan: LaunchPlan | None
    cluster: Cluster
    host: Host | None = None
    storage: Storage | None = None
    stations: tuple[Station, ...] = ()
    capacity: CapacityModel | None = None
    training: Training = Training()
    demand_samples_per_s: float | None = None
    ends_epochs: bool = False


# A fix is kept if the low end of its gain lies above this. A smaller gain is not worth a line, and is close to noise.
LEAST_GAIN = 1.03
# In fewer rounds two numbers may agree by luck.
FEWEST_ROUNDS = 3
# A gain whose high end lies below this counts as no gain: another trial would find nothing useful.
NO_GAIN = 1.1
# The reason of an untried fix begins with this.
UNTRIED = "not measured"


def is_clear_gain(gain: Estimate | None) -> bool:
    """Return whether the whole interval of a measured gain lies above `LEAST_GAIN`, in enough rounds."""
    return gain is not None and gain.low > LEAST_GAIN and (gain.count is None or gain.count >= FEWEST_ROUNDS)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Finding:
    """A fact that the user should know, or code that the user should change.

    Attributes:
        code: code of the rule; filled in, with its name `rule`, by the caller of the rules.
        fix: what to do, in one sentence.
        before: the user's code that the fix changes; None if it is not known.
        after: that code, changed.
        edits: the same change of the graph; empty if the fix is advice only.
        source_check: why `after` is missing (it fails, or is no Python), was not run, or differs from the change that was proven.
            Empty if the changed source was run and is the change that was proven.
        proven: the changed source, or else the changed graph, gave the same elements, in the order that the original promises.
        verified_elements: number of elements compared.
        pass_elements: number of elements in a pass; None if a pass has no end, or none was seen.
        measured_gain: ratio of rates, fixed / original, of this fix alone; None if it was not measured.
        unproven_because: why a fix with edits was not proven, not measured, or declined; empty otherwise.
    """

    code: str = ""
    rule: str = ""
    severity: Severity
    message: str
    op: str | None = None
    source: str | None = None
    evidence: Mapping[str, Scalar]
    fix: str | None = None
    before: str | None = None
    after: str | None = None
    edits: tuple[Edit, ...] = ()
    measured_gain: Estimate | None = None
    proven: bool = False
    unproven_because: str = ""
    verified_elements: int = 0
    pass_elements: int | None = None
    source_check: str = ""

    def __repr__(self) -> str:
        gain = "" if self.measured_gain is None else f" x{self.measured_gain.estimate:.2f}"
        place = f" at {self.source}" if self.source else ""
        return in_a_line(f"Finding {self.code} {self.severity}{gain}{place}: {self.message}")

    @property
    def change(self) -> SourceChange | None:
        """Return the fix as a change of the source. Return None if there is none, or its place is not known."""
        if self.source is None or self.before is None or self.after is None:
            return None
        return SourceChange(source=self.source, before=self.before, after=self.after)

    @property
    def is_gain(self) -> bool:
        """Return whether the fix gives the same elements and is clearly faster."""
        return self.proven and is_clear_gain(self.measured_gain) and not self.unproven_because

    @property
    def is_slower(self) -> bool:
        """Return whether the pipeline was slower with the fix."""
        return self.proven and self.measured_gain is not None and self.measured_gain.high < 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """Kept fixes as a change of the user's source files. The files themselves are never written.

    Attributes:
        diff: unified diff, for `patch -p0` or `git apply` in `folder`; empty if it holds no fix.
        codes: rules whose fixes the diff holds.
        by_hand: fixes that the diff does not hold, a sentence each: the rule, the place, what to do, and why.
        proven: the patched source gave the same elements as the original.
        verified_elements: number of elements compared.
        pass_elements: number of elements in a pass; None if a pass has no end, or none was seen.
        measured_gain: ratio of rates, patched / original, in the same worker; None if it was not measured.
        unproven_because: why it was not proven or not measured; empty otherwise.
    """

    diff: str
    folder: str
    codes: tuple[str, ...]
    by_hand: tuple[str, ...] = ()
    proven: bool = False
    measured_gain: Estimate | None = None
    unproven_because: str = ""
    verified_elements: int = 0
    pass_elements: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixes:
    """All kept fixes together: proven as one pipeline, and measured side by side with the original.

    Attributes:
        codes: rules whose fixes were kept, in the order in which they were added (greedily, the largest gain first).
        edits: all of them, in order.
        measured_gain: ratio of rates, fixed / original; None if no fix was kept.
        layout: the launch in whose worker it was measured.
        plan: the launch that feeds the accelerator with the fixes; None without a plan or a kept fix.
        today: the launch in use today with the fixes; None without one whose tasks have the CPUs of the trial.
        elements: number of elements compared.
        pass_elements: number of elements in a pass; None if a pass has no end, or none was seen.
        none_because: why no fix was kept although some gained at first; empty otherwise.
        patch: the same change as a proven change of the source; None if `tune` did not make it.
    """

    codes: tuple[str, ...]
    edits: tuple[Edit, ...]
    measured_gain: Estimate | None
    layout: Layout
    plan: Alternative | None = None
    elements: int = 0
    patch: Patch | None = None
    pass_elements: int | None = None
    none_because: str = ""
    today: Alternative | None = None

    def says_of(self, plan: LaunchPlan) -> bool:
        """Return whether the gain applies to a plan: it was measured in workers at least as wide as the plan's."""
        return self.measured_gain is not None and self.layout.cpus_per_task >= plan.cpus_per_task

    def kept(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Return the proven findings with edits that were all kept."""
        return tuple(one for one in findings if one.proven and one.edits and set(one.edits) <= set(self.edits))

"""What the user should know or change, with its proof and its gain; `Case` is what a rule sees."""

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
    """What the params say of the training. `half`: its type of 16 bits (`float16`, `bfloat16`, `cbfloat16`); None: nothing said."""

    steps: int | None = None
    epochs: int | None = None
    half: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All that a rule may look at.

    Attributes:
        is_sharded: each worker reads its own files, by a `shard` of their list or by Python code.
        demand_samples_per_s: of the accelerator; None where it is not known.
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


# A fix is kept where the low end of its gain lies above this: less is not worth another line, and near what noise shows.
LEAST_GAIN = 1.03
# In fewer rounds two numbers may agree by luck.
FEWEST_ROUNDS = 3
# A gain that is below this for sure is none: another trial would find nothing worth having.
NO_GAIN = 1.1
# How the reason begins of a fix that nothing was found out about.
UNTRIED = "not measured"
# What became of a fix: see `Finding.trial`.
Trial = Literal["advice", "untried", "refused", "noisy", "no gain", "gain"]


def is_clear_gain(gain: Estimate | None) -> bool:
    """Return whether the interval of a measured ratio of rates leaves no doubt that it is clearly faster."""
    return gain is not None and gain.low > LEAST_GAIN and (gain.count is None or gain.count >= FEWEST_ROUNDS)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Finding:
    """Something the user should know or change.

    Attributes:
        code: of the rule; filled in where the rules are run.
        fix: what to do, one sentence.
        before: the user's code that the fix changes; None where it is not known.
        after: that code, changed.
        edits: the same change of the graph; empty where the fix is advice only.
        source_check: why `after` is not given (it fails, or is no Python), was not run, or is not what was proven. Empty where the
            changed source was run, and is what was proven if anything was.
        proven: the changed source, or else the changed graph, gave the same elements, as far as the original promises any order.
        verified_elements: how many were compared; `pass_elements`: of how many, None where a pass has no end or none was seen.
        measured_gain: ratio of rates, fixed / original, of this fix alone; None where it was not measured.
        most_gain: the largest such ratio that the costs of the ops allow; None where they say nothing about it.
        unproven_because: why a fix with edits was not proven, not measured, or declined; empty otherwise.
    """

    code: str = ""
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
    most_gain: float | None = None
    source_check: str = ""

    def __repr__(self) -> str:
        gain = "" if self.measured_gain is None else f" x{self.measured_gain.estimate:.2f}"
        place = f" at {self.source}" if self.source else ""
        return in_a_line(f"Finding {self.code} {self.severity}{gain}{place}: {self.message}")

    @property
    def change(self) -> SourceChange | None:
        """Return the fix as a change of the source; None where there is none, or its place is not known."""
        if self.source is None or self.before is None or self.after is None:
            return None
        return SourceChange(source=self.source, before=self.before, after=self.after)

    @property
    def is_gain(self) -> bool:
        """Return whether it gives the same elements, and is clearly faster."""
        return self.proven and is_clear_gain(self.measured_gain) and not self.unproven_because

    @property
    def is_slower(self) -> bool:
        """Return whether the pipeline was slower with the fix."""
        return self.proven and self.measured_gain is not None and self.measured_gain.high < 1

    @property
    def trial(self) -> Trial:
        """Return what became of the fix.

        `advice`: there is no change to try. `untried`: nothing was found out. `refused`: it cannot be applied, gives other
        elements, or gains more than the costs allow. `noisy`: it was measured and may gain. `no gain`, `gain`: it is clear.
        """
        if not self.edits:
            return "advice"
        if self.unproven_because:
            return "untried" if self.unproven_because.startswith(UNTRIED) else "refused"
        if not self.proven or self.measured_gain is None:
            return "untried"
        if self.is_gain:
            return "gain"
        return "no gain" if self.measured_gain.high < NO_GAIN else "noisy"


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionUse:
    """One row of the function table of an input function.

    Attributes:
        name: what the function is for: `shard`, `interleave`, `file shuffle`, `deterministic`, …
        is_set: whether the input function has it.
        value: its parameters as the graph holds them; of several ops one after the other.
        advised: the fix of a finding about it, with its code; empty where nothing is to be changed.
        source: `path:line` of the first op that is it.
    """

    name: str
    is_set: bool
    value: str
    advised: str
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """Kept fixes as a change of the user's source files, which themselves are never written.

    Attributes:
        diff: unified, for `patch -p0` or `git apply` in `folder`; empty where no fix could be put into it.
        codes: rules whose fixes are in it.
        by_hand: what is not in it, a sentence each: the rule, the place, what to do, why it is not in it.
        proven: the patched source gave the same elements as the original.
        verified_elements: how many were compared; `pass_elements`: of how many, None where a pass has no end or none was seen.
        measured_gain: ratio of rates, patched / original, in the same worker; None where it was not measured.
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
    """What all kept fixes do together: proven as one pipeline, measured against the original side by side.

    Attributes:
        codes: rules whose fixes were kept, in the order in which they were added (greedily, the largest gain first).
        edits: all of them, in order.
        measured_gain: ratio of rates, fixed / original; None where none was kept.
        layout: the launch in whose worker it was measured.
        plan: the launch that would feed the accelerator then; None without a plan or a kept fix.
        elements: how many elements were compared; `pass_elements`: of how many, None where a pass has no end or none was seen.
        most_gain: the largest ratio that the costs of the ops allow; None where they say nothing about it.
        none_because: why none was kept, where they gained at first; empty otherwise.
        patch: the same as a change of the source, as far as that was proven; None where `tune` did not make it.
    """

    codes: tuple[str, ...]
    edits: tuple[Edit, ...]
    measured_gain: Estimate | None
    layout: Layout
    plan: Alternative | None = None
    elements: int = 0
    patch: Patch | None = None
    pass_elements: int | None = None
    most_gain: float | None = None
    none_because: str = ""

    def says_of(self, plan: LaunchPlan) -> bool:
        """Return whether the gain says something of a plan: it is of workers as wide as the plan's, or wider ones."""
        return self.measured_gain is not None and self.layout.cpus_per_task >= plan.cpus_per_task

    def kept(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Return the proven findings with edits that were all kept."""
        return tuple(one for one in findings if one.proven and one.edits and set(one.edits) <= set(self.edits))

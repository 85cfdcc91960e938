"""What was seen -> is this run waiting for its input? Pure.

Two kinds of evidence. Where the loop's waits are seen, the share of time that the accelerator stood still for input (`waiting`).
Where they are not, because the framework pulls its batches out of sight, the rate of training beside the rate of the input alone:
an input that cannot give more than is taken is what training waits for (utilization law, U = X · D).
"""

from __future__ import annotations

from dataclasses import dataclass

from cs_input_analyzer.records import Estimate, VerdictName
from cs_input_analyzer.units import format_rate, format_ratio

INPUT_BOUND_RATIO = 0.10
"""An accelerator that stands still for a tenth of the time would do with 11 % more input: worth a change of the launch."""

ACCELERATOR_BOUND_RATIO = 0.05
"""Below this, more input gains nothing that one would notice."""

FEWEST_STEPS = 5
"""Behind a share before anything is said of it."""

SATURATED_RATIO = 0.90
"""Training at this part of what its input gives alone runs at the input's pace: beside training the input has less of the CPUs, and
rates of two runs differ by some percent anyway."""

SPARE_RATIO = 0.80
"""Training below this part leaves its input idle a fifth of the time."""

IMPLAUSIBLE_RATIO = 1.10
"""Training faster than its input alone: what was read alone was not what training reads (a cache that has filled since)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A statement and, in one sentence, the numbers that it rests on.

    `wait_ratio`: share of time that the accelerator waited for input; None where that was not seen.
    """

    name: VerdictName
    why: str
    wait_ratio: Estimate | None = None

    def text(self, advice: str = "") -> str:
        """In one line, and the advice where there is any."""
        return "\n".join(part for part in (f"{self.name.replace('_', '-')}: {self.why}", advice) if part)


def by_wait(share: Estimate | None, *, steps: int) -> Verdict:
    """The verdict on a wait share over `steps` steps; `unknown` where its interval reaches from one side to the other."""
    if share is None:
        unseen = (
            "a host that waits for input says nothing about the accelerator until both are at one point: call log(loss=…) or "
            "sync() where the loop has read a result"
        )
        return Verdict(name="unknown", why=unseen if steps else "no step was seen")
    name = _judged(share) if steps >= FEWEST_STEPS else "unknown"
    span = f"{format_ratio(share.low)} to {format_ratio(share.high)}"
    why = f"the accelerator waited {format_ratio(share.estimate)} of the time for input ({span}, over {steps} steps)"
    if name == "unknown":
        why += ", too uncertain to call" if steps >= FEWEST_STEPS else ", too few to call"
    return Verdict(name=name, why=why, wait_ratio=share)


def _judged(share: Estimate) -> VerdictName:
    if share.low >= INPUT_BOUND_RATIO:
        return "input_bound"
    if share.high < ACCELERATOR_BOUND_RATIO:
        return "accelerator_bound"
    return "unknown" if share.low < ACCELERATOR_BOUND_RATIO and share.high >= INPUT_BOUND_RATIO else "balanced"


def by_rates(training: Estimate | None, alone: Estimate | None, *, is_overlapped: bool, missing: str = "") -> Verdict:
    """The verdict on a training rate beside the rate of its input alone, both in samples per second.

    Args:
        is_overlapped: whether the input prepares the next batch while the consumer is busy; where it does not, the time that the
            input takes is time that the accelerator waits.
        missing: why there is no rate of the input alone.
    """
    if training is None or alone is None:
        why = missing or "the rate of the input alone was not measured"
        return Verdict(name="unknown", why=why if training is not None else "too few steady steps for a rate of training")
    used = Estimate(estimate=training.estimate / alone.estimate, low=training.low / alone.high, high=training.high / alone.low)
    numbers = (
        f"training took {format_rate(training.estimate)}, the input alone gives {format_rate(alone.estimate)} "
        f"(used: {format_ratio(used.estimate)})"
    )
    if used.low > IMPLAUSIBLE_RATIO:
        return Verdict(name="unknown", why=f"{numbers}: it was slower alone, so the two did not read the same")
    if used.estimate >= SATURATED_RATIO:
        return Verdict(name="input_bound", why=f"{numbers}: training runs at the pace of its input")
    if not is_overlapped:
        waited = used.capped(1.0)
        why = f"{numbers}: nothing prepares batches ahead (no prefetch at the end), so that is the share of time spent waiting"
        return Verdict(name=_judged(waited), why=why, wait_ratio=waited)
    if used.high < SPARE_RATIO:
        return Verdict(name="accelerator_bound", why=f"{numbers}: the input has room to spare")
    return Verdict(name="balanced", why=numbers)


def bottleneck_text(verdict: Verdict) -> str:
    """`suspected_input_bottleneck` of performance.json: `Not Applicable`, or `true` or `false` and why."""
    if verdict.name == "unknown":
        return "Not Applicable"
    return f"{'true' if verdict.name == 'input_bound' else 'false'}: {verdict.why}"


def accelerator_rate(rate: Estimate, wait_ratio: Estimate) -> Estimate | None:
    """What the accelerator would take if its input never made it wait: X / (1 - share). None where it only waited."""
    if wait_ratio.high >= 1:
        return None
    return Estimate(
        estimate=rate.estimate / (1 - wait_ratio.estimate),
        low=rate.low / (1 - wait_ratio.low),
        high=rate.high / (1 - wait_ratio.high),
    )

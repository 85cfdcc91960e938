"""The one verdict: did the accelerator wait for its input, how sure is that, and in which words. Pure.

Each clue has odds: how many times as likely it is in a run that waits for its input as in a run that does not. The odds are our
judgement, not measured; docs/inspect_run.md lists them. Independent clues multiply (Bayes), from even odds. A monitor has one
clue, the files of a run have several.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from cs_input_analyzer.records import Estimate, Scalar, VerdictName
from cs_input_analyzer.runs.pace import Pace
from cs_input_analyzer.units import format_rate, format_ratio, format_seconds
from wafer_model.vendor_files import Performance

# An accelerator that waits a tenth of the time would do with 11 % more input: worth another launch. Below 5 % more input gains
# nothing that one would notice.
INPUT_BOUND_RATIO, ACCELERATOR_BOUND_RATIO = 0.10, 0.05
FEWEST_STEPS = 5
# Training at this share of the rate of its input alone runs at the input's pace: beside training the input has less of the CPUs.
# Below the second share the input is idle a fifth of the time. Above the third, the two did not read the same.
SATURATED_RATIO, SPARE_RATIO, IMPLAUSIBLE_RATIO = 0.90, 0.80, 1.10

SEEN_ODDS: Mapping[VerdictName, float] = {"input_bound": 40.0, "accelerator_bound": 1 / 40, "balanced": 1.0, "unknown": 1.0}
SUSPECTED_ODDS, NOT_SUSPECTED_ODDS = 8.0, 1 / 4
REACHED_ODDS, SLOW_ODDS = 1 / 10, 2.0
STALLS_ODDS, FEW_STALLS_ODDS, BURSTS_ODDS, EVEN_ODDS = 12.0, 3.0, 12.0, 1 / 2

REACHED_RATIO, SLOW_RATIO = 0.9, 0.7
STALL_SHARE_RATIO, FEW_STALLS = 0.1, 3
EVEN_SHARE_RATIO, EVEN_STEPS = 0.02, 10
BURST_RATIO, EVEN_BURST_RATIO = 2.0, 1.25
SURE, MOST_SURE = 0.8, 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class InputAlone:
    """An input read by itself.

    Attributes:
        samples_per_s: None if nothing could be measured; `missing` says why.
        is_overlapped: whether the pipeline makes batches before they are asked for; else its time is time of waiting.
    """

    samples_per_s: Estimate | None = None
    is_overlapped: bool = True
    missing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clue:
    """One thing that was seen.

    Attributes:
        odds: above 1 for waiting, below 1 against it, 1 says nothing by itself.
        says: in one sentence; empty if there is nothing to say.
        values: its numbers, by name.
        wait_ratio: the share of time that the accelerator waited, if that was seen.
        is_balanced: whether it shows a run in between.
    """

    odds: float
    says: str
    values: Mapping[str, Scalar] = field(default_factory=dict)
    wait_ratio: Estimate | None = None
    is_balanced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A verdict and what it rests on.

    Attributes:
        why: the strongest clue, in one sentence.
        reasons: all of them, the strongest first.
        confidence: the probability of the verdict; None if it is unknown.
        wait_ratio: share of time that the accelerator waited for input; None if unknown.
    """

    name: VerdictName
    why: str
    reasons: tuple[str, ...] = ()
    confidence: float | None = None
    wait_ratio: Estimate | None = None

    def __str__(self) -> str:
        return f"{self.name.replace('_', '-')}: {self.why}"


def verdict_of(clues: tuple[Clue, ...]) -> Verdict:
    """Return the verdict of all clues; `unknown` if neither side is likely enough."""
    odds = math.exp(math.fsum(math.log(clue.odds) for clue in clues))
    waits = min(max(odds / (1 + odds), 1 - MOST_SURE), MOST_SURE)
    name: VerdictName = "unknown"
    confidence: float | None = None
    if max(waits, 1 - waits) >= SURE:
        name, confidence = ("input_bound", waits) if waits >= SURE else ("accelerator_bound", 1 - waits)
    elif any(clue.is_balanced for clue in clues):
        name, confidence = "balanced", SURE
    reasons = tuple(clue.says for clue in sorted(clues, key=lambda clue: -abs(math.log(clue.odds))) if clue.says)
    share = next((clue.wait_ratio for clue in clues if clue.wait_ratio is not None), None)
    return Verdict(name=name, why=reasons[0] if reasons else "", reasons=reasons, confidence=confidence, wait_ratio=share)


def _clue(odds: float, says: str, **values: Scalar) -> tuple[Clue, ...]:
    return (Clue(odds=odds, says=says, values=values),)


def _seen(name: VerdictName, says: str, share: Estimate | None = None) -> Clue:
    values: dict[str, Scalar] = {} if share is None else {"wait_ratio": share.estimate}
    return Clue(odds=SEEN_ODDS[name], says=says, values=values, wait_ratio=share, is_balanced=name == "balanced")


def _side(share: Estimate) -> VerdictName:
    """Return the side on which the whole interval of a wait share lies."""
    if share.low >= INPUT_BOUND_RATIO:
        return "input_bound"
    if share.high < ACCELERATOR_BOUND_RATIO:
        return "accelerator_bound"
    return "unknown" if share.low < ACCELERATOR_BOUND_RATIO and share.high >= INPUT_BOUND_RATIO else "balanced"


def from_monitor(verdict: str, why: str) -> tuple[Clue, ...]:
    """Return the clue of a monitor that saw no waiting: of Keras, its rate beside that of the input alone."""
    name: VerdictName = next((name for name in SEEN_ODDS if name == verdict), "unknown")
    return (_seen(name, why),) if why else ()


def from_wait(share: Estimate | None, *, steps: int | None) -> Clue:
    """Return the clue of the share of time that the accelerator waited, over so many steps (None: not known)."""
    if share is None:
        unseen = (
            "a host that waits for input says nothing about the accelerator until both are at one point: call log(loss=…) or "
            "sync() where the loop has read a result"
        )
        return _seen("unknown", unseen if steps else "no step was seen")
    is_enough = steps is None or steps >= FEWEST_STEPS
    name = _side(share) if is_enough else "unknown"
    over = "" if steps is None else f", over {steps} steps"
    says = (
        f"the accelerator waited {format_ratio(share.estimate)} of the time for input "
        f"({format_ratio(share.low)} to {format_ratio(share.high)}{over})"
    )
    if name == "unknown":
        says += ", too uncertain to call" if is_enough else ", too few to call"
    return _seen(name, says, share)


def from_input_alone(training: Estimate | None, alone: InputAlone) -> Clue:
    """Return the clue of the training rate, in samples per second, beside the input alone.

    An input that gives no more than training takes is what training waits for (utilization law, U = X · D).
    """
    if training is None or alone.samples_per_s is None:
        return _seen("unknown", alone.missing if training is not None else "too few steady steps for a rate of training")
    given = alone.samples_per_s
    used = Estimate(estimate=training.estimate / given.estimate, low=training.low / given.high, high=training.high / given.low)
    numbers = (
        f"training took {format_rate(training.estimate)}, the input alone gives {format_rate(given.estimate)} "
        f"(used: {format_ratio(used.estimate)})"
    )
    if used.low > IMPLAUSIBLE_RATIO:
        return _seen("unknown", f"{numbers}: it was slower alone, so the two did not read the same")
    if used.estimate >= SATURATED_RATIO:
        return _seen("input_bound", f"{numbers}: training runs at the pace of its input")
    if not alone.is_overlapped:
        waited = used.capped(1.0)
        says = f"{numbers}: nothing prepares batches ahead (no prefetch at the end), so that is the share of time spent waiting"
        return _seen(_side(waited), says, waited)
    if used.high < SPARE_RATIO:
        return _seen("accelerator_bound", f"{numbers}: the input has room to spare")
    return _seen("balanced", numbers)


def from_suspicion(performance: Performance | None) -> tuple[Clue, ...]:
    """Return the clue that the run itself gives in performance.json."""
    if performance is None:
        return ()
    odds, says = {
        None: (1.0, "makes no assessment of its input (Not Applicable)"),
        True: (SUSPECTED_ODDS, "suspects its input to be the bottleneck (a beta feature, its thresholds are not published)"),
        False: (NOT_SUSPECTED_ODDS, "does not suspect its input"),
    }[performance.is_input_bound]
    words = performance.suspected_input_bottleneck
    return _clue(odds, f"performance.json {says}", suspected_input_bottleneck=words)


def from_estimate(rate: float | None, expected_per_s: float | None, source: str) -> tuple[Clue, ...]:
    """Return the clue of the rate beside what the accelerator should reach. A low rate has many causes, and is weak alone."""
    if rate is None or expected_per_s is None:
        return ()
    reached = rate / expected_per_s
    odds, effect = 1.0, ""
    if reached >= REACHED_RATIO:
        odds, effect = REACHED_ODDS, ": there was little to wait for"
    elif reached < SLOW_RATIO:
        odds, effect = SLOW_ODDS, ": something held it back, not necessarily its input"
    numbers = f"{format_rate(rate)} is {format_ratio(reached)} of the {format_rate(expected_per_s)} that {source} expects"
    return _clue(odds, f"{numbers}{effect}", reached_ratio=reached)


def from_pace(pace: Pace, checkpoints: int) -> tuple[Clue, ...]:
    """Return the clues in the times of steps: bursts, lost gaps, and gaps that something explains."""
    return (*_from_bursts(pace), *_from_stalls(pace), *_from_explained(pace, checkpoints))


def _from_bursts(pace: Pace) -> tuple[Clue, ...]:
    if pace.burst_ratio is None or pace.burst_ratio < BURST_RATIO:
        return ()
    says = (
        f"Rate stands at {pace.burst_ratio:.1f} times what goes through between two lines, checkpoints left out: the steps come in "
        "bursts, as batches do that arrive late"
    )
    return _clue(BURSTS_ODDS, says, burst_ratio=pace.burst_ratio)


def _from_stalls(pace: Pace) -> tuple[Clue, ...]:
    if pace.usual_steps_per_s is None:
        return ()
    share = pace.stall_share_ratio
    odds, says = 1.0, f"stalls took {format_ratio(share)} of the training time" if pace.stall_count else ""
    is_bursty = pace.burst_ratio is not None and pace.burst_ratio > EVEN_BURST_RATIO
    if pace.stall_count and share >= STALL_SHARE_RATIO:
        count = f"{pace.stall_count:,} stalls" if pace.stall_count > 1 else "one stall"
        says = f"{count} without a checkpoint or an evaluation in them took {format_ratio(share)} of the training time"
        odds = STALLS_ODDS if pace.stall_count >= FEW_STALLS else FEW_STALLS_ODDS
    elif share < EVEN_SHARE_RATIO and pace.plain_steps >= EVEN_STEPS and not is_bursty:
        says = "no step took much longer than the others: an input that is always late looks the same, so this says little"
        odds = EVEN_ODDS
    return _clue(odds, says, unexplained_stalls=pace.stall_count, stall_share_ratio=share)


def _from_explained(pace: Pace, checkpoints: int) -> tuple[Clue, ...]:
    found: tuple[Clue, ...] = ()
    if pace.explained_s > 0:
        causes = " or ".join(f"{'an' if cause == 'evaluation' else 'a'} {cause}" for cause in pace.causes)
        says = f"{format_seconds(pace.explained_s)} between lines with {causes} in them are left out of the rates"
        found += _clue(1.0, says, checkpoints=checkpoints, explained_s=pace.explained_s)
    if pace.made_up_count:
        pauses = f"{pace.made_up_count:,} pauses" if pace.made_up_count > 1 else "one pause"
        says = (
            f"{pauses} of {format_seconds(pace.made_up_s)} in all, each made up for by the burst after it: the accelerator "
            "computed on and the host read late, as it does after a checkpoint; they are left out of the rates"
        )
        found += _clue(1.0, says, made_up_pauses=pace.made_up_count, made_up_s=pace.made_up_s)
    return found


def accelerator_rate(rate: Estimate | None, wait_ratio: Estimate | None) -> Estimate | None:
    """Return the rate of an accelerator that never waits: X / (1 - share). Return None if either is unknown, or it only waited."""
    if rate is None or wait_ratio is None or wait_ratio.high >= 1:
        return None
    return Estimate(
        estimate=rate.estimate / (1 - wait_ratio.estimate),
        low=rate.low / (1 - wait_ratio.low),
        high=rate.high / (1 - wait_ratio.high),
    )

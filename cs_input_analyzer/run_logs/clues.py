"""What was read -> does it say that the accelerator starved, how strongly, and in which words. Pure.

Each clue has odds: how many times as likely one would see it in a run that waits for its input as in one that does not. The odds
are our judgement, not measured, and are written down in docs/inspect_run.md. Independent clues multiply (Bayes), from even odds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from cs_input_analyzer.monitoring.verdict import ACCELERATOR_BOUND_RATIO, INPUT_BOUND_RATIO
from cs_input_analyzer.records import Estimate, Scalar, VerdictName
from cs_input_analyzer.run_logs.change import Demand
from cs_input_analyzer.run_logs.pace import Pace
from cs_input_analyzer.units import format_rate, format_ratio, format_seconds
from wafer_model.performance_json import Performance

WAIT_SEEN_ODDS = 40.0
SUSPECTED_ODDS, NOT_SUSPECTED_ODDS = 8.0, 1 / 4
REACHED_ODDS, SLOW_ODDS = 1 / 10, 2.0
STALLS_ODDS, FEW_STALLS_ODDS, BURSTS_ODDS, EVEN_ODDS = 12.0, 3.0, 12.0, 1 / 2

REACHED_RATIO, SLOW_RATIO = 0.9, 0.7
STALL_SHARE_RATIO, FEW_STALLS = 0.1, 3
EVEN_SHARE_RATIO, EVEN_STEPS = 0.02, 10
BURST_RATIO, EVEN_BURST_RATIO = 2.0, 1.25
SURE = 0.8
MOST_SURE = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class Clue:
    """`odds` above 1 speak for starving, below 1 against, 1 says nothing by itself. `values`: its numbers, by name.

    `says` is empty where there is nothing to say.
    """

    odds: float
    says: str
    values: Mapping[str, Scalar] = field(default_factory=dict)


def verdict_of(clues: tuple[Clue, ...]) -> tuple[VerdictName, float | None]:
    """The verdict and its probability; (`unknown`, None) where neither side is likely enough."""
    odds = math.exp(math.fsum(math.log(clue.odds) for clue in clues))
    starves = min(max(odds / (1 + odds), 1 - MOST_SURE), MOST_SURE)
    if starves >= SURE:
        return "input_bound", starves
    if 1 - starves >= SURE:
        return "accelerator_bound", 1 - starves
    return "unknown", None


def _clue(odds: float, says: str, **values: Scalar) -> tuple[Clue, ...]:
    return (Clue(odds=odds, says=says, values=values),)


def from_wait(share: Estimate | None) -> tuple[Clue, ...]:
    """The share of time that the accelerator was seen waiting, by the monitor's own thresholds."""
    if share is None:
        return ()
    odds = 1.0
    if share.low >= INPUT_BOUND_RATIO:
        odds = WAIT_SEEN_ODDS
    elif share.high < ACCELERATOR_BOUND_RATIO:
        odds = 1 / WAIT_SEEN_ODDS
    says = f"the monitor saw the accelerator wait {format_ratio(share.estimate)} of the time for input"
    return _clue(odds, says, wait_ratio=share.estimate)


def from_suspicion(performance: Performance | None) -> tuple[Clue, ...]:
    """What the run says of itself in performance.json."""
    if performance is None:
        return ()
    odds, says = {
        None: (1.0, "makes no assessment of its input (Not Applicable)"),
        True: (SUSPECTED_ODDS, "suspects its input to be the bottleneck (a beta feature, its thresholds are not published)"),
        False: (NOT_SUSPECTED_ODDS, "does not suspect its input"),
    }[performance.is_input_bound]
    words = performance.suspected_input_bottleneck
    return _clue(odds, f"performance.json {says}", suspected_input_bottleneck=words)


def from_estimate(rate: float | None, estimate: Demand | None) -> tuple[Clue, ...]:
    """The rate beside what the accelerator should reach. A low one has many causes, and is weak alone."""
    if rate is None or estimate is None:
        return ()
    reached = rate / estimate.samples_per_s
    odds, effect = 1.0, ""
    if reached >= REACHED_RATIO:
        odds, effect = REACHED_ODDS, ": there was little to wait for"
    elif reached < SLOW_RATIO:
        odds, effect = SLOW_ODDS, ": something held it back, not necessarily its input"
    expected = f"the {format_rate(estimate.samples_per_s)} that {estimate.source} expects"
    numbers = f"{format_rate(rate)} is {format_ratio(reached)} of {expected}"
    return _clue(odds, f"{numbers}{effect}", reached_ratio=reached)


def from_stalls(pace: Pace | None) -> tuple[Clue, ...]:
    """Long steps that nothing explains, among quick ones."""
    if pace is None or pace.usual_steps_per_s is None:
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


def from_bursts(pace: Pace | None) -> tuple[Clue, ...]:
    """A Rate far above what goes through from line to line: steps in bursts, and pauses that no checkpoint explains."""
    if pace is None or pace.burst_ratio is None or pace.burst_ratio < BURST_RATIO:
        return ()
    says = (
        f"Rate stands at {pace.burst_ratio:.1f} times what goes through between two lines, checkpoints left out: the steps come in "
        "bursts, as batches do that arrive late"
    )
    return _clue(BURSTS_ODDS, says, burst_ratio=pace.burst_ratio)


def from_pauses(pace: Pace | None, checkpoints: int) -> tuple[Clue, ...]:
    """Pauses with a cause, which say nothing about the input."""
    found: tuple[Clue, ...] = ()
    if pace is not None and pace.explained_s > 0:
        causes = " or a ".join(pace.causes)
        says = f"{format_seconds(pace.explained_s)} between lines with a {causes} in them are left out of the rates"
        found += _clue(1.0, says, checkpoints=checkpoints, explained_s=pace.explained_s)
    if pace is not None and pace.made_up_count:
        pauses = f"{pace.made_up_count:,} pauses" if pace.made_up_count > 1 else "one pause"
        says = (
            f"{pauses} of {format_seconds(pace.made_up_s)} in all, each made up for by the burst after it: the accelerator "
            "computed on and the host read late, as it does after a checkpoint; they are left out of the rates"
        )
        found += _clue(1.0, says, made_up_pauses=pace.made_up_count, made_up_s=pace.made_up_s)
    return found

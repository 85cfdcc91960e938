"""Time around the steady state: compiling, programming, priming, checkpoints, and the two rates that a user sees on the console.

`GlobalRate` is all samples over the time since the executable was loaded. `Rate` is smoothed: at each sample of the clock, 0.6 of
the local rate plus 0.4 of the last Rate. Both are what the user's node sees: while it downloads a checkpoint it fetches no
outputs, the wafer goes on, and afterwards the outputs arrive faster than any wafer computes: a spike in Rate, a dip that heals in
GlobalRate. Source: "Measure throughput of your model" of the 1.9 to 2.x documentation; smoothing checked against public logs.
"""

from __future__ import annotations

from dataclasses import dataclass

from wafer_model.errors import WaferModelError

SMOOTHING = 0.4
# "roughly 60 seconds per billion model parameters" (ALCF user guide). Seen: 497 s for GPT-J 6B, 464 s for
# Llama2 7B, 181 s for a 2.3 B diffusion transformer.
CHECKPOINT_S_PER_PARAMETER = 60e-9
# After its checkpoint the public DiT log (CS-3) fetches 20 steps of 1,168 in 3.75 s where the wafer takes 26.65 s for them.
FETCH_SPEED_UP = 7.1
# How long the wafer itself stands during a checkpoint, as a share of it. In weight streaming the weights live outside: over the
# 181 s of the DiT checkpoint its GlobalRate lost half a second. In pipelined mode they leave the wafer: all of it is assumed.
STALL_RATIO = {"pipelined": 1.0, "weight_streaming": 0.0}
# Medians and ranges of public logs, seconds. Compiling: FC-MNIST pipelined 25, FC-MNIST streamed 480, Llama 7B 2,040, "over an
# hour" in R1.4. Programming: 75 to 241. Priming: 0 to 3,700 (vision), and nothing in the wafer's power.
COMPILE_S = {"pipelined": 300.0, "weight_streaming": 900.0}
PROGRAMMING_S = 120.0
# Initial weights: 13 GB in 13 s (CS-3) to 129 s (CS-2, R1.7).
WEIGHTS_S_PER_PARAMETER = 10e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """What happens when.

    Attributes:
        samples_per_s: steady rate of the wafer; `batch_size`: samples per step.
        checkpoint_every_steps: 0 for none; `checkpoint_s`: until the user's node has it; `stall_s`: of that, the wafer stands.
        fill_s: until the pipeline is full, once.
    """

    samples_per_s: float
    batch_size: int
    compile_s: float = 0.0
    programming_s: float = 0.0
    priming_s: float = 0.0
    fill_s: float = 0.0
    checkpoint_every_steps: int = 0
    checkpoint_s: float = 0.0
    stall_s: float = 0.0
    fetch_speed_up: float = FETCH_SPEED_UP

    def __post_init__(self) -> None:
        if not self.samples_per_s > 0 or self.batch_size <= 0 or not self.fetch_speed_up > 1:
            raise WaferModelError("a schedule needs a positive rate and batch, and outputs that arrive faster than they are made")
        for field in ("compile_s", "programming_s", "priming_s", "fill_s", "checkpoint_s", "stall_s", "checkpoint_every_steps"):
            if not getattr(self, field) >= 0:
                raise WaferModelError(f"{field} cannot be negative, got {getattr(self, field)}")
        if self.stall_s > self.checkpoint_s:
            raise WaferModelError("the wafer cannot stand longer than its checkpoint takes")

    @property
    def step_s(self) -> float:
        return self.batch_size / self.samples_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class RatePoint:
    """One logged line: `elapsed_s` since the executable was loaded."""

    step: int
    elapsed_s: float
    rate: float
    global_rate: float


def schedule_of(
    *,
    samples_per_s: float,
    batch_size: int,
    parameters: int,
    mode: str,
    checkpoint_every_steps: int = 0,
    fill_s: float = 0.0,
    priming_s: float = 0.0,
) -> Schedule:
    """The schedule with the public defaults for a network of `parameters` in `mode`.

    Raises:
        WaferModelError: unknown mode, or a number that cannot be.
    """
    if mode not in STALL_RATIO:
        raise WaferModelError(f"unknown mode {mode!r}: one of {', '.join(STALL_RATIO)}")
    checkpoint = parameters * CHECKPOINT_S_PER_PARAMETER if checkpoint_every_steps else 0.0
    return Schedule(
        samples_per_s=samples_per_s,
        batch_size=batch_size,
        compile_s=COMPILE_S[mode],
        programming_s=PROGRAMMING_S + parameters * WEIGHTS_S_PER_PARAMETER,
        priming_s=priming_s,
        fill_s=fill_s,
        checkpoint_every_steps=checkpoint_every_steps,
        checkpoint_s=checkpoint,
        stall_s=checkpoint * STALL_RATIO[mode],
    )


def start_up_s(schedule: Schedule) -> float:
    """Seconds before the first sample is asked for."""
    return schedule.compile_s + schedule.programming_s + schedule.priming_s


def total_s(schedule: Schedule, steps: int) -> float:
    """Seconds of a run of `steps`, start-up and last checkpoint included, as the user's node sees it."""
    points = arrivals_s(schedule, steps)
    last = schedule.checkpoint_s if schedule.checkpoint_every_steps and steps % schedule.checkpoint_every_steps == 0 else 0.0
    return start_up_s(schedule) + points[-1] + last


def average_samples_per_s(schedule: Schedule, steps: int) -> float:
    """Samples over all seconds from the first command on: what a short run looks like from outside."""
    return steps * schedule.batch_size / total_s(schedule, steps)


def arrivals_s(schedule: Schedule, steps: int) -> tuple[float, ...]:
    """When the user's node has the output of each step, seconds since loading."""
    if steps <= 0:
        raise WaferModelError(f"a run has at least one step, got {steps}")
    made, free, found = schedule.fill_s, 0.0, []
    fetch_s = schedule.step_s / schedule.fetch_speed_up
    for step in range(1, steps + 1):
        made += schedule.step_s
        arrived = max(made, free + fetch_s)
        found.append(arrived)
        free = arrived
        if schedule.checkpoint_every_steps and step % schedule.checkpoint_every_steps == 0:
            free = max(arrived, made) + schedule.checkpoint_s
            made += schedule.stall_s
    return tuple(found)


def rate_trace(
    schedule: Schedule, steps: int, *, log_every: int = 1, sample_every: int | None = None, smoothing: float = SMOOTHING
) -> tuple[RatePoint, ...]:
    """`Rate` and `GlobalRate` as the run logs them.

    Args:
        log_every: steps between logged lines.
        sample_every: steps between samples of the clock: every step since release 2.4, every logged line before (the default).

    Raises:
        WaferModelError: a step or smoothing that cannot be.
    """
    between = sample_every if sample_every is not None else log_every
    if log_every <= 0 or between <= 0 or not 0 <= smoothing < 1:
        raise WaferModelError("log_every and sample_every are at least 1, and the smoothing is below 1")
    times = arrivals_s(schedule, steps)
    rate: float | None = None
    last_step, last_s = 0, 0.0
    points = []
    for step in range(1, steps + 1):
        now = times[step - 1]
        if step % between == 0 or step == steps:
            local = (step - last_step) * schedule.batch_size / (now - last_s)
            rate = local if rate is None else (1 - smoothing) * local + smoothing * rate
            last_step, last_s = step, now
        if step % log_every == 0 and rate is not None:
            points.append(RatePoint(step=step, elapsed_s=now, rate=rate, global_rate=step * schedule.batch_size / now))
    return tuple(points)

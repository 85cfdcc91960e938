"""Is a run that computes all the time ever called input-bound, and is a starved one called, from what their hosts print?

200 healthy runs and 100 starved ones are simulated, printed as console logs or event files, and read by `inspect-run`. What is
simulated knows nothing of the code that judges it: batches become ready, a wafer takes them, a host reads the results in turn.

    ready(n)    = max(ready(n - 1) + input's time, taken(n - buffer))     an input that is late makes the wafer wait
    computed(n) = max(computed(n - 1), ready(n)) + wafer's time           and during a checkpoint it stops for a part of it
    read(n)     = max(read(n - 1) + reading, computed(n))                 a host that downloads a checkpoint reads nothing meanwhile

A checkpoint takes 0.1 to 30 steps; in 60 more healthy runs it takes 30 to 1,500, as those of large networks do. Lines are 1, 10, 50
or 100 steps apart. The lines of the checkpoints are there, or not, as after `grep Rate`. Rate is sampled where it is printed
(releases to 2.0), or at every step (since 2.4). A log can show that a run starves where the waits are longer than the lines are
apart, or where Rate is sampled in the bursts between them: all starved runs are of these kinds.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tensorboard.compat.proto import event_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

from benchmarks.paired import arguments, save, show
from cs_input_analyzer.runs.inspection import inspect_run

HEALTHY, LONG, STARVED = 200, 60, 100
MOST_ERROR_RATIO = 0.02
LEAST_CALLED = 95
KINDS = ("healthy", "long", "regular", "random", "bursts")
SPACINGS = (1, 10, 50, 100)
# Of the 181 s of a public checkpoint (diffusion transformer, 2B) the wafer stood still for 0.6 s, as the later steps show.
STOPS = (0.0, 0.003, 0.02)
BEGAN = datetime(2025, 3, 1)
Times = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """One run as it is simulated. Times in seconds.

    Attributes:
        spacing: steps from one line to the next; `lines` of them.
        step_s: the wafer's time of a step; `reading_s`: the least time between two results at the host.
        checkpoint_every, checkpoint_s: steps and the host's time of one; the wafer stops for `stop_ratio` of it.
        waits: step -> how much later than usual its batch is ready.
        input_ratio: the input's usual time of a batch, over the wafer's; `buffer`: batches that are made ahead.
        is_sampled_each_step: when Rate is sampled. `has_lines`: whether checkpoints can be seen beside the rates.
    """

    seed: int
    is_starved: bool
    kind: str
    form: str
    spacing: int
    lines: int
    batch: int
    step_s: float
    reading_s: float
    checkpoint_every: int
    checkpoint_s: float
    stop_ratio: float
    waits: dict[int, float]
    input_ratio: float
    buffer: int
    is_sampled_each_step: bool
    has_lines: bool

    @property
    def steps(self) -> int:
        return self.spacing * self.lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """`read_s`: when the host read each step's result, the start first. `samples_per_s`: the truth, without checkpoints."""

    read_s: Times
    saving_s: dict[int, tuple[float, float]]
    samples_per_s: float


def healthy(seed: int, *, is_long: bool = False) -> Plant:
    """Return a run whose input is always there in time. Its hiccups are shorter than the buffer."""
    draw = random.Random(f"{seed} {is_long}")
    spacing = SPACINGS[seed % len(SPACINGS)]
    lines = draw.randint(*((150, 600) if spacing == 1 else (60, 200)))
    step_s = 10 ** draw.uniform(-2, 1)
    pause = draw.choice([10 ** draw.uniform(-1, 1.477), draw.uniform(5, 30)])
    every = draw.choice([50, 60, 100, 200, 500, 1000])
    if is_long:
        pause = 10 ** draw.uniform(1.477, 3.176)
        every = int(pause * draw.uniform(1.5, 8))
        lines = max(lines, 6 * every // spacing)
    reading = 1 / draw.uniform(3, 20)
    every = max(every, int(pause * (1 + reading / (1 - reading)) * 1.2))  # the host catches up before the next one
    lines = max(lines, 3 * every // spacing)
    buffer = draw.randint(8, 30)
    hiccups = {step: draw.uniform(0.1, 0.5) * buffer * step_s for step in range(50, spacing * lines, draw.randint(60, 400))}
    return Plant(
        seed=seed,
        is_starved=False,
        kind="long" if is_long else "healthy",
        form="events" if draw.random() < 0.4 else "console",
        spacing=spacing,
        lines=lines,
        batch=draw.choice([32, 64, 99, 120, 256, 1024, 2850]),
        step_s=step_s,
        reading_s=step_s * reading,
        checkpoint_every=every,
        checkpoint_s=step_s * pause,
        stop_ratio=draw.choice(STOPS),
        waits=hiccups,
        input_ratio=draw.uniform(0.2, 0.6),
        buffer=buffer,
        is_sampled_each_step=draw.random() < 0.5,
        has_lines=draw.random() < 0.5,
    )


def starved(seed: int) -> Plant:
    """Return a run that waits at regular steps (a shuffle is filled), at random ones (a file system), or after each burst."""
    draw = random.Random(seed)
    spacing = SPACINGS[seed % len(SPACINGS)]
    kind = draw.choice(["regular", "random", "bursts"]) if spacing > 1 else draw.choice(["regular", "random"])
    lines = draw.randint(*((400, 1200) if spacing == 1 else (100, 250)))
    step_s, steps, buffer = 10 ** draw.uniform(-2, 1), spacing * lines, draw.randint(1, 8)
    if kind == "bursts":
        # Lines that always come with the first batch after a wait show nothing of the burst: so no group that divides the spacing.
        group = draw.choice([size for size in range(5, spacing + 1) if spacing % size])
        waits = dict.fromkeys(range(group, steps, group), draw.uniform(2.5, 6) * group * step_s)
        buffer = 1
    else:
        apart = spacing * draw.randint(3, 8) + draw.randint(0, spacing)
        length = max(0.25 * apart, draw.uniform(1.6, 3) * spacing) + 1.2 * buffer
        places = list(range(apart, steps, apart))
        if kind == "random":
            places = sorted(draw.sample(range(spacing, steps - spacing), len(places)))
        waits = {step: step_s * length * (draw.uniform(0.8, 1.6) if kind == "random" else 1.0) for step in places}
    return Plant(
        seed=seed,
        is_starved=True,
        kind=kind,
        form="events" if draw.random() < 0.4 else "console",
        spacing=spacing,
        lines=lines,
        batch=draw.choice([32, 64, 99, 120, 256, 1024, 2850]),
        step_s=step_s,
        reading_s=step_s / draw.uniform(3, 20),
        checkpoint_every=draw.choice([500, 1000, 5000]),
        checkpoint_s=step_s * 10 ** draw.uniform(-1, 1.477),
        stop_ratio=draw.choice(STOPS),
        waits=waits,
        input_ratio=draw.uniform(0.5, 0.95),
        buffer=buffer,
        is_sampled_each_step=kind == "bursts" or draw.random() < 0.5,
        has_lines=draw.random() < 0.5,
    )


def simulate(plant: Plant) -> Simulated:
    noise = np.random.default_rng(plant.seed)
    computing = plant.step_s * np.exp(noise.normal(0.0, 0.01, plant.steps + 1))
    computed, ready, read = np.zeros(plant.steps + 1), np.zeros(plant.steps + 1), np.zeros(plant.steps + 1)
    saving: dict[int, tuple[float, float]] = {}
    free_s = stopped_s = lost_s = 0.0
    for step in range(1, plant.steps + 1):
        making = plant.input_ratio * plant.step_s + plant.waits.get(step, 0.0)
        slot = computed[step - plant.buffer - 1] if step > plant.buffer else 0.0
        ready[step] = max(ready[step - 1], slot) + making
        computed[step] = max(computed[step - 1] + stopped_s, ready[step]) + computing[step]
        stopped_s = 0.0
        read[step] = max(read[step - 1] + plant.reading_s, computed[step], free_s)
        if step % plant.checkpoint_every == 0 and step < plant.steps:
            free_s, stopped_s = read[step] + plant.checkpoint_s, plant.stop_ratio * plant.checkpoint_s
            saving[step] = (read[step], free_s)
            lost_s += stopped_s
    samples = plant.batch * (plant.steps - 1) / (computed[-1] - computed[1] - lost_s)  # the first step waits for the first batch
    return Simulated(read_s=read, saving_s=saving, samples_per_s=float(samples))


def rates(plant: Plant, read_s: Times) -> Iterator[tuple[int, float, float, float]]:
    """(step, time, Rate, GlobalRate) of each line, with the jitter of a host."""
    jitter = random.Random(plant.seed)
    rate: float | None = None
    sampled = 0
    for step in range(1, plant.steps + 1):
        is_line = step % plant.spacing == 0
        if plant.is_sampled_each_step or is_line:
            passed = max(read_s[step] - read_s[sampled], 1e-6)
            local = plant.batch * (step - sampled) / passed
            rate, sampled = local if rate is None else 0.6 * local + 0.4 * rate, step
        if is_line:
            at = float(read_s[step]) + jitter.uniform(0.0, 5e-4)
            yield step, at, rate or 0.0, plant.batch * step / float(read_s[step])


def write(plant: Plant, simulated: Simulated, folder: Path) -> Path:
    """Return the log, or the folder of events with its checkpoints."""
    if plant.form == "events":
        write_events(plant, simulated, folder / "events.out.tfevents.1740787200.host")
        if plant.has_lines:
            for step in sorted(simulated.saving_s)[-5:]:  # as many as are kept
                (folder / f"model.ckpt-{step}.index").touch()
        return folder
    path = folder / "run.log"
    with path.open("w", encoding="utf-8") as file:
        for step, at, rate, total in rates(plant, simulated.read_s):
            for saved, (begin, end) in saved_before(plant, simulated, step):
                file.write(f"{stamp(begin)} INFO:   Saving checkpoint at step {saved}\n")
                file.write(f"{stamp(end)} INFO:   Saved checkpoint model_dir/checkpoint_{saved}.mdl\n")
            file.write(rate_line(at, step, rate, total))
    return path


def saved_before(plant: Plant, simulated: Simulated, step: int) -> list[tuple[int, tuple[float, float]]]:
    """Checkpoints that a host tells of between two lines: a step is printed, then saved."""
    if not plant.has_lines:
        return []
    return [(saved, span) for saved, span in simulated.saving_s.items() if step - plant.spacing <= saved < step]


def rate_line(at_s: float, step: int, rate: float, total: float) -> str:
    text = f"Step={step}, Loss=2.50000, Rate={rate:.2f} samples/sec, GlobalRate={total:.2f} samples/sec"
    return f"{stamp(at_s)} INFO:   | Train Device=CSX, {text}\n"


def stamp(seconds: float) -> str:
    at = BEGAN + timedelta(seconds=seconds)
    return f"{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03d}"


# --- event files ---------------------------------------------------------------------------------------------------------------


def write_events(plant: Plant, simulated: Simulated, path: Path) -> None:
    """Write a scalar of each rate for each line, and the log of each session that saved a checkpoint."""
    began_s = BEGAN.timestamp()
    with path.open("wb") as file:
        writer = RecordWriter(file)
        for step, at, rate, total in rates(plant, simulated.read_s):
            for saved, (_, end) in saved_before(plant, simulated, step):
                event = event_pb2.Event(wall_time=began_s + end, step=saved)
                event.session_log.status = event_pb2.SessionLog.CHECKPOINT
                event.session_log.checkpoint_path = f"model_dir/model.ckpt-{saved}"
                writer.write(event.SerializeToString())
            scalars = {"local_samples_per_sec": rate, "avg_samples_per_sec": total, "avg_steps_per_sec": total / plant.batch}
            event = event_pb2.Event(wall_time=began_s + at, step=step)
            for name, value in scalars.items():
                event.summary.value.add(tag=name, simple_value=value)
            writer.write(event.SerializeToString())
        writer.flush()


# --- judging -----------------------------------------------------------------------------------------------------------------


def judge(plant: Plant, folder: Path) -> dict[str, object]:
    simulated = simulate(plant)
    found = inspect_run(write(plant, simulated, folder))
    steady = found.rates.steady_samples_per_s
    error = abs(steady.estimate / simulated.samples_per_s - 1) if steady is not None else None
    return {
        "seed": plant.seed,
        "kind": plant.kind,
        "form": plant.form,
        "spacing": plant.spacing,
        "has_lines": plant.has_lines,
        "checkpoint_steps": plant.checkpoint_s / plant.step_s,
        "verdict": found.verdict,
        "confidence": found.confidence,
        "true_samples_per_s": simulated.samples_per_s,
        "error_ratio": error,
        "is_inside": steady is not None and steady.low <= simulated.samples_per_s <= steady.high,
    }


def main() -> None:
    options = arguments(
        __doc__,
        healthy=(int, HEALTHY, "healthy runs"),
        long=(int, LONG, "healthy runs with long checkpoints"),
        starved=(int, STARVED, "starved runs"),
    )
    plants = [healthy(seed) for seed in range(options.healthy)] + [healthy(seed, is_long=True) for seed in range(options.long)]
    plants += [starved(seed) for seed in range(options.starved)]
    results = []
    for plant in plants:
        with tempfile.TemporaryDirectory() as folder:
            results.append(judge(plant, Path(folder)))
    groups = {"healthy": KINDS[:1], "healthy, long checkpoints": KINDS[1:2], "starved": KINDS[2:]}
    alike = {name: [each for each in results if each["kind"] in kinds] for name, kinds in groups.items()}
    rows = [_row(name, some) for name, some in alike.items() if some]
    show(
        f"Runs read from what their hosts print (targets: no healthy one called, {LEAST_CALLED} of 100 starved ones; the steady "
        f"rate within {MOST_ERROR_RATIO:.0%})",
        ("runs", "count", "called input-bound", "other verdicts", "off by, median", "worst", "within 2 %", "inside 90 %"),
        rows,
    )
    save(options.json, {"targets": {"error_ratio": MOST_ERROR_RATIO, "called": LEAST_CALLED}, "runs": results})


def _row(name: str, alike: list[dict[str, object]]) -> tuple[str, ...]:
    verdicts = Counter(str(each["verdict"]) for each in alike)
    called = verdicts.pop("input_bound", 0)
    errors = sorted(1.0 if each["error_ratio"] is None else float(str(each["error_ratio"])) for each in alike)
    return (
        name,
        str(len(alike)),
        str(called),
        ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items()) or "-",
        f"{errors[len(errors) // 2]:.2%}",
        f"{errors[-1]:.2%}",
        str(sum(error <= MOST_ERROR_RATIO for error in errors)),
        str(sum(bool(each["is_inside"]) for each in alike)),
    )


if __name__ == "__main__":
    main()

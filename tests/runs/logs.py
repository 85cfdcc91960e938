"""Logs in the documented grammars, written by us; numbers of public runs are from Argonne's AI testbed documentation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from cs_input_analyzer.records import RunInspection
from cs_input_analyzer.runs.inspection import inspect_run

BEGAN = datetime(2024, 3, 1, 12, 0, 0)
EXCERPTS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "public_excerpts.json").read_text(encoding="utf-8"))
# BERT-large in TensorFlow, release 1.8, as (step, steps per second): results arrive in batches.
ESTIMATOR_ROWS: tuple[tuple[int, float], ...] = tuple(
    (line[2], line[3])
    for each in EXCERPTS
    if each["run"] == "BERT-large, TensorFlow, 1.8"
    for line in each["lines"]
    if line[0] == "estimator"
)


def stamp(seconds: float) -> str:
    """A time stamp so many seconds after noon."""
    return (BEGAN + timedelta(seconds=seconds)).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]


def train_line(at: str, step: int, rate: float, whole: float, *, loss: str = "1.5", device: str = "CSX", tail: str = "") -> str:
    return (
        f"{at} INFO:   | Train Device={device}, Step={step}, Loss={loss}, Rate={rate:.2f} samples/sec, "
        f"GlobalRate={whole:.2f} samples/sec{tail}"
    )


def eval_line(at: str, batch: int, rate: float) -> str:
    return (
        f"{at} INFO:   | Eval Device=CSX, GlobalStep=7, Batch={batch}, Loss=1.0, Rate={rate:.2f} samples/sec, "
        f"GlobalRate={rate:.2f} samples/sec"
    )


def checkpoint_lines(begin: str, end: str, step: int) -> list[str]:
    return [f"{begin} INFO:   Saving checkpoint at step {step}", f"{end} INFO:   Saved checkpoint run/checkpoint_{step}.mdl"]


def excerpt_line(line: Sequence[Any]) -> str:
    """A line of `public_excerpts.json` as it was printed."""
    kind, at = line[0], f"{line[1]} INFO:   " if line[1] else ""
    if kind == "train":
        return train_line(line[1], *line[2:])
    if kind == "eval":
        rates = f"Rate={line[3]:.2f} samples/sec, GlobalRate={line[4]:.2f} samples/sec"
        return f"{at}| Eval Device=CSX, GlobalStep=400, Batch={line[2]}, Loss=1.0, {rates}, LoopTimeRemaining=0:00:04"
    return {
        "estimator": lambda: estimator_log([line[2:]])[0],
        "saving": lambda: f"{at}Saving checkpoint at step {line[2]}",
        "saved": lambda: f"{at}Saved checkpoint run/checkpoint.mdl",
        "finished": lambda: f"Training finished with {line[2]} samples in {line[3]} seconds, {line[4]} samples/second.",
        "completed": lambda: f"{at}Training Complete. Completed {line[2]} sample(s) in {line[3]} seconds.",
        "processed": lambda: f"{at}Processed {line[2]} training sample(s) in {line[3]} seconds.",
    }[kind]()


def excerpt(run: str, *, without: Sequence[str] = ()) -> list[str]:
    """The lines of a public run, without those of some kinds."""
    (found,) = [each for each in EXCERPTS if each["run"] == run]
    return [excerpt_line(line) for line in found["lines"] if line[0] not in without]


def estimator_log(rows: Iterable[Sequence[float]]) -> list[str]:
    return [f"INFO:tensorflow:global step {step}: loss = 0.25 ({rate} steps/sec)" for step, rate in rows]


def smoothed_log(
    gaps_s: Sequence[float], *, steps: int = 10, batch: int = 64, first_s: float = 5.0, began_s: float = 0.0, began_step: int = 0
) -> list[str]:
    """A run that logs every `steps` steps, `gaps_s` apart, with the Rate and GlobalRate that follow."""
    at, rate, lines = first_s, batch * steps / first_s, []
    lines.append(train_line(stamp(began_s + at), began_step + steps, rate, batch * steps / at))
    for place, gap in enumerate(gaps_s, start=2):
        at += gap
        rate = 0.6 * batch * steps / gap + 0.4 * rate
        lines.append(train_line(stamp(began_s + at), began_step + steps * place, rate, batch * steps * place / at))
    return lines


def write(path: Path, lines: Iterable[str], ending: str = "\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(line + ending for line in lines).encode("utf-8", "surrogateescape"))
    return path


def inspected(folder: Path, lines: Iterable[str], **options: Any) -> RunInspection:
    """What is found in a log of these lines."""
    return inspect_run(write(folder / "run.log", lines), **options)


def steady(found: RunInspection) -> float:
    """The steady rate in samples per second."""
    return found.rates.steady_samples_per_s.estimate


def steady_steps(found: RunInspection) -> float:
    """The steady rate in steps per second."""
    return found.rates.steady_steps_per_s.estimate

"""TensorBoard event files -> the same step lines that a console log gives. TensorFlow reads them; it is loaded only for this."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cs_input_analyzer.monitor.reading.grammar import StepLine

LOCAL, AVERAGE, STEPS, WAIT = "local_samples_per_sec", "avg_samples_per_sec", "avg_steps_per_sec", "input_wait_ratio"
TAGS = (LOCAL, AVERAGE, STEPS, WAIT)
# When an event was made, not when it was written; finer than what hosts keep in step.
STAMP_S = 1e-3


@dataclass(slots=True)
class EventScalars:
    """What a file holds of our tags, as far as it can be read. `trouble`: why it ended before its end."""

    path: Path
    trouble: str = ""
    wait_ratio: float | None = None
    events: int = 0
    found_tags: set[str] = field(default_factory=set)

    def step_lines(self) -> Iterator[StepLine]:
        """One line for each step that has a rate, in the order of the file."""
        step, stamp, values = None, None, {}
        for at_s, number, tag, value in self._scalars():
            if step is not None and number != step:
                yield from _line(step, stamp, values)
                values = {}
            step, stamp = number, at_s
            values[tag] = value
            if tag == WAIT:
                self.wait_ratio = value
        if step is not None:
            yield from _line(step, stamp, values)

    def _scalars(self) -> Iterator[tuple[float | None, int, str, float]]:
        with _quiet_tensorflow():
            import tensorflow as tf
            from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

            try:
                for event in tf.compat.v1.train.summary_iterator(str(self.path)):
                    self.events += 1
                    for value in event.summary.value:
                        tag = value.tag.rsplit("/", 1)[-1]
                        if tag not in TAGS:
                            continue
                        self.found_tags.add(tag)
                        number = _number(tf, value)
                        at_s = event.wall_time if math.isfinite(event.wall_time) and event.wall_time > 0 else None
                        if number is not None and event.step >= 0:
                            yield at_s, int(event.step), tag, number
            except (tf.errors.OpError, DecodeError):
                self.trouble = "damaged or cut: read until there"


def _line(step: int, at_s: float | None, values: dict[str, float]) -> Iterator[StepLine]:
    if LOCAL in values or AVERAGE in values:
        yield StepLine(
            t_s=at_s,
            resolution_s=STAMP_S,
            rank=None,
            step=step,
            samples_per_s=values.get(LOCAL),
            global_samples_per_s=values.get(AVERAGE),
            steps_per_s=values.get(STEPS),
        )


def _number(tf: object, value: object) -> float | None:
    """The scalar of one summary, in the form of TensorFlow 1 or 2; None where it is none, or no finite number."""
    if value.HasField("simple_value"):  # type: ignore[attr-defined]
        number = float(value.simple_value)  # type: ignore[attr-defined]
    elif value.HasField("tensor"):  # type: ignore[attr-defined]
        try:
            array = tf.make_ndarray(value.tensor)  # type: ignore[attr-defined]
            number = float(array.reshape(-1)[0])
        except (TypeError, ValueError, IndexError):
            return None
    else:
        return None
    return number if math.isfinite(number) and number >= 0 else None


@contextmanager
def _quiet_tensorflow() -> Iterator[None]:
    """Without its remarks on the machine, and on the age of what reads the files."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    logger = logging.getLogger("tensorflow")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)

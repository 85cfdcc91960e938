"""TensorBoard event files -> the same step lines, and checkpoints, that a console log gives.

TensorBoard's own reader in Python reads them, so that TensorFlow need not be loaded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cs_input_analyzer.run_logs.grammar import Line

LOCAL, AVERAGE, STEPS, WAIT = "local_samples_per_sec", "avg_samples_per_sec", "avg_steps_per_sec", "input_wait_ratio"
ESTIMATOR = "global_step/sec"
TAGS = (LOCAL, AVERAGE, STEPS, WAIT, ESTIMATOR)
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

    def lines(self) -> Iterator[Line]:
        """One line for each step that has a rate, and one for each checkpoint, in the order of the file."""
        step, stamp, values = None, None, {}
        for at_s, number, tag, value in self._entries():
            if step is not None and (number != step or tag is None):
                yield from _line(step, stamp, values)
                values = {}
            step, stamp = number, at_s
            if tag is None:
                yield Line("end", at_s, phase="checkpoint", step=number)
                step = None
                continue
            values[tag] = value
            if tag == WAIT:
                self.wait_ratio = value
        if step is not None:
            yield from _line(step, stamp, values)

    def _entries(self) -> Iterator[tuple[float | None, int, str | None, float]]:
        """(time, step, tag, value); without a tag for a checkpoint."""
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
        from tensorboard.compat.proto import event_pb2  # type: ignore[import-untyped]
        from tensorboard.compat.tensorflow_stub import errors  # type: ignore[import-untyped]
        from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import PyRecordReader_New  # type: ignore[import-untyped]

        try:
            reader = PyRecordReader_New(str(self.path))
            while True:
                reader.GetNext()
                self.events += 1
                yield from self._of_event(event_pb2.Event.FromString(reader.record()))
        except errors.OutOfRangeError:
            pass  # read to its end
        except (errors.OpError, DecodeError, OverflowError, MemoryError):
            self.trouble = "damaged or cut: read until there"
        except OSError as error:
            self.trouble = f"read until an error: {(error.strerror or str(error)).lower()}"

    def _of_event(self, event: Any) -> Iterator[tuple[float | None, int, str | None, float]]:
        at_s = event.wall_time if math.isfinite(event.wall_time) and event.wall_time > 0 else None
        if event.step < 0:
            return
        for summary in event.summary.value:
            tag = ESTIMATOR if summary.tag.endswith(ESTIMATOR) else summary.tag.rsplit("/", 1)[-1]
            if tag not in TAGS:
                continue
            self.found_tags.add(tag)
            amount = _number(summary)
            if amount is not None:
                yield at_s, int(event.step), tag, amount
        if event.session_log.status == event.session_log.CHECKPOINT:
            yield at_s, int(event.step), None, 0.0


def _line(step: int, at_s: float | None, values: dict[str, float]) -> Iterator[Line]:
    if LOCAL in values or AVERAGE in values or ESTIMATOR in values:
        yield Line(
            "step", at_s, STAMP_S, step=step, rate=values.get(LOCAL), global_rate=values.get(AVERAGE), steps_per_s=values.get(STEPS)
        )


def _number(summary: Any) -> float | None:
    """The scalar of one summary, in the form of TensorFlow 1 or 2; None where it is none, or no finite number."""
    from tensorboard.util.tensor_util import make_ndarray  # type: ignore[import-untyped]

    if summary.HasField("simple_value"):
        number = float(summary.simple_value)
    elif summary.HasField("tensor"):
        try:
            number = float(make_ndarray(summary.tensor).reshape(-1)[0])
        except (TypeError, ValueError, IndexError):
            return None
    else:
        return None
    return number if math.isfinite(number) and number >= 0 else None

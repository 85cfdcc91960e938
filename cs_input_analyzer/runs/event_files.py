"""TensorBoard event files -> the same step lines, and checkpoints, that a console log gives.

The records are read here, so that a damaged length takes no memory; TensorBoard's protocol buffers parse them, without TensorFlow.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from cs_input_analyzer.runs.grammar import Line, number_of
from cs_input_analyzer.runs.rates import is_kept

LOCAL, AVERAGE, STEPS = "local_samples_per_sec", "avg_samples_per_sec", "avg_steps_per_sec"
ESTIMATOR = "global_step/sec"
TAGS = (LOCAL, AVERAGE, STEPS, ESTIMATOR)
# When an event was made, not when it was written; finer than what hosts keep in step.
STAMP_S = 1e-3
# Graphs and pictures are larger, and hold none of our scalars.
LONGEST_RECORD = 1 << 20
# The DataType of a tensor of 32-bit floats, as `tf.summary.scalar` writes.
FLOATS = 1


@dataclass(slots=True)
class EventScalars:
    """The values of our tags in a file, as far as it can be read. `trouble`: why it ended before its end."""

    path: Path
    trouble: str = ""
    events: int = 0
    found_tags: set[str] = field(default_factory=set)

    def lines(self) -> Iterator[Line]:
        """Yield one line for each step that has a rate, and one for each checkpoint, in the order of the file."""
        for (step, is_checkpoint), entries in groupby(self._entries(), key=lambda entry: (entry[1], entry[2] is None)):
            stamp, values = None, {}
            for stamp, _, tag, value in entries:
                values[tag] = value
                if is_checkpoint:
                    yield Line("end", stamp, phase="checkpoint", step=step)
            if values.keys() & {LOCAL, AVERAGE, ESTIMATOR}:
                rate, total = values.get(LOCAL), values.get(AVERAGE)
                yield Line("step", stamp, STAMP_S, step=step, rate=rate, global_rate=total, steps_per_s=values.get(STEPS))

    def _entries(self) -> Iterator[tuple[float | None, int, str | None, float]]:
        """Yield (time, step, tag, value). The tag of a checkpoint is None. Tags that are not ours are left out."""
        try:
            from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
            from tensorboard.compat.proto import event_pb2  # type: ignore[import-untyped]
        except ImportError:
            self.trouble = "not read: event files need tensorboard (pip install tensorboard)"
            return
        try:
            for record in self._records():
                self.events += 1
                if not is_kept(self.events):
                    continue
                event = event_pb2.Event.FromString(record)
                at_s = event.wall_time if math.isfinite(event.wall_time) and event.wall_time > 0 else None
                if event.step < 0:
                    continue
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
        except DecodeError:
            self.trouble = "damaged or cut: read until there"
        except OSError as error:
            self.trouble = f"read until an error: {(error.strerror or str(error)).lower()}"

    def _records(self) -> Iterator[bytes]:
        """Yield the records up to LONGEST_RECORD, up to the first one that is cut or damaged."""
        from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c  # type: ignore[import-untyped]

        with self.path.open("rb") as file:
            while head := file.read(12):
                (length,) = struct.unpack("<Q", head[:8].ljust(8, b"\0"))
                if len(head) < 12 or struct.pack("<I", masked_crc32c(head[:8])) != head[8:]:
                    break
                if length > LONGEST_RECORD:
                    if file.seek(min(length + 4, 1 << 62), os.SEEK_CUR) > os.fstat(file.fileno()).st_size:
                        break
                    continue
                record, check = file.read(length), file.read(4)
                if len(record) < length or struct.pack("<I", masked_crc32c(record)) != check:
                    break
                yield record
            else:
                return
        self.trouble = "damaged or cut: read until there"


def _number(summary: Any) -> float | None:
    """Return the scalar of one summary, in the form of TensorFlow 1 or 2, or None.

    Of a tensor its first value is taken as it lies there: the shape that it claims costs no memory.
    """
    number = math.nan
    if summary.HasField("simple_value"):
        number = float(summary.simple_value)
    elif summary.tensor.dtype == FLOATS:
        values, content = summary.tensor.float_val, summary.tensor.tensor_content
        if values:
            number = float(values[0])
        elif len(content) >= 4:
            (number,) = struct.unpack_from("<f", content)
    return number_of(number)

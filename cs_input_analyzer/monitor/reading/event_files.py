"""TensorBoard event files -> the same step lines, and checkpoints, that a console log gives.

Two public formats, read as far as they are needed, so that TensorFlow need not be loaded. A file is records (TFRecord: length, CRC
of the length, data, CRC of the data, all little-endian). A record is a protocol buffer, `Event` of TensorFlow's event.proto: fields
as (number, wire type, value), of which those that are not known are passed over.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import BinaryIO

from cs_input_analyzer.monitor.reading.grammar import Mark, StepLine

LOCAL, AVERAGE, STEPS, WAIT = "local_samples_per_sec", "avg_samples_per_sec", "avg_steps_per_sec", "input_wait_ratio"
ESTIMATOR = "global_step/sec"
TAGS = (LOCAL, AVERAGE, STEPS, WAIT, ESTIMATOR)
# When an event was made, not when it was written; finer than what hosts keep in step.
STAMP_S = 1e-3
LARGEST_RECORD_BYTES = 1 << 30
_SAVED = 3  # SessionLog.CHECKPOINT
# Numbers of the fields in event.proto, summary.proto and tensor.proto.
_WALL_TIME, _STEP, _SUMMARY, _SESSION_LOG = 1, 2, 5, 7
_VALUE, _TAG, _SIMPLE_VALUE, _TENSOR, _STATUS = 1, 1, 2, 8, 1
_DTYPE, _CONTENT, _FLOATS, _DOUBLES = 1, 4, 5, 6
_TENSOR_FORMATS = {1: "<f", 2: "<d"}  # DT_FLOAT, DT_DOUBLE


@dataclass(slots=True)
class EventScalars:
    """What a file holds of our tags, as far as it can be read. `trouble`: why it ended before its end."""

    path: Path
    trouble: str = ""
    wait_ratio: float | None = None
    events: int = 0
    found_tags: set[str] = field(default_factory=set)

    def lines(self) -> Iterator[StepLine | Mark]:
        """One line for each step that has a rate, and one for each checkpoint, in the order of the file."""
        step, stamp, values = None, None, {}
        for at_s, number, tag, value in self._entries():
            if step is not None and (number != step or tag is None):
                yield from _line(step, stamp, values)
                values = {}
            step, stamp = number, at_s
            if tag is None:
                yield Mark(t_s=at_s, rank=None, phase="checkpoint", edge="end", step=number)
                step = None
                continue
            values[tag] = value
            if tag == WAIT:
                self.wait_ratio = value
        if step is not None:
            yield from _line(step, stamp, values)

    def _entries(self) -> Iterator[tuple[float | None, int, str | None, float]]:
        """(time, step, tag, value); without a tag for a checkpoint."""
        try:
            with self.path.open("rb") as file:
                for data in _records(file):
                    self.events += 1
                    yield from self._of_event(data)
        except (ValueError, struct.error, IndexError, OverflowError):
            self.trouble = "damaged or cut: read until there"
        except OSError as error:
            self.trouble = f"read until an error: {(error.strerror or str(error)).lower()}"

    def _of_event(self, data: bytes) -> Iterator[tuple[float | None, int, str | None, float]]:
        at_s, step, summaries, saved = None, 0, [], False
        for number, whole, held in _fields(data):
            if number == _WALL_TIME:
                (wall_s,) = struct.unpack("<d", held)
                at_s = wall_s if math.isfinite(wall_s) and wall_s > 0 else None
            elif number == _STEP:
                step = whole
            elif number == _SUMMARY:
                summaries += [value for field_number, _, value in _fields(held) if field_number == _VALUE]
            elif number == _SESSION_LOG:
                saved = (_STATUS, _SAVED, b"") in _fields(held)
        if step >= 1 << 63:  # below zero
            return
        for summary in summaries:
            fields = {number: held for number, _, held in _fields(summary)}
            name = fields.get(_TAG, b"").decode("utf-8", "replace")
            tag = ESTIMATOR if name.endswith(ESTIMATOR) else name.rsplit("/", 1)[-1]
            if tag not in TAGS:
                continue
            self.found_tags.add(tag)
            amount = _number(fields)
            if amount is not None:
                yield at_s, step, tag, amount
        if saved:
            yield at_s, step, None, 0.0


def _line(step: int, at_s: float | None, values: dict[str, float]) -> Iterator[StepLine]:
    if LOCAL in values or AVERAGE in values or ESTIMATOR in values:
        yield StepLine(
            t_s=at_s,
            resolution_s=STAMP_S,
            rank=None,
            step=step,
            samples_per_s=values.get(LOCAL),
            global_samples_per_s=values.get(AVERAGE),
            steps_per_s=values.get(STEPS),
        )


def _number(fields: dict[int, bytes]) -> float | None:
    """The scalar of one summary, in the form of TensorFlow 1 or 2; None where it is none, or no finite number."""
    if _SIMPLE_VALUE in fields:
        (number,) = struct.unpack("<f", fields[_SIMPLE_VALUE])
    elif _TENSOR in fields:
        tensor = _fields(fields[_TENSOR])
        form = next((_TENSOR_FORMATS.get(whole) for number, whole, _ in tensor if number == _DTYPE), None)
        held = next((held for number, _, held in tensor if number in (_CONTENT, _FLOATS, _DOUBLES) and held), b"")
        if form is None or len(held) < struct.calcsize(form):
            return None
        (number,) = struct.unpack_from(form, held)
    else:
        return None
    return number if math.isfinite(number) and number >= 0 else None


# --- the two formats ---------------------------------------------------------------------------------------------------------


def _records(file: BinaryIO) -> Iterator[bytes]:
    """The data of each record. Raises ValueError: the file is cut, or no such file."""
    while head := file.read(12):
        length, check = struct.unpack("<QI", head)
        if _masked_crc(head[:8]) != check or length > LARGEST_RECORD_BYTES:
            raise ValueError("no record begins here")
        data, tail = file.read(length), file.read(4)
        if len(data) < length or len(tail) < 4:
            raise ValueError("cut in a record")
        # Pictures and histograms are large, and are not looked at.
        if any(tag.encode() in data for tag in TAGS) and _masked_crc(data) != struct.unpack("<I", tail)[0]:
            raise ValueError("a damaged record")
        yield data


def _fields(data: bytes) -> list[tuple[int, int, bytes]]:
    """(number, whole number, bytes) of each field: a varint has the one, every other field the other."""
    found: list[tuple[int, int, bytes]] = []
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        kind = key & 7
        if kind == 0:
            value, place = _varint(data, place)
            found.append((key >> 3, value, b""))
            continue
        if kind == 2:
            size, place = _varint(data, place)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"wire type {kind}")
        if place + size > len(data):
            raise ValueError("a field beyond its record")
        found.append((key >> 3, 0, data[place : place + size]))
        place += size
    return found


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
    raise ValueError("a number without an end")


def _masked_crc(data: bytes) -> int:
    """CRC-32C (Castagnoli), masked as TFRecord files have it."""
    table, crc = _crc_table(), 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@cache
def _crc_table() -> tuple[int, ...]:
    entries = []
    for entry in range(256):
        for _ in range(8):
            entry = entry >> 1 ^ (0x82F63B78 if entry & 1 else 0)
        entries.append(entry)
    return tuple(entries)

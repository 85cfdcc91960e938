"""Estimate the bytes of files behind one element of a pipeline, from the elements that its readers passed.

The kernel's count (`rchar`) grows by a whole buffer at a time, so it tells nothing in a short window. A record that passed is as
long as in its file, except for its frame there. Two kinds of readers need a look into the files (`raw_reads.look_into`): readers
that convert (CSV), and readers of compressed files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cs_input_analyzer.host.raw_reads import READ_BYTES, Look
from cs_input_analyzer.records import Op
from cs_input_analyzer.tfdata.lineage import without_end
from cs_input_analyzer.tfdata.op_kinds import KEEPERS, WRITERS
from cs_input_analyzer.tfdata.samples import shuffle_of_samples
from cs_input_analyzer.tfdata.threads import python_ops, reader_ops
from cs_input_analyzer.tfdata.visits import OpCounts, is_counted, passed_ratio, visit_ratios

# Bytes of a file around each record: lengths and checksums of a TFRecord, the end of a line.
_BESIDE_BYTES = {"TFRecord": 16, "TextLine": 1, "FixedLengthRecord": 0}
# A string in a tensor is larger than its text by this (`tstring`). The model of a running iterator counts that too.
STRING_BYTES = 24
_CSV_BUFFER_BYTES = 4 << 20
# Sources that are in memory from the start.
_HELD = frozenset({"Range", "Random", "Tensor", "TensorSlice", "SparseTensorSlice", "List"})
# The kernel's count is used if this many buffers were filled. It overrides the count of elements if it is higher by this ratio.
LEAST_BUFFERS = 10
HIGHER_RATIO = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """Describe how a pipeline reads files.

    Attributes:
        bytes_per_element: bytes of files for each element of the output.
        buffered_bytes: bytes that all read buffers hold together.
        may_read_more: whether Python functions can read files that no reader opens.
        burst_samples: samples that a shuffle takes at once when a pass begins.
    """

    bytes_per_element: float | None = None
    buffered_bytes: int = 0
    may_read_more: bool = False
    burst_samples: int = 0


def needs_look(op: Op) -> bool:
    """Return whether the files of a reader must be looked into."""
    return op.kind == "CSV" or (op.kind in _BESIDE_BYTES and op.parameters.get("compression_type", "GZIP") != "")


def has_counted_reads(ops: Sequence[Op]) -> bool:
    """Return whether the counts of an iterator's model tell how many bytes of files the readers take."""
    return any(op.kind in _BESIDE_BYTES for op in ops) and not _is_cached(ops)


def _is_cached(ops: Sequence[Op]) -> bool:
    """Return whether nothing is read behind a full cache. Only the kernel knows how much of it is full."""
    return any(op.kind in KEEPERS | WRITERS for op in ops)


def reads_of(ops: Sequence[Op], passed: Mapping[str, OpCounts], looks: Mapping[str, Look]) -> Reads:
    """Return how a pipeline reads files.

    Args:
        passed: counts of each op since its iterators were made.
        looks: results of looking into the files of readers, by op name.
    """
    readers = reader_ops(ops)
    ratios = visit_ratios(ops, passed, 1.0)
    sizes = [_record_bytes(op, passed.get(op.name), looks.get(op.name)) for op in readers]
    known = [
        _bytes_up_to(op, size, passed_ratio(op, ops, passed)) * ratios[op.name]
        for op, size in zip(readers, sizes, strict=True)
        if size is not None and op.name in ratios and is_counted(op, ops, passed)
    ]
    is_cached = _is_cached(ops)
    is_known = bool(readers) or all(op.kind in _HELD for op in ops if not op.inputs and op.within is None)
    return Reads(
        bytes_per_element=sum(known) if is_known and len(known) == len(readers) and not is_cached else None,
        buffered_bytes=0 if is_cached else sum(_buffered_bytes(op, ops) for op in readers),
        may_read_more=bool(python_ops(ops)),
        burst_samples=_burst_samples(ops),
    )


def _burst_samples(ops: Sequence[Op]) -> int:
    """Return the samples that the longest shuffle takes when a pass begins; 0 if its input never ends."""
    shuffle, count = shuffle_of_samples(ops)
    return 0 if shuffle is None or not without_end(ops).keys().isdisjoint(shuffle.inputs) else count


def bytes_per_sample(reads: Reads, samples_per_element: float, counted_bytes: float | None, samples: float) -> float | None:
    """Return the bytes of files for one sample; None if neither count tells.

    `counted_bytes`: the kernel's count in the window of these `samples`.
    """
    by_kernel = counted_bytes / samples if counted_bytes is not None and samples else None
    if by_kernel is not None and (counted_bytes or 0.0) < LEAST_BUFFERS * reads.buffered_bytes:
        by_kernel = None
    if samples < reads.burst_samples:  # the window holds one burst, or none
        by_kernel = None
    by_elements = None if reads.bytes_per_element is None else reads.bytes_per_element / samples_per_element
    if by_elements is None:
        return by_kernel
    is_more = reads.may_read_more and by_kernel is not None and by_kernel > HIGHER_RATIO * by_elements
    return by_kernel if is_more else by_elements


def _record_bytes(op: Op, seen: OpCounts | None, look: Look | None) -> float | None:
    """Return the bytes of a file for one element of a reader; None if unknown."""
    if op.kind == "CSV":
        return None if look is None else look.line_bytes
    beside = _BESIDE_BYTES.get(op.kind)
    if beside is None or seen is None or seen.elements <= 0 or (needs_look(op) and look is None):
        return None
    unpacked = seen.bytes_out / seen.elements - STRING_BYTES + beside
    return unpacked * (look.packed_ratio if look is not None else 1.0)


def _bytes_up_to(op: Op, size: float, passed: float) -> float:
    """Return the bytes of a file for each record that is counted. `passed`: all records, for each of these."""
    buffer = op.parameters.get("buffer_size")
    # A record without compression that is skipped is read up to the end of a buffer.
    skipped = size if needs_look(op) else min(size, buffer if isinstance(buffer, int) and buffer > 0 else READ_BYTES)
    return size + (passed - 1) * skipped


def _buffered_bytes(op: Op, ops: Sequence[Op]) -> int:
    """Return the size of a reader's buffers; 0 if the reader is not known to have one."""
    if op.kind not in (*_BESIDE_BYTES, "CSV"):
        return 0
    size = op.parameters.get("buffer_size") or (_CSV_BUFFER_BYTES if op.kind == "CSV" else READ_BYTES)
    files, streams, holder = op.files, 1, op.within
    while holder is not None:
        held = next(one for one in ops if one.name == holder)
        cycle = held.parameters.get("cycle_length", 1)
        streams *= cycle if isinstance(cycle, int) and cycle > 0 else 1
        holder = held.within
    size = int(size) if isinstance(size, int) else READ_BYTES
    return min(size, files.largest_bytes) * min(streams, files.count) if files else size * streams

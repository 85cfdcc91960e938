"""Bytes of files for one sample: by the elements that readers passed, and by the kernel's count only where that tells."""

from __future__ import annotations

import csv
import gzip
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.host.raw_reads import Look, look_into
from cs_input_analyzer.records import FileSet, Op
from cs_input_analyzer.tfdata.visits import OpCounts
from cs_input_analyzer.worker.bytes_read import STRING_BYTES, Reads, bytes_per_sample, needs_look, reads_of

MIB = 2**20


def op(name: str, kind: str, *inputs: str, calls: tuple[str, ...] = (), within: str | None = None, **parameters: Any) -> Op:
    files = FileSet(count=4, bytes=400 * MIB, largest_bytes=100 * MIB, smallest_bytes=100 * MIB) if kind in READING else None
    return Op(name=name, kind=kind, inputs=inputs, parameters=parameters, within=within, function_ops=calls, files=files)


READING = ("TFRecord", "TextLine", "FixedLengthRecord", "CSV")
PLAIN = {"compression_type": ""}


def read_by(kind: str, **parameters: Any) -> tuple[Op, ...]:
    return (
        op("files", "TensorSlice"),
        op("read", kind, within="interleave", **{**PLAIN, **parameters}),
        op("interleave", "ParallelInterleave", "files", cycle_length=4),
        op("batch", "Batch", "interleave", batch_size=32),
    )


def passed(size: float, elements: int = 1000, name: str = "read") -> dict[str, OpCounts]:
    return {name: OpCounts(name, elements=elements, bytes_out=round(elements * (size + STRING_BYTES)))}


@pytest.mark.parametrize(
    ("kind", "parameters", "look", "bytes_of_file"),
    [
        ("TFRecord", {}, None, 179 + 16),
        ("TextLine", {}, None, 179 + 1),
        ("FixedLengthRecord", {}, None, 179),
        # of compressed files it is what they hold packed; fields do not tell how long their line was
        ("TFRecord", {"compression_type": "GZIP"}, Look(packed_ratio=0.5, line_bytes=None), 97.5),
        ("CSV", {}, Look(packed_ratio=1.0, line_bytes=27.0), 27),
    ],
)
def test_a_record_is_as_long_as_it_is_in_its_file(
    kind: str, parameters: dict[str, Any], look: Look | None, bytes_of_file: float
) -> None:
    ops = read_by(kind, **parameters)
    reads = reads_of(ops, passed(179), {"read": look} if look else {})
    assert bytes_per_sample(reads, 32, None, 0) == pytest.approx(bytes_of_file)
    assert needs_look(ops[1]) == (look is not None) == (reads_of(ops, passed(179), {}).bytes_per_element is None)


@given(st.integers(0, 100 * MIB), st.integers(1, 10**6), st.sampled_from([4096, 256 * 1024, 8 * MIB]))
def test_what_buffers_took_in_the_window_changes_nothing(counted: int, samples: int, buffer_size: int) -> None:
    reads = reads_of(read_by("TFRecord", buffer_size=buffer_size), passed(179), {})
    assert bytes_per_sample(reads, 32, counted, samples) == pytest.approx(195)


def test_readers_of_two_sources_add_up_and_one_of_which_nothing_is_told_leaves_it_to_the_kernel() -> None:
    ops = (op("read", "TFRecord", **PLAIN), op("lines", "TextLine", **PLAIN), op("zip", "Zip", "read", "lines"))
    both = passed(100) | passed(49, name="lines")
    assert reads_of(ops, both, {}).bytes_per_element == pytest.approx(116 + 50)
    assert reads_of(ops, passed(100), {}).bytes_per_element is None


def test_of_two_sources_one_after_the_other_only_what_passed_counts() -> None:
    ops = (op("read", "TFRecord", **PLAIN), op("lines", "TextLine", **PLAIN), op("join", "Concatenate", "read", "lines"))
    seen = passed(100, 500) | passed(49, 500, name="lines") | {"join": OpCounts("join", elements=1000)}
    assert reads_of(ops, seen, {}).bytes_per_element == pytest.approx((116 + 50) / 2)


@pytest.mark.parametrize(
    ("size", "elements", "bytes_per_element"),
    [
        (179, {"shard": 1000, "read": 1000}, 8 * 195),  # what is skipped is read, and not counted
        (179, {"shard": 125, "read": 1000}, 8 * 195),  # counted
        (MIB, {"shard": 1000, "read": 1000}, MIB + 16 + 7 * 4096),  # of a long record that is skipped one buffer is read
    ],
)
def test_a_shard_behind_a_reader_reads_what_it_skips(size: int, elements: dict[str, int], bytes_per_element: float) -> None:
    ops = (op("read", "TFRecord", buffer_size=4096, **PLAIN), op("shard", "Shard", "read", num_shards=8, index=1))
    seen = {"shard": OpCounts("shard", elements=elements["shard"])} | passed(size, elements["read"])
    assert reads_of(ops, seen, {}).bytes_per_element == pytest.approx(bytes_per_element)


@pytest.mark.parametrize(("counted", "per_sample"), [(0, None), (9 * 32 * MIB, None), (11 * 32 * MIB, 11 * 32.0)])
def test_the_kernel_s_count_of_a_window_with_few_buffers_is_none(counted: int, per_sample: float | None) -> None:
    reads = reads_of(read_by("TFRecord", buffer_size=8 * MIB), {}, {})  # four files of 8 MiB buffers at a time
    assert reads.buffered_bytes == 32 * MIB
    assert bytes_per_sample(reads, 32, counted, MIB) == per_sample


IN_MEMORY = (op("range", "Range"), op("map", "ParallelMap", "range", calls=("AddV2",)))
BESIDE_PYTHON = (*read_by("TFRecord"), op("map", "Map", "batch", calls=("PyFunc",)))


@pytest.mark.parametrize(
    ("ops", "counted", "per_sample"),
    [
        ((*read_by("TFRecord"), op("cache", "Cache", "batch")), 0, 0.0),  # behind a cache the kernel tells
        (BESIDE_PYTHON, 10**9, 1e6),  # what Python functions read beside the readers counts
        (BESIDE_PYTHON, 120_000, 100),  # a buffer more or less
        (IN_MEMORY, 400_000, 0.0),  # read by nobody
        ((op("generator", "Generator", calls=("PyFunc",)),), 5000, 5.0),  # without readers it is left to the kernel
        ((op("io", "SomebodysReader"),), 5000, 5.0),
    ],
)
def test_whose_count_is_believed(ops: tuple[Op, ...], counted: int, per_sample: float) -> None:
    assert bytes_per_sample(reads_of(ops, passed(84), {}), 32, counted, 1000) == pytest.approx(per_sample)


def test_what_nobody_counted_is_unknown() -> None:
    assert bytes_per_sample(Reads(), 1, None, 1000) is None
    assert bytes_per_sample(Reads(), 1, 5000, 0) is None


def lines_of(count: int) -> bytes:
    return b"".join(b'%d,"two\nlines",%d\n' % (10**6 + number, zlib.crc32(b"%d" % number)) for number in range(count))


def test_a_look_tells_records_from_lines(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.csv" for number in range(20)]
    for path in paths:
        path.write_bytes(lines_of(1000))
    look = look_into([str(path) for path in paths])
    assert look.packed_ratio == 1
    records = sum(1 for _ in csv.reader(lines_of(1000).decode().splitlines(keepends=True)))
    assert look.line_bytes == pytest.approx(len(lines_of(1000)) / records)


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_a_look_tells_how_far_files_are_packed(tmp_path: Path, pack: Any) -> None:
    content = lines_of(40_000)
    (tmp_path / "packed").write_bytes(pack(content))
    look = look_into([str(tmp_path / "packed")])
    assert look.packed_ratio == pytest.approx(len(pack(content)) / len(content), rel=0.02)
    assert look.line_bytes == pytest.approx(len(pack(content)) / 40_000, rel=0.02)


# Names, for a packed member holds the time of day: processes that collect in different seconds have different tests, and none runs.
@pytest.mark.parametrize(
    "tail", [b"", gzip.compress(b""), bytes(512), b"no member"], ids=["nothing", "empty member", "zeros", "no member"]
)
def test_all_members_of_a_packed_file_are_looked_into(tmp_path: Path, tail: bytes) -> None:
    """As bgzip and `cat a.gz b.gz` make them. TensorFlow reads them all."""
    members = [gzip.compress(b"%064d\n" % number * 1000) for number in range(10)]
    packed = b"".join(members) + tail
    (tmp_path / "packed").write_bytes(packed)
    look = look_into([str(tmp_path / "packed")])
    assert look is not None
    assert look.packed_ratio == pytest.approx(len(packed) / 650_000)
    assert look.line_bytes == pytest.approx(len(packed) / 10_000)


def test_files_that_are_gone_empty_or_no_text_are_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    assert look_into([]) is None
    assert look_into([str(tmp_path / "gone"), str(tmp_path / "empty")]) is None
    (tmp_path / "binary").write_bytes(b"\x1f\x8b\x08" + bytes(range(256)) * 4)  # says gzip, and is none
    look = look_into([str(tmp_path / "binary"), str(tmp_path)])
    assert look.packed_ratio == 1


def shuffled(*, is_repeated_before: bool) -> tuple[Op, ...]:
    """Records of many slices, shuffled in each pass, or without passes."""
    order = ("Repeat", "Shuffle") if is_repeated_before else ("Shuffle", "Repeat")
    ops = [op("read", "TFRecord", **PLAIN), op("flat_map", "FlatMap", "read"), op("slices", "TensorSlice", within="flat_map")]
    for kind in order:
        name = kind.lower()
        given = {"count": -1} if kind == "Repeat" else {"buffer_size": 10_000}
        ops.append(op(name, kind, next(one.name for one in reversed(ops) if one.within is None), **given))
    return tuple(ops)


def slices(records: int, given: int) -> dict[str, OpCounts]:
    return {
        "read": OpCounts("read", elements=records, bytes_out=records * 1000),
        "flat_map": OpCounts("flat_map", elements=given),
    }


def test_bytes_of_slices_are_told_once_ten_records_were_taken_apart() -> None:
    ops = shuffled(is_repeated_before=False)
    assert reads_of(ops, slices(1, 9), {}).bytes_per_element is None  # of the first record, which holds many more
    assert reads_of(ops, slices(20, 2000), {}).bytes_per_element == pytest.approx((1000 - STRING_BYTES + 16) / 100)


@pytest.mark.parametrize(
    ("is_repeated_before", "samples", "is_known"), [(False, 4000, False), (False, 40_000, True), (True, 10, True)]
)
def test_a_window_shorter_than_a_fill_of_the_shuffle_tells_no_bytes(is_repeated_before: bool, samples: int, is_known: bool) -> None:
    reads = reads_of(shuffled(is_repeated_before=is_repeated_before), slices(1, 9), {})
    assert (bytes_per_sample(reads, 1.0, 1e12, samples) is not None) is is_known

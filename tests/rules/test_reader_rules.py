"""Rules of reading: how many files at a time, and when that is said, proposed, or passed over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cs_input_analyzer.model.evidence import reads_at_once
from cs_input_analyzer.records import Case, Op
from tests.builders import make_case, make_files, make_graph, make_plan
from tests.rules.lines import (
    NAMES,
    Expected,
    Rows,
    batch,
    case_of,
    check,
    cost,
    edits,
    found,
    judged,
    op,
    prefetch,
    reading,
    says,
    shuffle,
    stations,
)
from tests.worker.ops import concatenated

FIXED = "ds = files.interleave(read, cycle_length=2, num_parallel_calls=tf.data.AUTOTUNE)"
AUTO = "ds = files.interleave(read, num_parallel_calls=tf.data.AUTOTUNE)"
LIST = "ds = tf.data.TFRecordDataset(files)"
TAIL = (batch(), prefetch())
# A shuffle without a seed, after which the order of files is moot, and one with a seed.
UNSEEDED, SEEDED = shuffle(seed=0), shuffle(seed=7)


def interleaved(cycle: int, *behind: Op, code: str | None = FIXED, calls: int | str = "AUTOTUNE", **known: Any) -> Case:
    return case_of(*reading(cycle_length=cycle, num_parallel_calls=calls, code=code), *behind, *TAIL, **known)


def flat(*behind: Op, **known: Any) -> Case:
    """A flat_map that the user wrote."""
    return case_of(*reading("FlatMap", code="ds = files.flat_map(tf.data.TFRecordDataset)"), *behind, *TAIL, **known)


def list_reader(*behind: Op, code: str | None = LIST, **known: Any) -> Case:
    """What `TFRecordDataset(files)` becomes: a flat_map that nobody wrote."""
    reader = (op("TFRecord", "TFRecordDataset", within="flat_map"), op("FlatMap", "flat_map", code=code))
    return case_of(NAMES, *reader, *behind, *TAIL, **known)


def waiting(drawn: float = 200.0, cpus: float = 2_000.0) -> dict[str, Any]:
    """Reads that wait for their storage, far below what the CPUs would take."""
    ceilings = (("storage latency", "interleave", drawn, 0.95), ("CPU", None, cpus, drawn / cpus))
    return {"stations": stations(*ceilings), "files": 1000}


def record_splitter() -> Case:
    """TensorFlow's own flat_map has the statement, and the name, of the one that the user wrote behind it."""
    code = f"{LIST}.flat_map(split_record)"
    written = (op("TensorSlice", "parts", within="flat_map_2"), op("FlatMap", "flat_map", code=code))
    return list_reader(*written, UNSEEDED, code=code)


def looped(count: int, files: int = 1, change: Callable[[Op], Op] = lambda one: one, **known: Any) -> Case:
    """Datasets of a file each, or of several, that a loop with `concatenate` puts together."""
    ops = tuple(map(change, concatenated(count, files=files)))
    return make_case(pipeline=make_graph(ops=ops), **({"profile": None, "plan": None} | known))


def limited(kind: str, op: str | None) -> dict[str, Any]:
    return {"stations": stations((kind, op, 1000.0, 0.95))}


def by_reading(reader: Callable[..., Case]) -> list[tuple[Expected, Case]]:
    """Whether one file after the other is a warning is decided by what holds the worker back."""
    return [
        (severity, reader(bottleneck=station))
        for severity, station in [
            ("warning", ("serial op", "flat_map")),
            ("warning", ("serial op", "TFRecordDataset")),
            ("warning", "storage bandwidth"),
            ("info", ("serial op", "batch")),
            ("info", "CPU"),
        ]
    ]


def parallel_reader(reads: int, **known: Any) -> Case:
    """What `TFRecordDataset(files, num_parallel_reads=…)` becomes; with AUTOTUNE it has calls, too."""
    made: dict[str, Any] = {"num_parallel_calls": "AUTOTUNE"} if reads < 1 else {}
    code = f"ds = tf.data.TFRecordDataset(files, num_parallel_reads={reads if reads > 0 else 'tf.data.AUTOTUNE'})"
    reader = op("TFRecord", "TFRecordDataset", within="reads")
    interleave = op("ParallelInterleave", "reads", code=code, cycle_length=max(1, reads), block_length=1, **made)
    return case_of(NAMES, reader, interleave, UNSEEDED, *TAIL, **known)


def read_by_cpus(*names: str, **parameters: int) -> Case:
    """An interleave of which these numbers are those of the CPUs."""
    code = "ds = files.interleave(read, cycle_length=n, num_parallel_calls=n)"
    *before, interleave = reading(code=code, **parameters)
    slow = ("storage latency", "interleave")
    return case_of(*before, replace(interleave, by_cpus=dict.fromkeys(names, 1024)), *TAIL, files=1000, bottleneck=slow)


NOT_RUN = cost("flat_map", 0.0, elements_per_sample=0.0)

ROWS: Rows = {
    # A short cycle that the user wrote is told where reading holds the worker back, and without a measurement.
    "short-cycle": [
        (
            says(edits=edits(("set-cycle-length", "interleave", 4))),
            interleaved(2, bottleneck=("storage latency", "interleave")),
        ),
        (says("info", edits=edits(("set-cycle-length", "interleave", 3))), interleaved(1, files=3)),
        ("", interleaved(2, files=3)),  # whether reading holds it back was not measured
        ("", interleaved(1, files=3, bottleneck="CPU")),
        ("", interleaved(4)),
        ("", interleaved(1, files=1)),
        # The parallel reads of a reader are a cycle.
        *(
            (
                says(
                    edits=edits(("set-cycle-length", "reads", 4)),
                    fix="num_parallel_reads=4",
                    lacks=["cycle_length"],
                    after="ds = tf.data.TFRecordDataset(files, num_parallel_reads=4)",
                ),
                parallel_reader(reads, bottleneck=("readers", "reads")),
            )
            for reads in (1, 2)
        ),
        *(("", parallel_reader(reads, bottleneck=("readers", "reads"))) for reads in (4, -1)),
        ("", parallel_reader(2, bottleneck="CPU")),
        # A cycle that is the number of CPUs is longer on a node of more; and so is a number of calls.
        ("", read_by_cpus("cycle_length", cycle_length=2)),
        ("", read_by_cpus("num_parallel_calls", "cycle_length", cycle_length=2, num_parallel_calls=2)),
        ("", read_by_cpus("num_parallel_calls", cycle_length=4, num_parallel_calls=2)),
        (
            says(edits=edits(("set-cycle-length", "interleave", 4))),
            read_by_cpus("num_parallel_calls", cycle_length=2, num_parallel_calls=2),
        ),
        ("", interleaved(1, code="ds = files.interleave(read, cycle_length=n or tf.data.AUTOTUNE)")),
        ("", case_of(op("Range", "range"), reading(cycle_length=1, code=FIXED)[-1], *TAIL)),  # reads no file
        # A third of the CPUs.
        (
            says(after=FIXED.replace("cycle_length=2", "cycle_length=22")),
            interleaved(4, plan=make_plan("1x1x64"), bottleneck=("readers", "interleave")),
        ),
        # Files that are open and that nobody reads draw nothing.
        (
            says(edits=edits(("set-parallelism", "interleave", 4))),
            interleaved(8, code="ds.interleave(f, cycle_length=8, num_parallel_calls=1)", calls=1),
        ),
        # Two reads at once draw 200 of 2,000: twenty would keep the CPUs busy, and as many again are to spare.
        (
            says("warning", after="ds = files.interleave(read, num_parallel_calls=40, cycle_length=40)"),
            interleaved(2, UNSEEDED, code=AUTO, **waiting()),
        ),
        (
            says("warning", after="ds = files.interleave(read, cycle_length=20, num_parallel_calls=20)"),
            interleaved(2, UNSEEDED, calls=1, **waiting()),
        ),
        ("", interleaved(2, SEEDED, code=AUTO, **waiting())),  # the order counts, and TensorFlow chose the cycle
        ("", interleaved(8, UNSEEDED, code=AUTO, calls=8, **waiting() | {"files": 9})),  # they nearly keep the CPUs busy
    ],
    # Of these two each leaves to the other what is the other's.
    "flat-map-over-files": [
        *by_reading(flat),
        (
            says("info", after="ds = files.interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)"),
            flat(UNSEEDED),
        ),
        (
            says(
                "info", after="ds = files.interleave(tf.data.TFRecordDataset, cycle_length=1, num_parallel_calls=tf.data.AUTOTUNE)"
            ),
            flat(SEEDED),
        ),
        ("", flat(costs=NOT_RUN)),  # before a full cache
        ("info", flat(costs=cost("flat_map", 0.1))),
        ("", flat(files=1)),
        ("", case_of(*flat().pipeline.ops, op("TextLine", "lines"), op("Zip", "zip"))),  # whose files are whose is not known
        ("", interleaved(4)),
        ("", record_splitter()),
    ],
    "sequential-reads": [
        *by_reading(list_reader),
        (says(after=f"{LIST[:-1]}, num_parallel_reads=tf.data.AUTOTUNE).flat_map(split_record)"), record_splitter()),
        (says(op="flat_map", message="TFRecordDataset reads one file at a time"), list_reader()),  # as the user wrote it
        ("", flat()),
        ("", list_reader(files=1)),
        ("", list_reader(costs=NOT_RUN)),  # before a full cache
        # A loop that puts datasets of one file each together is one finding; the order is kept unless a shuffle makes it moot.
        (says("info", op="concatenate_19", message="19 in a row, which join 20 datasets", lacks=["cycle_length"]), looped(20)),
        (says("warning", message="holds the worker back"), looped(20, **limited("serial op", "map_7"))),
        (says("warning", edits=()), looped(20, **limited("storage latency", None))),
        ("info", looped(20, **limited("serial op", "batch"))),
        (
            says("info", fix=["cycle_length=1", "keeps the order"]),
            make_case(pipeline=make_graph(ops=concatenated(20)[:-2]), profile=None, plan=None),  # without its shuffle
        ),
        *(("", looped(count)) for count in (2, 8)),
        (says("info", message="(and 19 more of this call)"), looped(20, files=2)),  # each reads its own two in sequence
        ("", looped(20, change=lambda one: replace(one, source="data.py:9") if one.name == "map_7" else one)),  # one differs
        ("", looped(20, change=lambda one: replace(one, files=None))),  # which files are read is not known
    ],
}

test_a_rule_is_as_loud_as_the_case_is_bad_and_else_silent = judged(ROWS)


@pytest.mark.parametrize(("drawn", "ceiling", "number"), [(200, 2_400, 24), (200, 100_000, 64), (100, 150, 3)])
def test_reads_that_only_wait_get_as_many_at_once_as_keep_the_cpus_busy(drawn: float, ceiling: float, number: int) -> None:
    for rule, reader in (("flat-map-over-files", flat), ("sequential-reads", list_reader)):
        (finding,) = found(rule, reader(UNSEEDED, **waiting(drawn, ceiling)))
        assert finding.edits == edits(("interleave", "flat_map", number))
        assert str(number) in (finding.after or "")
    # Where the order is promised, no more than one file at a time gives elements.
    check("flat-map-over-files", flat(SEEDED, **waiting(drawn, ceiling)), says(edits=edits(("interleave", "flat_map"))))


@pytest.mark.parametrize(
    ("directory", "kind", "width"),
    [
        ("gs://bucket/train", "readers", 20),
        ("/data/train", "readers", None),  # on a file system the readers' own work may be what they take their time for
        ("gs://bucket/train", "serial op", None),
        ("/data/train", "storage latency", 20),
    ],
)
def test_readers_of_a_store_that_wait_get_the_width_of_littles_law(directory: str, kind: str, width: int | None) -> None:
    """Reads at once = rate that the CPUs allow over the rate of one, and as many again to spare."""
    ceilings = stations((kind, "interleave", 200.0, 0.95), ("CPU", None, 2000.0, 0.1))
    case = case_of(*reading(), batch(), files=make_files(count=1024, directory=directory), stations=ceilings)
    assert reads_at_once(case) == width

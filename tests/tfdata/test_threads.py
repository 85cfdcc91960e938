"""Which ops share a thread."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cs_input_analyzer.records import Op
from cs_input_analyzer.tfdata.threads import as_run, is_serial, segments
from tests.worker.ops import op


def names(ops: tuple[Op, ...]) -> list[list[str]]:
    return [[member.name for member in segment] for segment in segments(ops)]


READ, MAP = op("read", "TFRecord"), op("map", "Map", "read")
IN_INTERLEAVE = (op("files", "Shuffle"), op("read", "TFRecord", within="flat_map"), op("flat_map", "FlatMap", within="interleave"))
BATCH = op("batch", "Batch", "interleave")
ONE_CALL = op("interleave", "ParallelInterleave", "files", num_parallel_calls=1)
BY_CPUS = replace(ONE_CALL, by_cpus={"num_parallel_calls": 1024})


@pytest.mark.parametrize(
    ("chain", "expected"),
    [
        ((READ, MAP, op("shuffle", "Shuffle", "map"), op("batch", "Batch", "shuffle")), [["read", "map", "shuffle", "batch"]]),
        *(
            ((READ, MAP, op("cut", kind, "map"), op("batch", "Batch", "cut")), [["read", "map"], ["batch"]])
            for kind in ("Prefetch", "ParallelMap", "MapAndBatch")
        ),
        ((op("range", "Range"), op("repeat", "Repeat", "range"), op("take", "Take", "repeat")), []),
        # Two branches are walked by the thread that joins them unless they have their own.
        ((READ, op("b", "TextLine"), op("zip", "Zip", "read", "b")), [["read", "b", "zip"]]),
        (
            (READ, op("b", "TextLine"), op("prefetch", "Prefetch", "b"), op("zip", "Zip", "read", "prefetch")),
            [["read", "zip"], ["b"]],
        ),
        (
            (op("read", "TFRecord", within="flat_map"), op("flat_map", "FlatMap"), op("map", "Map", "flat_map")),
            [["read", "flat_map", "map"]],
        ),
        # What is called in parallel is no segment.
        (
            (*IN_INTERLEAVE, op("interleave", "ParallelInterleave", "files", num_parallel_calls="AUTOTUNE"), BATCH),
            [["files"], ["batch"]],
        ),
        (
            (*IN_INTERLEAVE, ONE_CALL, BATCH),
            [["files"], ["read", "flat_map"], ["batch"]],
        ),
        # One call is parallel, too, if a node of more CPUs has more calls.
        ((*IN_INTERLEAVE, BY_CPUS, BATCH), [["files"], ["batch"]]),
    ],
)
def test_ops_between_two_with_threads_of_their_own_are_one_thread(chain: tuple[Op, ...], expected: list[list[str]]) -> None:
    assert names(chain) == expected


def test_tensorflow_makes_a_map_parallel_that_has_a_parallelism_to_tune() -> None:
    chain = (op("range", "Range"), op("map", "Map", "range"), op("map_2", "Map", "map"))
    running = as_run(chain, {"map_2"})
    assert [is_serial(one, running) for one in running] == [True, True, False]
    assert names(running) == [["map"]]
    assert as_run(chain, ()) == chain
    interleave = op("interleave", "Interleave")
    assert as_run((interleave,), {"interleave"}) == (interleave,)

"""Ops that one line makes many times are one; all others stay as they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cs_input_analyzer.records import Op, OpCost
from cs_input_analyzer.tfdata.folding import LEAST_ALIKE, costliest, fold_costs, fold_ops, folding_of, joint_of
from tests.builders import make_op_cost
from tests.worker.ops import concatenated, op

CHAIN = concatenated(150)
SHORT = concatenated(LEAST_ALIKE - 1)


def maps(count: int, source: str | None = "data.py:7") -> tuple[Op, ...]:
    """Return maps of one line, each after the one before it."""
    chain = [op(f"map_{n}", "Map", f"map_{n - 1}" if n else "range", calls=("Cast",)) for n in range(count)]
    return (op("range", "Range"), *(replace(one, source=source) for one in chain))


def row(name: str, cpu_s: float | None, **fields: object) -> OpCost:
    share = None if cpu_s is None else cpu_s / 10
    return make_op_cost(name, kind="Map", self_cpu_s_per_sample=cpu_s, share_ratio=share, **fields)


def test_a_loop_over_files_makes_one_row_of_each_op() -> None:
    shown = fold_ops(CHAIN, folding_of(CHAIN))
    folded = ["from_tensor_slices ×150", "TFRecordDataset ×150", "flat_map ×150", "map ×150", "concatenate ×149"]
    assert [one.name for one in shown] == [*folded, "shuffle", "batch"]
    names, reader, opened, mapped, joined, shuffle, _ = shown
    assert (reader.within, opened.inputs, joined.inputs) == (opened.name, (names.name,), (mapped.name,))
    assert shuffle.inputs == (joined.name,)
    assert (dict(names.parameters), dict(mapped.parameters)) == ({}, {"use_inter_op_parallelism": True})  # names differ


LEAST = maps(LEAST_ALIKE)


@pytest.mark.parametrize(
    "ops",
    [
        (),
        SHORT,
        maps(LEAST_ALIKE - 1),
        maps(LEAST_ALIKE, source=None),
        *(
            (*LEAST[:-1], replace(LEAST[-1], **other))
            for other in (
                {"source": "data.py:8"},
                {"library_source": "reader.py:7"},
                {"kind": "ParallelMap"},
                {"function_ops": ("DecodeJpeg",)},
                {"parameters": {"num_parallel_calls": 2}},
                {"within": "map_1"},
            )
        ),
    ],
)
def test_few_ops_and_ops_that_differ_stay_as_they_are(ops: tuple[Op, ...]) -> None:
    folding = folding_of(ops)
    rows = tuple(make_op_cost(one.name, merged_into="runtime") for one in ops)
    assert fold_ops(ops, folding) == ops
    assert fold_costs(rows, folding) == rows


@pytest.mark.parametrize(
    ("ops", "expected"),
    [
        (CHAIN, "concatenate_149"),
        ((*CHAIN[:-2], op("zip", "Zip", "concatenate_149", "labels")), "concatenate_149"),
        ((*maps(9), op("zip", "Zip", *(f"map_{n}" for n in range(9)))), "zip"),
        (SHORT, None),
        (maps(9), None),  # one after the other: no branches
        ((*maps(9), op("zip", "Zip", "map_8", "range")), None),
        ((), None),
    ],
)
def test_branches_alike_end_where_they_have_come_together(ops: tuple[Op, ...], expected: str | None) -> None:
    found = joint_of(ops)
    assert (found.name if found is not None else None) == expected


def test_a_group_is_judged_by_all_its_ops() -> None:
    ops = (*LEAST, op("batch", "Batch", "map_7"))
    seconds = {**{f"map_{n}": 0.5 for n in range(8)}, "map_4": 0.6, "batch": 3.0}
    assert costliest(ops, seconds).name == "map_4"
    assert costliest(ops, {**seconds, "batch": 5.0}).name == "batch"
    assert costliest(SHORT, {"batch": 1.0, "map_2": 0.9, "map_3": 0.9}).name == "batch"

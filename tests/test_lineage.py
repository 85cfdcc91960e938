"""What lies before and after an op."""

from __future__ import annotations

import pytest
from builders import make_graph, make_op
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.lineage import after, batching_op, before, reads_names_only, samples_per_element
from cs_input_analyzer.records import Op

METHODS = ["map", "shuffle", "batch", "interleave", "repeat", "prefetch", "filter"]
chains = st.lists(st.sampled_from(METHODS), min_size=1, max_size=8).map(lambda methods: make_graph(" > ".join(methods)).ops)


def names(ops: tuple[Op, ...]) -> list[str]:
    return [op.name for op in ops]


@given(chains)
def test_one_op_is_before_another_where_that_one_is_after_it(ops: tuple[Op, ...]) -> None:
    top = [op for op in ops if op.within is None]
    for first in top:
        for second in top:
            assert (first in before(second, ops)) is (second in after(first, ops))


@given(chains)
def test_of_a_straight_pipeline_everything_is_before_or_after(ops: tuple[Op, ...]) -> None:
    top = [op for op in ops if op.within is None]
    for number, op in enumerate(top):
        assert [other for other in before(op, ops) if other.within is None] == top[:number]
        assert list(after(op, ops)) == top[number + 1 :]
        assert {other.within for other in before(op, ops) if other.within} <= {other.name for other in top[:number]}


def test_branches_that_meet_are_both_before() -> None:
    left, right = make_op("range", inputs=()), make_op("tensor_slices", inputs=())
    joined = make_op("zip", inputs=("range", "tensor_slices"))
    assert names(before(joined, (left, right, joined))) == ["range", "tensor_slices"]
    assert names(after(left, (left, right, joined))) == ["zip"]


def test_what_an_interleave_reads_inside_leaves_through_it() -> None:
    ops = make_graph("tensor_slices > interleave > map").ops
    reader = next(op for op in ops if op.kind == "TFRecord")
    assert names(after(reader, ops)) == ["interleave", "map"]


@pytest.mark.parametrize(
    ("chain", "op", "expected"),
    [
        ("tensor_slices > shuffle > shard > interleave", "shard", True),
        ("tensor_slices > interleave > shard", "shard", False),
        ("tensor_slices > map > shard", "shard", False),
        ("tensor_slices > batch > shard", "shard", False),
    ],
)
def test_a_list_stays_a_list_until_something_reads(chain: str, op: str, expected: bool) -> None:
    ops = make_graph(chain).ops
    assert reads_names_only(next(found for found in ops if found.name == op), ops) is expected


@pytest.mark.parametrize(
    ("chain", "expected"),
    [("tensor_slices > map", 1), ("tensor_slices > batch*32 > map", 32), ("tensor_slices > batch*8 > batch*4 > map", 4)],
)
def test_samples_in_an_element_are_those_of_the_last_batch(chain: str, expected: int) -> None:
    ops = make_graph(chain).ops
    assert samples_per_element(ops[-1], ops) == expected


def test_a_batch_of_unknown_size_has_an_unknown_number_of_samples() -> None:
    ops = (make_op("batch", parameters={}), make_op("map", inputs=("batch",)))
    assert samples_per_element(ops[1], ops) is None


@pytest.mark.parametrize(
    ("chain", "expected"),
    [("map > shuffle", None), ("batch > map", "batch"), ("batch > map > batch", "batch_2"), ("batch > unbatch", None)],
)
def test_the_batching_op_is_the_last_that_nothing_undoes(chain: str, expected: str | None) -> None:
    found = batching_op(make_graph(chain).ops)
    assert (found.name if found else None) == expected

"""What lies before and after an op."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import make_graph, make_op
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.records import Op
from cs_input_analyzer.tfdata.lineage import (
    downstream,
    freeing_shuffle,
    is_random_order,
    order_is_free,
    upstream,
    without_end,
)
from tests.rules.lines import batch, cache, line, mapped, options, prefetch, reading, repeat, shuffle
from tests.rules.lines import op as make_one

METHODS = ["map", "shuffle", "batch", "interleave", "repeat", "prefetch", "filter"]
chains = st.lists(st.sampled_from(METHODS), min_size=1, max_size=8).map(lambda methods: make_graph(" > ".join(methods)).ops)


def names(ops: tuple[Op, ...]) -> list[str]:
    return [op.name for op in ops]


@given(chains)
def test_one_op_is_before_another_where_that_one_is_after_it(ops: tuple[Op, ...]) -> None:
    top = [op for op in ops if op.within is None]
    for number, op in enumerate(top):
        assert [other for other in upstream(op, ops) if other.within is None] == top[:number]
        assert list(downstream(op, ops)) == top[number + 1 :]
        assert {other.within for other in upstream(op, ops) if other.within} <= {other.name for other in top[:number]}
        for inner in ops:  # what an interleave reads inside leaves through it
            assert inner.within != op.name or list(downstream(inner, ops)) == top[number:]


MIXED = shuffle(seed=0)
TAKE, WINDOW = make_one("Take", "take", count=9), make_one("Window", "window", size=9)


@pytest.mark.parametrize(
    ("ops", "is_free"),
    [
        ((*reading(), mapped(), cache(), MIXED, repeat(), batch(), prefetch()), True),
        ((*reading(), repeat(), mapped(), MIXED, mapped(), batch(), mapped(), options(deterministic=True)), True),
        ((*reading(), MIXED, WINDOW), True),
        ((*reading(), batch()), False),
        ((*reading(), shuffle(seed=7), batch()), False),
        ((*reading()[:1], MIXED, *reading()[1:], batch()), False),  # the names of the files
        ((*reading(), batch(), MIXED), False),  # batches of neighbours
        ((*reading(), WINDOW, MIXED), False),
        ((*reading(), TAKE, MIXED), False),
        ((*reading(), MIXED, TAKE), False),  # of the first ones, whatever their order
        ((*reading(), shuffle(1, seed=0)), False),  # of one there is nothing to draw
        ((*reading(), make_one("Shuffle", "shuffle", buffer_size=3, seed=87654321, seed2=0)), False),  # tf.random.set_seed
    ],
)
def test_an_order_is_free_where_a_shuffle_of_those_very_elements_leaves_nothing_of_it(ops: tuple[Op, ...], is_free: bool) -> None:
    made = line(*ops)
    found = freeing_shuffle(next(op for op in made if op.name == "interleave"), made)
    assert (found is not None) is is_free
    assert found is None or is_random_order(found)


@pytest.mark.parametrize(("behind", "is_free"), [((), True), ((batch(),), True), ((TAKE,), False), ((WINDOW,), False)])
def test_an_op_of_any_order_frees_that_of_its_batches_and_not_who_is_first(behind: tuple[Op, ...], is_free: bool) -> None:
    made = line(*reading(deterministic="false"), *behind)
    assert order_is_free(made[3], made, by_default=False) is is_free
    assert not order_is_free(made[0], made, by_default=False)


def test_what_is_inside_an_interleave_leaves_through_it_and_what_is_inside_a_map_does_not() -> None:
    for kind, is_free in (("ParallelInterleave", True), ("ParallelMap", False)):
        inner = replace(mapped(), name="inner", within="holder")
        made = line(make_one("TensorSlice", "names"), inner, make_one(kind, "holder"), MIXED, batch())
        assert (freeing_shuffle(made[1], made) is not None) is is_free


def test_an_order_by_which_two_datasets_are_paired_is_not_free() -> None:
    first, second = make_op("range", inputs=()), make_op("range", name="range_2", inputs=())
    mixed = replace(MIXED, inputs=("joined",))
    for kind, is_free in (("Zip", False), ("Concatenate", True)):
        joined = make_one(kind, "joined")
        ops = (first, second, replace(joined, inputs=("range", "range_2")), mixed)
        assert (freeing_shuffle(first, ops) is not None) is is_free
    twice = (first, replace(MIXED, inputs=("range",)), replace(make_one("Zip", "zip"), inputs=("range", "shuffle")))
    assert freeing_shuffle(first, twice) is None


@pytest.mark.parametrize(
    ("ops", "endless"),
    [
        ((repeat(), mapped(), batch()), ["repeat", "map", "batch"]),
        ((repeat(3), mapped()), []),
        ((repeat(), make_one("Take", "take", count=5000), batch()), ["repeat"]),
        ((repeat(), make_one("Take", "take", count=-1), batch()), ["repeat", "take", "batch"]),
        ((repeat(), make_one("Take", "take"), batch()), ["repeat"]),  # a number that is not in the graph
        ((repeat(), make_one("TakeWhile", "take_while"), batch()), ["repeat"]),
    ],
)
def test_what_is_repeated_without_end_goes_on_until_something_ends_it(ops: tuple[Op, ...], endless: list[str]) -> None:
    found = without_end(line(*reading(), *ops))
    assert sorted(found) == sorted(endless)
    assert all(op.kind == "Repeat" for op in found.values())


def test_a_repeat_inside_an_interleave_makes_it_endless_and_a_shorter_input_ends_a_zip() -> None:
    inner = replace(repeat(), within="interleave", name="inner")
    assert sorted(without_end(line(*reading()[:3], inner, reading()[3], batch()))) == ["batch", "inner", "interleave"]
    one, other = make_op("range", inputs=()), make_op("range", name="range_2", inputs=())
    endless = replace(repeat(), inputs=("range",))
    for kind, expected in (("Zip", ["repeat"]), ("Concatenate", ["joined", "repeat"])):
        joined = replace(make_one(kind, "joined"), inputs=("range_2", "repeat"))
        assert sorted(without_end((one, other, endless, joined))) == expected


COUNTED, DRAWN = make_one("Range", "range_3", stop=2**63 - 1), make_one("Random", "random")


@pytest.mark.parametrize(
    ("kind", "sources", "is_endless"),
    [
        ("Zip", (COUNTED, "repeat"), True),  # `enumerate`
        ("Zip", ("repeat", DRAWN), True),
        ("Zip", (COUNTED, "range"), False),
        ("DirectedInterleave", (DRAWN, "repeat", "repeat"), True),  # `sample_from_datasets`
        ("DirectedInterleave", (DRAWN, "repeat", "range"), False),
        ("DirectedInterleave", ("range", "repeat", "repeat"), False),  # the choices end
    ],
)
def test_numbers_without_end_end_no_join(kind: str, sources: tuple[Op | str, ...], is_endless: bool) -> None:
    numbers = tuple(replace(one, inputs=()) for one in sources if isinstance(one, Op))
    passed = tuple(replace(batch(), name=f"{one.name}_batch", inputs=(one.name,)) for one in numbers)
    named = tuple(one if isinstance(one, str) else f"{one.name}_batch" for one in sources)
    ops = (make_op("range", inputs=()), replace(repeat(), inputs=("range",)), *numbers, *passed)
    assert ("joined" in without_end((*ops, replace(make_one(kind, "joined"), inputs=named)))) is is_endless

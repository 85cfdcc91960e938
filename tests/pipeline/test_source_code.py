"""Edits of a user's statement: what comes out is the statement with that one change, or nothing."""

from __future__ import annotations

import pytest

from cs_input_analyzer.pipeline.source import code as source_code

CHAIN = """    return (
        files.interleave(read, cycle_length=4)  # a few at a time (4)
        .map(parse)
        .map(lambda x: (x, ")"), 8)
        .batch(
            32,
        )
    )"""
NOT_SURE = [None, "", "   ", "ds = ds.map(", "if training:", "pass", "ds = other(ds)", "ds = ds.mapped(f)", "xs = list(map(f, xs))"]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("ds = ds.map(f)", "ds = ds.map(f, num_parallel_calls=tf.data.AUTOTUNE)"),
        ("ds = ds.map(f, 2)", "ds = ds.map(f, tf.data.AUTOTUNE)"),
        ("ds = ds.map(f, num_parallel_calls=2)", "ds = ds.map(f, num_parallel_calls=tf.data.AUTOTUNE)"),
        ("ds = ds.map(f, num_parallel_calls=(2))", "ds = ds.map(f, num_parallel_calls=(tf.data.AUTOTUNE))"),
        ("  ds = ds.map(f)", "  ds = ds.map(f, num_parallel_calls=tf.data.AUTOTUNE)"),
        ("return ds.map(f).batch(8)", "return ds.map(f, num_parallel_calls=tf.data.AUTOTUNE).batch(8)"),
        ('ds = ds.map(partial(f, "é)"))', 'ds = ds.map(partial(f, "é)"), num_parallel_calls=tf.data.AUTOTUNE)'),
        ("ds = ds.map((f))", "ds = ds.map((f), num_parallel_calls=tf.data.AUTOTUNE)"),
        ("ds = ds.map(\n    f,\n)", "ds = ds.map(\n    f, num_parallel_calls=tf.data.AUTOTUNE,\n)"),
        ("ds = ds.map(map_func=f)", "ds = ds.map(map_func=f, num_parallel_calls=tf.data.AUTOTUNE)"),
        ("if wide: ds = ds.map(f)", "if wide: ds = ds.map(f, num_parallel_calls=tf.data.AUTOTUNE)"),
    ],
)
def test_an_argument_is_set_whichever_way_it_was_given(code: str, expected: str) -> None:
    assert source_code.with_argument(code, "map", "num_parallel_calls", source_code.AUTOTUNE) == expected
    assert source_code.argument_of(expected, "map", "num_parallel_calls") == source_code.AUTOTUNE


@pytest.mark.parametrize("code", [*NOT_SURE, "ds = ds.map(*a)", "ds = ds.map(f, **more)", "ds = ds.map(f).map(g)"])
def test_an_argument_is_not_set_where_that_is_not_sure(code: str | None) -> None:
    assert source_code.with_argument(code, "map", "num_parallel_calls", "2") is None


@pytest.mark.parametrize(
    ("code", "method", "name", "value", "expected"),
    [
        ("ds = ds.map(f)", "map", "cycle_length", "2", None),  # the method does not take it
        ("ds = ds.mine(f)", "mine", "num_parallel_calls", "2", None),
        ("ds = ds.map(f)", "map", "num_parallel_calls", ")", None),
        ("ds = ds.repeat()", "repeat", "count", "2", "ds = ds.repeat(count=2)"),
    ],
)
def test_an_argument_is_added_that_the_method_takes(code: str, method: str, name: str, value: str, expected: str | None) -> None:
    assert source_code.with_argument(code, method, name, value) == expected


def test_nth_says_which_of_several_calls_is_meant_in_the_order_of_the_chain() -> None:
    assert source_code.count_calls(CHAIN, "map") == 2
    first = source_code.with_argument(CHAIN, "map", "num_parallel_calls", "3", nth=0)
    second = source_code.with_argument(CHAIN, "map", "num_parallel_calls", "3", nth=1)
    assert first == CHAIN.replace("parse)", "parse, num_parallel_calls=3)")
    assert second == CHAIN.replace('")"), 8)', '")"), 3)')
    assert source_code.with_argument(CHAIN, "map", "num_parallel_calls", "3", nth=2) is None


def test_an_inner_call_is_made_before_the_one_that_holds_it() -> None:
    code = "ds = files.interleave(lambda f: read(f).map(a)).map(b)"
    assert source_code.with_argument(code, "map", "num_parallel_calls", "2", nth=0) == code.replace(
        "map(a)", "map(a, num_parallel_calls=2)"
    )


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("return ds.batch(8)", "return ds.batch(8).prefetch(2)"),
        ("ds = ds.batch(8).map(f)", "ds = ds.batch(8).prefetch(2).map(f)"),
        (CHAIN, CHAIN.replace("32,\n        )", "32,\n        )\n        .prefetch(2)")),
        ("ds = ds.batch(8).map(f).batch(2)", None),
    ],
)
def test_a_call_is_added_after_another(code: str, expected: str | None) -> None:
    assert source_code.with_call_after(code, "batch", "prefetch(2)") == expected


def test_a_method_is_renamed_and_its_arguments_are_kept() -> None:
    assert source_code.with_method("ds = files.flat_map(read)", "flat_map", "interleave") == "ds = files.interleave(read)"
    assert source_code.with_method("ds = files.flat_map(read).flat_map(read)", "flat_map", "interleave") is None


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("ds = ds.batch(8).shuffle(99)", "ds = ds.shuffle(99).batch(8)"),
        ("ds = (ds\n      .batch(8)\n      .shuffle(99))", "ds = (ds\n      .shuffle(99)\n      .batch(8))"),
        ("ds = ds.batch(8).map(f).shuffle(99)", None),
        ("ds = ds.shuffle(99).batch(8)", None),
        ("ds = ds.shuffle(99)", None),
        ("ds = ds.batch(8).shuffle(9).shuffle(9)", None),
    ],
)
def test_neighbours_are_exchanged(code: str, expected: str | None) -> None:
    assert source_code.with_calls_swapped(code, "batch", "shuffle") == expected


@pytest.mark.parametrize("code", NOT_SURE)
def test_nothing_is_changed_that_is_not_there(code: str | None) -> None:
    assert source_code.with_call_after(code, "map", "cache()") is None
    assert source_code.with_method(code, "map", "interleave") is None
    assert source_code.argument_of(code, "map", "name") is None
    assert source_code.count_calls(code, "map") == 0
    assert not source_code.takes_any_shape(code, "map", "map_func")
    assert not source_code.looks_at_what_is_passed_on(code)


COMMENTED = """ds = (
    files
    .map(f)  # decode
    .batch(32)  # of 32
)"""
CONTINUED = "ds = files \\\n    .map(f) \\\n    .batch(32)"


def test_a_comment_stays_on_the_line_of_its_call() -> None:
    longer = COMMENTED.replace("decode\n", "decode\n    .cache()\n")
    assert source_code.with_call_after(COMMENTED, "map", "cache()") == longer
    assert source_code.with_call_after(COMMENTED, "batch", "cache()") == COMMENTED.replace("of 32\n", "of 32\n    .cache()\n")
    exchanged = "    .batch(32)  # of 32\n    .map(f)  # decode\n"
    assert source_code.with_calls_swapped(COMMENTED, "map", "batch") == f"ds = (\n    files\n{exchanged})"


def test_a_line_that_a_backslash_continues_is_followed_by_another_such() -> None:
    longer = CONTINUED.replace("(f) \\\n", "(f) \\\n    .cache() \\\n")
    assert source_code.with_call_after(CONTINUED, "map", "cache()") == longer
    assert source_code.with_call_after(CONTINUED, "batch", "cache()") == f"{CONTINUED} \\\n    .cache()"
    assert source_code.with_calls_swapped(CONTINUED, "map", "batch") == "ds = files \\\n    .batch(32) \\\n    .map(f)"


APPLIED = "ds = ds.apply(tf.data.experimental.group_by_window(key, reduce, 8)).repeat()"


def test_what_apply_is_given_transforms_datasets_and_is_none() -> None:
    cached = "ds = ds.apply(tf.data.experimental.group_by_window(key, reduce, 8)).cache().repeat()"
    assert source_code.with_call_after(APPLIED, "group_by_window", "cache()") == cached
    assert source_code.with_calls_swapped(APPLIED, "group_by_window", "repeat") == (
        "ds = ds.repeat().apply(tf.data.experimental.group_by_window(key, reduce, 8))"
    )
    own = "ds = ds.apply(transformation_func=lib.deal.batch(8))"
    assert source_code.with_call_after(own, "batch", "prefetch(2)") == f"{own}.prefetch(2)"


@pytest.mark.parametrize("code", ["transform = tf.data.experimental.unbatch()", "deal(tf.data.experimental.unbatch())"])
def test_a_function_of_a_module_is_no_method_of_a_dataset(code: str) -> None:
    assert source_code.with_call_after(code, "unbatch", "cache()") is None


@pytest.mark.parametrize("code", ["ds = data.map(f)", "ds = tf.data.Dataset.range(9).map(f)", "ds = self.data.train.set.map(f)"])
def test_a_dataset_may_have_any_name(code: str) -> None:
    assert source_code.with_call_after(code, "map", "cache()") == f"{code}.cache()"

"""Edits of a user's statement: what comes out is the statement with that one change, or nothing."""

from __future__ import annotations

from typing import Any

import pytest

from cs_input_analyzer.tfdata.source import code as source_code

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
        ('ds = ds.map(partial(f, "é)"))', 'ds = ds.map(partial(f, "é)"), num_parallel_calls=tf.data.AUTOTUNE)'),
        ("ds = ds.map(\n    f,\n)", "ds = ds.map(\n    f, num_parallel_calls=tf.data.AUTOTUNE,\n)"),
        ("if wide: ds = ds.map(f)", "if wide: ds = ds.map(f, num_parallel_calls=tf.data.AUTOTUNE)"),
    ],
)
def test_an_argument_is_set_whichever_way_it_was_given(code: str, expected: str) -> None:
    assert source_code.with_argument(code, "map", "num_parallel_calls", source_code.AUTOTUNE) == expected
    assert source_code.argument_of(expected, "map", "num_parallel_calls") == source_code.AUTOTUNE


@pytest.mark.parametrize("code", NOT_SURE)
def test_nothing_is_changed_that_is_not_there(code: str | None) -> None:
    assert source_code.with_call_after(code, "map", "cache()") is None
    assert source_code.with_method(code, "map", "interleave") is None
    assert source_code.argument_of(code, "map", "name") is None
    assert source_code.count_calls(code, "map") == 0
    assert not source_code.takes_any_shape(code)


COMMENTED = """ds = (
    files
    .map(f)  # decode
    .batch(32)  # of 32
)"""
CONTINUED = "ds = files \\\n    .map(f) \\\n    .batch(32)"


APPLIED = "ds = ds.apply(tf.data.experimental.group_by_window(key, reduce, 8)).repeat()"
UNBATCH = "tf.data.experimental.unbatch()"
INNER = "ds = files.interleave(lambda f: read(f).map(a)).map(b)"
CALLS = {"name": "num_parallel_calls", "value": "2"}
CHANGES: list[tuple[Any, str, tuple[str, ...], dict[str, Any], str | None]] = [
    *(
        (source_code.with_argument, code, ("map",), CALLS, None)
        for code in ("ds = ds.map(*a)", "ds = ds.map(f, **more)", "ds = ds.map(f).map(g)")
    ),
    (source_code.with_argument, "ds = ds.map(f)", ("map", "cycle_length", "2"), {}, None),  # the method does not take it
    (source_code.with_argument, "ds = ds.mine(f)", ("mine",), CALLS, None),
    (source_code.with_argument, "ds = ds.map(f)", ("map", "num_parallel_calls", ")"), {}, None),
    (source_code.with_argument, "ds = ds.prefetch()", ("prefetch", "buffer_size", "2"), {}, "ds = ds.prefetch(buffer_size=2)"),
    # Which of several calls is meant, in the order of the chain; an inner call is made before the one that holds it.
    (source_code.with_argument, CHAIN, ("map",), CALLS | {"nth": 0}, CHAIN.replace("parse)", "parse, num_parallel_calls=2)")),
    (source_code.with_argument, CHAIN, ("map",), CALLS | {"nth": 1}, CHAIN.replace('")"), 8)', '")"), 2)')),
    (source_code.with_argument, CHAIN, ("map",), CALLS | {"nth": 2}, None),
    (source_code.with_argument, INNER, ("map",), CALLS | {"nth": 0}, INNER.replace("map(a)", "map(a, num_parallel_calls=2)")),
    (source_code.with_method, "ds = files.flat_map(read)", ("flat_map", "interleave"), {}, "ds = files.interleave(read)"),
    (source_code.with_method, "ds = files.flat_map(read).flat_map(read)", ("flat_map", "interleave"), {}, None),
    *(
        (source_code.with_call_after, code, ("batch", "prefetch(2)"), {}, expected)
        for code, expected in [
            ("ds = ds.batch(8).map(f)", "ds = ds.batch(8).prefetch(2).map(f)"),
            (CHAIN, CHAIN.replace("32,\n        )", "32,\n        )\n        .prefetch(2)")),
            ("ds = ds.batch(8).map(f).batch(2)", None),
            (
                "ds = ds.apply(transformation_func=lib.deal.batch(8))",
                "ds = ds.apply(transformation_func=lib.deal.batch(8)).prefetch(2)",
            ),
        ]
    ),
    # A dataset may have any name; a function of a module is none of its methods.
    *(
        (source_code.with_call_after, code, ("map", "cache()"), {}, f"{code}.cache()")
        for code in ("ds = data.map(f)", "ds = tf.data.Dataset.range(9).map(f)", "ds = self.data.train.set.map(f)")
    ),
    *(
        (source_code.with_call_after, code, ("unbatch", "cache()"), {}, None)
        for code in (f"transform = {UNBATCH}", f"deal({UNBATCH})")
    ),
    (source_code.with_call_after, APPLIED, ("group_by_window", "cache()"), {}, APPLIED.replace("8))", "8)).cache()")),
    # A comment stays on the line of its call, and a line that a backslash continues is followed by another such.
    (source_code.with_call_after, COMMENTED, ("map", "cache()"), {}, COMMENTED.replace("decode\n", "decode\n    .cache()\n")),
    (source_code.with_call_after, COMMENTED, ("batch", "cache()"), {}, COMMENTED.replace("of 32\n", "of 32\n    .cache()\n")),
    (source_code.with_call_after, CONTINUED, ("map", "cache()"), {}, CONTINUED.replace("(f) \\\n", "(f) \\\n    .cache() \\\n")),
    (source_code.with_call_after, CONTINUED, ("batch", "cache()"), {}, f"{CONTINUED} \\\n    .cache()"),
    (
        source_code.with_calls_swapped,
        COMMENTED,
        ("map", "batch"),
        {},
        "ds = (\n    files\n    .batch(32)  # of 32\n    .map(f)  # decode\n)",
    ),
    (source_code.with_calls_swapped, CONTINUED, ("map", "batch"), {}, "ds = files \\\n    .batch(32) \\\n    .map(f)"),
    (
        *(source_code.with_calls_swapped, APPLIED, ("group_by_window", "repeat"), {}),
        "ds = ds.repeat().apply(tf.data.experimental.group_by_window(key, reduce, 8))",
    ),
    *(
        (source_code.with_calls_swapped, code, ("batch", "shuffle"), {}, expected)
        for code, expected in [
            ("ds = (ds\n      .batch(8)\n      .shuffle(99))", "ds = (ds\n      .shuffle(99)\n      .batch(8))"),
            ("ds = ds.batch(8).map(f).shuffle(99)", None),
            ("ds = ds.shuffle(99).batch(8)", None),
            ("ds = ds.shuffle(99)", None),
            ("ds = ds.batch(8).shuffle(9).shuffle(9)", None),
        ]
    ),
]


@pytest.mark.parametrize(("change", "code", "names", "how", "expected"), CHANGES)
def test_a_statement_is_changed_in_one_place_or_not_at_all(
    change: Any, code: str, names: tuple[str, ...], how: dict[str, Any], expected: str | None
) -> None:
    assert change(code, *names, **how) == expected

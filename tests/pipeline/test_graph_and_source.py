"""One edit, two changes: the statement that it changes makes the pipeline that it makes of the graph."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest

from cs_input_analyzer.records import Edit, EditKind, Op

pytestmark = pytest.mark.tf

tf: Any = pytest.importorskip("tensorflow")

from cs_input_analyzer.pipeline.edits import apply, source_change  # noqa: E402
from cs_input_analyzer.pipeline.graph import graph_def_of, ops_of  # noqa: E402
from tests.pipeline.test_edits import edit  # noqa: E402

# What both say alike; the graph's edits also promise an order that users leave to the default.
SHOWN = ("num_parallel_calls", "cycle_length", "buffer_size", "batch_size", "count", "filename")


def built(code: str) -> Any:
    space: dict[str, Any] = {"tf": tf, "Dataset": tf.data.Dataset}
    exec(code, space)
    return space["ds"]


def ops(dataset: Any, code: str | None = None) -> tuple[Op, ...]:
    return tuple(replace(op, code=code, source="x.py:1") for op in ops_of(graph_def_of(dataset)))


def shown(dataset: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(op.kind, {name: op.parameters[name] for name in SHOWN if name in op.parameters}) for op in ops(dataset)]


HALF = "lambda x: tf.cast(x, tf.float32) / 2"
HALVED = f"ds = Dataset.range(9).map({HALF})"
PAIRS = "ds = Dataset.zip((Dataset.range(9), Dataset.range(9)))"
IN_CYCLES = "ds = Dataset.range(4).interleave(Dataset.range, cycle_length=2"
ANY_ORDER = "ds = Dataset.range(4).flat_map(Dataset.range).shuffle(9)"
CASES: dict[str, tuple[str, tuple[Edit, ...]]] = {
    "map": (f"{HALVED}.batch(3)", (edit("parallelize", "map"),)),
    "map on three threads": (f"{HALVED}.batch(3)", (edit("parallelize", "map", 3),)),
    "the second map": (f"{HALVED}.map({HALF})", (edit("parallelize", "map_2", 2),)),
    "batch": ("ds = Dataset.range(9).batch(3)", (edit("parallelize", "batch", 2),)),
    "serial interleave": (f"{IN_CYCLES})", (edit("parallelize", "interleave"),)),
    "number of calls": (f"{HALVED[:-1]}, num_parallel_calls=2).prefetch(1)", (edit("set-parallelism", "map", 7),)),
    "calls, tuned": (f"{HALVED[:-1]}, num_parallel_calls=2)", (edit("set-parallelism", "map"),)),
    "cycle and calls": (
        f"{IN_CYCLES}, num_parallel_calls=2).shuffle(9)",
        (edit("set-cycle-length", "interleave", 4), edit("set-parallelism", "interleave", 4)),
    ),
    "prefetch": ("ds = Dataset.range(9).prefetch(1)", (edit("set-buffer", "prefetch", 5),)),
    "reader": ("ds = tf.data.TFRecordDataset('none', buffer_size=64)", (edit("set-buffer", "TFRecordDataset", 2 << 20),)),
    "flat_map": ("ds = Dataset.range(4).flat_map(Dataset.range)", (edit("interleave", "flat_map"),)),
    "flat_map of any order": (ANY_ORDER, (edit("interleave", "flat_map", 3),)),
    "more prefetch": ("ds = Dataset.range(9).batch(3)", (edit("insert-prefetch", "batch"),)),
    "more cache": (f"{HALVED}.shuffle(4)", (edit("insert-cache", "map"),)),
    "batch first": (f"{HALVED}.batch(3)", (edit("vectorize", "map"),)),
    "filter first": (f"{PAIRS}.map(lambda x, y: (x, y * 2)).filter(lambda x, y: x > 3)", (edit("swap", "filter"),)),
    "shuffle first": (f"{HALVED}.shuffle(4, seed=1)", (edit("swap", "shuffle"),)),
    "cache first": ("ds = Dataset.range(9).repeat().cache().take(20)", (edit("swap", "cache"),)),
    "take first": ("ds = Dataset.range(9).cache().take(4)", (edit("swap", "take"),)),
    "several": (
        f"{HALVED}.batch(3)",
        (edit("parallelize", "map"), edit("parallelize", "batch", 2), edit("insert-prefetch", "batch", 1)),
    ),
}


@pytest.mark.parametrize(("code", "edits"), CASES.values(), ids=CASES)
def test_the_changed_statement_makes_what_the_changed_graph_is(code: str, edits: tuple[Edit, ...]) -> None:
    dataset = built(code)
    changed = source_change(edits, ops(dataset, code))
    assert changed is not None
    assert shown(built(changed)) == shown(apply(dataset, edits)) != shown(dataset)


def test_every_kind_that_has_a_place_in_the_source_is_compared() -> None:
    assert {edit.kind for _, edits in CASES.values() for edit in edits} == set(get_args(EditKind)) - {"use-private-threads"}


@pytest.mark.parametrize(
    ("code", "edits"),
    [
        ("ds = Dataset.range(4).interleave(Dataset.range)", (edit("parallelize", "interleave"),)),  # the cycle would be another
        ("ds = Dataset.range(9).shuffle(4).map(lambda x: x)", (edit("insert-cache", "map"),)),  # it would freeze the only mixing
        ("ds = Dataset.range(9).batch(3)", (edit("use-private-threads", "batch", 2),)),
        ("ds = Dataset.range(9).batch(3)", (edit("swap", "batch"), edit("swap", "batch"))),
        ("ds = Dataset.range(9).batch(3)", ()),
    ],
)
def test_no_change_of_the_source_is_shown_that_is_not_sure(code: str, edits: tuple[Edit, ...]) -> None:
    assert source_change(edits, ops(built(code), code)) is None

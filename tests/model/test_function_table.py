"""Which functions an input function has, by its graph, and what findings advise of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cs_input_analyzer.model.function_table import function_table
from cs_input_analyzer.records import FunctionUse, Op
from tests.builders import make_finding, make_graph
from tests.rules.lines import batch, cache, line, mapped, op, options, prefetch, reading, repeat, shuffle

NAMES = op("TensorSlice", "names")
FILES = replace(shuffle(16), name="mix")
ALL = (
    NAMES,
    op("Shard", "shard", num_shards=4, index=1),
    FILES,
    *reading()[1:],
    mapped(),
    cache(),
    shuffle(),
    repeat(),
    batch(),
    prefetch(),
)


def table(*ops: Op, findings: tuple[Any, ...] = (), **more: Any) -> dict[str, FunctionUse]:
    rows = function_table(make_graph(ops=line(*ops)), findings, **more)
    return {row.name: row for row in rows}


def test_a_full_pipeline_has_every_function_with_its_values() -> None:
    rows = table(*ALL)
    assert [row.name for row in rows.values() if not row.is_set] == []
    assert {name: row.value for name, row in rows.items()} == {
        "file shuffle": "buffer_size 16, seed 7",
        "shard": "num_shards 4, index 1",
        "interleave": "cycle_length 4, num_parallel_calls AUTOTUNE",
        "map": "num_parallel_calls AUTOTUNE",
        "cache": "filename in memory",
        "shuffle": "buffer_size 2560, seed 7",
        "repeat": "count without end",
        "batch": "batch_size 256, drop_remainder True",
        "prefetch": "buffer_size AUTOTUNE",
        "deterministic": "False",
    }
    assert all(row.source for row in rows.values())


def test_a_bare_pipeline_lacks_them_and_says_what_is_the_default() -> None:
    rows = table(NAMES, op("TFRecord", "read"))
    assert not any(row.is_set for row in rows.values())
    assert rows["deterministic"].value == "True by default"
    assert {row.value for name, row in rows.items() if name != "deterministic"} == {""}
    assert all(row.advised == "" and row.source is None for row in rows.values())
    several = table(NAMES, mapped(kind="Map"), mapped(num_parallel_calls=8), mapped(num_parallel_calls=8))
    assert (several["map"].is_set, several["map"].value) == (True, "num_parallel_calls 8")


# A rule of each function, in the order of the table.
CODES = ("CSI304", "CSI303", "CSI105", "CSI101", "CSI202", "CSI209", "CSI302", "CSI307", "CSI201", "CSI107")


@pytest.mark.parametrize(("code", "name"), list(zip(CODES, table(*ALL), strict=True)))
def test_what_a_finding_advises_stands_at_its_function_alone(code: str, name: str) -> None:
    """Of several findings the first counts; others have no row."""
    others = (make_finding("CSI501", fix="write it again"), make_finding(code, fix="do it"), make_finding(code, fix="or this"))
    rows = table(*ALL, findings=others)
    assert {row.name: row.advised for row in rows.values() if row.advised} == {name: f"do it ({code})"}


def test_python_code_that_divides_the_files_is_a_shard() -> None:
    assert not table(NAMES)["shard"].is_set
    row = table(NAMES, is_sharded=True)["shard"]
    assert (row.is_set, row.value) == (True, "in Python code")
    row = table(*reading(), options(distribute__auto_shard_policy=1), is_sharded=True)["shard"]
    assert (row.is_set, row.value) == (True, "auto_shard_policy")
    assert table(*ALL, is_sharded=True)["shard"].value == "num_shards 4, index 1"


@pytest.mark.parametrize(
    ("ops", "value", "is_set"),
    [
        ((mapped(deterministic="true"),), "True", True),
        ((mapped(deterministic="false"),), "False", True),
        ((mapped(), options(deterministic=False)), "False", True),
        ((mapped(), options(deterministic=True)), "True", True),
        ((mapped(),), "True by default", False),
    ],
)
def test_the_order_that_is_asked_for(ops: tuple[Op, ...], value: str, is_set: bool) -> None:
    row = table(NAMES, *ops)["deterministic"]
    assert (row.value, row.is_set) == (value, is_set)

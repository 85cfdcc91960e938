"""The cost of ops: which one is dearest, which one is serial, and details only where they were measured."""

from __future__ import annotations

import dataclasses

import pytest
from builders import make_analysis, make_graph, make_op_cost, make_profile, make_runtime_cost
from hypothesis import given
from hypothesis import strategies as st
from rendered import to_console

from cs_input_analyzer.records import Analysis, FunctionUse, OpCost, Profile
from cs_input_analyzer.report.costs import (
    COST_COLUMNS,
    costliest_op,
    costliest_sentence,
    functions_table,
    op_cost_table,
    pipeline_table,
    shown_profile,
)
from cs_input_analyzer.report.to_json import to_json
from cs_input_analyzer.units import MISSING
from tests.worker.ops import concatenated

NARROW = [column for column in COST_COLUMNS[:-1] if not column.needs_width]


def plain_op(name: str = "map", **fields: object) -> OpCost:
    """Without the details."""
    details = ("wait_s_per_sample", "source", "elements_per_sample", "bytes_in_per_sample", "bytes_out_per_sample", "is_serial")
    plain = {"kind": "ParallelMap", "self_cpu_s_per_sample": 0.001, "share_ratio": 0.5, "parallelism": 2.0}
    return make_op_cost(name, **(dict.fromkeys(details) | plain | fields))


def profile_of(*ops: OpCost) -> Profile:
    return make_profile(ops=ops)


def test_a_narrow_line_holds_what_is_needed_first_and_a_wide_one_all() -> None:
    for width in (80, 119, 120):
        section = to_console(make_analysis(), width=width).split("Cost of each op")[1].split("Storage")[0]
        assert all(head in section for head in ("share", "wait per", "parallel", "source"))
        assert all((head in section) == (width >= 120) for head in ("elements", "bytes out"))


@pytest.mark.parametrize(
    ("field", "head"), [("elements_per_sample", "elements\nper sample"), ("bytes_out_per_sample", "bytes out\nper sample")]
)
def test_a_detail_is_a_column_where_one_op_has_it(field: str, head: str) -> None:
    narrow = [column.name for column in NARROW]
    without, with_one = (op_cost_table(profile_of(plain_op(), plain_op("batch", **more))) for more in ({}, {field: 3.0}))
    assert [column.name for column in without.columns] == [*narrow, "source"]
    assert [column.name for column in with_one.columns] == [*narrow, head, "source"]
    first, second = (row[len(NARROW)] for row in with_one.rows)
    assert (first, second[0]) == (MISSING, "3")


@pytest.mark.parametrize(
    ("parallelism", "is_serial", "cell"),
    [(1.0, True, "1 serial"), (None, True, "serial"), (1.9, False, "1.9"), (1.9, None, "1.9"), (None, None, MISSING)],
)
def test_serial_ops_are_marked(parallelism: float | None, is_serial: bool | None, cell: str) -> None:
    (row,) = op_cost_table(profile_of(plain_op(parallelism=parallelism, is_serial=is_serial))).rows
    assert row[4] == cell


@given(st.lists(st.none() | st.floats(0, 1), max_size=6), st.floats(0, 1))
def test_the_costliest_op_has_the_largest_share_and_is_never_runtime(shares: list[float | None], runtime: float) -> None:
    ops = [plain_op(f"map_{number}", share_ratio=share) for number, share in enumerate(shares)]
    profile = profile_of(*ops, make_runtime_cost(runtime))
    dearest = costliest_op(profile)
    known = [share for share in shares if share is not None]
    largest = max(known, default=None)
    assert (dearest.share_ratio if dearest is not None else None) == (None if largest is None or largest < runtime else largest)
    table = op_cost_table(profile)
    assert (table.strong is None) == (dearest is None)
    if dearest is not None and table.strong is not None:
        assert dearest.kind != "runtime"
        assert table.rows[table.strong][0] == dearest.name
    assert bool(costliest_sentence(profile)) == bool(known)
    assert ("belongs to no op" in costliest_sentence(profile)) == (bool(known) and dearest is None)


def unattributed(share: float) -> OpCost:
    return dataclasses.replace(make_runtime_cost(share), name="unattributed", kind="unattributed")


def test_where_more_is_unattributed_its_ops_are_said_with_their_lines_and_none_is_the_costliest() -> None:
    unseen = [without_cost(f"map_{n}", merged_into="unattributed", source=f"/home/ada/net/data.py:{34 + n}") for n in (1, 2, 3)]
    profile = profile_of(plain_op("batch", share_ratio=0.07), *unseen, unattributed(0.93))
    assert costliest_op(profile) is None
    assert costliest_sentence(profile) == (
        "93 % of the CPU is spent in map_1, map_2, map_3 (…/net/data.py:35-37), which could not be told apart"
    )
    assert costliest_op(profile_of(plain_op("batch", share_ratio=0.6), *unseen, unattributed(0.4))).name == "batch"


def test_ops_whose_cost_is_in_the_costliest_row_are_named_with_it() -> None:
    profile = profile_of(plain_op("map", share_ratio=0.9), without_cost("batch", merged_into="map"))
    assert costliest_sentence(profile) == "costliest op: map (with batch), 90 % of the CPU"


def test_the_costliest_op_is_said_with_its_place() -> None:
    assert costliest_sentence(make_profile()) == "costliest op: map, 82 % of the CPU, at /home/ada/resnet/input_fn.py:23"


def test_a_wait_longer_than_the_dearest_cpu_is_said() -> None:
    reader = plain_op("tf_record", share_ratio=0.1, wait_s_per_sample=0.004, source="data.py:7")
    assert costliest_sentence(profile_of(reader, plain_op())) == (
        "costliest op: map, 50 % of the CPU; longest wait: tf_record, 4 ms a sample, at data.py:7"
    )
    patient = dataclasses.replace(reader, wait_s_per_sample=0.0009)
    assert "wait" not in costliest_sentence(profile_of(patient, plain_op()))


def without_cost(name: str, **fields: object) -> OpCost:
    return plain_op(name, self_cpu_s_per_sample=None, share_ratio=None, **fields)


def test_what_cannot_be_placed_is_said_with_its_share_at_the_ops_it_may_belong_to() -> None:
    unseen = without_cost("map_2", merged_into="unattributed", source="data.py:7")
    merged = without_cost("batch", merged_into="map")
    unplaced = dataclasses.replace(make_runtime_cost(0.4), name="unattributed", kind="unattributed")
    table = op_cost_table(profile_of(plain_op("map"), merged, unseen, unplaced))
    assert [row[1] for row in table.rows] == ["50 %", "in map", "in unattributed", "40 %"]
    assert table.remarks[0].startswith("unattributed: what these ops cost could not be told")


@pytest.mark.parametrize("other", [plain_op("repeat"), without_cost("repeat")])
def test_nothing_is_said_to_be_unattributed_where_all_was_seen_or_did_not_run(other: OpCost) -> None:
    assert op_cost_table(profile_of(plain_op("map"), other, make_runtime_cost())).remarks == ()


def test_beside_the_users_line_stands_that_of_the_package_which_built_the_op() -> None:
    built = plain_op("map", source="/home/me/data.py:7", library_source="/venv/lib/site-packages/tree/__init__.py:435")
    assert op_cost_table(profile_of(built)).rows[0][-1] == "…/me/data.py:7 (in …/tree/__init__.py:435)"


def test_the_functions_that_an_input_function_has_and_lacks_are_a_table() -> None:
    uses = (
        FunctionUse(name="shard", is_set=False, value="", advised="shard the names (CSI303)"),
        FunctionUse(name="batch", is_set=True, value="batch_size 256", advised="", source="/home/ada/input_fn.py:25"),
    )
    table = functions_table(make_analysis(functions=uses))
    missing = ("shard", "no", MISSING, "shard the names (CSI303)", MISSING)
    assert table.rows == (missing, ("batch", "yes", "batch_size 256", MISSING, "…/ada/input_fn.py:25"))
    assert functions_table(make_analysis(functions=())).rows == ()  # of a run saved before
    assert "Functions of the input function" in to_console(make_analysis(functions=uses), full=True)


def in_a_loop(count: int) -> Analysis:
    """Return a run of a loop over files, in which each op takes as much as any other of its kind."""
    ops = concatenated(count)
    rows = [plain_op(one.name, kind=one.kind, source=one.source, share_ratio=0.9 / len(ops)) for one in ops]
    return make_analysis(pipeline=make_graph(ops=ops), profile=profile_of(*rows, make_runtime_cost(0.1)))


def test_ops_that_a_loop_makes_are_one_row_and_together_the_costliest() -> None:
    run = in_a_loop(150)
    shown = shown_profile(run)
    assert shown is not None
    assert run.profile is not None
    table = op_cost_table(shown)
    assert [row[0] for row in table.rows][3:] == ["map ×150", "concatenate ×149", "shuffle", "batch", "runtime"]
    assert table.strong is not None
    assert costliest_sentence(shown).startswith(f"costliest op: {table.rows[table.strong][0]}, 18 % of the CPU, at data.py:8")
    assert [row[0].strip() for row in pipeline_table(run).rows] == [row[0] for row in table.rows[:-1]]
    assert len(to_console(run).splitlines()) < 400
    assert len(run.profile.ops) == 752
    assert to_json(run).count('"kind": "Concatenate"') == 298


def test_ops_of_a_short_loop_keep_their_rows() -> None:
    run = in_a_loop(7)
    assert shown_profile(run) == run.profile
    assert len(pipeline_table(run).rows) == len(run.pipeline.ops)


def test_a_group_with_costs_in_another_row_has_at_least_its_share() -> None:
    partly = plain_op("map ×150", share_ratio=0.1, merged_into="unattributed")
    unplaced = dataclasses.replace(make_runtime_cost(0.6), name="unattributed", kind="unattributed")
    profile = profile_of(partly, plain_op("batch", share_ratio=0.3), unplaced)
    assert [row[1] for row in op_cost_table(profile).rows] == ["≥ 10 %", "30 %", "60 %"]
    assert costliest_sentence(profile) == "60 % of the CPU is spent in map ×150, which could not be told apart"

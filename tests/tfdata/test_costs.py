"""Where the CPU goes: the identity that nothing is lost, whose row holds which cost, and one thread that holds the worker back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.records import RESTART, RUNTIME, UNATTRIBUTED, Layout, Op, OpCost, Profile, TunedParameter
from cs_input_analyzer.tfdata.costs import CostEvidence, profile_of
from cs_input_analyzer.tfdata.folding import fold_costs, folding_of
from cs_input_analyzer.tfdata.visits import PerSample
from tests.worker.ops import CHAIN, SLICES, concatenated, op

NAMES = tuple(one.name for one in CHAIN)

READING = (op("read", "TFRecord"), op("map", "Map", "read"))
PYTHON = (op("range", "Range"), op("map", "Map", "range", calls=("PyFunc",)))

seconds = st.floats(min_value=0, max_value=1e3, allow_subnormal=False)
walls = st.dictionaries(st.sampled_from(NAMES), seconds)


def profiled(
    wall_s: Mapping[str, float],
    cpu_s: float,
    *,
    layout: str = "1x1x1",
    ops: tuple[Op, ...] = CHAIN,
    elements: Mapping[str, float] | None = None,
    **evidence: Any,
) -> Profile:
    """`wall_s`: of the ops that were seen at work; of those in `elements` was seen only that they gave some."""
    spent = {name: PerSample(wall_s=None, elements=n, bytes_in=None, bytes_out=None) for name, n in (elements or {}).items()}
    spent |= {name: PerSample(wall_s=wall, elements=1.0, bytes_in=None, bytes_out=None) for name, wall in wall_s.items()}
    return profile_of(CostEvidence(layout=Layout.parse(layout), ops=ops, spent=spent, cpu_s_per_sample=cpu_s, **evidence))


def costed(profile: Profile) -> list[OpCost]:
    """The rows that have a cost: of the others nothing was seen."""
    return [row for row in profile.ops if row.self_cpu_s_per_sample is not None]


def rows_of(profile: Profile) -> dict[str, OpCost]:
    return {row.name: row for row in profile.ops}


def cpu_of(row: OpCost) -> float:
    return row.self_cpu_s_per_sample


@given(
    wall_s=walls,
    cpu_s=seconds,
    layout=st.sampled_from(["1x1x1", "1x1x2"]),
    preempted=st.none() | st.floats(0, 10),
    restart_s=st.floats(0, 5),
    elements=st.dictionaries(st.sampled_from(NAMES), st.floats(0, 2)),
)
def test_the_rows_add_up_to_the_process_cpu_whatever_was_seen(
    wall_s: dict[str, float],
    cpu_s: float,
    layout: str,
    preempted: float | None,
    restart_s: float,
    elements: dict[str, float],
) -> None:
    evidence = {"preempted_ratio": preempted, "restart_cpu_s_per_sample": restart_s}
    profile = profiled(wall_s, cpu_s, layout=layout, elements=elements, **evidence)
    assert sum(map(cpu_of, costed(profile))) == pytest.approx(cpu_s, rel=1e-9, abs=1e-9)
    assert all(cpu_of(row) >= -1e-12 for row in costed(profile))
    assert profile.ops[-1].kind in (RUNTIME, UNATTRIBUTED)
    assert [row.kind for row in profile.ops].count(profile.ops[-1].kind) == 1
    for row in costed(profile):
        if row.name in wall_s:
            assert cpu_of(row) + row.wait_s_per_sample == pytest.approx(wall_s[row.name], abs=1e-12)


@given(walls, seconds, st.floats(0, 10))
def test_lost_cpus_never_raise_an_ops_share(wall_s: dict[str, float], cpu_s: float, preempted: float) -> None:
    profile, plain = (profiled(wall_s, cpu_s, layout="1x1x2", preempted_ratio=ratio) for ratio in (preempted, None))
    for row, other in zip(costed(profile)[:-1], costed(plain)[:-1], strict=True):
        assert cpu_of(row) <= cpu_of(other) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("wall_s", "cpu_s", "evidence", "cpus", "waits"),
    [
        # below the process's CPU wall time is CPU, and the rest is the runtime's
        ({"map": 3.0, "batch": 1.0}, 10.0, {}, {"map": 3.0, "batch": 1.0, RUNTIME: 6.0}, {"map": 0.0}),
        # above it each keeps its share, and the rest is waiting
        ({"range": 6.0, "map": 2.0}, 4.0, {}, {"range": 3.0, "map": 1.0, RUNTIME: 0.0}, {"range": 3.0, "map": 1.0}),
        # rows scaled to the whole leave no rounding error to the runtime
        ({"range": 0.1, "map": 0.1, "batch": 0.7, "prefetch": 1.3}, 2.2 * 0.55, {}, {RUNTIME: 0.0}, {}),
        # time without the CPU is waiting on several CPUs, and the runtime's own on one
        ({"map": 1.5}, 4.0, {"preempted_ratio": 0.5, "layout": "1x1x2"}, {"map": 1.0}, {"map": 0.5}),
        ({"map": 1.5}, 4.0, {"preempted_ratio": 0.5}, {"map": 1.5}, {"map": 0.0}),
        # what is far above it is waiting of ops that read storage or call Python, unless all files are in memory
        ({"read": 6.0, "map": 2.0}, 4.0, {"ops": READING}, {"read": 2.0, "map": 2.0, RUNTIME: 0.0}, {"read": 4.0, "map": 0.0}),
        ({"read": 6.0, "map": 2.0}, 4.0, {"ops": READING, "cached_ratio": 1.0}, {"read": 3.0, "map": 1.0}, {}),
        ({"range": 2.0, "map": 6.0}, 4.0, {"ops": PYTHON}, {"range": 2.0, "map": 2.0}, {"map": 4.0}),
        ({"read": 3.15, "map": 1.05}, 4.0, {"ops": READING}, {"read": 3.0, "map": 1.0}, {}),  # a tenth is noise
        # without a model all CPU is the runtime's
        ({}, 2.0, {}, {RUNTIME: 2.0}, {}),
        # beginning anew has a row of its own
        ({"map": 1.0}, 10.0, {"restart_cpu_s_per_sample": 6.0}, {RESTART: 6.0, RUNTIME: 3.0}, {}),
        # the start of a shuffle's input is a part of it, as far as the ops leave CPU
        ({"map": 1.0}, 10.0, {"restart_cpu_s_per_sample": 2.0, "start_s_per_sample": 4.0}, {RESTART: 6.0, RUNTIME: 3.0}, {}),
        ({"map": 9.0}, 10.0, {"start_s_per_sample": 4.0}, {RESTART: 1.0, RUNTIME: 0.0}, {}),
    ],
)
def test_what_is_cpu_and_what_is_waiting(
    wall_s: dict[str, float], cpu_s: float, evidence: dict[str, Any], cpus: dict[str, float], waits: dict[str, float]
) -> None:
    rows = rows_of(profiled(wall_s, cpu_s, **evidence))
    assert {name: cpu_of(rows[name]) for name in cpus} == pytest.approx(cpus)
    assert {name: rows[name].wait_s_per_sample for name in waits} == pytest.approx(waits)
    assert (RESTART in rows) == (RESTART in cpus)


@pytest.mark.parametrize(("elapsed_s", "is_known"), [(1.0, False), (40.0, True), (None, True)])
def test_a_thread_that_would_wait_longer_than_a_sample_takes_is_not_known_to_wait(elapsed_s: float | None, is_known: bool) -> None:
    rows = rows_of(profiled({"range": 60.0, "map": 2.0}, 4.0, elapsed_s_per_sample=elapsed_s))
    assert (rows["range"].wait_s_per_sample is not None) == is_known
    assert rows["map"].wait_s_per_sample is not None


def test_parallelism_is_what_autotune_chose_else_what_the_user_wrote() -> None:
    ops = (op("map", "ParallelMap", num_parallel_calls=8), op("map_2", "ParallelMap", "map", num_parallel_calls="AUTOTUNE"))
    tuned = (TunedParameter(op="map_2", parameter="parallelism", value=3.0),)
    profile = profiled({"map": 1.0, "map_2": 1.0}, 4.0, ops=ops, tuned=tuned)
    assert [row.parallelism for row in profile.ops] == [8.0, 3.0, None]


def test_every_op_has_a_row_with_its_line() -> None:
    assert [row.share_ratio for row in costed(profiled({"map": 1.0}, 0.0))] == [None, None]  # of an idle process
    rows = rows_of(profiled({"map": 1.0}, 4.0))
    assert list(rows) == [*NAMES, RUNTIME]
    assert all(rows[op.name].source == op.source for op in CHAIN)
    assert (rows["batch"].self_cpu_s_per_sample, rows["batch"].merged_into) == (None, None)


def test_what_worked_unseen_is_unattributed_and_not_the_runtimes() -> None:
    rows = rows_of(profiled({"range": 1.0, "prefetch": 1.0, "batch": 0.5}, 10.0, elements={"map": 1.0}))
    assert (rows["map"].merged_into, rows["map"].share_ratio) == (UNATTRIBUTED, None)
    assert cpu_of(rows[UNATTRIBUTED]) == pytest.approx(7.5)
    assert RUNTIME not in rows


@pytest.mark.parametrize(
    ("elements", "absent"), [({"map": 0.0}, ()), ({}, ()), ({"range": 1.0, "map": 0.0}, ()), ({"map": 1.0}, ("map",))]
)
def test_an_op_that_did_not_run_or_does_nothing_leaves_the_rest_to_the_runtime(
    elements: dict[str, float], absent: tuple[str, ...]
) -> None:
    rows = rows_of(profiled({"batch": 1.0}, 10.0, elements=elements, absent=frozenset(absent)))
    assert UNATTRIBUTED not in rows
    assert cpu_of(rows[RUNTIME]) == pytest.approx(9.0)
    assert rows["map"].merged_into is None


def test_an_op_that_was_merged_or_runs_inside_a_map_names_the_row_that_holds_its_cost() -> None:
    rows = rows_of(profiled({"map": 2.0}, 4.0, elements={"batch": 0.1}, merged={"batch": "map"}))
    assert (rows["batch"].merged_into, rows["batch"].self_cpu_s_per_sample) == ("map", None)
    ops = (op("range", "Range"), op("map", "Map", within="map_2"), op("reduce", "Reduce", "map", within="map_2"))
    ops += (op("map_2", "Map", "range"),)
    rows = rows_of(profiled({"map_2": 1.0}, 4.0, ops=ops, elements={"map": 1.0, "reduce": 1.0}))
    assert (rows["map"].merged_into, rows["reduce"].merged_into) == ("map_2", "map_2")
    assert RUNTIME in rows


# --- parts that run alone -------------------------------------------------------------------------------------------------------

SHUFFLED = (op("read", "TFRecord"), op("map", "Map", "read"), op("shuffle", "Shuffle", "map"), op("batch", "Batch", "shuffle"))
LATER = (*SLICES, op("map_2", "Map", "shuffle"))
SEEN = {"range": 0.0, "range_2": 0.0, "flat_map": 0.4, "shuffle": 0.1}
FILLING = {"read": 0.1, "map": 0.1, "shuffle": 7.0, "batch": 2.0}


@pytest.mark.parametrize(
    ("ops", "wall_s", "marginal", "evidence", "cpus", "held_by"),
    [
        # Unseen ops of one function get one row of what their part takes.
        (SLICES, SEEN, {"flat_map": 10.0}, {}, {"map": 9.5, "flat_map": 0.4}, {"batch": "map"}),
        (SLICES, SEEN, {}, {}, {UNATTRIBUTED: 9.5}, {"map": UNATTRIBUTED, "batch": UNATTRIBUTED}),
        # What the loop itself takes stays with the runtime; where it takes all, no op is held responsible.
        (SLICES, SEEN, {"flat_map": 10.0}, {"harness_us": 2e6}, {RUNTIME: 2.0}, {"batch": "map"}),
        (SLICES, {"range": 0.0}, {}, {"harness_us": 8e6}, {RUNTIME: 10.0}, {}),
        # On a busy host the wall time of the seen ops fills the CPU of the process: the unseen ops' share is taken off them.
        (
            *(LATER, {**SEEN, "flat_map": 1.0, "shuffle": 5.0, "map_2": 10.0}, {"flat_map": 7.0, "map_2": 3.0}, {}),
            *({"map": 7.0 - 10.0 / 16.0, "map_2": 3.0, "shuffle": 0.0}, {"batch": "map"}),
        ),
        # The model counts the start of a shuffle's input for the shuffle, which waits for it; the map alone takes that CPU, too.
        (SHUFFLED, FILLING, {"read": 0.5, "map": 7.0, "batch": 2.0}, {}, {"map": 6.93, "shuffle": 0.5}, {}),
        (SHUFFLED, FILLING, {"read": 0.5, "map": 0.6, "batch": 2.2}, {}, {"shuffle": 7.0}, {}),  # it keeps what the parts leave
        (SHUFFLED, FILLING, {"map": 7.0, "batch": 2.0}, {"has_all_parts": False}, {"shuffle": 7.0}, {}),
    ],
)
def test_a_part_alone_tells_whose_cpu_it_is(
    ops: tuple[Op, ...],
    wall_s: dict[str, float],
    marginal: dict[str, float],
    evidence: dict[str, Any],
    cpus: dict[str, float],
    held_by: dict[str, str],
) -> None:
    seen_to_run = {one.name: 1.0 for one in ops}
    rows = rows_of(profiled(wall_s, 10.0, ops=ops, elements=seen_to_run, marginal=marginal, elements_per_sample=1.0, **evidence))
    assert {name: cpu_of(rows[name]) for name in cpus} == pytest.approx(cpus, rel=0.01)
    assert {name: row.merged_into for name, row in rows.items() if row.merged_into} == held_by


def test_what_all_branches_take_is_in_the_row_of_the_costliest_group() -> None:
    seen = {"concatenate_149": 0.6, "concatenate_148": 0.5, "map_150": 0.7, "shuffle": 0.1, "batch": 0.1}
    ops = concatenated(150)
    evidence = {"elements": {one.name: 1.0 for one in ops}, "elements_per_sample": 1.0}
    rows = rows_of(profiled(seen, 10.0, ops=ops, marginal={"concatenate_149": 9.8, "batch": 0.2}, **evidence))
    assert cpu_of(rows["concatenate_149"]) == pytest.approx(8.5, rel=0.01)
    assert {row.merged_into for row in rows.values()} == {None, "concatenate_149"}
    shown = {row.name: row for row in fold_costs(tuple(rows.values()), folding_of(ops))}
    assert (shown["concatenate ×149"].merged_into, shown["map ×150"].merged_into) == (None, "concatenate ×149")
    assert sum(row.share_ratio or 0.0 for row in shown.values() if row.is_op) == pytest.approx(1.0)


@given(walls, walls)
def test_rows_still_add_up_to_the_process(wall_s: dict[str, float], marginal: dict[str, float]) -> None:
    rows = costed(profiled(wall_s, 10.0, elements=dict.fromkeys(NAMES, 1.0), marginal=marginal, elements_per_sample=1.0))
    assert sum(map(cpu_of, rows)) == pytest.approx(10.0)
    assert all(cpu_of(row) >= 0 for row in rows)

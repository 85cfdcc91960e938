"""What a fix can gain at most: laws of operational analysis, and where nothing can be said."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.model.gain_bounds import IDLE_RATIO, PROCESS_RATIO, ROW_ERROR_RATIO, most_gain
from cs_input_analyzer.records import Case, Edit, Layout, OpCost
from tests.builders import make_estimate, make_measurement, make_profile, make_runtime_cost
from tests.rules.lines import batch, case_of, cost, line, mapped, prefetch, reading, shuffle

CPU_S = 1e-3


def measured_case(
    shares: dict[str, float], *, used_ratio: float, cpus: int = 1, runtime: float = 0.0, serial: str | None = None
) -> Case:
    """A worker that uses this part of its CPUs, its time divided among its ops as `shares` say."""
    costs: list[OpCost] = [
        cost(name, share, self_cpu_s_per_sample=share * CPU_S, is_serial=name == serial) for name, share in shares.items()
    ]
    costs.append(replace(make_runtime_cost(runtime), self_cpu_s_per_sample=runtime * CPU_S))
    layout = Layout(nodes=1, tasks_per_node=1, cpus_per_task=cpus)
    rate = make_estimate(used_ratio * cpus / CPU_S, spread=1e-9)
    launch = make_measurement(layout)
    worker = replace(launch.workers[0], samples_per_s=rate)
    return replace(
        case_of(*reading(), mapped(), batch(), prefetch(), measurements=(replace(launch, workers=(worker,)),)),
        profile=make_profile(layout=layout, cpu_s_per_sample=CPU_S, ops=tuple(costs)),
    )


BUFFER = (Edit(kind="set-buffer", op="map", value=2**18),)
CACHE = (Edit(kind="insert-cache", op="map"),)
PARALLEL = (Edit(kind="parallelize", op="map"),)


@given(st.sampled_from((CACHE, BUFFER)), st.floats(0.0, 0.8), st.floats(0.2, 1.0), st.integers(1, 16))
def test_what_is_left_of_the_work_bounds_the_rate(edits: tuple[Edit, ...], share: float, used: float, cpus: int) -> None:
    """Amdahl's law: what really can be gained by doing all of it once, with every CPU busy, is always within the bound."""
    case = measured_case({"map": share, "batch": 1 - share}, used_ratio=used, cpus=cpus)
    most = most_gain(case, edits)
    truth = 1 / used / (1 - share)
    assert most is None or truth <= most * 1.000001
    if share * ROW_ERROR_RATIO < 0.9:
        idle = IDLE_RATIO - (IDLE_RATIO - 1) * min(1.0, used * cpus)
        assert most <= idle * PROCESS_RATIO / used / (1 - share * ROW_ERROR_RATIO) * 1.000001


def test_a_worker_that_mostly_waits_may_gain_more_than_its_costs_allow() -> None:
    """Its samples cost it more than they would a busy one: 38 times the rate was declined for a bound of 26."""
    most = most_gain(measured_case({"map": 0.5, "batch": 0.5}, used_ratio=0.04, cpus=2), PARALLEL)
    assert 38 < most < 60


def test_ops_that_change_places_may_both_become_cheaper() -> None:
    case = measured_case({"TFRecordDataset": 0.01, "map": 0.3, "batch": 0.3, "prefetch": 0.39}, used_ratio=1.0)
    most = most_gain(case, (Edit(kind="swap", op="map"),))
    left = 1 - (0.3 + 0.3) * ROW_ERROR_RATIO
    assert PROCESS_RATIO / left <= most < 1.2 * PROCESS_RATIO / left


def test_what_is_only_done_side_by_side_costs_what_it_cost() -> None:
    """One CPU that is all busy has no room for calls at a time, however dear the op; four have room for four times as many."""
    alone = most_gain(measured_case({"map": 0.9, "batch": 0.1}, used_ratio=1.0), PARALLEL)
    four = most_gain(measured_case({"map": 0.9, "batch": 0.1}, used_ratio=0.25, cpus=4), PARALLEL)
    assert alone == pytest.approx(PROCESS_RATIO)
    assert four == pytest.approx(4 * PROCESS_RATIO)


def test_what_a_batch_reads_may_become_cheaper_once_the_map_is_behind_it() -> None:
    """Slices of records of ten bytes: 37 times the rate was declined for a bound of 32, by the row of their reader."""
    before, after = (
        measured_case({"map": 0.95, name: 0.04, "batch": 0.01}, used_ratio=1.0, serial=name)
        for name in ("TFRecordDataset", "prefetch")
    )
    batched, swapped = (Edit(kind="vectorize", op="map"),), (Edit(kind="swap", op="map"),)
    assert most_gain(before, batched) == pytest.approx(IDLE_RATIO * (most_gain(after, batched) or 0.0))
    assert most_gain(before, batched) == pytest.approx(IDLE_RATIO * (most_gain(before, swapped) or 0.0))


def test_all_ops_between_a_map_and_its_batch_get_other_elements() -> None:
    case = measured_case({"map": 0.5, "shuffle": 0.4, "batch": 0.1}, used_ratio=1.0)
    ops = line(*reading(), mapped(), shuffle(), batch(), prefetch())
    most = most_gain(replace(case, pipeline=replace(case.pipeline, ops=ops)), (Edit(kind="vectorize", op="map"),))
    assert most is None or most > 9
    kept = line(*reading(), mapped(), batch(), shuffle(), prefetch())
    assert (most_gain(replace(case, pipeline=replace(case.pipeline, ops=kept)), (Edit(kind="vectorize", op="map"),)) or 0) < 9


def test_a_serial_op_that_stays_bounds_what_the_others_gain() -> None:
    free = measured_case({"map": 0.5, "batch": 0.5}, used_ratio=0.25, cpus=8)
    held = measured_case({"map": 0.5, "batch": 0.5}, used_ratio=0.25, cpus=8, serial="batch")
    without, with_serial = most_gain(free, PARALLEL), most_gain(held, PARALLEL)
    assert with_serial == pytest.approx(1.15, abs=0.1)  # 2,000 samples/s now; 1 / 0.5 ms alone
    assert without == pytest.approx(4 * PROCESS_RATIO)
    # The row of a serial op of a hundredth may be wrong by as much: a cache that gained a factor of 266 was declined for one.
    free, held = (measured_case({"map": 0.99, "repeat": 0.01}, used_ratio=1.0, serial=serial) for serial in (None, "repeat"))
    assert most_gain(held, CACHE) == most_gain(free, CACHE)


def test_where_the_costs_tell_nothing_there_is_no_bound() -> None:
    case = measured_case({"map": 0.5, "batch": 0.5}, used_ratio=0.9)
    assert most_gain(replace(case, profile=None), PARALLEL) is None
    assert most_gain(replace(case, measurements=()), PARALLEL) is None
    assert most_gain(measured_case({"map": 0.02}, used_ratio=0.9, runtime=0.98), PARALLEL) is None  # nearly all belongs to no op
    assert most_gain(measured_case({"map": 1.0}, used_ratio=1.4), PARALLEL) is None  # more CPU than there was
    other = replace(case.measurements[0], layout=Layout.parse("1x1x7"))
    assert most_gain(replace(case, measurements=(other,)), PARALLEL) is None

"""Feeding the accelerator: against a simulation by events that knows nothing of the recursion, and the laws it must obey.

Whole seconds are exact in floats, so what must be equal is asked to be equal, not close.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cs_input_analyzer.planning.feeding import (
    DEPTH,
    MOST_WORKERS,
    depth_of,
    expected_utilization,
    resampled,
    shapes_of,
    taken_s,
    utilization,
)
from cs_input_analyzer.records import Estimate, Op
from tests.builders import make_graph
from wafer_model import Consumption, from_rate

depths = st.integers(1, 4)
steps_s = st.integers(1, 12)


@st.composite
def productions(draw: st.DrawFn) -> np.ndarray:
    """Whole seconds, many short and a few long, shape [batches, replications, workers]."""
    shape = (draw(st.integers(1, 9)), draw(st.integers(1, 3)), draw(st.integers(1, 4)))
    durations = st.one_of(st.integers(0, 4), st.sampled_from((9, 30, 100)))
    size = math.prod(shape)
    return np.array(draw(st.lists(durations, min_size=size, max_size=size)), dtype=float).reshape(shape)


def gaps(steps: int, step_s: float, pause_every: int | None = None, pause_s: float = 0.0) -> np.ndarray:
    """Seconds from taking the batch before to being ready for this one; after every so many steps it pauses."""
    found = np.full(steps, float(step_s))
    if pause_every is not None:
        found[::pause_every] += pause_s
    found[0] = 0.0
    return found


def by_events(production: np.ndarray, gaps_s: np.ndarray, depth: int) -> list[float]:
    """One replication, shape [batches, workers], as a story: who is making what, what is ready, when is the accelerator free."""
    workers = production.shape[1]
    now, free_at, taken = 0.0, float(gaps_s[0]), []
    begun, ready = [0] * workers, [0] * workers
    done_at = [math.inf] * workers
    while len(taken) < len(gaps_s):
        for worker in range(workers):
            if done_at[worker] <= now:
                ready[worker], done_at[worker] = ready[worker] + 1, math.inf
        turn = len(taken) % workers
        if ready[turn] and free_at <= now:
            ready[turn] -= 1
            taken.append(now)
            free_at = now + gaps_s[len(taken)] if len(taken) < len(gaps_s) else math.inf
        for worker in range(workers):
            if done_at[worker] == math.inf and ready[worker] < depth:
                done_at[worker] = now + production[begun[worker] % len(production), worker]
                begun[worker] += 1
        turn = len(taken) % workers
        if not (min(done_at) <= now or (ready[turn] and free_at <= now)):
            now = min(time for time in (free_at, *done_at) if time > now)
    return taken


@settings(max_examples=300, deadline=None)
@given(productions(), steps_s, st.integers(1, 25), st.integers(1, 30), st.none() | st.integers(1, 5), st.integers(0, 50))
def test_departures_are_those_of_a_simulation_by_events(
    production: np.ndarray, step_s: int, steps: int, depth: int, pause_every: int | None, pause_s: int
) -> None:
    gaps_s = gaps(steps, step_s, pause_every, pause_s)
    found = taken_s(production, gaps_s, depth=depth)
    assert found.tolist() == [by_events(production[:, r], gaps_s, depth) for r in range(production.shape[1])]


@given(productions(), steps_s, st.integers(1, 30), depths, st.data())
def test_a_share_is_a_share_of_all_the_time(
    production: np.ndarray, step_s: int, steps: int, depth: int, data: st.DataObject
) -> None:
    warmup = data.draw(st.integers(0, steps - 1))
    found = utilization(production, step_s, steps=steps, depth=depth, warmup_steps=warmup)
    assert 0 <= found.low <= found.estimate <= found.high <= 1
    taken = taken_s(production, gaps(steps, step_s), depth=depth)
    begun = taken[:, warmup - 1] + step_s if warmup else 0.0
    assert found.estimate == pytest.approx(float(np.mean((steps - warmup) * step_s / (taken[:, -1] + step_s - begun))))


# --- traces ---------------------------------------------------------------------------------------------------------------------

RNG = np.random.default_rng(7)
SCATTERED = RNG.gamma(4.0, 0.25, 400) / 4  # coefficient of variation 0.5, mean 1/4 s


@given(st.integers(2, 400), st.integers(1, 70), st.integers(0, 5))
def test_blocks_keep_the_order_of_the_trace(length: int, batches: int, seed: int) -> None:
    found = resampled([np.arange(length)], workers=2, batches=batches, replications=3, seed=seed)
    block = round(math.sqrt(length))
    assert found.shape == (batches, 3, 2)
    inside = np.delete(np.diff(found, axis=0) % length, np.arange(block - 1, batches - 1, block), axis=0)
    assert (inside == 1 % length).all()
    assert set(np.unique(found)) <= set(range(length))


def test_workers_follow_their_own_traces_of_any_length() -> None:
    found = resampled([np.array([1.0, 2.0]), np.array([5.0, 6.0, 7.0])], workers=5, batches=300, replications=4, seed=1)
    for worker in range(5):
        assert set(np.unique(found[:, :, worker])) == ({1.0, 2.0} if worker % 2 == 0 else {5.0, 6.0, 7.0})
    long = resampled([SCATTERED], workers=3, batches=2000, replications=8, seed=2)
    assert long.mean() == pytest.approx(SCATTERED.mean(), rel=0.01)


# --- expected utilization -------------------------------------------------------------------------------------------------------

TRACES = (tuple(SCATTERED), tuple(SCATTERED[::-1]))


def expected(
    supply: float | Estimate = 1000.0, demand: float = 1000.0, traces_s: Sequence[Sequence[float]] = TRACES, **changes: Any
) -> Estimate:
    supplied = supply if isinstance(supply, Estimate) else Estimate.exact(supply)
    return expected_utilization(shapes_of(traces_s), supplied, from_rate(demand), **({"input_workers": 8} | changes))


def test_scatter_costs_most_where_supply_and_demand_are_equal() -> None:
    plenty, equal, scarce = (expected(1000.0 * ratio).estimate for ratio in (4, 1, 0.25))
    assert plenty > 0.999
    assert equal < 0.9
    assert scarce == pytest.approx(0.25, rel=0.35)
    assert scarce <= 0.25


@settings(max_examples=8, deadline=None)
@given(st.floats(0.2, 3), st.floats(0, 0.3), st.floats(0, 0.3), st.sampled_from((1, 3, 40)), st.integers(1, 6), st.integers(0, 9))
def test_the_interval_holds_the_estimate_and_keeps_below_the_bottleneck_law(
    ratio: float, below: float, above: float, workers: int, depth: int, seed: int
) -> None:
    supply = Estimate(estimate=1000 * ratio, low=1000 * ratio * (1 - below), high=1000 * ratio * (1 + above))
    found = expected(supply, input_workers=workers, depth=depth, seed=seed)
    assert 0 <= found.low <= found.estimate <= found.high <= 1
    assert found.estimate <= ratio
    assert found.high <= supply.high / 1000
    assert found == expected(supply, input_workers=workers, depth=depth, seed=seed)


def test_an_uncertain_supply_widens_the_interval_on_its_side() -> None:
    exact, doubtful = expected(900.0), expected(Estimate(estimate=900.0, low=600.0, high=900.0))
    assert (doubtful.estimate, doubtful.high) == (exact.estimate, exact.high)
    assert doubtful.low < exact.low * 0.75


def test_only_the_shape_of_a_trace_counts() -> None:
    """A worker that was slower for good is slower in the prediction already."""
    assert expected(2000.0, 2000.0) == expected()
    slower = (TRACES[0], tuple(1024 * value for value in TRACES[1]))
    assert expected(traces_s=slower) == expected()


def test_deeper_buffers_feed_better_and_slow_stretches_cost_more_than_single_slow_batches() -> None:
    found = [expected(depth=depth).estimate for depth in (1, DEPTH, 8, 32)]
    assert found == sorted(found)
    assert found[-1] > found[0] + 0.1
    stretches = np.repeat([0.1, 0.3], 200)  # the same batches in another order: what blocks are for
    mixed = RNG.permutation(stretches)
    assert expected(traces_s=[stretches], depth=8).estimate < expected(traces_s=[mixed], depth=8).estimate - 0.02


def test_more_workers_than_are_simulated_stand_for_themselves() -> None:
    assert expected(2000.0, input_workers=MOST_WORKERS) == expected(2000.0, input_workers=10**6)


def test_no_supply_means_no_work_and_a_demand_that_may_be_nothing_may_be_fed_in_full() -> None:
    assert expected(0.0) == Estimate(estimate=0, low=0, high=0, count=expected().count)
    demand = Consumption(samples_per_s=Estimate(estimate=1000.0, low=0.0, high=1000.0), source="model")
    found = expected_utilization(shapes_of(TRACES), Estimate.exact(500.0), demand, input_workers=8)
    assert found.high == 1
    assert found.estimate <= 0.5


@pytest.mark.parametrize("trace", [(), (1.0, -1.0), (0.0, 0.0), (1.0, math.nan), (1.0, math.inf)])
def test_what_holds_no_times_is_no_trace(trace: tuple[float, ...]) -> None:
    (kept,) = shapes_of([trace, (0.0, 1.0, 0.0, 3.0)])
    assert kept.tolist() == [0, 1, 0, 3]
    assert shapes_of([trace]) == []


@pytest.mark.parametrize(("kind", "size", "depth"), [("Prefetch", 4, 5), ("Prefetch", "AUTOTUNE", DEPTH), ("Batch", 4, DEPTH)])
def test_a_worker_holds_what_its_last_prefetch_says_and_one_more(kind: str, size: int | str, depth: int) -> None:
    last = Op(name="last", kind=kind, parameters={"buffer_size": size})
    assert depth_of(make_graph(ops=(last,))) == depth

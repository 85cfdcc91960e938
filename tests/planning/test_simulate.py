"""Feeding the accelerator: against a simulation by events that knows nothing of the recursion, and the laws it must obey.

Whole seconds are exact in floats, so what must be equal is asked to be equal, not close.
"""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import replace
from itertools import pairwise
from typing import Any, get_args

import numpy as np
import pytest
import scipy.special  # noqa: F401 - `simulate` imports it at its first call: no example shall pay for that
from hypothesis import given, settings
from hypothesis import strategies as st

from cs_input_analyzer.planning.feeding import (
    DEPTH,
    MOST_WORKERS,
    depth_of,
    expected_utilization,
    resampled,
    taken_s,
    utilization,
)
from cs_input_analyzer.records import Estimate, Feed
from tests.builders import make_graph
from wafer_model import Consumption, from_rate

FEEDS: tuple[Feed, ...] = get_args(Feed)
feeds = st.sampled_from(FEEDS)
depths = st.integers(1, 4)
steps_s = st.integers(1, 12)


@st.composite
def productions(draw: st.DrawFn, workers: int | None = None, replications: int | None = None, least: int = 0) -> np.ndarray:
    """Whole seconds, many short and a few long, shape [batches, replications, workers]."""
    shape = (draw(st.integers(1, 9)), replications or draw(st.integers(1, 3)), workers or draw(st.integers(1, 4)))
    durations = st.one_of(st.integers(least, 4), st.sampled_from((9, 30, 100)))
    size = math.prod(shape)
    return np.array(draw(st.lists(durations, min_size=size, max_size=size)), dtype=float).reshape(shape)


def gaps(steps: int, step_s: float, pause_every: int | None = None, pause_s: float = 0.0) -> np.ndarray:
    """Seconds from taking the batch before to being ready for this one; after every so many steps it pauses."""
    found = np.full(steps, float(step_s))
    if pause_every is not None:
        found[::pause_every] += pause_s
    found[0] = 0.0
    return found


def by_events(production: np.ndarray, gaps_s: np.ndarray, depth: int, feed: Feed) -> list[float]:
    """One replication, shape [batches, workers], as a story: who is making what, what is ready, when is the accelerator free."""
    workers = production.shape[1]
    now, free_at, taken = 0.0, float(gaps_s[0]), []
    begun, held = [0] * workers, [0] * workers
    done_at: list[float | None] = [None] * workers
    ready: list[tuple[float, int, int]] = []  # made at, worker, batch
    while len(taken) < len(gaps_s):
        happened = True
        while happened:
            happened = False
            for worker in range(workers):
                if done_at[worker] is not None and done_at[worker] <= now:
                    ready.append((now, worker, begun[worker] - 1))
                    done_at[worker], happened = None, True
                if done_at[worker] is None and held[worker] < depth:
                    done_at[worker] = now + production[begun[worker] % len(production), worker]
                    begun[worker], held[worker], happened = begun[worker] + 1, held[worker] + 1, True
            # A batch that takes no time is made at the moment it is begun: hear of it before the accelerator chooses.
            if happened:
                continue
            wanted = [entry for entry in ready if feed == "first-come" or entry[1] == len(taken) % workers]
            if wanted and free_at <= now:
                chosen = min(wanted)
                ready.remove(chosen)
                held[chosen[1]] -= 1
                taken.append(now)
                if len(taken) == len(gaps_s):
                    return taken
                free_at, happened = now + gaps_s[len(taken)], True
        now = min(time for time in (free_at, *done_at) if time is not None and time > now)
    return taken


# --- the recursion is the story -------------------------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(productions(), steps_s, st.integers(1, 25), depths, feeds, st.none() | st.integers(1, 5), st.integers(0, 50))
def test_departures_are_those_of_a_simulation_by_events(
    production: np.ndarray, step_s: int, steps: int, depth: int, feed: Feed, pause_every: int | None, pause_s: int
) -> None:
    gaps_s = gaps(steps, step_s, pause_every, pause_s)
    found = taken_s(production, gaps_s, depth=depth, feed=feed)
    assert found.tolist() == [by_events(production[:, r], gaps_s, depth, feed) for r in range(production.shape[1])]


@given(productions(), steps_s, st.integers(1, 25), st.integers(0, 5), feeds)
def test_room_for_more_batches_than_there_are_is_used_by_nobody(
    production: np.ndarray, step_s: int, steps: int, more: int, feed: Feed
) -> None:
    enough, plenty = (taken_s(production, gaps(steps, step_s), depth=depth, feed=feed) for depth in (steps, steps + more))
    assert (enough == plenty).all()
    assert enough.tolist() == [by_events(production[:, r], gaps(steps, step_s), steps + more, feed) for r in range(len(enough))]


@pytest.mark.parametrize("feed", FEEDS)
def test_a_prefetch_of_a_million_batches_takes_no_memory_for_them(feed: Feed) -> None:
    production = np.ones((2, 4, 64))
    tracemalloc.start()
    try:
        found = taken_s(production, gaps(100, 1.0), depth=1_000_001, feed=feed)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.shape == (4, 100)
    assert peak_bytes < 16 << 20


# --- laws of every run ----------------------------------------------------------------------------------------------------------


@given(productions(), steps_s, st.integers(1, 25), depths, feeds)
def test_no_batch_is_taken_before_the_step_before_it_is_over(
    production: np.ndarray, step_s: int, steps: int, depth: int, feed: Feed
) -> None:
    taken = taken_s(production, gaps(steps, step_s), depth=depth, feed=feed)
    assert (np.diff(taken, axis=1) >= step_s).all()
    assert (taken[:, 0] == (production[0, :, 0] if feed == "round-robin" else production[0].min(axis=1))).all()


@given(productions(), steps_s, st.integers(1, 30), depths, feeds, st.data())
def test_a_share_is_a_share_of_all_the_time(
    production: np.ndarray, step_s: int, steps: int, depth: int, feed: Feed, data: st.DataObject
) -> None:
    warmup = data.draw(st.integers(0, steps - 1))
    found = utilization(production, step_s, steps=steps, depth=depth, feed=feed, warmup_steps=warmup)
    assert 0 <= found.low <= found.estimate <= found.high <= 1
    taken = taken_s(production, gaps(steps, step_s), depth=depth, feed=feed)
    begun = taken[:, warmup - 1] + step_s if warmup else 0.0
    assert found.estimate == pytest.approx(float(np.mean((steps - warmup) * step_s / (taken[:, -1] + step_s - begun))))


@given(productions(), steps_s, st.integers(1, 25), depths, feeds, st.sampled_from((0.25, 2.0, 1024.0)))
def test_scaling_all_times_scales_the_answer(
    production: np.ndarray, step_s: int, steps: int, depth: int, feed: Feed, factor: float
) -> None:
    taken = taken_s(production, gaps(steps, step_s), depth=depth, feed=feed)
    scaled = taken_s(production * factor, gaps(steps, step_s) * factor, depth=depth, feed=feed)
    assert (scaled == taken * factor).all()


@given(productions(), steps_s, st.integers(1, 25), depths, feeds)
def test_replications_do_not_meet(production: np.ndarray, step_s: int, steps: int, depth: int, feed: Feed) -> None:
    together = taken_s(production, gaps(steps, step_s), depth=depth, feed=feed)
    alone = [taken_s(production[:, [r]], gaps(steps, step_s), depth=depth, feed=feed)[0] for r in range(production.shape[1])]
    assert (together == np.array(alone)).all()


# --- in turns, everything is monotone, batch by batch ---------------------------------------------------------------------------


@given(productions(), steps_s, st.integers(1, 30), depths)
def test_in_turns_a_deeper_buffer_never_makes_a_batch_later(production: np.ndarray, step_s: int, steps: int, depth: int) -> None:
    deep, shallow = (taken_s(production, gaps(steps, step_s), depth=d, feed="round-robin") for d in (depth + 1, depth))
    assert (deep <= shallow).all()


@given(productions(), steps_s, st.integers(1, 30), depths)
def test_in_turns_a_faster_accelerator_is_never_later_and_never_waits_less(
    production: np.ndarray, step_s: int, steps: int, depth: int
) -> None:
    fast, slow = (taken_s(production, gaps(steps, s), depth=depth, feed="round-robin") for s in (step_s, step_s + 1))
    assert (fast <= slow).all()
    due = np.arange(steps)
    assert (fast - due * step_s >= slow - due * (step_s + 1)).all()
    of_fast, of_slow = (utilization(production, s, steps=steps, depth=depth) for s in (step_s, step_s + 1))
    assert of_fast.estimate <= of_slow.estimate + 1e-12


@given(productions(), steps_s, st.integers(1, 30), depths, st.data())
def test_in_turns_a_slower_batch_never_helps(
    production: np.ndarray, step_s: int, steps: int, depth: int, data: st.DataObject
) -> None:
    slower = production.copy()
    slower[tuple(data.draw(st.integers(0, n - 1)) for n in production.shape)] += data.draw(st.integers(1, 50))
    before, after = (taken_s(p, gaps(steps, step_s), depth=depth, feed="round-robin") for p in (production, slower))
    assert (after >= before).all()


# --- first come: exact where buffers have no bound, in the long run where they have ---------------------------------------------


@given(productions(workers=4), steps_s, st.integers(1, 20), depths)
def test_first_come_with_unbounded_buffers_is_a_bound_for_everything(
    production: np.ndarray, step_s: int, steps: int, depth: int
) -> None:
    best = taken_s(production, gaps(steps, step_s), depth=steps, feed="first-come")
    for feed in FEEDS:
        assert (best <= taken_s(production, gaps(steps, step_s), depth=depth, feed=feed)).all()
    fewer = taken_s(production[:, :, :3], gaps(steps, step_s), depth=steps, feed="first-come")
    assert (best <= fewer).all()
    slower = taken_s(production, gaps(steps, step_s + 1), depth=steps, feed="first-come")
    assert (best - np.arange(steps) * step_s >= slower - np.arange(steps) * (step_s + 1)).all()


def test_first_come_with_small_buffers_can_be_later_for_a_while() -> None:
    """Why the laws above ask for unbounded buffers: in turns, worker 1 gets its place back sooner, just before a long batch."""
    production = np.array([[[1.0, 2.5]], [[1.0, 20.0]], [[1000.0, 1.0]], [[1.0, 1.0]]])
    in_turns, first_come = (taken_s(production, gaps(4, 10.0), depth=1, feed=feed)[0].tolist() for feed in FEEDS)
    assert in_turns == [1, 11, 21, 31]
    assert first_come == [1, 11, 21, 41]


RNG = np.random.default_rng(7)
SCATTERED = RNG.gamma(4.0, 0.25, 400) / 4  # coefficient of variation 0.5, mean 1/4 s


@pytest.mark.parametrize("busy", [0.7, 0.95, 1.05, 1.4])
def test_in_the_long_run_buffers_workers_and_free_choice_help(busy: float) -> None:
    """The simulated mean moves by less than a thousandth between seeds; a law that failed would move it by per cents."""
    production = resampled([SCATTERED], workers=5, batches=1500, replications=8, seed=1)

    def run(workers: int, feed: Feed, depth: int) -> float:
        some = production[:, :, :workers]
        return utilization(some, 0.25 / 4 / busy, steps=3000, depth=depth, feed=feed, warmup_steps=200).estimate

    for feed in FEEDS:
        by_depth = [run(4, feed, depth) for depth in (1, 2, 4, 8)]
        assert all(more >= less - 1e-3 for less, more in pairwise(by_depth))
        assert by_depth[-1] > by_depth[0] + 0.01
    for depth in (1, 2, 4):
        assert run(4, "first-come", depth) > run(4, "round-robin", depth) - 1e-3
        assert run(5, "first-come", depth) > run(4, "first-come", depth) - 1e-3
    assert run(4, "first-come", 1) > run(4, "round-robin", 1) + 0.05


# --- no scatter: the bottleneck law ---------------------------------------------------------------------------------------------


@given(st.integers(1, 60), st.integers(1, 12), st.integers(1, 6), depths, feeds)
def test_constant_production_gives_the_smaller_of_demand_and_supply(
    batch_s: int, step_s: int, workers: int, depth: int, feed: Feed
) -> None:
    production, rounds = np.full((1, 1, workers), float(batch_s)), 40
    warmup = 20 * workers
    found = utilization(production, step_s, steps=rounds * workers, depth=depth, feed=feed, warmup_steps=warmup)
    assert found.estimate == pytest.approx(min(1.0, workers * step_s / batch_s), rel=1e-12)


# --- traces ---------------------------------------------------------------------------------------------------------------------


@given(st.integers(2, 400), st.integers(1, 70), st.integers(0, 5))
def test_blocks_keep_the_order_of_the_trace(length: int, batches: int, seed: int) -> None:
    found = resampled([np.arange(length)], workers=2, batches=batches, replications=3, seed=seed)
    block = round(math.sqrt(length))
    assert found.shape == (batches, 3, 2)
    inside = np.delete(np.diff(found, axis=0) % length, np.arange(block - 1, batches - 1, block), axis=0)
    assert (inside == 1 % length).all()
    assert set(np.unique(found)) <= set(range(length))


def test_workers_follow_their_own_traces_of_any_length() -> None:
    found = resampled([[1.0, 2.0], [5.0, 6.0, 7.0]], workers=5, batches=300, replications=4, seed=1)
    for worker in range(5):
        assert set(np.unique(found[:, :, worker])) == ({1.0, 2.0} if worker % 2 == 0 else {5.0, 6.0, 7.0})


def test_resampling_keeps_mean_and_autocorrelation_of_a_trace() -> None:
    noise, slow = RNG.normal(0, 0.1, 2000), np.empty(2000)
    slow[0] = 0
    for place in range(1, 2000):
        slow[place] = 0.8 * slow[place - 1] + noise[place]
    trace = 2 + slow

    def lag1(values: np.ndarray) -> float:
        return float(np.corrcoef(values[:-1].ravel(), values[1:].ravel())[0, 1])

    kept = resampled([trace], workers=3, batches=2000, replications=8, seed=2)
    assert kept.mean() == pytest.approx(trace.mean(), rel=0.01)
    assert lag1(kept) == pytest.approx(lag1(trace), abs=0.06)


def test_the_same_seed_gives_the_same_production() -> None:
    one, same, other = (resampled([SCATTERED], workers=2, batches=20, replications=2, seed=seed) for seed in (1, 1, 2))
    assert (one == same).all()
    assert (one != other).any()


# --- expected utilization -------------------------------------------------------------------------------------------------------

TRACES = (tuple(SCATTERED), tuple(SCATTERED[::-1]))


def expected(supply: float | Estimate = 1000.0, demand: float = 1000.0, **changes: Any) -> Estimate:
    settled: dict[str, Any] = {"traces_s": TRACES, "input_workers": 8, "feed": "round-robin", **changes}
    traces = settled.pop("traces_s")
    supplied = supply if isinstance(supply, Estimate) else Estimate.exact(supply)
    return expected_utilization(traces, supplied, from_rate(demand), **settled)


@pytest.mark.parametrize("feed", FEEDS)
def test_scatter_costs_most_where_supply_and_demand_are_equal(feed: Feed) -> None:
    plenty, equal, scarce = (expected(1000.0 * ratio, feed=feed).estimate for ratio in (4, 1, 0.25))
    assert plenty > 0.999
    assert scarce == pytest.approx(0.25, rel=0.35 if feed == "round-robin" else 0.01)
    assert scarce <= 0.25
    assert equal < (0.9 if feed == "round-robin" else 0.995)


@given(
    st.floats(0.2, 3),
    st.floats(0, 0.3),
    st.floats(0, 0.3),
    st.sampled_from((1, 3, 40)),
    feeds,
    st.integers(1, 6),
    st.integers(0, 9),
)
@settings(max_examples=8, deadline=None)
def test_the_interval_holds_the_estimate_and_keeps_below_the_bottleneck_law(
    ratio: float, below: float, above: float, workers: int, feed: Feed, depth: int, seed: int
) -> None:
    supply = Estimate(estimate=1000 * ratio, low=1000 * ratio * (1 - below), high=1000 * ratio * (1 + above))
    found = expected(supply, input_workers=workers, feed=feed, depth=depth, seed=seed)
    assert 0 <= found.low <= found.estimate <= found.high <= 1
    assert found.estimate <= ratio
    assert found.high <= supply.high / 1000
    assert found == expected(supply, input_workers=workers, feed=feed, depth=depth, seed=seed)


def test_an_uncertain_supply_widens_the_interval_on_its_side() -> None:
    exact = expected(900.0)
    doubtful = expected(Estimate(estimate=900.0, low=600.0, high=900.0))
    assert doubtful.estimate == exact.estimate
    assert doubtful.low < exact.low * 0.75
    assert doubtful.high == exact.high


def test_only_the_shape_of_a_trace_counts() -> None:
    slower = [tuple(1024 * value for value in trace) for trace in TRACES]
    assert expected(traces_s=slower) == expected()
    assert expected(2000.0, 2000.0) == expected()


def test_a_worker_that_was_slower_for_good_is_not_counted_twice() -> None:
    slow_twin = (TRACES[0], tuple(3 * value for value in TRACES[0]))
    assert expected(traces_s=slow_twin).estimate == pytest.approx(expected(traces_s=(TRACES[0], TRACES[0])).estimate, rel=1e-9)


def test_deeper_buffers_feed_better_in_the_estimate_too() -> None:
    found = [expected(depth=depth).estimate for depth in (1, DEPTH, 8, 32)]
    assert found == sorted(found)
    assert found[-1] > found[0] + 0.1


def test_slow_stretches_cost_more_than_single_slow_batches() -> None:
    """The same batches in another order: what blocks are for."""
    stretches = np.repeat([0.1, 0.3], 200)
    mixed = RNG.permutation(stretches)
    assert expected(traces_s=[stretches], depth=8).estimate < expected(traces_s=[mixed], depth=8).estimate - 0.02


@pytest.mark.parametrize("feed", FEEDS)
def test_more_workers_than_are_simulated_stand_for_themselves(feed: Feed) -> None:
    most, more = (expected(2000.0, input_workers=workers, feed=feed) for workers in (MOST_WORKERS[feed], 10**6))
    assert most == more


def test_no_supply_means_no_work() -> None:
    assert expected(0.0) == Estimate(estimate=0, low=0, high=0, count=expected().count)


def test_a_demand_that_may_be_nothing_may_be_fed_in_full() -> None:
    demand = Consumption(samples_per_s=Estimate(estimate=1000.0, low=0.0, high=1000.0), source="model")
    found = expected_utilization(TRACES, Estimate.exact(500.0), demand, input_workers=8, feed="round-robin")
    assert found.high == 1
    assert found.estimate <= 0.5


def test_first_come_a_fast_worker_is_not_given_its_fast_batches_again() -> None:
    """A production that ends before the run does would begin again for whoever is ahead, and look 3 % faster than its mean."""
    wild = np.random.default_rng(5).gamma(0.4, 2.5, 400)
    found = [expected(500.0, traces_s=[wild], input_workers=256, feed="first-come", seed=seed) for seed in range(3)]
    assert min(one.low for one in found) < 0.5  # all above 0.5 would be cut down to 0.5
    assert min(one.estimate for one in found) == pytest.approx(0.5, abs=0.015)


@pytest.mark.parametrize(
    "changes",
    [
        {"traces_s": ()},
        {"traces_s": ((),)},
        {"traces_s": ((1.0,), ())},
        {"traces_s": ((1.0, -1.0),)},
        {"traces_s": ((0.0, 0.0),)},
        {"traces_s": ((1.0, math.nan),)},
        {"traces_s": ((1.0, math.inf),)},
        {"input_workers": 0},
        {"depth": 0},
    ],
)
def test_what_cannot_be_simulated_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"trace|at least one"):
        expected(**changes)


def test_a_trace_may_hold_batches_that_took_no_time() -> None:
    assert 0 < expected(traces_s=[(0.0, 1.0, 0.0, 2.0)], feed="first-come").estimate <= 1


@pytest.mark.parametrize(
    ("chain", "buffer_size", "depth"),
    [("range > batch > prefetch", 4, 5), ("range > batch > prefetch", "AUTOTUNE", DEPTH), ("range > batch", None, DEPTH)],
)
def test_a_worker_holds_what_its_last_prefetch_says_and_one_more(chain: str, buffer_size: int | str | None, depth: int) -> None:
    graph = make_graph(chain)
    last = graph.ops[-1]
    if buffer_size is not None:
        graph = replace(graph, ops=(*graph.ops[:-1], replace(last, kind="Prefetch", parameters={"buffer_size": buffer_size})))
    assert depth_of(graph) == depth

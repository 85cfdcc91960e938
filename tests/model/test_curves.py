"""What the pictures are made of: points that obey the laws of what they show."""

from __future__ import annotations

import itertools

import pytest
from builders import make_cluster, make_graph, make_plan
from hypothesis import given
from hypothesis import strategies as st
from page_runs import usual_run

from cs_input_analyzer.model.curves import (
    feeds,
    gap_bins,
    spread,
    throughput_curve,
    wanted_gap_s,
)
from cs_input_analyzer.model.recommend.verdict import chance
from cs_input_analyzer.records import Estimate


@given(st.integers(1, 10**9), st.integers(0, 10**9), st.integers(2, 40), st.sets(st.integers(-5, 2 * 10**9), max_size=3))
def test_a_spread_holds_its_ends_what_is_wanted_and_not_much_more(first: int, length: int, most: int, wanted: set[int]) -> None:
    last = first + length
    found = spread(first, last, most, wanted)
    assert list(found) == sorted(set(found))
    assert found[0] == first
    assert found[-1] == last
    assert {number for number in wanted if first <= number <= last} <= set(found)
    assert len(found) <= most + len(wanted) + 2
    assert spread(last + 1, last, most) == ()


def test_the_curve_runs_through_the_plan_and_never_falls() -> None:
    run = usual_run()
    curve = throughput_curve(run)
    assert run.recommendation.layout in [at.layout for at in curve]
    assert all(at.problem is None for at in curve)
    rates = [at.samples_per_s.estimate for at in curve]
    assert rates == sorted(rates)
    assert curve[0].input_workers == 1
    assert curve[-1].layout.nodes == run.cluster.nodes


def test_on_one_node_the_curve_goes_on_to_all_tasks_that_fit() -> None:
    run = usual_run(cluster=make_cluster(nodes=1, cpus_per_node=8), recommendation=make_plan("1x2x2", single_task_nodes=0))
    assert [at.layout.tasks_per_node for at in throughput_curve(run)] == [2, 3, 4]


def test_what_feeds_is_what_the_plan_says_of_itself() -> None:
    run = usual_run()
    at = {prediction.layout: prediction for prediction in throughput_curve(run)}
    for prediction in at.values():
        assert feeds(prediction, run) == (chance(prediction.samples_per_s, Estimate.exact(7000 * 1.1)) >= 0.9)
    assert feeds(next(iter(at.values())), usual_run(consumption=None)) is None


@given(st.lists(st.floats(0, 1e4), max_size=300))
def test_every_gap_is_in_one_bin(gaps_s: list[float]) -> None:
    bins = gap_bins(gaps_s)
    assert sum(bin.count for bin in bins) == len(gaps_s)
    if gaps_s:
        assert sum(bin.share_ratio for bin in bins) == pytest.approx(1.0)
        assert bins[0].low_s <= max(min(gaps_s), 1e-7) * (1 + 1e-9)
        assert bins[-1].high_s >= max(gaps_s) * (1 - 1e-9)
    for one, other in itertools.pairwise(bins):
        assert one.high_s == pytest.approx(other.low_s)


def test_the_gap_that_feeds_the_accelerator_follows_from_little() -> None:
    run = usual_run()
    wanted = wanted_gap_s(run)
    # Every worker gives a batch of 256 in that time: all together, the demand.
    assert run.recommendation.input_workers * 256 / wanted == pytest.approx(7000)
    assert wanted_gap_s(usual_run(consumption=None)) is None
    assert wanted_gap_s(usual_run(pipeline=make_graph(batch_size=None))) is None


def test_without_a_model_or_a_plan_there_is_no_curve() -> None:
    for run in (usual_run(capacity=None), usual_run(recommendation=None)):
        assert throughput_curve(run) == ()

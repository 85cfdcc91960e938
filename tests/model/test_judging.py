"""The verdict on a supply, its probability, and the share of the time in which the accelerator works."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import make_consumption, make_estimate
from hypothesis import given
from hypothesis import strategies as st
from test_recommend import a_cluster, a_model, plan

from cs_input_analyzer.model import recommend
from cs_input_analyzer.model.recommend.verdict import chance
from cs_input_analyzer.records import Consumption, Estimate, Layout, Options


def interval(low: float, middle: float, high: float) -> Estimate:
    return Estimate(estimate=middle, low=low, high=high)


@pytest.mark.parametrize(
    ("supply", "verdict"),
    [
        (interval(900, 950, 999), "input_bound"),
        (interval(1000, 1050, 1101), "balanced"),
        (interval(1100, 1150, 1200), "accelerator_bound"),
        (Estimate.exact(999), "input_bound"),
        (Estimate.exact(1000), "balanced"),
        (Estimate.exact(1101), "accelerator_bound"),
    ],
)
def test_the_verdict_is_about_the_whole_interval(supply: Estimate, verdict: str) -> None:
    found, confidence = recommend.judge(supply, make_consumption(1000), 0.1)
    assert found == verdict
    assert 0.6 <= confidence <= 1
    if verdict != "balanced":
        assert confidence >= 0.9


@pytest.mark.parametrize("supply", [interval(900, 980, 1080), interval(1050, 1120, 1200), interval(500, 2000, 4000)])
def test_a_statement_that_is_hardly_probable_is_not_made(supply: Estimate) -> None:
    assert recommend.judge(supply, make_consumption(1000), 0.1) == ("unknown", None)
    unknown = replace(make_consumption(1000), samples_per_s=interval(100, 1000, 10_000))
    assert recommend.judge(interval(900, 950, 990), unknown, 0.1) == ("unknown", None)


@given(st.floats(1, 1e6), st.floats(0, 0.9), st.floats(1, 1e6), st.floats(0, 0.9), st.floats(0, 1))
def test_the_three_statements_share_one_whole(rate: float, spread: float, demand: float, doubt: float, headroom: float) -> None:
    supply = make_estimate(rate, spread=spread)
    wanted = replace(make_consumption(samples_per_s=demand), samples_per_s=make_estimate(demand, spread=doubt))
    reaches, is_enough = chance(supply, wanted.samples_per_s), chance(supply, wanted.samples_per_s.scaled(1 + headroom))
    assert 0 <= is_enough <= 1
    verdict, confidence = recommend.judge(supply, wanted, headroom)
    parts = {"input_bound": 1 - reaches, "accelerator_bound": is_enough, "balanced": reaches - is_enough, "unknown": None}
    assert confidence == parts[verdict]
    assert (verdict == "accelerator_bound") is bool(recommend.feeds(supply, wanted, headroom)) or verdict == "input_bound"


@given(st.floats(1, 1e6), st.floats(0, 0.9), st.floats(0.1, 10), st.floats(1.0, 3))
def test_a_chance_rises_with_the_supply_and_falls_with_the_demand(rate: float, spread: float, ratio: float, more: float) -> None:
    needed = Estimate.exact(rate * ratio)
    sure = chance(make_estimate(rate, spread=spread), needed)
    assert 0 <= sure <= 1
    assert chance(make_estimate(rate * more, spread=spread), needed) >= sure
    assert chance(make_estimate(rate, spread=spread), needed.scaled(more)) <= sure
    assert chance(needed, needed) >= 0.999


def test_without_a_demand_or_a_launch_that_runs_there_is_no_verdict() -> None:
    assert recommend.judge(Estimate.exact(10), None, 0.1) == ("unknown", None)
    broken = recommend.predict_current(a_model(), None, a_cluster(), Options(), Layout.parse("4x9x4"))
    assert recommend.judge(broken, make_consumption(10), 0.1) == ("unknown", None)
    runs = recommend.predict_current(a_model(), None, a_cluster(), Options(), Layout.parse("4x2x4"))
    assert recommend.judge(runs, make_consumption(10), 0.1)[0] == "accelerator_bound"


# --- utilization --------------------------------------------------------------------------------------------------------------


def test_utilization_is_the_share_of_the_demand_that_is_met() -> None:
    short, enough = plan(1e4).expected_accelerator_utilization, plan(100).expected_accelerator_utilization
    supply = plan(1e4).predicted_samples_per_s
    assert short.estimate == pytest.approx(supply.estimate / 1e4)
    assert short.low < short.estimate < short.high < 1
    assert (enough.estimate, enough.high) == (1.0, 1.0)


rates = st.floats(1.0, 1e6)
shares = st.floats(0.0, 1.0)


@st.composite
def intervals(draw: st.DrawFn) -> Estimate:
    low, estimate, high = sorted(draw(st.tuples(rates, rates, rates)))
    return Estimate(estimate=estimate, low=low, high=high)


@given(intervals(), intervals(), shares)
def test_utilization_is_a_share_and_without_stalls_that_of_the_bottleneck_law(
    supply: Estimate, demand: Estimate, stalled: float
) -> None:
    consumption = Consumption(samples_per_s=demand, source="model")
    found = recommend.utilization(supply, consumption)
    assert found.estimate == min(1.0, supply.estimate / demand.estimate)
    assert (found.low, found.high) == (min(1.0, supply.low / demand.high), min(1.0, supply.high / demand.low))
    with_stalls = recommend.utilization(supply, consumption, stalled)
    assert 0 <= with_stalls.low <= with_stalls.estimate <= with_stalls.high <= 1
    assert with_stalls == found.scaled(1 - stalled)


@given(rates, st.floats(1.0, 10.0), intervals(), shares, shares)
def test_utilization_rises_with_the_supply_and_falls_with_the_stalls(
    supply: float, factor: float, demand: Estimate, one: float, other: float
) -> None:
    consumption = Consumption(samples_per_s=demand, source="model")

    def at(supply_per_s: float, stalled: float) -> Estimate:
        return recommend.utilization(Estimate.exact(supply_per_s), consumption, stalled)

    less, more = sorted((one, other))
    assert at(supply, more).estimate <= at(supply, less).estimate <= at(supply * factor, less).estimate
    assert at(supply, more).low <= at(supply * factor, less).low


def test_a_demand_that_may_be_nothing_may_be_fed_in_full() -> None:
    demand = Estimate(estimate=1000.0, low=0.0, high=1000.0)
    found = recommend.utilization(Estimate.exact(500.0), Consumption(samples_per_s=demand, source="model"))
    assert (found.low, found.estimate, found.high) == (0.5, 0.5, 1.0)

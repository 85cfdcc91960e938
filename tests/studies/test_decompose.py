"""Shares of the time per sample: they are shares whatever is measured, and name the planted cause."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cs_input_analyzer.records import Decomposition
from cs_input_analyzer.studies.probing.decompose import decompose

seconds = st.floats(1e-9, 1e3)
sizes = st.floats(0, 1e12)
rates = st.floats(1e3, 1e13)
factors = st.floats(1e-3, 1e3)
runs = st.fixed_dictionaries(
    {
        "consumer_s": st.just(0.0) | seconds,
        "warm_s": seconds,
        "cold_s": seconds,
        "bytes_per_sample": sizes,
        "cold_bytes_per_s": rates,
    }
)


def shares(found: Decomposition) -> list[float]:
    values = (found.consumer_ratio, found.prep_ratio, found.fetch_ratio, found.latency_ratio)
    return [value for value in values if value is not None]


def close(one: list[float], other: list[float]) -> bool:
    return len(one) == len(other) and all(math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9) for a, b in zip(one, other, strict=True))


@given(runs)
def test_shares_of_the_whole(run: dict[str, Any]) -> None:
    found = shares(decompose(**run))
    assert len(found) == 4
    assert all(0 <= share <= 1 for share in found)
    assert math.isclose(sum(found), 1, rel_tol=1e-9)


@given(runs, st.sampled_from(["cold_s", "bytes_per_sample", "cold_bytes_per_s"]))
def test_without_a_cold_run_the_warm_one_is_the_whole(run: dict[str, Any], missing: str) -> None:
    found = decompose(**{**run, missing: None})
    assert found.fetch_ratio is found.latency_ratio is None
    assert found == decompose(consumer_s=run["consumer_s"], warm_s=run["warm_s"])
    assert math.isclose(found.consumer_ratio + found.prep_ratio, 1, rel_tol=1e-9)
    assert 0 <= found.consumer_ratio <= 1


@given(runs, factors, factors)
def test_the_units_of_time_and_data_do_not_matter(run: dict[str, Any], time: float, data: float) -> None:
    scaled = {name: run[name] * time for name in ("consumer_s", "warm_s", "cold_s")}
    scaled |= {"bytes_per_sample": run["bytes_per_sample"] * data, "cold_bytes_per_s": run["cold_bytes_per_s"] * data / time}
    assert close(shares(decompose(**scaled)), shares(decompose(**run)))


@given(runs, st.floats(1, 1e3))
def test_more_bandwidth_never_adds_to_fetching(run: dict[str, Any], factor: float) -> None:
    before, after = decompose(**run), decompose(**{**run, "cold_bytes_per_s": run["cold_bytes_per_s"] * factor})
    assert after.fetch_ratio <= before.fetch_ratio
    assert (after.consumer_ratio, after.prep_ratio) == (before.consumer_ratio, before.prep_ratio)


@given(runs)
def test_a_cold_run_as_fast_as_the_warm_one_waits_for_nothing(run: dict[str, Any]) -> None:
    found = decompose(**{**run, "cold_s": run["warm_s"] / 2})
    assert found.fetch_ratio == found.latency_ratio == 0
    assert decompose(**{**run, "cold_s": run["warm_s"]}).latency_ratio == 0


@given(runs, st.floats(1, 10))
def test_a_consumer_slower_than_the_pipeline_is_all_there_is(run: dict[str, Any], slower: float) -> None:
    found = decompose(**{**run, "consumer_s": slower * max(run["warm_s"], run["cold_s"])})
    assert found.prep_ratio == pytest.approx(0, abs=1e-12)
    if run["cold_s"] <= run["warm_s"]:
        assert found.consumer_ratio == 1


@given(hand_over=seconds, prep=seconds, fetch=seconds, latency=seconds)
def test_planted_causes_come_back(hand_over: float, prep: float, fetch: float, latency: float) -> None:
    """A pipeline that overlaps reading with the rest, on a storage that needs `fetch` longer than that, and `latency` on top."""
    warm, cold = hand_over + prep, hand_over + prep + fetch + latency
    assume(min(hand_over, prep, fetch, latency) > cold * 1e-6)
    found = decompose(
        consumer_s=hand_over, warm_s=warm, cold_s=cold, bytes_per_sample=1000.0, cold_bytes_per_s=1000.0 / (warm + fetch)
    )
    assert close(shares(found), [value / cold for value in (hand_over, prep, fetch, latency)])


@pytest.mark.parametrize("name", ["consumer_s", "warm_s", "cold_s"])
@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_times_that_are_none(name: str, value: float) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        decompose(**{"consumer_s": 1.0, "warm_s": 2.0, "cold_s": 3.0, name: value})

"""The quiet level: what workers would deliver on CPUs that they had to themselves."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from builders import make_cluster, make_graph, make_measurement, make_worker
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.model import capacity
from cs_input_analyzer.model.capacity.quiet import (
    FELT_EXPONENT,
    MOST_TAKEN_RATIO,
    OTHERS_ERROR_RATIO,
    at_other_hours,
    at_quiet_level,
    host_ratio,
)
from cs_input_analyzer.model.estimates import log_error
from cs_input_analyzer.records import Estimate, Measurement, Noise, WorkerResult

LOOP_S = 1e-4
TAKEN = st.floats(0, MOST_TAKEN_RATIO)
SLOWER = st.floats(1, 3)
CPUS = st.integers(1, 8)


def seen(others_ratio: float, reference_s: float, undisturbed_s: float) -> Noise:
    loops = {"reference_s": reference_s, "undisturbed_s": undisturbed_s}
    return Noise(run_queue_wait_ratio=None, steal_ratio=None, others_ratio=others_ratio, **loops)


def disturbed(quiet_rate: float, cpus: int, taken: float = 0.0, slower: float = 1.0, busy: float = 1.0) -> WorkerResult:
    """A worker that would keep `busy` of its CPUs at work, with others on them and a slower clock."""
    felt = slower**-FELT_EXPONENT
    sample_s = 1 / quiet_rate
    rate = 1 / (sample_s * (1 - busy) + sample_s * busy / (felt * (1 - taken)))
    cpu_s = busy * cpus * sample_s / felt
    estimate = Estimate(estimate=rate, low=rate * 0.98, high=rate * 1.02, count=12)
    return make_worker(rate, samples_per_s=estimate, cpu_s_per_sample=cpu_s, noise=seen(taken, LOOP_S * slower, LOOP_S))


def launched(cpus: int, *workers: WorkerResult) -> Measurement:
    return make_measurement(f"1x{len(workers)}x{cpus}", workers=workers)


def rates(launch: Measurement) -> list[float]:
    return [worker.samples_per_s.estimate for worker in launch.workers if worker.samples_per_s is not None]


@given(st.floats(1, 1e6), CPUS, TAKEN, SLOWER, st.floats(0, 1))
def test_a_worker_is_given_back_what_others_took_of_the_time_that_it_computes(
    rate: float, cpus: int, taken: float, slower: float, busy: float
) -> None:
    """What waits for its data takes as long as before; one whose CPU time is not known is taken as busy. None becomes surer."""
    disturbing = disturbed(rate, cpus, taken, slower, busy)
    (found,) = at_quiet_level([launched(cpus, disturbing)])
    assert rates(found) == [pytest.approx(rate, rel=1e-6)]
    (worker,) = found.workers
    assert rates(found)[0] * worker.cpu_s_per_sample == pytest.approx(busy * cpus)
    assert log_error(worker.samples_per_s) >= log_error(disturbing.samples_per_s) * (1 - 1e-9)
    if busy == 1:
        (unknown,) = at_quiet_level([launched(cpus, replace(disturbing, cpu_s_per_sample=None))])
        assert rates(unknown) == [pytest.approx(rate, rel=1e-6)]


@given(busy=st.floats(0.01, 0.2), taken=st.floats(0.3, MOST_TAKEN_RATIO))
def test_others_on_cpus_that_a_worker_does_not_want_take_nothing_from_it(busy: float, taken: float) -> None:
    """A worker that waits for its storage, and gets a CPU at once; what the hypervisor takes is seen in no queue."""
    noise = replace(seen(taken, LOOP_S, LOOP_S), run_queue_wait_ratio=0.0)
    waits = make_worker(1000.0, cpu_s_per_sample=busy / 1000, noise=noise)
    (found,) = at_quiet_level([launched(1, waits)])
    assert rates(found)[0] <= 1000 / (1 - busy * taken) * (1 + 1e-9)
    (stolen,) = at_quiet_level([launched(1, replace(waits, noise=replace(noise, steal_ratio=taken)))])
    assert rates(stolen)[0] > rates(found)[0]


def test_a_rate_is_as_sure_as_its_pieces_are_alike_when_each_is_corrected() -> None:
    worker = disturbed(1000.0, 1, taken=0.1)

    def error(*, is_compared: bool = False, **known: float) -> float:
        launch = launched(1, replace(worker, noise=replace(worker.noise, **known)))
        return log_error(at_quiet_level([launch], is_compared=is_compared)[0].workers[0].samples_per_s)

    assert error(is_compared=True) == pytest.approx(log_error(worker.samples_per_s))  # the error of the window, once
    assert error(is_compared=True, quiet_error_log=0.001) == pytest.approx(0.001)
    assert error() == pytest.approx(math.hypot(error(is_compared=True), OTHERS_ERROR_RATIO * math.log(0.9)))
    assert error(quiet_error_log=0.001) < error()
    assert error(quiet_error_log=9.0) == error()  # the window as it was is surer


@pytest.mark.parametrize(
    "noise",
    [
        None,
        Noise(run_queue_wait_ratio=1.4, steal_ratio=0.0),
        seen(0.0, LOOP_S, LOOP_S),
        seen(0.0, LOOP_S * 0.99, LOOP_S),
    ],
)
def test_where_nothing_was_seen_nothing_changes(noise: Noise | None) -> None:
    launch = launched(1, make_worker(1000.0, noise=noise))
    assert at_quiet_level([launch]) == (launch,)
    assert noise is not None or host_ratio([launch], [launch]) == Estimate.exact(1.0)


def test_what_workers_of_a_launch_do_to_each_other_stays() -> None:
    alone = launched(1, disturbed(1000.0, 1))
    slow = make_worker(700.0, noise=seen(0.0, 1.4e-4, 1.4e-4))
    found = at_quiet_level([alone, launched(1, slow, slow)])
    assert rates(found[1]) == [pytest.approx(700), pytest.approx(700)]


def test_a_launch_that_met_no_quiet_moment_is_compared_with_one_of_its_layout_that_did() -> None:
    good, bad = disturbed(1000.0, 1), disturbed(1000.0, 1, slower=1.5)
    never = replace(bad, noise=seen(0.0, 1.5e-4, 1.5e-4))
    assert rates(at_quiet_level([launched(1, good), launched(1, never)])[1]) == [pytest.approx(1000)]


@given(st.lists(st.tuples(TAKEN, SLOWER), min_size=1, max_size=6))
def test_what_the_host_gives_holds_what_it_gave_and_its_quiet_level(seen: list[tuple[float, float]]) -> None:
    measured = [launched(1, disturbed(1000.0, 1, taken, slower)) for taken, slower in seen]
    found = host_ratio(measured, at_quiet_level(measured))
    assert found.low <= found.estimate <= found.high
    gave = math.exp(math.fsum(math.log(rates(launch)[0] / 1000) for launch in measured) / len(measured))
    assert found.estimate == pytest.approx(gave)
    assert found.high == pytest.approx(max(1.0, found.estimate))


KEPT = st.floats(0.1, 1)


@given(
    now=KEPT,
    low=st.floats(0.5, 0.99),
    earlier=st.lists(KEPT, max_size=6),
    bad=st.sampled_from([0.0, -1.0, 2.0, math.nan, math.inf]),
)
def test_earlier_runs_only_widen_what_the_host_gives_and_no_more_than_they_differ(
    now: float, low: float, earlier: list[float], bad: float
) -> None:
    found = Estimate(estimate=now, low=now * low, high=1.0, count=5)
    wider = at_other_hours(found, [*earlier, bad])
    assert wider == at_other_hours(found, earlier)
    assert wider.estimate == found.estimate
    assert wider.low <= found.low * (1 + 1e-9)
    assert wider.high >= found.high
    assert at_other_hours(found, [now] * 3).low == pytest.approx(found.low)
    assert at_other_hours(Estimate.exact(now), earlier) == Estimate.exact(now)


def test_launches_that_lost_different_shares_say_less_of_another_hour() -> None:
    even, uneven = (
        host_ratio(measured, at_quiet_level(measured))
        for measured in ([launched(1, disturbed(1000.0, 1, taken)) for taken in each] for each in ((0.4, 0.4), (0.1, 0.6)))
    )
    assert even.low / even.estimate > 1.5 * uneven.low / uneven.estimate
    # A host that was busy before may be busy again.
    assert at_other_hours(even, (0.1, 1.0)).low < even.low / 1.5


def test_plans_for_other_nodes_rest_on_the_quiet_level_and_those_for_this_host_on_what_it_gives() -> None:
    measured = [launched(1, disturbed(1000.0, 1, taken=0.5)) for _ in range(3)]
    model = capacity.fit(make_graph(), measured, 4)
    layout = measured[0].layout

    def predicted(source: str) -> Estimate:
        cluster = make_cluster(nodes=1, cpus_per_node=4, threads_per_core=1, source=source, speed_ratio=Estimate.exact(1.0))
        return capacity.predict(model, cluster, layout, single_task_nodes=0, feed="first-come", has_chief=False).samples_per_s

    assert predicted("declared").estimate == pytest.approx(1000, rel=0.01)
    assert predicted("this host").estimate == pytest.approx(500, rel=0.01)
    assert predicted("this host").low < 400 < 1000 < predicted("this host").high * 1.05


@given(TAKEN, SLOWER)
def test_what_is_not_known_of_the_quiet_level_does_not_set_launches_apart(taken: float, slower: float) -> None:
    """One launch tells of others by how evenly it ran: an error of the correction says nothing of that."""
    quiet, busy = (
        capacity.fit(make_graph(), [launched(1, worker)], 2)
        for worker in (disturbed(1000.0, 1), disturbed(1000.0, 1, taken, slower))
    )
    assert busy.launch_spread_ratio == pytest.approx(quiet.launch_spread_ratio)
    assert busy.workers[0].samples_per_s.low <= quiet.workers[0].samples_per_s.low * 1.05

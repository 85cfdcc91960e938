"""Which layout is measured because it may be the fastest: never one that was, never one that cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from builders import make_capacity_model, make_cluster, make_point
from hypothesis import given, settings
from hypothesis import strategies as st

from cs_input_analyzer.model import capacity
from cs_input_analyzer.records import CapacityModel, ContentionPoint, Estimate

CLUSTER = make_cluster(nodes=4, cpus_per_node=64)


def probed(cpus: int, *rates: tuple[int, float], together: Sequence[tuple[int, int]] = (), spread: float = 0.03) -> CapacityModel:
    """A host of so many CPUs: rates of lone workers by their CPUs; `together`: tasks and CPUs of workers that kept their rate."""
    workers = tuple(make_point(size, rate, spread=spread) for size, rate in rates)
    contention = tuple(
        ContentionPoint(tasks=tasks, cpus=size, busy_ratio=1.0, kept_ratio=Estimate(estimate=1.0, low=0.97, high=1.03))
        for tasks, size in together
    )
    return make_capacity_model(workers=workers, contention=contention, host_cpus=cpus, ceilings=(), host_read_bytes_per_s=None)


def test_what_lies_between_probes_far_apart_is_asked_about() -> None:
    """Seen: eight CPUs gave twice what the line from four to sixteen said, and the pick was a third slower than the best."""
    together = [(4, 1)]
    while (asked := capacity.next_probe(probed(16, (1, 20), (4, 100), (16, 360), together=together), CLUSTER, 16)) is not None:
        assert asked.tasks_per_node * asked.cpus_per_task <= 16
        together.append((asked.tasks_per_node, asked.cpus_per_task))
    assert (2, 8) in together[:4]


def test_workers_that_gain_nothing_from_cpus_leave_no_doubt() -> None:
    """Workers of one CPU beat everything by far, and so many of them are the plan's to confirm."""
    model = probed(64, (1, 100), (8, 101), (64, 102), together=((4, 1),))
    assert capacity.next_probe(model, CLUSTER, 64) is None
    # How far one launch lies from another makes no layout faster.
    assert capacity.next_probe(replace(model, launch_spread_ratio=0.5, spread_ratio=0.5), CLUSTER, 64) is None


def test_what_was_measured_is_not_asked_about_again() -> None:
    model = probed(8, (1, 20), (8, 160), together=((4, 1),))
    seen = []
    while (found := capacity.next_probe(model, CLUSTER, 8)) is not None:
        seen.append((found.tasks_per_node, found.cpus_per_task))
        sizes = {point.cpus: point.samples_per_s.estimate for point in model.workers}
        sizes[found.cpus_per_task] = 20.0 * found.cpus_per_task
        model = probed(8, *sorted(sizes.items()), together=((4, 1), *seen))
        assert len(seen) <= 8
    assert len(seen) == len(set(seen))


@settings(deadline=None)
@given(st.integers(1, 64), st.integers(1, 64), st.floats(0.2, 1.3))
def test_it_fits_the_host_and_is_never_wider_than_what_was_probed(cpus: int, node_cpus: int, exponent: float) -> None:
    sizes = sorted({1, cpus})
    model = probed(cpus, *((size, 100 * size**exponent) for size in sizes))
    found = capacity.next_probe(model, make_cluster(nodes=2, cpus_per_node=node_cpus), cpus)
    if found is not None:
        assert found.nodes == 1
        assert found.cpus_per_node <= min(cpus, node_cpus)
        assert found.cpus_per_task <= cpus
        assert (found.tasks_per_node, found.cpus_per_task) != (1, cpus)


@pytest.mark.parametrize("budget", [1, 2])
def test_one_cpu_leaves_nothing_to_ask(budget: int) -> None:
    assert capacity.next_probe(probed(budget, (1, 100)), make_cluster(nodes=1, cpus_per_node=1), budget) is None

"""Which launches are measured: a lone worker, the full node both ways, and what may be the fastest, but never one that was."""

from __future__ import annotations

import pytest
from builders import make_capacity_model, make_cluster, make_point
from hypothesis import given, settings
from hypothesis import strategies as st

from cs_input_analyzer.model import capacity
from cs_input_analyzer.records import CapacityModel, Layout, RatePoint

CLUSTER = make_cluster(nodes=4, cpus_per_node=64)


def probed(cpus: int, *points: RatePoint) -> CapacityModel:
    """A host of so many CPUs."""
    return make_capacity_model(points=points, host_cpus=cpus, ceilings=(), host_read_bytes_per_s=None)


@pytest.mark.parametrize(
    ("budget", "most_tasks", "expected"),
    [
        (1, 1, "1x1x1"),
        (2, 2, "1x1x2 1x1x1 1x2x1"),
        (8, 8, "1x1x8 1x1x1 1x8x1"),
        (16, 16, "1x1x16 1x1x1 1x16x1 1x2x8"),
        (64, 64, "1x1x64 1x1x1 1x64x1 1x8x8"),
        (256, 256, "1x1x64 1x1x1 1x64x1 1x8x8"),  # what a host has beyond a node of the cluster is of no use
        (64, 10, "1x1x64 1x1x1 1x10x6 1x8x8"),  # memory, or files
        (64, 4, "1x1x64 1x1x1 1x4x16"),
        (64, 1, "1x1x64 1x1x1"),
    ],
)
def test_first_probes_are_what_users_launch(budget: int, most_tasks: int, expected: str) -> None:
    found = (*capacity.lone_probes(CLUSTER, budget), *capacity.full_probes(CLUSTER, budget, most_tasks))
    assert [str(layout) for layout in found] == expected.split()


@settings(deadline=None)
@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 300))
def test_no_probe_takes_more_than_the_host_and_the_node_have(cpus: int, node_cpus: int, most_tasks: int) -> None:
    cluster = make_cluster(nodes=2, cpus_per_node=node_cpus)
    for layout in (*capacity.lone_probes(cluster, cpus), *capacity.full_probes(cluster, cpus, most_tasks)):
        assert layout.nodes == 1
        assert layout.cpus_per_node <= min(cpus, node_cpus)
        assert layout.tasks == 1 or layout.tasks <= most_tasks


def test_what_lies_between_probes_far_apart_is_asked_about() -> None:
    """Two workers of eight CPUs beat all that was measured, if their shape is like the best of its neighbours."""
    model = probed(16, make_point(1, 1, 20), make_point(1, 16, 360), make_point(16, 1, 20), make_point(2, 8, 180))
    asked = capacity.next_probe(model, CLUSTER, 16, 16)
    assert asked in (Layout.parse("1x4x4"), Layout.parse("1x8x2"))


def test_workers_that_gain_nothing_from_cpus_leave_no_doubt() -> None:
    model = probed(64, make_point(1, 1, 100), make_point(1, 64, 102), make_point(64, 1, 100), make_point(8, 8, 101))
    assert capacity.next_probe(model, CLUSTER, 64, 64) is None


@settings(deadline=None)
@given(st.integers(1, 64), st.integers(1, 64), st.floats(0.2, 1.3), st.integers(1, 64))
def test_what_was_measured_is_not_asked_about_again(cpus: int, node_cpus: int, exponent: float, most_tasks: int) -> None:
    """Asking ends, and every launch that is asked about fits the host and is new."""
    cluster = make_cluster(nodes=2, cpus_per_node=node_cpus)
    budget = min(cpus, node_cpus)
    points = [make_point(1, size, 100 * size**exponent) for size in sorted({1, budget})]
    for _ in range(10):
        asked = capacity.next_probe(probed(cpus, *points), cluster, cpus, most_tasks)
        if asked is None:
            return
        assert asked.cpus_per_node <= budget
        assert asked.tasks_per_node <= most_tasks
        assert (asked.tasks_per_node, asked.cpus_per_task) not in {(point.tasks, point.cpus) for point in points}
        points.append(make_point(asked.tasks_per_node, asked.cpus_per_task, 100 * asked.cpus_per_task**exponent))
    raise AssertionError("it asked for ever")

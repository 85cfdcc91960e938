"""Demands, clusters and saved runs that cannot be: one clear message each, before anything is measured."""

from __future__ import annotations

from typing import Any

import pytest
from test_recommend import a_cluster, a_model, plan

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.records import Estimate, Layout
from tests.builders import make_options


def test_fewer_files_than_workers() -> None:
    few = a_model(is_sharded=True, file_count=3)
    assert plan(1e6, few).input_workers == 3
    with pytest.raises(UsageError, match="share 0 files"):
        plan(100, a_model(is_sharded=True, file_count=0))
    today = plan(100, few, current=Layout.parse("4x4x1")).alternatives[0]
    assert today.note == ("current launch: cannot run as given, 12 input workers share 3 files: some would have nothing to stream")


@pytest.mark.parametrize(
    "choices",
    [
        {"batch_size": 10**400},
        {"probe_layouts": ("1x1x0",)},
        {"single_task_nodes": -1},
        {"exclude_nodes": "n[1-"},
        {"current": Layout(nodes=10**18, tasks_per_node=1, cpus_per_task=1)},
        *({"node_speed_ratio": speed} for speed in ("fast", float("nan"), 0, -1.0)),
    ],
)
def test_what_python_hands_over_is_checked_too(choices: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        make_options(**choices)


@pytest.mark.parametrize("name", ["nodes", "tasks_per_node", "cpus_per_task"])
@pytest.mark.parametrize("count", [0, -1, 1.5, "2", None])
def test_a_launch_of_nothing_is_none(name: str, count: Any) -> None:
    with pytest.raises(UsageError, match="invalid launch"):
        Layout(**{"nodes": 1, "tasks_per_node": 1, "cpus_per_task": 1, name: count})


def test_values_may_be_written_as_on_the_command_line() -> None:
    assert {make_options(node_speed_ratio=speed).node_speed_ratio for speed in (1.2, "1.2", "1.2x")} == {Estimate.exact(1.2)}
    found = make_options(mount_dirs="/a,/b c", exclude_nodes="n[1-2],x", launcher="slurm")
    assert (found.mount_dirs, found.exclude_nodes) == (("/a", "/b c"), ("n1", "n2", "x"))
    same = make_options(mount_dirs=("/a", "/b c"), exclude_nodes=["n[1-2]", "x"], launcher="slurm")
    assert same == found
    assert make_options(mount_dirs=(), exclude_nodes="") == make_options()


def test_the_least_demand_and_the_largest_cluster_that_pass_are_planned_for() -> None:
    assert plan(1e-9).meets_demand is True
    found = plan(1e12, cluster=a_cluster(nodes=1_000_000, cpus_per_node=64))
    assert found.meets_demand is False
    assert found.nodes > 1000

"""Environment: when each rule fires, and when it keeps quiet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import (
    make_alternative,
    make_case,
    make_cluster,
    make_files,
    make_graph,
    make_host,
    make_measurement,
    make_noise,
    make_op,
    make_plan,
    make_station,
    make_storage,
    make_worker,
)
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.records import Case, Finding, TunedParameter
from cs_input_analyzer.rules import autotune_sees_host, cold_cache, dataset_in_tmp, oversubscribed_cpus, path_not_shared

GIB = 2**30


def severities(findings: Any) -> list[str]:
    return [finding.severity for finding in findings]


def only(findings: Any) -> Finding:
    (finding,) = findings
    assert isinstance(finding, Finding)
    return finding


# --- CSI504 temporary folders -------------------------------------------------------------------------------------------------


def placed(directory: str | None, *, nodes: int = 1, is_shared: bool | None = False, file_system: str = "ext4") -> Case:
    return make_case(
        pipeline=make_graph(files=make_files(directory=directory)),
        storage=make_storage(is_shared=is_shared, file_system=file_system),
        plan=make_plan(f"{nodes}x4x2"),
    )


@pytest.mark.parametrize("directory", ["/tmp", "/tmp/data", "/var/tmp/x", "/dev/shm/data"])
def test_a_folder_for_temporary_files_is_told(directory: str) -> None:
    assert severities(dataset_in_tmp.find(placed(directory))) == ["info"]


@pytest.mark.parametrize(
    ("directory", "file_system", "in_memory"), [("/tmp", "tmpfs", True), ("/dev/shm", "tmpfs", True), ("/tmp", "xfs", False)]
)
def test_memory_taken_by_the_dataset_is_told(directory: str, file_system: str, in_memory: bool) -> None:
    assert ("memory" in only(dataset_in_tmp.find(placed(directory, file_system=file_system))).message) is in_memory


@pytest.mark.parametrize(
    "case",
    [
        placed("/data"),
        placed("/tmpfiles"),
        placed(None),
        placed("/tmp/data", is_shared=True),
        placed("/tmp/data", nodes=4),
        make_case(pipeline=make_graph(files=None)),
    ],
)
def test_a_folder_that_stays_is_right(case: Case) -> None:
    assert severities(dataset_in_tmp.find(case)) == []


@given(
    directory=st.sampled_from(["/tmp/x", "/dev/shm", "/data", "/home/ada", None]),
    nodes=st.integers(1, 4),
    is_shared=st.sampled_from([True, False, None]),
)
def test_one_place_is_never_two_findings(directory: str | None, nodes: int, is_shared: bool | None) -> None:
    case = placed(directory, nodes=nodes, is_shared=is_shared)
    assert len([*dataset_in_tmp.find(case), *path_not_shared.find(case)]) <= 1


# --- CSI505 cold cache --------------------------------------------------------------------------------------------------------


def measured(*ratios: float | None, memory_gib: int = 256, **overrides: Any) -> Case:
    """A run whose measurements found so much of 64 GiB of files in memory, one after the other."""
    settings: dict[str, Any] = {
        "pipeline": make_graph(files=make_files(bytes=64 * GIB)),
        "measurements": tuple(make_measurement("1x1x2", page_cache_ratio=ratio) for ratio in ratios),
        "cluster": make_cluster(memory_bytes_per_node=memory_gib * GIB),
    }
    return make_case(**(settings | overrides))


READING = (make_station("readers", utilization_ratio=0.95),)


@pytest.mark.parametrize(
    ("case", "severity"),
    [
        (measured(0.1, 0.5, stations=READING), "warning"),
        (measured(0.1, stations=READING), "warning"),
        (measured(0.1, 1.0, stations=READING), "info"),  # the last measurement was of later passes
        (measured(0.1, 0.5), "info"),
        (measured(0.1, 0.5, plan=None, stations=READING), "warning"),
    ],
)
def test_a_cold_start_is_as_bad_as_the_plan_depends_on_it(case: Case, severity: str) -> None:
    assert severities(cold_cache.find(case)) == [severity]


@pytest.mark.parametrize(
    "case",
    [
        measured(0.95, 1.0, stations=READING),
        measured(None, None, stations=READING),
        measured(stations=READING),
        measured(0.0, 0.0, 0.0, stations=READING),  # a file system that is not cached
        measured(0.1, 0.5, stations=READING, plan=make_plan(cache_state="cold")),
        measured(0.1, 0.5, stations=READING, plan=make_plan(cache_state="warm")),
        measured(0.1, 0.5, stations=READING, memory_gib=32, is_sharded=False),  # CSI503 tells
        measured(0.1, 0.5, stations=READING, pipeline=make_graph(files=None)),
        measured(stations=READING, measurements=(make_measurement(page_cache_ratio=0.0, cache_state="cold"),), plan=None),
    ],
)
def test_a_cache_as_training_will_find_it_is_right(case: Case) -> None:
    assert severities(cold_cache.find(case)) == []


# --- CSI506 oversubscribed CPUs -----------------------------------------------------------------------------------------------


def today(layout: str, note: str = "current launch", **overrides: Any) -> Case:
    plan = make_plan(alternatives=(make_alternative(layout, note=note),))
    return make_case(plan=plan, cluster=make_cluster(cpus_per_node=16), **overrides)


def noisy(*steals: float | None, layout: str = "1x1x2", preempted: float | None = None) -> Case:
    launches = [make_measurement(layout, noise=make_noise(steal_ratio=steal, preempted_ratio=preempted)) for steal in steals]
    return make_case(measurements=tuple(launches))


def test_a_launch_larger_than_its_nodes_is_told() -> None:
    finding = only(oversubscribed_cpus.find(today("2x8x4")))
    assert finding.severity == "warning"
    assert (finding.evidence["cpus_per_node_wanted"], finding.evidence["cpus_per_node"]) == (32, 16)


@pytest.mark.parametrize("case", [noisy(0.2, 0.3), noisy(0.0, preempted=1.4), noisy(0.1, preempted=2.0)])
def test_a_busy_host_is_told_once(case: Case) -> None:
    assert severities(oversubscribed_cpus.find(case)) == ["info"]


@pytest.mark.parametrize(
    "case",
    [
        today("2x8x2"),
        today("2x8x4", note="one node more"),  # never run
        noisy(0.01, 0.0),
        noisy(0.3, 0.0, 0.0),  # one bad moment
        noisy(None, None),
        noisy(0.3, layout="1x4x2"),  # our own workers stood in each other's way
        noisy(0.0, preempted=0.55),  # a worker with more threads than CPUs
        make_case(measurements=(), plan=None),
    ],
)
def test_cpus_for_all_threads_are_right(case: Case) -> None:
    assert severities(oversubscribed_cpus.find(case)) == []


# --- CSI507 AUTOTUNE and the host's CPUs --------------------------------------------------------------------------------------


def budgeted(cpus: int, layout: str = "2x8x4", **overrides: Any) -> Case:
    option = make_op("with_options", kind="Options", parameters={"autotune.cpu_budget": cpus})
    return make_case(pipeline=make_graph(ops=(make_op("map"), option)), plan=make_plan(layout), **overrides)


def tuned(calls: float, op: str = "map", parameter: str = "parallelism", layout: str = "1x1x2") -> Case:
    worker = make_worker(tuned=(TunedParameter(op=op, parameter=parameter, value=calls),))
    return make_case(measurements=(replace(make_measurement(layout), workers=(worker,)),))


def quota(budget: int, source: str = "cgroup quota") -> Case:
    return make_case(host=make_host(cpus=64, cpu_budget=budget, cpu_budget_source=source))


@pytest.mark.parametrize(
    ("case", "severity"),
    [
        (budgeted(64), "warning"),
        (budgeted(6), "info"),
        (budgeted(64, measurements=()), "warning"),
        (tuned(16.0), "warning"),
        (tuned(16.0, parameter="num_parallel_calls"), "warning"),
        (quota(4), "info"),
    ],
)
def test_autotune_that_counts_too_many_cpus_is_told(case: Case, severity: str) -> None:
    assert severities(autotune_sees_host.find(case)) == [severity]


def test_the_cause_is_told_and_not_its_effect_again() -> None:
    case = budgeted(64)
    case = replace(case, measurements=tuned(64.0).measurements, host=quota(4).host)
    assert only(autotune_sees_host.find(case)).op == "with_options"


@pytest.mark.parametrize(
    "case",
    [
        budgeted(4),
        budgeted(2),
        budgeted(0),
        tuned(2.0),
        tuned(3.0, layout="1x1x1"),
        tuned(16.0, op="interleave"),  # they wait for files
        tuned(16.0, parameter="buffer_size"),
        quota(40),
        quota(4, source="affinity"),
        quota(4, source="SLURM_CPUS_PER_TASK"),
        make_case(measurements=(), host=None),
    ],
)
def test_autotune_that_counts_right_is_right(case: Case) -> None:
    assert severities(autotune_sees_host.find(case)) == []

"""Which machine measures and which is planned for: never mixed up, and what cannot be is refused before anything is started."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import make_host

from cs_input_analyzer.engines import selection as engine
from cs_input_analyzer.errors import Mistakes, UsageError
from cs_input_analyzer.host.cluster.file import file_text
from cs_input_analyzer.host.cluster.slurm import SlurmNodes
from cs_input_analyzer.records import Cluster, Estimate, Host, Layout, Options

SLURMS = Cluster(
    nodes=3, cpus_per_node=8, memory_bytes_per_node=1 << 34, name="lab", source="Slurm", partition="big", excluded_nodes=("wafer",)
)
FOUND = SlurmNodes(cluster=SLURMS, alike=("n1", "n2", "n3", "n4"))
LAB = "nodes: 4\ncpus_per_node: 64\nmemory_per_node: 128GiB\n"


class NodesOfSlurm:
    """Stands for the launcher: a job that was submitted, and the host that its first node is."""

    opened = 0
    model = "AMD EPYC 7702P"

    def __init__(self, *wish: Any, **choices: Any) -> None:
        type(self).opened += 1
        self.host: Host = make_host(hostname="n1", cpu_budget=8, cpu_model=self.model)


@pytest.fixture
def on_slurm(monkeypatch: pytest.MonkeyPatch) -> type[NodesOfSlurm]:
    """A login node of another kind than the nodes of its Slurm."""
    monkeypatch.setattr(NodesOfSlurm, "opened", 0)
    monkeypatch.setattr(NodesOfSlurm, "model", "AMD EPYC 7702P")
    monkeypatch.setattr(engine, "discover", lambda partition, exclude: FOUND)
    monkeypatch.setattr(engine, "SlurmLauncher", NodesOfSlurm)
    monkeypatch.setattr(engine.machine, "read_host", lambda cpus=None: make_host(hostname="login", cpu_budget=2))
    return NodesOfSlurm


def engine_of(options: Options, declared: Cluster | None = None) -> engine.Engine:
    """Return the engine that is opened, as `launched.analyze` opens it. Raise UsageError for what is refused before that."""
    mistakes = Mistakes()
    place = engine.resolve(options, mistakes, declared=declared)
    mistakes.raise_any()
    assert place is not None
    return engine.open_engine(options, place, declared=declared, on_status=lambda what: None)


def opened(**options: Any) -> Cluster:
    declared = options.pop("declared", None)
    found = engine_of(Options(launcher="slurm", **options), declared)
    assert found.host.hostname == "n1"
    return found.cluster


# --- Slurm's nodes measure ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", [None, "slurm"])
def test_the_nodes_that_measure_are_those_that_are_planned_for(on_slurm: type[NodesOfSlurm], choice: str | None) -> None:
    found = opened(cluster=choice)
    assert (found.speed_ratio, found.speed_basis, found.is_measured) == (Estimate.exact(1.0), "this host", True)
    assert (found.partition, found.excluded_nodes) == ("big", ("wafer",))


def test_another_cluster_is_not_what_was_measured(on_slurm: type[NodesOfSlurm], tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(LAB)
    declared = Cluster(nodes=4, cpus_per_node=64, memory_bytes_per_node=1 << 37)
    for found in (opened(cluster=str(path)), opened(cluster="andromeda"), opened(declared=declared)):
        assert found.speed_ratio is None
        assert (found.is_measured, found.partition, found.excluded_nodes) == (False, None, ())
    stated = opened(cluster=str(path), node_speed_ratio=Estimate.exact(1.5))
    assert (stated.speed_ratio, stated.is_measured) == (Estimate.exact(1.5), False)


def test_the_machine_we_were_started_on_is_another_machine(on_slurm: type[NodesOfSlurm]) -> None:
    found = opened(cluster="local")
    assert (found.name, found.source, found.cpus_per_node) == ("login", "login", 2)
    # The node that measures is of the same model here, and of another one below.
    assert (found.speed_ratio.estimate, found.speed_basis, found.is_measured) == (1.0, "same model", False)
    for model in ("AMD EPYC 9334", "AMD EPYC Processor"):
        on_slurm.model = model
        assert opened(cluster="local").speed_ratio is None


@pytest.mark.parametrize(
    ("nodes", "is_measured"), [("n[1-2]", True), ("n4", True), ("n[1-2],x1", False), ("wafer", False), (None, False)]
)
def test_an_allocation_of_other_nodes_says_nothing_of_those_planned_for(
    on_slurm: type[NodesOfSlurm], nodes: str | None, is_measured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    if nodes is not None:
        monkeypatch.setenv("SLURM_JOB_NODELIST", nodes)
    found = opened()
    assert found.is_measured is is_measured
    assert (found.speed_ratio is not None) is is_measured
    assert engine.is_planned_for(FOUND, {}) is True  # a job of ours asks for no others


def test_a_file_that_was_written_of_slurm_is_of_the_nodes_that_measure(
    on_slurm: type[NodesOfSlurm], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(file_text(SLURMS))
    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr(engine, "discover", lambda *words: asked.append(words) or FOUND)
    assert opened(cluster=str(path)) == opened()
    assert asked[0] == ("big", ("wafer",))
    path.write_text(file_text(replace(SLURMS, cpus_per_node=64)))
    assert opened(cluster=str(path)).is_measured is False


def test_more_single_task_nodes_than_there_are_submit_no_job(on_slurm: type[NodesOfSlurm]) -> None:
    with pytest.raises(UsageError, match="--single-task-nodes 3 must be 0 or more and less than the cluster's 3 nodes"):
        opened(single_task_nodes=3)
    assert on_slurm.opened == 0
    assert opened(single_task_nodes=2).nodes == 3


# --- this host measures ---------------------------------------------------------------------------------------------------------


def here(monkeypatch: pytest.MonkeyPatch, **options: Any) -> Cluster:
    monkeypatch.setattr(
        engine.machine, "read_host", lambda cpus=None: make_host(cpu_budget=cpus or 2, cpu_budget_source="affinity")
    )
    found = engine_of(Options(**options))
    found.launcher.close()
    return found.cluster


def layouts(*texts: str) -> tuple[Layout, ...]:
    return tuple(Layout.parse(text) for text in texts)


def test_tasks_share_cpus_but_none_has_more_than_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    here(monkeypatch, probe_layouts=layouts("1x1x1", "1x64x1", "1x3x2", "1x1x2"))
    with pytest.raises(UsageError, match=r"--probe-layouts 1x1x64: needs 64 CPUs for a task, and 2 may be used here \(affinity\)"):
        here(monkeypatch, probe_layouts=layouts("1x1x1", "1x1x64"))
    with pytest.raises(UsageError, match="1x1x2: needs 2 CPUs for a task, and 1 may be used"):
        here(monkeypatch, probe_layouts=layouts("1x1x1", "1x1x2"), cpus=1)


def test_single_task_nodes_leave_one_that_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    for single in (1, 2):
        with pytest.raises(UsageError, match=f"--single-task-nodes {single} must be 0 or more and less than the cluster's 1 node:"):
            here(monkeypatch, single_task_nodes=single)
    with pytest.raises(UsageError, match="--single-task-nodes -1"):
        here(monkeypatch, single_task_nodes=-1)
    for single, nodes in ((0, None), (None, None), (1, 2), (7, 8)):
        here(monkeypatch, single_task_nodes=single, nodes=nodes)


def test_a_plan_for_slurm_from_here_knows_where_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "discover", lambda partition, exclude: FOUND)
    found = here(monkeypatch, cluster="slurm")
    assert (found.partition, found.excluded_nodes, found.is_measured) == ("big", ("wafer",), False)
    assert here(monkeypatch).partition is None


@pytest.mark.parametrize(("node", "hostname", "is_node"), [("n1", "c-17", True), ("", "n4.lab.org", True), ("x1", "n1", False)])
def test_a_node_of_the_cluster_that_measures_has_its_speed(
    node: str, hostname: str, is_node: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with `srun -N1 --exclusive --mem=0 cs_input_analyzer analyze … --cluster slurm`."""
    monkeypatch.setattr(engine, "discover", lambda partition, exclude: FOUND)
    monkeypatch.setenv("SLURMD_NODENAME", node)
    measuring = make_host(hostname=hostname, cpu_model="AMD EPYC Processor")
    monkeypatch.setattr(engine.machine, "read_host", lambda cpus=None: measuring)

    def planned_for(**options: Any) -> Cluster:
        place = engine.resolve(Options(cluster="slurm", **options), Mistakes())
        assert place is not None
        return place.cluster

    found = planned_for()
    assert found.speed_ratio == (Estimate.exact(1.0) if is_node else None)
    assert found.cpu_model == ("AMD EPYC Processor" if is_node else None)
    assert not found.is_measured  # one node does not show the shared storage
    stated = planned_for(node_speed_ratio=Estimate.exact(1.5))
    assert (stated.speed_ratio, stated.speed_basis) == (Estimate.exact(1.5), "stated")

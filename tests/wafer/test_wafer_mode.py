"""One mode of the wafer that all agree on, and what follows from it: single-task nodes, the Python of the launch lines, no plan
where there is no room for one."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from cs_input_analyzer.cli import main
from cs_input_analyzer.errors import Mistakes, UsageError
from cs_input_analyzer.model.launch_lines import launch_lines
from cs_input_analyzer.model.recommend import single_task_nodes
from cs_input_analyzer.records import Analysis, Cluster, Layout, Options
from cs_input_analyzer.report import render
from cs_input_analyzer.report.to_json import from_json
from cs_input_analyzer.request.demand import with_mode
from cs_input_analyzer.request.request import read_request
from tests.builders import make_cluster, make_consumption, make_plan
from tests.fakes import FakeLauncher
from tests.workflows.test_analysis import CLUSTER, analyzed, job, linear

WS, PIPELINED = "weight_streaming", "pipelined"
THIS_HOST = Cluster(nodes=1, cpus_per_node=2, memory_bytes_per_node=16 * 2**30, name="this host", source="this host")

MODES = (None, PIPELINED, WS)


@pytest.mark.parametrize(
    ("typed", "report", "train", "script"),
    [*product(MODES, [None, "compile_report.txt"], [None, "python run.py", "python-ws run.py"], [None, "python", "python-ws"])],
)
def test_all_who_say_a_mode_agree_or_are_named(
    typed: str | None, report: str | None, train: str | None, script: str | None
) -> None:
    options = Options(wafer_mode=typed, compile_report=report, train_command=train)
    said = {typed, PIPELINED if report else None, WS if "-ws" in (train or "") else None, WS if script == "python-ws" else None}
    said.discard(None)
    words = () if script is None else (script, "run.py")
    if len(said) < 2:
        found = with_mode(options, words)
        assert {found.wafer_mode} - {None} == said
        assert with_mode(found, words) == found
        return
    with pytest.raises(UsageError, match=r"\(pipelined\) .*\(weight streaming\)|\(weight streaming\) .*\(pipelined\)") as told:
        with_mode(options, words)
    named = {"--wafer-mode": typed, "--compile-report": report}
    assert any(name in str(told.value) for name, value in named.items() if value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--wafer-mode pipelined python-ws run.py", "--wafer-mode (pipelined) and python-ws (weight streaming)"),
        ("--single-task-nodes 1 python-ws run.py", "--single-task-nodes 1: weight streaming needs 2"),
    ],
)
def test_a_contradiction_ends_with_2_before_anything_runs(
    arguments: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.py").write_text("raise SystemExit('it ran')")
    monkeypatch.chdir(tmp_path)
    assert main(arguments.split()) == 2
    told = capsys.readouterr().err
    assert message in told
    assert "it ran" not in told


def settled(target: str, **choices: Any) -> Options:
    """Return the options that an analysis would start with."""
    mistakes = Mistakes()
    request = read_request(mistakes, target, **choices)
    mistakes.raise_any()
    assert request is not None
    return request.options


GPTJ: dict[str, Any] = {"wafer": "gptj", "batch_size": 120}
BERT: dict[str, Any] = {"wafer": "bert_large", "batch_size": 256}


@pytest.mark.parametrize(
    ("target", "choices", "expected"),
    [
        (None, GPTJ, WS),
        (None, BERT, PIPELINED),
        (None, BERT | {"wafer_mode": "weight-streaming"}, WS),
        (None, BERT | {"train_command": "python-ws run.py"}, WS),
        (None, {"demand": 5.0}, None),
        ("script:1:python-ws run.py", {}, WS),
        ("script:1:python run.py", {}, None),
        (None, GPTJ | {"single_task_nodes": 1, "nodes": 8}, "--single-task-nodes 1: weight streaming needs 2 at least"),
    ],
)
def test_the_mode_of_a_run_is_that_of_its_model_or_its_script(
    target: str | None, choices: dict[str, Any], expected: str | None, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run.py").touch()
    monkeypatch.chdir(tmp_path if target else root)
    if expected in (None, WS, PIPELINED):
        assert settled(target or "tests/builders.py:make_graph", **choices).wafer_mode == expected
    else:
        with pytest.raises(UsageError, match=expected):
            settled(target or "tests/builders.py:make_graph", **choices)


@pytest.mark.parametrize("demand", [None, 10.0, 30_000.0])
def test_a_plan_streams_from_a_third_node_on(demand: float | None) -> None:
    plan = analyzed(FakeLauncher(linear), job(demand=demand, wafer_mode=WS)).recommendation
    assert plan.single_task_nodes == 2
    assert plan.nodes >= 3
    assert plan.input_workers == (plan.nodes - 2) * plan.tasks_per_node
    assert "--single-task-nodes 2 python-ws run.py --mode=train" in plan.launch.csrun_wse
    assert all(row.layout.nodes >= 3 for row in plan.alternatives)


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_cluster_of_two_nodes_is_refused_before_anything_runs(nodes: int) -> None:
    launcher = FakeLauncher(linear)
    with pytest.raises(UsageError, match="weight streaming needs 3 nodes at least"):
        analyzed(launcher, job(demand=100, wafer_mode=WS, cluster=replace(CLUSTER, nodes=nodes, source="flags")))
    assert launcher.ran == []


def test_a_mode_counts_without_a_demand_and_a_demands_without_an_option() -> None:
    assert single_task_nodes(1, None, Options(wafer_mode=WS)) == 2
    assert [single_task_nodes(8, make_consumption(5, mode=mode), Options()) for mode in MODES] == [1, 1, 2]
    assert [single_task_nodes(nodes, None, Options()) for nodes in (1, 2)] == [0, 1]
    assert single_task_nodes(8, make_consumption(5, mode=WS), Options(single_task_nodes=3)) == 3


def without_a_plan(demand: float | None = 100, **options: Any) -> Analysis:
    return analyzed(FakeLauncher(linear), job(demand=demand, cluster=THIS_HOST, wafer_mode=WS, **options))


def test_this_host_is_measured_and_says_why_it_has_no_plan() -> None:
    found = without_a_plan()
    assert found.measurements
    assert found.recommendation is None
    assert "this host has 1 node: give more by --nodes N" in found.no_plan
    assert found.no_plan in found.budget.not_measured[0]
    fastest = max(found.measurements, key=lambda each: each.samples_per_s.estimate)
    assert (found.verdict, found.verdict_layout) == ("accelerator_bound", fastest.layout)
    assert "measured on this host" in " ".join(render(found, "console", full=True).split())
    undemanded = without_a_plan(None)
    assert (undemanded.verdict, undemanded.verdict_layout, undemanded.recommendation) == ("unknown", None, None)
    judged = without_a_plan(current=Layout.parse("4x2x1"))  # a launch in use is judged without a plan
    assert (judged.verdict, judged.verdict_layout) == ("accelerator_bound", Layout.parse("4x2x1"))
    assert without_a_plan(current=Layout.parse("2x2x1")).verdict == "unknown"  # it cannot run


def test_every_report_of_a_run_without_a_plan_says_why_or_refuses_with_the_reason() -> None:
    run = without_a_plan()
    for form in ("console", "html"):
        text = " ".join(render(run, form).split())  # type: ignore[arg-type]
        assert "none is recommended: weight streaming needs 3 nodes" in text
    for refusing in ("sbatch", "env"):
        with pytest.raises(UsageError, match=r"no recommended launch.*weight streaming needs 3 nodes"):
            render(run, refusing)  # type: ignore[arg-type]
    assert render(run, "csv")
    assert from_json(render(run, "json"), origin="test") == run
    assert max(map(len, render(run, "console", full=True).splitlines()[:-1])) <= 80


TYPED = "csrun_wse --total-nodes 14 --cyclic python run.py --mode=validate_only --params p.yaml"


@pytest.mark.parametrize(("typed", "mode"), [(TYPED, None), (TYPED, WS), (TYPED.replace("python ", "python-ws "), WS)])
def test_lines_hold_one_launcher_and_train_with_the_python_of_the_mode(typed: str, mode: str | None) -> None:
    plan = make_plan("5x4x2", single_task_nodes=2 if mode else 1, launch=None)
    options = Options(train_command=typed, wafer_mode=mode, mount_dirs=("/a", "/b c"))
    found, python = launch_lines(plan, make_cluster(), options, "d.py:f"), "python-ws" if mode else "python"
    trains = f"{python} run.py --mode=train --params p.yaml"
    assert found.csrun_wse.count("csrun_wse") == 1
    assert found.csrun_wse.endswith(f"--single-task-nodes {2 if mode else 1} --mount-dirs '/a,/b c' {trains}")
    assert found.srun.endswith(trains)
    assert trains in found.sbatch
    assert "csrun_wse" not in found.srun + found.sbatch

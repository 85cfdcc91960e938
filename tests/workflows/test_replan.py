"""A saved run planned again: the same question has the same answer, and another one an answer of its own. Nothing is measured."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cs_input_analyzer as csia
from cs_input_analyzer.cli import main
from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.model import recommend
from cs_input_analyzer.records import Analysis, Fixes, KeptPlan, Layout, SamplesPerElement, Validation, ValidationRow
from cs_input_analyzer.report import render
from cs_input_analyzer.report.to_json import from_json
from cs_input_analyzer.workflows import replan
from tests.builders import GIB, make_estimate, make_graph, make_storage
from tests.fakes import FakeLauncher
from tests.workflows.test_analysis import CLUSTER, analyzed, job, linear


def measured(demand: float | None = 30_000, **options: Any) -> Analysis:
    """A run whose numbers were invented, but fit each other."""
    return analyzed(launcher(), job(demand, **options))


def launcher(**fields: Any) -> FakeLauncher:
    return FakeLauncher(linear, pipeline=make_graph(target="data.py:train_input_fn"), **fields)


RUN = measured()
PLANNED = ("recommendation", "no_plan", "verdict", "verdict_layout", "confidence", "cluster", "consumption", "options", "findings")


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "run.json"
    file.write_text(render(RUN, "json"))
    return str(file)


def again(run: Analysis = RUN, **choices: Any) -> Analysis:
    return replan.plan(run, command="plan", **choices)


# --- laws ------------------------------------------------------------------------------------------------------------------------


SAME: tuple[dict[str, Any], ...] = (
    {},
    {"demand": None},
    {"demand": 1e8},
    {"current": Layout.parse("2x4x2")},
    {"feed": "first-come", "headroom_ratio": 0.5},
    {"demand": None, "cluster": replace(CLUSTER, nodes=1, cpus_per_node=1, source="this host"), "budget": 1},  # no room for one
)


@pytest.mark.parametrize("options", SAME, ids=str)
def test_nothing_new_is_the_same_plan(options: dict[str, Any]) -> None:
    run = measured(**{"demand": 30_000, **options})
    planned = again(run)
    assert (run.recommendation is None) is ("cluster" in options)
    for name in PLANNED:
        assert getattr(planned, name) == getattr(run, name), name
    assert replace(planned, parent=None, created_at="", command="", tool=run.tool) == replace(run, created_at="", command="")


@given(st.floats(1, 1e6), st.integers(2, 20), st.sampled_from([1, 2, 8]), st.floats(0, 2))
def test_a_plan_is_that_of_its_model_for_what_is_asked(demand: float, nodes: int, cpus: int, headroom: float) -> None:
    found = again(demand=demand, nodes=nodes, cpus_per_node=cpus, headroom_ratio=headroom)
    assert (found.cluster.nodes, found.cluster.cpus_per_node, found.cluster.memory_bytes_per_node) == (nodes, cpus, 256 * GIB)
    plan = recommend.recommend(found.capacity, found.consumption, found.cluster, found.options)
    assert found.recommendation.layout == plan.layout
    assert found.recommendation.predicted_samples_per_s == plan.predicted_samples_per_s
    verdict, confidence = recommend.judge(plan.predicted_samples_per_s, found.consumption, headroom)  # type: ignore[arg-type]
    assert (found.verdict, found.confidence) == (verdict, confidence)
    assert f"--total-nodes {plan.nodes} " in found.recommendation.launch.csrun_wse


@settings(deadline=None, max_examples=4)
@given(st.floats(1, 1e5), st.floats(1, 1e5))
def test_the_last_choice_counts(first: float, second: float) -> None:
    """Planning twice leaves nothing of the first answer."""
    twice, once = again(again(demand=first, nodes=3), demand=second, nodes=5), again(demand=second, nodes=5)
    assert twice.recommendation == once.recommendation
    assert (twice.verdict, twice.confidence) == (once.verdict, once.confidence)
    assert (twice.options, twice.consumption) == (once.options, once.consumption)


def test_what_was_measured_stays_and_the_parent_is_named(saved: str) -> None:
    found = csia.load_analysis(saved).plan(demand="100k", current="1x2x1")
    assert found.measurements == RUN.measurements
    assert (found.capacity, found.profile, found.budget, found.host) == (RUN.capacity, RUN.profile, RUN.budget, RUN.host)
    assert (found.parent.created_at, found.parent.command, found.parent.path) == (RUN.created_at, RUN.command, None)
    assert (found.verdict, found.verdict_layout) == ("input_bound", Layout.parse("1x2x1"))
    assert csia.load_analysis(saved).recommendation == RUN.recommendation


# --- the demand and the cluster --------------------------------------------------------------------------------------------------


def test_another_demand_takes_the_place_of_all_that_said_the_last_one() -> None:
    run = again(step_time=0.1, batch_size=1024)
    assert run.consumption.samples_per_s.estimate == 10_240
    found = again(run, demand=500)
    assert found.consumption.samples_per_s.estimate == 500
    assert (found.options.step_time_s, found.options.batch_size) == (None, None)


def test_a_model_takes_the_pipelines_batches() -> None:
    pipeline = replace(RUN.pipeline, samples_per_element=SamplesPerElement(value=256, source="batch(256)"))
    found = again(replace(RUN, pipeline=pipeline), wafer="bert_large", sequence_length=128)
    assert found.consumption.batch_size == 256
    with pytest.raises(UsageError, match="a batch size of 100 is no multiple of the 256"):
        again(replace(RUN, pipeline=pipeline), demand=10, batch_size=100)
    unclear = replace(RUN.pipeline, samples_per_element=SamplesPerElement(value=None, source="nothing batches"))
    with pytest.raises(UsageError, match="how many samples one element holds is not clear"):
        again(replace(RUN, pipeline=unclear), demand=10)


def test_a_named_cluster_takes_the_place_of_the_runs() -> None:
    found = again(cluster="andromeda")
    assert found.cluster.name == "andromeda"
    assert again(found, nodes=2).cluster.source.endswith("with nodes from flags")
    here = again(cluster="local").cluster
    assert (here.cpus_per_node, here.memory_bytes_per_node) == (RUN.host.cpu_budget, RUN.host.memory_bytes)


def test_a_cluster_file_says_how_the_plan_is_launched_and_options_win(
    saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = "nodes: 8\ncpus_per_node: 4\nmemory_per_node: 16GiB\npartition: big\n"
    (tmp_path / "lab.yaml").write_text(f"{nodes}container: lab.sif\ncyclic: true\n")
    for words, expected in (
        ((), ("--partition=big", "lab.sif", "--distribution=cyclic")),
        (("--partition", "small", "--container", "mine.sif", "--no-cyclic"), ("--partition=small", "mine.sif", "=block")),
    ):
        assert main(["plan", saved, "--cluster", "lab.yaml", *words, "-q", "--json", "planned.json"]) == 0
        found = csia.load_analysis("planned.json")
        assert all(part in found.recommendation.launch.srun for part in expected)
        assert found.plan(nodes=4).options.container == found.options.container
    (tmp_path / "other.yaml").write_text(nodes)
    assert main(["plan", saved, "--cluster", "lab.yaml", "-q", "--json", "of_lab.json"]) == 0
    assert csia.load_analysis("of_lab.json").plan(cluster="other.yaml").options.container is None
    assert csia.load_analysis("planned.json").plan(cluster="other.yaml").options.container == "mine.sif"
    (tmp_path / "lab.yaml").unlink()  # a run stands without the file that it was planned with
    assert csia.load_analysis("planned.json").plan(nodes=4).recommendation.launch.srun.count("mine.sif") == 1


def test_a_declared_storage_takes_the_place_of_a_measured_one() -> None:
    cluster = replace(CLUSTER, storage_bytes_per_s=5e9, measured_storage_bytes_per_s=make_estimate(5e9), is_measured=True)
    run = replace(RUN, cluster=cluster)
    assert again(run, nodes=4).cluster.measured_storage_bytes_per_s == make_estimate(5e9)
    found = again(run, storage_bytes_per_s=9e9).cluster
    assert (found.storage_bytes_per_s, found.measured_storage_bytes_per_s) == (9e9, None)


def test_the_sites_defaults_do_not_change_what_a_run_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("DEF_NODES", "4"), ("DEF_TASKS", "4"), ("DEF_CPUS", "4")):
        monkeypatch.setenv(name, value)
    assert again().options.current is None


# --- what stands beside the plan -------------------------------------------------------------------------------------------------


def test_what_the_fixes_gain_is_planned_with_too() -> None:
    fixes = Fixes(codes=("CSI101",), edits=(), measured_gain=make_estimate(2.0), layout=Layout.parse("1x1x1"))
    run = replace(RUN, fixes=replace(fixes, layout=replace(fixes.layout, cpus_per_task=RUN.recommendation.cpus_per_task)))
    found = again(run, demand=60_000)
    assert found.fixes.plan.layout.cpus < found.recommendation.layout.cpus


def test_findings_keep_what_was_tried_and_new_ones_say_that_nothing_was() -> None:
    tried = tuple(
        replace(one, proven=True, measured_gain=make_estimate(1.5), unproven_because="") for one in RUN.findings if one.edits
    )
    assert tried
    found = again(replace(RUN, findings=tried))
    kept = {(one.code, one.op): one for one in found.findings}
    for one in tried:
        assert kept[one.code, one.op].measured_gain == make_estimate(1.5)
    for one in again(replace(RUN, findings=())).findings:
        assert one.measured_gain is None
        assert not one.edits or "planned from a saved one" in one.unproven_because


def test_a_validated_launch_is_recommended_where_this_plan_recommends_it() -> None:
    rows = tuple(
        ValidationRow(
            layout=Layout.parse(layout),
            role="recommended",
            predicted_samples_per_s=make_estimate(1.0),
            measured_samples_per_s=make_estimate(1.0),
        )
        for layout in ("1x1x1", str(again().recommendation.streaming))  # type: ignore[union-attr]
    )
    run = replace(RUN, validation=Validation(rows=rows, demand_samples_per_s=30_000.0))
    found = again(run)
    assert [row.role for row in found.validation.rows] == ["neighbour", "recommended"]
    assert again(run, demand=20_000).validation.demand_samples_per_s == 20_000
    assert [row.role for row in again(run, cluster="andromeda").validation.rows] == ["neighbour"] * 2


def test_a_kept_plan_stays_kept_for_the_same_alone() -> None:
    kept = KeptPlan(layout=RUN.recommendation.layout, created_at="2026-01-01T00:00:00+00:00")  # type: ignore[union-attr]
    run = replace(RUN, recommendation=replace(RUN.recommendation, kept_from=kept))
    assert again(run).recommendation.kept_from == kept
    for choices in ({"demand": 29_000}, {"fresh": True}, {"nodes": 3}):
        assert again(run, **choices).recommendation.kept_from is None


def test_how_the_wafer_executes_stays_with_another_demand() -> None:
    run = again(demand=3500, wafer_mode="weight_streaming")
    assert again(run, demand=4000).options.wafer_mode == "weight_streaming"


def test_samples_of_an_element_are_no_matter_of_planning() -> None:
    counted = replace(RUN.pipeline, samples_per_element=SamplesPerElement(value=8, source="batch(8)"))
    with pytest.raises(UsageError, match="the rates of this run are of 8 samples an element; analyze again"):
        again(replace(RUN, pipeline=counted), demand=10, samples_per_element=4)


def test_a_run_of_before_there_was_a_model_is_planned_on_what_it_measured() -> None:
    old = replace(RUN, capacity=None, stations=())
    found = again(old, demand=100_000).recommendation
    assert found.meets_demand
    assert found.layout == again(demand=100_000).recommendation.layout  # type: ignore[union-attr]


# --- what cannot be --------------------------------------------------------------------------------------------------------------


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "nothing measured": ({"run": replace(RUN, measurements=())}, "measured no rate"),
    "unknown": ({"max_seconds": 5}, "unknown keyword max_seconds: there are: batch_size"),
    "cluster": ({"cluster": "none.yaml"}, "cannot read the cluster file none.yaml"),
    "too small": ({"nodes": 1, "cpus_per_node": 1}, "no launch fits one node of one CPU"),
    "too few to stream": ({"nodes": 2, "wafer_mode": "weight_streaming"}, "weight streaming needs 3 nodes"),
    "single-task nodes": ({"single_task_nodes": 8}, "less than the cluster's 8 nodes"),
    "reference": ({"cluster": "reference.yaml"}, "`node_reference` is gone"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_planned_is_told_in_one_line(case: str, saved: str) -> None:
    Path("reference.yaml").write_text("nodes: 8\ncpus_per_node: 4\nmemory_per_node: 16GiB\nnode_reference: 1000000+-1%\n")
    choices, message = WRONG[case]
    with pytest.raises(UsageError, match=message) as caught:
        again(**choices)
    assert "\n" not in str(caught.value)


ABSURD = {
    "--demand 1e-300": "the demand is 1e-300 samples/s, below any accelerator",
    "--demand 1e300": "beyond any accelerator",
    "--step-time 1e300 --batch-size 256": "the demand of 256 samples in 1e+300 s is 2.56e-298 samples/s, below any accelerator",
    "--step-time 1e-300 --batch-size 1": "beyond any accelerator",
    "--storage-bandwidth 1e-300GB/s": "a storage bandwidth of 1e-291 bytes per second",
    "--storage-bandwidth 1e30GB/s": "a storage bandwidth of 1e+39 bytes per second",
    "--headroom 1e300": "--headroom 1e+300",
    "--node-speed 1e-300": "no less than 0.05",
    "--nodes 999999999999": "more than 1,000,000 nodes",
    "--single-task-nodes 999999999999": "less than the cluster's",
    "--batch-size 999999999999": "--batch-size: more than",
    "--memory-per-node 1e-9GiB": "cannot have 1 bytes of memory",
}
ODD = (
    *("--demand 1e-5", "--demand 1e11", "--step-time 1e9 --batch-size 1000000000", "--headroom 1e-300", "--headroom 10"),
    *("--storage-bandwidth 1kB/s", "--storage-bandwidth 1e6GB/s", "--node-speed 0.06", "--nodes 1000000", "--current 1x9999999x1"),
)


@pytest.mark.parametrize("line", ABSURD)
def test_of_an_absurd_number_the_option_is_blamed_and_not_the_run(
    line: str, saved: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", saved, *line.split()]) == UsageError.exit_code
    (said,) = capsys.readouterr().err.splitlines()
    assert ABSURD[line] in said
    assert "this run holds numbers" not in said


@pytest.mark.parametrize("line", ODD)
def test_an_odd_number_that_can_be_is_planned_with(line: str, saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", saved, *line.split(), "-q"]) == 0


def test_a_demand_and_a_cluster_that_cannot_be_are_told_together(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", saved, "--wafer", "no_such_net", "--cluster", "none.yaml"]) == UsageError.exit_code
    assert len(capsys.readouterr().err.splitlines()) == 2


def numbers_in(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Where the numbers of a run file stand."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return [found for key, held in items for found in numbers_in(held, (*path, key))]
    return [path] if isinstance(value, int | float) and not isinstance(value, bool) else []


SAVED = json.loads(render(RUN, "json"))


@given(st.sampled_from(numbers_in(SAVED)), st.sampled_from([0, -1, 0.5, 1e-308, 1e308, 10**30]))
def test_a_run_with_any_number_edited_is_planned_or_refused(path: tuple[str | int, ...], number: float) -> None:
    run = copy.deepcopy(SAVED)
    holder = run
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = number
    with suppress(UsageError):
        again(from_json(json.dumps(run), origin="run.json"))


# --- the command -----------------------------------------------------------------------------------------------------------------


def test_the_command_writes_a_run_that_names_its_parent(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--demand", "100k", "--nodes", "4", "--headroom", "0.2", "--json", "new.json", "--html", "new.html"]
    assert main(["plan", saved, *arguments, "--train-command", "python run.py --mode train", "--full"]) == 0
    out, _ = capsys.readouterr()
    assert "planned again" in out
    written = json.loads(Path("new.json").read_text())
    assert written["parent"]["path"] == saved
    assert written["options"]["demand_samples_per_s"] == 100_000
    assert written["cluster"]["nodes"] == 4
    assert csia.load_analysis("new.json") == csia.load_analysis("new.html")
    assert main(["plan", "new.html", "-q", "--json", "newer.json"]) == 0
    newer = csia.load_analysis("newer.json")
    assert newer.recommendation == csia.load_analysis("new.json").recommendation
    assert newer.parent.path == "new.html"
    for demand, code in (("1e9", 1), ("10", 0)):
        assert main(["plan", saved, "-q", "--fail-on", "input-bound", "--demand", demand]) == code


def test_a_pipeline_that_reads_cold_files_keeps_its_plan() -> None:
    """What the cache held is in the run, as is the gain of cached files."""
    run = analyzed(launcher(files=(("/data/part-0", 10**6),)), job(30_000, cache="cold"))
    assert again(replace(run, storage=run.storage or make_storage())).recommendation == run.recommendation


def test_on_shared_nodes_the_launch_lines_do_not_ask_for_nodes_alone() -> None:
    alone, shared = (again(RUN, shared_nodes=is_shared).recommendation.launch for is_shared in (False, True))
    assert ("--exclusive" in alone.srun, "--exclusive" in shared.sbatch) == (True, False)

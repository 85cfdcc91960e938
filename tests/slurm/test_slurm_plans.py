"""Launch lines pasted into a real Slurm: the job starts, and every task has the CPUs and the TF_CONFIG that the plan says."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cs_input_analyzer.cli import main
from cs_input_analyzer.host.cluster.file import read_file
from cs_input_analyzer.host.cluster.slurm import discover
from cs_input_analyzer.model.launch_lines import launch_lines
from cs_input_analyzer.records import Cluster, LaunchLines, LaunchPlan, Options
from tests.builders import make_cluster, make_plan
from tests.slurm.private_slurm import CPUS, PrivateSlurm
from tests.waiting import PATIENCE_S, comes

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = ("wafer", "broken")

pytestmark = [pytest.mark.slurm, pytest.mark.slow]
needs_binding = pytest.mark.skipif(
    (os.cpu_count() or 1) < CPUS, reason="this host has too few CPUs for Slurm to bind tasks to them"
)

# What stands for the training: each task writes down what it sees.
TRAINING = """
import json, os, sys
seen = {
    "node": os.environ["SLURMD_NODENAME"],
    "cpus": sorted(os.sched_getaffinity(0)),
    "tf_config": json.loads(os.environ["TF_CONFIG"]),
    "arguments": sys.argv[2:],
}
with open(f"{sys.argv[1]}/{os.environ['SLURM_PROCID']}.json", "w") as file:
    json.dump(seen, file)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the programs that launch lines call, and one for what tasks see."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (tmp_path / "seen").mkdir()
    ours = f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(ROOT))} exec {shlex.quote(sys.executable)} -m cs_input_analyzer "$@"\n'
    (programs / "cs_input_analyzer").write_text(ours)
    (programs / "cs_input_analyzer").chmod(0o755)
    (tmp_path / "train.py").write_text(TRAINING)
    return tmp_path


def plan_of(layout: str, single: int) -> LaunchPlan:
    nodes, tasks, _ = (int(part) for part in layout.split("x"))
    workers = (nodes - single) * tasks - (0 if single else 1)
    return make_plan(layout, single_task_nodes=single, input_workers=workers, launch=None)


def lines_for(place: Path, layout: str, single: int, cluster: Cluster | None = None, **options: Any) -> LaunchLines:
    """For a cluster of which nobody was asked, where none is given; what is left out, and where it runs, are options."""
    train = shlex.join([sys.executable, str(place / "train.py"), str(place / "seen"), "two words", "$HOME"])
    choices = Options(train_command=train, **options)
    return launch_lines(plan_of(layout, single), cluster or make_cluster(), choices, "data.py:train_input_fn")


def ran(slurm: PrivateSlurm, place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**slurm.environment(), "PATH": f"{place / 'programs'}:{os.environ['PATH']}"}
    return subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def pasted(slurm: PrivateSlurm, place: Path, line: str) -> None:
    done = ran(slurm, place, "bash", "-c", line)
    assert done.returncode == 0, done.stderr


def batched(slurm: PrivateSlurm, place: Path, text: str) -> None:
    """Submits the file and waits for its end, or for that of each component; `sbatch --wait` would look only every few seconds."""
    (place / "launch.sbatch").write_text(text)
    queued = ran(slurm, place, "sbatch", "--parsable", f"--output={place}/out", f"--error={place}/err", "launch.sbatch")
    assert queued.returncode == 0, queued.stderr
    job = queued.stdout.strip().partition(";")[0]

    def states() -> set[str]:
        return set(re.findall(r" JobState=(\w+)", slurm.ask("scontrol", "--oneliner", "show", "job", job)))

    assert comes(lambda: not states() & {"PENDING", "CONFIGURING", "RUNNING", "COMPLETING"})
    assert states() == {"COMPLETED"}, (place / "err").read_text() if (place / "err").exists() else ""


def check_tasks(place: Path, layout: str, single: int) -> list[Any]:
    """That there are the tasks of the plan, each with a TF_CONFIG that names itself rightly among the others."""
    plan, paths = plan_of(layout, single), sorted((place / "seen").iterdir(), key=lambda path: int(path.stem))
    found = [SimpleNamespace(rank=int(path.stem), **json.loads(path.read_text())) for path in paths]
    streaming = (plan.nodes - single) * plan.tasks_per_node
    assert [one.rank for one in found] == list(range(single + streaming))
    per_node = Counter(one.node for one in found)
    assert sorted(per_node.values()) == sorted([1] * single + [plan.tasks_per_node] * (plan.nodes - single))
    assert all(one.arguments == ["two words", "$HOME"] for one in found)

    clusters = [one.tf_config["cluster"] for one in found]
    assert clusters == [clusters[0]] * len(clusters), [(one.rank, one.node, one.tf_config) for one in found]
    assert len(clusters[0]["worker"]) == plan.input_workers
    addresses = [*clusters[0]["chief"], *clusters[0]["worker"]]
    assert len(set(addresses)) == len(addresses)
    indices: dict[str, list[int]] = {"chief": [], "worker": [], "evaluator": []}
    for one in found:
        kind, index = one.tf_config["task"]["type"], one.tf_config["task"]["index"]
        indices[kind].append(index)
        if kind != "evaluator":  # a helper belongs to no cluster
            assert clusters[0][kind][index].partition(":")[0] == one.node
    assert len(indices["chief"]) == 1
    assert indices["worker"] == list(range(plan.input_workers))
    return found


@needs_binding
@pytest.mark.parametrize(("form", "layout", "single"), [("sbatch", "2x2x1", 0), ("srun", "3x2x1", 1), ("sbatch", "4x1x2", 2)])
def test_each_form_launches_the_plan(slurm: PrivateSlurm, place: Path, form: str, layout: str, single: int) -> None:
    text = getattr(lines_for(place, layout, single, exclude_nodes=LEFT_OUT), form)
    (batched if form == "sbatch" else pasted)(slurm, place, text)
    found = check_tasks(place, layout, single)
    assert all(len(one.cpus) == int(layout.split("x")[2]) for one in found), found
    taken = [(one.node, cpu) for one in found for cpu in one.cpus]
    assert len(set(taken)) == len(taken), found


def test_cyclic_deals_the_tasks_to_the_nodes_in_turn(slurm: PrivateSlurm, place: Path) -> None:
    batched(slurm, place, lines_for(place, "2x2x1", 0, exclude_nodes=LEFT_OUT, cyclic=True).sbatch)
    found = check_tasks(place, "2x2x1", 0)
    assert [one.node for one in found][::2] == [found[0].node] * 2
    assert found[0].node != found[1].node


@pytest.fixture
def wafer_first(slurm: PrivateSlurm) -> Iterator[None]:
    """Slurm gives nodes of less weight first: the accelerator's, which is up, where nothing leaves it out."""
    slurm.ask("scontrol", "update", f"nodename={','.join(slurm.nodes)}", "weight=100")
    slurm.start_node("wafer")
    slurm.wait_for_idle(("wafer",))
    assert slurm.ask("srun", "--nodes=1", "printenv", "SLURMD_NODENAME").strip() == "wafer"
    yield
    slurm.kill_node("wafer")
    slurm.ask("scontrol", "update", "nodename=wafer", "state=down", "reason=not up in other tests")
    slurm.ask("scontrol", "update", f"nodename={','.join(slurm.nodes)}", "weight=1")


@pytest.mark.parametrize(("layout", "single", "form"), [("1x2x1", 0, "srun"), ("3x1x1", 1, "sbatch")])
def test_a_plan_for_what_was_found_runs_there(
    slurm: PrivateSlurm, place: Path, wafer_first: None, layout: str, single: int, form: str
) -> None:
    found = discover()
    assert found.cluster.excluded_nodes == ("wafer",)
    text = getattr(lines_for(place, layout, single, found.cluster), form)
    (batched if form == "sbatch" else pasted)(slurm, place, text)
    assert {one.node for one in check_tasks(place, layout, single)} <= set(slurm.nodes)


def test_a_file_that_was_written_of_slurm_is_what_slurm_has(slurm: PrivateSlurm, tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    for partition, words in ((None, ()), ("small", ("--partition", "small"))):
        before = discover(partition).cluster
        assert main(["cluster", "--write", str(path), "--force", *words]) == 0
        # Between the two, Slurm may notice that a node that is down does not respond.
        assert read_file(path).cluster in (before, discover(partition).cluster)


def test_a_task_that_fails_ends_the_launch(slurm: PrivateSlurm, place: Path) -> None:
    (place / "train.py").write_text("import os, sys, time\nif os.environ['SLURM_PROCID'] == '1': sys.exit(7)\ntime.sleep(600)\n")
    done = ran(slurm, place, "bash", "-c", lines_for(place, "2x1x1", 0, exclude_nodes=LEFT_OUT).srun)
    assert done.returncode != 0

"""Launch lines pasted into a real Slurm: the job starts, and every task has the CPUs and the TF_CONFIG that the plan says."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cs_input_analyzer.machines.cluster import discover
from cs_input_analyzer.planning.launch_lines import launch_lines
from cs_input_analyzer.records import Cluster, LaunchLines, LaunchPlan, Options
from tests.builders import make_cluster, make_plan
from tests.slurm.private_slurm import CPUS, MEMORY_MB, PrivateSlurm

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 120.0
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

# What Cerebras' own wrapper does with its options: one srun, single-task nodes as components of their own.
CSRUN_WSE = """#!{python}
import argparse, os
parser = argparse.ArgumentParser()
for name in ("--total-nodes", "--tasks-per-node", "--cpus-per-task"):
    parser.add_argument(name, type=int, required=True)
parser.add_argument("--single-task-nodes", type=int, default=0)
parser.add_argument("--cyclic", action="store_true")
parser.add_argument("--mount-dirs")
parser.add_argument("command", nargs=argparse.REMAINDER)
given = parser.parse_args()
cpus = f"--cpus-per-task={{given.cpus_per_task}}"
order = f"--distribution={{'cyclic' if given.cyclic else 'block'}}"
words = ["srun", "--unbuffered", "--kill-on-bad-exit"]
for _ in range(given.single_task_nodes):
    words += ["--exclusive", "--nodes=1", "--ntasks-per-node=1", cpus, order, ":"]
words += [f"--nodes={{given.total_nodes - given.single_task_nodes}}", f"--ntasks-per-node={{given.tasks_per_node}}"]
words += [cpus, order, "--exclusive"]
in_each = 'TF_CONFIG="$(cs_input_analyzer tf-config)" && export TF_CONFIG && exec "$@"'
os.execvp("srun", [*words, "bash", "-c", in_each, "bash", *given.command])
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the programs that launch lines call, and one for what tasks see."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (tmp_path / "seen").mkdir()
    ours = f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(ROOT))} exec {shlex.quote(sys.executable)} -m cs_input_analyzer "$@"\n'
    for name, text in (("cs_input_analyzer", ours), ("csrun_wse", CSRUN_WSE.format(python=sys.executable))):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
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
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        told = slurm.ask("scontrol", "--oneliner", "show", "job", job)
        states = re.findall(r" JobState=(\w+)", told)
        if states and not {"PENDING", "CONFIGURING", "RUNNING", "COMPLETING"}.intersection(states):
            break
        assert time.monotonic() < deadline_s, told
        time.sleep(0.1)
    said = (place / "err").read_text() if (place / "err").exists() else ""
    assert set(states) == {"COMPLETED"}, f"{told}{said}"


def seen_in(place: Path) -> list[Any]:
    """What each task wrote down, by rank."""
    paths = sorted((place / "seen").iterdir(), key=lambda path: int(path.stem))
    return [SimpleNamespace(rank=int(path.stem), **json.loads(path.read_text())) for path in paths]


def check_tasks(place: Path, layout: str, single: int) -> list[Any]:
    """That there are the tasks of the plan, each with a TF_CONFIG that names itself rightly among the others."""
    plan, found = plan_of(layout, single), seen_in(place)
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
    kinds = Counter(one.tf_config["task"]["type"] for one in found)
    assert kinds["chief"] == 1
    assert kinds["worker"] == plan.input_workers
    for one in found:
        kind, index = one.tf_config["task"]["type"], one.tf_config["task"]["index"]
        if kind != "evaluator":  # a helper belongs to no cluster
            assert clusters[0][kind][index].partition(":")[0] == one.node
    workers = [one.tf_config["task"]["index"] for one in found if one.tf_config["task"]["type"] == "worker"]
    assert workers == list(range(plan.input_workers))
    return found


def check_cpus(found: list[Any], cpus_per_task: int) -> None:
    """That each task has exactly its CPUs, and shares none with another task of its node."""
    assert all(len(one.cpus) == cpus_per_task for one in found), found
    taken = [(one.node, cpu) for one in found for cpu in one.cpus]
    assert len(set(taken)) == len(taken), found


FORMS = [
    *((form, *plan) for form in ("sbatch", "srun") for plan in (("2x2x1", 0), ("3x2x1", 1), ("4x1x2", 2))),
    ("csrun_wse", "4x2x1", 2),
]


@needs_binding
@pytest.mark.parametrize(("form", "layout", "single"), FORMS)
def test_each_form_launches_the_plan(slurm: PrivateSlurm, place: Path, form: str, layout: str, single: int) -> None:
    if form == "csrun_wse":
        slurm.ask("scontrol", "update", "nodename=wafer,broken", "state=down", "reason=not a node of this test")
    text = getattr(lines_for(place, layout, single, exclude_nodes=LEFT_OUT, cyclic=form == "csrun_wse"), form)
    (batched if form == "sbatch" else pasted)(slurm, place, text)
    check_cpus(check_tasks(place, layout, single), int(layout.split("x")[2]))


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
    yield
    slurm.kill_node("wafer")
    slurm.ask("scontrol", "update", "nodename=wafer", "state=down", "reason=not up in other tests")
    slurm.ask("scontrol", "update", f"nodename={','.join(slurm.nodes)}", "weight=1")


@pytest.mark.parametrize(("layout", "single", "form"), [("1x2x1", 0, "srun"), ("3x1x1", 1, "sbatch"), ("4x1x1", 2, "srun")])
def test_a_plan_for_what_was_found_runs_there(
    slurm: PrivateSlurm, place: Path, wafer_first: None, layout: str, single: int, form: str
) -> None:
    found = discover()
    assert found.cluster.excluded_nodes == ("wafer",)
    text = getattr(lines_for(place, layout, single, found.cluster), form)
    (batched if form == "sbatch" else pasted)(slurm, place, text)
    assert {one.node for one in check_tasks(place, layout, single)} <= set(slurm.nodes)


def test_a_plan_for_nodes_that_nobody_asked_about_may_run_anywhere(slurm: PrivateSlurm, place: Path, wafer_first: None) -> None:
    """So the test above has something to find."""
    batched(slurm, place, lines_for(place, "1x2x1", 0).sbatch)
    assert {one.node for one in check_tasks(place, "1x2x1", 0)} == {"wafer"}


def test_in_a_job_the_lines_are_for_its_partition(slurm: PrivateSlurm, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_PARTITION", "small")
    found = discover()
    monkeypatch.delenv("SLURM_JOB_PARTITION")
    batched(slurm, place, lines_for(place, "1x2x1", 0, found.cluster).sbatch)
    assert {one.node for one in check_tasks(place, "1x2x1", 0)} == {"tiny"}


def test_many_nodes_left_out_are_written_short_and_still_left_out(slurm: PrivateSlurm, place: Path) -> None:
    text = lines_for(place, "2x1x1", 0, discover().cluster, exclude_nodes=("n1", "n2")).sbatch
    assert "n[1-2]" in text
    batched(slurm, place, text)
    assert {one.node for one in check_tasks(place, "2x1x1", 0)} == {"n3", "n4"}


@pytest.fixture
def little_memory(slurm: PrivateSlurm) -> Iterator[None]:
    """A site that gives 100 MiB with each CPU, where nobody asks."""
    slurm.ask("scontrol", "update", "partitionname=main", "defmempercpu=100")
    yield
    slurm.ask("scontrol", "update", "partitionname=main", "defmempercpu=0")


# In place of the training: what Slurm says of the steps that run. Those of a component have the number of another job.
ASKING = """
import os, subprocess, sys
said = subprocess.run(["scontrol", "--oneliner", "show", "step"], capture_output=True, text=True, check=True).stdout
with open(f"{sys.argv[1]}/{os.environ['SLURM_PROCID']}", "w") as file:
    file.write(said)
"""


def memory_of_steps(place: Path) -> set[str]:
    """Of each step of a launch, as Slurm writes it."""
    said = "\n".join(path.read_text() for path in (place / "seen").iterdir())
    return set(re.findall(r"^StepId=\S+\.0 .*\bTRES=\S*\bmem=([^,\s]+)", said, re.MULTILINE))


@pytest.mark.parametrize("form", ["srun", "sbatch"])
@pytest.mark.parametrize(
    ("single", "asked", "gives"),
    [
        (0, None, f"{MEMORY_MB}M"),
        (1, None, f"{MEMORY_MB}M"),
        (1, "--mem=300", "300M"),
        (0, "--mem-per-cpu=200", "400M"),
    ],
)
def test_a_launch_has_all_memory_of_its_nodes_unless_less_is_asked_for(
    slurm: PrivateSlurm, place: Path, little_memory: None, single: int, form: str, asked: str | None, gives: str
) -> None:
    (place / "train.py").write_text(ASKING)
    words = {} if asked is None else {"srun_args" if form == "srun" else "sbatch_args": asked}
    text = getattr(lines_for(place, "1x2x1" if single == 0 else "2x2x1", single, discover().cluster, **words), form)
    (batched if form == "sbatch" else pasted)(slurm, place, text)
    assert memory_of_steps(place) == {gives}


def test_a_task_that_fails_ends_the_launch(slurm: PrivateSlurm, place: Path) -> None:
    (place / "train.py").write_text("import os, sys, time\nif os.environ['SLURM_PROCID'] == '1': sys.exit(7)\ntime.sleep(600)\n")
    done = ran(slurm, place, "bash", "-c", lines_for(place, "2x1x1", 0, exclude_nodes=LEFT_OUT).srun)
    assert done.returncode != 0

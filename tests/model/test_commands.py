"""Launch lines: what the shell and Slurm make of them, whatever the paths hold, and TF_CONFIG for every task of a step."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from builders import make_cluster, make_plan
from hypothesis import example, given
from hypothesis import strategies as st

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.model.launch_lines import check_lines, launch_lines
from cs_input_analyzer.model.node_list import expand_nodelist
from cs_input_analyzer.model.tf_config import tf_config
from cs_input_analyzer.records import Cluster, LaunchLines, LaunchPlan, Options

HOSTILE = [
    "two  words",
    'a\'single and a "double" quote',
    "$HOME $(touch pwned) `touch pwned`",
    "a;b && c | d > e !f %j",
    "line\nbreak",
    "tab\tback\\slash and one more \\",
    "*",
    "~",
    "{a,b}",
    "#no comment",
    "--nodes=99",
    ":",
    "",
    "ünïcødé 数据 🚀",
]


def a_plan(layout: str = "3x4x2", single: int = 1) -> LaunchPlan:
    plan = make_plan(layout, single_task_nodes=single, launch=None)
    workers = (plan.nodes - single) * plan.tasks_per_node - (0 if single else 1)
    return make_plan(layout, single_task_nodes=single, launch=None, input_workers=workers)


def lines(
    layout: str = "3x4x2",
    single: int = 1,
    target: str = "data.py:train_input_fn",
    cluster: Cluster | None = None,
    **options: object,
) -> LaunchLines:
    return launch_lines(a_plan(layout, single), cluster or make_cluster(), Options(**options), target)  # type: ignore[arg-type]


def in_components(text: LaunchLines, option: str) -> list[list[str]]:
    """The values of an option in each component: those of the srun line, then those of the batch file's directives."""
    line = shlex.split(text.srun)
    words = [word for each in text.sbatch.splitlines() if each.startswith("#SBATCH ") for word in shlex.split(each)[1:]]
    groups = [*" ".join(line[1 : line.index("bash")]).split(" : "), *" ".join(words).split("hetjob")]
    return [re.findall(rf"{option}=(\S+)", group) for group in groups]


# --- the words ------------------------------------------------------------------------------------------------------------------


def test_csrun_wse_says_only_what_differs_from_its_defaults() -> None:
    assert lines().defaults == "nodes: 3\ntasks_per_node: 4\ncpus_per_task: 2"
    assert lines(single=0).csrun_wse == (
        "csrun_wse --total-nodes 3 --tasks-per-node 4 --cpus-per-task 2 python run.py --mode=train"
    )
    full = lines(cyclic=True, mount_dirs=("/data", "/my scratch"), train_command="python run.py --params 'a b.yaml'").csrun_wse
    assert full == (
        "csrun_wse --total-nodes 3 --tasks-per-node 4 --cpus-per-task 2 --single-task-nodes 1 --cyclic "
        "--mount-dirs '/data,/my scratch' python run.py --params 'a b.yaml'"
    )


@pytest.mark.parametrize("command", [None, "python run.py --mode=eval"])
def test_the_lines_for_the_input_of_evaluation_evaluate(command: str | None) -> None:
    text = lines(mode="eval", train_command=command)
    assert all(line.strip().endswith("python run.py --mode=eval") for line in (text.csrun_wse, text.srun, text.sbatch))
    assert lines(train_command=command).csrun_wse.endswith("python run.py --mode=train")


@pytest.mark.parametrize("typed", ["A=1 B='two words' python run.py", "A=1 B='two words' csrun_wse --cyclic python run.py"])
def test_variables_in_front_of_the_command_are_set_by_env(typed: str) -> None:
    text = lines(train_command=typed)
    assert all(line.strip().endswith(" env A=1 'B=two words' python run.py") for line in (text.csrun_wse, text.srun, text.sbatch))


def test_an_option_with_a_value_is_no_variable_in_front() -> None:
    assert " env " not in lines(train_command="python run.py A=1").srun


TASK = 'bash -c \'TF_CONFIG="$(cs_input_analyzer tf-config)" && export TF_CONFIG && exec "$@"\' bash python run.py --mode=train'
SRUN = "--unbuffered --kill-on-bad-exit"
BOUND = "--cpu-bind=cores"


@pytest.mark.parametrize(("single", "distribution"), [(0, "block"), (2, "cyclic")])
def test_srun_and_the_batch_file_word_by_word(single: int, distribution: str) -> None:
    """Every component has its lines, its CPUs, all memory and the same distribution; the step is given CPUs and memory again."""
    extra = {"srun_args": "--label", "sbatch_args": "--time=60 --account 'my lab'"}
    text = lines(single=single, cyclic=distribution == "cyclic", **extra)
    shapes = [(single, 1)] * bool(single) + [(3 - single, 4)]
    same = f"--cpus-per-task=2 --distribution={distribution} --exclusive --mem=0"
    components = [f"--nodes={nodes} --ntasks-per-node={tasks} {same}" for nodes, tasks in shapes]
    assert text.srun == f"srun {SRUN} {' : '.join(f'{BOUND} {words} --label' for words in components)} {TASK}"
    head, _, step = text.sbatch.partition("\n\nset -euo pipefail\n")
    directives = [[*(f"#SBATCH {word}" for word in words.split()), f"#SBATCH {extra['sbatch_args']}"] for words in components]
    assert head.split("\n")[3:] == (directives[0] + ["#SBATCH hetjob", *directives[1]] if single else directives[0])
    groups = "--het-group=0,1 " if single else ""
    again = f"--cpus-per-task=2 --distribution={distribution} --mem=0 --label"
    assert step.split("\n")[1:] == [f"srun {groups}{SRUN} {BOUND} {again} {TASK}", ""]


# --- the nodes that were planned for --------------------------------------------------------------------------------------------

FOUND = make_cluster(partition="big", excluded_nodes=("wafer", "n7", "n8", "n9"))


@pytest.mark.parametrize("single", [0, 1])
def test_lines_are_for_the_nodes_that_were_planned_for(single: int) -> None:
    components = 2 * (1 + bool(single))
    text = lines(single=single, cluster=FOUND)
    assert in_components(text, "--partition") == [["big"]] * components
    assert in_components(text, "--exclude") == [["wafer,n7,n8,n9"]] * components
    plain = lines(single=single)
    assert in_components(plain, "--partition") == in_components(plain, "--exclude") == [[]] * components
    assert text.csrun_wse == plain.csrun_wse  # the vendor's form takes none
    # The user's partition wins, and the user's exclusions add.
    text = lines(single=single, cluster=FOUND, partition="mine", exclude_nodes=("n8", "n1"))
    assert in_components(text, "--partition") == [["mine"]] * components
    assert in_components(text, "--exclude") == [["n8,n1,wafer,n7,n9"]] * components


@pytest.mark.parametrize("asked", ["--mem=100G", "--mem 100G", "--mem-per-cpu=2G", "--mem-per-gpu 2G", "--label --mem=0"])
def test_the_users_own_word_on_memory_stands_alone(asked: str) -> None:
    """Slurm takes one such option only, and of two of a kind the last."""
    text = lines(srun_args=asked)
    assert text.srun.count("--mem") == 2  # once in each component
    step = next(line for line in text.sbatch.splitlines() if line.startswith("srun"))
    assert step.count("--mem") == 1
    assert text.sbatch.count("#SBATCH --mem=0\n") == 2
    batch = lines(sbatch_args=asked).sbatch
    assert sum(line.count("--mem") for line in batch.splitlines() if line.startswith("#SBATCH")) == 2
    assert all(lines(srun_args=other).srun.count("--mem=0") == 2 for other in ("--mem-bind=local", "--comment=--mem", "--memory"))


@pytest.mark.parametrize(
    "options",
    [
        {"train_command": "python 'unclosed"},
        *({"train_command": f"python a.py {word} b"} for word in ("&&", "||", "|", ";", "&", ">", ">>", "2>&1", "<")),
        {"train_command": "A=1"},
        {"mount_dirs": ("/a,b",)},
        {"mount_dirs": ("",)},
        {"train_command": "a\0b"},
        {"partition": "big\n#SBATCH --nodes=99"},
        {"exclude_nodes": ("n[1-",)},
        {"sbatch_args": "--account me -p big"},
        {"sbatch_args": "-pbig"},
        {"srun_args": "--exclude n1"},
        {"srun_args": "-x n1"},
    ],
)
def test_what_no_launcher_can_carry_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        lines(**options)
    with pytest.raises(UsageError):  # and can be before there is a plan, or a cluster
        check_lines(Options(**options))  # type: ignore[arg-type]


@pytest.mark.parametrize("typed", ["bash -c 'python a.py && python b.py > log'", "python run.py --sep '|' --end \";\"", "a \\| b"])
def test_an_operator_in_quotes_is_a_word(typed: str) -> None:
    assert shlex.split(lines(train_command=typed).csrun_wse)[-len(shlex.split(typed)) :] == shlex.split(typed)


TEXTS = st.text(st.sampled_from("ab|; '\"\\,\n\0-=[1]é"), max_size=8)


@given(st.none() | TEXTS, TEXTS, TEXTS, st.lists(TEXTS, max_size=2), st.none() | TEXTS, st.sampled_from((0, 1)))
@example(None, "", "", [], None, 1)
def test_what_passes_the_check_becomes_lines(
    command: str | None, srun_args: str, sbatch_args: str, mounts: list[str], partition: str | None, single: int
) -> None:
    """So that nothing that was measured is lost to a line that cannot be written."""
    options = Options(
        train_command=command, srun_args=srun_args, sbatch_args=sbatch_args, mount_dirs=tuple(mounts), partition=partition
    )
    try:
        check_lines(options)
    except UsageError:
        return
    text = launch_lines(a_plan("3x4x2", single), FOUND, options, "data.py:train_input_fn")
    assert in_components(text, "--nodes") == [["1"], ["2"]] * 2 if single else [["3"]] * 2


@pytest.mark.parametrize("target", ["a.py:f\n#SBATCH --exclusive=user\ntouch pwned", "a\r\nb", "a\u2028b"])
def test_a_target_cannot_leave_its_comment(target: str) -> None:
    text, plain = lines(target=target).sbatch, lines().sbatch
    assert len(text.splitlines()) == len(plain.splitlines())
    assert text.count("\n#SBATCH") == plain.count("\n#SBATCH")
    assert "from data.py:train_input_fn\n" in plain
    assert "3 nodes (1 with a single task), 9 tasks, 8 of them stream." in plain


# --- in a real shell --------------------------------------------------------------------------------------------------------------

FAKE_SRUN = """#!/bin/bash
# Runs what srun would run, once, and shows what it was given.
printf '%s\\0' "$@" > "$SHOWN"
while [ "$1" != bash ]; do shift; done
exec "$@"
"""
FAKE_TRAINING = """#!/bin/bash
{ printf '%s\\0' "$TF_CONFIG" "$@"; } > "$TRAINED"
"""
FAKE_ANALYZER = """#!/bin/bash
[ "$1" = tf-config ] && printf '{"task": "of %s"}' "$SLURM_PROCID"
"""
FAKE_SINGULARITY = """#!/bin/bash
printf '%s\\0' "$@" > "$CONTAINED"
"""


@pytest.fixture
def shell(tmp_path: Path) -> Path:
    """A folder of programs that stand in for srun, the training, singularity and this tool."""
    programs = {"srun": FAKE_SRUN, "train": FAKE_TRAINING, "cs_input_analyzer": FAKE_ANALYZER, "singularity": FAKE_SINGULARITY}
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def run_bash(shell: Path, text: str) -> None:
    environ = {
        "PATH": f"{shell}{os.pathsep}{os.environ['PATH']}",
        "SLURM_PROCID": "5",
        **{name.upper(): str(shell / name) for name in ("shown", "trained", "contained")},
    }
    subprocess.run(["bash", "-n", "-c", text], check=True, env=environ, cwd=shell)
    subprocess.run(["bash", "-c", text], check=True, env=environ, cwd=shell)


def read(path: Path) -> list[str]:
    return path.read_text().split("\0")[:-1]


@pytest.mark.parametrize("form", ["srun", "sbatch"])
@pytest.mark.parametrize("single", [0, 1])
def test_every_argument_reaches_the_training_as_it_is(shell: Path, form: str, single: int) -> None:
    text = getattr(lines(single=single, train_command=shlex.join(["train", *HOSTILE])), form)
    run_bash(shell, text)
    config, *arguments = read(shell / "trained")
    assert arguments == HOSTILE
    assert config == '{"task": "of 5"}'
    assert not (shell / "pwned").exists()


@pytest.mark.parametrize("hostile", [text for text in HOSTILE if text and "\n" not in text])
def test_every_path_reaches_the_container_as_it_is(shell: Path, hostile: str) -> None:
    mounts = (hostile.replace(",", "_"), "/data")
    run_bash(shell, lines(container=hostile, mount_dirs=mounts, srun_args=shlex.join(["--comment", hostile])).sbatch)
    assert read(shell / "contained") == ["exec", "-B", ",".join(mounts), hostile, "python", "run.py", "--mode=train"]
    shown = read(shell / "shown")
    assert shown[shown.index("--comment") + 1] == hostile
    assert not (shell / "pwned").exists()
    text = lines(sbatch_args=shlex.join(["--comment", hostile]), mount_dirs=mounts).sbatch
    directive = next(line for line in text.splitlines() if line.startswith("#SBATCH --comment"))
    assert shlex.split(directive.removeprefix("#SBATCH ")) == ["--comment", hostile]
    assert "-B" not in text  # only a container has mounts


def test_a_task_without_tf_config_does_not_start(shell: Path) -> None:
    (shell / "cs_input_analyzer").write_text("#!/bin/bash\nexit 4\n")
    with pytest.raises(subprocess.CalledProcessError) as caught:
        run_bash(shell, lines(train_command="train").srun)
    assert caught.value.returncode == 4
    assert not (shell / "trained").exists()


# --- TF_CONFIG --------------------------------------------------------------------------------------------------------------------


def step(
    rank: int, nodes: str, counts: str, components: tuple[str, ...] = (), group: str = "HET", cyclic: str = "block"
) -> dict[str, str]:
    """The environment of one task, as Slurm 22.05 sets it: the nodes of a step over several components come sorted."""
    environ = {
        "SLURM_PROCID": str(rank),
        "SLURM_STEP_NODELIST": nodes,
        "SLURM_STEP_TASKS_PER_NODE": counts,
        "SLURM_NODELIST": nodes,
        "SLURM_TASKS_PER_NODE": counts,
        "SLURM_DISTRIBUTION": cyclic,
    }
    if components:
        environ["SLURM_HET_SIZE"] = environ["SLURM_PACK_SIZE"] = str(len(components))
        environ |= {f"SLURM_JOB_NODELIST_{group}_GROUP_{index}": text for index, text in enumerate(components)}
    return environ


def configs(tasks: int, *arguments: Any) -> list[dict[str, dict[str, object]]]:
    return [json.loads(tf_config(step(rank, *arguments))) for rank in range(tasks)]


@pytest.mark.parametrize(
    ("variables", "chief", "workers", "helpers"),
    [
        # The chief is first; ports follow, on each host from the first one on.
        (("sdf-1", "3"), "sdf-1:23111", "sdf-1:23112 sdf-1:23113", 0),
        (("n1", "1"), "n1:23111", "", 0),
        (("n[1-2]", "2(x2)"), "n1:23111", "n1:23112 n2:23111 n2:23112", 0),
        # Single-task nodes do not count as workers, in one component or in one each (the original launcher).
        (("n[1-3]", "1(x2),2", ("n[1-2]", "n3")), "n1:23111", "n3:23111 n3:23112", 1),
        (("n[1-3]", "1(x2),2", ("n[1-2]", "n3"), "PACK"), "n1:23111", "n3:23111 n3:23112", 1),
        (("n[1-3]", "1(x2),2", ("n1", "n2", "n3")), "n1:23111", "n3:23111 n3:23112", 1),
        # Without any, all but the chief are workers, also where the chief's node is a component (the original launcher).
        (("n[1-2]", "2(x2)", ("n1", "n2")), "n1:23111", "n1:23112 n2:23111 n2:23112", 0),
        # The order is that of the components and not of the sorted nodes.
        (("n[1-2,4]", "2(x2),1", ("n4", "n[1-2]")), "n4:23111", "n1:23111 n1:23112 n2:23111 n2:23112", 0),
        # Cyclic tasks go round the hosts.
        (("n[1-2]", "3,2", (), "HET", "cyclic"), "n1:23111", "n2:23111 n1:23112 n2:23112 n1:23113", 0),
        (("n[1-3]", "1,2(x2)", ("n1", "n[2-3]"), "HET", "cyclic"), "n1:23111", "n2:23111 n3:23111 n2:23112 n3:23112", 0),
    ],
)
def test_the_tasks_of_a_step(variables: tuple[Any, ...], chief: str, workers: str, helpers: int) -> None:
    addresses = workers.split()
    found = configs(1 + helpers + len(addresses), *variables)
    assert {str(task["cluster"]) for task in found} == {str(found[0]["cluster"])}
    assert found[0]["cluster"] == {"chief": [chief]} | ({"worker": addresses} if addresses else {})
    assert [task["task"] for task in found] == [
        {"type": "chief", "index": 0},
        *({"type": "evaluator", "index": index} for index in range(helpers)),
        *({"type": "worker", "index": index} for index in range(len(addresses))),
    ]


@pytest.mark.parametrize(
    "broken",
    [
        {"SLURM_PROCID": "x"},
        {"SLURM_PROCID": "4"},  # of four tasks
        {"SLURM_STEP_TASKS_PER_NODE": "2"},
        {"SLURM_STEP_TASKS_PER_NODE": "two"},
        {"SLURM_HET_SIZE": "2"},
    ],
)
def test_variables_that_make_no_step_are_refused(broken: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        tf_config(step(0, "n[1-2]", "2(x2)") | broken)
    with pytest.raises(UsageError, match="srun"):
        tf_config({})
    with pytest.raises(UsageError, match="--exclusive"):  # components that share a node
        tf_config(step(0, "n[1-2]", "3,2", ("n1", "n[1-2]")))


# --- node lists -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("n[1-3,07],gpu2", ["n1", "n2", "n3", "n07", "gpu2"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("r[1-2]n[1-2]-ib", ["r1n1-ib", "r1n2-ib", "r2n1-ib", "r2n2-ib"]),
        ("[1-2]x", ["1x", "2x"]),
    ],
)
def test_node_lists_expand_in_slurms_order(text: str, hosts: list[str]) -> None:
    assert list(expand_nodelist(text)) == hosts


@pytest.mark.parametrize(
    "text", ["", "a,", "a b", "n[", "n]", "n[]", "n[1-]", "n[a-b]", "n[3-1]", "n[1,,2]", "n[1-9999999]", "n[1-999999]x[1-999999]"]
)
def test_what_is_no_node_list_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        expand_nodelist(text)

"""A launch plan as text to paste: the three default lines, `csrun_wse`, `srun` and a whole sbatch file.

Whatever a path or an argument holds, it reaches the training command as it is: every word is quoted for the shell. What Slurm
itself cannot carry (a line break in an `#SBATCH` line, a comma in a comma-separated list) is refused.

Slurm's behaviour below was checked against a running Slurm 22.05: a command given once, after the last component, runs in all
components; `srun` inside a batch script does not inherit `--cpus-per-task`; `SLURM_DISTRIBUTION` is, once in twenty launches, what
another component asked for or got by default (cyclic where it has no more tasks than nodes), so that all must ask for the same; and
`--exclusive` gives all CPUs of a node, but of its memory only what the site sets for each CPU (`DefMemPerCPU`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from itertools import takewhile

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.masking import LONGEST_COMMAND
from cs_input_analyzer.model.node_list import expand_nodelist
from cs_input_analyzer.model.train_command import trained, with_python_of, without_launcher
from cs_input_analyzer.records import Cluster, LaunchLines, LaunchPlan, Options
from cs_input_analyzer.units import counted, visible

# With the mode of the input function.
PLACEHOLDER_COMMAND = "python run.py --mode={}"

# Operators of a shell. Each task starts the command without a shell, so they would reach the program as arguments.
SHELL_OPERATORS = ("&&", "||", "|", ";", "&", ">", ">>", "2>", "2>&1", "&>", "<")

# Letters of a command in a message.
SHOWN = 200

# Options that choose nodes. If one were given twice, Slurm might follow the one that the plan is not for.
OWN_OPTIONS = {"-p": "--partition", "--partition": "--partition", "-x": "--exclude-nodes", "--exclude": "--exclude-nodes"}

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")

# Runs in every task: TF_CONFIG is made there, because only there the rank is known.
_WITH_TF_CONFIG = 'TF_CONFIG="$(cs_input_analyzer tf-config)" && export TF_CONFIG && exec "$@"'


def launch_lines(plan: LaunchPlan, cluster: Cluster, options: Options, target: str) -> LaunchLines:
    """Return the plan in every form that users paste.

    Args:
        target: the input function, named in the sbatch file's header.

    Raises:
        UsageError: as `check_lines`.
    """
    check_lines(options, cluster)
    command = _train_command(options)
    return LaunchLines(
        defaults=f"nodes: {plan.nodes}\ntasks_per_node: {plan.tasks_per_node}\ncpus_per_task: {plan.cpus_per_task}",
        csrun_wse=_csrun_wse(plan, options, command),
        srun=_srun(plan, cluster, options, command),
        sbatch=_sbatch(plan, cluster, options, target, command),
    )


def check_lines(options: Options, cluster: Cluster | None = None) -> None:
    """Check that these options allow launch lines, whatever the plan. It is worth asking before anything is measured.

    Args:
        options: the options of the run.
        cluster: that of the plan; None if it is not known yet.

    Raises:
        UsageError: `--train-command`, `--srun-args` or `--sbatch-args` is not a list of words that a shell can read, repeats an
            option of ours, or holds a value that Slurm cannot carry. Or `--train-command` holds an operator of the shell.
    """
    if not _train_command(options):
        raise UsageError("--train-command is empty: give the command that starts training")
    operator = _shell_operator(options.train_command or "")
    if operator is not None:
        raise UsageError(
            f"--train-command holds {operator!r}, which only a shell understands: put it in a script, or write bash -c '…'"
        )
    _refuse_own(_words(options.srun_args or "", "--srun-args"), "--srun-args")
    sbatch_args = _words(options.sbatch_args or "", "--sbatch-args")
    _refuse_own(sbatch_args, "--sbatch-args")
    for word in (*sbatch_args, *_where(options, cluster)):
        _directive(word)
    for folder in options.mount_dirs:
        if "," in folder or not folder:
            raise UsageError(f"--mount-dirs holds {folder!r}: folders are separated by commas, so none may hold one or be empty")


def _train_command(options: Options) -> list[str]:
    """Return the command of every task: the user's command in the mode of the input function, without its launcher."""
    typed = _words(options.train_command or PLACEHOLDER_COMMAND.format(options.mode), "--train-command")
    assigned = list(takewhile(_ASSIGNMENT.match, typed))
    command = with_python_of(trained(without_launcher(typed[len(assigned) :], "--train-command"), options.mode), options.wafer_mode)
    # No shell reads the command: `NAME=value` in front of it would be taken for the program.
    return ["env", *assigned, *command] if assigned and command else command


def _shell_operator(text: str) -> str | None:
    """Return the first word of a command line that is an operator of the shell; None without one. A quoted word is not one."""
    try:
        as_typed = shlex.split(text, posix=False)  # keeps the quotes
    except ValueError:
        return None
    words = shlex.split(text)
    return next((word for word in as_typed if word in SHELL_OPERATORS and word in words), None)


def _csrun_wse(plan: LaunchPlan, options: Options, command: list[str]) -> str:
    words = ["csrun_wse", "--total-nodes", str(plan.nodes), "--tasks-per-node", str(plan.tasks_per_node)]
    words += ["--cpus-per-task", str(plan.cpus_per_task)]
    if plan.single_task_nodes:
        words += ["--single-task-nodes", str(plan.single_task_nodes)]
    if options.cyclic:
        words.append("--cyclic")
    if options.mount_dirs:
        words += ["--mount-dirs", ",".join(options.mount_dirs)]
    return shlex.join([*words, *command])


def _components(plan: LaunchPlan, cluster: Cluster, options: Options, extra: list[str]) -> list[list[str]]:
    """Slurm options of each component: the single-task nodes, if any, then the streaming ones. `extra` words come after them.

    Single-task nodes ask for the same CPUs per task: `srun --het-group=0,1` passes one value to both. And for the same
    distribution: the variable that a task sees is sometimes that of another component (srun's threads share one environment).
    """
    streaming = [f"--nodes={plan.nodes - plan.single_task_nodes}", f"--ntasks-per-node={plan.tasks_per_node}"]
    streaming.append(f"--cpus-per-task={plan.cpus_per_task}")
    where = [f"--distribution={'cyclic' if options.cyclic else 'block'}"]
    if not options.shared_nodes:
        where += ["--exclusive", *_all_memory(extra)]
    where += _where(options, cluster)
    if not plan.single_task_nodes:
        return [[*streaming, *where]]
    single = [f"--nodes={plan.single_task_nodes}", "--ntasks-per-node=1", f"--cpus-per-task={plan.cpus_per_task}"]
    return [[*single, *where], [*streaming, *where]]


def _where(options: Options, cluster: Cluster | None) -> list[str]:
    """Return the options for the planned nodes: their partition, unless the user named one, and the excluded nodes."""
    partition = options.partition or (cluster.partition if cluster is not None else None)
    words = [f"--partition={partition}"] if partition else []
    theirs = [name for text in options.exclude_nodes for name in expand_nodelist(text)]
    excluded = dict.fromkeys((*theirs, *(cluster.excluded_nodes if cluster is not None else ())))
    return [*words, f"--exclude={','.join(excluded)}"] if excluded else words


def _all_memory(extra: list[str]) -> list[str]:
    """All of a node's memory, unless the user asks for some."""
    return [] if asks_for_memory(extra) else ["--mem=0"]


def asks_for_memory(words: Iterable[str]) -> bool:
    """Return whether options of Slurm say how much memory: it takes one that does, and no second."""
    return any(re.match(r"--mem(=|$|-per-)", word) for word in words)


def _refuse_own(words: Iterable[str], option: str) -> None:
    for word in words:
        name = word.partition("=")[0] if word.startswith("--") else word[:2]
        if name in OWN_OPTIONS:
            raise UsageError(f"{option} holds {word!r}: give that by {OWN_OPTIONS[name]}, so that the plan is of those nodes, too")


def _srun(plan: LaunchPlan, cluster: Cluster, options: Options, command: list[str]) -> str:
    extra = _words(options.srun_args or "", "--srun-args")
    # srun applies the binding only to the component that it stands in, as `srun -vv` shows.
    components = [shlex.join(["--cpu-bind=cores", *component, *extra]) for component in _components(plan, cluster, options, extra)]
    words = shlex.join(_in_each_task(options, command))
    return f"srun --unbuffered --kill-on-bad-exit {' : '.join(components)} {words}"


def _sbatch(plan: LaunchPlan, cluster: Cluster, options: Options, target: str, command: list[str]) -> str:
    extra = _words(options.sbatch_args or "", "--sbatch-args")
    components = _components(plan, cluster, options, extra)
    tasks = plan.single_task_nodes + (plan.nodes - plan.single_task_nodes) * plan.tasks_per_node
    nodes = f"{counted(plan.nodes, 'node')} ({plan.single_task_nodes} with a single task)"
    arithmetic = f"{nodes}, {counted(tasks, 'task')}, {plan.input_workers} of them stream"
    lines = ["#!/bin/bash"]
    source, name = (visible(text).replace("\n", " ") for text in (target, cluster.name))  # neither ends the comment that it is in
    lines += [f"# Feeds the accelerator from {source}", f"# on {name}: {arithmetic}."]
    for index, component in enumerate(components):
        if index:
            lines.append("#SBATCH hetjob")
        # A component inherits nothing from the one before: account, partition and time are repeated.
        lines += [f"#SBATCH {_directive(word)}" for word in component]
        if extra:
            lines.append(f"#SBATCH {' '.join(_directive(word) for word in extra)}")
    groups = ["--het-group=" + ",".join(str(index) for index in range(len(components)))] if len(components) > 1 else []
    step_extra = _words(options.srun_args or "", "--srun-args")
    step = ["srun", *groups, "--unbuffered", "--kill-on-bad-exit", "--cpu-bind=cores", f"--cpus-per-task={plan.cpus_per_task}"]
    step += [f"--distribution={'cyclic' if options.cyclic else 'block'}", *_all_memory(step_extra), *step_extra]
    lines += ["", "set -euo pipefail", "# Since Slurm 22.05 srun does not inherit --cpus-per-task from the job: it is given again."]
    return "\n".join([*lines, shlex.join([*step, *_in_each_task(options, command)]), ""])


def _in_each_task(options: Options, command: list[str]) -> list[str]:
    """Return the command of a task: TF_CONFIG from Slurm's variables outside, the training inside the container."""
    if options.container is not None:
        mounts = ["-B", ",".join(options.mount_dirs)] if options.mount_dirs else []
        command = ["singularity", "exec", *mounts, options.container, *command]
    return ["bash", "-c", _WITH_TF_CONFIG, "bash", *command]


def _directive(word: str) -> str:
    """Return one word of an `#SBATCH` line. sbatch reads quotes there as a shell does, but not line breaks."""
    if re.search(r"[\r\n\0]", word):
        raise UsageError(f"an #SBATCH line cannot hold a line break: {word!r}")
    return shlex.quote(word)


def _words(text: str, option: str) -> list[str]:
    if len(text) > LONGEST_COMMAND:
        raise UsageError(f"{option} has {len(text):,} characters: no program can be started with more than {LONGEST_COMMAND:,}")
    try:
        words = shlex.split(text)
    except ValueError as error:
        shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
        raise UsageError(f"{option} is not a readable command line ({error}): {shown!r}") from None
    if any("\0" in word for word in words):
        raise UsageError(f"{option} holds a NUL character, which no command can take")
    return words

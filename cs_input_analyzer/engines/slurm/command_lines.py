"""Writes the command lines of sbatch and srun, and the script of our job. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cs_input_analyzer.planning.launch_lines import asks_for_memory
from cs_input_analyzer.records import Layout

# So long may the launcher be silent before the job lets its nodes go.
KEEPER_PATIENCE_S = 60
KEEPER_LOOK_S = 5
KEEPER = "keeper.sh"
ALIVE = "alive"


def sbatch_words(
    *, nodes: int, name: str, script: Path, minutes: int | None, partition: str | None, exclude: Sequence[str], extra: Sequence[str]
) -> list[str]:
    """A job that holds whole nodes. The user's own words come first, so that what we cannot do without wins; how much memory it
    needs they know better.

    One node that fails must not take the others along (`--no-kill`), and nothing is to be started anew (`--no-requeue`).
    """
    words = ["sbatch", "--parsable", *extra]
    words += [f"--nodes={nodes}", "--exclusive", "--no-requeue", "--no-kill", f"--job-name={name}"]
    words += [] if asks_for_memory(extra) else ["--mem=0"]
    words += ["--output=/dev/null", "--error=/dev/null"]
    if minutes is not None:
        words.append(f"--time={minutes}")
    if partition is not None:
        words.append(f"--partition={partition}")
    if exclude:
        words.append(f"--exclude={','.join(exclude)}")
    return [*words, str(script), str(script.parent / ALIVE)]


def srun_words(job_id: str, layout: Layout, folder: str, program: Sequence[str]) -> list[str]:
    """A step of that job. Each default that would end, wait for or bind tasks in a way of its own is set.

    `--overlap`: steps share CPUs, so that the workers of the next launch import TensorFlow while those of this one wait.
    `--cpus-per-task` is always given: what a step inherits depends on the version (22.05 stopped to inherit it) and on neighbouring
    components.
    """
    return [
        "srun",
        f"--jobid={job_id}",
        f"--nodes={layout.nodes}",
        f"--ntasks={layout.tasks}",
        f"--ntasks-per-node={layout.tasks_per_node}",
        f"--cpus-per-task={layout.cpus_per_task}",
        "--overlap",
        "--mem=0",
        "--distribution=block",
        "--input=all",
        "--no-kill",
        "--kill-on-bad-exit=0",
        "--wait=0",
        "--mpi=none",
        "--job-name=cs_input_analyzer",
        f"--chdir={folder}",
        *program,
    ]


def keeper_script() -> str:
    """Holds the nodes of a job for as long as the launcher writes something new into a file, and a minute longer."""
    return f"""#!/bin/bash
# Holds nodes for cs_input_analyzer, which measures on them, and lets them go when it falls silent.
last=; silent_s=0
while [ "$silent_s" -lt {KEEPER_PATIENCE_S} ]; do
    sleep {KEEPER_LOOK_S}
    now=$(cat -- "$1" 2>/dev/null)
    if [ "$now" = "$last" ]; then
        silent_s=$((silent_s + {KEEPER_LOOK_S}))
    else
        silent_s=0 last=$now
    fi
done
"""

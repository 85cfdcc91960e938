"""Calls of Slurm's own programs: with the caller's environment minus what leaks, a time limit, and a plain word on what went
wrong."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from cs_input_analyzer.errors import LaunchError

PATIENCE_S = 30.0
# Variables of these programs are defaults for the next call of one: inside a job they would be another job's choices.
_LEAKING = ("SLURM_", "SBATCH_", "SRUN_", "SALLOC_", "SQUEUE_", "SINFO_", "SCONTROL_", "SACCT_")
_KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT")


class Unanswered(LaunchError):
    """Slurm did not answer. What it was asked for it may have done, or do yet."""


def check_installed(programs: Sequence[str], option: str) -> None:
    """Raises LaunchError naming the programs of Slurm that are not on PATH."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        raise LaunchError(f"{option} needs Slurm's {', '.join(missing)} on PATH: run this on a login node, or inside an allocation")


def our_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment without what an outer job, or a site's profile, would make a default of our calls."""
    return {name: value for name, value in environ.items() if name in _KEPT or not name.startswith(_LEAKING)}


def run(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Raises LaunchError for a program that cannot be run, Unanswered for one that takes too long.

    Its exit status is the caller's to judge.
    """
    try:
        return subprocess.run(
            words,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE_S,
            check=False,
            stdin=subprocess.DEVNULL,
            env=our_environment(os.environ),
            start_new_session=True,  # Ctrl-C is the caller's to handle: it must not meet a submission in the middle
        )
    except subprocess.TimeoutExpired:
        raise Unanswered(f"{words[0]} did not answer within {PATIENCE_S:g} s: is Slurm's controller up?") from None
    except OSError as error:
        raise LaunchError(f"{words[0]} cannot be run: {error.strerror or error}") from None

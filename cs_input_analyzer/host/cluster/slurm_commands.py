"""Call Slurm's own programs, with a cleaned environment and a time limit, and explain their failures."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from cs_input_analyzer.errors import LaunchError

PATIENCE_S = 30.0
# Variables of these programs are defaults for the next call: inside a job they would be another job's choices.
_LEAKING = ("SLURM_", "SBATCH_", "SRUN_", "SALLOC_", "SQUEUE_", "SINFO_", "SCONTROL_", "SACCT_")
# Who pays for our job is the user's choice. Many sites refuse a job without an account.
_PAYING = ("SBATCH_ACCOUNT", "SBATCH_QOS", "SBATCH_RESERVATION")
_KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT", *_PAYING)


class Unanswered(LaunchError):
    """Report that Slurm did not answer. It may have carried out the request, or do so later."""


def check_installed(programs: Sequence[str], option: str) -> None:
    """Raise LaunchError with the names of Slurm's programs that are not on PATH."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        raise LaunchError(f"{option} needs Slurm's {', '.join(missing)} on PATH: run this on a login node, or inside an allocation")


def our_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the caller's environment without variables that would change the defaults of our calls.

    An outer job or a site's profile sets such variables.
    """
    return {name: value for name, value in environ.items() if name in _KEPT or not name.startswith(_LEAKING)}


def run(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a program, and return its result with any exit status.

    Raise LaunchError if it cannot be run, and Unanswered if it takes too long.
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
            start_new_session=True,  # Ctrl-C is for the caller: it must not interrupt a submission
        )
    except subprocess.TimeoutExpired:
        raise Unanswered(f"{words[0]} did not answer within {PATIENCE_S:g} s: is Slurm's controller up?") from None
    except OSError as error:
        raise LaunchError(f"{words[0]} cannot be run: {error.strerror or error}") from None

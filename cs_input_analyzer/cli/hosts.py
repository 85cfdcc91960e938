"""`tf-config` and `cluster`: what Slurm and its nodes are asked for."""

from __future__ import annotations

import os
import shutil
from typing import Any

import click

from cs_input_analyzer.cli import options as shared
from cs_input_analyzer.cli.command import Command
from cs_input_analyzer.cli.terminal import complain, print_text
from cs_input_analyzer.errors import LaunchError, UsageError
from cs_input_analyzer.units import counted


@click.command("tf-config", cls=Command)
def tf_config() -> int:
    """Print the TF_CONFIG of this Slurm task; the sbatch file uses it."""
    from cs_input_analyzer.model import tf_config as slurm_task

    print_text(slurm_task.tf_config(os.environ))
    return 0


@click.command("cluster", cls=Command)
@click.option(
    "--cluster",
    "choice",
    metavar="slurm|local|PRESET",
    help="Whose nodes: Slurm's, this host as one node, or a preset; default: Slurm's where it is installed, else this host.",
)
@click.option("--write", "path", metavar="FILE", help="Write the file there, instead of to standard output.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@shared.with_options((shared.PARTITION, shared.EXCLUDE_NODES))
def cluster(choice: str | None, path: str | None, force: bool, **of_slurm: Any) -> int:
    """Write a cluster file, for --cluster FILE of other commands.

    Add to it what Slurm does not know: the bandwidths, your container and arguments. docs/interfaces.md lists all keys.
    """
    from cs_input_analyzer.files import check_writable, write_text_atomically
    from cs_input_analyzer.host import cluster as clusters
    from cs_input_analyzer.host import machine
    from cs_input_analyzer.host.cluster.file import file_text
    from cs_input_analyzer.records import Options

    is_chosen, choice = choice is not None, choice or (clusters.SLURM if shutil.which("scontrol") else clusters.LOCAL)
    if clusters.names_file(choice):
        raise UsageError(f"--cluster {choice}: this is a cluster file; copy it, or name slurm, local or a preset")
    if choice != clusters.SLURM and any(of_slurm.values()):
        raise UsageError("--partition, --exclude-nodes: only Slurm has these; add --cluster slurm")
    if path is not None and check_writable(path).is_file() and not force:
        raise UsageError(f"--write {path}: this file exists; name another one, or replace it with --force")
    here = machine.read_host()
    try:
        found = (
            clusters.named_host(here) if choice == clusters.LOCAL else clusters.resolve(Options(cluster=choice, **of_slurm), here)
        )
    except LaunchError as error:
        advice = "" if is_chosen else "\nSlurm is installed here, but does not answer; --cluster local describes this host"
        raise LaunchError(f"{error}{advice}") from None
    if path is None:
        print_text(file_text(found).rstrip())
        return 0
    write_text_atomically(path, file_text(found))
    complain(f"{counted(found.nodes, 'node')} of {found.cpus_per_node} CPUs written to {path}; plan for them with --cluster {path}")
    return 0

"""`tf-config` and `reference`: what runs on the nodes themselves."""

from __future__ import annotations

import os

import click

from cs_input_analyzer.cli import options as shared
from cs_input_analyzer.cli.command import Command
from cs_input_analyzer.cli.terminal import complain, print_text


@click.command("tf-config", cls=Command)
def tf_config() -> int:
    """Print the TF_CONFIG of this Slurm task; the sbatch file uses it."""
    from cs_input_analyzer.planning import tf_config as slurm_task

    print_text(slurm_task.tf_config(os.environ))
    return 0


@click.command(cls=Command)
@shared.with_options((shared.CPUS,))
def reference(cpus: int | None) -> int:
    """Print how fast this host's CPUs run a fixed loop, as --node-reference takes it on another host.

    The loop runs for a second, on one CPU of every core at once.
    """
    from cs_input_analyzer.machines import host, node_speed

    here = host.read_host(cpus)
    cores = node_speed.one_cpu_per_core(here.cpu_budget)
    print_text(node_speed.format_reference(node_speed.node_rate(cores), here.python_version))
    complain(f"steps in a CPU second, the loop on {len(cores)} core(s) at once; on the host that measures: --node-reference")
    return 0

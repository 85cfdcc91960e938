"""Slurm as the engine: workers run in real job steps, on the nodes of an allocation."""

from cs_input_analyzer.engines.slurm.launcher import SlurmLauncher

__all__ = ["SlurmLauncher"]

"""Run workers in job steps of Slurm, on the nodes of an allocation."""

from cs_input_analyzer.engines.slurm.launcher import SlurmLauncher

__all__ = ["SlurmLauncher"]

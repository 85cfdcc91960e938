"""Run workers on this host or on nodes of Slurm.

Both engines offer the interface `Launcher`, so the analysis need not know which one it uses.
"""

from cs_input_analyzer.engines.collecting import LaunchResult, WorkerFailure
from cs_input_analyzer.engines.launch import Launcher, LaunchHandle
from cs_input_analyzer.engines.local import LocalLauncher
from cs_input_analyzer.worker.journal import WorkPlan

__all__ = ["LaunchHandle", "LaunchResult", "Launcher", "LocalLauncher", "WorkPlan", "WorkerFailure"]

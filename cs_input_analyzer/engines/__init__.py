"""Where workers run. One interface, `Launcher`, so that the analysis need not know which engine starts them."""

from cs_input_analyzer.engines.interface import Launcher, LaunchHandle, LaunchResult, WorkerFailure, WorkPlan
from cs_input_analyzer.engines.local import LocalLauncher

__all__ = ["LaunchHandle", "LaunchResult", "Launcher", "LocalLauncher", "WorkPlan", "WorkerFailure"]

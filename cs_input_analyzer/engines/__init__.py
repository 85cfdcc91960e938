"""Where workers run. One interface, `Launcher`, so that the analysis need not know which engine starts them."""

from cs_input_analyzer.engines.collecting import LaunchResult, WorkerFailure
from cs_input_analyzer.engines.launch import Launcher, LaunchHandle
from cs_input_analyzer.engines.local import LocalLauncher
from cs_input_analyzer.worker.journal import WorkPlan

__all__ = ["LaunchHandle", "LaunchResult", "Launcher", "LocalLauncher", "WorkPlan", "WorkerFailure"]

"""Where workers run. One interface, `Launcher`, so that the analysis need not know which engine starts them."""

from cs_input_analyzer.engines.interface import Launched, Launcher, Launching, WorkerFailure, WorkPlan
from cs_input_analyzer.engines.local import LocalLauncher

__all__ = ["Launched", "Launcher", "Launching", "LocalLauncher", "WorkPlan", "WorkerFailure"]

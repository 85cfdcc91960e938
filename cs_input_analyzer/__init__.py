"""cs_input_analyzer: how many nodes, tasks and CPUs feed the accelerator, and what in the input function is slow.

    import cs_input_analyzer as csia
    analysis = csia.analyze("data.py:train_input_fn", {"data_dir": "shards"}, demand=7000)

The public names are loaded when they are first used; importing the package imports neither TensorFlow nor anything else that is
slow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.2.0"

if TYPE_CHECKING:
    from cs_input_analyzer.api import Analysis, analyze, compare, load_analysis, tune, tuning
    from cs_input_analyzer.errors import AnalyzerError, InputFunctionError, Interrupted, LaunchError, TargetError, UsageError
    from cs_input_analyzer.records import Cluster, Consumption, Estimate, Layout, Options
    from cs_input_analyzer.runs.input_monitor import InputMonitor
    from cs_input_analyzer.runs.keras_callback import KerasInputMonitor
    from cs_input_analyzer.runs.session_hook import InputMonitorHook

_HOMES = {
    "api": ("Analysis", "analyze", "compare", "load_analysis", "tune", "tuning"),
    "errors": ("AnalyzerError", "InputFunctionError", "Interrupted", "LaunchError", "TargetError", "UsageError"),
    "runs.input_monitor": ("InputMonitor",),
    "runs.keras_callback": ("KerasInputMonitor",),
    "runs.session_hook": ("InputMonitorHook",),
    "records": ("Cluster", "Consumption", "Estimate", "Layout", "Options"),
}

__all__ = [
    "Analysis",
    "AnalyzerError",
    "Cluster",
    "Consumption",
    "Estimate",
    "InputFunctionError",
    "InputMonitor",
    "InputMonitorHook",
    "Interrupted",
    "KerasInputMonitor",
    "LaunchError",
    "Layout",
    "Options",
    "TargetError",
    "UsageError",
    "__version__",
    "analyze",
    "compare",
    "load_analysis",
    "tune",
    "tuning",
]


def __getattr__(name: str) -> object:
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        from cs_input_analyzer.gone import gone_message

        raise AttributeError(gone_message("name", name) or f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)

"""The demand side: how fast a Cerebras wafer consumes samples. Stands alone: imports nothing of `cs_input_analyzer`."""

from wafer_model.consumption import Consumption, from_compile_report, from_model, from_performance, from_rate, from_step_time
from wafer_model.errors import DoesNotFitError, WaferModelError
from wafer_model.estimate import Estimate

__all__ = [
    "Consumption",
    "DoesNotFitError",
    "Estimate",
    "WaferModelError",
    "from_compile_report",
    "from_model",
    "from_performance",
    "from_rate",
    "from_step_time",
]

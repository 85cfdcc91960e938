"""The demand side: how fast a Cerebras wafer consumes samples. Stands alone: imports nothing of `cs_input_analyzer`."""

from wafer_model.consumption import Consumption, WaferModelError, from_rate, from_step_time
from wafer_model.estimate import Estimate

__all__ = ["Consumption", "Estimate", "WaferModelError", "from_rate", "from_step_time"]

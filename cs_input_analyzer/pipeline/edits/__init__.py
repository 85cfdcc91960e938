"""Dataset -> another Dataset, by editing the graph that TensorFlow holds of it.

`cuts` ends a pipeline early, for measuring. `edits` applies what a rule proposes, and gives the whole dataset. `settle` gives the
form in which two datasets can be compared, or timed side by side.
"""

from __future__ import annotations

from cs_input_analyzer.pipeline.edits.cuts import prefix, source_only
from cs_input_analyzer.pipeline.edits.kinds import EditError, apply
from cs_input_analyzer.pipeline.edits.settle import settled, timed

__all__ = ["EditError", "apply", "prefix", "settled", "source_only", "timed"]

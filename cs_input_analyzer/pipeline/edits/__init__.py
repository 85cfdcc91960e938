"""Edits of a pipeline, each as a change of TensorFlow's graph and as one of the user's source, from the same `Edit`.

`kinds`, `swap` and `vectorize` hold two functions for each kind of edit: for the graph, and for the user's statement. `cuts` ends a
pipeline early, for measuring. `comparable` gives the form in which two datasets can be compared, or timed side by side.
"""

from __future__ import annotations

from cs_input_analyzer.pipeline.edits.applying import apply, source_change
from cs_input_analyzer.pipeline.edits.comparable import deterministic, timed
from cs_input_analyzer.pipeline.edits.cuts import prefix, source_only
from cs_input_analyzer.pipeline.edits.work import EditError

__all__ = ["EditError", "apply", "deterministic", "prefix", "source_change", "source_only", "timed"]

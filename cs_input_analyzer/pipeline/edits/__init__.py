"""Edits of a pipeline, each as a change of TensorFlow's graph and as one of the user's source, from the same `Edit`.

There is one file for each kind of edit, with two functions: `graph` carries it out on a graph, or says why it cannot; `source`
carries it out on the user's statement, where that can be done for sure. `apply` gives a dataset with all edits, `source_change` a
statement with all edits. `cuts` ends a pipeline early, for measuring. `comparable` gives the form in which two datasets can be
compared, or timed side by side.
"""

from __future__ import annotations

from cs_input_analyzer.pipeline.edits.applying import apply, source_change
from cs_input_analyzer.pipeline.edits.comparable import deterministic, timed
from cs_input_analyzer.pipeline.edits.cuts import prefix, source_only
from cs_input_analyzer.pipeline.edits.work import EditError

__all__ = ["EditError", "apply", "deterministic", "prefix", "source_change", "source_only", "timed"]

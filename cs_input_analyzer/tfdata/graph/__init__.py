"""Take a pipeline's graph from TensorFlow, and read it into a PipelineGraph.

`nodes` serializes a dataset. `lines` records the user's line for each dataset while it is built. `ops` reads the content of the
graph. `read` puts all together.
"""

# ruff: noqa: F401  (imported for others)

from __future__ import annotations

from cs_input_analyzer.tfdata.graph.dimensions import shapes_of
from cs_input_analyzer.tfdata.graph.lines import (
    SOURCE_NUMBER,
    SourceLog,
    is_library,
    is_users_own,
    recorded_sources,
    where_built,
)
from cs_input_analyzer.tfdata.graph.nodes import (
    constant_of,
    functions_of,
    graph_def_of,
    named_inputs,
    node_name,
    reached_from,
    sources_of,
    with_called,
)
from cs_input_analyzer.tfdata.graph.ops import AUTOTUNE, OpPlace, ops_of, reader_of
from cs_input_analyzer.tfdata.graph.read import (
    file_set,
    files_by_reader,
    read_graph,
    sized_files_of,
    unreadable_named,
)

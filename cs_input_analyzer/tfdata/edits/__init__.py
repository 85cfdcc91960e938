"""Edit a pipeline: one table gives for each kind of fix its change of TensorFlow's graph and that of the user's source.

`kinds` and `vectorize` hold two functions for each kind of edit: for the graph, and for the user's statement. `cuts` ends a
pipeline early, for measuring. `comparable` gives the form in which two datasets can be compared, or timed side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cs_input_analyzer.records import Edit, EditKind, Op
from cs_input_analyzer.tfdata.edits import kinds, traits, vectorize
from cs_input_analyzer.tfdata.edits.comparable import deterministic, timed
from cs_input_analyzer.tfdata.edits.cuts import FILLED, counting, prefix_of, source_only
from cs_input_analyzer.tfdata.edits.graph_text import GraphText, dataset_of
from cs_input_analyzer.tfdata.edits.work import EditError, Work
from cs_input_analyzer.tfdata.graph import graph_def_of, reader_of

__all__ = ["FILLED", "EditError", "apply", "counting", "deterministic", "prefix_of", "source_change", "source_only", "timed"]

# Kind -> its change of a graph, and of the statement of the named op.
_Kind = tuple[Callable[[Work, Edit], None], Callable[[str, Op, Sequence[Op], Edit], str | None]]
_KINDS: Mapping[EditKind, _Kind] = {
    "set-parallelism": (kinds.set_parallelism, kinds.calls_source),
    "set-cycle-length": (kinds.set_cycle_length, kinds.set_cycle_length_source),
    "set-buffer": (kinds.set_buffer, kinds.set_buffer_source),
    "parallelize": (kinds.parallelize, kinds.calls_source),
    "interleave": (kinds.interleave, kinds.interleave_source),
    "insert-prefetch": (kinds.insert_prefetch, kinds.insert_prefetch_source),
    "insert-cache": (kinds.insert_cache, kinds.insert_cache_source),
    "vectorize": (vectorize.graph, vectorize.source),
    "swap": (kinds.swap, kinds.swap_source),
    # The options of a dataset have no single place in the source.
    "use-private-threads": (kinds.use_private_threads, lambda *_: None),
}


def apply(dataset: Any, edits: Sequence[Edit]) -> Any:
    """Return `dataset` with all `edits`: the same structure of elements, cardinality and options, and nothing cut off.

    Ops are named as in the PipelineGraph of `dataset`, also for later edits. Works in the process that made `dataset`, and keeps
    its functions alive. Caches and shuffles share nothing with the original's. Raise EditError if a precondition does not hold.
    """
    import tensorflow as tf

    graph_def = graph_def_of(dataset)
    options = dataset.options()
    text, read = GraphText.of(graph_def), reader_of(graph_def)
    work = Work(text=text, ops=read.ops, places=read.places, unordered=options.deterministic is False)
    held = traits.held_state(text)
    if held is not None:
        raise EditError(f"the pipeline holds {held}; an edited one would keep a copy of what it holds now")
    traits.use_own_state(text)
    for edit in edits:
        _KINDS[edit.kind][0](work, edit)
    if work.private_threads is not None:
        own = tf.data.Options()
        own.threading.private_threadpool_size = work.private_threads
        options = options.merge(own)
    edited = dataset_of(text.written(), dataset.element_spec, options)
    edited._csia_original = dataset  # Python functions and resources live as long as it does
    return edited


def source_change(edits: Sequence[Edit], ops: Sequence[Op]) -> str | None:
    """Return the user's statement with all `edits`. Return None if it is not sure, or several change. `ops` have their code."""
    named = {op.name: op for op in ops}
    edited = [named.get(edit.op) for edit in edits]
    first = edited[0] if edited else None
    # An op that is moved twice is not where the second move looks for it.
    if first is None or first.code is None or len(set(edits)) < len(edits):
        return None
    code: str | None = first.code
    for edit, op in zip(edits, edited, strict=True):
        if code is None or op is None or op.code != first.code:
            return None
        code = _KINDS[edit.kind][1](code, op, ops, edit)
    return code if code != first.code else None

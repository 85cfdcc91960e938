"""Carries out edits: on a dataset, and on the user's statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cs_input_analyzer.pipeline.edits import (
    insert_cache,
    insert_prefetch,
    interleave,
    parallelize,
    set_buffer,
    set_cycle_length,
    set_parallelism,
    swap,
    traits,
    use_private_threads,
    vectorize,
)
from cs_input_analyzer.pipeline.edits.graph_text import GraphText, dataset_of
from cs_input_analyzer.pipeline.edits.work import EditError, Work
from cs_input_analyzer.pipeline.graph import graph_def_of, op_places
from cs_input_analyzer.records import Edit, EditKind, Op


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a kind of edit does to a graph, and to the statement of the op that it names."""

    graph: Callable[[Work, Edit], None]
    source: Callable[[str, Op, Sequence[Op], Edit], str | None]


_KINDS: Mapping[EditKind, _Kind] = {
    "set-parallelism": _Kind(set_parallelism.graph, set_parallelism.source),
    "set-cycle-length": _Kind(set_cycle_length.graph, set_cycle_length.source),
    "set-buffer": _Kind(set_buffer.graph, set_buffer.source),
    "parallelize": _Kind(parallelize.graph, parallelize.source),
    "interleave": _Kind(interleave.graph, interleave.source),
    "insert-prefetch": _Kind(insert_prefetch.graph, insert_prefetch.source),
    "insert-cache": _Kind(insert_cache.graph, insert_cache.source),
    "vectorize": _Kind(vectorize.graph, vectorize.source),
    "swap": _Kind(swap.graph, swap.source),
    "use-private-threads": _Kind(use_private_threads.graph, use_private_threads.source),
}


def apply(dataset: Any, edits: Sequence[Edit]) -> Any:
    """`dataset` with all `edits`: the same structure of elements, cardinality and options, and nothing cut off.

    Ops are named as in the PipelineGraph of the dataset as it was given; an edit keeps the names of the nodes that it replaces, so
    that later edits still find them. Works in the process that made `dataset`; what its functions hold is kept alive. Caches and
    shuffles start anew: they share nothing with the original's.

    Raises:
        EditError: a precondition does not hold; nothing was changed.
    """
    import tensorflow as tf

    graph_def = graph_def_of(dataset)
    options = dataset.options()
    text = GraphText.of(graph_def)
    work = Work(text=text, places=op_places(graph_def), unordered=options.deterministic is False)
    held = traits.held_state(text)
    if held is not None:
        raise EditError(f"the pipeline holds {held}; an edited one would keep a copy of what it holds now")
    traits.use_own_state(text)
    for edit in edits:
        _KINDS[edit.kind].graph(work, edit)
    if work.private_threads is not None:
        own = tf.data.Options()
        own.threading.private_threadpool_size = work.private_threads
        options = options.merge(own)
    edited = dataset_of(text.written(), dataset.element_spec, options)
    edited._csia_original = dataset  # Python functions and resources live as long as it does
    return edited


def source_change(edits: Sequence[Edit], ops: Sequence[Op]) -> str | None:
    """The user's statement with all `edits`; None where it cannot be said for sure, or more than one statement changes.

    Args:
        ops: of the pipeline that is edited, with their code.
    """
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
        code = _KINDS[edit.kind].source(code, op, ops, edit)
    return code if code != first.code else None

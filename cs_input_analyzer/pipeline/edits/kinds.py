"""Edits of a whole pipeline: what a rule proposes, carried out on TensorFlow's graph. Each states what must hold for it.

Ops are named as in the PipelineGraph of the dataset as it was given; an edit keeps the names of the nodes that it replaces, so that
later edits still find them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cs_input_analyzer.pipeline.edits import traits
from cs_input_analyzer.pipeline.edits.graph_text import READERS, Body, GraphText, elements_of, functions_of, rename_functions
from cs_input_analyzer.pipeline.edits.reorder import put_filter_first, put_first, vectorized
from cs_input_analyzer.pipeline.graph import AUTOTUNE, OpPlace, graph_def_of, op_places
from cs_input_analyzer.pipeline.op_kinds import INTERLEAVES, KEEPERS, MAPS, REPEATS, SHUFFLES, kind_of
from cs_input_analyzer.records import Edit, EditKind

_BATCHES = ("Batch", "ParallelBatch")


class EditError(Exception):
    """An edit whose precondition does not hold; the message names it."""


def apply(dataset: Any, edits: Sequence[Edit]) -> Any:
    """`dataset` with all `edits`: the same structure of elements, cardinality and options, and nothing cut off.

    Works in the process that made `dataset`; what its functions hold is kept alive. Caches and shuffles start anew: they share
    nothing with the original's.

    Raises:
        EditError: a precondition does not hold; nothing was changed.
    """
    import tensorflow as tf
    from tensorflow.python.data.ops import dataset_ops

    graph_def = graph_def_of(dataset)
    options = dataset.options()
    work = _Work(
        text=GraphText.of(graph_def),
        places=op_places(graph_def),
        unordered=options.deterministic is False,
        is_finite=int(dataset.cardinality()) != int(tf.data.INFINITE_CARDINALITY),
    )
    held = traits.held_state(work.text)
    if held is not None:
        raise EditError(f"the pipeline holds {held}; an edited one would keep a copy of what it holds now")
    traits.use_own_state(work.text)
    threads: int | None = None
    for edit in edits:
        if edit.kind == "use-private-threads":
            threads = _thread_count(edit)
        else:
            _EDITS[edit.kind](work, edit)
    variant = tf.raw_ops.DatasetFromGraph(graph_def=work.text.written().SerializeToString())
    edited = dataset_ops._VariantDataset(variant, dataset.element_spec)
    edited._csia_original = dataset  # Python functions and resources live as long as it does
    if threads is not None:
        own = tf.data.Options()
        own.threading.private_threadpool_size = threads
        options = options.merge(own)
    return edited if options == tf.data.Options() else edited.with_options(options)


@dataclass(slots=True, kw_only=True)
class _Work:
    """A graph on its way. `places`: of the ops as they were; `unordered`: the options allow any order where an op says nothing."""

    text: GraphText
    places: Mapping[str, OpPlace]
    unordered: bool
    is_finite: bool

    def find(self, op: str) -> tuple[Body, Any]:
        """An op's node, in a body that may be changed."""
        place = self.places.get(op)
        if place is None:
            raise EditError(f"the pipeline has no op {op} that can be edited")
        body = self._body(op, place)
        if place.node not in body.nodes:
            raise EditError(f"{op} is gone after an earlier edit")
        return body, body.nodes[place.node]

    def _body(self, op: str, place: OpPlace) -> Body:
        if place.function is None:
            return self.text.top
        if place.within is None:
            raise EditError(f"{op} is inside a function that the graph calls (a tf.function)")
        holder_body, holder = self.find(place.within)
        known = self.text.own.get((place.within, place.function))
        if known is None:
            if place.function not in functions_of(holder):
                raise EditError(f"{op} is inside a function that the function of {place.within} calls")
            known = self.text.own_copy(place.within, place.function)
            rename_functions(holder, {place.function: known.function.signature.name})
            del holder_body
        return known

    def order_is_moot(self, body: Body, node: Any) -> bool:
        return traits.order_is_free(body, node, self.unordered)


# --- numbers -----------------------------------------------------------------------------------------------------------------


def _number(edit: Edit) -> int:
    if edit.value is not None and edit.value < 1:
        raise EditError(f"{edit.kind} needs 1 or more, not {edit.value}")
    return AUTOTUNE if edit.value is None else edit.value


def _thread_count(edit: Edit) -> int:
    if edit.value is None:
        raise EditError("a private thread pool needs a number of threads")
    return _number(edit)


def _set_parallelism(work: _Work, edit: Edit) -> None:
    body, node = work.find(edit.op)
    parallel = body.argument(node, "num_parallel_calls")
    if parallel is None:
        raise EditError(f"{edit.op} has no constant number of parallel calls")
    if parallel == 1:
        _refuse_state(work, edit.op, node, "run in parallel")
    cycle = body.argument(node, "cycle_length")
    if cycle is not None and 0 < cycle < _number(edit):
        raise EditError(f"{edit.op} cannot make {edit.value} calls at once: it opens {cycle} inputs")
    if cycle == AUTOTUNE and not work.order_is_moot(body, node):
        raise EditError(
            f"{edit.op} opens as many inputs as calls are made, and the order, which nothing shuffles, follows from that"
        )
    _set_number(body, node, "num_parallel_calls", _number(edit))


def _set_cycle_length(work: _Work, edit: Edit) -> None:
    body, node = work.find(edit.op)
    if kind_of(node.op) not in INTERLEAVES:
        raise EditError(f"{edit.op} has no cycle length")
    if not work.order_is_moot(body, node):
        raise EditError(_PROMISED.format(edit.op))
    if edit.value is None and node.op.startswith("Legacy"):
        raise EditError(f"{edit.op} reads as many files at once as it is told, a number that TensorFlow cannot tune")
    _refuse_state(work, edit.op, node, "run for other inputs at a time")
    parallel = body.argument(node, "num_parallel_calls")
    if parallel is not None and edit.value is not None and parallel > edit.value:
        raise EditError(f"{edit.op} makes {parallel} calls at once: it must open as many inputs")
    _set_number(body, node, "cycle_length", _number(edit))


_PROMISED = "the order after {} is promised: no shuffle without a seed comes after it, with nothing that shows the order around it"


def _set_buffer(work: _Work, edit: Edit) -> None:
    body, node = work.find(edit.op)
    kind = kind_of(node.op)
    if kind != "Prefetch" and kind not in READERS:
        raise EditError(f"{edit.op} is neither a prefetch nor a reader; the buffer of a shuffle decides the order")
    if body.argument(node, "buffer_size") is None:
        raise EditError(f"{edit.op} has no constant buffer size")
    if kind != "Prefetch" and edit.value is None:
        raise EditError(f"the buffer of {edit.op} is a number of bytes, which TensorFlow cannot tune")
    _set_number(body, node, "buffer_size", _number(edit))


def _set_number(body: Body, node: Any, argument: str, value: int) -> None:
    """Keeps the type: old versions of some ops take 32 bits."""
    from tensorflow.core.framework import types_pb2
    from tensorflow.python.framework import op_def_registry

    types = {given.name: given.type for given in op_def_registry.get(node.op).input_arg}
    body.set_argument(node, argument, body.constant(value, types[argument] or types_pb2.DT_INT64))


# --- the same op, in parallel ------------------------------------------------------------------------------------------------


def _parallelize(work: _Work, edit: Edit) -> None:
    import tensorflow as tf

    body, node = work.find(edit.op)
    kind = kind_of(node.op)
    calls = body.constant(_number(edit), tf.int64)
    inputs = list(node.input)
    if kind == "Map":
        _refuse_state(work, edit.op, node, "run in parallel")
        if node.attr["force_synchronous"].b:
            raise EditError(f"{edit.op} was told to stay serial")
        kept = (*_FUNCTION_KEPT, "use_inter_op_parallelism", "preserve_cardinality")
        _become(body, node, "ParallelMapDatasetV2", _data(inputs, calls), kept, deterministic=_ordered())
    elif kind == "Batch":
        own = ("parallel_copy", "output_types", "output_shapes", "metadata")
        _become(body, node, "ParallelBatchDataset", [*inputs[:2], calls, *inputs[2:]], own, deterministic=_ordered())
    elif kind == "Interleave":
        _refuse_state(work, edit.op, node, "run in parallel")
        cycle = body.argument(node, "cycle_length")
        if edit.value is not None and (cycle is None or 0 < cycle < edit.value):
            raise EditError(f"{edit.op} cannot make {edit.value} calls at once: it opens {cycle} inputs")
        if cycle == AUTOTUNE and not work.order_is_moot(body, node):
            raise EditError(
                f"{edit.op} opens as many inputs as TensorFlow likes, which are others in parallel, and nothing shuffles them"
            )
        tuned = [body.constant(AUTOTUNE, tf.int64), body.constant(AUTOTUNE, tf.int64), calls]
        _become(body, node, "ParallelInterleaveDatasetV4", _data(inputs, *tuned), _FUNCTION_KEPT, deterministic=_ordered())
    else:
        raise EditError(f"{edit.op} is no serial map, batch or interleave")


def _interleave(work: _Work, edit: Edit) -> None:
    import tensorflow as tf

    body, node = work.find(edit.op)
    if kind_of(node.op) != "FlatMap":
        raise EditError(f"{edit.op} is no flat_map")
    _refuse_state(work, edit.op, node, "run side by side")
    is_moot = work.order_is_moot(body, node)
    if edit.value is not None and edit.value > 1 and not is_moot:
        raise EditError(_PROMISED.format(edit.op))
    cycle = _number(edit) if is_moot else 1
    own = [cycle, 1, AUTOTUNE, AUTOTUNE, cycle]  # cycle, block, two buffers, calls at once
    inputs = _data(list(node.input), *(body.constant(value, tf.int64) for value in own))
    _become(body, node, "ParallelInterleaveDatasetV4", inputs, _FUNCTION_KEPT, deterministic=_ordered())


_FUNCTION_KEPT = ("f", "Targuments", "output_types", "output_shapes", "metadata")


def _data(inputs: list[str], *more: str) -> list[str]:
    """Inputs with more of them behind, and what only orders stays last, as TensorFlow wants it."""
    return [*(name for name in inputs if not name.startswith("^")), *more, *(name for name in inputs if name.startswith("^"))]


def _ordered() -> Any:
    from tensorflow.core.framework import attr_value_pb2

    return attr_value_pb2.AttrValue(s=b"true")


def _become(body: Body, node: Any, op: str, inputs: Sequence[str], kept: Sequence[str], **attributes: Any) -> None:
    """The node turns into another op, under its name."""
    from tensorflow.core.framework import node_def_pb2

    new = node_def_pb2.NodeDef(name=node.name, op=op, input=list(inputs), device=node.device)
    for key in kept:
        if key in node.attr:
            new.attr[key].CopyFrom(node.attr[key])
    for key, value in attributes.items():
        new.attr[key].CopyFrom(value)
    body.nodes[node.name] = new


def _refuse_state(work: _Work, op: str, node: Any, what: str) -> None:
    state = traits.state_in(traits.user_nodes(work.text, node))
    if state is not None:
        raise EditError(f"the function of {op} calls {state}, so it cannot {what}")


# --- more and fewer ops ------------------------------------------------------------------------------------------------------


def _insert_prefetch(work: _Work, edit: Edit) -> None:
    import tensorflow as tf

    body, node = work.find(edit.op)
    near = [node, *(reader for reader in body.readers_of(node.name))]
    if any(kind_of(other.op) == "Prefetch" for other in near):
        raise EditError(f"there is a prefetch after {edit.op} already")
    _insert_after(body, node, "PrefetchDataset", [body.constant(_number(edit), tf.int64)])


def _insert_cache(work: _Work, edit: Edit) -> None:
    import tensorflow as tf

    body, node = work.find(edit.op)
    if work.places[edit.op].function is not None:
        raise EditError(f"{edit.op} is inside a function: each of its datasets would fill a cache of its own")
    for other in (node, *body.upstream(node)):
        kind = kind_of(other.op)
        if kind in REPEATS and body.argument(other, "count") != 1:
            raise EditError(f"what reaches a cache after {edit.op} is repeated: it would be kept many times, or without end")
        if kind in SHUFFLES and (traits.is_unseeded_shuffle(body, other) or other.attr["reshuffle_each_iteration"].b):
            raise EditError(f"a cache after {edit.op} would freeze the order of the shuffle before it")
        endless = traits.endless_inside(work.text, other)
        if endless is not None:
            raise EditError(f"what reaches a cache after {edit.op} is repeated by {endless} inside a function, maybe without end")
        if kind in KEEPERS and other is node:
            raise EditError(f"{edit.op} keeps its elements already")
        _refuse_unrepeatable(work, edit.op, other)
    if any(kind_of(other.op) == "Cache" for other in body.downstream(node)):
        raise EditError(f"there is a cache after {edit.op} already")
    empty = body.constant("", tf.string)
    memory = body.tensor(body.add("DummyMemoryCache", ()).name)
    _insert_after(body, node, "CacheDatasetV2", [empty, memory])


def _refuse_unrepeatable(work: _Work, op: str, node: Any) -> None:
    """A cache keeps what the first pass gave: each pass must give the same."""
    if kind_of(node.op).startswith(("DataService", "Random", "Generator")):
        raise EditError(
            f"a cache after {op} would keep what {node.op} gave in the first pass; the next one may give other elements"
        )
    nodes = list(traits.user_nodes(work.text, node))
    drawn = traits.draws_in(nodes) or traits.state_in(nodes)
    inner = next((other.op for other in nodes if kind_of(other.op) in SHUFFLES | traits.NONDETERMINISTIC_SOURCES), None)
    if drawn is not None:
        raise EditError(f"a cache after {op} would freeze what {drawn} gave in the first pass")
    if inner is not None:
        raise EditError(f"a cache after {op} would freeze what {inner} inside a function gave in the first pass")


def _insert_after(body: Body, node: Any, op: str, inputs: Sequence[str]) -> None:
    from cs_input_analyzer.pipeline.edits.graph_text import set_elements

    new = body.add(op, [body.tensor(node.name), *inputs])
    set_elements(new, elements_of(_typed(body, node)))
    body.redirect(node.name, body.tensor(new.name), keep=[new.name])


def _typed(body: Body, node: Any) -> Any:
    """The node itself, or the nearest before it, that says what its elements are; readers give strings and need not say it."""
    if {"output_types", "Toutput_types"} & set(node.attr) or kind_of(node.op) in READERS:
        return node
    raise EditError(f"TensorFlow does not say what elements {kind_of(node.op)} gives")


def _remove(work: _Work, edit: Edit) -> None:
    body, node = work.find(edit.op)
    kind = kind_of(node.op)
    if kind == "Cache":
        if body.argument(node, "filename") != b"":
            raise EditError(f"{edit.op} keeps its elements in a file, which others may read")
        for other in body.upstream(node):
            if kind_of(other.op) in SHUFFLES and other.attr["reshuffle_each_iteration"].b:
                raise EditError(f"{edit.op} freezes the order of a shuffle before it; without it each pass would have its own")
            _refuse_unrepeatable(work, edit.op, other)
    elif kind != "Prefetch":
        raise EditError(f"{edit.op} is neither a prefetch nor a cache")
    body.redirect(node.name, node.input[0])
    body.drop(node.name)


# --- another order of ops ----------------------------------------------------------------------------------------------------


def _swap(work: _Work, edit: Edit) -> None:
    """An op goes before the one that it reads from."""
    body, node = work.find(edit.op)
    before = body.input_of(node)
    pair = (kind_of(before.op).removeprefix("Parallel"), kind_of(node.op).removeprefix("Parallel")) if before is not None else None
    if pair not in _SWAPS:
        can = ", ".join(f"{second.lower()} before {first.lower()}" for first, second in _SWAPS)
        raise EditError(f"{edit.op} cannot go before what it reads from; what can: {can}")
    _refuse_several_readers(body, before)
    if "Cache" in pair:
        _refuse_freezing(work, body, edit.op, before if pair[0] == "Cache" else node)
    if "Map" in pair:
        map_, name = (before, f"the map before {edit.op}") if pair[0] == "Map" else (node, edit.op)
        _refuse_state(work, name, map_, "change places")
    if pair == ("Cache", "Map"):
        _refuse_unrepeatable(work, edit.op, node)
    if pair == ("Map", "Filter"):
        _refuse_state(work, edit.op, node, "change places")
        problem = put_filter_first(work.text, body, before, node)
    else:
        problem = put_first(body, before, node)
    if problem is not None:
        raise EditError(f"{edit.op} cannot go before what it reads from: {problem}")


_SWAPS = (("Map", "Filter"), ("Map", "Shuffle"), ("Repeat", "Cache"), ("Cache", "Take"), ("Cache", "Map"))


def _refuse_freezing(work: _Work, body: Body, op: str, cache: Any) -> None:
    """Where a cache becomes complete that was not before, all that reaches it must be the same in each pass."""
    if body.argument(cache, "filename") != b"":
        raise EditError(f"{op} or its neighbour keeps elements in a file, which holds them as they are now")
    for other in body.upstream(cache):
        if kind_of(other.op) in SHUFFLES and (traits.is_unseeded_shuffle(body, other) or other.attr["reshuffle_each_iteration"].b):
            raise EditError(f"a cache that becomes complete would freeze the order of the shuffle before {op}")
        _refuse_unrepeatable(work, op, other)


def _vectorize(work: _Work, edit: Edit) -> None:
    """Of the map or of the batch right after it, whichever is named."""
    body, node = work.find(edit.op)
    map_, batch = node, next(iter(body.readers_of(node.name)), None)
    if kind_of(node.op) in _BATCHES:
        map_, batch = body.input_of(node), node
    if map_ is None or batch is None or kind_of(map_.op) not in MAPS or kind_of(batch.op) not in _BATCHES:
        raise EditError(f"{edit.op} is no map right before a batch")
    _refuse_several_readers(body, map_)
    nodes = list(traits.user_nodes(work.text, map_))
    drawn = traits.draws_in(nodes)
    if drawn is not None:
        raise EditError(f"the function of {edit.op} draws random numbers ({drawn}), one draw for each sample")
    _refuse_state(work, edit.op, map_, "take a whole batch")
    problem = vectorized(work.text, body, map_, batch)
    if problem is not None:
        raise EditError(f"the function of {edit.op} cannot take a whole batch: {problem}")


def _refuse_several_readers(body: Body, node: Any) -> None:
    if len(body.readers_of(node.name)) != 1:
        raise EditError(f"more than one op reads from the {kind_of(node.op)} before it")


_EDITS: Mapping[EditKind, Callable[[_Work, Edit], None]] = {
    "set-parallelism": _set_parallelism,
    "set-cycle-length": _set_cycle_length,
    "set-buffer": _set_buffer,
    "parallelize": _parallelize,
    "interleave": _interleave,
    "insert-prefetch": _insert_prefetch,
    "insert-cache": _insert_cache,
    "remove": _remove,
    "vectorize": _vectorize,
    "swap": _swap,
}

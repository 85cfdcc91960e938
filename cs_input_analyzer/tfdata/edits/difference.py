"""Compare two pipelines: where they part, which order each promises, and which properties must not differ."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cs_input_analyzer.records import Op
from cs_input_analyzer.tfdata.edits import traits
from cs_input_analyzer.tfdata.edits.graph_text import GraphText
from cs_input_analyzer.tfdata.function_ops import STATELESS_TWINS, calls, does
from cs_input_analyzer.tfdata.graph import SOURCE_NUMBER, graph_def_of, named_inputs, node_name, reached_from, reader_of, sources_of
from cs_input_analyzer.tfdata.lineage import downstream, is_mixed_anew, is_random_order, may_reorder, upstream, without_end
from cs_input_analyzer.tfdata.op_kinds import (
    BATCHING,
    GROUPING,
    KEEPERS,
    MAPS,
    ONE_BY_ONE,
    OPENS,
    SHUFFLES,
    WRITERS,
    is_dataset_op,
    kind_of,
    kinds_with,
)

_HAND_ON = ("Prefetch", "Options", "Model")
# For a few inputs these give the same elements as for those inputs among all.
_FOR_EACH = ((MAPS | OPENS | kinds_with("filter")) & ONE_BY_ONE) | {"Shuffle", "Prefetch", "Options", "Model"}
# Attributes that describe how an op works, not its elements.
_PACE = ("deterministic=", "parallel_copy=", "use_inter_op_parallelism=", "use_unbounded_threadpool=", "force_synchronous=")
# Attributes that tell nothing about the work of an op. Behind endless elements TensorFlow writes a fixed shape of a batch.
_SILENT = ("metadata", SOURCE_NUMBER, "output_shapes", "_output_shapes", "_input_shapes", "_user_specified_name")


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Hold a dataset's graph as text and as ops.

    Attributes:
        nodes: ops at its top by their nodes.
        unordered: whether the options allow any order.
    """

    text: GraphText
    ops: tuple[Op, ...]
    nodes: Mapping[str, Op]
    spec: Any
    unordered: bool

    @property
    def calls_python(self) -> bool:
        """Return whether a function of the pipeline calls Python."""
        return any(calls(op, "python") for op in self.ops)

    @property
    def is_endless(self) -> bool:
        """Return whether its elements never end."""
        return bool(self.ops) and self.ops[-1].name in without_end(self.ops)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """Hold the nodes at which the elements of two pipelines can be compared without their order.

    They stand before a shuffle without a seed, from which on all ops are alike in both. Or they are the nodes that differ, if both
    may give any order by themselves. `sources`: the nearest earlier nodes that are alike with all their inputs, if a part of their
    elements can stand for all; else None.
    """

    original: str
    edited: str
    sources: tuple[str, str] | None


def read(dataset: Any) -> Pipeline:
    """Return the pipeline of a dataset."""
    graph_def = graph_def_of(dataset)
    found = reader_of(graph_def)
    ops, places = tuple(found.ops), found.places
    nodes = {places[op.name].node: op for op in ops if op.name in places and places[op.name].function is None}
    return Pipeline(GraphText.of(graph_def), ops, nodes, dataset.element_spec, dataset.options().deterministic is False)


def incomparable(pipeline: Pipeline) -> str | None:
    """Return why the elements of a pipeline cannot be compared with those of another; None if they can."""
    import tensorflow as tf
    from tensorflow.python.framework import op_def_registry

    for spec in tf.nest.flatten(pipeline.spec):
        if isinstance(spec, tf.data.DatasetSpec):
            return "its elements are datasets"
        parts = tf.nest.flatten(spec, expand_composites=True)
        if any(getattr(part, "dtype", None) in (tf.variant, tf.resource) for part in parts) or isinstance(spec, tf.OptionalSpec):
            return f"its elements hold a {type(spec).__name__.removesuffix('Spec')}, of which TensorFlow shows no content"
    for op in pipeline.ops:
        if op.kind in WRITERS:
            return f"it writes files ({op.name})"
        if op.kind.startswith("DataService"):
            return f"it reads from tf.data service ({op.name}), which gives each reader other elements"
    for node in pipeline.text.top.nodes.values():
        if op_def_registry.get(node.op) is None:
            return f"it has a custom op, {node.op}, that TensorFlow does not describe"
    for node in pipeline.text.called_by(pipeline.text.functions):
        state = traits.state_in([node]) if not does(node.op, "python") and node.op not in STATELESS_TWINS else None
        if state is not None:
            return f"one of its functions calls {state}, which two runs would share"
    return None


def cache_places(ops: tuple[Op, ...]) -> list[tuple[str, ...]]:
    """Return, for each op that keeps elements between passes, the ops that its elements come through."""
    return sorted(
        ("inside",) if op.within else tuple(_plain(one) for one in upstream(op, ops) if not one.within and one.kind not in _HAND_ON)
        for op in ops
        if op.kind in KEEPERS
    )


def changed_promise(original: Pipeline, edited: Pipeline) -> str | None:
    """Return the weaker or changed promise of the edited pipeline that no comparison of elements shows; None if there is none."""
    if _loose(edited) - _loose(original):
        return "its order may change from run to run, that of the original may not"
    if _shuffles(original.ops) != _shuffles(edited.ops):
        return "it does not shuffle as the original does"
    if _chances(original.ops) != _chances(edited.ops):
        return "what is drawn at random is kept from one pass to the next in one of the two, and drawn anew in the other"
    return None


def turns(ops: tuple[Op, ...]) -> list[tuple[object, ...]]:
    """Return, for each op that opens several inputs, its name, its cycle, and its block of elements.

    An op is named by the number of ops before it and by being inside a function. Ops that may come and go do not count.
    """
    found = []
    for op in ops:
        if op.kind.removeprefix("Parallel") in ("FlatMap", "Interleave"):
            before = [one for one in upstream(op, ops) if one.within == op.within and one.kind not in (*_HAND_ON, *KEEPERS)]
            found.append((op.within is not None, len(before), *_turn(op)))
    return sorted(found)


def _turn(op: Op) -> tuple[str, ...]:
    """Return 1 for an op that reads one input at a time; else its cycle and block, and the basis of TensorFlow's choice."""
    cycle = op.parameters.get("cycle_length")
    if op.kind == "FlatMap" or cycle == 1:
        return ("1",)
    chosen_by = (op.kind, str(op.parameters.get("num_parallel_calls"))) if cycle in ("AUTOTUNE", None) else ()
    return (str(cycle), str(op.parameters.get("block_length")), *chosen_by)


def has_one_order(pipeline: Pipeline) -> bool:
    """Return whether a pass can come in one order only: nothing is shuffled, or left to the CPUs of the host."""
    return not _shuffles(pipeline.ops) and not any("AUTOTUNE" in turn for turn in turns(pipeline.ops))


def parting(original: Pipeline, edited: Pipeline) -> Parting | None:
    """Return the nodes to compare where any order will do; None if the original promises an order at the first difference."""
    first, second = (_working(one, one.text.top.result()) for one in (original, edited))
    behind: tuple[Any, Any] | None = None
    passed: set[str] = set()
    while first is not None and second is not None and _alike(original, first) == _alike(edited, second):
        if len(original.text.top.datasets_of(first)) != 1 or len(edited.text.top.datasets_of(second)) != 1:
            break
        op = original.nodes[first.name]
        passed.add(op.kind)
        first, second = (_working(one, one.text.top.input_of(node)) for one, node in ((original, first), (edited, second)))
        if is_random_order(op) and passed <= ONE_BY_ONE | GROUPING and first is not None and second is not None:
            behind = first, second
    if behind is None and first is not None and second is not None and passed <= ONE_BY_ONE | BATCHING:
        ops = original.nodes[first.name], edited.nodes[second.name]
        behind = (first, second) if all(may_reorder(op, original.unordered) for op in ops) else None
    if behind is None:
        return None
    # The nearest pair that is the same pipeline, before both along ops that take each of their elements by itself.
    others = {_whole_text(edited.text, node): node.name for node in reversed(_chain(edited.text, behind[1]))}
    pairs = ((node.name, others.get(_whole_text(original.text, node))) for node in _chain(original.text, behind[0]))
    sources = next(((name, other) for name, other in pairs if other is not None), None)
    return Parting(original=behind[0].name, edited=behind[1].name, sources=sources)


def _chain(text: GraphText, node: Any) -> list[Any]:
    """Return the ops before one, the nearest first, as long as a part of their elements can stand for all.

    Python ends the chain: its results may depend on earlier calls.
    """
    found: list[Any] = []
    while kind_of(node.op) in _FOR_EACH and len(text.top.datasets_of(node)) == 1 and not _runs_python(text, node):
        node = text.top.input_of(node)
        if node is None:
            break
        found.append(node)
    return found


def _runs_python(text: GraphText, node: Any) -> bool:
    return any(does(other.op, "python") for other in traits.user_nodes(text, node))


def _plain(op: Op) -> str:
    kind = op.kind.removeprefix("Parallel")
    return "Interleave" if kind == "FlatMap" else kind


def _loose(pipeline: Pipeline) -> set[tuple[str, int]]:
    """Return the ops that may give any order: each by its kind, parallel or not, and which of that kind it is."""
    seen: Counter[str] = Counter()
    found = set()
    for op in pipeline.ops:
        seen[_plain(op)] += 1
        if may_reorder(op, pipeline.unordered):
            found.add((_plain(op), seen[_plain(op)]))
    return found


def _shuffles(ops: tuple[Op, ...]) -> list[tuple[str, ...]]:
    """Return a description of each shuffle."""
    names = ("reshuffle_each_iteration", "buffer_size", "seed", "seed2", "count")
    return sorted((op.kind, *(str(op.parameters.get(name)) for name in names)) for op in ops if op.kind in SHUFFLES)


def _chances(ops: tuple[Op, ...]) -> list[tuple[str, int]]:
    """Return each op at the top that brings chance, with the caches behind it: caches keep its draws of the first pass.

    The order of a shuffle does not count if another one mixes what the cache keeps.
    """
    found = []
    for op in ops:
        drawn = next((name for name in op.function_ops if name in STATELESS_TWINS), None)
        if drawn is None and any(is_dataset_op(name) and kind_of(name) in SHUFFLES for name in op.function_ops):
            drawn = "shuffle inside"
        if drawn is None and op.kind in SHUFFLES | traits.NONDETERMINISTIC_SOURCES:
            drawn = op.kind
        if drawn is not None and op.within is None:
            keepers = [other for other in downstream(op, ops) if other.kind in KEEPERS]
            found.append((drawn, sum(not (drawn in SHUFFLES and is_mixed_anew(op, keeper, ops)) for keeper in keepers)))
    return sorted(found)


def batched_behind(pipeline: Pipeline, node: str) -> int:
    """Return how many elements of a node later batches put together."""
    sizes = [op.parameters.get("batch_size") for op in downstream(pipeline.nodes[node], pipeline.ops) if op.kind in BATCHING]
    return math.prod(size for size in sizes if isinstance(size, int))


def mixed_anew(ops: tuple[Op, ...]) -> bool:
    """Return whether the order of a shuffle is kept by a cache, and does not count as another shuffle follows."""
    keepers = [op for op in ops if op.kind in KEEPERS]
    return any(
        is_mixed_anew(op, keeper, ops) for op in ops if op.kind in SHUFFLES for keeper in keepers if op in upstream(keeper, ops)
    )


def _working(pipeline: Pipeline, node: Any) -> Any:
    """Return the op itself, or the nearest before it that does more than pass elements on."""
    while node is not None and kind_of(node.op) in _HAND_ON:
        node = pipeline.text.top.input_of(node)
    return node


def _alike(pipeline: Pipeline, node: Any) -> str:
    """Return a description of an op, without its input datasets and its parallelism: in order, that changes no element.

    Python is the exception: its results may depend on the order of calls.
    """
    text, op = pipeline.text, pipeline.nodes[node.name]
    parts = [op.kind.removeprefix("Parallel"), *(one for one in _attributes(text, node) if not one.startswith(_PACE))]
    if _runs_python(text, node):
        parts.append(node.op)
    if op.parameters.get("cycle_length") == "AUTOTUNE":  # if TensorFlow chooses, the order depends on the parallelism
        parts += _turn(op)
    for argument, tensors in named_inputs(node).items():
        for tensor in tensors if argument != "num_parallel_calls" else ():
            given = text.top.nodes.get(node_name(tensor))
            if given is not None and not is_dataset_op(given.op):
                parts.append(_whole_text(text, given))
    return _digest(parts)


def _whole_text(text: GraphText, node: Any) -> str:
    """Return a text of an op and of all its inputs. Its own state (memory of a cache, a generator) counts as none."""
    from tensorflow.core.framework import types_pb2

    nodes = text.top.nodes
    parts = []
    for name in reached_from([node.name], lambda name: [source for source in sources_of(nodes[name]) if source in nodes]):
        one = nodes[name]
        is_state = one.op in ("DummyMemoryCache", "DummySeedGenerator") or one.attr["dtype"].type == types_pb2.DT_RESOURCE
        parts.append("state" if is_state else _digest([one.op, *_attributes(text, one)]))
    return _digest(parts)


def _attributes(text: GraphText, node: Any) -> list[str]:
    found = []
    for key in sorted(set(node.attr) - set(_SILENT)):
        value = node.attr[key]
        functions = [value.func] if value.HasField("func") else value.list.func
        found += [f"{key}={_function_text(text, function.name)}" for function in functions]
        if not functions:
            found.append(f"{key}={value.SerializeToString(deterministic=True).hex()}")
    return found


def _function_text(text: GraphText, name: str) -> str:
    """Return a description of a function, whatever its name."""
    function = text.functions.get(name)
    if function is None:
        return name
    nodes = [f"{node.name} {node.op} {list(node.input)} {_attributes(text, node)}" for node in function.node_def]
    results = [str(sorted(function.ret.items())), *(argument.name for argument in function.signature.input_arg)]
    return _digest([*sorted(nodes), *results])


def _digest(parts: list[str]) -> str:
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()

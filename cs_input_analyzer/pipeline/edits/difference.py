"""Two graphs side by side, as text: where they part, which order each promises, and what must not differ between them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cs_input_analyzer.pipeline.edits import traits
from cs_input_analyzer.pipeline.edits.graph_text import Body, GraphText
from cs_input_analyzer.pipeline.graph import AUTOTUNE, SOURCE_NUMBER, functions_of, graph_def_of, named_inputs, node_name
from cs_input_analyzer.pipeline.op_kinds import (
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
_PLAIN = {"FlatMap": "Interleave"}
_IN_TURN = ("FlatMap", "Interleave")
# Of a few inputs these give what they give of them among all.
_FOR_EACH = ((MAPS | OPENS | kinds_with("filter")) & ONE_BY_ONE) | {"Shuffle", "Prefetch", "Options", "Model"}
# Attributes that say how an op works, not what it gives.
_PACE = ("deterministic=", "parallel_copy=", "use_inter_op_parallelism=", "use_unbounded_threadpool=", "force_synchronous=")
# Attributes that say nothing about what an op does.
_SILENT = ("metadata", SOURCE_NUMBER, "_output_shapes", "_input_shapes", "_user_specified_name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """The nodes at which the elements of two pipelines can be compared without their order: before a shuffle without a seed, from
    which on all ops are alike in both; or those that differ, where both may give any order by themselves. `order_is_free` says why
    a shuffle before the difference is none of these. `sources`: the nearest nodes before all differences that are alike with all
    that they come from, where a part of what they give can stand for all; None where there are none."""

    original: str
    edited: str
    sources: tuple[str, str] | None


def read_text(dataset: Any) -> GraphText:
    return GraphText.of(graph_def_of(dataset))


def incomparable(text: GraphText, element_spec: Any) -> str | None:
    """Why the elements of a pipeline cannot be compared with those of another; None where they can."""
    import tensorflow as tf
    from tensorflow.python.framework import op_def_registry

    for spec in tf.nest.flatten(element_spec):
        if isinstance(spec, tf.data.DatasetSpec):
            return "its elements are datasets"
        parts = tf.nest.flatten(spec, expand_composites=True)
        if any(getattr(part, "dtype", None) in (tf.variant, tf.resource) for part in parts) or isinstance(spec, tf.OptionalSpec):
            return f"its elements hold a {type(spec).__name__.removesuffix('Spec')}, of which TensorFlow shows no content"
    for node in every_node(text):
        definition = op_def_registry.get(node.op)
        if definition is None:
            return f"it has a custom op, {node.op}, that TensorFlow does not describe"
        if is_dataset_op(node.op) and kind_of(node.op) in WRITERS:
            return f"it writes files ({node.op})"
        if kind_of(node.op).startswith("DataService"):
            return f"it reads from tf.data service ({node.op}), which gives each reader other elements"
    for node in text.called_by(text.functions):
        definition = op_def_registry.get(node.op)
        if node.op in traits.DRAWS or traits.is_python(node) or is_dataset_op(node.op):
            continue
        if definition.is_stateful and traits.state_in([node]) is not None:
            return f"one of its functions calls a stateful op ({node.op}), which two runs would share"
    return None


def every_node(text: GraphText) -> Iterator[Any]:
    yield from text.top.nodes.values()
    for function in text.functions.values():
        yield from function.node_def


def calls_python(text: GraphText) -> bool:
    return any(traits.is_python(node) for node in every_node(text))


def cache_places(text: GraphText) -> list[tuple[str, ...]]:
    """For each op that keeps elements from one pass to the next: what its elements come through, parallel or not."""
    found = []
    for node in text.top.nodes.values():
        if is_dataset_op(node.op) and kind_of(node.op) in KEEPERS:
            kinds = (kind_of(other.op).removeprefix("Parallel") for other in text.top.upstream(node))
            found.append(tuple(_PLAIN.get(kind, kind) for kind in kinds if kind not in _HAND_ON))
    inside = sum(is_dataset_op(node.op) and kind_of(node.op) in KEEPERS for node in text.called_by(_reachable(text)))
    return sorted([*found, *[("inside",)] * inside])


def changed_promise(original: GraphText, edited: GraphText, unordered: bool, edited_unordered: bool) -> str | None:
    """What the edited pipeline promises less, or does otherwise, that no comparison of elements shows; None where nothing."""
    if _loose(edited, edited_unordered) - _loose(original, unordered):
        return "its order may change from run to run, that of the original may not"
    if _shuffles(original) != _shuffles(edited):
        return "it does not shuffle as the original does"
    if _chances(original) != _chances(edited):
        return "what is drawn at random is kept from one pass to the next in one of the two, and drawn anew in the other"
    return None


def turns(text: GraphText) -> list[tuple[object, ...]]:
    """For each op that opens several inputs: how many it reads in turn, and how many elements of each at a time. Where
    TensorFlow chooses how many, what that follows from. A flat_map reads one, as does an interleave with a cycle of 1."""
    return sorted(
        (*_depth(body, node), *_turn(body, node))
        for body, node in _datasets(text)
        if kind_of(node.op).removeprefix("Parallel") in _IN_TURN
    )


def _turn(body: Body, node: Any) -> tuple[str, ...]:
    cycle = body.argument(node, "cycle_length")
    if kind_of(node.op) == "FlatMap" or cycle == 1:
        return ("1",)
    chosen_by = (node.op, str(body.argument(node, "num_parallel_calls"))) if cycle in (AUTOTUNE, None) else ()
    return (str(cycle), str(body.argument(node, "block_length")), *chosen_by)


def _depth(body: Body, node: Any) -> tuple[bool, int]:
    """Which op it is: at the top or in a function, and after how many others; what may come and go does not count."""
    return body.function is not None, sum(kind_of(other.op) not in (*_HAND_ON, *KEEPERS) for other in body.upstream(node))


def has_one_order(text: GraphText) -> bool:
    """Whether a pass can come in one order only: nothing is shuffled, with a seed or without, or left to the CPUs of the host."""
    return not _shuffles(text) and not any(str(AUTOTUNE) in turn for turn in turns(text))


def parting(original: GraphText, edited: GraphText, unordered: bool) -> Parting | None:
    """The nodes to compare where order is moot; None where the original promises an order at the first difference."""
    first, second = _working(original.top, original.top.result()), _working(edited.top, edited.top.result())
    behind: tuple[Any, Any] | None = None
    passed: set[str] = set()
    while first is not None and second is not None and _alike(original, first) == _alike(edited, second):
        if len(original.top.datasets_of(first)) != 1 or len(edited.top.datasets_of(second)) != 1:
            break
        passed.add(kind_of(first.op))
        is_shuffle = traits.is_unseeded_shuffle(original.top, first)
        first, second = _working(original.top, original.top.input_of(first)), _working(edited.top, edited.top.input_of(second))
        if is_shuffle and passed <= ONE_BY_ONE | GROUPING and first is not None and second is not None:
            behind = first, second
    if behind is None and first is not None and second is not None and passed <= ONE_BY_ONE | BATCHING:
        pair = ((original.top, first), (edited.top, second))
        behind = (first, second) if all(traits.is_nondeterministic(body, node, unordered) for body, node in pair) else None
    if behind is None:
        return None
    return Parting(original=behind[0].name, edited=behind[1].name, sources=_sources(original, behind[0], edited, behind[1]))


def _sources(original: GraphText, first: Any, edited: GraphText, second: Any) -> tuple[str, str] | None:
    """The nearest pair that is the same pipeline, before both along ops that take each of their elements by itself."""
    others = {_whole_text(edited, node): node.name for node in reversed(_chain(edited, second))}
    for node in _chain(original, first):
        other = others.get(_whole_text(original, node))
        if other is not None:
            return node.name, other
    return None


def _chain(text: GraphText, node: Any) -> list[Any]:
    """The ops before one, the nearest first, as far as a part of what they give can stand for all of it."""
    found: list[Any] = []
    while _is_for_each(text, node) and (node := text.top.input_of(node)) is not None:
        found.append(node)
    return found


def _is_for_each(text: GraphText, node: Any) -> bool:
    """Python is the exception: what it gives may hang on what it was given before."""
    is_one = kind_of(node.op) in _FOR_EACH and len(text.top.datasets_of(node)) == 1
    return is_one and not any(map(traits.is_python, traits.user_nodes(text, node)))


def _datasets(text: GraphText) -> Iterator[tuple[Body, Any]]:
    for body in (text.top, *(text.body_of(name) for name in _reachable(text))):
        for node in body.nodes.values():
            if is_dataset_op(node.op):
                yield body, node


def _reachable(text: GraphText) -> Iterator[str]:
    """Functions that the graph calls; a copy made for an edit leaves its original behind unused."""
    return text.functions_called(name for node in text.top.nodes.values() for name in functions_of(node))


def _loose(text: GraphText, by_default: bool) -> set[tuple[str, int]]:
    """The ops that may give any order: each by its kind, parallel or not, and which of that kind it is."""
    seen: Counter[str] = Counter()
    found = set()
    for body, node in _datasets(text):
        kind = kind_of(node.op).removeprefix("Parallel")
        kind = _PLAIN.get(kind, kind)
        seen[kind] += 1
        if traits.is_nondeterministic(body, node, by_default):
            found.add((kind, seen[kind]))
    return found


def _shuffles(text: GraphText) -> list[tuple[object, ...]]:
    """Each shuffle by what it does."""
    names = ("buffer_size", "seed", "seed2", "count")
    return sorted(
        (kind_of(node.op), node.attr["reshuffle_each_iteration"].b, *(str(body.argument(node, name)) for name in names))
        for body, node in _datasets(text)
        if kind_of(node.op) in SHUFFLES
    )


def _chances(text: GraphText) -> list[tuple[str, int]]:
    """Each op at the top that brings chance, and how many caches its elements pass: those keep what it gave in the first pass."""
    found = []
    for node in text.top.nodes.values():
        if not is_dataset_op(node.op):
            continue
        nodes = list(traits.user_nodes(text, node))
        inner = any(kind_of(other.op) in SHUFFLES and is_dataset_op(other.op) for other in nodes)
        drawn = traits.draws_in(nodes) or ("shuffle inside" if inner else None)
        if drawn is None and kind_of(node.op) in (*SHUFFLES, *traits.NONDETERMINISTIC_SOURCES):
            drawn = kind_of(node.op)
        if drawn is not None:
            found.append((drawn, sum(kind_of(other.op) in KEEPERS for other in text.top.downstream(node))))
    return sorted(found)


def _working(body: Body, node: Any) -> Any:
    """The op itself, or the nearest before it that does more than hand elements on."""
    while node is not None and kind_of(node.op) in _HAND_ON:
        node = body.input_of(node)
    return node


def _alike(text: GraphText, node: Any) -> str:
    """What an op does, without the datasets it reads and whether it works in parallel: in order, that changes no element.
    Python is the exception: what it gives may hang on who is called first."""
    body = text.top
    attributes = [attribute for attribute in _attributes(text, node) if not attribute.startswith(_PACE)]
    if any(map(traits.is_python, traits.user_nodes(text, node))):
        attributes.append(node.op)
    if body.argument(node, "cycle_length") == AUTOTUNE:  # where TensorFlow chooses, the order follows from that
        attributes += _turn(body, node)
    parts = [kind_of(node.op).removeprefix("Parallel"), *attributes]
    for argument, tensors in named_inputs(node).items():
        for tensor in tensors if argument != "num_parallel_calls" else ():
            given = body.nodes.get(node_name(tensor))
            if given is not None and not is_dataset_op(given.op):
                parts.append(_whole_text(text, given))
    return _digest(parts)


def _whole_text(text: GraphText, node: Any) -> str:
    """What an op is and all that it comes from. State of its own (memory of a cache, a generator) counts as none."""
    parts = [_node_text(text, node)]
    pending, seen = [node], {node.name}
    while pending:
        current = pending.pop()
        for name in current.input:
            given = text.top.nodes.get(node_name(name))
            if given is not None and given.name not in seen and not name.startswith("^"):
                seen.add(given.name)
                pending.append(given)
                parts.append(_node_text(text, given))
    return _digest(parts)


def _node_text(text: GraphText, node: Any) -> str:
    from tensorflow.core.framework import types_pb2

    if node.op in ("DummyMemoryCache", "DummySeedGenerator") or node.attr["dtype"].type == types_pb2.DT_RESOURCE:
        return "state"
    return _digest([node.op, *_attributes(text, node)])


def _attributes(text: GraphText, node: Any) -> list[str]:
    found = []
    for key in sorted(node.attr):
        if key in _SILENT:
            continue
        value = node.attr[key]
        if value.HasField("func"):
            found.append(f"{key}={_function_text(text, value.func.name)}")
        elif value.list.func:
            found += [f"{key}={_function_text(text, function.name)}" for function in value.list.func]
        else:
            found.append(f"{key}={value.SerializeToString(deterministic=True).hex()}")
    return found


def _function_text(text: GraphText, name: str) -> str:
    """What a function does, under whatever name."""
    function = text.functions.get(name)
    if function is None:
        return name
    nodes = [f"{node.name} {node.op} {list(node.input)} {_attributes(text, node)}" for node in function.node_def]
    results = [str(sorted(function.ret.items())), *(argument.name for argument in function.signature.input_arg)]
    return _digest([*sorted(nodes), *results])


def _digest(parts: list[str]) -> str:
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()

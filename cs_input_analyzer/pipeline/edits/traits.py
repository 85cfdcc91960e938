"""What the functions of a graph do besides computing: keep state, draw random numbers, call Python. By TensorFlow's registry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from cs_input_analyzer.pipeline.edits.graph_text import Body, GraphText
from cs_input_analyzer.pipeline.graph import functions_of, named_inputs
from cs_input_analyzer.pipeline.op_kinds import (
    BATCHING,
    GROUPING,
    ONE_BY_ONE,
    REPEATS,
    SHUFFLES,
    is_dataset_op,
    kind_of,
    kinds_with,
)
from cs_input_analyzer.pipeline.threads import PYTHON_OPS

# Random ops whose draws follow from attributes `seed` and `seed2`, both 0 where nobody chose a seed -> the same draw without state.
DRAWS = {
    "RandomUniform": "StatelessRandomUniform",
    "RandomUniformInt": "StatelessRandomUniformInt",
    "RandomStandardNormal": "StatelessRandomNormal",
    "TruncatedNormal": "StatelessTruncatedNormal",
    "Multinomial": "StatelessMultinomial",
    "SampleDistortedBoundingBoxV2": "StatelessSampleDistortedBoundingBox",
    "RandomShuffle": "Identity",
}
# Stateful in TensorFlow's registry for what they call or hold, but the same whoever runs first.
_HARMLESS = (
    *("Assert", "LookupTableFindV2", "LookupTableSizeV2", "DummyMemoryCache", "DummySeedGenerator", "HashTableV2"),
    *("PartitionedCall", "StatefulPartitionedCall", "If", "Case", "While", "NoOp", "CheckNumerics", "CheckNumericsV2"),
    *("StatelessRandomGetAlg", "GuaranteeConst", "DeepCopy", "Empty", "IsTensorFloat32Enabled", "DeviceIndex"),
)
_VARIABLES = ("VarHandleOp", "AssignVariableOp", "ReadVariableOp")
NONDETERMINISTIC_SOURCES = kinds_with("python") | {"Random"}


def is_python(node: Any) -> bool:
    return node.op in PYTHON_OPS


def state_in(nodes: Iterable[Any]) -> str | None:
    """The first op with state, named; None where each element gets what it would get alone, in whatever order. Reads of tables
    that cannot change are no state, nor are draws that nobody gave a seed."""
    from tensorflow.python.framework import op_def_registry

    for node in nodes:
        definition = op_def_registry.get(node.op)
        if definition is None:
            return f"a custom op ({node.op})"
        if is_python(node):
            return f"Python ({node.op})"
        if node.op in DRAWS and (node.attr["seed"].i or node.attr["seed2"].i):
            return f"a random op with a seed ({node.op}), whose draws follow each other in order"
        if definition.is_stateful and node.op not in DRAWS and node.op not in _HARMLESS and not is_dataset_op(node.op):
            return f"a stateful op ({node.op})"
    return None


def draws_in(nodes: Iterable[Any]) -> str | None:
    """The first op that draws random numbers; None where there is none."""
    return next((node.op for node in nodes if node.op in DRAWS), None)


def held_state(text: GraphText) -> str | None:
    """State that a graph's functions captured and that may change later: the graph holds a copy of its value of now."""
    for node in text.top.nodes.values():
        if node.op in _VARIABLES:
            return "a variable"
        if node.op.startswith(("MutableHashTable", "MutableDenseHashTable")):
            return f"a table that can change ({node.op})"
    return None


def use_own_state(text: GraphText) -> None:
    """Caches and shuffles of the graph get memory and generators of their own; else they share those of the dataset it is from."""
    for node in list(text.top.nodes.values()):
        for argument, maker in (("cache", "DummyMemoryCache"), ("seed_generator", "DummySeedGenerator")):
            if is_dataset_op(node.op) and len(named_inputs(node).get(argument, [])) == 1:
                text.top.set_argument(node, argument, text.top.tensor(text.top.add(maker, ()).name))


def is_unseeded_shuffle(body: Body, node: Any) -> bool:
    """Whether each run draws another order."""
    return (
        kind_of(node.op) in SHUFFLES
        and body.argument(node, "seed") == 0
        and body.argument(node, "seed2") == 0
        and body.argument(node, "buffer_size") not in (None, 1)
    )


def is_nondeterministic(body: Body, node: Any, by_default: bool) -> bool:
    """Whether the order of an op's elements may change from run to run. `by_default`: what options say where the op does not."""
    if "deterministic" in node.attr:
        said = node.attr["deterministic"].s
        return said == b"false" or (said in (b"", b"default") and by_default)
    if "sloppy" in node.attr:
        return bool(node.attr["sloppy"].b)
    return body.argument(node, "sloppy") is True


def order_is_free(body: Body, node: Any, by_default: bool) -> bool:
    """Whether nobody is promised the order in which an op gives its elements, as far as this body goes. The op may give any
    order by itself, or a shuffle without a seed comes after it, and what lies between gives of each element what it would give
    of it alone. (A shuffle before the op does not do: of the names of files it frees the order of the files, and leaves the
    records of each beside each other.) Behind the shuffle elements may be put into groups, as any may meet there; behind the op
    alone, into batches. What shows which came first, as `take` does, may be nowhere."""
    is_free = is_nondeterministic(body, node, by_default)
    allowed = ONE_BY_ONE | BATCHING if is_free else ONE_BY_ONE
    while len(readers := body.readers_of(node.name)) == 1:
        (node,) = readers
        if node.op == "_Retval":
            return is_free
        if node.op == "Identity" or (kind_of(node.op) == "Concatenate" and not is_free):
            continue
        if len(body.datasets_of(node)) != 1:
            return False
        if is_unseeded_shuffle(body, node):
            is_free, allowed = True, ONE_BY_ONE | GROUPING
        if kind_of(node.op) not in allowed:
            return False
    return is_free and not readers


def user_nodes(text: GraphText, node: Any) -> Iterator[Any]:
    """Every node that an op's functions run."""
    return text.called_by(functions_of(node))


def endless_inside(text: GraphText, node: Any) -> str | None:
    """The first op in an op's functions that repeats without end, or that may; None where there is none."""
    for function in text.functions_called(functions_of(node)):
        body = text.body_of(function)
        for other in body.nodes.values():
            if kind_of(other.op) in REPEATS and is_dataset_op(other.op):
                count = body.argument(other, "count")
                if count is None or count < 0:
                    return str(other.op)
    return None

"""Find side effects of the functions of a graph by TensorFlow's registry: state, random numbers, Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from cs_input_analyzer.tfdata.edits.graph_text import GraphText
from cs_input_analyzer.tfdata.function_ops import STATELESS_TWINS, does
from cs_input_analyzer.tfdata.graph import functions_of, named_inputs
from cs_input_analyzer.tfdata.op_kinds import is_dataset_op, kinds_with

NONDETERMINISTIC_SOURCES = kinds_with("python") | {"Random"}


def state_in(nodes: Iterable[Any]) -> str | None:
    """Return the first op with state, named; None if no element depends on others or on their order.

    Reads of constant tables are no state. Neither are draws without a seed.
    """
    for node in nodes:
        if node.op in STATELESS_TWINS and (node.attr["seed"].i or node.attr["seed2"].i):
            return f"a random op with a seed ({node.op}), whose draws follow each other in order"
        if (state := state_of([node.op])) is not None:
            return state
    return None


def state_of(names: Iterable[str]) -> str | None:
    """Return the first op with state of these names, whatever their seeds."""
    from tensorflow.python.framework import op_def_registry

    for name in names:
        definition = op_def_registry.get(name)
        if definition is None:
            return f"a custom op ({name})"
        if does(name, "python"):
            return f"Python ({name})"
        if definition.is_stateful and name not in STATELESS_TWINS and not does(name, "harmless") and not is_dataset_op(name):
            return f"a stateful op ({name})"
    return None


def held_state(text: GraphText) -> str | None:
    """Return state that a graph's functions captured and that may change later: the graph holds a copy of its present value."""
    for node in text.top.nodes.values():
        if node.op in ("VarHandleOp", "AssignVariableOp", "ReadVariableOp"):
            return "a variable"
        if node.op.startswith(("MutableHashTable", "MutableDenseHashTable")):
            return f"a table that can change ({node.op})"
    return None


def use_own_state(text: GraphText) -> None:
    """Give caches and shuffles their own memory and generators, instead of those of the original dataset."""
    for node in list(text.top.nodes.values()):
        for argument, maker in (("cache", "DummyMemoryCache"), ("seed_generator", "DummySeedGenerator")):
            if is_dataset_op(node.op) and len(named_inputs(node).get(argument, [])) == 1:
                text.top.set_argument(node, argument, text.top.tensor(text.top.add(maker, ()).name))


def user_nodes(text: GraphText, node: Any) -> Iterator[Any]:
    """Return every node that an op's functions run."""
    return text.called_by(functions_of(node))

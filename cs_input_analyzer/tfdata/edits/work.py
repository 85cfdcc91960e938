"""A graph on its way from one pipeline to another, and the preconditions that several kinds of edit share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any

from cs_input_analyzer.records import Edit, Op
from cs_input_analyzer.tfdata.edits import graph_text, traits
from cs_input_analyzer.tfdata.graph import AUTOTUNE, OpPlace, functions_of, node_name
from cs_input_analyzer.tfdata.lineage import is_random_order, order_is_free
from cs_input_analyzer.tfdata.op_kinds import SHUFFLES, kind_of

ORDER_IS_PROMISED = (
    "the order after {} is promised: no shuffle without a seed comes after it, with nothing that shows the order around it"
)
# Attributes of an op with a function that it keeps when it becomes another such op.
FUNCTION_KEPT = ("f", "Targuments", "output_types", "output_shapes", "metadata")


class EditError(Exception):
    """An edit whose precondition does not hold; the message names it."""


@dataclass(slots=True, kw_only=True)
class Work:
    """A graph that is being edited, with the ops as they were. `unordered`: the options allow any order where an op says nothing;
    `private_threads`: of a pool that the dataset's options are to have; `opened`: bodies of functions, by their holders."""

    text: graph_text.GraphText
    ops: Sequence[Op]
    places: Mapping[str, OpPlace]
    unordered: bool
    private_threads: int | None = None
    opened: dict[tuple[str, str], graph_text.Body] = field(default_factory=dict)

    def find(self, op: str) -> tuple[graph_text.Body, Any]:
        """Return an op's node, in a body that may be changed."""
        place = self.places.get(op)
        if place is None:
            raise EditError(f"the pipeline has no op {op} that can be edited")
        if place.function is None:
            return self.text.top, self.text.top.nodes[place.node]
        if place.within is None:
            raise EditError(f"{op} is inside a function that the graph calls (a tf.function)")
        _, holder = self.find(place.within)
        known = self.opened.get((place.within, place.function))
        if known is None:
            if place.function not in functions_of(holder):
                raise EditError(f"{op} is inside a function that the function of {place.within} calls")
            known = self.opened[place.within, place.function] = self.text.own_copy(place.function)
            graph_text.rename_functions(holder, {place.function: known.function.signature.name})
        return known, known.nodes[place.node]

    def op(self, name: str) -> Op:
        return next(op for op in self.ops if op.name == name)

    def order_is_moot(self, op: str) -> bool:
        return order_is_free(self.op(op), self.ops, self.unordered)


def number_of(edit: Edit) -> int:
    if edit.value is not None and edit.value < 1:
        raise EditError(f"{edit.kind} needs 1 or more, not {edit.value}")
    return AUTOTUNE if edit.value is None else edit.value


def set_number(body: graph_text.Body, node: Any, argument: str, value: int) -> None:
    """Keep the type: old versions of some ops take 32 bits."""
    from tensorflow.core.framework import types_pb2
    from tensorflow.python.framework import op_def_registry

    types = {given.name: given.type for given in op_def_registry.get(node.op).input_arg}
    body.set_argument(node, argument, body.constant(value, types[argument] or types_pb2.DT_INT64))


def become(body: graph_text.Body, node: Any, op: str, inputs: Sequence[str], kept: Sequence[str]) -> None:
    """Turn the node into another op, which keeps the order, under its name."""
    from tensorflow.core.framework import node_def_pb2

    new = node_def_pb2.NodeDef(name=node.name, op=op, input=list(inputs), device=node.device)
    for key in kept:
        if key in node.attr:
            new.attr[key].CopyFrom(node.attr[key])
    new.attr["deterministic"].s = b"true"
    body.nodes[node.name] = new


def inputs_with(node: Any, *more: str) -> list[str]:
    """Return inputs with more of them behind, and what only orders stays last, as TensorFlow wants it."""
    given = list(node.input)
    return [*(name for name in given if not name.startswith("^")), *more, *(name for name in given if name.startswith("^"))]


def insert_after(body: graph_text.Body, node: Any, op: str, inputs: Sequence[str]) -> None:
    """Add an op that hands on the elements of `node` to all who read from it."""
    given = elements_given(node)
    new = body.add(op, [body.tensor(node.name), *inputs])
    graph_text.set_elements(new, given)
    body.redirect(node.name, body.tensor(new.name), keep=[new.name])


def elements_given(node: Any) -> graph_text.Elements:
    if not graph_text.says_elements(node):
        raise EditError(f"TensorFlow does not say what elements {kind_of(node.op)} gives")
    return graph_text.elements_of(node)


def elements_before(body: graph_text.Body, node: Any) -> graph_text.Elements:
    """Return the elements that an op takes."""
    source = body.input_of(node)
    if source is None:
        raise EditError("what it reads comes from outside its function")
    return elements_given(source)


def exchange(body: graph_text.Body, first: Any, second: Any, *, first_between: Any = None) -> None:
    """Exchange two ops: who read from the second now reads from the first. `first_between`: the op that reads from
    the first, where others stand between the two; it takes its place."""
    head = first_between if first_between is not None else second
    head.input[0], source = first.input[0], head.input[0]
    body.redirect(second.name, source, keep=[first.name])
    first.input[0] = body.tensor(second.name)


def refuse_state(work: Work, op: str, node: Any, what: str) -> None:
    state = traits.state_in(traits.user_nodes(work.text, node))
    if state is not None:
        raise EditError(f"the function of {op} calls {state}, so it cannot {what}")


def refuse_unrepeatable(op: str, others: Iterable[Op]) -> None:
    """Refuse a cache behind ops that may give something else in another pass: it keeps the first one."""
    for other in others:
        if other.kind.startswith(("DataService", "Random", "Generator")):
            raise EditError(f"a cache after {op} would keep what {other.kind} gave in the first pass; the next may give another")
        drawn = next((name for name in other.function_ops if name in traits.DRAWS), None) or traits.state_of(other.function_ops)
        if drawn is not None:
            raise EditError(f"a cache after {op} would freeze what {drawn} gave in the first pass")
        if other.kind in SHUFFLES and (other.within or is_random_order(other) or other.parameters.get("reshuffle_each_iteration")):
            raise EditError(f"a cache after {op} would freeze the order of the shuffle before it")


def refuse_several_readers(body: graph_text.Body, node: Any) -> None:
    if len(body.readers_of(node.name)) != 1:
        raise EditError(f"more than one op reads from the {kind_of(node.op)} before it")


def refuse_cycle(body: graph_text.Body) -> None:
    """Refuse a graph that cannot be run: TensorFlow's order of stateful ops may contradict the new order of the data."""
    needed = {name: map(node_name, node.input) for name, node in body.nodes.items()}
    try:
        TopologicalSorter(needed).prepare()
    except CycleError:
        raise EditError("TensorFlow wants them to be made in this order") from None

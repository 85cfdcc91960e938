"""Hold a graph during its edit, and check the preconditions that several kinds of edit share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any

from cs_input_analyzer.records import Op
from cs_input_analyzer.tfdata.edits import graph_text, traits
from cs_input_analyzer.tfdata.graph import OpPlace, functions_of, node_name
from cs_input_analyzer.tfdata.lineage import order_is_free
from cs_input_analyzer.tfdata.op_kinds import kind_of


class EditError(Exception):
    """Report an edit whose precondition does not hold. The message names it."""


@dataclass(slots=True, kw_only=True)
class Work:
    """Hold a graph that is being edited, with the original ops.

    Attributes:
        unordered: whether the options allow any order if an op does not decide.
        private_threads: threads of the private pool that the dataset's options will have.
        opened: bodies of functions, by their holders.
    """

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
        """Return an op by its name. Raise EditError if there is none."""
        return next(op for op in self.ops if op.name == name)

    def order_is_moot(self, op: str) -> bool:
        """Return whether nobody is promised the order of an op's elements."""
        return order_is_free(self.op(op), self.ops, self.unordered)


def elements_given(node: Any) -> graph_text.Elements:
    """Return the elements of an op. Raise EditError if their types are unknown."""
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
    """Exchange two ops: readers of the second now read from the first.

    `first_between`: the op that reads from the first, if others stand between the two. It takes the place of the first.
    """
    head = first_between if first_between is not None else second
    head.input[0], source = first.input[0], head.input[0]
    body.redirect(second.name, source, keep=[first.name])
    first.input[0] = body.tensor(second.name)


def refuse_state(work: Work, op: str, node: Any, what: str) -> None:
    """Raise EditError if the functions of an op keep state."""
    state = traits.state_in(traits.user_nodes(work.text, node))
    if state is not None:
        raise EditError(f"the function of {op} calls {state}, so it cannot {what}")


def refuse_several_readers(body: graph_text.Body, node: Any) -> None:
    """Raise EditError if more than one op reads from the node."""
    if len(body.readers_of(node.name)) != 1:
        raise EditError(f"more than one op reads from the {kind_of(node.op)} before it")


def refuse_cycle(body: graph_text.Body) -> None:
    """Refuse a graph that cannot be run: TensorFlow's order of stateful ops may contradict the new order of the data."""
    needed = {name: map(node_name, node.input) for name, node in body.nodes.items()}
    try:
        TopologicalSorter(needed).prepare()
    except CycleError:
        raise EditError("TensorFlow wants them to be made in this order") from None

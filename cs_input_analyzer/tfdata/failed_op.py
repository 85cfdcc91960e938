"""Find the user's op whose function failed, by the words of TensorFlow's error.

TensorFlow names the iterators from the root to the failed one, or only a node of the function. It may have merged or added ops
before. Nothing is named unless one op alone fits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from cs_input_analyzer.records import Op
from cs_input_analyzer.tfdata.graph import graph_def_of, reader_of
from cs_input_analyzer.tfdata.graph.nodes import functions_of, reached_from
from cs_input_analyzer.tfdata.matching import taken_by
from cs_input_analyzer.tfdata.op_kinds import HOLDS, TRANSFORMS, kinds_with, method_of
from cs_input_analyzer.tfdata.threads import results_of

# At the start of a message, behind TensorFlow's names of nodes.
_ITERATORS = re.compile(
    r"(?:\{\{\w+ [^}]*\}\}\s*)*Error in user-defined function passed to (?P<passed_to>[^\n]{0,300}?) transformation "
    r"with iterator: Iterator::Root::(?P<path>\S+): "
)
_NODE = re.compile(r"\[\[(?:\{\{function_node [^}]*\}\})?\{\{node ([^}]+)\}\}\]\]")
_STEP = re.compile(r"(\w+)(?:\[(\d+)\])?")
# The methods of iterators that TensorFlow adds by itself.
_ADDED = ("prefetch", "max_intra_op_parallelism", "private_thread_pool", "model", "finalize")
# Settings that let TensorFlow merge the functions of several ops.
_MERGES = re.compile(r"\b(?:map|filter|map_and_filter)_fusion$")
_MERGED = TRANSFORMS | kinds_with("filter")
# The place of the input that the path counts as 0.
_FIRST_INPUT = {"Zip": 0, "Concatenate": 0, "DirectedInterleave": 1}

_Step = tuple[str, int | None]


def failed_op(message: str, dataset: Any, ops: Sequence[Op]) -> Op | None:
    """Return the op whose function raised an error with this message; None if several or none may have."""
    nodes = [name for name in _NODE.findall(message) if not name.endswith("IteratorGetNext")]
    found = holders = _holders(nodes, dataset) if nodes else set[str]()
    named = _ITERATORS.match(message)
    if named is not None:
        merges = named["passed_to"].startswith("fused(") or _may_merge(ops)
        at_end = _at_end(_steps(named["path"]), ops, merges)
        found = at_end & holders if at_end and holders else at_end or holders
    return next((op for op in ops if {op.name} == found), None)


def _may_merge(ops: Sequence[Op]) -> bool:
    """Return whether the options let TensorFlow merge functions."""
    return any(value and _MERGES.search(key) for op in ops for key, value in op.parameters.items())


def _steps(path: str) -> list[_Step]:
    """Return the name and index of each iterator of a path, from the consumer on."""
    named = [(_STEP.fullmatch(text), text) for text in path.split("::")]
    return [(step[1], int(step[2]) if step[2] else None) if step else (text, None) for step, text in named]


def _at_end(steps: Sequence[_Step], ops: Sequence[Op], merges: bool) -> set[str]:
    """Return the names of all ops that the last iterator of a path may be.

    Args:
        steps: the path, from the consumer on.
        ops: sources first.
        merges: whether one iterator may stand for several functions.
    """
    by_name = {op.name: op for op in ops}
    found: set[str] = set()
    pending = [(0, op.name) for op in ops[-1:]]
    seen = set(pending)
    while pending:
        at, name = pending.pop()
        if at == len(steps) or name not in by_name:
            continue
        op, (step, index) = by_name[name], steps[at]
        chain = [op, *(by_name[one] for one in op.inputs if len(op.inputs) == 1)]
        taken = chain[: taken_by(step, [method_of(one.kind) for one in chain])]
        following = [(at + 1, below) for below in (_below(taken[-1], index, ops) if taken else ())]
        if taken and at == len(steps) - 1:
            found |= {one.name for one in taken}
        if method_of(step) in _ADDED:
            following.append((at + 1, name))
        # TensorFlow leaves out ops that do nothing, such as a map that returns its argument.
        if len(op.inputs) == 1 and op.kind not in HOLDS and (not op.function_ops or (merges and op.kind in _MERGED)):
            following.append((at, op.inputs[0]))
        pending += [place for place in following if place not in seen]
        seen.update(following)
    return found


def _below(op: Op, index: int | None, ops: Sequence[Op]) -> list[str]:
    """Return the ops that the next iterator may be. An index picks one input, or the dataset of the op's function."""
    if index is not None and op.kind in HOLDS:
        return [other.name for other in results_of(op, ops)]
    if index is None or op.kind not in _FIRST_INPUT:
        return list(op.inputs)
    return [name for place, name in enumerate(op.inputs) if place == index + _FIRST_INPUT[op.kind]]


def _holders(nodes: Sequence[str], dataset: Any) -> set[str]:
    """Return the names of the ops whose functions hold a node of one of these names. A node counts for the innermost op."""
    reader = reader_of(graph_def_of(dataset))
    bodies = {name: function.node_def for name, function in reader.functions.items()}
    inner = {(place.function, place.node) for place in reader.places.values()}

    def called(name: str) -> list[str]:
        own = (node for node in bodies.get(name, ()) if (name, node.name) not in inner)
        return [function for node in own for function in functions_of(node)]

    def holds(op: Any) -> bool:
        own = (node.name for name in reached_from(functions_of(op), called) for node in bodies.get(name, ()))
        return any(name == node or name.endswith(f"/{node}") for node in own for name in nodes)

    return {name for name, op in reader.nodes.items() if holds(op)}

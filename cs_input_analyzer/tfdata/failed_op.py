"""Find the user's op that failed, by the words of TensorFlow's error.

If a function failed, TensorFlow names the iterators from the root to it, or only a node. It may have merged or added ops before. If
an op failed by itself, TensorFlow names no op, but only one kind of op writes such a message. An op is named only if no other fits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from cs_input_analyzer.records import Op
from cs_input_analyzer.tfdata.graph import graph_def_of, reader_of, shapes_of
from cs_input_analyzer.tfdata.graph.nodes import functions_of, reached_from
from cs_input_analyzer.tfdata.graph.ops import Reader
from cs_input_analyzer.tfdata.matching import taken_by
from cs_input_analyzer.tfdata.op_kinds import BATCHING, FILE_READERS, HOLDS, TRANSFORMS, kinds_with, method_of
from cs_input_analyzer.tfdata.threads import reader_ops, results_of

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
# What ops say of their own, without a function -> the kinds of op that say it. Other kinds in a list may say it, too.
_SAID_BY = tuple(
    (re.compile(words), frozenset(kinds))
    for words, kinds in (
        (r"Cannot batch tensors with different shapes in component \d+\. First element had shape \[(?P<shape>[\d,]*)\]", BATCHING),
        (r"Cannot add tensor to the batch: .*\[tensor\]: \[(?P<shape>[\d,]*)\]", BATCHING),
        (r"Attempted to pad to a smaller size|must have the same rank as the padded shape", {"PaddedBatch"}),
        (r"Input element must have (?:the same batch size|a non-scalar value) in each component", {"Unbatch"}),
        (r"(?:corrupted|truncated) record at \d+", FILE_READERS - {"TextLine", "FixedLengthRecord", "CSV", "LMDB", "Sql"}),
        (r"not an exact multiple of the record length", {"FixedLengthRecord"}),
        (r"Field \d+ in record|Expect \d+ fields but have|[Qq]uoted field", {"CSV"}),
        (r"could not be found\.|Data types don't match|[Cc](?:ould not|an't) parse .*[Ee]xample", {"ParseExample"}),
    )
)
_READ = re.compile(r"inflate\(\) failed|; (?:No such file or directory|Permission denied|Is a directory|Input/output error)")
# They read files, too, which are not the user's data.
_READS_OWN = frozenset({"Cache", "MatchingFiles"})

_Step = tuple[str, int | None]


def failed_op(message: str, dataset: Any, ops: Sequence[Op]) -> Op | None:
    """Return the op that raised an error with this message; None if several or none may have."""
    nodes = [name for name in _NODE.findall(message) if not name.endswith("IteratorGetNext")]
    named, reader = _ITERATORS.match(message), reader_of(graph_def_of(dataset))
    if named is None and not nodes:
        found = _sayers(message, reader)
    else:
        found = holders = _holders(nodes, reader) if nodes else set[str]()
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


def _sayers(message: str, reader: Reader) -> set[str]:
    """Return the names of the ops that may have said this of their own."""
    if _READ.search(message):
        return {op.name for op in (*reader_ops(reader.ops), *(op for op in reader.ops if op.kind in _READS_OWN))}
    said, kinds = next(((said, kinds) for words, kinds in _SAID_BY if (said := words.search(message))), (None, frozenset[str]()))
    found = [op for op in reader.ops if op.kind in kinds]
    if said is not None and "shape" in said.groupdict():
        rank = len(list(filter(None, said["shape"].split(","))))
        found = [op for op in found if _may_take(op, rank, reader)]
    return {op.name for op in found}


def _may_take(op: Op, rank: int, reader: Reader) -> bool:
    """Return whether an op may have got a tensor of this rank. A function may have said a wrong size, and seldom a wrong rank."""
    if op.kind in TRANSFORMS or len(op.inputs) != 1:
        return True
    return any(shape is None or len(shape) == rank for shape in shapes_of(reader.nodes[op.inputs[0]]))


def _holders(nodes: Sequence[str], reader: Reader) -> set[str]:
    """Return the names of the ops whose functions hold a node of one of these names. A node counts for the innermost op."""
    bodies = {name: function.node_def for name, function in reader.functions.items()}
    inner = {(place.function, place.node) for place in reader.places.values()}

    def called(name: str) -> list[str]:
        own = (node for node in bodies.get(name, ()) if (name, node.name) not in inner)
        return [function for node in own for function in functions_of(node)]

    def holds(op: Any) -> bool:
        own = (node.name for name in reached_from(functions_of(op), called) for node in bodies.get(name, ()))
        return any(name == node or name.endswith(f"/{node}") for node in own for name in nodes)

    return {name for name, op in reader.nodes.items() if holds(op)}

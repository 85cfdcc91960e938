"""Match each node of TensorFlow's model of a running iterator with the user's ops.

The model shows the pipeline after TensorFlow's optimizations: ops merged, left out, added, renamed. So a chain of nodes is laid
along a chain of ops such that most ops are covered. A node without an op belongs to nobody. An op without a node was merged or not
seen.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from cs_input_analyzer.records import Op
from cs_input_analyzer.tfdata.op_kinds import HOLDS, TRANSFORMS, kind_of, kinds_with, method_of
from cs_input_analyzer.tfdata.op_traits import chain_before
from cs_input_analyzer.tfdata.threads import results_of

# A node that does the work of several ops -> their methods, from the consumer on.
_FUSED = {
    "map_and_batch": ("batch", "map"),
    "shuffle_and_repeat": ("repeat", "shuffle"),
    "map_and_filter": ("filter", "map"),
    "filter_and_map": ("map", "filter"),
    "parse_example": ("map",),
}
# Of several ops, these bear the cost.
_COSTLY = ("map", "shuffle")
_RENAMED = (
    (re.compile(r"^(forever|finite|empty)_repeat$"), "repeat"),
    (re.compile(r"^(memory|file)_cache(_impl)?$|^(file|memory)_(reader|writer)$"), "cache"),
    (re.compile(r"^(finite|forever|empty)_(take|skip)$"), r"\2"),
    (re.compile(r"^shuffle_(?!and_repeat).*$"), "shuffle"),
)
# TensorFlow can make one op of neighbours of these kinds (`map_fusion`, `filter_fusion`), which then has no name of its own.
_MERGING = TRANSFORMS | kinds_with("filter")


@dataclass(frozen=True, slots=True)
class Match:
    """Hold the op that bears a node's cost, the op nearest the consumer that the node stands for, and its other ops.

    `absent`: ops between this one and the next with a node. TensorFlow left them out because they did nothing.
    """

    owner: str
    head: str
    merged: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


def match_nodes(model: Any, ops: Sequence[Op]) -> dict[int, Match]:
    """Return the match of each node of a ModelProto, by id. Leave out nodes that TensorFlow added."""
    by_name = {op.name: op for op in ops}
    top = [op for op in ops if op.within is None]
    matches: dict[int, Match] = {}
    pending: list[tuple[int, tuple[str, ...]]] = [(model.output, (top[-1].name,))] if top else []
    while pending:
        start, heads = pending.pop()
        segment = _segment(start, model.nodes)
        if not segment:
            continue
        names = tuple(model.nodes[identity].name for identity in segment)
        # Options, the head of a pipeline that has some, are no iterators.
        chains = [[op for op in (by_name[head], *chain_before(by_name[head], ops)) if op.kind != "Options"] for head in heads]
        laid = [_laid(names, tuple((op.name, op.kind) for op in chain)) for chain in chains]
        best = max(range(len(laid)), key=lambda place: laid[place][0], default=None)  # the first of the best
        below = heads
        if best is not None and laid[best][0]:
            _, deepest, found = laid[best]
            matches |= {segment[place]: match for place, match in found}
            below = (*chains[best][deepest].inputs, *(other.name for other in results_of(chains[best][deepest], ops)))
        inputs = model.nodes[segment[-1]].inputs
        for index, child in enumerate(inputs):
            # An input of a join (zip, concatenate) is tried against its own head first.
            own = below[index : index + 1] if len(inputs) == len(below) else ()
            pending.append((child, tuple(dict.fromkeys((*own, *below)))))
    return matches


def _segment(start: int, nodes: Any) -> list[int]:
    """Return the node and its inputs, up to the first that has several or whose inputs may be in its function."""
    found: list[int] = []
    identity: int | None = start
    while identity is not None and identity in nodes and identity not in found:
        found.append(identity)
        node = nodes[identity]
        is_open = kind_of(node.name) in HOLDS
        identity = node.inputs[0] if len(node.inputs) == 1 and not is_open else None
    return found


@lru_cache(maxsize=4096)
def _laid(nodes: tuple[str, ...], chain: tuple[tuple[str, str], ...]) -> tuple[int, int, tuple[tuple[int, Match], ...]]:
    """Return the best way to lay a chain of nodes along a chain of ops (name and kind), both from the consumer on.

    It covers most ops. Return the covered number, the place of the deepest op, and the match of each node by its place.
    """
    methods = [method_of(kind) for _, kind in chain]
    # covered[i][j]: the most that the nodes from i on cover of the ops from j on.
    covered = [[0] * (len(chain) + 1) for _ in range(len(nodes) + 1)]
    for i in range(len(nodes) - 1, -1, -1):
        for j in range(len(chain) - 1, -1, -1):
            taken, worth = _taken(nodes[i], methods, j)
            covered[i][j] = max(covered[i + 1][j], covered[i][j + 1], worth + covered[i + 1][j + taken] if taken else 0)
    matches: list[tuple[int, Match]] = []
    i = j = deepest = 0
    while i < len(nodes) and j < len(chain):
        taken, worth = _taken(nodes[i], methods, j)
        if taken and covered[i][j] == worth + covered[i + 1][j + taken]:
            if matches and j > deepest + 1 and i == matches[-1][0] + 1:  # an unknown node between them may be theirs
                matches[-1] = matches[-1][0], _with_between(matches[-1][1], chain, deepest, j)
            covers = chain[j : j + taken]
            owner = next((name for name, kind in covers if method_of(kind) in _COSTLY), covers[0][0])
            matches.append((i, Match(owner, covers[0][0], tuple(name for name, _ in covers if name != owner))))
            deepest = j + taken - 1
            i, j = i + 1, j + taken
        elif covered[i][j] == covered[i + 1][j]:
            i += 1
        else:
            j += 1
    return covered[0][0], deepest, tuple(matches)


def _taken(node: str, methods: Sequence[str], at: int) -> tuple[int, int]:
    """Return the number of ops from `at` on that the node stands for, and its worth: half if only a part of it has an op."""
    method = _method(node)
    parts = _FUSED.get(method, ())
    if parts and tuple(methods[at : at + len(parts)]) == parts:
        return len(parts), 2 * len(parts)
    return (1, 2) if methods[at] == method else (int(methods[at] in parts), 1)


def taken_by(node: str, methods: Sequence[str]) -> int:
    """Return the number of ops, of these methods from the consumer on, that a node stands for; 0 if it is none of them."""
    return _taken(node, methods, 0)[0] if methods else 0


def _with_between(match: Match, chain: Sequence[tuple[str, str]], above: int, below: int) -> Match:
    """Return a match with the ops between it and the next one that has a node: TensorFlow merged them, or left them out."""
    between = chain[above + 1 : below]
    names = tuple(name for name, _ in between)
    if chain[above][1] in _MERGING and all(kind in _MERGING for _, kind in between):
        return replace(match, merged=(*match.merged, *names))
    return replace(match, absent=names)


def _method(node: str) -> str:
    """Return the method of the op that a node is named after."""
    method = method_of(kind_of(node))
    for pattern, replacement in _RENAMED:
        method = pattern.sub(replacement, method)
    return method

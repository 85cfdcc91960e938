"""Tells a look at the data from a training: a script that builds its model from the shape of one element needs that element."""

from __future__ import annotations

import ast
import linecache

__all__ = ["MOST_LOOKED_AT", "is_one_look"]

# A script that takes so many elements at most, by `take`, looks at them; one that takes more trains on them.
MOST_LOOKED_AT = 8
_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def is_one_look(source: str) -> bool:
    """Whether the statement at `path:line` takes one element and stands in no loop.

    That is `name = next(iter(dataset))`, `next(dataset.as_numpy_iterator())`, or a part of these, or a loop over the dataset that
    breaks in its first round.
    """
    path, _, line = source.rpartition(":")
    if not line.isdigit():
        return False
    try:
        nodes = list(ast.walk(ast.parse("".join(linecache.getlines(path)))))
    except (SyntaxError, ValueError):
        return False
    here = [node for node in nodes if getattr(node, "lineno", 0) <= int(line) <= (getattr(node, "end_lineno", 0) or 0)]
    loops = [node for node in here if isinstance(node, _LOOPS)]
    if len(loops) == 1 and isinstance(loops[0], ast.For):
        begins = loops[0].lineno <= int(line) <= (loops[0].iter.end_lineno or 0)
        return begins and any(isinstance(statement, ast.Break) for statement in loops[0].body)
    return not loops and any(isinstance(node, ast.Assign | ast.AnnAssign) and _is_look(node.value) for node in here)


def _is_look(value: ast.expr | None) -> bool:
    while isinstance(value, ast.Subscript | ast.Attribute):
        value = value.value
    if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "next" and len(value.args) == 1):
        return False
    taken = value.args[0]
    if not isinstance(taken, ast.Call):
        return False
    is_iter = isinstance(taken.func, ast.Name) and taken.func.id == "iter" and len(taken.args) == 1
    return is_iter or (isinstance(taken.func, ast.Attribute) and taken.func.attr == "as_numpy_iterator")

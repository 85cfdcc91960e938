"""Tells a look at the data from a training: a script that builds its model from the shape of one element needs that element."""

from __future__ import annotations

import ast
import linecache
from typing import TypeGuard

__all__ = ["is_one_look"]

_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def is_one_look(source: str) -> bool:
    """Whether the statement at `path:line` is `name = next(iter(dataset))`, or a part of that, and stands in no loop."""
    path, _, line = source.rpartition(":")
    if not line.isdigit():
        return False
    try:
        nodes = list(ast.walk(ast.parse("".join(linecache.getlines(path)))))
    except (SyntaxError, ValueError):
        return False
    here = [node for node in nodes if getattr(node, "lineno", 0) <= int(line) <= (getattr(node, "end_lineno", 0) or 0)]
    is_in_loop = any(isinstance(node, _LOOPS) for node in here)
    return not is_in_loop and any(isinstance(node, ast.Assign | ast.AnnAssign) and _is_look(node.value) for node in here)


def _is_look(value: ast.expr | None) -> bool:
    while isinstance(value, ast.Subscript | ast.Attribute):
        value = value.value
    return _is_call(value, "next") and _is_call(value.args[0], "iter")


def _is_call(value: ast.expr | None, name: str) -> TypeGuard[ast.Call]:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == name and len(value.args) == 1

"""What the user's source shows at a line: a peek at one element, which is no training, or an import that may fail."""

from __future__ import annotations

import ast
import linecache

_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_CATCHING = ("ImportError", "ModuleNotFoundError", "Exception", "BaseException")


def is_shape_peek(source: str) -> bool:
    """Whether the statement at `path:line` takes one element and stands in no loop: a script builds its model by the shape of
    one. That is `name = next(iter(dataset))`, `next(dataset.as_numpy_iterator())`, or a part of these, or a loop over the
    dataset that breaks in its first round."""
    path, _, line = source.rpartition(":")
    if not line.isdigit():
        return False
    here = [node for node in _nodes(path) if getattr(node, "lineno", 0) <= int(line) <= (getattr(node, "end_lineno", 0) or 0)]
    loops = [node for node in here if isinstance(node, _LOOPS)]
    if len(loops) == 1 and isinstance(loops[0], ast.For):
        begins = loops[0].lineno <= int(line) <= (loops[0].iter.end_lineno or 0)
        return begins and any(isinstance(statement, ast.Break) for statement in loops[0].body)
    return not loops and any(isinstance(node, ast.Assign | ast.AnnAssign) and _takes_first(node.value) for node in here)


def expects_import_error(path: str, line: int) -> bool:
    """Whether the statement is in a `try` that goes on in another way where an import fails."""
    return any(
        isinstance(node, ast.Try)
        and any(tried.lineno <= line <= (tried.end_lineno or 0) for tried in node.body)
        and any(_catches_import_error(handler.type) for handler in node.handlers)
        for node in _nodes(path)
    )


def _nodes(path: str) -> list[ast.AST]:
    """The syntax tree of a file as a list; empty where it cannot be read."""
    try:
        return list(ast.walk(ast.parse("".join(linecache.getlines(path)))))
    except (SyntaxError, ValueError):
        return []


def _takes_first(value: ast.expr | None) -> bool:
    while isinstance(value, ast.Subscript | ast.Attribute):
        value = value.value
    if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "next" and len(value.args) == 1):
        return False
    taken = value.args[0]
    if not isinstance(taken, ast.Call):
        return False
    is_iter = isinstance(taken.func, ast.Name) and taken.func.id == "iter" and len(taken.args) == 1
    return is_iter or (isinstance(taken.func, ast.Attribute) and taken.func.attr == "as_numpy_iterator")


def _catches_import_error(caught: ast.expr | None) -> bool:
    if caught is None:
        return True
    kinds = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(isinstance(kind, ast.Name | ast.Attribute) and ast.unparse(kind).rpartition(".")[2] in _CATCHING for kind in kinds)

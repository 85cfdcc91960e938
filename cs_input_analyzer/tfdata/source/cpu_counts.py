"""Calculate what an expression in the user's file would be on a node of another number of CPUs."""

from __future__ import annotations

import ast
import linecache
import math
from collections.abc import Iterator
from typing import Any

from cs_input_analyzer.tfdata.source.statements import statements

_KNOWN = {"abs": abs, "dict": dict, "float": float, "int": int, "len": len, "math": math, "max": max, "min": min, "round": round}


def number_on(cpus: int, expression: str, source: str) -> int | None:
    """Return the number that an expression at `path:line` is on a node of this number of CPUs.

    Return None if it is no whole number, or if the file does not tell it. A name has the value that its file assigns to it.
    """
    try:
        code = ast.parse(f"({expression}\n)", mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    text = "".join(linecache.getlines(source.rpartition(":")[0]))
    found = _Names(cpus, text).value_of(code.body)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


class _Names(dict[str, Any]):
    """Hold the names and attributes of a file with their values, which are calculated when they are asked for."""

    def __init__(self, cpus: int, text: str) -> None:
        super().__init__(_KNOWN)
        # Functions of Python and psutil that give the CPUs of the host or of the process.
        self["cpu_count"] = self["process_cpu_count"] = lambda *_, **__: cpus
        self["sched_getaffinity"] = lambda *_: range(cpus)
        self._assigned: dict[str, list[ast.expr]] = {}
        for name, value in _assignments(text):
            self._assigned.setdefault(name, []).append(value)

    def value_of(self, node: ast.expr) -> Any:
        """Return the value of an expression, which has no effect as it calls no function but those that are known."""
        try:
            return eval(compile(ast.Expression(node), "", "eval"), {"__builtins__": {}}, self)
        except Exception:
            return _Unknown(self)

    def __missing__(self, name: str) -> Any:
        self[name] = _Unknown(self)  # an assignment of the name to itself tells no value
        values = [self.value_of(node) for node in self._assigned.get(name, ())]
        known = [value for value in values if value is not None and not isinstance(value, _Unknown)]
        if known and all(value == known[0] for value in known):
            self[name] = known[0]
        return self[name]


class _Unknown:
    """Stand for a value that is not known. It is false, so that `threads or os.cpu_count()` is the number of CPUs."""

    def __init__(self, names: _Names) -> None:
        self._names = names

    def __getattr__(self, name: str) -> Any:
        return self._names[name]

    def __bool__(self) -> bool:
        return False

    def __call__(self, *_: Any, **__: Any) -> _Unknown:
        return self

    def get(self, _: Any, default: Any = None) -> Any:
        """Return the default of a mapping that is not known, as `params`."""
        return default


def _assignments(text: str) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names and attributes that a file assigns, and the parameters with a default, each with its value."""
    for node in statements(text):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((one.id, node.value) for one in targets if isinstance(one, ast.Name))
            yield from ((one.attr, node.value) for one in targets if isinstance(one, ast.Attribute))
        elif isinstance(node, ast.FunctionDef):
            last_first = zip(reversed(node.args.args), reversed(node.args.defaults), strict=False)
            by_name = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            yield from ((one.arg, value) for one, value in (*last_first, *by_name) if value is not None)

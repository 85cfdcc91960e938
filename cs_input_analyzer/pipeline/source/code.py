"""Small edits of a user's statement: another argument, one more call in a chain of calls, one less, two exchanged.

Every edit goes by Python's own syntax tree, so strings, comments and statements over several lines come out as they were. All
take the statement as `Op.code` holds it and give the changed text, or None where they are not sure: where the statement cannot be
parsed, the call is not in it, or is in it more than once and `nth` does not say which (0 is the first to be made).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

AUTOTUNE = "tf.data.AUTOTUNE"
# Names by which modules of TensorFlow are called.
_MODULES = frozenset({"tf", "tensorflow", "tfds", "experimental"})

# Parameters of tf.data's methods by position (TensorFlow 2.18 to 2.21).
_POSITIONS: dict[str, tuple[str, ...]] = {
    "map": ("map_func", "num_parallel_calls", "deterministic"),
    "interleave": ("map_func", "cycle_length", "block_length", "num_parallel_calls", "deterministic"),
    "flat_map": ("map_func",),
    "filter": ("predicate",),
    "batch": ("batch_size", "drop_remainder", "num_parallel_calls", "deterministic"),
    "padded_batch": ("batch_size", "padded_shapes", "padding_values", "drop_remainder"),
    "shuffle": ("buffer_size", "seed", "reshuffle_each_iteration"),
    "prefetch": ("buffer_size",),
    "cache": ("filename",),
    "repeat": ("count",),
    "take": ("count",),
    "skip": ("count",),
    "shard": ("num_shards", "index"),
    "list_files": ("file_pattern", "shuffle", "seed"),
    "TFRecordDataset": ("filenames", "compression_type", "buffer_size", "num_parallel_reads"),
    "TextLineDataset": ("filenames", "compression_type", "buffer_size", "num_parallel_reads"),
}


def count_calls(code: str | None, method: str) -> int:
    """How often the statement calls `method`; 0 where it cannot be parsed."""
    statement = _parse(code)
    return len(statement.calls(method)) if statement else 0


def argument_of(code: str | None, method: str, name: str, *, nth: int | None = None) -> str | None:
    """The text of an argument as the user wrote it; None where it is not given."""
    statement, call = _find(code, method, nth)
    if statement is None or call is None:
        return None
    given = _argument(call, method, name)
    return statement.text_of(given) if given is not None else None


def with_argument(code: str | None, method: str, name: str, value: str, *, nth: int | None = None) -> str | None:
    """The call of `method` with `name=value`: replaces what was given, by keyword or by position, else adds a keyword.

    `ds.map(f)` -> `ds.map(f, num_parallel_calls=tf.data.AUTOTUNE)`. None also where `*args` or `**kwargs` may hold it already.
    """
    statement, call = _find(code, method, nth)
    if statement is None or call is None or _takes_unknown_arguments(call):
        return None
    given = _argument(call, method, name)
    if given is not None:
        return statement.replaced(statement.span(given), value)
    if name not in _POSITIONS.get(method, ()):
        return None
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    if not arguments:
        end = statement.end(call) - 1  # before the closing bracket
        return statement.replaced((end, end), f"{name}={value}")
    end = max(statement.end(argument) for argument in arguments)
    end += statement.closing_brackets(end, statement.end(call) - 1)
    return statement.replaced((end, end), f", {name}={value}")


def without_argument(code: str | None, method: str, name: str, *, nth: int | None = None) -> str | None:
    """The call of `method` without the keyword argument `name`; None where it is not given by keyword."""
    statement, call = _find(code, method, nth)
    if statement is None or call is None:
        return None
    keyword = next((keyword for keyword in call.keywords if keyword.arg == name), None)
    if keyword is None:
        return None
    begin, end = statement.span(keyword)
    before, after = statement.source[:begin].rstrip(), statement.source[end:]
    if before.endswith(b","):
        return statement.joined(before[:-1], after)
    if before.endswith(b"("):  # the only argument, or the first of several
        return statement.joined(statement.source[:begin], after.lstrip().removeprefix(b",").lstrip())
    return None  # a comment stands between


def with_call_after(code: str | None, method: str, call: str, *, nth: int | None = None) -> str | None:
    """One more call in the chain: `ds.batch(32)`, `batch`, `prefetch(2)` -> `ds.batch(32).prefetch(2)`.

    In a chain that gives each call a line of its own, the new one gets its own line too, and comments stay with theirs.
    """
    statement, found = _find_in_chain(code, method, nth)
    if statement is None or found is None:
        return None
    end = statement.place_after(statement.end(found), found)
    return statement.replaced((end, end), f"{statement.break_before(found)}.{call}")


def with_call_before(code: str | None, method: str, call: str, *, nth: int | None = None) -> str | None:
    """One more call in the chain: `ds.batch(32)`, `batch`, `cache()` -> `ds.cache().batch(32)`."""
    statement, found = _find_in_chain(code, method, nth)
    if statement is None or found is None or not isinstance(found.func, ast.Attribute):
        return None
    begin = statement.end(found.func.value)
    begin += statement.closing_brackets(begin, statement.end(found.func))
    begin = statement.place_after(begin, found)
    return statement.replaced((begin, begin), f"{statement.break_before(found)}.{call}")


def with_method(code: str | None, method: str, new_method: str, *, nth: int | None = None) -> str | None:
    """Another method with the same arguments: `files.flat_map(f)` -> `files.interleave(f)`."""
    statement, call = _find(code, method, nth)
    if statement is None or call is None:
        return None
    end = statement.end(call.func)
    return statement.replaced((end - len(method.encode()), end), new_method)


def without_call(code: str | None, method: str, *, nth: int | None = None) -> str | None:
    """One call less in the chain: `ds.cache().batch(8)`, `cache` -> `ds.batch(8)`; empty where only `ds = ds` would be left."""
    statement, call = _find_in_chain(code, method, nth)
    if statement is None or call is None or not isinstance(call.func, ast.Attribute):
        return None
    begin = statement.end(call.func.value)
    begin += statement.closing_brackets(begin, statement.end(call.func))
    begin, end = statement.place_after(begin, call), statement.place_after(statement.end(call), call)
    changed = statement.replaced((begin, end), "")
    return "" if changed is not None and _does_nothing(changed) else changed


def with_calls_swapped(code: str | None, first: str, second: str) -> str | None:
    """Two neighbours of a chain exchanged: `ds.batch(8).shuffle(99)`, `batch`, `shuffle` -> `ds.shuffle(99).batch(8)`."""
    statement, later = _find_in_chain(code, second, None)
    _, earlier = _find_in_chain(code, first, None)
    if statement is None or later is None or earlier is None or not isinstance(later.func, ast.Attribute):
        return None
    inner = later.func.value
    if not isinstance(inner, ast.Call) or not isinstance(inner.func, ast.Attribute):
        return None
    if statement.span(inner) != statement.span(earlier):
        return None
    begin = statement.end(inner.func.value)
    begin += statement.closing_brackets(begin, statement.end(inner.func))
    middle, end = statement.end(inner), statement.end(later)
    middle += statement.closing_brackets(middle, statement.end(later.func))
    begin, middle = statement.place_after(begin, inner), statement.place_after(middle, later)
    end = statement.place_after(end, later)
    source = statement.source
    return statement.replaced((begin, end), (source[middle:end] + source[begin:middle]).decode())


def takes_any_shape(code: str | None, method: str, name: str) -> bool:
    """Whether a function that is given to the only call of `method` can be seen not to ask for shapes.

    It is a lambda right there that calls TensorFlow only (`tf.…`), and nothing about shapes. What any other function does when it
    is traced for an argument of another shape, its code alone tells.
    """
    _, call = _find(code, method, None)
    function = _argument(call, method, name) if call is not None else None
    if not isinstance(function, ast.Lambda):
        return False
    for node in ast.walk(function.body):
        if isinstance(node, ast.Call) and not ast.unparse(node.func).startswith(("tf.", "tensorflow.")):
            return False
        if isinstance(node, ast.Attribute) and any(word in node.attr for word in ("shape", "rank", "size", "dim")):
            return False
        if isinstance(node, ast.comprehension | ast.Starred):
            return False
    return True


def looks_at_what_is_passed_on(code: str | None) -> bool:
    """Whether the predicate of the only `filter` looks at nothing but what the only `map` hands on, at the same place, as it was.

    Only where both are lambdas of as many arguments, and the map's gives a tuple of as many.
    """
    _, mapped = _find(code, "map", None)
    _, filtered = _find(code, "filter", None)
    first = _argument(mapped, "map", "map_func") if mapped is not None else None
    second = _argument(filtered, "filter", "predicate") if filtered is not None else None
    if not isinstance(first, ast.Lambda) or not isinstance(second, ast.Lambda) or not isinstance(first.body, ast.Tuple):
        return False
    given, seen, made = _names(first), _names(second), first.body.elts
    if given is None or seen is None or not len(given) == len(seen) == len(made):
        return False
    used = {node.id for node in ast.walk(second.body) if isinstance(node, ast.Name)}
    pairs = [(name, part) for name, looked_at, part in zip(given, seen, made, strict=True) if looked_at in used]
    return all(isinstance(part, ast.Name) and part.id == name for name, part in pairs)


def _names(function: ast.Lambda) -> list[str] | None:
    """Of a lambda's arguments; None where it takes others than plain ones."""
    given = function.args
    is_plain = not (given.vararg or given.kwarg or given.kwonlyargs or given.defaults)
    return [argument.arg for argument in (*given.posonlyargs, *given.args)] if is_plain else None


@dataclass(frozen=True, slots=True)
class _Statement:
    """A statement and its tree. Positions are in bytes, as the tree counts columns; `indent` stood before its first line."""

    source: bytes
    indent: str
    tree: ast.Module

    def calls(self, method: str) -> list[ast.Call]:
        """Calls of a method (or a class of that name), in the order in which a chain makes them."""
        found = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call) and _called(node) == method]
        return sorted(found, key=self.end)

    def end(self, node: ast.AST) -> int:
        return self.span(node)[1]

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Where a node begins and ends in `source`."""
        starts = [0]
        for line in self.source.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        begin = starts[getattr(node, "lineno", 1) - 1] + getattr(node, "col_offset", 0)
        return begin, starts[getattr(node, "end_lineno", 1) - 1] + getattr(node, "end_col_offset", 0)

    def text_of(self, node: ast.AST) -> str:
        begin, end = self.span(node)
        return self.source[begin:end].decode()

    def closing_brackets(self, begin: int, end: int) -> int:
        """Bytes until after the last bracket that closes round what ends at `begin`: the tree leaves such brackets out."""
        length = 0
        for offset, byte in enumerate(self.source[begin:end]):
            if byte == ord(")"):
                length = offset + 1
            elif chr(byte) not in " \t\r\n":
                break
        return length

    def break_before(self, call: ast.Call) -> str:
        """Line break and indent before the dot of a call that stands on a line of its own; empty where it does not."""
        if not isinstance(call.func, ast.Attribute):
            return ""
        begin = self.end(call.func.value)
        between = self.source[begin : self.end(call.func)].decode()
        before, newline, blank = between.rpartition(".")[0].rpartition("\n")
        if not newline or blank.strip():
            return ""
        return f" \\\n{blank}" if before.endswith("\\") else f"\n{blank}"

    def place_after(self, end: int, call: ast.Call) -> int:
        """Where the line of a chain is over that ends at `end`: behind its comment, where `call` stands on a line of its own."""
        rest = re.match(rb"[ \t]*#[^\n]*", self.source[end:])
        return end + rest.end() if rest and self.break_before(call) else end

    def replaced(self, span: tuple[int, int], text: str) -> str | None:
        return self.joined(self.source[: span[0]] + text.encode(), self.source[span[1] :])

    def joined(self, before: bytes, after: bytes) -> str | None:
        """The two parts as a statement again; None where they make none."""
        changed = (before + after).decode()
        return self.indent + changed if _parse(changed) is not None else None


def _parse(code: str | None) -> _Statement | None:
    if not code or not code.strip():
        return None
    # Only the first line's indent: the others continue it within brackets, where Python does not count blanks.
    text = code.lstrip(" \t")
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    return _Statement(text.encode(), code[: len(code) - len(text)], tree)


def _find(code: str | None, method: str, nth: int | None) -> tuple[_Statement | None, ast.Call | None]:
    statement = _parse(code)
    calls = statement.calls(method) if statement else []
    if nth is None:
        return statement, calls[0] if len(calls) == 1 else None
    return statement, calls[nth] if 0 <= nth < len(calls) else None


def _find_in_chain(code: str | None, method: str, nth: int | None) -> tuple[_Statement | None, ast.Call | None]:
    """As `_find`, the call that gives the dataset: of `ds.apply(tf.data.experimental.unbatch())` that is `apply`.

    None where a function of a module is called that is not given to `apply`: what it gives is not known.
    """
    statement, call = _find(code, method, nth)
    if statement is None or call is None:
        return statement, call
    applied = next((one for one in statement.calls("apply") if call in (*one.args, *(given.value for given in one.keywords))), None)
    return statement, applied or (None if _is_of_a_module(call) else call)


def _is_of_a_module(call: ast.Call) -> bool:
    """`tf.data.experimental.unbatch()`, `experimental.unbatch()`; a class, as in `tf.data.Dataset.range(9)`, is no module."""
    names = ast.unparse(call.func).split(".")
    return names[0] in _MODULES and not any(name[:1].isupper() or not name.isidentifier() for name in names)


def _called(call: ast.Call) -> str | None:
    """The name that a call calls. A plain name only where it is a class: `map(f, xs)` is Python's own."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) and call.func.id[:1].isupper() else None


def _argument(call: ast.Call, method: str, name: str) -> ast.expr | None:
    by_keyword = next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
    if by_keyword is not None:
        return by_keyword
    names = _POSITIONS.get(method, ())
    place = names.index(name) if name in names else len(call.args)
    before = call.args[: place + 1]
    return call.args[place] if place < len(call.args) and not any(isinstance(a, ast.Starred) for a in before) else None


def _takes_unknown_arguments(call: ast.Call) -> bool:
    return any(isinstance(a, ast.Starred) for a in call.args) or any(keyword.arg is None for keyword in call.keywords)


def _does_nothing(code: str) -> bool:
    """`ds = ds`: what is left where the only call was taken out."""
    statements = list(_simple_statements(code))
    return len(statements) == 1 and any(
        isinstance(statement, ast.Assign)
        and len(statement.targets) == 1
        and ast.unparse(statement.targets[0]) == ast.unparse(statement.value)
        for statement in statements
    )


def _simple_statements(code: str) -> Iterator[ast.stmt]:
    statement = _parse(code)
    yield from statement.tree.body if statement else ()

"""Edit a user's statement by libcst, which keeps every comment, blank and bracket.

All functions take the statement in `Op.code` and return the changed text. They return None if they are not sure: it cannot be
parsed, the call is missing, or it occurs more than once and `nth` does not choose (0 is the first to be made).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m
from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper

AUTOTUNE = "tf.data.AUTOTUNE"
# Names by which modules of TensorFlow are called.
_MODULES = frozenset({"tf", "tensorflow", "tfds", "experimental"})

# Parameters by position of the methods whose arguments are looked at or changed (TensorFlow 2.18 to 2.21).
_POSITIONS: dict[str, tuple[str, ...]] = {
    "map": ("map_func", "num_parallel_calls", "deterministic"),
    "interleave": ("map_func", "cycle_length", "block_length", "num_parallel_calls", "deterministic"),
    "batch": ("batch_size", "drop_remainder", "num_parallel_calls", "deterministic"),
    "padded_batch": ("batch_size", "padded_shapes", "padding_values", "drop_remainder"),
    "shuffle": ("buffer_size", "seed", "reshuffle_each_iteration"),
    "prefetch": ("buffer_size",),
    "list_files": ("file_pattern", "shuffle", "seed"),
    "TFRecordDataset": ("filenames", "compression_type", "buffer_size", "num_parallel_reads"),
    "TextLineDataset": ("filenames", "compression_type", "buffer_size", "num_parallel_reads"),
}
_UNPARSABLE = (cst.ParserSyntaxError, cst.CSTValidationError, ValueError, RecursionError)


def count_calls(code: str | None, method: str) -> int:
    """Return how often the statement calls `method`; 0 if it cannot be parsed."""
    statement = _parse(code)
    return len(statement.calls(method)) if statement else 0


def argument_of(code: str | None, method: str, name: str, *, nth: int | None = None) -> str | None:
    """Return the text of an argument as the user wrote it; None if it is not given."""
    _, call = _find(code, method, nth)
    given = _argument(call, method, name) if call is not None else None
    return _text(given.value.with_changes(lpar=[], rpar=[])) if given is not None else None


def with_argument(code: str | None, method: str, name: str, value: str, *, nth: int | None = None) -> str | None:
    """Return the call of `method` with `name=value`: replace the present argument, or add a keyword.

    Return None also if `*args` or `**kwargs` may hold it already.
    """
    statement, call = _find(code, method, nth)
    if statement is None or call is None or any(argument.star for argument in call.args):
        return None
    try:
        new = cst.parse_expression(value)
    except _UNPARSABLE:
        return None
    given = _argument(call, method, name)
    if given is not None:
        old = given.value
        return statement.replaced(old, new.with_changes(lpar=old.lpar, rpar=old.rpar))
    if name not in _POSITIONS.get(method, ()):
        return None
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    added = cst.Arg(keyword=cst.Name(name), equal=equal, value=new)
    arguments = list(call.args)
    if arguments:  # the new last one takes over what stood behind the old
        last = arguments[-1]
        added = added.with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)
        comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        arguments[-1] = last.with_changes(comma=comma, whitespace_after_arg=cst.SimpleWhitespace(""))
    return statement.replaced(call, call.with_changes(args=[*arguments, added]))


def with_call_after(code: str | None, method: str, call: str, *, nth: int | None = None) -> str | None:
    """Add a call to the chain: `ds.batch(32)`, `batch`, `prefetch(2)` -> `ds.batch(32).prefetch(2)`.

    If each call of the chain has its own line, the new one gets its own line too, and comments stay with their calls.
    """
    statement, found = _find_in_chain(code, method, nth)
    if statement is None or found is None:
        return None
    end = statement.end_of_line(statement.end(found), found)
    return statement.spliced(statement.source[:end] + f"{_break_before(found)}.{call}".encode() + statement.source[end:])


def with_method(code: str | None, method: str, new_method: str, *, nth: int | None = None) -> str | None:
    """Call another method with the same arguments: `files.flat_map(f)` -> `files.interleave(f)`."""
    statement, call = _find(code, method, nth)
    if statement is None or call is None:
        return None
    name = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
    return statement.replaced(name, cst.Name(new_method))


def with_calls_swapped(code: str | None, first: str, second: str) -> str | None:
    """Exchange two neighbours of a chain: `ds.batch(8).shuffle(99)`, `batch`, `shuffle` -> `ds.shuffle(99).batch(8)`."""
    statement, later = _find_in_chain(code, second, None)
    same, earlier = _find_in_chain(code, first, None)
    if statement is None or same is None or later is None or earlier is None or not isinstance(later.func, cst.Attribute):
        return None
    inner = later.func.value
    if not isinstance(inner, cst.Call) or not isinstance(inner.func, cst.Attribute) or not inner.deep_equals(earlier):
        return None
    begin = statement.end_of_line(statement.end(inner.func.value, with_brackets=True), inner)
    middle = statement.end_of_line(statement.end(inner, with_brackets=True), later)
    end = statement.end_of_line(statement.end(later), later)
    source = statement.source
    return statement.spliced(source[:begin] + source[middle:end] + source[begin:middle] + source[end:])


def takes_any_shape(code: str | None) -> bool:
    """Return whether the function of the only `map` visibly needs no shapes.

    It is a lambda in place that calls only TensorFlow (`tf.…`), and nothing about shapes.
    """
    _, call = _find(code, "map", None)
    given = _argument(call, "map", "map_func") if call is not None else None
    if given is None or not isinstance(given.value, cst.Lambda):
        return False
    for node in _nodes(given.value.body):
        if isinstance(node, cst.Call) and not _text(node.func).startswith(("tf.", "tensorflow.")):
            return False
        if isinstance(node, cst.Attribute) and any(word in node.attr.value for word in ("shape", "rank", "size", "dim")):
            return False
        if isinstance(node, cst.CompFor | cst.StarredElement) or (isinstance(node, cst.Arg) and node.star):
            return False
    return True


@dataclass(frozen=True, slots=True)
class _Statement:
    """Hold a statement and its tree; `indent` stood before its first line."""

    indent: str
    tree: cst.Module

    @property
    def source(self) -> bytes:
        """Return the text of the tree."""
        return self.tree.bytes

    def calls(self, method: str) -> list[cst.Call]:
        """Return the calls of a method, or of a class of that name, in the order in which a chain makes them."""
        # A plain name only where it is a class: `map(f, xs)` is Python's own.
        pattern = m.Attribute(attr=m.Name(method))
        called = pattern | m.Name(method) if method[:1].isupper() else pattern
        return [node for node in _nodes(self.tree) if isinstance(node, cst.Call) and m.matches(node.func, called)]

    def end(self, node: cst.BaseExpression, *, with_brackets: bool = False) -> int:
        """Return the byte after an expression; after the brackets round it where those are wanted too."""
        wrapper = MetadataWrapper(self.tree, unsafe_skip_copy=True)
        span = wrapper.resolve(ByteSpanPositionProvider)[node]
        brackets = "".join(map(_text, node.rpar)) if with_brackets else ""
        return span.start + span.length + len(brackets.encode())

    def end_of_line(self, end: int, call: cst.Call) -> int:
        """Return the end of the line of a chain that ends at `end`: behind its comment, if `call` has its own line."""
        rest = re.match(rb"[ \t]*#[^\n]*", self.source[end:])
        return end + rest.end() if rest and _break_before(call) else end

    def replaced(self, old: cst.CSTNode, new: cst.CSTNode) -> str | None:
        """Return the statement with another node in place of one."""
        changed = self.tree.deep_replace(old, new)
        return self.spliced(changed.bytes) if isinstance(changed, cst.Module) else None

    def spliced(self, source: bytes) -> str | None:
        """Return another text as a statement; None if it is no statement."""
        return f"{self.indent}{source.decode()}" if _parse(source.decode()) is not None else None


def _parse(code: str | None) -> _Statement | None:
    if not code or not code.strip():
        return None
    # Only the first line's indent: the others continue it within brackets, where Python does not count blanks.
    text = code.lstrip(" \t")
    try:
        tree = cst.parse_module(text)
        list(_nodes(tree))
    except _UNPARSABLE:
        return None
    return _Statement(code[: len(code) - len(text)], tree)


def _nodes(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield a node and all below it, each after its children: calls in the order in which they are made."""
    for child in node.children:
        yield from _nodes(child)
    yield node


def _text(node: cst.CSTNode | cst.MaybeSentinel) -> str:
    return cst.Module(body=[]).code_for_node(node) if isinstance(node, cst.CSTNode) else ""


def _find(code: str | None, method: str, nth: int | None) -> tuple[_Statement | None, cst.Call | None]:
    statement = _parse(code)
    calls = statement.calls(method) if statement else []
    if nth is None:
        return statement, calls[0] if len(calls) == 1 else None
    return statement, calls[nth] if 0 <= nth < len(calls) else None


def _find_in_chain(code: str | None, method: str, nth: int | None) -> tuple[_Statement | None, cst.Call | None]:
    """Find, like `_find`, the call that gives the dataset: in `ds.apply(tf.data.experimental.unbatch())` that is `apply`.

    Return None for a function of a module outside of `apply`: its result is unknown.
    """
    statement, call = _find(code, method, nth)
    if statement is None or call is None:
        return statement, call
    applied = next((one for one in statement.calls("apply") if any(given.value is call for given in one.args)), None)
    return statement, applied or (None if _is_of_a_module(call) else call)


def _is_of_a_module(call: cst.Call) -> bool:
    """Return True for `tf.data.experimental.unbatch()`, `experimental.unbatch()`; a class is no module."""
    names, node = list[str](), call.func
    while isinstance(node, cst.Attribute):
        names.append(node.attr.value)
        node = node.value
    return isinstance(node, cst.Name) and node.value in _MODULES and not any(name[:1].isupper() for name in names)


def _argument(call: cst.Call, method: str, name: str) -> cst.Arg | None:
    by_keyword = next((argument for argument in call.args if argument.keyword and argument.keyword.value == name), None)
    names = _POSITIONS.get(method, ())
    if by_keyword is not None or name not in names:
        return by_keyword
    before = call.args[: names.index(name) + 1]
    is_given = len(before) > names.index(name) and not any(argument.star or argument.keyword for argument in before)
    return before[-1] if is_given else None


def _break_before(call: cst.Call) -> str:
    """Return the line break and indent before the dot of a call on its own line; empty for other calls."""
    if not isinstance(call.func, cst.Attribute):
        return ""
    before, newline, blank = _text(call.func.dot.whitespace_before).rpartition("\n")
    if not newline:
        return ""
    return f" \\\n{blank}" if before.endswith("\\") else f"\n{blank}"

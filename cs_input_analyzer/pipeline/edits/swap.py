"""An op goes before the one that it reads from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cs_input_analyzer.pipeline.edits.graph_text import Body, elements_of, rename_functions, set_elements, set_values
from cs_input_analyzer.pipeline.edits.statement import moved_up
from cs_input_analyzer.pipeline.edits.work import (
    EditError,
    Work,
    elements_before,
    exchange,
    refuse_cycle,
    refuse_several_readers,
    refuse_state,
    refuse_unrepeatable,
)
from cs_input_analyzer.pipeline.graph import functions_of, node_name
from cs_input_analyzer.pipeline.lineage import upstream
from cs_input_analyzer.pipeline.op_kinds import MAPS, kind_of
from cs_input_analyzer.pipeline.op_traits import chain_before, freezes_only_mixing
from cs_input_analyzer.pipeline.source.code import looks_at_what_is_passed_on
from cs_input_analyzer.records import Edit, Op

_PAIRS = (("Map", "Filter"), ("Map", "Shuffle"), ("Repeat", "Cache"), ("Cache", "Take"), ("Cache", "Map"))


def graph(work: Work, edit: Edit) -> None:
    body, node = work.find(edit.op)
    source = body.input_of(node)
    pair = (_plain(kind_of(source.op)), _plain(kind_of(node.op))) if source is not None else None
    if pair not in _PAIRS:
        can = ", ".join(f"{second.lower()} before {first.lower()}" for first, second in _PAIRS)
        raise EditError(f"{edit.op} cannot go before what it reads from; what can: {can}")
    refuse_several_readers(body, source)
    if "Cache" in pair:
        _refuse_freezing(work, body, edit.op, source if pair[0] == "Cache" else node)
    if "Map" in pair:
        map_, name = (source, f"the map before {edit.op}") if pair[0] == "Map" else (node, edit.op)
        refuse_state(work, name, map_, "change places")
    if pair == ("Cache", "Map"):
        refuse_unrepeatable(edit.op, [work.op(edit.op)])
    if pair == ("Map", "Filter"):
        refuse_state(work, edit.op, node, "change places")
    try:
        if pair == ("Map", "Filter"):
            _put_filter_first(work, body, source, node)
        else:
            _put_first(body, source, node)
        refuse_cycle(body)
    except EditError as error:
        raise EditError(f"{edit.op} cannot go before what it reads from: {error}") from error


def source(code: str, op: Op, ops: Sequence[Op], edit: Edit) -> str | None:
    """None where a cache would freeze the only mixing, and where a predicate would look at something else before the map."""
    pair = tuple(_plain(one.kind) for one in (*chain_before(op, ops)[:1], op))
    if pair == ("Repeat", "Cache") and freezes_only_mixing(op, upstream(op, ops), ops):
        return None
    if pair == ("Map", "Filter") and not looks_at_what_is_passed_on(code):
        return None
    return moved_up(op, ops, code)


def _plain(kind: str) -> str:
    return kind.removeprefix("Parallel")


def _refuse_freezing(work: Work, body: Body, op: str, cache: Any) -> None:
    """Where a cache becomes complete that was not before, all that reaches it must be the same in each pass."""
    if body.argument(cache, "filename") != b"":
        raise EditError(f"{op} or its neighbour keeps elements in a file, which holds them as they are now")
    refuse_unrepeatable(op, upstream(work.op(op), work.ops))


def _put_first(body: Body, first: Any, second: Any) -> None:
    """Two ops of which at most one changes what an element is, and neither looks into it."""
    given, made = elements_before(body, first), elements_of(second)
    exchange(body, first, second)
    if kind_of(second.op) in MAPS:
        set_elements(first, made)
    else:
        set_elements(second, given)


def _put_filter_first(work: Work, body: Body, map_: Any, filter_: Any) -> None:
    """Where the predicate looks only at what the map passes on as it is."""
    given = elements_before(body, map_)
    functions = work.text.functions
    mapped, predicate = (functions[functions_of(node)[0]] for node in (map_, filter_))
    passed = _passed_on(mapped)
    used = {node_name(tensor) for node in predicate.node_def for tensor in node.input} | set(map(node_name, predicate.ret.values()))
    count = len(mapped.signature.output_arg)
    renamed: dict[str, str] = {}
    for position, argument in enumerate(predicate.signature.input_arg[:count]):
        if argument.name in used:
            if position not in passed:
                raise EditError(f"its predicate looks at component {position}, which the map makes")
            renamed[argument.name] = f"csia_element_{passed[position]}"
    copy = type(predicate)()
    copy.CopyFrom(predicate)
    copy.signature.name = f"{predicate.signature.name}_first_{len(functions)}"
    captured = list(predicate.signature.input_arg[count:])
    del copy.signature.input_arg[:]
    for position, dtype in enumerate(given.types):
        copy.signature.input_arg.add(name=f"csia_element_{position}", type=dtype)
    copy.signature.input_arg.extend(captured)
    copy.arg_attr.clear()
    for node in copy.node_def:
        set_values(node.input, [_renamed(name, renamed) for name in node.input])
    for key, tensor in list(copy.ret.items()):
        copy.ret[key] = _renamed(tensor, renamed)
    functions[copy.signature.name] = copy
    exchange(body, map_, filter_)
    rename_functions(filter_, {predicate.signature.name: copy.signature.name})
    set_elements(filter_, given)


def _passed_on(function: Any) -> dict[int, int]:
    """Position of each result that is an argument as it came -> that argument's position."""
    nodes = {node.name: node for node in function.node_def}
    arguments = [argument.name for argument in function.signature.input_arg]
    found = {}
    for position, argument in enumerate(function.signature.output_arg):
        name = node_name(function.ret[argument.name])
        while name in nodes and nodes[name].op == "Identity":
            name = node_name(nodes[name].input[0])
        if name not in nodes and name in arguments:
            found[position] = arguments.index(name)
    return found


def _renamed(tensor: str, names: Mapping[str, str]) -> str:
    name, colon, rest = tensor.partition(":")
    return f"{names[name]}{colon}{rest}" if name in names else tensor

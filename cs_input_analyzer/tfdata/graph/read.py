"""Turn a dataset into a PipelineGraph: its ops, its elements, its files, and the files of each reader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from cs_input_analyzer.errors import TargetError
from cs_input_analyzer.records import Component, FileSet, Op, PipelineGraph
from cs_input_analyzer.tfdata.graph.cpu_numbers import by_cpus
from cs_input_analyzer.tfdata.graph.dimensions import with_dimensions
from cs_input_analyzer.tfdata.graph.lines import SOURCE_NUMBER, SourceLog, numbers_at_top
from cs_input_analyzer.tfdata.graph.nodes import functions_of, graph_def_of, node_name, reached_from, sources_of
from cs_input_analyzer.tfdata.graph.ops import OpPlace, reader_of
from cs_input_analyzer.tfdata.graph.sizes import Sized, existing, folder_of
from cs_input_analyzer.tfdata.op_kinds import HANDS_ON, is_dataset_op
from cs_input_analyzer.tfdata.samples import samples_per_element_of, with_samples
from cs_input_analyzer.tfdata.threads import inside, reader_ops

_MAX_FILES = 1_000_000
# They give rows in the order of the list, each once.
_IN_ORDER = HANDS_ON | {"Take", "Skip", "Cache", "Prefetch"}


def read_graph(
    dataset: Any,
    log: SourceLog,
    *,
    target: str,
    said: int | None = None,
    params_sizes: Sequence[int] = (),
    demand_size: int | None = None,
    redirected: tuple[str, ...] = (),
    sized: Sized | None = None,
) -> PipelineGraph:
    """Return the graph of `dataset`, a `tf.data.Dataset` built under `recorded_sources`. Iterate nothing, read file sizes only.

    `sized`: files whose sizes were read before. `said`, `params_sizes`, `demand_size`: hints on samples, as for
    `samples_per_element_of`.
    """
    import tensorflow as tf

    graph_def = graph_def_of(dataset)
    sized = _sized_files(graph_def) if sized is None else sized
    own = {name: file_set(files) for name, files in files_by_reader(graph_def, dict(sized)).items()}
    found = reader_of(graph_def, log.lines, numbers_at_top(graph_def, dataset, log.lines))
    read = with_dimensions(found)
    ops = tuple(replace(op, files=own.get(op.name), by_cpus=by_cpus(op, read)) for op in read)
    spec = element_components(dataset.element_spec)
    cardinality = int(dataset.cardinality())
    samples = samples_per_element_of(ops, spec, said=said, params_sizes=params_sizes, demand_size=demand_size)
    pipeline = PipelineGraph(
        target=target,
        batch_size=None,
        element_spec=spec,
        ops=ops,
        files=file_set(sized),
        cardinality=cardinality if cardinality >= 0 else None,
        is_infinite=cardinality == int(tf.data.INFINITE_CARDINALITY),
        redirected=redirected,
    )
    return with_samples(pipeline, samples)


@contextmanager
def unreadable_named(dataset: Any, log: SourceLog) -> Iterator[None]:
    """Raise TargetError with the op and its line if TensorFlow cannot write a graph of an op of `dataset`."""
    import tensorflow as tf

    try:
        yield
    except (tf.errors.FailedPreconditionError, tf.errors.UnimplementedError):
        if not _is_unreadable(dataset):
            raise
        while (deeper := next(filter(_is_unreadable, dataset._inputs()), None)) is not None:
            dataset = deeper
        name = type(dataset).__name__.strip("_").removesuffix("Dataset")
        source = log.lines.get(getattr(dataset, SOURCE_NUMBER, -1))
        where = f", {source.line}," if source is not None and source.line else ""
        raise TargetError(
            f"the op {name}{where} cannot be measured: TensorFlow cannot write it into a graph. "
            "Leave it out of the input function, or return the Dataset before it"
        ) from None


def _is_unreadable(dataset: Any) -> bool:
    import tensorflow as tf

    try:
        graph_def_of(dataset)
    except (tf.errors.FailedPreconditionError, tf.errors.UnimplementedError):
        return True
    return False


def element_components(element_spec: Any) -> tuple[Component, ...]:
    """Return the tensors of an element in flattening order, named by their path: `features/input_ids`, `0`, `1`."""
    from tensorflow.python.util import nest

    found = []
    for path, spec in nest.flatten_with_joined_string_paths(element_spec):
        kind = type(spec).__name__.removesuffix("Spec").removesuffix("Tensor").lower() or "tensor"
        dtype = getattr(spec, "dtype", None)
        shape = getattr(spec, "shape", None)
        dims = tuple(shape.as_list()) if shape is not None and shape.rank is not None else None
        found.append(Component(name=path or "element", shape=dims, dtype=dtype.name if dtype is not None else kind, kind=kind))
    return tuple(found)


def file_set(sized: Sequence[tuple[str, int]]) -> FileSet | None:
    """Return the count, sizes and file system of files; None without files."""
    if not sized:
        return None
    sizes = [size for _, size in sized]
    folder = folder_of([path for path, _ in sized])
    return FileSet(count=len(sizes), bytes=sum(sizes), largest_bytes=max(sizes), smallest_bytes=min(sizes), directory=folder)


def sized_files_of(dataset: Any) -> Sized:
    """Return the existing files that a graph names in string constants, with their sizes, sorted by path."""
    return _sized_files(graph_def_of(dataset))


def files_by_reader(graph_def: Any, known: Mapping[str, int] | None = None) -> dict[str, Sized]:
    """Return the files of each op that reads files, by its name in `ops_of`, with their sizes.

    `known`: sizes that were read before.
    """
    graph_def = _without_unpicked(graph_def)
    reader = reader_of(graph_def)
    readers = reader_ops(reader.ops)
    # The lines in a list of files are not files of the op that opens them. So the nodes behind another reader are left out.
    holding = [op for op in reader.ops if any(one in readers for one in (op, *inside(op, reader.ops)))]
    nodes = {"": {node.name: node for node in graph_def.node}}
    nodes |= {function.signature.name: {node.name: node for node in function.node_def} for function in graph_def.library.function}
    places, found = reader.places, {}
    ends = {(places[op.name].function or "", places[op.name].node) for op in holding}
    for op in readers:
        behind, place = list[Any](), places.get(op.name)
        while place is not None:  # what its function is called with comes from the op that holds it
            behind += _nodes_behind(place, nodes, ends)
            place = places.get(place.within) if place.within is not None else None
        found[op.name] = existing(_strings_in(behind), known)
    return found


def _nodes_behind(place: OpPlace, nodes: Mapping[str, Mapping[str, Any]], ends: Set[tuple[str, str]]) -> list[Any]:
    """Return all nodes that the one at `place` depends on, with itself, up to `ends`; and those of functions called there."""
    scope = place.function or ""
    own = nodes[scope]

    def before(key: str) -> list[str]:
        return [name for name in sources_of(own[key]) if name in own and (scope, name) not in ends]

    found = [own[key] for key in reached_from([place.node], before)]
    called = [name for node in found if not is_dataset_op(node.op) for name in functions_of(node)]
    return found + [inner for name in called for inner in nodes.get(name, {}).values()]


def _sized_files(graph_def: Any) -> Sized:
    """Return the existing files that a graph names, without those of lookup tables: a vocabulary is no data."""
    graph_def = _without_unpicked(graph_def)
    scopes = [graph_def.node, *(function.node_def for function in graph_def.library.function)]
    kept = []
    for scope in scopes:
        tables = {node_name(name) for node in scope if node.op.startswith("InitializeTable") for name in node.input}
        kept += [node for node in scope if node.name not in tables]
    return existing(_strings_in(kept))


def _without_unpicked(graph_def: Any) -> Any:
    """Return the graph without the rows of constant lists that a `take` or `skip` always leaves out.

    Where the rows are shuffled first, each pass may pick others, so that all stay.
    """
    import tensorflow as tf

    reader = reader_of(graph_def)
    # An Identity that marks a list of files, and leads nowhere, is no use of it.
    used = reached_from(
        (node.name for node in graph_def.node if node.op == "_Retval"),
        lambda name: sources_of(reader.top[name]) if name in reader.top else (),
    )
    uses = Counter(source for name in used if name in reader.top for source in sources_of(reader.top[name]))
    slices: dict[str, slice] = {}
    for op in reader.ops:
        if op.kind == "TensorSlice" and op.within is None and (rows := _rows_picked(op, reader.ops)) is not None:
            slices |= {name: rows for name in sources_of(reader.nodes[op.name]) if uses[name] == 1}
    if not slices:
        return graph_def
    picked = type(graph_def)()
    picked.CopyFrom(graph_def)
    for node in picked.node:
        if node.name in slices and _is_text(node):
            rows = _rows_of(node)[slices[node.name]]
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(rows, node.attr["dtype"].type, rows.shape))
    return picked


def _rows_picked(op: Op, ops: Sequence[Op]) -> slice | None:
    """Return the rows of a list that the ops right behind it pick; None if that is not known, or all are."""
    rows = op.parameters.get("elements")
    if not isinstance(rows, int):
        return None
    begin, end = 0, rows
    while len(behind := [other for other in ops if op.name in other.inputs]) == 1 and behind[0].kind in _IN_ORDER:
        op = behind[0]
        count = op.parameters.get("count")
        if not isinstance(count, int) or count < 0:
            if op.kind in ("Take", "Skip"):
                break
        elif op.kind == "Take":
            end = min(end, begin + count)
        elif op.kind == "Skip":
            begin = min(begin + count, end)
    return slice(begin, end) if end - begin < rows else None


def _strings_in(nodes: Iterable[Any]) -> Iterator[str]:
    """Yield the texts in the string constants among these nodes."""
    seen = 0
    for node in nodes:
        if not _is_text(node):
            continue
        for value in _rows_of(node).ravel():
            seen += 1
            if seen > _MAX_FILES:
                return
            if 0 < len(value) < 4096 and b"\0" not in value:
                yield value.decode(errors="surrogateescape")


def _is_text(node: Any) -> bool:
    """Return whether a node is a constant of texts."""
    from tensorflow.core.framework import types_pb2

    return bool(node.op == "Const" and node.attr["dtype"].type == types_pb2.DT_STRING)


def _rows_of(node: Any) -> Any:
    """Return the array of a constant of texts."""
    import tensorflow as tf

    # C++ packs strings in a way that only TensorFlow's own kernel unpacks.
    return np.asarray(tf.io.parse_tensor(node.attr["value"].tensor.SerializeToString(), tf.string).numpy())

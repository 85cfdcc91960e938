"""Dataset -> another Dataset, by editing the graph that TensorFlow holds of it; here, cuts for measuring.

`DatasetToGraph` gives a GraphDef, `DatasetFromGraph` takes one back, in the same process with everything that user functions hold:
tables, variables, Python functions. A cut changes which tensor a graph or a function returns; what that no longer needs is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cs_input_analyzer.graph import graph_def_of, is_dataset_op, kind_of

# Ops whose elements are what a file holds. All give one string, except those that say their types in attributes.
READERS = ("TFRecord", "TextLine", "FixedLengthRecord", "CSV", "Sql", "LMDB", "SSTable", "RecordIO", "Load")
_READS_A_FILE = "ReadFile"
_MAPS = ("Map", "ParallelMap")
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_JOINS_ELEMENTS = "Zip"


class _CannotCutError(Exception):
    """The pipeline reads files in a way that the cut does not understand."""


def source_only(dataset: Any) -> Any:
    """The pipeline cut after its readers: file listing, sharding, interleaving and reading, and nothing after them.

    Gives a `tf.data.Dataset` of the raw records (of file contents where a `map` reads whole files), with the options of `dataset`.
    Repeats, shuffles, batches, caches, maps and filters that come after the readers are gone, also those inside the function of an
    `interleave` or `flat_map`; those before them (of file names) stay. None where the graph reads no file (a generator, Python
    code), or reads in a way that cannot be cut. The dataset belongs to this process, and `dataset` must outlive it.
    """
    graph_def = graph_def_of(dataset)
    cutter = _Cutter(functions={function.signature.name: function for function in graph_def.library.function})
    result = next((node for node in graph_def.node if node.op == "_Retval"), None)
    try:
        cut = cutter.cut_body(graph_def.node, {}, result.input[0]) if result is not None else None
    except _CannotCutError:
        return None
    if cut is None or result is None:
        return None
    result.input[0] = cut.tensor
    kept = _needed([*cut.nodes, result], [result.name])
    del graph_def.node[:]
    graph_def.node.extend(kept)
    graph_def.library.function.extend(cutter.made)
    return dataset_of(graph_def, cut.types, cut.shapes).with_options(dataset.options())


def decoupled(dataset: Any) -> Any:
    """A dataset that hands out the first element of `dataset` for ever: what remains is the hand-over to the consumer.

    The same element_spec. The first element is made once, by the whole pipeline, on the first pass.
    """
    return dataset.take(1).cache().repeat()


def dataset_of(graph_def: Any, types: Sequence[int], shapes: Sequence[Any]) -> Any:
    """The dataset of a GraphDef whose elements are dense tensors of these dtypes and shapes (`TensorShapeProto`)."""
    import tensorflow as tf
    from tensorflow.python.data.ops import dataset_ops
    from tensorflow.python.ops import gen_experimental_dataset_ops

    specs = tuple(
        tf.TensorSpec(tf.TensorShape(shape), tf.dtypes.as_dtype(dtype)) for dtype, shape in zip(types, shapes, strict=True)
    )
    variant = gen_experimental_dataset_ops.dataset_from_graph(graph_def.SerializeToString())
    return dataset_ops._VariantDataset(variant, specs[0] if len(specs) == 1 else specs)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """A body (graph or function) cut: the tensor that it is to return, and its elements' types and shapes."""

    tensor: str
    types: tuple[int, ...]
    shapes: tuple[Any, ...]
    nodes: tuple[Any, ...]


@dataclass(slots=True)
class _Cutter:
    """Walks from a result back to the readers, and makes cut copies of the functions on its way."""

    functions: Mapping[str, Any]
    made: list[Any] = field(default_factory=list)
    reading: dict[str, bool] = field(default_factory=dict)

    def cut_body(self, nodes: Sequence[Any], arguments: Mapping[str, Any], tensor: str) -> _Cut | None:
        """The cut for the dataset that `tensor` is; None where nothing before it reads a file."""
        ...

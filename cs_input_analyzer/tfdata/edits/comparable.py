"""Make forms of a dataset for a second look: without chance, to compare elements; quick to start, to time it.

Both have their own shuffle generators and caches, in memory.
"""

from __future__ import annotations

import zlib
from typing import Any

from cs_input_analyzer.tfdata.edits import traits
from cs_input_analyzer.tfdata.edits.graph_text import Body, GraphText, dataset_of, elements_of, set_elements, spec_of
from cs_input_analyzer.tfdata.function_ops import STATELESS_TWINS
from cs_input_analyzer.tfdata.graph import graph_def_of, named_inputs
from cs_input_analyzer.tfdata.op_kinds import REPEATS, SHUFFLES, is_dataset_op, kind_of

SEEDS = (20_211, 1_107)  # any two numbers that are not both 0
# A shuffle gives the elements that it gets, with any buffer. A small buffer starts at once.
LARGEST_SHUFFLE = 64
_SEEDED_BY = ("seed", "seed2")


def deterministic(
    dataset: Any, *, one_pass: bool = False, cut: str | None = None, source: str | None = None, most: int | None = None
) -> Any:
    """Return `dataset` without chance: fixed seeds, fixed random numbers, and every op in the strictest order that it promises.

    Args:
        one_pass: whether endless repeats are given once.
        cut: the node whose elements are wanted instead, as a flat tuple.
        source: a node that its elements come from; `most`: the largest number of elements that this node gives.
    """
    import tensorflow as tf

    text, nodes = _read(dataset)
    for body, node in nodes:
        if is_dataset_op(node.op):
            _fix_order(body, node, one_pass=one_pass)
        elif node.op in STATELESS_TWINS:
            _fix_draw(body, node)
    spec = dataset.element_spec
    if cut is not None:
        if source is not None and most is not None:
            taken = text.top.add("TakeDataset", [text.top.tensor(source), text.top.constant(most)])
            set_elements(taken, elements_of(text.top.nodes[source]))
            text.top.redirect(source, text.top.tensor(taken.name), keep=[taken.name])
        spec = spec_of(elements_of(text.top.nodes[cut]))
        text.top.end_at(text.top.tensor(cut))
    options = tf.data.Options()
    options.deterministic = True
    return dataset_of(text.written(), spec, dataset.options().merge(options))


def timed(dataset: Any) -> Any:
    """Return `dataset` as it runs, but endless and with small shuffle buffers: filling them is no part of the steady rate."""
    import tensorflow as tf

    text, nodes = _read(dataset)
    for body, node in nodes:
        if is_dataset_op(node.op):
            _make_quick(body, node)
    built = dataset_of(text.written(), dataset.element_spec, dataset.options())
    endless = built if int(dataset.cardinality()) == int(tf.data.INFINITE_CARDINALITY) else built.repeat()
    endless._csia_original = dataset  # Python functions and resources live as long as it does
    return endless


def _read(dataset: Any) -> tuple[GraphText, list[tuple[Body, Any]]]:
    """Return its graph, with its own state, and all nodes of the top and of functions, to be changed in place."""
    text = GraphText.of(graph_def_of(dataset))
    traits.use_own_state(text)
    bodies = [text.top, *(text.open(name) for name in text.functions)]
    return text, [(body, node) for body in bodies for node in body.nodes.values()]


def _fix_order(body: Body, node: Any, *, one_pass: bool) -> None:
    arguments = named_inputs(node)
    for name, seed in zip(_SEEDED_BY, SEEDS, strict=True):
        if name in arguments:
            body.set_argument(node, name, body.constant(seed))
    if "deterministic" in node.attr:
        node.attr["deterministic"].s = b"true"
    if "sloppy" in node.attr:
        node.attr["sloppy"].b = False
    if "sloppy" in arguments:
        body.set_argument(node, "sloppy", body.constant(False, "bool"))
    _make_quick(body, node)
    if one_pass and kind_of(node.op) in REPEATS and (body.argument(node, "count") or 0) < 0:
        body.set_argument(node, "count", body.constant(1))


def _make_quick(body: Body, node: Any) -> None:
    """Shrink a shuffle. Move a cache from its file, which is the user's and has one writer, into memory."""
    size = body.argument(node, "buffer_size") if kind_of(node.op) in SHUFFLES else None
    if size is not None and size > LARGEST_SHUFFLE:
        body.set_argument(node, "buffer_size", body.constant(LARGEST_SHUFFLE))
    if kind_of(node.op) == "Cache" and body.argument(node, "filename") != b"":
        body.set_argument(node, "filename", body.constant("", "string"))


def _fix_draw(body: Body, node: Any) -> None:
    """Make a random op draw the same for every element. Its draw depends on its name, so that two ops differ."""
    import tensorflow as tf
    from tensorflow.core.framework import node_def_pb2

    new = node_def_pb2.NodeDef(name=node.name, op=STATELESS_TWINS[node.op], device=node.device)
    data = [name for name in node.input if not name.startswith("^")]
    controls = [name for name in node.input if name.startswith("^")]
    kept = [key for key in node.attr if key not in ("seed", "seed2", "Tout") and not key.startswith("_")]
    for key in kept:
        new.attr[key].CopyFrom(node.attr[key])
    if node.op != "RandomShuffle":
        seed = body.constant([SEEDS[0], zlib.crc32(node.name.encode()) & 0x7FFFFFFF], "int32")
        position = 1 if node.op in ("RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal") else len(data)
        data.insert(position, seed)
        new.attr["Tseed"].type = tf.int32.as_datatype_enum
    if node.op == "RandomUniformInt":
        new.attr["dtype"].type = node.attr["Tout"].type
    new.input.extend([*data, *controls])
    body.nodes[node.name] = new

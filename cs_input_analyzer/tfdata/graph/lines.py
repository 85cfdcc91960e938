"""Record the user's line for each dataset that is built.

`recorded_sources` puts a serial number into the metadata name that every dataset op carries, and remembers the line for it. The
number comes back out of the GraphDef, also from inside of functions.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cs_input_analyzer.tfdata.graph.nodes import named_inputs, node_name
from cs_input_analyzer.tfdata.op_kinds import MAPS, is_dataset_op, kinds_with, method_of
from cs_input_analyzer.tfdata.source.statements import is_installed

# The name under which a dataset, or its op, keeps its serial number.
SOURCE_NUMBER = "_csia_source"
_TAG = re.compile(r"#csia(\d+)$")
_STDLIB = sysconfig.get_path("stdlib") + os.sep
_GENERATED = "__autograph_generated"
_TENSORFLOW = ("cs_input_analyzer", "tensorflow")
_OF_TF_DATA = os.path.join("tensorflow", "python", "data", "")
_LIBRARIES = (*_TENSORFLOW, "keras", "tf_keras", "tensorflow_datasets")


class Source(NamedTuple):
    """Hold the place where a dataset was built, as `path:line`.

    The first is the innermost line of the user's own code, or empty. The second is the line of an installed package between it and
    TensorFlow, or None if the user called TensorFlow. The third is the public function of tf.data that was called, or empty, and
    the fourth its line that went on.
    """

    line: str
    library: str | None
    function: str = ""
    function_line: str = ""

    def library_of(self, kind: str) -> str | None:
        """Return the line of the library that built an op of this kind: a package, or tf.data if another method was called."""
        is_own = not self.function or self.function.startswith(method_of(kind)) or kind not in MAPS | kinds_with("filter")
        return self.library or (None if is_own else self.function_line)


@dataclass(slots=True)
class SourceLog:
    """Hold the lines seen so far: serial number of a dataset -> the place of its construction.

    The log is filled while the input function runs.
    """

    lines: dict[int, Source] = field(default_factory=dict)

    def note(self) -> int:
        """Note the caller of the running code, and return its number."""
        number = len(self.lines)
        self.lines[number] = where_built()
        return number


@contextmanager
def recorded_sources() -> Iterator[SourceLog]:
    """Give every Dataset that is built a serial number, and its user's source line in the log, while open.

    Ops without metadata have the number in an attribute, and at the top, where TensorFlow drops those, in the Python object.
    """
    from tensorflow.core.framework import attr_value_pb2
    from tensorflow.python.data.ops import dataset_ops

    log = SourceLog()
    cls = dataset_ops.DatasetV2
    original, initialize = cls._metadata, cls.__init__

    def tagged(dataset: Any) -> Any:
        metadata = original.fget(dataset)
        metadata.name = f"{metadata.name}#csia{log.note()}".encode()
        return metadata

    def number_in_graph(tensor: Any, number: int) -> None:
        operation = None if hasattr(tensor, "numpy") else tensor.op
        if operation is not None and is_dataset_op(operation.type) and SOURCE_NUMBER not in operation.node_def.attr:
            operation._set_attr(SOURCE_NUMBER, attr_value_pb2.AttrValue(i=number))

    def noted(dataset: Any, variant_tensor: Any) -> None:
        initialize(dataset, variant_tensor)
        number = log.note()
        setattr(dataset, SOURCE_NUMBER, number)
        number_in_graph(variant_tensor, number)

    cls._metadata, cls.__init__ = property(tagged), noted
    try:
        yield log
    finally:
        cls._metadata, cls.__init__ = original, initialize


def where_built() -> Source:
    """Return the lines that the running code was called from. They are empty if TensorFlow acts on its own.

    TensorFlow's stack maps the code that AutoGraph generated back to the user's. Where it does not, the line of the caller counts.
    """
    from tensorflow.python.util import tf_stack

    library, function, function_line = None, "", ""
    try:
        stack = list(tf_stack.extract_stack())
    except RuntimeError:  # TensorFlow reads no stack with a path that is not UTF-8
        return Source("", None)
    for frame in reversed(stack):
        line = f"{frame.filename}:{frame.lineno}"
        if is_library(frame.filename, _TENSORFLOW) or frame.filename.startswith(_STDLIB):
            if _OF_TF_DATA in frame.filename and frame.name not in ("apply", "_apply_fn"):
                function, function_line = ("", "") if frame.name.startswith("_") else (frame.name, line)
            continue
        if not is_installed(frame.filename):
            return Source(line, library, function, function_line)
        library = library or line
    return Source(library or "", None)  # an input function that is installed itself


def is_users_own(filename: str) -> bool:
    """Return whether code is the user's: not ours, TensorFlow's or Python's, and of no installed package."""
    return not (is_library(filename) or is_installed(filename) or filename.startswith(_STDLIB))


def is_library(filename: str, names: Sequence[str] = _LIBRARIES) -> bool:
    """Return whether a frame is of these packages, by their folders (users have a `tensorflow/`, too), or Python's own."""
    # A file that AutoGraph generated is the user's line only after TensorFlow has mapped it back, which it does not do everywhere.
    if filename.startswith(("<frozen", "<string>", "<__array")) or os.path.basename(filename).startswith(_GENERATED):
        return True
    packages = (sys.modules.get(name) for name in names)
    files = (getattr(package, "__file__", None) for package in packages)
    return any(filename.startswith(os.path.dirname(file) + os.sep) for file in files if file)


def number_in_metadata(node: Any) -> int | None:
    """Return the serial number in a node's metadata or attribute; None without one."""
    from tensorflow.core.framework import dataset_metadata_pb2

    if "metadata" not in node.attr:
        return None
    name = dataset_metadata_pb2.Metadata.FromString(node.attr["metadata"].s).name
    match = _TAG.search(name.decode() if isinstance(name, bytes) else name)
    return int(match.group(1)) if match else None


def numbers_at_top(graph_def: Any, dataset: Any, lines: Mapping[int, Source]) -> dict[str, int]:
    """Return serial numbers of the nodes at the top, by their Python objects, as far as nodes and objects are alike."""
    nodes = {node.name: node for node in graph_def.node}
    result = next((node.input[0] for node in graph_def.node if node.op == "_Retval"), "")
    found: dict[str, int] = {}
    pending = [(node_name(result), dataset)]
    while pending:
        name, made = pending.pop()
        while (below := made._inputs()) and below[0]._variant_tensor is made._variant_tensor:  # another view of the same node
            made = below[0]
        node, number = nodes.get(name), getattr(made, SOURCE_NUMBER, None)
        if node is None or name in found or number is None or number not in lines:
            continue
        tagged = number_in_metadata(node)
        if tagged is not None and tagged in lines and lines[tagged][:2] != lines[number][:2]:
            continue
        found[name] = number
        inputs = [tensor for argument, tensors in named_inputs(node).items() if "dataset" in argument for tensor in tensors]
        if len(inputs) == len(below):
            pending += [(node_name(tensor), other) for tensor, other in zip(inputs, below, strict=True)]
    return found

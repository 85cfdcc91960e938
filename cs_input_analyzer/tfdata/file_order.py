"""Set where in its lists of files a pipeline begins.

A window of seconds reads few files, and the first files may differ from the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Larger arrays, whose samples lie in memory, are not copied for this.
MOST_BYTES = 2**28


@contextmanager
def begun_at(ratio: float) -> Iterator[None]:
    """Let datasets of rows (names of files, with labels) begin at this share of the rows, 0 to 1, while open.

    The skipped rows come last. Lists of one length stay in step, and every n-th row stays with every n-th.
    """
    if not ratio:
        yield
        return
    from tensorflow.python.data.ops import from_tensor_slices_op

    # The common constructor of `from_tensor_slices`, `list_files` and readers of lists.
    slices = from_tensor_slices_op._TensorSliceDataset
    initialize = slices.__init__

    def begun(dataset: Any, element: Any, *args: Any, **kwargs: Any) -> None:
        initialize(dataset, _begun_at(element, ratio), *args, **kwargs)

    slices.__init__ = begun
    try:
        yield
    finally:
        slices.__init__ = initialize


def _begun_at(element: Any, ratio: float) -> Any:
    """Return the same rows, beginning at another one. Leave symbolic, sparse, ragged and large rows unchanged."""
    import tensorflow as tf
    from tensorflow.python.data.util import nest, structure

    element = structure.normalize_element(element)
    parts = nest.flatten(element)
    if not all(hasattr(part, "numpy") and isinstance(part, tf.Tensor) for part in parts):
        return element
    if (
        any(part.shape.rank == 0 for part in parts)
        or sum(part.shape.num_elements() * part.dtype.size for part in parts) > MOST_BYTES
    ):
        return element
    return nest.map_structure(lambda part: tf.roll(part, -int(ratio * part.shape[0]), axis=0), element)

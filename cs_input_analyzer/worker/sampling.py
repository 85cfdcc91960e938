"""The in-graph sampling loop: `get_next` and a timestamp per batch, inside one `tf.function`.

A Python loop costs more than 100 µs a batch and would measure itself; this one costs about 30. Only a control dependency on the
element's tensors makes the stamp mean "the batch is here". Stamps go into a variable, so that they survive the exception by which a
dataset ends or breaks.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cs_input_analyzer.records import SamplesPerElement

CAPACITY = 1 << 16  # batches in one call of the loop; half a megabyte of stamps

# So many values of each tensor tell elements apart.
DIGESTED_VALUES = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One call of the loop: arrival times in seconds since the epoch, samples (None where every batch holds the same), and the
    `tf.errors.OpError` raised instead of an element."""

    stamps_s: npt.NDArray[np.float64]
    samples: npt.NDArray[np.int64] | None
    ended: bool
    error: Any


# `(iterator, batches, until_s) -> Chunk`. No batch is asked for after `until_s` (epoch seconds), except the first: buffers
# that were full at the beginning make the first batches far faster than the later ones, and a number of batches may take for ever.
Loop = Callable[..., Chunk]


def sampling_loop(*, counted_in: int | None = None, rows: int = 1) -> Loop:
    """A loop over iterators of any elements. Traced on its first call. For pipelines whose batches vary it records the
    leading dimension of the component at `counted_in`, times `rows` samples each."""
    import tensorflow as tf

    unset = tf.zeros([CAPACITY], tf.float64)
    stamps = tf.Variable(unset, trainable=False)
    samples = tf.Variable(tf.zeros([CAPACITY if counted_in is not None else 1], tf.int64), trainable=False)

    def take(iterator: Any, index: Any) -> Any:
        """One batch, stamped when all of it is there."""
        element = iterator.get_next()
        tensors = [tensor for tensor in tf.nest.flatten(element, expand_composites=True) if tensor is not None]
        with tf.control_dependencies(tensors):
            now = tf.timestamp()
        done = [tf.raw_ops.ResourceScatterUpdate(resource=stamps.handle, indices=index, updates=now)]
        if counted_in is not None:
            leading = rows * leading_dimension(tf.nest.flatten(element)[counted_in])
            done.append(tf.raw_ops.ResourceScatterUpdate(resource=samples.handle, indices=index, updates=leading))
        with tf.control_dependencies(done):
            return index + 1, tf.identity(now)

    def take_all(iterator: Any, batches: Any, until_s: Any) -> Any:
        def goes_on(index: Any, now: Any) -> Any:
            return tf.logical_and(index < batches, now < until_s)

        begin = [tf.constant(0), tf.constant(-math.inf, tf.float64)]
        return tf.while_loop(goes_on, lambda index, _: take(iterator, index), begin, parallel_iterations=1)

    traced = tf.function(take_all)

    def run(iterator: Any, batches: int = CAPACITY, until_s: float = math.inf) -> Chunk:
        count = min(batches, CAPACITY)
        stamps.assign(unset)
        error = None
        ended = False
        try:
            traced(iterator, tf.constant(count), tf.constant(until_s, tf.float64))
        except tf.errors.OutOfRangeError:
            ended = True
        except tf.errors.OpError as raised:
            error = raised
        seen = stamps.numpy()[:count]
        valid = int(np.count_nonzero(seen))
        counted = samples.numpy()[:valid].copy() if counted_in is not None else None
        return Chunk(stamps_s=seen[:valid].copy(), samples=counted, ended=ended, error=error)

    return run


def leading_dimension(component: Any) -> Any:
    """Number of samples in a batched component, an int64 scalar: rows of a ragged, first dense dimension of a sparse one."""
    import tensorflow as tf

    if isinstance(component, tf.RaggedTensor):
        return component.nrows(out_type=tf.int64)
    if isinstance(component, tf.SparseTensor):
        return component.dense_shape[0]
    return tf.shape(component, out_type=tf.int64)[0]


def shapes_of(element: Any) -> tuple[tuple[int | None, ...] | None, ...]:
    """Return the shape of each component of an eager element, in flattening order; None where it has none."""
    import tensorflow as tf

    found: list[tuple[int | None, ...] | None] = []
    for component in tf.nest.flatten(element):
        if isinstance(component, tf.SparseTensor):
            found.append(tuple(component.dense_shape.numpy().tolist()))
        elif isinstance(component, tf.RaggedTensor | tf.Tensor) and component.shape.rank is not None:
            found.append(tuple(component.shape.as_list()))
        else:
            found.append(None)
    return tuple(found)


def counted_here(element: Any, found: SamplesPerElement) -> SamplesPerElement:
    """What is to be counted in elements like this eager one: where its first dimension cannot be that of the samples, each element
    counts as a full one."""
    import tensorflow as tf

    if found.counted_in is None:
        return found
    components = tf.nest.flatten(element)
    component = components[found.counted_in] if found.counted_in < len(components) else None
    is_tensor = isinstance(component, tf.RaggedTensor | tf.SparseTensor | tf.Tensor)
    if component is None or not is_tensor or component.shape.rank == 0:
        return replace(found, counted_in=None)
    if found.value is None:
        return found
    leading, full = int(leading_dimension(component)), found.value // found.rows
    is_another = leading > full or (leading != full and full in (component.shape.as_list() or ())[1:])
    return replace(found, counted_in=None) if is_another else found


def samples_in(element: Any, found: SamplesPerElement) -> int:
    """Samples of one eager element, counted as the loop counts them."""
    import tensorflow as tf

    if found.counted_in is None:
        return found.value or 1
    return found.rows * int(leading_dimension(tf.nest.flatten(element)[found.counted_in]))


def bytes_of(element: Any) -> int:
    """Bytes of all tensors of one eager element: what is handed to the consumer. Strings count their own length."""
    import tensorflow as tf

    total = 0
    for tensor in tf.nest.flatten(element, expand_composites=True):
        if not isinstance(tensor, tf.Tensor) or tensor.dtype in (tf.variant, tf.resource):
            continue
        if tensor.dtype == tf.string:
            total += int(tf.reduce_sum(tf.strings.length(tensor)))
        else:
            total += int(tf.size(tensor)) * tensor.dtype.size
    return total


def digest_of(element: Any) -> str | None:
    """Of the first values of each tensor of one eager element, to tell two elements apart; None where no tensor holds two values,
    as in data that somebody made up."""
    import tensorflow as tf

    digest, varies = hashlib.blake2b(digest_size=8), False
    for tensor in tf.nest.flatten(element, expand_composites=True):
        if isinstance(tensor, tf.Tensor) and tensor.dtype not in (tf.variant, tf.resource):
            first = tf.reshape(tensor, [-1])[:DIGESTED_VALUES]
            if first.dtype == tf.string:  # pictures may be long
                first = tf.strings.to_hash_bucket_fast(first, 1 << 62)
            values = first.numpy()
            varies |= any(value != values[0] for value in values[1:])
            digest.update(repr(values.tolist()).encode())
    return digest.hexdigest() if varies else None


def harness_us_per_batch(batches: int = 2000) -> float:
    """What the loop itself costs, on a dataset that only hands out one ready element: an upper bound, in microseconds."""
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensors(tf.constant(0)).repeat()
    iterator = iter(dataset)
    loop = sampling_loop()
    loop(iterator, 10)
    stamps = loop(iterator, batches).stamps_s
    return float(stamps[-1] - stamps[0]) / (len(stamps) - 1) * 1e6

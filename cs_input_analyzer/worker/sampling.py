"""Iterate a dataset inside one `tf.function`, and stamp each batch.

A Python loop costs more than 100 µs a batch and would measure itself. This one costs about 30. Only a control dependency on the
element's tensors makes a stamp mean "the batch is here". Stamps go into a variable. So they survive the exception by which a
dataset ends or breaks, and another thread reads them while the loop runs.
"""

from __future__ import annotations

import hashlib
import math
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cs_input_analyzer.records import SamplesPerElement
from cs_input_analyzer.worker.steady_clock import LEAST_JUMP_S, SteadyStamps, ahead_s, now_s

CAPACITY = 1 << 16  # batches in one call of the loop; half a megabyte of stamps
_BLOCK = 1 << 12  # stamps that one read takes out of the variable

# Values of each tensor that tell elements apart.
DIGESTED_VALUES = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """Hold batches in the order of their arrival: seconds on the steady clock, and samples. None: every batch holds the same."""

    stamps_s: npt.NDArray[np.float64]
    samples: npt.NDArray[np.int64] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk(Arrivals):
    """Hold the result of one call of the loop: batches that `arrived` has not given, and the `tf.errors.OpError` that ended it."""

    ended: bool
    error: Any


class SamplingLoop:
    """Loop over iterators of any elements. The first call traces the loop.

    Args:
        counted_in: in a pipeline of uneven batches, the component with the samples as its leading dimension.
        rows: samples in each row of that component.
    """

    def __init__(self, *, counted_in: int | None = None, rows: int = 1) -> None:
        import tensorflow as tf

        self._counted_in, self._rows = counted_in, rows
        self._unset = tf.zeros([CAPACITY], tf.float64)
        self._stamps = tf.Variable(self._unset, trainable=False)
        self._samples = tf.Variable(tf.zeros([CAPACITY if counted_in is not None else 1], tf.int64), trainable=False)
        self._until_s = tf.Variable(math.inf, dtype=tf.float64, trainable=False)
        self._traced = tf.function(self._take_all)
        self._begin = self._read = 0
        self._stop_s = math.inf
        self._steady = SteadyStamps()
        self._reading, self._stopping = threading.Lock(), threading.Lock()

    def __call__(self, iterator: Any, batches: int | None = None, until_s: float | None = math.inf, *, fewest: int = 1) -> Chunk:
        """Take batches until `batches` have come, the time `until_s` has passed, the data end, or the memory for stamps is full.

        Args:
            batches: None is as many as the memory holds.
            until_s: on the steady clock; None leaves the time that `stop_at` has set.
            fewest: batches that are asked for whatever the time.
        """
        import tensorflow as tf

        room = CAPACITY - self._begin
        if room < min(CAPACITY // 2 if batches is None else batches, CAPACITY):
            self._stamps.assign(self._unset)
            self._begin = self._read = 0
            room = CAPACITY
        if until_s is not None:
            self.stop_at(until_s)
        last = self._begin + min(room if batches is None else batches, room)
        sure = tf.constant(self._begin + fewest)
        parts: list[Arrivals] = []
        error, ended, is_over = None, False, False
        while not is_over:
            try:
                self._traced(iterator, tf.constant(self._begin), tf.constant(last), sure)
            except tf.errors.OutOfRangeError:
                ended = True
            except tf.errors.OpError as raised:
                error = raised
            parts.append(self.arrived())
            self._begin = self._read
            is_over = ended or error is not None or self._begin >= last or self._is_time()
        samples = [part.samples for part in parts if part.samples is not None]
        return Chunk(
            stamps_s=np.concatenate([part.stamps_s for part in parts]),
            samples=np.concatenate(samples) if samples else None,
            ended=ended,
            error=error,
        )

    def stop_at(self, until_s: float) -> None:
        """Ask for no batch after this time on the steady clock. Another thread may call it while the loop runs."""
        with self._stopping:
            self._stop_s = until_s
            self._until_s.assign(until_s + ahead_s())

    def _is_time(self) -> bool:
        """Return whether the loop has ended for its time. If the host's clock was set, correct the loop's time."""
        with self._stopping:
            if now_s() >= self._stop_s - LEAST_JUMP_S:
                return True
            self._until_s.assign(self._stop_s + ahead_s())
            return False

    def arrived(self) -> Arrivals:
        """Return the batches that came since the last call. Another thread may call it while the loop runs."""
        stamps_s, samples = [], []
        with self._reading:
            while self._read < CAPACITY:
                end = min(self._read + _BLOCK, CAPACITY)
                block = _slice_of(self._stamps, self._read, end)
                count = int(np.count_nonzero(block))
                stamps_s.append(block[:count])
                if self._counted_in is not None:
                    samples.append(_slice_of(self._samples, self._read, self._read + count))
                self._read += count
                if count < len(block):
                    break
            steady_s = self._steady.steady(np.concatenate(stamps_s) if stamps_s else np.empty(0))
        return Arrivals(
            stamps_s=steady_s,
            samples=None if self._counted_in is None else np.concatenate([np.empty(0, np.int64), *samples]),
        )

    def _take_all(self, iterator: Any, begin: Any, last: Any, sure: Any) -> Any:
        import tensorflow as tf

        def goes_on(index: Any, now: Any) -> Any:
            is_time = tf.logical_or(now < self._until_s.read_value(), index < sure)
            return tf.logical_and(index < last, is_time)

        start = [begin, tf.constant(-math.inf, tf.float64)]
        return tf.while_loop(goes_on, lambda index, before: self._take(iterator, index, before), start, parallel_iterations=1)

    def _take(self, iterator: Any, index: Any, before: Any) -> Any:
        """Take one batch, and stamp it when all of it is there.

        If the clock was set back, the loop ends and its caller continues.
        """
        import tensorflow as tf

        element = iterator.get_next()
        done = [tensor for tensor in tf.nest.flatten(element, expand_composites=True) if tensor is not None]
        with tf.control_dependencies(done):
            now = tf.timestamp()
        if self._counted_in is not None:
            leading = self._rows * leading_dimension(tf.nest.flatten(element)[self._counted_in])
            # Before its stamp: who sees a stamp may read the samples.
            done = [tf.raw_ops.ResourceScatterUpdate(resource=self._samples.handle, indices=index, updates=leading)]
        with tf.control_dependencies(done):
            stamped = tf.raw_ops.ResourceScatterUpdate(resource=self._stamps.handle, indices=index, updates=now)
        with tf.control_dependencies([stamped]):
            return index + 1, tf.where(now < before, tf.constant(math.inf, tf.float64), now)


def _slice_of(variable: Any, begin: int, end: int) -> Any:
    """Copy a part of a variable that another thread may be writing to."""
    import tensorflow as tf

    return tf.raw_ops.ResourceGather(resource=variable.handle, indices=tf.range(begin, end), dtype=variable.dtype).numpy()


def leading_dimension(component: Any) -> Any:
    """Return the samples of a batched component as an int64 scalar: rows if ragged, the first dense dimension if sparse."""
    import tensorflow as tf

    if isinstance(component, tf.RaggedTensor):
        return component.nrows(out_type=tf.int64)
    if isinstance(component, tf.SparseTensor):
        return component.dense_shape[0]
    return tf.shape(component, out_type=tf.int64)[0]


def shapes_of(element: Any) -> tuple[tuple[int | None, ...] | None, ...]:
    """Return the shape of each component of an eager element, in flattening order; None if it has none."""
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


def samples_in(element: Any, found: SamplesPerElement) -> int:
    """Return the samples of one eager element, counted as the loop counts them."""
    import tensorflow as tf

    if found.counted_in is None:
        return found.value or 1
    return found.rows * int(leading_dimension(tf.nest.flatten(element)[found.counted_in]))


def bytes_of(element: Any) -> int:
    """Return the bytes of all tensors of one eager element, which the consumer gets. Strings count their own length."""
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
    """Return a digest of the first values of each tensor of an eager element, to tell two elements apart.

    Return None if no tensor holds two values, as in made-up data.
    """
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
    """Return an upper bound of the loop's own cost in microseconds, on a dataset that only hands out one ready element."""
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensors(tf.constant(0)).repeat()
    iterator = iter(dataset)
    loop = SamplingLoop()
    loop(iterator, 10)
    stamps = loop(iterator, batches).stamps_s
    return float(stamps[-1] - stamps[0]) / (len(stamps) - 1) * 1e6

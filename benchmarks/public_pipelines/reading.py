"""One running iterator of a public pipeline, read by a loop that counts samples by itself."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import Any

from benchmarks.public_pipelines.judging import component_at
from benchmarks.public_pipelines.listed import Listed

# So much CPU in so long is an idle process.
IDLE_CPU_S, IDLE_LOOK_S, LONGEST_SETTLING_S = 0.001, 0.02, 1.0


@dataclass(slots=True)
class Reading:
    """One running iterator of a dataset; begins again where a pass ends."""

    dataset: Any
    listed: Listed
    iterator: Any = None
    elements: int = 1
    passes: int = 0
    _loop: Any = None
    _total: Any = None
    _taken: Any = None
    _is_fresh: bool = True

    def __post_init__(self) -> None:
        import tensorflow as tf

        self._total, self._taken = (tf.Variable(0, dtype=tf.int64, trainable=False) for _ in range(2))
        self.iterator = iter(self.dataset)

        @tf.function
        def loop(iterator: Any, limit: Any) -> Any:
            def body(index: Any) -> Any:
                element = iterator.get_next()
                counted = component_at(element, self.listed.samples)
                sizes = tf.gather(tf.shape(counted, out_type=tf.int64), self.listed.axes)
                whole = [tensor for tensor in tf.nest.flatten(element, expand_composites=True) if tensor is not None]
                with tf.control_dependencies(whole):
                    done = [self._total.assign_add(tf.reduce_prod(sizes)), self._taken.assign_add(1)]
                with tf.control_dependencies(done):
                    return index + 1

            return tf.while_loop(lambda index: index < limit, body, [tf.constant(0)], parallel_iterations=1)

        self._loop = loop

    def take(self, elements: int) -> None:
        import tensorflow as tf

        wanted = int(self._taken) + elements
        while (missing := wanted - int(self._taken)) > 0:
            before = int(self._taken)
            try:
                self._loop(self.iterator, tf.constant(missing))
            except tf.errors.OutOfRangeError:
                is_empty = int(self._taken) == before and self._is_fresh
                if is_empty:
                    raise RuntimeError("a pass gave no element") from None
                self.iterator, self._is_fresh = iter(self.dataset), True
                self.passes += 1
            else:
                self._is_fresh = False

    def samples(self) -> int:
        return int(self._total)

    def for_seconds(self, seconds: float) -> tuple[float, float]:
        """Return the samples, and the seconds that they took. Look at the clock ten times; one element at least is read."""
        before, began_s, left_s = self.samples(), time.perf_counter(), seconds
        while left_s > 0:
            chunk_s = time.perf_counter()
            self.take(self.elements)
            took_s = time.perf_counter() - chunk_s
            left_s = seconds - (time.perf_counter() - began_s)
            next_s = max(0.0, min(left_s, seconds / 10))
            self.elements = max(1, min(4 * self.elements, int(self.elements * next_s / max(took_s, 1e-6))))
        return self.samples() - before, time.perf_counter() - began_s

    def for_passes(self, seconds: float) -> tuple[float, float]:
        """Return the samples of whole passes, and the seconds that they took.

        As many passes as begin within so many seconds, one at least.
        """
        import tensorflow as tf

        before, began_s = self.samples(), time.perf_counter()
        while True:
            self.iterator = iter(self.dataset)
            with contextlib.suppress(tf.errors.OutOfRangeError):
                self._loop(self.iterator, tf.constant(2**31 - 1))
            took_s = time.perf_counter() - began_s
            if took_s >= seconds:
                self.iterator, self._is_fresh = iter(self.dataset), True
                return self.samples() - before, took_s

    def cpu_per_sample(self, seconds: float) -> float:
        """Return the CPU of a sample, from an idle process with full buffers to the next: so all of it is of these samples.

        By whole passes where the list says so: in one part of a pass, buffers fill, and in the other they are used up.
        """
        settle()
        began_s = time.process_time()
        if self.listed.pass_elements is None:
            samples, _ = self.for_seconds(seconds)
        elif self.listed.pass_elements == 0:
            samples, _ = self.for_passes(seconds)
        else:
            samples = self.for_elements(self.listed.pass_elements, seconds)
        settle()
        return (time.process_time() - began_s) / samples

    def for_elements(self, elements: int, seconds: float) -> int:
        """Return the samples of as many times so many elements as begin within so many seconds."""
        before, began_s = self.samples(), time.perf_counter()
        while True:
            self.take(elements)
            if time.perf_counter() - began_s >= seconds:
                return self.samples() - before


def settle() -> None:
    """Wait until the threads of all pipelines have filled their buffers."""
    until_s = time.perf_counter() + LONGEST_SETTLING_S
    while time.perf_counter() < until_s:
        before_s = time.process_time()
        time.sleep(IDLE_LOOK_S)
        if time.process_time() - before_s < IDLE_CPU_S:
            return

"""A map function of known cost, for planting bottlenecks: `busy(cpu_us=50)` burns 50 µs of the CPU of whichever thread runs it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.compiled import compiled

SOURCE = Path(__file__).parent / "busy_op.cc"


@functools.cache
def _library() -> Any:
    """Load the op, compiled against the installed TensorFlow. About half a minute the first time."""
    import tensorflow as tf

    command = ["g++", "-shared", "-fPIC", "-O2", "-w", *tf.sysconfig.get_compile_flags()]
    return tf.load_op_library(str(compiled(SOURCE, command, tf.sysconfig.get_link_flags())))


def busy(cpu_us: float = 0.0, sleep_us: float = 0.0) -> Callable[..., Any]:
    """Return a function for `Dataset.map` that gives its element back after burning `cpu_us` of CPU and sleeping `sleep_us`."""
    import tensorflow as tf

    library = _library()

    def function(*element: Any) -> Any:
        first = element[0] if len(element) == 1 else element
        tensors = tf.nest.flatten(first)
        tensors[0] = library.csia_busy(value=tensors[0], cpu_us=cpu_us, sleep_us=sleep_us)
        return tf.nest.pack_sequence_as(first, tensors)

    return function

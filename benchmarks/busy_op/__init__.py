"""A map function of known cost, for planting bottlenecks: `busy(cpu_us=50)` burns 50 µs of the CPU of whichever thread runs it."""

from __future__ import annotations

import functools
import hashlib
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import platformdirs

SOURCE = Path(__file__).parent / "busy_op.cc"


class CompilerMissing(RuntimeError):
    """g++ is not there, or cannot build against TensorFlow's headers."""


@functools.cache
def _library() -> Any:
    """Compiles the op against the installed TensorFlow once, and loads it. About half a minute the first time."""
    import tensorflow as tf

    key = hashlib.sha256(SOURCE.read_bytes() + tf.__version__.encode()).hexdigest()[:16]
    # Not in the temporary folder: every worker has its own, and would build its own.
    folder = Path(platformdirs.user_cache_dir("cs_input_analyzer")) / "busy_op"
    library = folder / f"csia_busy_op-{key}.so"
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as place:
            unfinished = Path(place) / library.name
            command = ["g++", "-shared", "-fPIC", "-O2", "-w", str(SOURCE), "-o", str(unfinished)]
            command += [*tf.sysconfig.get_compile_flags(), *tf.sysconfig.get_link_flags()]
            try:
                built = subprocess.run(command, capture_output=True, text=True, check=False)
            except FileNotFoundError:
                raise CompilerMissing("g++ is not installed; apt-get install g++") from None
            if built.returncode != 0:
                raise CompilerMissing(f"the busy op does not build:\n{built.stderr[-2000:]}")
            unfinished.replace(library)  # at once: another process may be building it too
    return tf.load_op_library(str(library))


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

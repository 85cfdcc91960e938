"""Input functions whose data turn against the worker that reads them. Run by workers, never imported by the tests."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from input_functions import task_index

Dataset = tf.data.Dataset


def reads_shards(params: dict[str, Any]) -> Any:
    """One shard after the other."""
    files = Dataset.list_files(f"{params['folder']}/*.tfrecord", shuffle=False)
    return files.interleave(tf.data.TFRecordDataset, cycle_length=1).repeat().batch(2, drop_remainder=True)


def shrinks(params: dict[str, Any]) -> Any:
    """Another program rewrites the file some time after the reader has begun; the cut goes through a record a little ahead."""
    path = f"{params['folder']}/part-0.tfrecord"
    whole_bytes, record_bytes, ahead_bytes = os.path.getsize(path), 116, 8050

    def cut(record: bytes) -> bytes:
        count = counted()
        if count == 20:  # only the first ones are read before sampling begins
            begun_s.append(time.monotonic())
        read_bytes = count * record_bytes % whole_bytes
        is_time = begun_s and time.monotonic() > begun_s[0] + 0.7 and read_bytes + ahead_bytes < whole_bytes
        if is_time and os.path.getsize(path) == whole_bytes:
            os.truncate(path, read_bytes + ahead_bytes)
        return record

    counted, begun_s = _counter(), list[float]()
    # Read in small pieces: what was read before the cut is there, and a slow host must reach the rest within its window.
    read = tf.data.TFRecordDataset(path, buffer_size=4096)
    records = read.map(lambda x: tf.ensure_shape(tf.numpy_function(cut, [x], tf.string), []))
    return records.repeat().batch(2, drop_remainder=True)


def huge_elements(params: dict[str, Any]) -> Any:
    """Elements of `megabytes` each, prefetched."""
    count = params["megabytes"] * 250_000
    dataset = Dataset.range(1 << 40).map(lambda x: tf.fill([count], tf.cast(x, tf.float32)))
    return dataset.batch(1, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def without_proc() -> Any:
    """Neither our counters nor psutil find anything in /proc. There is a child, which otherwise would be looked up there."""
    import psutil

    from cs_input_analyzer.host import counters

    empty = tempfile.gettempdir() + "/empty"
    os.mkdir(empty)
    counters.PROC = Path(empty)
    psutil.PROCFS_PATH = empty  # type: ignore[attr-defined]
    subprocess.Popen(["sleep", "60"])
    return _numbers()


def fills_the_disk() -> Any:
    """The kernel lets no file of this process grow beyond 16 KiB, so that its journal is full after some hundred batches."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, 1 << 14))
    return _numbers()


def killed_as_second_worker() -> Any:
    """The kernel takes the second worker when it has seen some elements, as it does when memory runs out."""

    def die(x: Any) -> Any:
        if counted() == 800:
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    counted = _counter()
    dataset = _numbers()
    return dataset if task_index() != 1 else dataset.map(lambda x: tf.ensure_shape(tf.numpy_function(die, [x], tf.int64), [8]))


def _numbers() -> Any:
    return Dataset.range(1 << 40).batch(8, drop_remainder=True)


def _counter() -> Any:
    """Counts its calls, from 1 on."""
    calls = np.zeros([], np.int64)

    def count() -> int:
        calls[...] += 1
        return int(calls)

    return count

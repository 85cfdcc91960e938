"""The input functions, one for each planted bottleneck. `params["files"]` is the glob of TFRecord files."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.busy_op import busy

BATCH = 32
AUTOTUNE = tf.data.AUTOTUNE
# A record longer than this is one of the heavy file's.
LIGHT_BYTES = 5_000


def cpu(params: Mapping[str, Any]) -> tf.data.Dataset:
    """One heavy map, as parallel as TensorFlow likes."""
    return _read(params).map(busy(cpu_us=400), num_parallel_calls=AUTOTUNE).batch(BATCH, drop_remainder=True).prefetch(AUTOTUNE)


def balanced(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Work in several places, all of it parallel: nothing but the CPUs is short."""
    dataset = _read(params).map(busy(cpu_us=150), num_parallel_calls=AUTOTUNE).shuffle(256, seed=1)
    dataset = dataset.map(busy(cpu_us=150), num_parallel_calls=AUTOTUNE).batch(BATCH, drop_remainder=True)
    return dataset.map(busy(cpu_us=100 * BATCH), num_parallel_calls=AUTOTUNE).prefetch(AUTOTUNE)


def serial(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Return a map without parallel calls before a lighter parallel one."""
    dataset = _read(params).map(busy(cpu_us=400)).prefetch(64)
    return dataset.map(busy(cpu_us=100), num_parallel_calls=AUTOTUNE).batch(BATCH, drop_remainder=True).prefetch(AUTOTUNE)


def one_call(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Return a map that makes one call at a time, of which two would fit."""
    dataset = _read(params).map(busy(cpu_us=400), num_parallel_calls=1).prefetch(64)
    return dataset.map(busy(cpu_us=100), num_parallel_calls=AUTOTUNE).batch(BATCH, drop_remainder=True).prefetch(AUTOTUNE)


def two_waiting_calls(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Return a map whose calls wait for most of their time, as look-ups elsewhere do, and of which only two run at a time."""
    dataset = _read(params).map(busy(cpu_us=50, sleep_us=750), num_parallel_calls=2)
    return dataset.batch(BATCH, drop_remainder=True).prefetch(AUTOTUNE)


def one_file_after_the_other(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Files are read one after the other, so that every read is waited for."""
    dataset = _files(params).flat_map(tf.data.TFRecordDataset)
    return dataset.map(_parse, num_parallel_calls=AUTOTUNE).batch(BATCH, drop_remainder=True).prefetch(AUTOTUNE)


def many_files_at_once(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Eight files at a time: what the file system can give."""
    dataset = _files(params).interleave(tf.data.TFRecordDataset, cycle_length=8, num_parallel_calls=8, deterministic=False)
    return dataset.map(_parse, num_parallel_calls=AUTOTUNE).batch(BATCH, drop_remainder=True).prefetch(AUTOTUNE)


def python(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Four calls of a Python function at a time, which all need the interpreter's lock."""

    def decode(record: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(tf.numpy_function(_python_work, [record], tf.int64), [])

    dataset = _read(params).map(decode, num_parallel_calls=4)
    return dataset.batch(BATCH, drop_remainder=True).prefetch(AUTOTUNE)


def sharded(params: Mapping[str, Any], input_context: Any) -> tf.data.Dataset:
    """Every worker has its own files, and the records of one file are four times as long and as dear."""
    light, heavy = busy(cpu_us=150), busy(cpu_us=600)

    def decode(record: tf.Tensor) -> tf.Tensor:
        return tf.cond(tf.strings.length(record) > LIGHT_BYTES, lambda: heavy(record), lambda: light(record))

    files = _files(params, num_shards=input_context.num_input_pipelines, index=input_context.input_pipeline_id)
    dataset = files.interleave(tf.data.TFRecordDataset, cycle_length=2, num_parallel_calls=AUTOTUNE)
    return dataset.map(decode, num_parallel_calls=AUTOTUNE).batch(BATCH, drop_remainder=True).prefetch(AUTOTUNE)


def _files(params: Mapping[str, Any], num_shards: int = 1, index: int = 0) -> tf.data.Dataset:
    files = tf.data.Dataset.from_tensor_slices(sorted(tf.io.gfile.glob(params["files"])))
    return files.shard(num_shards, index).repeat()


def _read(params: Mapping[str, Any]) -> tf.data.Dataset:
    return _files(params).interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=AUTOTUNE)


def _parse(record: tf.Tensor) -> tf.Tensor:
    return tf.io.decode_raw(record, tf.uint8)[:64]


def _python_work(record: bytes) -> np.int64:
    """300 µs by the CPU clock of its own thread, holding the lock."""
    until_ns = time.thread_time_ns() + 300_000
    while time.thread_time_ns() < until_ns:
        pass
    return np.int64(len(record))

"""The five pipelines of an occasion. Three are samples; one waits for storage of known latency, one only computes.

A measured process imports this module, TensorFlow and the samples, and nothing of the analyzer.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

BATCH = 32
RECORD_BYTES = 8192
STORAGE_RECORDS = 2048
BUFFER_BYTES = 128 * 1024
DRAWS = 20_000


def build(name: str, params: Mapping[str, Any]) -> tuple[tf.data.Dataset, int]:
    """Return the endless dataset called `name`, and the samples in one of its elements."""
    if name == "storage":
        return storage(params["files"]), BATCH
    if name == "compute":
        return compute(), BATCH
    dataset = importlib.import_module(f"sample_pipelines.{name}").train_input_fn(params)
    return dataset, int(params["train_input"]["batch_size"])


def storage(files: str) -> tf.data.Dataset:
    """Return records of 8 KiB from one file after the other: each read of 128 KiB waits for the file system."""
    paths = tf.data.Dataset.list_files(files, shuffle=False).repeat()
    records = paths.flat_map(lambda path: tf.data.TFRecordDataset(path, buffer_size=BUFFER_BYTES))
    return records.map(tf.strings.length).batch(BATCH, drop_remainder=True).prefetch(2)


def compute() -> tf.data.Dataset:
    """Random numbers and their sum: one op that computes in registers, some hundred microseconds a sample."""
    numbers = tf.data.Dataset.counter()
    drawn = numbers.map(
        lambda number: tf.reduce_sum(tf.random.stateless_uniform([DRAWS], seed=[number, 0])), num_parallel_calls=tf.data.AUTOTUNE
    )
    return drawn.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def write_storage_files(folder: Path, files: int) -> None:
    """Write the files of `storage`: equal, incompressible, without meaning."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        path = folder / f"part-{number}"
        with tf.io.TFRecordWriter(f"{path}.unfinished") as writer:
            for record in range(STORAGE_RECORDS):
                digest = hashlib.sha256(f"{number} {record}".encode()).digest()
                writer.write(digest * (RECORD_BYTES // len(digest)))
        path.with_name(f"{path.name}.unfinished").rename(path)

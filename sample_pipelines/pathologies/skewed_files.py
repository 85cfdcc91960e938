"""One file holds as many records as all the others together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from sample_pipelines.fc_mnist import PIXELS
from sample_pipelines.sharding import shard_files
from sample_pipelines.tfrecords import file_pattern

RAISES = "CSI306"
FILES = 16
SMALL = 64  # records of a file, but for the first
LARGE = 15 * SMALL


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (pixels float16 [batch_size, 784] in 0 to 1, label int32 [batch_size])."""
    section = params["train_input"]

    def decode(records: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        values = tf.ensure_shape(tf.io.decode_raw(records, tf.uint8), [section["batch_size"], 1 + PIXELS])
        return tf.cast(values[:, 1:], tf.float16) / 255, tf.cast(values[:, 0], tf.int32)

    files = tf.data.Dataset.list_files(file_pattern(section["data_dir"]), shuffle=False)
    files = shard_files(files, section["use_multiple_workers"])
    dataset = files.repeat().interleave(
        tf.data.TFRecordDataset,
        cycle_length=4,
        block_length=16,
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=False,
    )
    dataset = dataset.shuffle(section["shuffle_buffer"], seed=section["shuffle_seed"])
    dataset = dataset.batch(section["batch_size"], drop_remainder=True)
    dataset = dataset.map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    return dataset.prefetch(tf.data.AUTOTUNE)


def write_dataset(directory: Path) -> None:
    """Writes `train/` under `directory`: digits without a shape, 1.5 MB."""
    rng = np.random.default_rng(306)
    (directory / "train").mkdir(parents=True, exist_ok=True)
    for number in range(FILES):
        path = directory / "train" / f"part-{number:05d}-of-{FILES:05d}.tfrecord"
        with tf.io.TFRecordWriter(str(path)) as writer:
            for _ in range(SMALL if number else LARGE):
                writer.write(rng.bytes(1 + PIXELS))

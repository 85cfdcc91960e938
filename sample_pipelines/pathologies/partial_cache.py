"""A cache of which only the first elements are taken, so that it is thrown away in every pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sample_pipelines.sharding import shard_files
from sample_pipelines.tfrecords import file_pattern
from sample_pipelines.unet import IMAGE_SIZE

RAISES = "CSI205"
SAMPLE = "unet"


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (image, mask), both float16 [batch_size, 256, 256, 1] in 0 to 1."""
    section = params["train_input"]

    def parse(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        example = tf.io.parse_single_example(
            record, {"image": tf.io.FixedLenFeature([], tf.string), "mask": tf.io.FixedLenFeature([], tf.string)}
        )
        both = [tf.io.decode_png(example[name], channels=1) for name in ("image", "mask")]
        both = tf.ensure_shape(tf.concat(both, axis=-1), [IMAGE_SIZE, IMAGE_SIZE, 2])
        both = tf.cast(both, tf.float16) / 255
        return both[..., :1], both[..., 1:]

    files = tf.data.Dataset.list_files(file_pattern(section["data_dir"]), shuffle=False)
    files = shard_files(files, section["use_multiple_workers"])
    dataset = files.interleave(
        tf.data.TFRecordDataset,
        cycle_length=4,
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=False,
    )
    dataset = dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.cache().take(24)
    dataset = dataset.repeat()
    dataset = dataset.batch(section["train_batch_size"], drop_remainder=True, num_parallel_calls=tf.data.AUTOTUNE)
    return dataset.prefetch(tf.data.AUTOTUNE)

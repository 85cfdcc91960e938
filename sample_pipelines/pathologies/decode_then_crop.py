"""JPEG images are decoded whole, and then a small random window of them is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sample_pipelines.bases import listed, picture_batches, read, shuffled

RAISES = "CSI403"
SAMPLE = "resnet50"


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (image float16 [batch_size, size, size, 3] in 0 to 1, label int32 [batch_size])."""
    section = params["train_input"]
    size = section["image_size"]

    def parse(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        example = tf.io.parse_single_example(
            record, {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
        )
        image = tf.io.decode_jpeg(example["image"], channels=3)
        image = tf.image.random_crop(image, [size, size, 3])
        return tf.cast(image, tf.float16) / 255, tf.cast(example["label"], tf.int32)

    dataset = shuffled(read(listed(section).repeat(), block_length=1), section)
    dataset = dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False)
    return picture_batches(dataset, section["batch_size"])

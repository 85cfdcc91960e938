"""U-Net input: grey surfaces and the masks of their defects, PNG-encoded, augmented together.

Image and mask pass every geometric change as two channels of one tensor, so they cannot drift apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from sample_pipelines.pictures import cloud, repeated, surface_with_defects
from sample_pipelines.tfrecords import listed, parsed, records_in, serialized

RECORDS = 512
IMAGE_SIZE = 256
# Records of one picture, on average.
ALIKE = 2


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (image float [batch_size, 256, 256, 1] in -1 to 1, mask float of the same shape, 0 or 1).

    Both are float16 with `mixed_precision`, else float32.
    """
    section = params["train_input"]
    dtype = tf.float16 if section["mixed_precision"] else tf.float32

    def parse_and_augment(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        example = parsed(record, image=tf.string, mask=tf.string)
        image, mask = tf.io.decode_png(example["image"], channels=1), tf.io.decode_png(example["mask"], channels=1)
        both = tf.ensure_shape(tf.concat([image, mask], axis=-1), [IMAGE_SIZE, IMAGE_SIZE, 2])
        if section["augment"]:
            both = _turned(both)
        image = tf.cast(both[..., :1], tf.float32) / 127.5 - 1
        if section["augment"]:
            image = tf.image.random_contrast(tf.image.random_brightness(image, 0.2), 0.8, 1.2)
            image = tf.clip_by_value(image, -1, 1)
        return tf.cast(image, dtype), tf.cast(both[..., 1:], dtype)

    dataset = records_in(listed(section), section)
    if section["repeat"]:
        dataset = dataset.repeat()
    dataset = dataset.map(parse_and_augment, num_parallel_calls=tf.data.AUTOTUNE, deterministic=not section["shuffle"])
    dataset = dataset.batch(section["train_batch_size"], drop_remainder=True, num_parallel_calls=tf.data.AUTOTUNE)
    return dataset.prefetch(tf.data.AUTOTUNE)


def _turned(both: tf.Tensor) -> tf.Tensor:
    """Return one of the eight symmetries of the square, at random."""
    both = tf.image.random_flip_up_down(tf.image.random_flip_left_right(both))
    return tf.cond(tf.random.uniform([]) < 0.5, lambda: both, lambda: tf.transpose(both, [1, 0, 2]))


def records(seed: int, count: int) -> Iterator[bytes]:
    """Yield pairs of PNG images: 23 MB at scale 1."""
    rng = np.random.default_rng([seed, 5])
    clouds = np.stack([cloud(rng, 640, falloff) for falloff in (1.2, 1.8, 0.4)])

    def pair() -> bytes:
        image, mask = surface_with_defects(rng, clouds, IMAGE_SIZE)
        return serialized(image=tf.io.encode_png(image).numpy(), mask=tf.io.encode_png(mask).numpy())

    return repeated(rng, pair, count, ALIKE)

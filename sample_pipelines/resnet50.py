"""ResNet-50 input: JPEG photographs, randomly cropped, resized, flipped and normalised one by one.

Decoding dominates, so only the cropped part is decoded, images are shuffled while still encoded, and `map` runs in parallel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from sample_pipelines.pictures import cloud, photograph, repeated
from sample_pipelines.tfrecords import listed, parsed, records_in, serialized

RECORDS = 640
CLASSES = 1_000
# Records of one picture under other labels, on average, which decode the same and are quicker to write.
ALIKE = 5
JPEG_QUALITY = 92
# (height, width); the first is the commonest size in ImageNet.
SIZES = ((375, 500), (375, 500), (333, 500), (500, 375))
# Per-channel mean and deviation of ImageNet's training images, in 0 to 255.
MEAN = (123.675, 116.28, 103.53)
DEVIATION = (58.395, 57.12, 57.375)


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (image float [batch_size, size, size, 3], label int32 [batch_size]).

    Images are float16 with `mixed_precision`, else float32; each channel has about mean 0 and deviation 1.
    """
    section = params["train_input"]
    size = section["image_size"]
    dtype = tf.float16 if section["mixed_precision"] else tf.float32

    def parse_and_augment(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        example = parsed(record, image=tf.string, label=tf.int64)
        image = _random_crop(example["image"], section["smallest_crop"])
        image = tf.image.resize(image, [size, size])
        image = tf.image.random_flip_left_right(image)
        image = (image - tf.constant(MEAN)) / tf.constant(DEVIATION)
        return tf.cast(image, dtype), tf.cast(example["label"], tf.int32)

    dataset = records_in(listed(section), section)
    if section["repeat"]:
        dataset = dataset.repeat()
    dataset = dataset.map(parse_and_augment, num_parallel_calls=tf.data.AUTOTUNE, deterministic=not section["shuffle"])
    dataset = dataset.batch(section["batch_size"], drop_remainder=True, num_parallel_calls=tf.data.AUTOTUNE)
    return dataset.prefetch(tf.data.AUTOTUNE)


def _random_crop(jpeg: tf.Tensor, smallest: float) -> tf.Tensor:
    """Decode a random window of at least the share `smallest` of the picture's area, its sides 3:4 to 4:3."""
    begin, extent, _ = tf.image.sample_distorted_bounding_box(
        tf.io.extract_jpeg_shape(jpeg),
        bounding_boxes=tf.zeros([1, 0, 4]),
        aspect_ratio_range=(3 / 4, 4 / 3),
        area_range=(smallest, 1.0),
        max_attempts=10,
        use_image_if_no_bounding_boxes=True,
    )
    return tf.io.decode_and_crop_jpeg(jpeg, tf.concat([begin[:2], extent[:2]], axis=0), channels=3)


def records(seed: int, count: int) -> Iterator[bytes]:
    """Yield photographs as JPEG under random labels: 47 MB at scale 1."""
    rng = np.random.default_rng([seed, 4])
    clouds = np.stack([cloud(rng, 768, falloff) for falloff in (1.0, 1.15, 1.3)])

    def jpeg() -> bytes:
        height, width = SIZES[int(rng.integers(len(SIZES)))]
        encoded: bytes = tf.io.encode_jpeg(photograph(rng, clouds, height, width), quality=JPEG_QUALITY).numpy()
        return encoded

    for picture in repeated(rng, jpeg, count, ALIKE):
        yield serialized(image=picture, label=[int(rng.integers(CLASSES))])

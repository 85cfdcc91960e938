"""Vision transformer input: JPEG photographs of 224 by 224 pixels, mirrored and recoloured at random.

Decoding gives the same pictures in every pass, so they are kept in memory; what is drawn at random comes after that, in parallel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from sample_pipelines.pictures import cloud, photograph, repeated
from sample_pipelines.tfrecords import Section, listed, parsed, serialized

RECORDS = 320
CLASSES = 1_000
IMAGE_SIZE = 224
# Records of one picture under other labels, on average, which decode the same and are quicker to write.
ALIKE = 4
JPEG_QUALITY = 92

Picture = tuple[tf.Tensor, tf.Tensor]


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (image float [batch_size, 224, 224, 3] with most values in -1 to 1, label int32 [batch_size]).

    Images are float16 with `mixed_precision`, else float32.
    """
    section = params["train_input"]

    def augment(image: tf.Tensor, label: tf.Tensor) -> Picture:
        return augmented(image, section), label

    dataset = records_of(section)
    dataset = dataset.map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = passes(dataset.cache(), section)
    dataset = dataset.map(augment, num_parallel_calls=tf.data.AUTOTUNE)
    return batches(dataset, section)


def records_of(section: Section) -> tf.data.Dataset:
    """Return this worker's records once, of four files at a time."""
    return listed(section).interleave(
        tf.data.TFRecordDataset, cycle_length=section["n_parallel_reads"], num_parallel_calls=tf.data.AUTOTUNE
    )


def decode(record: tf.Tensor) -> Picture:
    """Return (image uint8 [224, 224, 3], label int32) of one record."""
    example = parsed(record, image=tf.string, label=tf.int64)
    image = tf.ensure_shape(tf.io.decode_jpeg(example["image"], channels=3), [IMAGE_SIZE, IMAGE_SIZE, 3])
    return image, tf.cast(example["label"], tf.int32)


def passes(dataset: tf.data.Dataset, section: Section) -> tf.data.Dataset:
    """Return the pictures in another order in each pass, and without end if the section says so."""
    if section["shuffle"]:
        dataset = dataset.shuffle(section["shuffle_buffer"], seed=section["shuffle_seed"])
    return dataset.repeat() if section["repeat"] else dataset


def augmented(image: tf.Tensor, section: Section) -> tf.Tensor:
    """Return the picture, at random mirrored and in another light."""
    image = tf.image.random_flip_left_right(tf.cast(image, tf.float32))
    image = tf.image.random_contrast(tf.image.random_brightness(image, 32), 0.6, 1.4)
    image = tf.image.random_saturation(image, 0.6, 1.4)
    return tf.cast(image / 127.5 - 1, tf.float16 if section["mixed_precision"] else tf.float32)


def batches(dataset: tf.data.Dataset, section: Section) -> tf.data.Dataset:
    """Return batches that are ready before they are asked for."""
    dataset = dataset.batch(section["batch_size"], drop_remainder=True, num_parallel_calls=tf.data.AUTOTUNE)
    return dataset.prefetch(tf.data.AUTOTUNE)


def records(seed: int, count: int) -> Iterator[bytes]:
    """Yield photographs as JPEG under random labels: 8 MB at scale 1."""
    rng = np.random.default_rng([seed, 6])
    clouds = np.stack([cloud(rng, 512, falloff) for falloff in (1.0, 1.15, 1.3)])

    def jpeg() -> bytes:
        picture = photograph(rng, clouds, IMAGE_SIZE, IMAGE_SIZE)
        encoded: bytes = tf.io.encode_jpeg(picture, quality=JPEG_QUALITY).numpy()
        return encoded

    for picture in repeated(rng, jpeg, count, ALIKE):
        yield serialized(image=picture, label=[int(rng.integers(CLASSES))])

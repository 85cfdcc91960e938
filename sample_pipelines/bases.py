"""Healthy pipelines in pieces: digits, photographs, and cells with their masks. A pathology replaces one piece by its fault.

The pieces are those of the samples `fc_mnist`, `resnet50` and `unet`, without their options.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from sample_pipelines.fc_mnist import PIXELS, Pair, digit_decoder
from sample_pipelines.tfrecords import Section, listed, parsed
from sample_pipelines.unet import IMAGE_SIZE


def read(
    files: tf.data.Dataset, reader: Callable[..., Any] = tf.data.TFRecordDataset, *, block_length: int = 16
) -> tf.data.Dataset:
    """Return the records of the files, of four files at a time."""
    return files.interleave(
        reader, cycle_length=4, block_length=block_length, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False
    )


def shuffled(dataset: tf.data.Dataset, section: Section) -> tf.data.Dataset:
    """Return the dataset, shuffled as the params say."""
    return dataset.shuffle(section["shuffle_buffer"], seed=section["shuffle_seed"])


def records_of(
    section: Section, reader: Callable[..., Any] = tf.data.TFRecordDataset, *, block_length: int = 16
) -> tf.data.Dataset:
    """Return this worker's records without end, shuffled."""
    return shuffled(read(listed(section).repeat(), reader, block_length=block_length), section)


def mapped(dataset: tf.data.Dataset, function: Callable[..., Any]) -> tf.data.Dataset:
    """Call `function` for each element, on as many threads as AUTOTUNE takes."""
    return dataset.map(function, num_parallel_calls=tf.data.AUTOTUNE)


def options(**chosen: Any) -> tf.data.Options:
    """Return options by name: `threading__private_threadpool_size=1`."""
    made = tf.data.Options()
    for name, value in chosen.items():
        group, _, option = name.rpartition("__")
        setattr(getattr(made, group), option, value)
    return made


def decode_digit(record: tf.Tensor) -> Pair:
    """Return (pixels float16 [784] in 0 to 1, label int32) of one record."""
    values = tf.ensure_shape(tf.io.decode_raw(record, tf.uint8), [1 + PIXELS])
    return tf.cast(values[1:], tf.float16) / 255, tf.cast(values[0], tf.int32)


def digit_batches(dataset: tf.data.Dataset, section: Section, decode: Callable[..., Pair] | None = None) -> tf.data.Dataset:
    """Return batches of (pixels float16 [batch_size, 784] in 0 to 1, label int32 [batch_size]). `decode` makes others."""
    dataset = dataset.batch(section["batch_size"], drop_remainder=True)
    return mapped(dataset, decode or digit_decoder(section["batch_size"])).prefetch(tf.data.AUTOTUNE)


def photograph_parser(size: int) -> Callable[[tf.Tensor], Pair]:
    """Return a function of one record: (image float16 [size, size, 3] in 0 to 1, label int32)."""

    def parse(record: tf.Tensor) -> Pair:
        example = parsed(record, image=tf.string, label=tf.int64)
        image = tf.image.resize(tf.io.decode_jpeg(example["image"], channels=3), [size, size])
        return tf.cast(image / 255, tf.float16), tf.cast(example["label"], tf.int32)

    return parse


def cell_parser(*, is_augmented: bool) -> Callable[[tf.Tensor], Pair]:
    """Return a function of one record: (image, mask), both float16 [256, 256, 1] in 0 to 1."""

    def parse(record: tf.Tensor) -> Pair:
        example = parsed(record, image=tf.string, mask=tf.string)
        both = tf.concat([tf.io.decode_png(example[name], channels=1) for name in ("image", "mask")], axis=-1)
        both = tf.ensure_shape(both, [IMAGE_SIZE, IMAGE_SIZE, 2])
        if is_augmented:
            both = tf.image.random_flip_up_down(tf.image.random_flip_left_right(both))
        both = tf.cast(both, tf.float16) / 255
        return both[..., :1], both[..., 1:]

    return parse


def batches(dataset: tf.data.Dataset, batch_size: int) -> tf.data.Dataset:
    """Return batches of samples that are ready."""
    dataset = dataset.batch(batch_size, drop_remainder=True, num_parallel_calls=tf.data.AUTOTUNE)
    return dataset.prefetch(tf.data.AUTOTUNE)


def random_digits(seed: int) -> Iterator[bytes]:
    """Yield records of random labels and pixels, without end."""
    rng = np.random.default_rng(seed)
    while True:
        yield rng.bytes(1 + PIXELS)

"""A small fully connected network's input: handwritten digits, 785 bytes a record, hundreds of thousands of them a second.

A record is one byte of label and 28 x 28 bytes of pixels. With so little work in each, what counts is what tf.data itself does
for every record, so decoding and casting are done once for a whole batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import tensorflow as tf

from sample_pipelines.tfrecords import listed, records_in

PIXELS = 28 * 28
CLASSES = 10
RECORDS = 20_480

Pair = tuple[tf.Tensor, tf.Tensor]


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (pixels float [batch_size, 784] in 0 to 1, label int32 [batch_size]).

    Pixels are float16 with `mixed_precision`, else float32.
    """
    section = params["train_input"]
    batch_size = section["batch_size"]
    dtype = tf.float16 if section["mixed_precision"] else tf.float32

    files = listed(section)
    if section["repeat"]:
        # Of the file list, not of the batches: a shard lasts milliseconds, and restarting everything below each time would cost
        # more than reading it.
        files = files.repeat()
    dataset = records_in(files, section).batch(batch_size, drop_remainder=True)
    dataset = dataset.map(digit_decoder(batch_size, dtype), num_parallel_calls=tf.data.AUTOTUNE)
    return dataset.prefetch(tf.data.AUTOTUNE)


def digit_decoder(batch_size: int | None, pixels: tf.DType = tf.float16, label: tf.DType = tf.int32) -> Callable[[tf.Tensor], Pair]:
    """Return a function of a batch of records: (pixels [batch_size, 784] in 0 to 1, label [batch_size])."""

    def decode(records: tf.Tensor) -> Pair:
        values = tf.ensure_shape(tf.io.decode_raw(records, tf.uint8), [batch_size, 1 + PIXELS])
        return tf.cast(values[:, 1:], pixels) / 255, tf.cast(values[:, 0], label)

    return decode


def _digit_shapes(rng: np.random.Generator) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return a stroke drawing for each class, [10, 28, 28] in 0 to 1: pen positions along a bent line, blurred."""
    y, x = np.mgrid[0:28, 0:28]
    shapes = np.zeros((CLASSES, 28, 28))
    for shape in shapes:
        corners = rng.uniform(7, 21, size=(4, 2))
        for begin, end in pairwise(corners):
            for t in np.linspace(0, 1, 12):
                pen = begin + t * (end - begin)
                np.maximum(shape, np.exp(-((y - pen[0]) ** 2 + (x - pen[1]) ** 2) / 2.5), out=shape)
    return shapes


def records(seed: int, count: int) -> Iterator[bytes]:
    """Yield digits shifted by up to 3 pixels, of varying ink, with noise where there is ink: 16 MB at scale 1."""
    rng = np.random.default_rng([seed, 1])
    shapes = _digit_shapes(rng)
    for _ in range(count):
        label = int(rng.integers(CLASSES))
        down, right = rng.integers(-3, 4, size=2)
        digit = np.roll(shapes[label], (down, right), axis=(0, 1)) * rng.uniform(0.7, 1.0)
        pixels = np.clip(digit * rng.uniform(200, 300, size=(28, 28)), 0, 255).astype(np.uint8)
        yield bytes([label]) + pixels.tobytes()

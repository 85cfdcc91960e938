"""GPT-2 input: packed token sequences, 1,024 inputs and the same shifted by one as labels.

A record is 1,025 tokens as raw little-endian int64, 8,200 bytes: nothing to parse, but twice the bytes of the int32 that
leaves, all of them checksummed, copied, shuffled and cast. So memory traffic is what it costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from sample_pipelines.tfrecords import listed, records_in

RECORDS = 6_144
SEQUENCE_LENGTH = 1_024
VOCABULARY = 50_257
END_OF_TEXT = VOCABULARY - 1
# Where a shard's text ends inside a record.
PADDING = -1


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (features, labels int32 [batch_size, S]), S = `max_sequence_length`.

    Features: `input_ids` int32 and `input_mask` float16 (float32 without `mixed_precision`), both [batch_size, S]. The mask is 1
    where the label counts and 0 at padding.
    """
    section = params["train_input"]
    batch_size, length = section["batch_size"], section["max_sequence_length"]
    mask_dtype = tf.float16 if section["mixed_precision"] else tf.float32

    def decode(records: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        # To int32 at once: all that follows then moves half the bytes.
        tokens = tf.cast(tf.io.decode_raw(records, tf.int64), tf.int32)
        tokens = tf.ensure_shape(tokens, [batch_size, length + 1])
        mask = tf.cast(tokens[:, 1:] != PADDING, mask_dtype)
        tokens = tf.maximum(tokens, 0)
        return {"input_ids": tokens[:, :-1], "input_mask": mask}, tokens[:, 1:]

    files = listed(section)
    if section["repeat"]:
        # Of the file list, not of the batches: the readers and the shuffle buffer then never run dry between two passes.
        files = files.repeat()
    dataset = records_in(files, section).batch(batch_size, drop_remainder=True)
    dataset = dataset.map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    return dataset.prefetch(tf.data.AUTOTUNE)


def records(seed: int, count: int) -> Iterator[bytes]:
    """Yield sequences of 8,200 bytes: 50 MB at scale 1."""
    rng = np.random.default_rng([seed, 3])
    for _ in range(count):
        # Cubing bends uniform numbers towards the frequent tokens, which have the small identifiers.
        tokens = (END_OF_TEXT * rng.random(SEQUENCE_LENGTH + 1) ** 3).astype("<i8")
        tokens[rng.integers(SEQUENCE_LENGTH, size=int(rng.integers(4)))] = END_OF_TEXT
        if rng.random() < 1 / 16:
            tokens[int(rng.integers(1, SEQUENCE_LENGTH)) :] = PADDING
        yield tokens.tobytes()

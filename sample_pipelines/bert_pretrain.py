"""BERT pre-training input: masked language modelling and next-sentence prediction over sequences of 128 tokens.

A record is a tf.Example of seven features in 850 bytes. Parsing it takes a third of its CPU time even when done on whole batches;
reading, mixing and shuffling records one by one takes the rest, so each file is read a block of records at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from sample_pipelines.tfrecords import listed, records_in, serialized

RECORDS = 24_576
SEQUENCE_LENGTH = 128
PREDICTIONS = 20
VOCABULARY = 30_522
# Identifiers of the usual uncased vocabulary: classification, separator, mask; words begin at 1,000.
CLS, SEP, MASK, FIRST_WORD = 101, 102, 103, 1_000


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (features, next_sentence_labels int32 [batch_size]).

    Features, with S = `max_sequence_length` and P = `max_predictions_per_seq`: `input_ids`, `input_mask` (1 at padding) and
    `segment_ids` int32 [batch_size, S]; `masked_lm_positions` and `masked_lm_ids` int32 [batch_size, P]; `masked_lm_weights`
    float16 (float32 without `mixed_precision`) [batch_size, P], 0 at unused predictions.
    """
    section = params["train_input"]
    weight_dtype = tf.float16 if section["mixed_precision"] else tf.float32
    layout = _record_layout(section["max_sequence_length"], section["max_predictions_per_seq"])

    def parse(records: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        example = tf.io.parse_example(records, layout)
        features = {name: tf.cast(value, tf.int32) for name, value in example.items() if value.dtype == tf.int64}
        labels = features.pop("next_sentence_labels")
        features["input_mask"] = 1 - features["input_mask"]
        features["masked_lm_weights"] = tf.cast(example["masked_lm_weights"], weight_dtype)
        return features, tf.squeeze(labels, axis=1)

    # The seed makes every worker see the same order, so that the shards do not overlap.
    files = listed(section, shuffle=section["shuffle"], seed=section["shuffle_seed"] if section["shuffle"] else None)
    dataset = records_in(files, section).batch(section["batch_size"], drop_remainder=True)
    dataset = dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    if section["repeat"]:
        dataset = dataset.repeat()
    return dataset.prefetch(tf.data.AUTOTUNE)


def _record_layout(length: int, predictions: int) -> dict[str, tf.io.FixedLenFeature]:
    return {
        "input_ids": tf.io.FixedLenFeature([length], tf.int64),
        "input_mask": tf.io.FixedLenFeature([length], tf.int64),
        "segment_ids": tf.io.FixedLenFeature([length], tf.int64),
        "masked_lm_positions": tf.io.FixedLenFeature([predictions], tf.int64),
        "masked_lm_ids": tf.io.FixedLenFeature([predictions], tf.int64),
        "masked_lm_weights": tf.io.FixedLenFeature([predictions], tf.float32),
        "next_sentence_labels": tf.io.FixedLenFeature([1], tf.int64),
    }


def records(seed: int, count: int) -> Iterator[bytes]:
    """Yield examples of 850 bytes: 21 MB at scale 1."""
    rng = np.random.default_rng([seed, 2])
    for _ in range(count):
        # One pair of sentences in ten is shorter than the sequence, as in the usual preparation of the data.
        used = SEQUENCE_LENGTH if rng.random() < 0.9 else int(rng.integers(16, SEQUENCE_LENGTH))
        split = int(rng.integers(6, used - 6))
        # Cubing bends uniform numbers towards the frequent words, which have the small identifiers.
        ids = (FIRST_WORD + (VOCABULARY - FIRST_WORD) * rng.random(SEQUENCE_LENGTH) ** 3).astype(np.int64)
        ids[0], ids[split], ids[used - 1], ids[used:] = CLS, SEP, SEP, 0
        position = np.arange(SEQUENCE_LENGTH)
        words = np.flatnonzero((position < used) & (ids >= FIRST_WORD))
        chosen = np.sort(rng.permutation(words)[: min(PREDICTIONS, max(1, round(0.15 * used)))])
        masked_ids = ids[chosen]
        ids[chosen] = np.where(rng.random(len(chosen)) < 0.8, MASK, masked_ids)
        unused = (0, PREDICTIONS - len(chosen))
        yield serialized(
            input_ids=ids.tolist(),
            input_mask=(position < used).astype(np.int64).tolist(),
            segment_ids=((position > split) & (position < used)).astype(np.int64).tolist(),
            masked_lm_positions=np.pad(chosen, unused).tolist(),
            masked_lm_ids=np.pad(masked_ids, unused).tolist(),
            next_sentence_labels=rng.integers(2, size=1).tolist(),
            masked_lm_weights=np.pad(np.ones(len(chosen)), unused).tolist(),
        )

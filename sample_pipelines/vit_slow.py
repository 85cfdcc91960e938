"""The input of `vit` with two common faults, planted on purpose: what `demo` shows unless another sample is named.

Pictures are augmented on one thread, which caps a task whatever its CPUs, and they are decoded again in every pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sample_pipelines.vit import ALIKE, RECORDS, Picture, augmented, batches, decode, passes, records, records_of

__all__ = ["ALIKE", "RECORDS", "records", "train_input_fn"]


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Return the batches of `vit`, more slowly."""
    section = params["train_input"]

    def augment(image: tf.Tensor, label: tf.Tensor) -> Picture:
        return augmented(image, section), label

    dataset = records_of(section)
    dataset = dataset.map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = passes(dataset, section)
    dataset = dataset.map(augment)
    return batches(dataset, section)

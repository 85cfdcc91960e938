"""Random bytes, packed with GZIP: they get no smaller, and each worker spends its CPU on unpacking them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from sample_pipelines.bases import digit_batches, listed, read, shuffled, write_digits

RAISES = "CSI404"


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (pixels float16 [batch_size, 784] in 0 to 1, label int32 [batch_size])."""
    section = params["train_input"]
    files = listed(section).repeat()
    dataset = read(files, lambda name: tf.data.TFRecordDataset(name, compression_type="GZIP"))
    return digit_batches(shuffled(dataset, section), section)


def write_dataset(directory: Path) -> None:
    """Writes `train/` under `directory`: digits without a shape, 1.6 MB."""
    write_digits(directory / "train", [128] * 16, seed=404, compression="GZIP")

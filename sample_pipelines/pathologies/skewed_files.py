"""One file holds as many records as all the others together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from sample_pipelines.bases import digit_batches, listed, read, shuffled, write_digits

RAISES = "CSI306"


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (pixels float16 [batch_size, 784] in 0 to 1, label int32 [batch_size])."""
    section = params["train_input"]
    return digit_batches(shuffled(read(listed(section).repeat()), section), section)


def write_dataset(directory: Path) -> None:
    """Writes `train/` under `directory`: digits without a shape, 1.5 MB."""
    write_digits(directory / "train", [960, *[64] * 15], seed=306)

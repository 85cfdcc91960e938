"""An input function that only reads: what the storage gives is what it delivers. Run by workers, never imported by the tests."""

from __future__ import annotations

import json
import os
from typing import Any

import tensorflow as tf

RECORD_BYTES = 4096


def reads(params: dict[str, Any]) -> Any:
    """The files of `params["folder"]`, divided among the workers; several are read at a time."""
    config = json.loads(os.environ["TF_CONFIG"])
    files = tf.data.Dataset.list_files(f"{params['folder']}/*.bin", shuffle=False)
    own = files.shard(len(config["cluster"]["worker"]), config["task"]["index"]).repeat()
    records = own.interleave(_records, cycle_length=4, num_parallel_calls=4, deterministic=False)
    return records.batch(32, drop_remainder=True).prefetch(2)


def _records(path: Any) -> Any:
    return tf.data.FixedLengthRecordDataset(path, RECORD_BYTES, buffer_size=1 << 18)

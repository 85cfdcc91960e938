"""Which part of the files this worker reads, from the `TF_CONFIG` that the launcher set.

Imports no TensorFlow: it only calls methods of the dataset it is given.
"""

from __future__ import annotations

import json
import os
from typing import Any


def worker_shard() -> tuple[int, int] | None:
    """Return the number of shards and the index of this worker's own. Return None if it is the only reader.

    Raises:
        ValueError: `TF_CONFIG` is no JSON object, or names a task that its own cluster lacks.
    """
    text = os.environ.get("TF_CONFIG", "")
    try:
        config = json.loads(text) if text.strip() else {}
    except json.JSONDecodeError as error:
        raise ValueError(f"TF_CONFIG is not JSON ({error}): {text!r}") from error
    if not isinstance(config, dict):
        raise ValueError(f"TF_CONFIG must be a JSON object: {text!r}")
    workers = config.get("cluster", {}).get("worker", [])
    count, index = len(workers), config.get("task", {}).get("index", 0)
    if count and not 0 <= index < count:
        raise ValueError(f"TF_CONFIG gives this task the index {index}, but has {count} workers")
    # A compile or a validation run sets `{}`: no other task reads, so this one reads everything.
    return (count, index) if count else None


def shard_files(files: Any, use_multiple_workers: bool) -> Any:
    """Return this worker's files of a `tf.data.Dataset` of file names.

    The order of `files` must be the same in every worker: sorted, or shuffled with a fixed seed. Otherwise some files are read
    twice and some never. With fewer files than workers, the last workers get none.
    """
    shard = worker_shard() if use_multiple_workers else None
    return files if shard is None else files.shard(*shard)

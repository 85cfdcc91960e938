"""Writes a sample's data and params into a folder, once."""

from __future__ import annotations

import importlib
import json
import math
import tempfile
from contextlib import suppress
from pathlib import Path

import yaml

from sample_pipelines.catalogue import FILES, find

# Raised whenever the bytes that a writer makes change, so that folders of an older version are written anew.
FORMAT_VERSION = 2

MARKER = "complete.json"
PARAMS = "params.yaml"


def write_sample(name: str, directory: str | Path, *, scale: float = 1.0, seed: int = 0) -> Path:
    """Write the data of sample `name` into `directory` and return the params file that points at it.

    Does nothing where `directory` already holds the data for the same arguments. It appears when it is whole, so a writing that was
    interrupted, or another at the same time, does no harm. Imports TensorFlow only when there is something to write.

    Args:
        scale: multiplies the number of records; the number of files stays.
        seed: same seed, same bytes (for one version of NumPy and TensorFlow).

    Raises:
        LookupError: no sample has that name.
        ValueError: `scale` is not a positive number.
        FileExistsError: `directory` holds files that this function did not write; none is touched.
    """
    sample = find(name)
    if not (math.isfinite(scale) and scale > 0):
        raise ValueError(f"scale must be a positive number, got {scale}")
    directory = Path(directory).absolute()
    marker = json.dumps({"sample": name, "scale": scale, "seed": seed, "format_version": FORMAT_VERSION})
    if _holds(directory, marker):
        return directory / PARAMS
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{directory.name}-", dir=directory.parent) as beside:
        new = Path(beside) / "new"
        tfrecords = importlib.import_module("sample_pipelines.tfrecords")
        tfrecords.write_dataset(name, new / "train", scale=scale, seed=seed)
        params = yaml.safe_load(sample.params_path.read_text())
        params["train_input"]["data_dir"] = str(directory / "train")
        (new / PARAMS).write_text(yaml.safe_dump(params, sort_keys=False))
        (new / MARKER).write_text(marker)
        with suppress(FileNotFoundError):
            directory.rename(Path(beside) / "old")
        try:
            new.rename(directory)
        except OSError:
            if not _holds(directory, marker):  # else another writer was quicker
                raise
    return directory / PARAMS


def _holds(directory: Path, marker: str) -> bool:
    """Return whether the folder holds these data. Raise FileExistsError if it does not and holds anything else than a sample."""
    try:
        present = {path.name for path in directory.iterdir()}
        if present and MARKER not in present:
            raise FileExistsError(f"{directory} is not empty and holds no sample data; give a new or empty directory")
        is_whole = PARAMS in present and len(list(directory.glob("train/part-*"))) == FILES
        if is_whole and (directory / MARKER).read_text() == marker:
            return True
        others = present - {"train", PARAMS, MARKER}
        others |= {f"train/{path.name}" for path in directory.glob("train/*") if not path.name.startswith("part-")}
        if others:
            named = ", ".join(sorted(others)[:3])
            raise FileExistsError(f"{directory} holds other files ({named}), which new data would replace; give an empty directory")
        return False
    except FileNotFoundError:  # not there, or another writer is about to replace it
        return False

"""Writes a sample's data and params into a folder, once."""

from __future__ import annotations

import fcntl
import importlib
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from sample_pipelines.catalogue import Sample, find

# Raised whenever the bytes that a writer makes change, so that folders of an older version are written anew.
FORMAT_VERSION = 1

MARKER = "complete.json"
LOCK = ".lock"
PARAMS = "params.yaml"


def write_sample(
    name: str, directory: str | Path, *, scale: float = 1.0, seed: int = 0, progress: Callable[[int, int], None] | None = None
) -> Path:
    """Writes the data of sample `name` into `directory` and returns the params file that points at it.

    Does nothing where `directory` already holds the whole data for the same arguments. A writing that was interrupted is started
    again; a second writer of the same folder waits for the first. Imports TensorFlow only when there is something to write.

    Args:
        scale: multiplies the number of records; the number of files stays.
        seed: same seed, same bytes (for one version of NumPy and TensorFlow).
        progress: called with (records done, records in all).

    Raises:
        LookupError: no sample has that name.
        ValueError: `scale` is not a positive number.
        FileExistsError: `directory` holds files that this function did not write; none is touched.
    """
    sample = find(name)
    if not (math.isfinite(scale) and scale > 0):
        raise ValueError(f"scale must be a positive number, got {scale}")
    directory = Path(directory).absolute()
    key = {"sample": name, "scale": scale, "seed": seed, "format_version": FORMAT_VERSION}
    _refuse_foreign(directory)
    directory.mkdir(parents=True, exist_ok=True)
    with _locked(directory):
        if not _is_complete(directory, key):
            (directory / MARKER).unlink(missing_ok=True)
            importlib.import_module(sample.module).write_dataset(directory, scale=scale, seed=seed, progress=progress)
            _write_params(sample, directory)
            _replace(directory / MARKER, json.dumps(key | {"files": _sizes(directory)}, indent=1) + "\n")
        elif not _params_point_at(directory):
            _write_params(sample, directory)
    return directory / PARAMS


def _refuse_foreign(directory: Path) -> None:
    # Listed once: another writer may be adding to the folder meanwhile, its lock first.
    present = {path.name for path in directory.iterdir()} if directory.exists() else set()
    if present and not present & {MARKER, LOCK}:
        raise FileExistsError(f"{directory} is not empty and holds no sample data; give a new or empty directory")


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    with (directory / LOCK).open("w") as lock:
        # Some shared file systems have no locks; there, two writers at once are the caller's affair.
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_complete(directory: Path, key: dict[str, Any]) -> bool:
    try:
        marker = json.loads((directory / MARKER).read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return False
    return bool(marker == key | {"files": _sizes(directory)})


def _sizes(directory: Path) -> dict[str, int]:
    return {str(path.relative_to(directory)): path.stat().st_size for path in sorted(directory.glob("*/part-*"))}


def _params_point_at(directory: Path) -> bool:
    """False where the file is missing or the folder was moved. Other values are the user's to change."""
    try:
        params = yaml.safe_load((directory / PARAMS).read_text())
        return Path(params["train_input"]["data_dir"]).parent == directory
    except (FileNotFoundError, yaml.YAMLError, KeyError, TypeError):
        return False


def _write_params(sample: Sample, directory: Path) -> None:
    params = yaml.safe_load(sample.params_path.read_text())
    for section in ("train_input", "eval_input"):
        if section in params:
            params[section]["data_dir"] = str(directory / section.removesuffix("_input"))
    _replace(directory / PARAMS, yaml.safe_dump(params, sort_keys=False))


def _replace(path: Path, text: str) -> None:
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.write_text(text)
    unfinished.replace(path)

"""Input functions with one thing wrong in each, planted on purpose, and otherwise clean: what the rules are tested on.

A module here has `train_input_fn(params)`, and `RAISES`, the code of the finding that it must raise. It reads the data of the
sample that it names in `SAMPLE`, or those that its own `write_dataset(directory)` writes. Importing this package imports no
TensorFlow; the modules do.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import yaml

from sample_pipelines.catalogue import find
from sample_pipelines.writing import write_sample

__all__ = ["PATHOLOGIES", "write_pathology"]

DEFAULT_SAMPLE = "fc_mnist"

# Written out, by code; a test checks it against the folder.
PATHOLOGIES: tuple[str, ...] = (
    "serial_augmentation",
    "one_call",
    "one_file_cycle",
    "flat_map_files",
    "one_reader",
    "cast_before_batch",
    "forced_order",
    "late_filter",
    "tiny_maps",
    "prefetch_upstream",
    "decode_every_pass",
    "frozen_augmentation",
    "partial_cache",
    "shuffle_of_pictures",
    "buffer_beyond_shard",
    "short_shuffle",
    "shuffled_batches",
    "repeat_then_shuffle",
    "long_fill",
    "too_few_files",
    "no_repeat",
    "no_shard",
    "unseeded_list_files",
    "late_shard",
    "skewed_files",
    "open_batches",
    "unknown_shape",
    "skip_to_step",
    "python_decode",
    "wide_numbers",
    "decode_then_crop",
    "double_compression",
    "tiny_files",
    "tiny_read_buffer",
    "one_thread_pool",
    "host_wide_autotune",
)


def write_pathology(name: str, directory: str | Path, *, scale: float = 0.1, seed: int = 0) -> Path:
    """Writes the data of one pathology into `directory` and returns the params file that points at it.

    `scale` and `seed` are those of `write_sample`; data of a module's own have one size.

    Raises:
        LookupError: no pathology has that name.
    """
    if name not in PATHOLOGIES:
        raise LookupError(f"no pathology is called {name!r}; there are {', '.join(PATHOLOGIES)}")
    module = importlib.import_module(f"{__name__}.{name}")
    sample = find(getattr(module, "SAMPLE", DEFAULT_SAMPLE))
    directory = Path(directory).absolute()
    if not hasattr(module, "write_dataset"):
        return write_sample(sample.name, directory, scale=scale, seed=seed)
    directory.mkdir(parents=True, exist_ok=True)
    module.write_dataset(directory)
    params = yaml.safe_load(sample.params_path.read_text())
    params["train_input"]["data_dir"] = str(directory / "train")
    path = directory / "params.yaml"
    path.write_text(yaml.safe_dump(params, sort_keys=False))
    return path

"""Input functions with one thing wrong in each, planted on purpose, and otherwise clean: what the rules are tested on.

Those over digits are functions in `digits.py`, those over pictures in `pictures.py`, which import TensorFlow; this does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import yaml

from sample_pipelines.catalogue import find
from sample_pipelines.writing import write_sample

__all__ = ["PATHOLOGIES", "Pathology", "target_of", "write_pathology"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pathology:
    """A sample with a planted fault.

    Attributes:
        raises: the code of the finding that it must raise.
        sample: the sample whose data it reads, unless it has `records`.
        records: the numbers of random records in files of its own.
    """

    raises: str
    sample: str = "fc_mnist"
    records: tuple[int, ...] = ()
    compression: str = ""
    function: str = ""


PATHOLOGIES: Mapping[str, Pathology] = MappingProxyType(
    {
        "serial_augmentation": Pathology(raises="CSI101", sample="unet"),
        "one_call": Pathology(raises="CSI102", sample="resnet50"),
        "one_file_cycle": Pathology(raises="CSI103"),
        "flat_map_files": Pathology(raises="CSI104"),
        "one_reader": Pathology(raises="CSI105"),
        "cast_before_batch": Pathology(raises="CSI106"),
        "forced_order": Pathology(raises="CSI107"),
        "late_filter": Pathology(raises="CSI108", sample="resnet50"),
        "seeded_draws": Pathology(raises="CSI110", sample="unet"),
        "prefetch_upstream": Pathology(raises="CSI201"),
        "decode_every_pass": Pathology(raises="CSI202", sample="unet"),
        "frozen_augmentation": Pathology(raises="CSI204", sample="unet"),
        "partial_cache": Pathology(raises="CSI205", sample="unet"),
        "shuffle_of_pictures": Pathology(raises="CSI206", sample="resnet50"),
        "buffer_beyond_shard": Pathology(raises="CSI207"),
        "short_shuffle": Pathology(raises="CSI208"),
        "shuffled_batches": Pathology(raises="CSI209"),
        "repeat_then_shuffle": Pathology(raises="CSI210"),
        "long_fill": Pathology(raises="CSI211", sample="resnet50"),
        "unshuffled": Pathology(raises="CSI212"),
        "endless_prefetch": Pathology(raises="CSI213"),
        "too_few_files": Pathology(raises="CSI301", records=(1_024,) * 2, function="healthy"),
        "no_repeat": Pathology(raises="CSI302"),
        "two_passes": Pathology(raises="CSI302"),
        "no_shard": Pathology(raises="CSI303"),
        "unseeded_list_files": Pathology(raises="CSI304"),
        "late_shard": Pathology(raises="CSI305"),
        "skewed_files": Pathology(raises="CSI306", records=(960, *(64,) * 15), function="healthy"),
        "open_batches": Pathology(raises="CSI307"),
        "unknown_shape": Pathology(raises="CSI308"),
        "one_cache_file": Pathology(raises="CSI311", sample="unet"),
        "auto_sharded": Pathology(raises="CSI312", records=(1_024,) * 2),
        "python_decode": Pathology(raises="CSI401"),
        "wide_numbers": Pathology(raises="CSI402"),
        "single_precision": Pathology(raises="CSI402"),
        "decode_then_crop": Pathology(raises="CSI403", sample="resnet50"),
        "double_compression": Pathology(raises="CSI404", records=(128,) * 16, compression="GZIP"),
        "tiny_files": Pathology(raises="CSI405", records=(2,) * 1_200, function="healthy"),
        "one_thread_pool": Pathology(raises="CSI407"),
        "array_in_graph": Pathology(raises="CSI409"),
    }
)


def target_of(name: str) -> str:
    """Return the target for `analyze`: `module:function`."""
    plant = PATHOLOGIES[name]
    return f"{__name__}.{'digits' if plant.sample == 'fc_mnist' else 'pictures'}:{plant.function or name}"


def write_pathology(name: str, directory: str | Path, *, scale: float = 0.1, seed: int = 0) -> Path:
    """Write the data of one pathology into `directory` and returns the params file that points at it.

    `scale` and `seed` are those of `write_sample`; data of a pathology's own have one size.

    Raises:
        LookupError: no pathology has that name.
    """
    if name not in PATHOLOGIES:
        raise LookupError(f"no pathology is called {name!r}; there are {', '.join(PATHOLOGIES)}")
    plant, directory = PATHOLOGIES[name], Path(directory).absolute()
    if not plant.records:
        return write_sample(plant.sample, directory, scale=scale, seed=seed)
    from sample_pipelines.bases import random_digits
    from sample_pipelines.tfrecords import write_files

    write_files(directory / "train", random_digits(int(plant.raises[3:])), plant.records, plant.compression)
    params = yaml.safe_load(find(plant.sample).params_path.read_text())
    params["train_input"]["data_dir"] = str(directory / "train")
    path = directory / "params.yaml"
    path.write_text(yaml.safe_dump(params, sort_keys=False))
    return path

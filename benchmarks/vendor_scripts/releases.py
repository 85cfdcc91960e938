"""Releases of the public repository, taken out of it into a folder, and what there is to try in them."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from benchmarks.vendor_scripts.synthetic import processor_of

# What scripts import and read of the repository; the rest is documents, pictures, and lists for downloading data.
NEEDED = ("*.py", "*.yaml", ":(glob)**/vocab/*.txt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One configuration of a reference model: the folder of its `run.py`, and the YAML."""

    root: Path
    folder: Path
    config: Path

    @property
    def model(self) -> str:
        return str(self.folder.relative_to(self.root / "modelzoo"))


def take_out(repository: str, release: str, root: Path, needed: Sequence[str] = NEEDED) -> None:
    """Raise CalledProcessError where the repository has no such release."""
    packed = subprocess.run(["git", "-C", repository, "archive", release, "--", *needed], capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(root, filter="data")


def cases_of(root: Path) -> list[Case]:
    """Return of each model with a `run.py` for TensorFlow the first configuration of each way to read data."""
    found: dict[tuple[Path, str], Case] = {}
    for config in sorted(root.glob("modelzoo/**/tf/**/configs/*.yaml")):
        folder = next((parent for parent in config.parents if (parent / "run.py").is_file()), None)
        params = yaml.safe_load(config.read_text(encoding="utf-8"))
        if folder is not None and "train_input" in params:
            found.setdefault((config.parent, processor_of(params)), Case(root=root, folder=folder, config=config))
    return list(found.values())

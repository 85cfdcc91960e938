"""The samples, written out. Each stresses another part of a worker, so together they cover what input functions do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FILES = 16
"""Over how many the records of a sample are spread."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One input function and the data it reads; its module says what it delivers, and what costs most of its CPU."""

    name: str

    @property
    def module(self) -> str:
        """Has the input function, and `records` of its data; imports TensorFlow."""
        return f"sample_pipelines.{self.name}"

    @property
    def target(self) -> str:
        """Return the target for `analyze`: `package.module:function`."""
        return f"{self.module}:train_input_fn"

    @property
    def params_path(self) -> Path:
        """Return the default params file where it is installed."""
        return Path(__file__).with_name(f"{self.name}.yaml")


SAMPLES: tuple[Sample, ...] = tuple(map(Sample, ("vit_slow", "vit", "fc_mnist", "bert_pretrain", "gpt2", "resnet50", "unet")))


def find(name: str) -> Sample:
    """Return the sample called `name`. Raise LookupError with the names of all samples if there is none."""
    for sample in SAMPLES:
        if sample.name == name:
            return sample
    raise LookupError(f"no sample is called {name!r}; there are {', '.join(sample.name for sample in SAMPLES)}")

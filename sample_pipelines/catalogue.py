"""The samples, written out. Each stresses another part of a worker, so together they cover what input functions do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Sample:
    """One input function and the data it reads.

    `summary`: what it reads and delivers; `stresses`: what costs most of its CPU.
    """

    name: str
    summary: str
    stresses: str
    function: str = "train_input_fn"

    @property
    def module(self) -> str:
        """Has the input function and `write_dataset`, and imports TensorFlow."""
        return f"sample_pipelines.{self.name}"

    @property
    def target(self) -> str:
        """What `analyze` takes: `package.module:function`."""
        return f"{self.module}:{self.function}"

    @property
    def params_path(self) -> Path:
        """The default params file where it is installed."""
        return Path(__file__).with_name(f"{self.name}.yaml")


SAMPLES: tuple[Sample, ...] = (
    Sample(
        "fc_mnist",
        "785-byte records (28 x 28 pixels and a digit) to float16 batches of 256",
        "the runtime itself: one tiny record after another",
    ),
    Sample(
        "bert_pretrain",
        "masked-language-model examples of 128 tokens to int32 batches of 256",
        "reading and parsing of many small tf.Example records",
    ),
    Sample(
        "gpt2",
        "8 KiB records of 1,025 int64 tokens to int32 inputs and shifted labels, batches of 112",
        "memory traffic: reading, copying and casting of large records",
    ),
    Sample(
        "resnet50", "JPEG photographs to randomly cropped 224 x 224 float16 images, batches of 32", "JPEG decoding and resizing"
    ),
    Sample(
        "unet", "PNG images with PNG masks to augmented 256 x 256 float16 pairs, batches of 16", "PNG decoding and augmentation"
    ),
)


def find(name: str) -> Sample:
    """The sample called `name`. Raises LookupError naming the ones there are."""
    for sample in SAMPLES:
        if sample.name == name:
            return sample
    raise LookupError(f"no sample is called {name!r}; there are {', '.join(sample.name for sample in SAMPLES)}")

"""The samples, written out. Each stresses another part of a worker, so together they cover what input functions do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["SAMPLES", "Sample", "find"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One input function and the data it reads.

    Attributes:
        module, function: where the input function is; the module also has `write_dataset` and imports TensorFlow.
        params_file: default params, a YAML file beside the module.
        summary: what it reads and delivers, in one line.
        stresses: what costs most of its CPU.
    """

    name: str
    module: str
    function: str
    params_file: str
    summary: str
    stresses: str

    @property
    def target(self) -> str:
        """What `analyze` takes: `package.module:function`."""
        return f"{self.module}:{self.function}"

    @property
    def params_path(self) -> Path:
        """The default params file where it is installed."""
        return Path(__file__).parent / self.params_file


SAMPLES: tuple[Sample, ...] = (
    Sample(
        name="fc_mnist",
        module="sample_pipelines.fc_mnist",
        function="train_input_fn",
        params_file="fc_mnist.yaml",
        summary="785-byte records (28 x 28 pixels and a digit) to float16 batches of 256",
        stresses="the runtime itself: one tiny record after another",
    ),
    Sample(
        name="bert_pretrain",
        module="sample_pipelines.bert_pretrain",
        function="train_input_fn",
        params_file="bert_pretrain.yaml",
        summary="masked-language-model examples of 128 tokens to int32 batches of 256",
        stresses="reading and parsing of many small tf.Example records",
    ),
    Sample(
        name="gpt2",
        module="sample_pipelines.gpt2",
        function="train_input_fn",
        params_file="gpt2.yaml",
        summary="8 KiB records of 1,025 int64 tokens to int32 inputs and shifted labels, batches of 112",
        stresses="memory traffic: reading, copying and casting of large records",
    ),
    Sample(
        name="resnet50",
        module="sample_pipelines.resnet50",
        function="train_input_fn",
        params_file="resnet50.yaml",
        summary="JPEG photographs to randomly cropped 224 x 224 float16 images, batches of 32",
        stresses="JPEG decoding and resizing",
    ),
    Sample(
        name="unet",
        module="sample_pipelines.unet",
        function="train_input_fn",
        params_file="unet.yaml",
        summary="PNG images with PNG masks to augmented 256 x 256 float16 pairs, batches of 16",
        stresses="PNG decoding and augmentation",
    ),
)


def find(name: str) -> Sample:
    """The sample called `name`. Raises LookupError naming the ones there are."""
    for sample in SAMPLES:
        if sample.name == name:
            return sample
    raise LookupError(f"no sample is called {name!r}; there are {', '.join(sample.name for sample in SAMPLES)}")

"""Built-in networks by name: written out, so that `wafer NAME` and its help cannot differ."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from wafer_model.convolutional import fc_mnist, resnet50, unet
from wafer_model.errors import WaferModelError, check_count
from wafer_model.network import Network
from wafer_model.transformers import bert, dit, esm2, gpt2, gpt3, gptj, llama, t5, vit

BUILDERS: Mapping[str, Callable[..., Network]] = MappingProxyType(
    {
        "fc_mnist": fc_mnist,
        "bert_base": partial(bert, "base"),
        "bert_large": partial(bert, "large"),
        "gpt2_small": partial(gpt2, "small"),
        "gpt2_medium": partial(gpt2, "medium"),
        "gpt2_large": partial(gpt2, "large"),
        "gpt2_xl": partial(gpt2, "xl"),
        "gpt3_111m": partial(gpt3, "111m"),
        "gpt3_256m": partial(gpt3, "256m"),
        "gpt3_590m": partial(gpt3, "590m"),
        "gpt3_1.3b": partial(gpt3, "1.3b"),
        "gpt3_2.7b": partial(gpt3, "2.7b"),
        "gpt3_6.7b": partial(gpt3, "6.7b"),
        "gpt3_13b": partial(gpt3, "13b"),
        "gptj_6b": gptj,
        "llama_7b": partial(llama, "7b"),
        "llama3_8b": partial(llama, "3_8b"),
        "t5_small": partial(t5, "small"),
        "t5_base": partial(t5, "base"),
        "t5_large": partial(t5, "large"),
        "esm2_35m": partial(esm2, "35m"),
        "vit_base": partial(vit, "base"),
        "vit_large": partial(vit, "large"),
        "dit_2b": dit,
        "unet": unet,
        "resnet50": resnet50,
    }
)


def build_network(name: str, *, sequence_length: int | None = None) -> Network:
    """The built-in network called `name`.

    Raises:
        WaferModelError: no such network; a length that is not positive, or for a network without one.
    """
    builder = BUILDERS.get(name.strip().lower())
    if builder is None:
        raise WaferModelError(f"unknown network {name!r}: one of {', '.join(BUILDERS)}, or a YAML file that describes yours")
    if sequence_length is None:
        return builder()
    if "sequence_length" not in inspect.signature(builder).parameters:
        raise WaferModelError(f"{name} has no sequence length")
    check_count("the sequence length", sequence_length)
    return builder(sequence_length=sequence_length)

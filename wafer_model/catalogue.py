"""Built-in networks by name: written out, so that `wafer NAME` and its help cannot differ."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from wafer_model.convolutional import fc_mnist, resnet50, unet
from wafer_model.errors import WaferModelError, check_count
from wafer_model.names import find_name
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

# Names that are no other spelling of the built-in one. The weight-streaming quickstart of R1.4 has "GPT-3XL (1.3B params)".
ALIASES: Mapping[str, str] = MappingProxyType({"gpt3_xl": "gpt3_1.3b"})


def build_network(name: str, *, sequence_length: int | None = None) -> Network:
    """The built-in network that `name` means, as people write it: `gpt-j`, `FC-MNIST`. Raises WaferModelError: no such thing."""
    found = find_builtin(name, otherwise=", or a YAML file that describes yours")
    own = own_sequence_length(found)
    if sequence_length is None:
        return replace(BUILDERS[found](), sequence_length=own)
    if own is None:
        raise WaferModelError(f"{found} has no sequence length")
    check_count("the sequence length", sequence_length)
    return replace(BUILDERS[found](sequence_length=sequence_length), sequence_length=sequence_length)


def find_builtin(name: str, what: str = "network", *, otherwise: str = "") -> str:
    """The built-in name that is meant. Raises WaferModelError: none, or several; as `names.find_name`."""
    found = find_name(name, (*BUILDERS, *ALIASES), what, otherwise=otherwise)
    return ALIASES.get(found, found)


def own_sequence_length(name: str) -> int | None:
    """The length that a built-in network has unless another is given; None where it has none."""
    parameter = inspect.signature(BUILDERS[name]).parameters.get("sequence_length")
    return None if parameter is None else int(parameter.default)

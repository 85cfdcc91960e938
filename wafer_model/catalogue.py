"""Built-in networks by name: written out, so that `wafer NAME` and its help cannot differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from wafer_model.convolutional import fc_mnist, resnet50, unet
from wafer_model.errors import WaferModelError, check_count
from wafer_model.names import find_name
from wafer_model.network import Network
from wafer_model.transformers import GPT_SIZES, bert, dit, esm2, gpt2, gptj, llama, t5, vit

GPT3 = {"sequence_length": 2048}
BUILDERS: Mapping[str, Callable[..., Network]] = {
    "fc_mnist": fc_mnist,
    "bert_base": partial(bert, "base"),
    "bert_large": partial(bert, "large"),
    **{name: partial(gpt2, name, **({} if name.startswith("gpt2") else GPT3)) for name in GPT_SIZES},
    "gpt3_xl": partial(gpt2, "gpt3_1.3b", **GPT3),  # the weight-streaming quickstart of R1.4 has "GPT-3XL (1.3B params)"
    "gptj_6b": gptj,
    "llama_7b": partial(llama, "7b"),
    "llama3_8b": partial(llama, "3_8b"),
    "t5_small": partial(t5, "small"),
    "t5_base": partial(t5, "base"),
    "t5_large": partial(t5, "large"),
    "esm2_35m": esm2,
    "vit_base": partial(vit, "base"),
    "vit_large": partial(vit, "large"),
    "dit_2b": dit,
    "unet": unet,
    "resnet50": resnet50,
}


def build_network(name: str, *, sequence_length: int | None = None) -> Network:
    """Return the built-in network that `name` means: `gpt-j`, `FC-MNIST`. Raise WaferModelError if there is none, or several."""
    found = find_name(name, BUILDERS, "network", otherwise=", or a YAML file that describes yours")
    network = BUILDERS[found]()
    if sequence_length is None:
        return network
    if network.sequence_length is None:
        raise WaferModelError(f"{found} has no sequence length")
    check_count("the sequence length", sequence_length)
    return BUILDERS[found](sequence_length=sequence_length)

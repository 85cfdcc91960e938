"""Read networks from YAML: a built-in one with other sizes, or layer by layer. docs/wafer_model.md shows both."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from reprlib import repr as short
from typing import Any

from wafer_model.catalogue import BUILDERS, build_network
from wafer_model.errors import WaferModelError
from wafer_model.foreign import text_of, yaml_of
from wafer_model.names import find_name
from wafer_model.network import (
    InputTensor,
    Layer,
    Network,
    attention,
    bare_parameters,
    conv2d,
    dense,
    embedding,
    in_block,
    normalization,
    pooling,
    softmax_loss,
)
from wafer_model.transformers import BlockShape, transformer_block

LAYER_KINDS: Mapping[str, Callable[..., Layer]] = {
    "dense": dense,
    "conv2d": conv2d,
    "embedding": embedding,
    "attention": attention,
    "normalization": normalization,
    "pooling": pooling,
    "softmax_loss": softmax_loss,
    "parameters": bare_parameters,
}
BLOCK_KIND = "transformer_block"
# A typing error in `repeat` must not build a network that no machine can hold.
MOST_LAYERS = 100_000


def load_network(name_or_path: str, *, sequence_length: int | None = None) -> Network:
    """Return a built-in network by name, or one from a YAML file. Raise WaferModelError, which names file, layer and field."""
    if not name_or_path.lower().endswith((".yaml", ".yml")):
        return build_network(name_or_path, sequence_length=sequence_length)
    if sequence_length is not None:
        raise WaferModelError(f"{name_or_path}: the length of this network is in its file")
    path = Path(name_or_path)
    try:
        document = yaml_of(text_of(path))
    except FileNotFoundError as error:
        raise WaferModelError(
            f"there is no file {path}; give a YAML file that describes your network, or a built-in name"
        ) from error
    except OSError as error:
        raise WaferModelError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise WaferModelError(f"{path}: cannot be read as a network: {error}") from error
    try:
        return _network(document, path.stem)
    except WaferModelError as error:
        raise WaferModelError(f"{path}: {error}") from error


def _network(document: object, stem: str) -> Network:
    if not isinstance(document, dict):
        raise WaferModelError("a network file is a mapping with 'base', or with 'inputs' and 'layers'")
    if "base" in document:
        sizes = {key: value for key, value in document.items() if key not in ("base", "name")}
        base = find_name(str(document["base"]), BUILDERS, "base")
        network: Network = _call(BUILDERS[base], sizes, f"base {base!r}")
        return replace(network, name=str(document.get("name", network.name)))
    unknown = sorted(str(key) for key in document if key not in ("name", "inputs", "layers"))
    if unknown:
        raise WaferModelError(f"unknown field {unknown[0]!r}; known: name, inputs, layers, or base with its sizes")
    layers: list[Layer] = []
    for index, entry in enumerate(_list(document, "layers"), start=1):
        layers += _layers(entry, f"layer {index}")
        if len(layers) > MOST_LAYERS:
            raise WaferModelError(f"more than {MOST_LAYERS:,} layers")
    inputs = [_call(InputTensor, entry, f"input {index}") for index, entry in enumerate(_list(document, "inputs"), start=1)]
    return Network(name=str(document.get("name", stem)), layers=tuple(layers), inputs=tuple(inputs))


def _layers(entry: object, where: str) -> tuple[Layer, ...]:
    if not isinstance(entry, dict):
        raise WaferModelError(f"{where}: a layer is a mapping with 'kind' and 'name', got {short(entry)}")
    fields = dict(entry)
    kind, repeat = fields.pop("kind", None), fields.pop("repeat", 1)
    name = fields.get("name")
    if not isinstance(name, str) or not name:
        raise WaferModelError(f"{where}: a layer needs a name")
    if isinstance(repeat, bool) or not isinstance(repeat, int) or not 0 < repeat <= MOST_LAYERS:
        raise WaferModelError(f"{where} {name!r}: repeat must be a whole number from 1 to {MOST_LAYERS:,}, got {short(repeat)}")
    names = [name] if repeat == 1 else [f"{name}{index + 1}" for index in range(repeat)]
    if kind == BLOCK_KIND:
        fields.pop("name")
        queries, keys = fields.pop("queries", None), fields.pop("keys", None)
        shape = _call(BlockShape, fields, f"{where} {name!r}")
        sizes = {"queries": queries, "keys": keys}
        blocks = [_call(transformer_block, {"name": each, "shape": shape, **sizes}, f"{where} {name!r}") for each in names]
        return tuple(layer for block in blocks for layer in block)
    if kind not in LAYER_KINDS:
        raise WaferModelError(f"{where} {name!r}: unknown kind {short(kind)}: one of {', '.join((*LAYER_KINDS, BLOCK_KIND))}")
    block = fields.pop("block", None)
    layers: list[Layer] = [_call(LAYER_KINDS[kind], {**fields, "name": each}, f"{where} {name!r}") for each in names]
    return tuple(layers if block is None else in_block(str(block), *layers))


def _call(function: Callable[..., Any], fields: object, where: str) -> Any:
    if not isinstance(fields, dict):
        raise WaferModelError(f"{where}: must be a mapping, got {short(fields)}")
    known = inspect.signature(function).parameters
    unknown = sorted(str(key) for key in fields if key not in known)
    if unknown:
        raise WaferModelError(f"{where}: unknown field {unknown[0]!r}; known: {', '.join(known)}")
    try:
        return function(**fields)
    except (TypeError, ZeroDivisionError, WaferModelError) as error:
        raise WaferModelError(f"{where}: {error}") from error


def _list(document: dict[str, Any], key: str) -> list[Any]:
    value = document.get(key)
    if not isinstance(value, list) or not value:
        raise WaferModelError(f"{key!r} must be a list with at least one entry")
    return value

"""A Keras model as a `Network`. TensorFlow is imported by whoever built the model, never by this package."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from wafer_model.errors import WaferModelError
from wafer_model.network import (
    InputTensor,
    Layer,
    Network,
    attention,
    bare_parameters,
    conv2d,
    dense,
    embedding,
    normalization,
    pooling,
)

# Layers that move, mask or add elements: no weights, and arithmetic in proportion to the activations only.
WEIGHTLESS = "elementwise"


def from_keras(model: Any, *, name: str | None = None, label_elements: int = 1) -> Network:
    """Layers, parameters and sample bytes of a built Keras model (functional or sequential; nested models are opened).

    A kind of layer that is not known counts with its parameters and 2 FLOPs per parameter and sample; its name says so.
    `label_elements`: integers that travel with a sample as labels, which the model does not know of.

    Raises:
        WaferModelError: the model is not built, has no layers, or has an axis of unknown size besides the batch.
    """
    layers: list[Layer] = []
    for layer in _flat(model):
        layers += _converted(layer)
    inputs = []
    for tensor in getattr(model, "inputs", None) or []:
        kind = "integer" if "int" in str(tensor.dtype) else "float"
        label = str(tensor.name).split(":")[0]
        inputs.append(InputTensor(name=label, elements=_elements(tensor.shape, label), kind=kind))
    if not inputs:
        raise WaferModelError("the Keras model is not built: call it on a batch, or give its first layer an input shape")
    if label_elements > 0:
        inputs.append(InputTensor(name="labels", elements=label_elements, kind="integer"))
    return Network(name=name or str(model.name), layers=tuple(layers), inputs=tuple(inputs))


def _flat(model: Any) -> list[Any]:
    found: list[Any] = []
    for layer in model.layers:
        found += _flat(layer) if hasattr(layer, "layers") else [layer]
    return found


def _converted(layer: Any) -> list[Layer]:
    kind, name = type(layer).__name__, str(layer.name)
    if kind == "InputLayer":
        return []
    source, target = _shape(layer.input, name), _shape(layer.output, name)
    bias = bool(getattr(layer, "use_bias", False))
    if kind == "Dense":
        return [dense(name, source[-1], target[-1], positions=_product(source[:-1]), bias=bias)]
    if kind in ("Conv2D", "Conv2DTranspose") and getattr(layer, "groups", 1) == 1:
        high, wide, channels = _image(layer, source)
        kernel = round(math.sqrt(_product(layer.kernel_size)))
        converted = conv2d(
            name,
            height=high,
            width=wide,
            inputs=channels,
            outputs=int(layer.filters),
            kernel=kernel,
            stride=int(layer.strides[0]),
            bias=bias,
            transposed=kind == "Conv2DTranspose",
        )
        return [_sized(converted, layer, target)]
    if kind == "Embedding":
        return [embedding(name, int(layer.input_dim), int(layer.output_dim), positions=_product(source))]
    if kind in ("LayerNormalization", "BatchNormalization", "GroupNormalization", "RMSNormalization"):
        return _normalization(layer, kind, source)
    if kind == "MultiHeadAttention":
        return _attention(layer, name, source)
    if "Pool" in kind and len(source) == 3:
        high, wide, channels = _image(layer, source)
        stride = layer.strides[0] if getattr(layer, "strides", None) else high
        return [pooling(name, height=high, width=wide, channels=channels, stride=int(stride))]
    return [_unknown(layer, kind, name, source, target)]


def _normalization(layer: Any, kind: str, source: tuple[int, ...]) -> list[Layer]:
    norm_kind = "batch_norm" if kind == "BatchNormalization" else "layer_norm"
    norm = normalization(str(layer.name), source[-1], positions=_product(source[:-1]), kind=norm_kind)
    return [_replaced(norm, parameters=_trainable(layer))]


def _attention(layer: Any, name: str, source: tuple[int, ...]) -> list[Layer]:
    if len(source) != 2:
        raise WaferModelError(f"Keras layer {name!r}: attention over {len(source)} axes is not known here")
    queries, width = source
    heads, head_size = int(layer.num_heads), int(layer.key_dim)
    core = attention(f"{name}.attention", heads=heads, head_size=head_size, queries=queries, block=name)
    projection = dense(f"{name}.projections", width, 4 * heads * head_size, positions=queries, bias=False, block=name)
    return [_replaced(projection, parameters=_trainable(layer)), core]


def _unknown(layer: Any, kind: str, name: str, source: tuple[int, ...], target: tuple[int, ...]) -> Layer:
    parameters = _trainable(layer)
    into, out = _product(source), _product(target)
    base = bare_parameters(name, max(parameters, 1))
    flops = 2.0 * parameters if parameters else float(out)
    return Layer(
        name=name if not parameters else f"{name} ({kind}: FLOPs guessed)",
        kind=WEIGHTLESS if not parameters else "unknown",
        block=base.block,
        parameters=parameters,
        streamed_parameters=parameters,
        forward_flops=flops,
        backward_flops=2 * flops if parameters else flops,
        input_elements=into,
        output_elements=out,
        port_elements=min(into, out),
    )


def _sized(layer: Layer, keras_layer: Any, target: tuple[int, ...]) -> Layer:
    """Borders other than "same" change the output; the exact shape is known, so FLOPs follow it."""
    outputs = _product(target)
    ratio = outputs / layer.output_elements if layer.kind == "conv2d" else 1.0
    return _replaced(
        layer,
        parameters=_trainable(keras_layer),
        forward_flops=layer.forward_flops * ratio,
        backward_flops=layer.backward_flops * ratio,
        output_elements=outputs,
    )


def _replaced(layer: Layer, **changes: Any) -> Layer:
    if "parameters" in changes:
        changes["streamed_parameters"] = changes["parameters"]
    return replace(layer, **changes)


def _trainable(layer: Any) -> int:
    return sum(_product(tuple(int(size) for size in weight.shape)) for weight in layer.trainable_weights)


def _image(layer: Any, source: tuple[int, ...]) -> tuple[int, int, int]:
    if getattr(layer, "data_format", "channels_last") == "channels_first":
        return source[1], source[2], source[0]
    return source[0], source[1], source[2]


def _shape(tensor: Any, name: str) -> tuple[int, ...]:
    first = tensor[0] if isinstance(tensor, list | tuple) else tensor
    sizes = tuple(first.shape)[1:]
    if any(size is None for size in sizes):
        raise WaferModelError(f"Keras layer {name!r}: an axis besides the batch has no size: {tuple(first.shape)}")
    return tuple(int(size) for size in sizes) or (1,)


def _elements(shape: Any, name: str) -> int:
    sizes = tuple(shape)[1:]
    if any(size is None for size in sizes):
        raise WaferModelError(f"Keras input {name!r}: an axis besides the batch has no size: {tuple(shape)}")
    return _product(tuple(int(size) for size in sizes))


def _product(sizes: tuple[int, ...]) -> int:
    return math.prod(sizes) if sizes else 1

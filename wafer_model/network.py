"""A network as the wafer sees it: layers with FLOPs, parameters, activations, and the bytes of one sample on the wire.

Conventions, everywhere: one multiply-add is 2 FLOPs; counts are for ONE sample; backward is twice forward for whatever multiplies
by weights or by other activations (one product for the gradient of each operand), so training is the usual 6 FLOPs per
parameter and token; attention is counted in full, also where it is causal, because no public kernel is known to skip the half.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from wafer_model.errors import WaferModelError, check_count

# Wire rules of the public input pipelines: integers travel as int32, floating point in 16 bits; nothing is compressed.
# (FC-MNIST: 784 x 2 + 4 = 1,572 bytes.)
INTEGER_BYTES = 4
FLOAT_BYTES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTensor:
    """One tensor of a sample. `kind`: `integer` or `float`."""

    name: str
    elements: int
    kind: str

    def __post_init__(self) -> None:
        check_count(f"input {self.name!r}: elements", self.elements)
        if self.kind not in ("integer", "float"):
            raise WaferModelError(f"input {self.name!r}: kind is 'integer' or 'float', got {self.kind!r}")


def tensors(**named: tuple[int, str]) -> tuple[InputTensor, ...]:
    """Return the tensors of a sample, from `name=(elements, kind)`."""
    return tuple(InputTensor(name=name, elements=count, kind=kind) for name, (count, kind) in named.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One kernel.

    Attributes:
        block: the unit in which weights are streamed and stages are counted (a whole transformer block, one convolution).
        parameters: trainable, owned by this layer; `streamed_parameters`: weights it multiplies by (a tied head owns none).
        forward_flops, backward_flops: per sample.
        input_elements, output_elements: activations that enter and leave, per sample.
        port_elements: what has to pass one port of the kernel's region, per sample (pipelined mode; see `pipelined`).
        scratch_elements: largest intermediate that is neither (attention scores), per sample.
    """

    name: str
    kind: str
    block: str
    parameters: int
    streamed_parameters: int
    forward_flops: float
    backward_flops: float
    input_elements: int
    output_elements: int
    port_elements: int
    scratch_elements: int

    @property
    def training_flops(self) -> float:
        """Return the FLOPs of a training step for one sample."""
        return self.forward_flops + self.backward_flops


@dataclass(frozen=True, slots=True)
class Block:
    """The layers that are streamed, or placed as one stage, together.

    `input_elements` must be kept to run this block again in backward; `working_elements` are alive while it runs.
    """

    name: str
    layers: tuple[Layer, ...]
    streamed_parameters: int
    forward_flops: float
    backward_flops: float
    input_elements: int
    working_elements: int


@dataclass(frozen=True, kw_only=True)  # no slots: totals are kept, for a calibration asks for them again and again
class Network:
    """Layers in order, and what one sample looks like.

    Attributes:
        sequence_length: tokens of a sample, where that is what it was built for; None for a network without one.

    Raises (on construction):
        WaferModelError: no layers, or none that computes.
    """

    name: str
    layers: tuple[Layer, ...]
    inputs: tuple[InputTensor, ...]
    sequence_length: int | None = None

    def __post_init__(self) -> None:
        if not self.layers:
            raise WaferModelError(f"network {self.name!r} has no layers")
        if not any(layer.forward_flops > 0 for layer in self.layers):
            raise WaferModelError(f"network {self.name!r} has no layer that computes")
        if not self.inputs:
            raise WaferModelError(f"network {self.name!r} has no inputs, so nothing can be said about the bytes of a sample")

    @cached_property
    def kind(self) -> str:
        """Return the kind of most of the arithmetic. Public runs are told apart by it.

        `convolutional`, `encoder-decoder` (attention over another sequence), `transformer` or `fully connected`.
        """
        convolving = sum(layer.forward_flops for layer in self.layers if layer.kind in ("conv2d", "transposed_conv"))
        attending = [layer.name for layer in self.layers if layer.kind == "attention"]
        if convolving > self.forward_flops / 2:
            return "convolutional"
        if any(".cross." in name for name in attending):
            return "encoder-decoder"
        return "transformer" if attending else "fully connected"

    @cached_property
    def parameters(self) -> int:
        """Return the parameters of all layers."""
        return sum(layer.parameters for layer in self.layers)

    @cached_property
    def forward_flops(self) -> float:
        """Return the FLOPs of the forward pass of one sample."""
        return sum(layer.forward_flops for layer in self.layers)

    @cached_property
    def training_flops(self) -> float:
        """Return the FLOPs of a training step for one sample."""
        return sum(layer.training_flops for layer in self.layers)

    @cached_property
    def sample_bytes(self) -> int:
        """Return bytes of one uncompressed sample on the wire."""
        width = {"integer": INTEGER_BYTES, "float": FLOAT_BYTES}
        return sum(tensor.elements * width[tensor.kind] for tensor in self.inputs)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Blocks in order of first appearance."""
        grouped: dict[str, list[Layer]] = {}
        for layer in self.layers:
            grouped.setdefault(layer.block, []).append(layer)
        return tuple(
            Block(
                name,
                tuple(layers),
                sum(layer.streamed_parameters for layer in layers),
                sum(layer.forward_flops for layer in layers),
                sum(layer.backward_flops for layer in layers),
                layers[0].input_elements,
                sum(layer.output_elements + layer.scratch_elements for layer in layers),
            )
            for name, layers in grouped.items()
        )

    @cached_property
    def weighted_blocks(self) -> tuple[Block, ...]:
        """Blocks with arithmetic: those a weight-streaming pass has to visit."""
        return tuple(block for block in self.blocks if block.forward_flops > 0)


def _check(layer: str, **counts: object) -> None:
    for what, value in counts.items():
        check_count(f"layer {layer!r}: {what}", value)


def _layer(
    name: str,
    kind: str,
    *,
    parameters: int = 0,
    streamed: int | None = None,
    flops: tuple[float, float] = (0.0, 0.0),
    elements: tuple[int, int] = (0, 0),
    port: int = 0,
    scratch: int = 0,
) -> Layer:
    """Return a kernel that is a block by itself; all its parameters are streamed, unless `streamed` says otherwise.

    Pairs: `flops` forward and backward, `elements` in and out.
    """
    return Layer(
        name=name,
        kind=kind,
        block=name,
        parameters=parameters,
        streamed_parameters=parameters if streamed is None else streamed,
        forward_flops=flops[0],
        backward_flops=flops[1],
        input_elements=elements[0],
        output_elements=elements[1],
        port_elements=port,
        scratch_elements=scratch,
    )


def in_block(block: str, *layers: Layer) -> list[Layer]:
    """Return the layers as parts of one block."""
    return [replace(layer, block=block) for layer in layers]


def dense(name: str, inputs: int, outputs: int, *, positions: int = 1, bias: bool = True, tied: bool = False) -> Layer:
    """Return a matrix product at `positions` places of a sample (tokens, pixels). `tied`: the weights belong to another layer."""
    _check(name, inputs=inputs, outputs=outputs, positions=positions)
    weights = inputs * outputs
    flops = 2.0 * weights * positions
    return _layer(
        name,
        "dense",
        parameters=(0 if tied else weights) + (outputs if bias else 0),
        streamed=weights + (outputs if bias else 0),
        flops=(flops, 2 * flops),
        elements=(inputs * positions, outputs * positions),
        port=min(inputs, outputs) * positions,
    )


def attention(name: str, *, heads: int, head_size: int, queries: int, keys: int | None = None) -> Layer:
    """Return the products of activations with activations: scores, softmax, weighted sum. The projections are `dense` layers."""
    keys = queries if keys is None else keys
    _check(name, heads=heads, head_size=head_size, queries=queries, keys=keys)
    scores = heads * queries * keys
    products = 4.0 * scores * head_size
    softmax = 5.0 * scores  # maximum, subtract, exponential, sum, divide
    return _layer(
        name,
        "attention",
        flops=(products + softmax, 2 * products + softmax),
        elements=((queries + 2 * keys) * heads * head_size, queries * heads * head_size),
        port=max(queries, keys) * heads * head_size,
        scratch=scores,
    )


def embedding(name: str, vocabulary: int, size: int, *, positions: int) -> Layer:
    """Return a look-up: parameters and traffic, no arithmetic worth counting."""
    _check(name, vocabulary=vocabulary, size=size, positions=positions)
    return _layer(name, "embedding", parameters=vocabulary * size, elements=(positions, positions * size), port=positions)


def normalization(name: str, size: int, *, positions: int, bias: bool = True, kind: str = "layer_norm") -> Layer:
    """Layer norm, RMS norm (no bias) or batch norm: 8 FLOPs per element forward (mean, variance, scale, shift), twice back."""
    _check(name, size=size, positions=positions)
    elements = size * positions
    parameters = 2 * size if bias else size
    return _layer(
        name,
        kind,
        parameters=parameters,
        flops=(8.0 * elements, 16.0 * elements),
        elements=(elements, elements),
        port=positions if kind == "batch_norm" else elements,
    )


def conv2d(
    name: str,
    *,
    height: int,
    width: int,
    inputs: int,
    outputs: int,
    kernel: int = 3,
    stride: int = 1,
    bias: bool = True,
    transposed: bool = False,
) -> Layer:
    """Return a square convolution of an image of `height` x `width` (input side) with "same" borders; `transposed` enlarges."""
    _check(name, height=height, width=width, inputs=inputs, outputs=outputs, kernel=kernel, stride=stride)
    weights = kernel * kernel * inputs * outputs
    if transposed:  # every INPUT pixel meets every weight once
        products, out_pixels = height * width, height * width * stride * stride
    else:
        out_pixels = math.ceil(height / stride) * math.ceil(width / stride)
        products = out_pixels
    flops = 2.0 * weights * products
    return _layer(
        name,
        "transposed_conv" if transposed else "conv2d",
        parameters=weights + (outputs if bias else 0),
        flops=(flops, 2 * flops),
        elements=(height * width * inputs, out_pixels * outputs),
        port=max(height * width, out_pixels),
    )


def pooling(name: str, *, height: int, width: int, channels: int, stride: int = 2) -> Layer:
    """Maximum or mean over windows: one operation per input element, forward and back."""
    _check(name, height=height, width=width, channels=channels, stride=stride)
    elements = height * width * channels
    out = math.ceil(height / stride) * math.ceil(width / stride) * channels
    return _layer(name, "pooling", flops=(float(elements), float(elements)), elements=(elements, out), port=height * width)


def softmax_loss(name: str, classes: int, *, positions: int = 1) -> Layer:
    """Softmax and cross entropy: 5 operations per logit forward, 2 back."""
    _check(name, classes=classes, positions=positions)
    logits = classes * positions
    return _layer(name, "loss", flops=(5.0 * logits, 2.0 * logits), elements=(logits, positions), port=positions)


def bare_parameters(name: str, count: int) -> Layer:
    """Parameters without arithmetic worth counting: a class token, a relative position bias."""
    _check(name, count=count)
    return _layer(name, "parameters", parameters=count)

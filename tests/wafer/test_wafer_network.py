"""Networks: parameters equal those of the public checkpoints, FLOPs and bytes follow their definitions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wafer_model import WaferModelError
from wafer_model.catalogue import BUILDERS, build_network
from wafer_model.convolutional import fc_mnist, resnet50, unet
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
    softmax_loss,
)
from wafer_model.transformers import BlockShape, bert, t5, transformer_block, vit

few = st.integers(min_value=1, max_value=64)
SAMPLE = (InputTensor(name="x", elements=1, kind="float"),)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("bert_base", 110_106_428),  # BertForPreTraining
        ("bert_large", 336_226_108),
        ("gpt2_small", 124_439_808),
        ("gpt2_medium", 354_823_168),
        ("gpt2_large", 774_030_080),
        ("gpt2_xl", 1_557_611_200),
        ("gpt3_111m", 111_050_496),
        ("gptj_6b", 6_050_882_784),
        ("llama_7b", 6_738_415_616),
        ("llama3_8b", 8_030_261_248),
        ("t5_small", 60_506_624),
        ("t5_base", 222_903_552),
        ("t5_large", 737_668_096),
        ("vit_base", 86_567_656),
        ("resnet50", 25_557_032),
        ("fc_mnist", 545_810),
    ],
)
def test_parameters_equal_those_of_the_public_checkpoint(name: str, parameters: int) -> None:
    assert build_network(name).parameters == parameters


@pytest.mark.parametrize("name", list(BUILDERS))
def test_every_builtin_network_computes_has_a_sample_and_about_the_parameters_in_its_name(name: str) -> None:
    network = build_network(name)
    assert network.training_flops > 2 * network.forward_flops > 0
    assert network.sample_bytes > 0
    if name.startswith("gpt3_") and name.endswith("b"):  # no checkpoint of these was counted
        assert network.parameters == pytest.approx(float(name[5:-1]) * 1e9, rel=0.03)


def test_parts_and_other_sizes_have_the_parameters_of_public_checkpoints() -> None:
    """BertModel, which has no masked-word head and no next-sentence head; the U-Net of brain segmentation."""
    kept = [layer for layer in bert("large").layers if not layer.name.startswith(("masked", "next_sentence", "loss"))]
    assert sum(layer.parameters for layer in kept) == 335_141_888
    assert unet(channels=3, classes=1, features=32, batch_norm=True, conv_bias=False).parameters == 7_763_041


@pytest.mark.parametrize(("name", "sample_bytes"), [("fc_mnist", 1572), ("bert_large", 1740), ("gptj_6b", 20_480)])
def test_bytes_of_a_sample_are_those_of_the_public_input_functions(name: str, sample_bytes: int) -> None:
    assert build_network(name).sample_bytes == sample_bytes


@pytest.mark.parametrize("name", ["gpt2_xl", "gpt3_13b", "gptj_6b", "llama_7b"])
def test_training_takes_six_flops_per_parameter_and_token_besides_attention(name: str) -> None:
    network = build_network(name, sequence_length=512)
    products = sum(layer.training_flops for layer in network.layers if layer.kind == "dense")
    multiplied = sum(layer.streamed_parameters for layer in network.layers if layer.kind == "dense")
    assert products == pytest.approx(6 * multiplied * 512, rel=1e-3)


@given(few, few, few, few, st.integers(1, 4))
def test_a_transposed_convolution_has_the_flops_of_the_convolution_it_reverses(
    height: int, width: int, inputs: int, outputs: int, stride: int
) -> None:
    up = conv2d("u", height=height, width=width, inputs=inputs, outputs=outputs, kernel=stride, stride=stride, transposed=True)
    down = conv2d("d", height=height * stride, width=width * stride, inputs=outputs, outputs=inputs, kernel=stride, stride=stride)
    assert up.forward_flops == down.forward_flops
    assert (up.output_elements, up.input_elements) == (down.input_elements, down.output_elements)


@given(st.lists(st.integers(1, 300), min_size=1, max_size=5))
def test_totals_are_sums_over_layers_and_blocks(widths: list[int]) -> None:
    network = fc_mnist(widths=widths)
    assert network.parameters == sum(layer.parameters for layer in network.layers)
    assert network.training_flops == math.fsum(layer.forward_flops + layer.backward_flops for layer in network.layers)
    assert sum(len(block.layers) for block in network.blocks) == len(network.layers)
    assert len(network.weighted_blocks) == len(widths) + 1


@pytest.mark.parametrize(
    ("layer", "parameters", "flops", "elements", "port", "scratch"),
    [
        (dense("l", 3, 5, positions=2), 20, (60, 120), (6, 10), 6, 0),
        (attention("l", heads=2, head_size=3, queries=4, keys=5), 0, (680, 1160), (84, 24), 30, 40),
        (embedding("l", 10, 4, positions=3), 40, (0, 0), (3, 12), 3, 0),
        (normalization("l", 4, positions=3), 8, (96, 192), (12, 12), 12, 0),
        (normalization("l", 4, positions=3, bias=False, kind="batch_norm"), 4, (96, 192), (12, 12), 3, 0),
        (conv2d("l", height=4, width=6, inputs=2, outputs=3, stride=2), 57, (648, 1296), (48, 18), 24, 0),
        (conv2d("l", height=4, width=6, inputs=2, outputs=3, stride=2, transposed=True), 57, (2592, 5184), (48, 288), 96, 0),
        (pooling("l", height=4, width=6, channels=2), 0, (48, 48), (48, 12), 24, 0),
        (softmax_loss("l", 5, positions=2), 0, (50, 20), (10, 2), 2, 0),
        (bare_parameters("l", 7), 7, (0, 0), (0, 0), 0, 0),
    ],
    ids=lambda value: value.kind if isinstance(value, Layer) else "",
)
def test_a_layer_by_its_definition(
    layer: Layer, parameters: int, flops: tuple[int, int], elements: tuple[int, int], port: int, scratch: int
) -> None:
    """The counts worked out by hand, for one sample."""
    assert (layer.parameters, layer.streamed_parameters) == (parameters, parameters)
    assert (layer.forward_flops, layer.backward_flops) == flops
    assert (layer.input_elements, layer.output_elements) == elements
    assert (layer.port_elements, layer.scratch_elements) == (port, scratch)


def test_products_of_resnet50_are_those_that_are_published() -> None:
    """4.09 thousand million multiply-adds for an image of 224 x 224 pixels."""
    layers = resnet50().layers
    assert sum(layer.forward_flops for layer in layers if layer.kind in ("conv2d", "dense")) == pytest.approx(2 * 4.089e9, rel=1e-3)
    assert [layer.name for layer in layers if layer.kind == "pooling"] == ["stem.pool", "mean"]


LAYERS: tuple[Callable[[int], object], ...] = (
    lambda size: dense("culprit", size, 3),
    lambda size: dense("culprit", 3, 3, positions=size),
    lambda size: conv2d("culprit", height=size, width=3, inputs=3, outputs=3),
    lambda size: attention("culprit", heads=size, head_size=3, queries=3),
    lambda size: embedding("culprit", size, 3, positions=3),
    lambda size: normalization("culprit", size, positions=3),
    lambda size: pooling("culprit", height=3, width=3, channels=size),
    lambda size: softmax_loss("culprit", size),
)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        *((partial(layer, bad), "'culprit'.*positive whole number") for layer in LAYERS for bad in (0, -3, 2.5, True, None)),
        *(
            (partial(build_network, "gpt2_small", sequence_length=bad), "sequence length must be a positive whole number")
            for bad in (0, -1, 1.5, True)
        ),
        (lambda: build_network("resnet50", sequence_length=128), "resnet50 has no sequence length"),
        (lambda: Network(name="none", layers=(), inputs=SAMPLE), "'none' has no layers"),
        (lambda: Network(name="none", layers=(embedding("e", 9, 4, positions=1),), inputs=SAMPLE), "no layer that computes"),
        (lambda: Network(name="none", layers=(dense("d", 1, 1),), inputs=()), "no inputs"),
        (lambda: InputTensor(name="x", elements=1, kind="text"), "'integer' or 'float'"),
        (lambda: BlockShape(hidden=10, heads=3, feed_forward=8), "do not divide"),
        (lambda: vit(image=225), "does not divide"),
        (lambda: unet(height=100, width=100), "do not divide"),
        (lambda: unet(depth=0), "do not divide"),
        (lambda: resnet50(image=16), "too few"),
    ],
)
def test_what_cannot_be_is_refused_and_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(WaferModelError, match=message):
        make()


def test_cross_attention_reads_the_other_side() -> None:
    shape = BlockShape(hidden=8, heads=2, feed_forward=16, cross=True)
    layers: dict[str, Layer] = {layer.name: layer for layer in transformer_block("b", shape, queries=5, keys=9)}
    assert layers["b.self.attention"].scratch_elements == 2 * 5 * 5
    assert layers["b.cross.attention"].scratch_elements == 2 * 5 * 9
    assert t5("small").parameters == t5("small", sequence_length=64, target_length=8).parameters

"""Transformer networks with the sizes of their papers; parameter counts equal those of the public checkpoints.

Each block of a transformer is one unit of weight streaming, as the public compile logs count layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
    in_block,
    normalization,
    softmax_loss,
    tensors,
)

BERT_PREDICTIONS = {128: 20, 512: 80}  # masked positions per sequence, from the public BERT configurations
BERT_POSITIONS = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockShape:
    """One transformer block.

    Attributes:
        inner: heads x head size where it differs from `hidden` (T5); `key_value`: width of keys and values (grouped queries).
        gated: three feed-forward matrices (SwiGLU) and not two; `norms`: normalizations per block.
        condition: extra matrices per block applied once per sample (adaptive norms of diffusion transformers).
    """

    hidden: int
    heads: int
    feed_forward: int
    inner: int | None = None
    key_value: int | None = None
    attention_bias: bool = True
    feed_forward_bias: bool = True
    norm_bias: bool = True
    norms: int = 2
    gated: bool = False
    cross: bool = False
    condition: int = 0

    def __post_init__(self) -> None:
        if self.heads <= 0 or self.hidden <= 0 or (self.inner or self.hidden) % self.heads:
            raise WaferModelError(f"{self.heads} heads do not divide a width of {self.inner or self.hidden}")


NO_BIAS: dict[str, Any] = {"attention_bias": False, "feed_forward_bias": False, "norm_bias": False}


def transformer_block(name: str, shape: BlockShape, *, queries: int, keys: int | None = None) -> tuple[Layer, ...]:
    """Return norms, attention (and cross attention over `keys` places), feed-forward."""
    hidden, inner = shape.hidden, shape.inner or shape.hidden
    key_value = shape.key_value or inner
    layers: list[Layer] = []
    for what in ("self", "cross") if shape.cross else ("self",):
        other = keys if what == "cross" and keys is not None else queries
        bias = shape.attention_bias
        layers += [
            dense(f"{name}.{what}.query", hidden, inner, positions=queries, bias=bias),
            dense(f"{name}.{what}.key", hidden, key_value, positions=other, bias=bias),
            dense(f"{name}.{what}.value", hidden, key_value, positions=other, bias=bias),
            attention(f"{name}.{what}.attention", heads=shape.heads, head_size=inner // shape.heads, queries=queries, keys=other),
            dense(f"{name}.{what}.output", inner, hidden, positions=queries, bias=bias),
        ]
    bias = shape.feed_forward_bias
    layers.append(dense(f"{name}.ffn1", hidden, shape.feed_forward, positions=queries, bias=bias))
    if shape.gated:
        layers.append(dense(f"{name}.gate", hidden, shape.feed_forward, positions=queries, bias=bias))
    layers.append(dense(f"{name}.ffn2", shape.feed_forward, hidden, positions=queries, bias=bias))
    for index in range(shape.norms):
        layers.append(normalization(f"{name}.norm{index + 1}", hidden, positions=queries, bias=shape.norm_bias))
    for index in range(shape.condition):
        layers.append(dense(f"{name}.condition{index + 1}", hidden, hidden))
    return tuple(in_block(name, *layers))


def _blocks(depth: int, shape: BlockShape, name: str = "block", **sizes: int) -> list[Layer]:
    return [layer for index in range(depth) for layer in transformer_block(f"{name}{index + 1}", shape, **sizes)]


def _network(
    name: str,
    embeddings: Sequence[Layer],
    blocks: Sequence[Layer],
    heads: Sequence[Layer],
    inputs: tuple[InputTensor, ...],
    sequence_length: int | None = None,
) -> Network:
    layers = (*in_block("embeddings", *embeddings), *blocks, *in_block("heads", *heads))
    return Network(name=name, layers=layers, inputs=inputs, sequence_length=sequence_length)


ENCODERS = {
    "base": (12, BlockShape(hidden=768, heads=12, feed_forward=3072)),
    "large": (24, BlockShape(hidden=1024, heads=16, feed_forward=4096)),
}
"""Blocks and their shape, as BERT has them and the vision transformer took them over."""


def bert(size: str = "large", *, sequence_length: int = 128) -> Network:
    """BERT pre-training (masked words and next sentence), Devlin et al. 2018; sizes `base` and `large`."""
    depth, shape = ENCODERS[size]
    hidden, places = shape.hidden, sequence_length
    masked = BERT_PREDICTIONS.get(places, max(1, round(0.15 * places)))
    embeddings = [
        embedding("words", 30522, hidden, positions=places),
        embedding("positions", max(BERT_POSITIONS, places), hidden, positions=places),
        embedding("segments", 2, hidden, positions=places),
        normalization("embeddings.norm", hidden, positions=places),
    ]
    heads = [
        dense("pooler", hidden, hidden),
        dense("next_sentence", hidden, 2),
        dense("masked.transform", hidden, hidden, positions=masked),
        normalization("masked.norm", hidden, positions=masked),
        dense("masked.words", hidden, 30522, positions=masked, tied=True),
        softmax_loss("loss", 30522, positions=masked),
    ]
    inputs = tensors(
        **dict.fromkeys(("input_ids", "input_mask", "segment_ids"), (places, "integer")),
        **dict.fromkeys(("masked_lm_positions", "masked_lm_ids"), (masked, "integer")),
        masked_lm_weights=(masked, "float"),
        next_sentence_labels=(1, "integer"),
    )
    return _network(f"bert_{size}", embeddings, _blocks(depth, shape, queries=places), heads, inputs, places)


GPT_SIZES = {  # layers, width, heads; the feed-forward width is four times the width
    "gpt2_small": (12, 768, 12),
    "gpt2_medium": (24, 1024, 16),
    "gpt2_large": (36, 1280, 20),
    "gpt2_xl": (48, 1600, 25),
    # Cerebras-GPT, arXiv 2304.03208, table of sizes.
    "gpt3_111m": (10, 768, 12),
    "gpt3_256m": (14, 1088, 17),
    "gpt3_590m": (18, 1536, 12),
    "gpt3_1.3b": (24, 2048, 16),
    "gpt3_2.7b": (32, 2560, 32),
    "gpt3_6.7b": (32, 4096, 32),
    "gpt3_13b": (40, 5120, 40),
}


def gpt2(size: str, *, sequence_length: int = 1024) -> Network:
    """GPT-2, Radford et al. 2019: learned positions. Cerebras-GPT, 111M to 13B, has the same layers."""
    depth, hidden, heads = GPT_SIZES[size]
    shape = BlockShape(hidden=hidden, heads=heads, feed_forward=4 * hidden)
    return _decoder(size, depth, shape, 50257, sequence_length, tied=True, head_bias=False, learned_positions=True)


def gptj(*, sequence_length: int = 2048) -> Network:
    """GPT-J 6B (Wang and Komatsuzaki 2021): rotary positions, one norm per block, untied head with bias."""
    shape = BlockShape(hidden=4096, heads=16, feed_forward=16384, attention_bias=False, norms=1)
    return _decoder("gptj_6b", 28, shape, 50400, sequence_length, tied=False, head_bias=True)


def llama(size: str = "7b", *, sequence_length: int = 2048) -> Network:
    """LLaMA 7B (Touvron et al. 2023; version 2 has the same layers) and Llama 3 8B, which groups its queries."""
    vocabulary, feed_forward, key_value = {"7b": (32000, 11008, None), "3_8b": (128256, 14336, 1024)}[size]
    shape = BlockShape(hidden=4096, heads=32, feed_forward=feed_forward, key_value=key_value, gated=True, **NO_BIAS)
    return _decoder(f"llama_{size}", 32, shape, vocabulary, sequence_length, tied=False, head_bias=False)


def esm2(*, sequence_length: int = 1026) -> Network:
    """ESM-2 protein language model (Lin et al. 2023), 35M; the head is counted as a plain tied projection."""
    shape = BlockShape(hidden=480, heads=20, feed_forward=1920)
    return _decoder("esm2_35m", 12, shape, 33, sequence_length, tied=True, head_bias=True)


T5_SIZES = {"small": (6, 512, 8, 2048), "base": (12, 768, 12, 3072), "large": (24, 1024, 16, 4096)}
T5_VOCABULARY = 32128
T5_BUCKETS = 32


def t5(size: str = "base", *, sequence_length: int = 512, target_length: int = 114) -> Network:
    """T5 1.0, Raffel et al. 2020 (span corruption of 512 tokens gives targets of 114)."""
    depth, hidden, heads, feed_forward = T5_SIZES[size]
    encoder = BlockShape(hidden=hidden, heads=heads, feed_forward=feed_forward, **NO_BIAS)
    decoder = replace(encoder, norms=3, cross=True)
    blocks = _blocks(depth, encoder, queries=sequence_length, name="encoder")
    blocks += _blocks(depth, decoder, queries=target_length, keys=sequence_length, name="decoder")
    last = [
        normalization("encoder.norm", hidden, positions=sequence_length, bias=False, kind="rms_norm"),
        normalization("decoder.norm", hidden, positions=target_length, bias=False, kind="rms_norm"),
        bare_parameters("relative_positions", 2 * T5_BUCKETS * heads),
        dense("words.out", hidden, T5_VOCABULARY, positions=target_length, bias=False, tied=True),
        softmax_loss("loss", T5_VOCABULARY, positions=target_length),
    ]
    inputs = tensors(
        input_ids=(sequence_length, "integer"),
        decoder_input_ids=(target_length, "integer"),
        labels=(target_length, "integer"),
        attention_masks=(sequence_length + target_length, "float"),
    )
    words = embedding("words", T5_VOCABULARY, hidden, positions=sequence_length + target_length)
    return _network(f"t5_{size}", [words], blocks, last, inputs, sequence_length)


def vit(size: str = "base", *, image: int = 224, patch: int = 16, classes: int = 1000) -> Network:
    """Vision transformer, Dosovitskiy et al. 2020; sizes base and large."""
    depth, shape = ENCODERS[size]
    side = image // patch
    if side < 1 or image % patch:
        raise WaferModelError(f"a patch of {patch} does not divide an image of {image}")
    places, hidden = side * side + 1, shape.hidden
    embeddings = [
        conv2d("patches", height=image, width=image, inputs=3, outputs=hidden, kernel=patch, stride=patch),
        embedding("positions", places, hidden, positions=places),
        bare_parameters("class_token", hidden),
    ]
    heads = [
        normalization("norm", hidden, positions=places),
        dense("classes", hidden, classes),
        softmax_loss("loss", classes),
    ]
    inputs = tensors(image=(image * image * 3, "float"), label=(1, "integer"))
    return _network(f"vit_{size}", embeddings, _blocks(depth, shape, queries=places), heads, inputs)


def dit(*, latent: int = 32, patch: int = 2) -> Network:
    """Return a diffusion transformer of about 2B parameters (Peebles and Xie 2023, scaled up as in the public configuration).

    It has 30 blocks of width 2048 on 32 x 32 latents of 4 channels, and six conditioning matrices per block.
    """
    shape = BlockShape(hidden=2048, heads=16, feed_forward=8192, norms=0, condition=6)
    if patch < 1 or latent % patch:
        raise WaferModelError(f"a patch of {patch} does not divide a latent of {latent}")
    places = (latent // patch) ** 2
    patches = conv2d("patches", height=latent, width=latent, inputs=4, outputs=2048, kernel=patch, stride=patch)
    noise = dense("noise", 2048, patch * patch * 8, positions=places)
    inputs = tensors(latent=(latent * latent * 4, "float"), noise=(latent * latent * 4, "float"), label_and_step=(2, "integer"))
    return _network("dit_2b", [patches], _blocks(30, shape, queries=places), [noise], inputs)


def _decoder(
    name: str,
    depth: int,
    shape: BlockShape,
    vocabulary: int,
    places: int,
    *,
    tied: bool,
    head_bias: bool,
    learned_positions: bool = False,
) -> Network:
    hidden = shape.hidden
    embeddings = [embedding("words", vocabulary, hidden, positions=places)]
    if learned_positions:
        embeddings.append(embedding("positions", places, hidden, positions=places))
    heads = [
        normalization("norm", hidden, positions=places, bias=shape.norm_bias),
        dense("words.out", hidden, vocabulary, positions=places, bias=head_bias, tied=tied),
        softmax_loss("loss", vocabulary, positions=places),
    ]
    inputs = tensors(input_ids=(places, "integer"), labels=(places, "integer"), input_mask=(places, "float"))
    return _network(name, embeddings, _blocks(depth, shape, queries=places), heads, inputs, places)

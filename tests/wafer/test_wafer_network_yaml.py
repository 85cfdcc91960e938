"""Own networks in YAML, and files that describe none."""

from __future__ import annotations

from pathlib import Path

import pytest

from wafer_model import WaferModelError
from wafer_model.catalogue import build_network
from wafer_model.network_yaml import load_network

OWN = """
name: mine
inputs:
  - {name: image, elements: 784, kind: float}
  - {name: label, elements: 1, kind: integer}
layers:
  - {kind: dense, name: fc1, inputs: 784, outputs: 500}
  - {kind: dense, name: fc2, inputs: 500, outputs: 300}
  - {kind: dense, name: fc3, inputs: 300, outputs: 10}
  - {kind: softmax_loss, name: loss, classes: 10, block: fc3}
"""
BLOCKS = """
name: decoder
inputs: [{name: ids, elements: 32, kind: integer}]
layers:
  - {kind: embedding, name: words, vocabulary: 100, size: 16, positions: 32}
  - {kind: transformer_block, name: block, repeat: 4, hidden: 16, heads: 2, feed_forward: 64, queries: 32}
  - {kind: conv2d, name: conv, height: 8, width: 8, inputs: 1, outputs: 2}
"""


def write(folder: Path, text: str) -> str:
    file = folder / "net.yaml"
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_a_network_layer_by_layer_equals_the_built_one(tmp_path: Path) -> None:
    found, builtin = load_network(write(tmp_path, OWN)), build_network("fc_mnist")
    assert (found.name, found.layers, found.inputs) == ("mine", builtin.layers, builtin.inputs)


def test_blocks_repeat_under_their_own_names(tmp_path: Path) -> None:
    found = load_network(write(tmp_path, BLOCKS))
    assert [block.name for block in found.blocks] == ["words", "block1", "block2", "block3", "block4", "conv"]


def test_a_builtin_network_with_other_sizes(tmp_path: Path) -> None:
    found = load_network(write(tmp_path, "{name: short, base: gpt2_small, sequence_length: 256}"))
    assert found.name == "short"
    assert found.layers == build_network("gpt2_small", sequence_length=256).layers
    assert load_network("gpt2_small").name == "gpt2_small"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is a mapping"),
        ("[1]", "is a mapping"),
        ("{", "cannot be read as a network"),
        ("name: 2024-99-99", "cannot be read as a network"),
        (OWN.replace("outputs: 500", f"outputs: 1{'0' * 400}"), "layer 1 'fc1'.*outputs must be at most"),
        (OWN.replace("outputs: 500", f"outputs: 1{'0' * 5000}"), "cannot be read as a network"),
        ("name: x", "'layers' must be a list"),
        ("layers: []", "'layers' must be a list"),
        (OWN.replace("layers:", "layerz:"), "unknown field 'layerz'"),
        (OWN.replace("784, outputs: 500", "-784, outputs: 500"), "layer 1 'fc1'.*inputs must be a positive whole number, got -784"),
        (OWN.replace("outputs: 500", "outputs: .nan"), "layer 1 'fc1'.*outputs must be a positive whole number, got nan"),
        (OWN.replace("kind: dense, name: fc2", "kind: magic, name: fc2"), "layer 2 'fc2': unknown kind 'magic'"),
        (OWN.replace("name: fc2, inputs: 500,", "name: fc2, input: 500,"), "layer 2 'fc2': unknown field 'input'"),
        (OWN.replace("name: fc2, inputs: 500, ", "name: fc2, "), "layer 2 'fc2'.*missing"),
        (OWN.replace("name: fc2, ", ""), "layer 2: a layer needs a name"),
        (OWN.replace("kind: float", "kind: text"), "input 1.*'integer' or 'float'"),
        (OWN.replace("elements: 784, kind: float", "elements: 0, kind: float"), "input 1.*positive whole number"),
        *((BLOCKS.replace("repeat: 4", f"repeat: {bad}"), "layer 2 'block': repeat must be") for bad in (0, 10**9)),
        *((BLOCKS.replace("heads: 2", f"heads: {bad}"), "layer 2 'block'.*do not divide") for bad in (0, 3)),
        ("{base: gpt9}", "unknown base 'gpt9'"),
        ("{base: resnet50, sequence_length: 3}", "unknown field 'sequence_length'"),
        ("{base: gpt2_small, sequence_length: many}", "base 'gpt2_small'"),
        ("layers: [3]\ninputs: [{name: a, elements: 1, kind: float}]", "layer 1: a layer is a mapping"),
        (
            OWN.split("layers:", maxsplit=1)[0] + "layers: [{kind: embedding, name: e, vocabulary: 2, size: 2, positions: 2}]",
            "no layer that computes",
        ),
    ],
)
def test_what_describes_no_network_is_refused_with_file_and_layer(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(WaferModelError, match=message) as caught:
        load_network(write(tmp_path, text))
    assert "net.yaml" in str(caught.value)
    with pytest.raises(WaferModelError, match=r"absent\.yaml"):
        load_network(str(tmp_path / "absent.yaml"))
    with pytest.raises(WaferModelError, match="is in its file"):
        load_network(write(tmp_path, OWN), sequence_length=5)

"""Files of others: networks in YAML, compile_report.txt, performance.json; what is read of them, and hostile ones.

All reports here are made up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wafer_model import WaferModelError
from wafer_model.catalogue import build_network
from wafer_model.network_yaml import load_network
from wafer_model.vendor_files import BOTTLENECK_KEYS, read_compile_report, read_performance_json

READERS: dict[str, Callable[[Path], Any]] = {
    "net.yaml": lambda file: load_network(str(file)),
    "compile_report.txt": read_compile_report,
    "performance.json": read_performance_json,
}


def read(folder: Path, name: str, content: object) -> Any:
    """What the reader of files of this name makes of a text, or of JSON."""
    file = folder / name
    file.write_text(content if isinstance(content, str) else json.dumps(content, indent=4, sort_keys=True), encoding="utf-8")
    return READERS[name](file)


# --- what is read ------------------------------------------------------------------------------------------------------------

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


def test_a_network_layer_by_layer_equals_the_built_one_and_blocks_repeat_under_their_own_names(tmp_path: Path) -> None:
    found, builtin = read(tmp_path, "net.yaml", OWN), build_network("fc_mnist")
    assert (found.name, found.layers, found.inputs) == ("mine", builtin.layers, builtin.inputs)
    found = read(tmp_path, "net.yaml", BLOCKS)
    assert [block.name for block in found.blocks] == ["words", "block1", "block2", "block3", "block4", "conv"]


def test_a_builtin_network_with_other_sizes(tmp_path: Path) -> None:
    found = read(tmp_path, "net.yaml", "{name: short, base: gpt2_small, sequence_length: 256}")
    assert found.name == "short"
    assert found.layers == build_network("gpt2_small", sequence_length=256).layers
    assert load_network("gpt2_small").name == "gpt2_small"
    with pytest.raises(WaferModelError, match="is in its file"):
        load_network(str(tmp_path / "net.yaml"), sequence_length=5)


REPORT = """\
Estimated Overall Performance
-------------------------------
Samples/s:                              860.3
Compute Samples/s:                      861.1
Transmission Samples/s:                 860.3
Active PEs:                             92%
+--------------------+-----------+
| Kernel Name        | Samples/s |
+--------------------+-----------+
| attention1         | 861.1     |
| Samples/s: 7       | --        |
+--------------------+-----------+
"""


def test_the_header_of_a_report_is_read_and_the_table_is_not(tmp_path: Path) -> None:
    found = read(tmp_path, "compile_report.txt", REPORT)
    assert (found.samples_per_s, found.compute_samples_per_s, found.transmission_samples_per_s) == (860.3, 861.1, 860.3)
    assert found.limited_by == "transmission"
    assert read(tmp_path, "compile_report.txt", REPORT.replace("861.1", "--", 1)).compute_samples_per_s is None


ONE = {
    "compile_time": 120.5,
    "est_samples_per_sec": 7000.0,
    "programming_time": 60,
    "samples_per_sec": 6500.0,
    "total_samples": 1024000,
    "total_time": 157.5,
}
TWO = {
    "total_samples": 24000,
    "total_time": 550.0,
    "rate": 44.8,
    "global_rate": 43.6,
    "samples_per_sec": 43.6,
    "flops_utilization": 29.0,
}


def test_the_keys_of_both_generations_are_read(tmp_path: Path) -> None:
    found = read(tmp_path, "performance.json", ONE)
    assert (found.samples_per_s, found.estimated_samples_per_s) == (6500, 7000)
    assert (found.total_samples, found.total_time_s) == (1024000, 157.5)
    assert (found.compile_time_s, found.programming_time_s) == (120.5, 60)
    assert (found.suspected_input_bottleneck, found.is_input_bound, found.worker_samples_per_s) == (None, None, ())
    found = read(tmp_path, "performance.json", TWO)
    assert (found.samples_per_s, found.recent_samples_per_s, found.estimated_samples_per_s) == (43.6, 44.8, None)
    workers = [{"total_samples": 5, "total_time": 2.0, "samples_per_sec": 2.5}, {}]
    assert read(tmp_path, "performance.json", {**ONE, "ordinals": workers}).worker_samples_per_s == (2.5, None)


@pytest.mark.parametrize("key", BOTTLENECK_KEYS)
@pytest.mark.parametrize(
    ("value", "bound"),
    [
        ("Not Applicable", None),
        ("", None),
        ("Input pipeline is slow", True),
        (True, True),
        (False, False),
        ("No.", False),
        ("none", False),
    ],
)
def test_both_spellings_of_the_suspicion_are_read(tmp_path: Path, key: str, value: object, bound: bool | None) -> None:
    assert read(tmp_path, "performance.json", {**ONE, key: value}).is_input_bound is bound


def test_a_rate_that_was_not_written_follows_from_samples_and_time(tmp_path: Path) -> None:
    for content, rate in (({"total_samples": 100, "total_time": 4.0}, 25), ({"total_samples": 100, "total_time": 0}, None)):
        assert read(tmp_path, "performance.json", content).samples_per_s == rate
    assert read(tmp_path, "performance.json", {}).samples_per_s is None  # of a real run


# --- what is refused ---------------------------------------------------------------------------------------------------------

# Of each kind of file, texts that are none, and what is said of them.
REFUSED: dict[str, list[tuple[str, str]]] = {
    "net.yaml": [
        ("", "is a mapping"),
        ("[1]", "is a mapping"),
        ("{", "cannot be read as a network"),
        (OWN.replace("outputs: 500", f"outputs: 1{'0' * 400}"), "layer 1 'fc1'.*outputs must be at most"),
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
    "compile_report.txt": [
        ("", "no compile report"),
        ("hello\nworld\n", "no compile report"),
        (REPORT.replace("Samples/s:  ", "Rate:  ", 1), "no positive 'Samples/s'"),
        (REPORT.replace("860.3", "0"), "no positive 'Samples/s'"),
        (REPORT.replace("860.3", "--"), "no positive 'Samples/s'"),
        *((REPORT.replace("860.3", bad), "txt:3: Samples/s must be a number") for bad in ("nan", "inf", "-4", "fast", "5%")),
    ],
    "performance.json": [
        ('{\n "samples_per_sec": 5,\n', r"json:3: this is no JSON"),
        ('{"samples_per_sec": NaN}', "samples_per_sec must be a number that is not negative, got nan"),
        ('{"total_time": 1e999}', "total_time must be a number"),
        ('{"total_time": -1}', "total_time must be a number"),
        (f'{{"total_time": 1{"0" * 400}}}', "total_time must be a number"),
        (f'{{"total_time": 1{"0" * 5000}}}', "cannot be read"),
        ('{"samples_per_sec": "fast"}', "samples_per_sec must be a number that is not negative, got 'fast'"),
        ('{"samples_per_sec": true}', "samples_per_sec must be a number that is not negative, got True"),
        ('{"samples_per_sec": 1, "ordinals": 3}', "ordinals must be a list"),
        ('{"samples_per_sec": 1, "ordinals": [3]}', "ordinals must be a list of objects"),
        ('{"samples_per_sec": 1, "ordinals": [{"total_time": "x"}]}', "total_time must be a number"),
        ('{"samples_per_sec": 1, "suspected_input_bottleneck": [1]}', "suspected_input_bottleneck must be text"),
        ("[1, 2]", "holds one object, not a list"),
        ('{"loss": 3}', "none of the keys of a performance.json: loss"),
        ("[" * 100_000, "cannot be read"),
    ],
}


@pytest.mark.parametrize(("name", "text", "message"), [(name, *row) for name, rows in REFUSED.items() for row in rows])
def test_what_is_no_such_file_is_refused_with_file_and_place(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(WaferModelError, match=message) as caught:
        read(tmp_path, name, text)
    assert name in str(caught.value)


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=60, deadline=None)
@given(content=st.binary(max_size=300))
def test_any_bytes_and_no_file_give_an_error_that_names_it(
    name: str, tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    file = tmp_path_factory.mktemp("bytes") / name
    file.write_bytes(content)
    said = name
    try:
        READERS[name](file)  # some bytes are such a file
    except WaferModelError as error:
        said = str(error)
    assert name in said
    with pytest.raises(WaferModelError, match=re.escape(f"absent_{name}")):
        READERS[name](file.with_name(f"absent_{name}"))

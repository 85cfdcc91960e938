"""performance.json: both spellings, both generations of keys, several workers, and what is no such file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wafer_model import WaferModelError
from wafer_model.performance_json import BOTTLENECK_KEYS, Performance, read_performance_json

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


def read(folder: Path, content: object) -> Performance:
    file = folder / "performance.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content, indent=4, sort_keys=True), encoding="utf-8")
    return read_performance_json(file)


def test_the_keys_of_both_generations_are_read(tmp_path: Path) -> None:
    found = read(tmp_path, ONE)
    assert (found.samples_per_s, found.estimated_samples_per_s) == (6500, 7000)
    assert (found.total_samples, found.total_time_s) == (1024000, 157.5)
    assert (found.compile_time_s, found.programming_time_s) == (120.5, 60)
    assert (found.suspected_input_bottleneck, found.is_input_bound, found.worker_samples_per_s) == (None, None, ())
    found = read(tmp_path, TWO)
    assert (found.samples_per_s, found.recent_samples_per_s, found.estimated_samples_per_s) == (43.6, 44.8, None)
    workers = [{"total_samples": 5, "total_time": 2.0, "samples_per_sec": 2.5}, {}]
    assert read(tmp_path, {**ONE, "ordinals": workers}).worker_samples_per_s == (2.5, None)


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
    assert read(tmp_path, {**ONE, key: value}).is_input_bound is bound


def test_a_rate_that_was_not_written_follows_from_samples_and_time(tmp_path: Path) -> None:
    assert read(tmp_path, {"total_samples": 100, "total_time": 4.0}).samples_per_s == 25
    assert read(tmp_path, {"total_samples": 100, "total_time": 0}).samples_per_s is None
    assert read(tmp_path, {}).samples_per_s is None  # of a real run


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{\n "samples_per_sec": 5,\n', r"json:3: this is no JSON"),
        ('{"samples_per_sec": NaN}', "samples_per_sec cannot be nan"),
        ('{"total_time": 1e999}', "total_time cannot be inf"),
        ('{"total_time": -1}', "total_time cannot be -1"),
        (f'{{"total_time": 1{"0" * 400}}}', "total_time cannot be inf"),
        (f'{{"total_time": 1{"0" * 5000}}}', "cannot be read"),
        ('{"samples_per_sec": "fast"}', "samples_per_sec must be a number, got 'fast'"),
        ('{"samples_per_sec": true}', "samples_per_sec must be a number, got True"),
        ('{"samples_per_sec": 1, "ordinals": 3}', "ordinals must be a list"),
        ('{"samples_per_sec": 1, "ordinals": [3]}', "ordinals must be a list of objects"),
        ('{"samples_per_sec": 1, "ordinals": [{"total_time": "x"}]}', "total_time must be a number"),
        ('{"samples_per_sec": 1, "suspected_input_bottleneck": [1]}', "suspected_input_bottleneck must be text"),
        ("[1, 2]", "holds one object, not a list"),
        ('{"loss": 3}', "none of the keys of a performance.json: loss"),
        ("[" * 100_000, "cannot be read"),
    ],
)
def test_what_is_no_such_file_is_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(WaferModelError, match=message) as caught:
        read(tmp_path, text)
    assert "performance.json" in str(caught.value)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_give_a_record_or_a_named_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    file = tmp_path_factory.mktemp("bytes") / "performance.json"
    file.write_bytes(content)
    try:
        said = read_performance_json(file).path
    except WaferModelError as error:
        said = str(error)
    assert "performance.json" in said
    with pytest.raises(WaferModelError, match=r"absent\.json: cannot be read"):
        read_performance_json(file.with_name("absent.json"))

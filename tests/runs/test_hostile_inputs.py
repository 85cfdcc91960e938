"""Files of others that are made to hang, to fill memory, or to end in a traceback: each ends in exit code 2 and one line."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import hostile_inputs
from cs_input_analyzer.cli import main
from wafer_model.foreign import MOST_BYTES, yaml_of

BOMB = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12))
MERGES = "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{<<: [{','.join([f'*a{i - 1}'] * 9)}]}}\n" for i in range(1, 12))
YAML = {
    "an alias of itself": "&a [*a]",
    "3000 levels": "[" * 3000 + "]" * 3000,
    "aliases of aliases": BOMB,
    "merges of merges": MERGES,
    "a number by sixties": "a: " + "1:" * 100_000 + "1",
    "a number without an end": "a: " + "9" * 100_000,
    "a tag that does not fit": "a: !!bool x",
    "code": "!!python/object/apply:os.system [ls]",
    "too long": "# " + "x" * MOST_BYTES,
    "no date": "a: 2024-13-45",
}
FILES = {
    "page of begun tags": ("run.html", b"<html>" + b"<script id=run" * 8000),
    "page of open tags": ("run.html", b"<html>" + b"<script " * 8000),
    "record of 2^44 bytes": ("a.tfevents.1", struct.pack("<Q", 2**44) + bytes(100)),
    "large performance.json": ("performance.json", b'{"rate": 1,' + b" " * (5 << 20) + b'"a": 1}'),
    "packed digits": ("run.log.gz", gzip.compress(b"| Train Device=CPU, Step=1, Rate=" + b"1" * 3_000_000 + b"Rate=\n")),
}


def refused(capsys: pytest.CaptureFixture[str], *line: str) -> str:
    """The one line with which a command refuses."""
    assert main(line) == 2
    (said,) = capsys.readouterr().err.splitlines()
    return said


@pytest.mark.parametrize("text", YAML.values(), ids=YAML)
def test_hostile_yaml_is_refused_wherever_yaml_is_read(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(text, encoding="utf-8")
    assert "cannot be read" in refused(capsys, "wafer", str(file), "--batch-size", "8")
    (tmp_path / "target.py").write_text("def f(params):\n    return None\n", encoding="utf-8")
    for option in ("--params", "--cluster"):
        assert "not YAML" in refused(capsys, "analyze", f"{tmp_path}/target.py:f", option, str(file))


@pytest.mark.parametrize(("name", "content"), FILES.values(), ids=FILES)
def test_hostile_files_are_refused(name: str, content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / name).write_bytes(content)
    assert name in refused(capsys, "report" if name.endswith("html") else "inspect-run", str(tmp_path / name))


@given(st.text(alphabet="[]{}&*a:<->?!|'\" \n0.e_#%@`,", max_size=60))
def test_no_text_is_yaml_that_raises_otherwise(text: str) -> None:
    said = ""
    try:
        yaml_of(text)
    except ValueError as error:
        said = str(error)
    assert "\n" not in said


@pytest.mark.long
def test_mutated_real_files_are_read_or_refused() -> None:
    """`python -m benchmarks.hostile_inputs` tries 100,000."""
    for outcome in hostile_inputs.fuzz(1000, seed=1):
        assert outcome.failures == []
        assert outcome.peak_bytes < hostile_inputs.MOST_BYTES

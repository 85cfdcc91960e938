"""compile_report.txt: what the public files look like, and hostile ones. All reports here are made up."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wafer_model import WaferModelError
from wafer_model.compile_report import CompileReport, read_compile_report

TEXT = """\
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


def read(folder: Path, text: str) -> CompileReport:
    file = folder / "compile_report.txt"
    file.write_text(text, encoding="utf-8")
    return read_compile_report(file)


def test_the_header_is_read_and_the_table_is_not(tmp_path: Path) -> None:
    found = read(tmp_path, TEXT)
    assert (found.samples_per_s, found.compute_samples_per_s, found.transmission_samples_per_s) == (860.3, 861.1, 860.3)
    assert found.limited_by == "transmission"
    assert read(tmp_path, TEXT.replace("861.1", "--", 1)).compute_samples_per_s is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no compile report"),
        ("hello\nworld\n", "no compile report"),
        (TEXT.replace("Samples/s:  ", "Rate:  ", 1), "no positive 'Samples/s'"),
        (TEXT.replace("860.3", "0"), "no positive 'Samples/s'"),
        (TEXT.replace("860.3", "--"), "no positive 'Samples/s'"),
        *((TEXT.replace("860.3", bad), f"txt:3: Samples/s: '{bad}' is no rate") for bad in ("nan", "inf", "-4", "fast", "5%")),
    ],
)
def test_garbage_is_refused_with_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(WaferModelError, match=message) as caught:
        read(tmp_path, text)
    assert "compile_report.txt" in str(caught.value)


@given(st.binary(max_size=300))
@settings(max_examples=60, deadline=None)
def test_any_bytes_give_a_named_error_and_no_other(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    file = tmp_path_factory.mktemp("bytes") / "compile_report.txt"
    file.write_bytes(content)
    for path in (file, file.with_name("absent_compile_report.txt")):
        with pytest.raises(WaferModelError, match=r"compile_report\.txt"):
            read_compile_report(path)

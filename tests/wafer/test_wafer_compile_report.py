"""compile_report.txt: what the public files look like, differing widths, and hostile ones. All reports here are made up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wafer_model import WaferModelError, from_compile_report
from wafer_model.compile_report import COLUMNS, CompileReport, read_compile_report

ROWS: tuple[tuple[str, ...], ...] = (
    ("", "", "", "", "", ""),
    ("attention1", "861.1", "861.1", "2085.6", "8788", "82%"),
    ("attention1.core.scores", "900.0", "900.0", "--", "1024", "100%"),
    ("attention1.core.optimizer", "--", "--", "--", "512", "0%"),
    ("fc1", "860.3", "870.0", "860.3", "3420", "90%"),
    ("patio", "--", "--", "--", "307840", "--"),
)
HEADER = (
    ("Samples/s", "860.3"),
    ("Compute Samples/s", "861.1"),
    ("Transmission Samples/s", "860.3"),
    ("Active PEs", "92%"),
    ("Compute Utilization", "85%"),
)


def text_of(
    rows: Sequence[Sequence[str]] = ROWS, header: Sequence[Sequence[str]] = HEADER, columns: Sequence[str] = COLUMNS, pad: int = 2
) -> str:
    widths = [max(len(line[index]) for line in (columns, *rows)) + pad for index in range(len(columns))]
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in (columns, *rows)
    ]
    title = ["Estimated Overall Performance", "-------------------------------"]
    return (
        "\n".join([*title, *(f"{name + ':':<40}{value}" for name, value in header), rule, lines[0], rule, *lines[1:], rule]) + "\n"
    )


def read(folder: Path, text: str) -> CompileReport:
    file = folder / "compile_report.txt"
    file.write_text(text, encoding="utf-8")
    return read_compile_report(file)


def test_header_and_table_are_read_with_missing_values_missing(tmp_path: Path) -> None:
    found = read(tmp_path, text_of())
    assert (found.samples_per_s, found.compute_samples_per_s, found.transmission_samples_per_s) == (860.3, 861.1, 860.3)
    assert (found.active_pe_ratio, found.compute_utilization_ratio) == (0.92, 0.85)
    assert [kernel.name for kernel in found.kernels] == [row[0] for row in ROWS[1:]]
    part = found.kernels[1]
    assert part.is_part
    assert (part.transmission_samples_per_s, part.active_pes, part.compute_utilization_ratio) == (None, 1024, 1.0)
    assert found.kernels[-1].compute_utilization_ratio is None


def test_the_limiting_kernel_is_the_slowest_whole_one(tmp_path: Path) -> None:
    found = read(tmp_path, text_of())
    assert [kernel.name for kernel in found.limiting_kernels()] == ["fc1", "attention1"]
    assert found.limited_by == "transmission"
    assert from_compile_report(found).samples_per_s.estimate == 860.3


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 80), st.permutations(range(len(COLUMNS))))
def test_widths_and_the_order_of_columns_do_not_matter(
    tmp_path_factory: pytest.TempPathFactory, pad: int, order: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("report")
    shuffled = [[row[index] for index in order] for row in ROWS]
    other = read(folder, text_of(shuffled, columns=[COLUMNS[index] for index in order], pad=pad))
    assert other == read(folder, text_of())


def test_a_table_of_megabytes_is_read_whole(tmp_path: Path) -> None:
    rows = [(f"attention{index}.core.part_{index % 7}", "5897.5", "5897.5", "--", str(index), "71%") for index in range(30_000)]
    text = text_of([*rows, ROWS[4]])
    assert len(text) > 3_000_000
    assert len(read(tmp_path, text).kernels) == 30_001


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no compile report"),
        ("hello\nworld\n", "no compile report"),
        ("\x00\x01\x02", "no compile report"),
        ("Samples/s: 10\n", "2|1: the report ends before its table"),
        (text_of(header=HEADER[1:]), "no positive 'Samples/s'"),
        (text_of(header=[("Samples/s", "0"), *HEADER[1:]]), "no positive 'Samples/s'"),
        (text_of(header=[("Samples/s", "--"), *HEADER[1:]]), "no positive 'Samples/s'"),
        (text_of(header=[("Samples/s", "nan"), *HEADER[1:]]), r"txt:3: Samples/s: 'nan' cannot be here"),
        (text_of(header=[("Samples/s", "inf"), *HEADER[1:]]), r"txt:3: Samples/s: 'inf' cannot be here"),
        (text_of(header=[("Samples/s", "-4"), *HEADER[1:]]), r"txt:3: Samples/s: '-4' cannot be here"),
        (text_of(header=[("Samples/s", "fast"), *HEADER[1:]]), r"txt:3: Samples/s: 'fast' is not a number"),
        (text_of(header=[*HEADER, HEADER[0]]), r"txt:8: 'Samples/s' appears twice"),
        (text_of(columns=("Kernel", *COLUMNS[1:])), "no column 'Kernel Name'"),
        (text_of([("fc1", "1", "1", "1", "many", "1%")]), r"txt:11: 'many' is not a number"),
        (text_of([("fc1", "1", "1", "1", "5%", "1%")]), r"txt:11: '5%' cannot be here"),
        (text_of([("", "1", "1", "1", "5", "1%")]), r"txt:11: a row has numbers but no kernel name"),
        (text_of([]), "the table has no kernel"),
    ],
)
def test_garbage_is_refused_with_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(WaferModelError, match=message) as caught:
        read(tmp_path, text)
    assert "compile_report.txt" in str(caught.value)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_report_cut_off_anywhere_is_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    whole = text_of().rstrip("\n")
    cut = data.draw(st.integers(0, len(whole) - 2))
    if whole[:cut].rstrip().endswith("+") and whole[:cut].count("+-") >= 3 * 6 - 5 and len(whole) - cut < 3:
        return
    last = whole[:cut].rstrip("\n").split("\n")[-1]
    if last.startswith("+-") and whole.split("\n")[-1].startswith(last) and whole[:cut].count("\n") == whole.count("\n"):
        return  # part of the closing rule: all rows are there
    with pytest.raises(WaferModelError, match=r"compile_report\.txt"):
        read(tmp_path_factory.mktemp("cut"), whole[:cut])


def test_a_row_with_another_number_of_cells_is_refused(tmp_path: Path) -> None:
    lines = text_of().splitlines()
    lines[11] = lines[11].rsplit("|", 2)[0] + "|"
    with pytest.raises(WaferModelError, match=r"compile_report\.txt:12: 5 cells where the table has 6 columns"):
        read(tmp_path, "\n".join(lines))


@given(st.binary(max_size=300))
@settings(max_examples=60, deadline=None)
def test_any_bytes_give_a_named_error_and_no_other(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    file = tmp_path_factory.mktemp("bytes") / "compile_report.txt"
    file.write_bytes(content)
    with pytest.raises(WaferModelError, match=r"compile_report\.txt"):
        read_compile_report(file)


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(WaferModelError, match=r"absent\.txt: cannot be read"):
        read_compile_report(tmp_path / "absent.txt")

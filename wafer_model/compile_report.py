"""Reader of `compile_report.txt`, which the closed compiler writes for pipelined networks (format of R0.7 to R1.8).

A header of five estimates, then a table of kernels that may run to megabytes; sub-kernels carry dotted names and are parts of
their kernel, not further ones. `--` means that the compiler has no estimate. Column widths differ between releases, so columns
are found by their titles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from wafer_model.errors import WaferModelError

HEADER_RATES = ("Samples/s", "Compute Samples/s", "Transmission Samples/s")
HEADER_SHARES = ("Active PEs", "Compute Utilization")
COLUMNS = ("Kernel Name", *HEADER_RATES, *HEADER_SHARES)
MISSING = "--"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelEstimate:
    """One row. `active_pes`: a number of processing elements, unlike the share of the same title in the header."""

    name: str
    samples_per_s: float | None
    compute_samples_per_s: float | None
    transmission_samples_per_s: float | None
    active_pes: int | None
    compute_utilization_ratio: float | None

    @property
    def is_part(self) -> bool:
        """A sub-kernel: counted in its kernel already."""
        return "." in self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileReport:
    """What the compiler estimates. `kernels` in the order of the file, sub-kernels included."""

    path: str
    samples_per_s: float
    compute_samples_per_s: float | None
    transmission_samples_per_s: float | None
    active_pe_ratio: float | None
    compute_utilization_ratio: float | None
    kernels: tuple[KernelEstimate, ...]

    def limiting_kernels(self) -> tuple[KernelEstimate, ...]:
        """Whole kernels by rising rate; those without an estimate take no part."""
        whole = [kernel for kernel in self.kernels if not kernel.is_part and kernel.samples_per_s is not None]
        return tuple(sorted(whole, key=lambda kernel: (kernel.samples_per_s or 0.0, kernel.name)))

    @property
    def limited_by(self) -> str:
        """`compute` or `transmission`, whichever estimate of the header is smaller."""
        compute, transmission = self.compute_samples_per_s, self.transmission_samples_per_s
        if compute is None or transmission is None:
            return "compute" if transmission is None else "transmission"
        return "transmission" if transmission < compute else "compute"


def read_compile_report(path: Path | str) -> CompileReport:
    """The report at `path`.

    Raises:
        WaferModelError: no such file, not such a report, cut off, or a cell that is no number (names file and line).
    """
    file = Path(path)
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise WaferModelError(f"{file}: cannot be read as a compile report: {error}") from error
    header, first = _header(lines, file)
    return CompileReport(
        path=str(file),
        samples_per_s=_required(header, "Samples/s", file),
        compute_samples_per_s=header.get("Compute Samples/s"),
        transmission_samples_per_s=header.get("Transmission Samples/s"),
        active_pe_ratio=header.get("Active PEs"),
        compute_utilization_ratio=header.get("Compute Utilization"),
        kernels=_table(lines, first, file),
    )


def _header(lines: list[str], file: Path) -> tuple[dict[str, float | None], int]:
    """Estimates by title, and the index of the first line of the table."""
    found: dict[str, float | None] = {}
    for index, line in enumerate(lines):
        if line.lstrip().startswith(("+-", "|")):
            if not found:
                break
            return found, index
        title, colon, text = line.partition(":")
        title = title.strip()
        if colon and title in (*HEADER_RATES, *HEADER_SHARES):
            if title in found:
                raise WaferModelError(f"{file}:{index + 1}: {title!r} appears twice")
            found[title] = _cell(text, is_share=title in HEADER_SHARES, where=f"{file}:{index + 1}: {title}")
    if not found:
        raise WaferModelError(f"{file}: this is no compile report: no line such as 'Samples/s: 2321.9' before a table")
    raise WaferModelError(f"{file}:{len(lines)}: the report ends before its table of kernels: it was cut off")


def _required(header: dict[str, float | None], title: str, file: Path) -> float:
    value = header.get(title)
    if value is None or value <= 0:
        raise WaferModelError(f"{file}: the header gives no positive {title!r}, so nothing can be said about the consumption")
    return value


def _table(lines: list[str], first: int, file: Path) -> tuple[KernelEstimate, ...]:
    order: tuple[int, ...] | None = None
    width = 0
    kernels: list[KernelEstimate] = []
    is_closed = False
    for index in range(first, len(lines)):
        line = lines[index].strip()
        if not line or line.startswith("+-"):
            is_closed = is_closed or (bool(kernels) and bool(line))
            continue
        if not (line.startswith("|") and line.endswith("|")):
            raise WaferModelError(f"{file}:{index + 1}: a row of the table is cut off: {line[:60]!r}")
        cells = [cell.strip() for cell in line[1:-1].split("|")]
        is_closed = False
        if order is None:
            order, width = _columns(cells, f"{file}:{index + 1}"), len(cells)
        elif len(cells) != width:
            raise WaferModelError(f"{file}:{index + 1}: {len(cells)} cells where the table has {width} columns")
        elif any(cells):
            kernels.append(_kernel(cells, order, f"{file}:{index + 1}"))
    if not kernels:
        raise WaferModelError(f"{file}:{len(lines)}: the table has no kernel: the report was cut off")
    if not is_closed:
        raise WaferModelError(f"{file}:{len(lines)}: the table has no closing rule: the report was cut off")
    return tuple(kernels)


def _columns(cells: list[str], where: str) -> tuple[int, ...]:
    missing = [title for title in COLUMNS if title not in cells]
    if missing:
        raise WaferModelError(f"{where}: the table has no column {missing[0]!r}")
    return tuple(cells.index(title) for title in COLUMNS)


def _kernel(cells: list[str], order: tuple[int, ...], where: str) -> KernelEstimate:
    name, rate, compute, transmission, pes, utilization = (cells[column] for column in order)
    if not name:
        raise WaferModelError(f"{where}: a row has numbers but no kernel name")
    count = _cell(pes, is_share=False, where=where)
    return KernelEstimate(
        name=name,
        samples_per_s=_cell(rate, is_share=False, where=where),
        compute_samples_per_s=_cell(compute, is_share=False, where=where),
        transmission_samples_per_s=_cell(transmission, is_share=False, where=where),
        active_pes=None if count is None else int(count),
        compute_utilization_ratio=_cell(utilization, is_share=True, where=where),
    )


def _cell(text: str, *, is_share: bool, where: str) -> float | None:
    text = text.strip()
    if text in (MISSING, ""):
        return None
    try:
        value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise WaferModelError(f"{where}: {text[:40]!r} is not a number") from None
    if not math.isfinite(value) or value < 0 or text.endswith("%") != is_share:
        raise WaferModelError(f"{where}: {text[:40]!r} cannot be here")
    return value

"""Read `compile_report.txt`, which the closed compiler writes for pipelined networks (format of R0.7 to R1.8).

A header of estimates, then a table of kernels that may run to megabytes and that nothing here needs. `--` means that the compiler
has no estimate.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from wafer_model.errors import WaferModelError
from wafer_model.foreign import number_of, text_of

RATES = ("Samples/s", "Compute Samples/s", "Transmission Samples/s")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileReport:
    """What the compiler estimates of the whole network."""

    path: str
    samples_per_s: float
    compute_samples_per_s: float | None = None
    transmission_samples_per_s: float | None = None

    @property
    def limited_by(self) -> str:
        """Return `compute` or `transmission`, whichever estimate is smaller."""
        compute, transmission = self.compute_samples_per_s, self.transmission_samples_per_s
        if compute is None or transmission is None:
            return "compute" if transmission is None else "transmission"
        return "transmission" if transmission < compute else "compute"


def read_compile_report(path: Path | str) -> CompileReport:
    """Return the report at `path`.

    Raises:
        WaferModelError: no such file, not such a report, no estimate in it, or one that is no number (names file and line).
    """
    file = Path(path)
    try:
        lines = text_of(file, is_cut=True).splitlines()
    except (OSError, ValueError) as error:
        raise WaferModelError(f"{file}: cannot be read as a compile report: {error}") from error
    found: dict[str, float | None] = {}
    for number, line in enumerate(lines, start=1):
        if line.lstrip().startswith(("+-", "|")):  # the table
            break
        title, colon, text = (part.strip() for part in line.partition(":"))
        if colon and title in RATES:
            found[title] = None if text in ("--", "") else number_of(text, f"{file}:{number}: {title}")
    if not found:
        raise WaferModelError(f"{file}: this is no compile report: no line such as 'Samples/s: 2321.9' before a table")
    rate, compute, transmission = (found.get(title) for title in RATES)
    if not rate:
        raise WaferModelError(f"{file}: the header gives no positive 'Samples/s', so nothing can be said about the consumption")
    return CompileReport(path=str(file), samples_per_s=rate, compute_samples_per_s=compute, transmission_samples_per_s=transmission)

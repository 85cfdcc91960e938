"""Read the two files that the closed software leaves behind: `compile_report.txt` and `performance.json`.

A compile report (R0.7 to R1.8, pipelined networks) is a header of estimates. Below it stands a table of kernels that may run to
megabytes and that nothing here needs. `--` means that the compiler has no estimate. `performance.json` has the keys of 1.x or of
2.x, and `ordinals` for several workers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as short
from typing import Any

from wafer_model.errors import WaferModelError
from wafer_model.foreign import number_of, text_of

ESTIMATES = ("Samples/s", "Compute Samples/s", "Transmission Samples/s")
MOST_BYTES = 1 << 22  # of performance.json; thousands of workers are a tenth of it
# The documentation writes the key without the suffix, the code that writes the file with it.
BOTTLENECK_KEYS = ("suspected_input_bottleneck", "suspected_input_bottleneck (beta)")
NOT_ASSESSED = ("not applicable", "n/a", "")
# By field of `Performance`; the average rate follows from several keys.
KEYS = {
    "compile_time_s": "compile_time",
    "estimated_samples_per_s": "est_samples_per_sec",
    "programming_time_s": "programming_time",
    "total_samples": "total_samples",
    "total_time_s": "total_time",
    "recent_samples_per_s": "rate",
}
KNOWN_KEYS = (*KEYS.values(), "samples_per_sec", "global_rate", "flops_utilization", "ordinals", *BOTTLENECK_KEYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileReport:
    """The compiler's estimates of the whole network."""

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
        if colon and title in ESTIMATES:
            found[title] = None if text in ("--", "") else number_of(text, f"{file}:{number}: {title}")
    if not found:
        raise WaferModelError(f"{file}: this is no compile report: no line such as 'Samples/s: 2321.9' before a table")
    rate, compute, transmission = (found.get(title) for title in ESTIMATES)
    if not rate:
        raise WaferModelError(f"{file}: the header gives no positive 'Samples/s', so nothing can be said about the consumption")
    return CompileReport(path=str(file), samples_per_s=rate, compute_samples_per_s=compute, transmission_samples_per_s=transmission)


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """The numbers of a finished run. Missing keys are None.

    Attributes:
        samples_per_s: the average of the whole run (1.x `samples_per_sec`, 2.x `global_rate`).
        recent_samples_per_s: the smoothed rate at the end (2.x `rate`).
        estimated_samples_per_s: the compiler's estimate.
        suspected_input_bottleneck: the assessment as written; None if there was none (`Not Applicable`).
        worker_samples_per_s: of each of the `ordinals`.
    """

    path: str
    total_samples: float | None = None
    total_time_s: float | None = None
    samples_per_s: float | None = None
    recent_samples_per_s: float | None = None
    estimated_samples_per_s: float | None = None
    compile_time_s: float | None = None
    programming_time_s: float | None = None
    suspected_input_bottleneck: str | None = None
    worker_samples_per_s: tuple[float | None, ...] = ()

    @property
    def is_input_bound(self) -> bool | None:
        """Return the suspicion of the run itself; None without one.

        The texts are not published: a denial starts like a suspicion.
        """
        if self.suspected_input_bottleneck is None:
            return None
        return self.suspected_input_bottleneck.lower().split()[0].strip(".,:;") not in ("false", "no", "none", "not", "0")


def read_performance_json(path: Path | str) -> Performance:
    """Return the file at `path`.

    Raises:
        WaferModelError: no such file, not JSON, or a value that cannot be (names file and key).
    """
    file = Path(path)
    try:
        document = json.loads(text_of(file, most_bytes=MOST_BYTES))
    except json.JSONDecodeError as error:
        raise WaferModelError(f"{file}:{error.lineno}: this is no JSON: {error.msg}") from error
    except (OSError, ValueError, RecursionError) as error:  # no UTF-8, a number of thousands of digits, nested without end
        raise WaferModelError(f"{file}: cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise WaferModelError(f"{file}: a performance.json holds one object, not a {type(document).__name__}")
    if document and not any(key in document for key in KNOWN_KEYS):
        raise WaferModelError(f"{file}: none of the keys of a performance.json: {', '.join(sorted(map(str, document))[:4])}")
    workers = document.get("ordinals")
    if workers is not None and not (isinstance(workers, list) and all(isinstance(each, dict) for each in workers)):
        raise WaferModelError(f"{file}: ordinals must be a list of objects")
    bottleneck = next((document[key] for key in BOTTLENECK_KEYS if document.get(key) is not None), "")
    if not isinstance(bottleneck, str | bool):
        raise WaferModelError(f"{file}: {BOTTLENECK_KEYS[0]} must be text, got {short(bottleneck)}")
    assessment = str(bottleneck).lower() if isinstance(bottleneck, bool) else bottleneck
    return Performance(
        path=str(file),
        samples_per_s=_average_rate(document, file),
        suspected_input_bottleneck=None if assessment.strip().lower() in NOT_ASSESSED else assessment,
        worker_samples_per_s=tuple(_average_rate(each, file) for each in workers or ()),
        **{field: _number(document, key, file) for field, key in KEYS.items()},
    )


def _number(document: dict[str, Any], key: str, file: Path) -> float | None:
    value = document.get(key)
    return None if value is None else number_of(value, f"{file}: {key}")


def _average_rate(document: dict[str, Any], file: Path) -> float | None:
    """Return the stated average, else samples over seconds."""
    keys = ("samples_per_sec", "global_rate", "total_samples", "total_time")
    stated, whole, samples, seconds = (_number(document, key, file) for key in keys)
    counted = samples / seconds if samples is not None and seconds else None
    return next((rate for rate in (stated, whole, counted) if rate is not None), None)

"""Reader of `performance.json`, which a run leaves behind: the 1.x keys, the `ordinals` of several workers, and the 2.x keys."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from wafer_model.errors import WaferModelError

# The documentation writes the key without the suffix, the code that writes the file with it.
BOTTLENECK_KEYS = ("suspected_input_bottleneck", "suspected_input_bottleneck (beta)")
NOT_ASSESSED = ("not applicable", "n/a", "")
KNOWN_KEYS = (
    "compile_time",
    "est_samples_per_sec",
    "programming_time",
    "samples_per_sec",
    "total_samples",
    "total_time",
    "rate",
    "global_rate",
    "flops_utilization",
    "ordinals",
    *BOTTLENECK_KEYS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPerformance:
    """One entry of `ordinals`."""

    total_samples: float | None
    total_time_s: float | None
    samples_per_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """What a run says about itself. Missing keys are None.

    Attributes:
        samples_per_s: the average of the whole run (1.x `samples_per_sec`, 2.x `global_rate`).
        recent_samples_per_s: the smoothed rate at the end (2.x `rate`).
        estimated_samples_per_s: what the compiler expected.
        suspected_input_bottleneck: the assessment as written; None where there was none (`Not Applicable`).
        flops_utilization_ratio: of the supported peak (2.x; a percentage in the file).
    """

    path: str
    total_samples: float | None
    total_time_s: float | None
    samples_per_s: float | None
    recent_samples_per_s: float | None
    estimated_samples_per_s: float | None
    compile_time_s: float | None
    programming_time_s: float | None
    flops_utilization_ratio: float | None
    suspected_input_bottleneck: str | None
    workers: tuple[WorkerPerformance, ...]

    @property
    def is_input_bound(self) -> bool | None:
        """The run's own suspicion; None where it made no assessment. (The texts are not published: a denial starts like one.)"""
        if self.suspected_input_bottleneck is None:
            return None
        return self.suspected_input_bottleneck.lower().split()[0].strip(".,:;") not in ("false", "no", "none", "not", "0")


def read_performance_json(path: Path | str) -> Performance:
    """The file at `path`.

    Raises:
        WaferModelError: no such file, not JSON, NaN or infinity in it, or a value of the wrong type (names file, and line or key).
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WaferModelError(f"{file}: cannot be read: {error}") from error
    document = _parse(text, file)
    if not isinstance(document, dict):
        raise WaferModelError(f"{file}:1: a performance.json holds one object, not a {type(document).__name__}")
    if document and not any(key in document for key in KNOWN_KEYS):
        raise WaferModelError(f"{file}:1: none of the keys of a performance.json: {', '.join(sorted(map(str, document))[:4])}")
    total = {key: _number(document, key, text, file) for key in KNOWN_KEYS if key not in (*BOTTLENECK_KEYS, "ordinals")}
    rate = _first(total["samples_per_sec"], total["global_rate"], _ratio(total["total_samples"], total["total_time"]))
    utilization = total["flops_utilization"]
    return Performance(
        path=str(file),
        total_samples=total["total_samples"],
        total_time_s=total["total_time"],
        samples_per_s=rate,
        recent_samples_per_s=total["rate"],
        estimated_samples_per_s=total["est_samples_per_sec"],
        compile_time_s=total["compile_time"],
        programming_time_s=total["programming_time"],
        flops_utilization_ratio=None if utilization is None else utilization / 100,
        suspected_input_bottleneck=_bottleneck(document, text, file),
        workers=_workers(document.get("ordinals"), text, file),
    )


def _parse(text: str, file: Path) -> Any:
    def refuse(constant: str) -> NoReturn:
        raise WaferModelError(f"{file}:{_line_of(text, constant)}: {constant} is no number that a run can have reached")

    try:
        return json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise WaferModelError(f"{file}:{error.lineno}: this is no JSON: {error.msg}") from error
    except ValueError as error:  # Python reads no number of thousands of digits
        raise WaferModelError(f"{file}:1: this is no JSON of a run: {error}") from error
    except RecursionError as error:
        raise WaferModelError(f"{file}:1: nested too deeply for a performance.json") from error


def _line_of(text: str, needle: str) -> int:
    """1-based line of the first `needle` outside of keys and strings; the first line where it is not found."""
    for number, line in enumerate(text.splitlines(), start=1):
        bare = "".join(part for index, part in enumerate(line.split('"')) if index % 2 == 0)
        if needle in bare:
            return number
    return 1


def _number(document: dict[str, Any], key: str, text: str, file: Path) -> float | None:
    value = document.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WaferModelError(f"{file}:{_line_of_key(text, key)}: {key} must be a number, got {value!r}")
    try:
        number = float(value)
    except OverflowError:  # digits without an end; 1e999 reads as infinity
        number = math.inf
    if not math.isfinite(number) or number < 0:
        raise WaferModelError(f"{file}:{_line_of_key(text, key)}: {key} cannot be {number}")
    return number


def _line_of_key(text: str, key: str) -> int:
    for number, line in enumerate(text.splitlines(), start=1):
        if f'"{key}"' in line:
            return number
    return 1


def _bottleneck(document: dict[str, Any], text: str, file: Path) -> str | None:
    for key in BOTTLENECK_KEYS:
        value = document.get(key)
        if value is None:
            continue
        if isinstance(value, bool):
            return str(value).lower()
        if not isinstance(value, str):
            raise WaferModelError(f"{file}:{_line_of_key(text, key)}: {key} must be text, got {value!r}")
        return None if value.strip().lower() in NOT_ASSESSED else value
    return None


def _workers(entries: object, text: str, file: Path) -> tuple[WorkerPerformance, ...]:
    if entries is None:
        return ()
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise WaferModelError(f"{file}:{_line_of_key(text, 'ordinals')}: ordinals must be a list of objects")
    return tuple(
        WorkerPerformance(
            total_samples=_number(entry, "total_samples", text, file),
            total_time_s=_number(entry, "total_time", text, file),
            samples_per_s=_number(entry, "samples_per_sec", text, file),
        )
        for entry in entries
    )


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _ratio(samples: float | None, seconds: float | None) -> float | None:
    return samples / seconds if samples is not None and seconds else None

"""Read `performance.json`, which a run leaves behind: the 1.x keys, the `ordinals` of several workers, and the 2.x keys."""

from __future__ import annotations

import json
import reprlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wafer_model.errors import WaferModelError
from wafer_model.foreign import number_of, text_of

# The documentation writes the key without the suffix, the code that writes the file with it.
BOTTLENECK_KEYS = ("suspected_input_bottleneck", "suspected_input_bottleneck (beta)")
MOST_BYTES = 1 << 22  # thousands of workers are a tenth of it
NOT_ASSESSED = ("not applicable", "n/a", "")
NUMBERS = ("compile_time", "est_samples_per_sec", "programming_time", "samples_per_sec", "total_samples", "total_time", "rate")
KNOWN_KEYS = (*NUMBERS, "global_rate", "flops_utilization", "ordinals", *BOTTLENECK_KEYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """What a run says about itself. Missing keys are None.

    Attributes:
        samples_per_s: the average of the whole run (1.x `samples_per_sec`, 2.x `global_rate`).
        recent_samples_per_s: the smoothed rate at the end (2.x `rate`).
        estimated_samples_per_s: what the compiler expected.
        suspected_input_bottleneck: the assessment as written; None where there was none (`Not Applicable`).
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
        """The run's own suspicion; None where it made no assessment. (The texts are not published: a denial starts like one.)"""
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
    numbers = {key: _number(document, key, file) for key in (*NUMBERS, "global_rate")}
    return Performance(
        path=str(file),
        total_samples=numbers["total_samples"],
        total_time_s=numbers["total_time"],
        samples_per_s=_rate(numbers),
        recent_samples_per_s=numbers["rate"],
        estimated_samples_per_s=numbers["est_samples_per_sec"],
        compile_time_s=numbers["compile_time"],
        programming_time_s=numbers["programming_time"],
        suspected_input_bottleneck=_bottleneck(document, file),
        worker_samples_per_s=_workers(document.get("ordinals"), file),
    )


def _number(document: dict[str, Any], key: str, file: Path) -> float | None:
    value = document.get(key)
    return None if value is None else number_of(value, f"{file}: {key}")


def _bottleneck(document: dict[str, Any], file: Path) -> str | None:
    value = next((document[key] for key in BOTTLENECK_KEYS if document.get(key) is not None), None)
    if isinstance(value, bool):
        return str(value).lower()
    if value is not None and not isinstance(value, str):
        raise WaferModelError(f"{file}: {BOTTLENECK_KEYS[0]} must be text, got {reprlib.repr(value)}")
    return None if value is None or value.strip().lower() in NOT_ASSESSED else value


def _workers(entries: object, file: Path) -> tuple[float | None, ...]:
    if entries is None:
        return ()
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise WaferModelError(f"{file}: ordinals must be a list of objects")
    return tuple(_rate({key: _number(entry, key, file) for key in NUMBERS}) for entry in entries)


def _rate(numbers: dict[str, float | None]) -> float | None:
    """The average as it is stated, else samples over seconds."""
    samples, seconds = numbers["total_samples"], numbers["total_time"]
    stated = (
        numbers["samples_per_sec"],
        numbers.get("global_rate"),
        samples / seconds if samples is not None and seconds else None,
    )
    return next((rate for rate in stated if rate is not None), None)

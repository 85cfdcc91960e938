"""The systems, as data: what one CS-1, CS-2, CS-3 or a user's own box can do, each number with where it comes from.

The numbers live in `systems.yaml` beside this file. A number nobody published is `null` there and `None` here; a number that was
worked out from others is marked `derived`, and `System.derived` lists those, so that a report can say so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from wafer_model.errors import WaferModelError
from wafer_model.foreign import text_of, yaml_of
from wafer_model.names import find_name

DTYPES = ("fp16", "cbfloat16", "fp32")
OWN_FILE = Path(__file__).with_name("systems.yaml")
FIELDS = (
    "cores",
    "usable_cores",
    "sram_bytes",
    "sram_bytes_per_s",
    "fabric_bytes_per_s",
    "io_bytes_per_s",
    "peak_flops_per_s_fp16",
    "peak_flops_per_s_cbfloat16",
    "peak_flops_per_s_fp32",
)
REQUIRED = ("cores", "usable_cores", "sram_bytes", "io_bytes_per_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One box. Rates are dense (no credit for skipped zeros); bandwidths are bytes/s in one direction.

    Attributes:
        cores: processing elements on the wafer; `usable_cores`: those a compiled network may occupy.
        peak_flops_per_s: by dtype; a dtype is missing where no peak is known.
        sources: field -> where its number comes from; `derived`: fields worked out rather than published.
    """

    name: str
    cores: int
    usable_cores: int
    sram_bytes: float
    io_bytes_per_s: float
    peak_flops_per_s: Mapping[str, float]
    sources: Mapping[str, str]
    derived: tuple[str, ...]

    def peak(self, dtype: str) -> float:
        """Dense FLOP/s of the whole wafer in `dtype`. Raises WaferModelError: no peak is known for it."""
        if dtype not in self.peak_flops_per_s:
            raise WaferModelError(f"no peak is known for {self.name} in {dtype}; give peak_flops_per_s_{dtype} in a system file")
        return self.peak_flops_per_s[dtype]


def load_systems(path: Path = OWN_FILE) -> dict[str, System]:
    """Systems by name, from a YAML file of the shape of `systems.yaml`. Raises WaferModelError, which names file and field."""
    try:
        document = yaml_of(text_of(path))
    except (OSError, ValueError) as error:
        raise WaferModelError(f"{path}: cannot be read as a system file: {error}") from error
    if not isinstance(document, dict) or not document:
        raise WaferModelError(f"{path}: a system file maps names to systems")
    return {str(name): _system(str(name), entry, path) for name, entry in document.items()}


@cache
def own_systems() -> Mapping[str, System]:
    """CS-1, CS-2 and CS-3."""
    return load_systems()


def find_system(name: str, more: Mapping[str, System] | None = None) -> System:
    """The system that `name` means (`cs2` is CS-2), among the user's `more` first. Raises WaferModelError: none, or several."""
    known = {**own_systems(), **(more or {})}
    return known[find_name(name, known, "system", otherwise=", or one of a YAML file of yours (`wafer --system-file`)")]


def _system(name: str, entry: object, path: Path) -> System:
    if not isinstance(entry, dict):
        raise WaferModelError(f"{path}: system {name!r} must be a mapping of fields")
    unknown = sorted(str(key) for key in entry if key not in FIELDS)
    if unknown:
        raise WaferModelError(f"{path}: system {name!r} has unknown field {unknown[0]!r}; known: {', '.join(FIELDS)}")
    found = {field: _number(entry.get(field), f"{path}: {name}.{field}") for field in FIELDS}
    values = {field: value for field, (value, _, _) in found.items() if value is not None}
    for field in REQUIRED:
        if field not in values:
            raise WaferModelError(f"{path}: {name}.{field} is missing and nothing can be said without it")
    if values["usable_cores"] > values["cores"]:
        raise WaferModelError(f"{path}: {name} has more usable cores than cores")
    peaks = {dtype: values[f"peak_flops_per_s_{dtype}"] for dtype in DTYPES if f"peak_flops_per_s_{dtype}" in values}
    return System(
        name=name,
        cores=int(values["cores"]),
        usable_cores=int(values["usable_cores"]),
        sram_bytes=values["sram_bytes"],
        io_bytes_per_s=values["io_bytes_per_s"],
        peak_flops_per_s=peaks,
        sources={field: found[field][1] for field in values},
        derived=tuple(field for field in values if found[field][2]),
    )


def _number(entry: Any, where: str) -> tuple[float | None, str, bool]:
    """(value, source, derived) of a bare number or of `{value, source, derived}`."""
    source, is_derived = "given by the user", False
    if isinstance(entry, dict):
        source, is_derived, entry = str(entry.get("source", source)), bool(entry.get("derived", False)), entry.get("value")
    if entry is None:
        return None, source, is_derived
    if isinstance(entry, str):  # YAML 1.1 reads 7.5e15 as text
        try:
            entry = float(entry)
        except ValueError:
            raise WaferModelError(f"{where} is {entry!r}, not a number") from None
    if isinstance(entry, bool) or not isinstance(entry, int | float) or not math.isfinite(entry) or entry <= 0:
        raise WaferModelError(f"{where} must be a positive number, got {entry!r}")
    return float(entry), source, is_derived

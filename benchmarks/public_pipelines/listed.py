"""The public pipelines that are tried, as `listed.yaml` names them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

LIST = Path(__file__).with_name("listed.yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One public input function; `listed.yaml` says what each field is."""

    name: str
    repository: str
    commit: str
    file: str
    function: str
    kind: str
    samples: tuple[str | int, ...]
    axes: tuple[int, ...] = (0,)
    stand_ins: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    from_package: str | None = None
    script: bool = False
    own_folder: str | None = None


def _read() -> tuple[Listed, ...]:
    content: dict[str, list[dict[str, Any]]] = yaml.safe_load(LIST.read_text(encoding="utf-8"))
    entries = [*content["listed"], *content["drawn"]]
    return tuple(Listed(**{name: tuple(of) if isinstance(of, list) else of for name, of in entry.items()}) for entry in entries)


LISTED = _read()

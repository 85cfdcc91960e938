"""The public runs of `published.yaml`: the model was fitted on some, is measured against these, and must leave the others alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

OWN_FILE = Path(__file__).with_name("published.yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRun:
    """One public run. `bound`: what held it back, see published.yaml."""

    id: str
    network: str
    system: str
    mode: str
    release: str
    batch_size: int
    samples_per_s: float
    bound: str
    source: str
    systems: int = 1
    sequence_length: int | None = None


@cache
def published_runs() -> tuple[PublishedRun, ...]:
    """Return all rows, in the order of the file."""
    import yaml

    return tuple(PublishedRun(**row) for row in yaml.safe_load(OWN_FILE.read_text(encoding="utf-8"))["rows"])

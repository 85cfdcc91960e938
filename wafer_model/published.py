"""The public runs of `published.yaml`: what the model is fitted on and measured against, and what it must leave alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from wafer_model.catalogue import build_network
from wafer_model.network import Network

OWN_FILE = Path(__file__).with_name("published.yaml")
FITTED_BOUNDS = ("compute", "estimate")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRun:
    """One public run. `bound`: what held it back, see published.yaml. `group`: what is left out of a fit together."""

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
    micro_batch_size: int | None = None

    @property
    def group(self) -> tuple[str, str, str]:
        return (self.network, self.system, self.mode)

    @property
    def is_fitted(self) -> bool:
        return self.bound in FITTED_BOUNDS

    def build(self) -> Network:
        return _build(self.network, self.sequence_length)


@cache
def _build(name: str, sequence_length: int | None) -> Network:
    """Fits predict the same few networks hundreds of times."""
    return build_network(name, sequence_length=sequence_length)


@cache
def published_runs() -> tuple[PublishedRun, ...]:
    """All rows, in the order of the file."""
    import yaml

    return tuple(PublishedRun(**row) for row in yaml.safe_load(OWN_FILE.read_text(encoding="utf-8"))["rows"])

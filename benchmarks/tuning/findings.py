"""Planted faults and clean samples through `analyze`: which rules fire where, and how many warnings a user sees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cs_input_analyzer as csia
import sample_pipelines
from benchmarks.tuning.pipelines import params_of
from sample_pipelines import pathologies

# One big node and a demand of several workers: rules about many workers have something to look at, and every path is visible.
NODE = csia.Cluster(nodes=1, cpus_per_node=32, memory_bytes_per_node=128 * 2**30, source="declared")
WORKERS_ASKED_FOR = 3
CPUS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The findings of one pipeline. `planted`: the code that it must raise; None for a clean one.

    `codes` are of rules that have a plant: others (a busy host, a cold cache) tell of this host and not of the pipeline.
    """

    name: str
    planted: str | None
    codes: tuple[str, ...]
    others: tuple[str, ...]
    warnings: int

    @property
    def is_right(self) -> bool:
        return self.planted in self.codes if self.planted else not self.codes


def pipelines(only: str) -> Iterator[tuple[str, str, str | None]]:
    """Name, target and planted code of every pathology and every clean sample whose name holds `only`."""
    for name, plant in pathologies.PATHOLOGIES.items():
        if only in name:
            yield name, pathologies.target_of(name), plant.raises
    for sample in sample_pipelines.SAMPLES:
        if only in sample.name:
            yield sample.name, sample.target, None


def found_in(name: str, target: str, planted: str | None, max_seconds: float) -> Found:
    """Write the data and analyze twice: how fast one worker is tells the demand of several."""
    with params_of(name) as params:
        analysis = csia.analyze(
            target,
            params,
            demand=WORKERS_ASKED_FOR * _rate_of_one(target, params, max_seconds),
            cluster=NODE,
            max_seconds=max_seconds,
            cpus=CPUS,
            measure_fixes=False,
        )
    judged = {plant.raises for plant in pathologies.PATHOLOGIES.values()}
    raised = sorted({finding.code for finding in analysis.findings})
    return Found(
        name=name,
        planted=planted,
        codes=tuple(code for code in raised if code in judged),
        others=tuple(code for code in raised if code not in judged),
        warnings=sum(finding.severity != "info" for finding in analysis.findings),
    )


def _rate_of_one(target: str, params: Mapping[str, Any], max_seconds: float) -> float:
    """Samples/s of a worker on one CPU, about."""
    analysis = csia.analyze(
        target,
        params,
        cluster=NODE,
        probe_layouts=("1x1x1",),
        max_seconds=max_seconds,
        target_error_ratio=0.5,
        cpus=1,
        measure_fixes=False,
    )
    (rate,) = [measurement.samples_per_s for measurement in analysis.measurements[:1] if measurement.samples_per_s]
    return rate.estimate


def precision_and_recall(found: Sequence[Found]) -> dict[str, float | int | None]:
    """Return precision and recall over all pipelines.

    Precision counts the rules that fired on their own plants and on clean samples; recall counts the plants that were
    found.
    """
    planted = [item for item in found if item.planted]
    hits = sum(item.is_right for item in planted)
    false_alarms = sum(len(item.codes) for item in found if not item.planted)
    return {
        "plants": len(planted),
        "found": hits,
        "false_alarms": false_alarms,
        "precision": hits / (hits + false_alarms) if hits + false_alarms else None,
        "recall": hits / len(planted) if planted else None,
        "most_warnings_on_a_plant": max((item.warnings for item in planted), default=0),
        "most_warnings_on_a_clean_one": max((item.warnings for item in found if not item.planted), default=0),
    }

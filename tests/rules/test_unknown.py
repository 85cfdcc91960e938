"""What is not known is not yes: of a case without measurements no rule claims a measured number, and evidence is never all null."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

import pytest

from cs_input_analyzer import rules
from cs_input_analyzer.model.amounts import files_are_samples
from cs_input_analyzer.records import Case, Finding, Measurement, OpCost, Profile, WorkerResult
from tests.builders import make_profile
from tests.rules import (
    test_cache_rules,
    test_element_rules,
    test_file_rules,
    test_map_rules,
    test_order_rules,
    test_reader_rules,
    test_run_rules,
    test_shuffle_rules,
)

# What only a measurement can say: a share, a rate, a time.
MEASURED_NUMBER = re.compile(r"\d\s?%|samples/s|\d\s?(?:ns|µs|us|ms|s|min|h)\b|\bholds? the worker back")
MEASURED_EVIDENCE = re.compile(
    r"share|busy|wasted|dropped|ceiling|gap|refill|fill_s|seconds|first_batch|wait|latency|samples_of_a_worker"
)
# They speak of how a launch went, of this host, or of a plan, and not of what the pipeline was measured to do.
OF_THE_RUN = {"CSI501", "CSI502", "CSI506"}
TABLES = (
    *(test_cache_rules, test_element_rules, test_file_rules, test_map_rules),
    *(test_order_rules, test_reader_rules, test_run_rules, test_shuffle_rules),
)
ROWS: dict[str, list[Case]] = {rule: [case for _, case in rows] for module in TABLES for rule, rows in module.ROWS.items()}
# Pipelines of all rules, without the plans that fit only them.
OTHERS = [replace(case, plan=None) for cases in ROWS.values() for case in cases]
# Fields of a worker that are no measurements.
KEPT = ("index", "node", "status", "message", "file_count", "writes")


def _unknown_worker(worker: WorkerResult) -> WorkerResult:
    return WorkerResult(**{name: getattr(worker, name) for name in KEPT})


def _unknown_launch(launch: Measurement) -> Measurement:
    workers = tuple(map(_unknown_worker, launch.workers))
    unknown: dict[str, Any] = dict.fromkeys(("samples_per_s", "shared_bytes", "page_cache_ratio", "noise", "steady_state"))
    return replace(launch, workers=workers, **unknown)


def _unknown_rows(case: Case, **known: Any) -> Profile:
    """A table of costs of which nothing is known; `known` are the same fields of each row."""
    unknown: dict[str, Any] = {field.name: None for field in fields(OpCost)} | known
    rows = (OpCost(**(unknown | {"name": op.name, "kind": op.kind})) for op in case.pipeline.ops)
    return make_profile(ops=tuple(rows), cpu_s_per_sample=None)


def unmeasured(case: Case) -> Case:
    """Nothing was measured, and no plan was made of it."""
    launches = tuple(map(_unknown_launch, case.measurements))
    unknown: dict[str, Any] = dict.fromkeys(("profile", "storage", "capacity", "demand_samples_per_s"))
    return replace(case, measurements=launches, stations=(), **unknown)


STRIPPED: Mapping[str, Callable[[Case], Case]] = {
    "nothing": unmeasured,
    "no launch": lambda case: replace(unmeasured(case), measurements=()),
    "rows without numbers": lambda case: replace(unmeasured(case), profile=_unknown_rows(case)),
    "all unattributed": lambda case: replace(unmeasured(case), profile=_unknown_rows(case, merged_into="unattributed")),
}


def speaks_of_a_measurement(finding: Finding, case: Case) -> bool:
    known = {name for name, value in finding.evidence.items() if value is not None}
    if files_are_samples(case.pipeline.ops):  # which are counted
        known.discard("samples_of_a_worker")
    return bool(MEASURED_NUMBER.search(finding.message)) or any(map(MEASURED_EVIDENCE.search, known))


@pytest.mark.parametrize("strip", STRIPPED.values(), ids=STRIPPED)
@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.name)
def test_no_rule_claims_what_was_not_measured(rule: rules.Rule, strip: Callable[[Case], Case]) -> None:
    for case in ROWS[rule.name] + OTHERS:
        for finding in rules.findings_of(rule, strip(case)):
            assert rule.code in OF_THE_RUN or not speaks_of_a_measurement(finding, case), finding
            assert any(value is not None for value in finding.evidence.values()), finding


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.name)
def test_evidence_is_never_all_null(rule: rules.Rule) -> None:
    for case in ROWS[rule.name] + OTHERS:
        for finding in rules.findings_of(rule, case):
            assert any(value is not None for value in finding.evidence.values()), finding


def test_every_rule_has_its_rows() -> None:
    assert set(ROWS) == {rule.name for rule in rules.RULES}

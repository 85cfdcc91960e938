"""Findings: each rule is one small file, its docstring the user's documentation. Pure: a Case in, findings out.

RULES is written out, in order of code; a test checks it against the folder.
"""

from __future__ import annotations

from cs_input_analyzer.records import Case, Finding
from cs_input_analyzer.rules import (
    corrupt_record,
    dataset_exceeds_memory,
    fewer_files_than_workers,
    file_cache_redirected,
    short_dataset,
    worker_lost,
)

RULES = (file_cache_redirected, fewer_files_than_workers, short_dataset, corrupt_record, worker_lost, dataset_exceeds_memory)
_ORDER = {"error": 0, "warning": 1, "info": 2}


def find(case: Case) -> tuple[Finding, ...]:
    """All findings of all rules, errors first, then by code."""
    found = [finding for rule in RULES for finding in rule.find(case)]
    return tuple(sorted(found, key=lambda finding: (_ORDER[finding.severity], finding.code)))

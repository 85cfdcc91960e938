"""Findings that only one of two runs has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from cs_input_analyzer.records import Finding, FindingChange

__all__ = ["finding_changes"]


def finding_changes(old: Sequence[Finding], new: Sequence[Finding]) -> tuple[FindingChange, ...]:
    """By code and op, whatever their numbers say; of several alike, as many as are more. New ones first."""
    appeared = (FindingChange(change="new", finding=finding) for finding in _beyond(old, new))
    vanished = (FindingChange(change="gone", finding=finding) for finding in _beyond(new, old))
    return (*appeared, *vanished)


def _beyond(known: Sequence[Finding], others: Sequence[Finding]) -> list[Finding]:
    left = Counter((finding.code, finding.op) for finding in known)
    found = []
    for finding in others:
        left[finding.code, finding.op] -= 1
        if left[finding.code, finding.op] < 0:
            found.append(finding)
    return found

"""What two runs differ in, part by part, and what of it is more than noise: the arithmetic behind `compare`. Pure.

`launches` finds what belongs together, `spread` is the law of what differs by chance, `disturbance` what a busy host adds to it;
`rates`, `costs`, `advice` and `circumstances` apply that to what a run holds.
"""

from __future__ import annotations

from cs_input_analyzer.studies.changes.advice import finding_changes
from cs_input_analyzer.studies.changes.circumstances import counted_otherwise, doubts
from cs_input_analyzer.studies.changes.costs import memory_changes, op_changes
from cs_input_analyzer.studies.changes.launches import Pair, launches_in_words, not_compared, pairs_of
from cs_input_analyzer.studies.changes.rates import rate_changes

__all__ = [
    "Pair",
    "counted_otherwise",
    "doubts",
    "finding_changes",
    "launches_in_words",
    "memory_changes",
    "not_compared",
    "op_changes",
    "pairs_of",
    "rate_changes",
]

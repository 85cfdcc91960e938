"""The measuring side of one analysis: which launches ran, what the seconds went to, what did not fit the budget.

`probing` runs launches (`launches` says what one is for) within the time that `seconds` grants; `results` keeps what they gave and
answers for it; `failures` makes the error where no launch gave a rate.
"""

from __future__ import annotations

from cs_input_analyzer.studies.probing.failures import failure_of
from cs_input_analyzer.studies.probing.launches import scaling_nodes, shard_indices
from cs_input_analyzer.studies.probing.probing import MOST_NEXT_PROBES, Probing
from cs_input_analyzer.studies.probing.results import Results
from cs_input_analyzer.studies.probing.seconds import (
    LAUNCH_OVERHEAD_S,
    LEAST_BATCHES,
    LEAST_FIXES_S,
    Seconds,
    check_round,
    shortest_round_s,
)

__all__ = [
    "LAUNCH_OVERHEAD_S",
    "LEAST_BATCHES",
    "LEAST_FIXES_S",
    "MOST_NEXT_PROBES",
    "Probing",
    "Results",
    "Seconds",
    "check_round",
    "failure_of",
    "scaling_nodes",
    "shard_indices",
    "shortest_round_s",
]

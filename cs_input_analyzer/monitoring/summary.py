"""What a monitor says of its run: the summary that users read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cs_input_analyzer.monitoring.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One monitored run so far.

    Attributes:
        samples: handed to the training; None where they cannot be counted.
        rate_per_s, global_per_s: Rate and GlobalRate, samples per second; None until seen.
        advice: which launch would help; empty without a saved analysis, or where nothing is wrong.
        phases_s: seconds by phase.
    """

    steps: int
    samples: float | None
    rate_per_s: float | None
    global_per_s: float | None
    verdict: Verdict
    advice: str
    phases_s: Mapping[str, float]

    def __str__(self) -> str:
        return verdict_text(self.verdict, self.advice)


def verdict_text(verdict: Verdict, advice: str) -> str:
    """The verdict in one line, and the advice where there is any."""
    return "\n".join(part for part in (f"{verdict.name.replace('_', '-')}: {verdict.why}", advice) if part)

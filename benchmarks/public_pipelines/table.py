"""The results of one public pipeline, and the table of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

COLUMNS = ("pipeline", "samples of an element", "largest row", "lines", "findings", "changes run")


@dataclass(slots=True, kw_only=True)
class Judgement:
    """The result of one pipeline; `problem`: why there is none; `largest`: the op with most CPU, and its share."""

    name: str
    repository: str
    commit: str
    function: str
    problem: str = ""
    sizes: list[int] = field(default_factory=list)
    samples: str = ""
    largest: str = ""
    lines: int = 0
    lines_wrong: list[str] = field(default_factory=list)
    findings: dict[str, str] = field(default_factory=dict)
    false_findings: list[str] = field(default_factory=list)
    unjudged: list[str] = field(default_factory=list)
    diffs: int = 0
    diffs_broken: list[str] = field(default_factory=list)
    seconds: float = 0.0


def cells(found: Judgement) -> tuple[str, ...]:
    """Return one line of the table; what could not be measured says so."""
    named = f"{found.repository}, {found.commit[:12]}, `{found.function}`"
    if found.problem:
        return (named, found.samples, found.problem[:160], *[""] * (len(COLUMNS) - 3))
    false, unjudged = len(found.false_findings), len(found.unjudged)
    return (
        named,
        found.samples,
        found.largest,
        f"{found.lines - len(found.lines_wrong)} of {found.lines}",
        f"{len(found.findings)}, {false} false" + (f", {unjudged} not judged" if unjudged else ""),
        f"{found.diffs - len(found.diffs_broken)} of {found.diffs}",
    )


def show_all(every: Sequence[Judgement]) -> None:
    """Print the table as it stands in docs/measurements.md, and what is behind each row."""
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for found in every:
        print(f"| {' | '.join(cells(found))} |")
    for found in every:
        print(f"\n{found.name} ({found.seconds:.0f} s)")
        details = [
            ("no", [found.problem]),
            ("samples", [found.samples]),
            ("wrong line", found.lines_wrong),
            ("finding", [f"{name}: {message}" for name, message in found.findings.items()]),
            ("false", found.false_findings),
            ("not judged", found.unjudged),
            ("broken diff", found.diffs_broken),
        ]
        for label, texts in details:
            for text in filter(None, texts):
                print(f"  {label}: {text}")

"""The results of one public pipeline, and the table of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.public_pipelines import judging

COLUMNS = (
    "pipeline",
    "samples of an element",
    "samples/s over bare loop",
    "CPU at ops",
    "CPU at the right ops",
    "largest row",
    "lines",
    "findings",
    "changes run",
    "gains",
)


@dataclass(slots=True, kw_only=True)
class Judgement:
    """The result of one pipeline. `problem`: why there is none; `steps_failed`: single steps without a result, and why."""

    name: str
    repository: str
    commit: str
    function: str
    problem: str = ""
    samples: str = ""
    pairs: dict[str, list[float]] = field(default_factory=dict)
    rate: judging.Ratio | None = None
    cpu: judging.Ratio | None = None
    dearest: tuple[str, ...] = ()
    rows: dict[str, float] = field(default_factory=dict)
    savings: dict[str, list[float]] = field(default_factory=dict)
    without_row: list[str] = field(default_factory=list)
    lines: int = 0
    lines_wrong: list[str] = field(default_factory=list)
    findings: dict[str, str] = field(default_factory=dict)
    false_findings: list[str] = field(default_factory=list)
    unjudged: list[str] = field(default_factory=list)
    diffs: int = 0
    diffs_broken: list[str] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)
    again: dict[str, judging.Ratio] = field(default_factory=dict)
    gains_gone: list[str] = field(default_factory=list)
    steps_failed: dict[str, str] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)
    attributed: float | None = None
    right: float | None = None
    whole: list[float] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def is_dearest_right(self) -> bool:
        """Return whether the largest row is that of an op whose replacement saves the most."""
        return bool(self.rows) and bool(self.dearest) and max(self.rows, key=lambda name: self.rows[name]) in self.dearest


def cells(found: Judgement) -> tuple[str, ...]:
    """Return one line of the table; what could not be measured says so."""
    named = f"{found.repository}, {found.commit[:12]}, `{found.function}`"
    if found.problem:
        return (named, found.samples, found.problem[:160], *[""] * (len(COLUMNS) - 3))
    largest = max(found.rows, key=lambda name: found.rows[name], default="none")
    dearest = "as by replacing" if found.is_dearest_right else f"{found.dearest[0]} by replacing" if found.dearest else "not known"
    false, unjudged = len(found.false_findings), len(found.unjudged)
    return (
        named,
        found.samples,
        f"{_said(found.rate)} {judging.verdict(found.rate)}" if found.rate else "not measured",
        *(f"{ratio * 100:.0f} %" if ratio is not None else "not measured" for ratio in (found.attributed, found.right)),
        f"{largest}, {dearest}" + (f"; no row: {', '.join(found.without_row)}" if found.without_row else ""),
        f"{found.lines - len(found.lines_wrong)} of {found.lines}",
        f"{len(found.findings)}, {false} false" + (f", {unjudged} not judged" if unjudged else ""),
        f"{found.diffs - len(found.diffs_broken)} of {found.diffs}",
        f"{len(found.gains_gone)} of {len(found.again)} gone" if found.again else "none measured again",
    )


def show_all(every: Sequence[Judgement]) -> None:
    """Print the table as it stands in docs/measurements.md, and what is behind each row."""
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for found in every:
        print(f"| {' | '.join(cells(found))} |")
    for found in every:
        print(f"\n{found.name} ({found.seconds:.0f} s)")
        details = [
            ("no", [found.problem] if found.problem else []),
            ("samples", [found.samples]),
            ("CPU of a sample / bare", [_said(found.cpu)]),
            ("dearest by replacing", [", ".join(found.dearest)]),
            ("true shares", [_shared(found)]),
            ("rows", [", ".join(f"{name} {cost * 1e6:.1f} us" for name, cost in found.rows.items())]),
            ("without a row", [", ".join(found.without_row)] if found.without_row else []),
            ("wrong line", found.lines_wrong),
            ("finding", [f"{name}: {message}" for name, message in found.findings.items()]),
            ("false", found.false_findings),
            ("broken diff", found.diffs_broken),
            ("kept", [f"{name}: {gain}, again {_said(found.again.get(name))}" for name, gain in found.kept.items()]),
            ("step failed", [f"{step}: {why}" for step, why in found.steps_failed.items()]),
        ]
        for label, texts in details:
            for text in filter(None, texts):
                print(f"  {label}: {text}")


def _shared(found: Judgement) -> str:
    true_shares = judging.shares(found.savings, found.whole)
    return ", ".join(f"{op} {share * 100:.1f} %" for op, share in true_shares.items() if share >= 0.005)


def _said(ratio: judging.Ratio | None) -> str:
    return f"{ratio.ratio:.2f} ({ratio.low:.2f} to {ratio.high:.2f})" if ratio else "not measured"

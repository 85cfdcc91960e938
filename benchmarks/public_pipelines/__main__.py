"""Is the analyzer right on public input functions by other authors? Samples counted, dearest op, lines, findings, fixes.

For each pipeline of `listed.py`, `analyze` is run as a user would, on synthetic data. Its numbers are held against those that
`truth.py` measures without the analyzer's counting, costs and gains. What cannot be run is a row that says why. Findings are judged
by hand, in `judged.json`.

With `--drawn`, the pipelines of `drawn.py` are judged with less effort, and what `--json` holds already is not measured again.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import platformdirs

from benchmarks.paired import save
from benchmarks.public_pipelines import judging
from benchmarks.public_pipelines.drawn import DRAWN
from benchmarks.public_pipelines.listed import LISTED, Listed
from benchmarks.public_pipelines.table import Judgement, cells, show_all
from benchmarks.public_pipelines.trying import FailedError, Place, Step, analyzed, measured, place_for
from cs_input_analyzer.api import Analysis
from cs_input_analyzer.records import Finding
from cs_input_analyzer.tfdata.source.patch import make_patch

JUDGED = Path(__file__).with_name("judged.json")
SIZES, PAIR_S, SAVING_S = 40, 1.5, 0.25
AGAIN_ROUNDS, AGAIN_S = 10, 1.0
# An op that ends its pass is replaced by a whole pass of elements, however long that takes to read.
READY_OF_A_PASS_S = 20.0
ByHand = Mapping[str, tuple[bool, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """Seconds and rounds for each pipeline of a list.

    Attributes:
        analyze_s: for `analyze`, which may need `patience_s` beyond that; `truth_s`: for a process that measures the truth.
        pairs: of the rate beside a bare loop. Without any, changes and fixes are not tried again either.
        savings_s: for the savings, of `rounds` rounds, `least` at least; `ready_s`: to read the elements that replace an op.
    """

    analyze_s: float
    patience_s: float
    truth_s: float
    pairs: int
    rounds: int
    least: int
    savings_s: float
    ready_s: float


OF_LISTED = Effort(analyze_s=60, patience_s=120, truth_s=600, pairs=10, rounds=7, least=5, savings_s=30, ready_s=2.0)
# Ten of them take less than 25 minutes.
OF_DRAWN = Effort(analyze_s=40, patience_s=50, truth_s=100, pairs=0, rounds=5, least=3, savings_s=20, ready_s=0.3)


# --- one pipeline ----------------------------------------------------------------------------------------------------------------


def judgement_of(listed: Listed, repositories: Path, folder: Path, hand: ByHand, runs: Path | None, effort: Effort) -> Judgement:
    """Return what comes of one pipeline; a failure is its problem."""
    began_s = time.monotonic()
    found = Judgement(name=listed.name, repository=listed.repository, commit=listed.commit, function=listed.function)
    try:
        place = place_for(listed, repositories, folder)
        _judge_truth(found, place, _true_steps(listed, effort), effort.truth_s)
        analysis = _analyzed_or_asked(found, place, effort)
    except FailedError as error:
        found.problem = str(error)
    else:
        if runs is not None:
            runs.mkdir(parents=True, exist_ok=True)
            analysis.to_json(runs / f"{listed.name}.json")
        _judge_samples(found, analysis)
        _judge_rows(found, analysis)
        _judge_findings(found, analysis.findings, hand)
        changes = [*_diffs(found, analysis.findings), *_fixes(found, analysis)] if effort.pairs else []
        if changes:
            _judge_truth(found, place, changes, effort.truth_s)
    found.seconds = time.monotonic() - began_s
    return found


def _true_steps(listed: Listed, effort: Effort) -> list[Step]:
    ready_s = READY_OF_A_PASS_S if listed.pass_elements == 0 else effort.ready_s
    saving = {"rounds": effort.rounds, "seconds": SAVING_S, "budget_s": effort.savings_s, "least": effort.least, "ready_s": ready_s}
    steps: list[Step] = [("sizes", "sizes", {"elements": SIZES}), ("savings", "savings", saving)]
    return [*steps, ("rate", "rates", {"pairs": effort.pairs, "seconds": PAIR_S})] if effort.pairs else steps


def _analyzed_or_asked(found: Judgement, place: Place, effort: Effort) -> Analysis:
    """Return what `analyze` finds; if it asks how many samples an element holds, tell it the true number."""
    try:
        return analyzed(place, effort.analyze_s, effort.patience_s)
    except FailedError as error:
        if "--samples-per-element" not in str(error) or not found.sizes:
            raise
        found.samples = f"asked for: {max(found.sizes)}"
        return analyzed(place, effort.analyze_s, effort.patience_s, ("--samples-per-element", str(max(found.sizes))))


def _judge_samples(found: Judgement, analysis: Analysis) -> None:
    said = analysis.pipeline.samples_per_element
    if not found.samples and said is not None:
        found.samples = judging.samples_verdict(said.value, said.counted_in is not None, found.sizes)


def _judge_truth(found: Judgement, place: Place, steps: Sequence[Step], seconds: float) -> None:
    """Measure what the analyzer's numbers are held against; a step that gave nothing is a text that says why."""
    everything = measured(place, steps, seconds)
    found.steps_failed |= {label: of_step for label, of_step in everything.items() if isinstance(of_step, str)}
    said = {label: of_step for label, of_step in everything.items() if not isinstance(of_step, str)}
    if rate := said.get("rate"):
        found.pairs = {name: rate[name] for name in ("reported", "bare", "reported_cpu_s", "bare_cpu_s")}
        found.rate = judging.ratio_of_medians(rate["reported"], rate["bare"])
        found.cpu = judging.ratio_of_medians(rate["reported_cpu_s"], rate["bare_cpu_s"])
    if sizes := said.get("sizes"):
        found.sizes = sizes["samples"]
    if savings := said.get("savings"):
        found.savings, found.whole = savings["savings"], savings["whole"]
        found.dearest = judging.dearest(savings["savings"])
        found.steps_failed |= {f"replacing {name}": why for name, why in savings["refused"].items()}
    if again := said.get("fixes"):
        found.again = {
            name: judging.ratio_of_medians(rates, again["rates"]["original"])
            for name, rates in again["rates"].items()
            if name != "original"
        }
        found.gains_gone = judging.gains_gone(found.again)
        found.steps_failed |= {f"again {name}": why for name, why in again["refused"].items()}
    for label in list(found.steps_failed):
        if label.startswith("diff "):
            found.diffs_broken.append(f"{label.removeprefix('diff ')}: {found.steps_failed.pop(label)}")


def _judge_rows(found: Judgement, analysis: Analysis) -> None:
    if analysis.profile is None:
        found.steps_failed["rows"] = "the run has no cost table"
        return
    rows, ops = analysis.profile.ops, analysis.pipeline.ops
    found.rows = judging.folded(rows, ops)
    found.without_row = [op.name for op in ops if op.kind != "Options" and op.name not in {row.name for row in rows}]
    found.lines = len(ops)
    texts = {path: _lines(path) for path in {place.rpartition(":")[0] for op in ops for place in judging.places_of(op)}}
    found.lines_wrong = judging.wrong_lines(ops, texts)
    costs, true_shares = judging.groups(rows, ops), judging.shares(found.savings, found.whole)
    found.attributed = judging.attributed_ratio(costs)
    found.right = judging.right_ratio(costs, true_shares) if true_shares else None
    if found.savings and not true_shares:
        found.steps_failed["shares"] = "what the replaced ops save adds up to far more than the whole"


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []


def _judge_findings(found: Judgement, findings: Sequence[Finding], hand: ByHand) -> None:
    found.findings = {judging.finding_name(finding): finding.message for finding in findings}
    _, found.false_findings, found.unjudged = judging.judged(list(found.findings), hand)


def _diffs(found: Judgement, findings: Sequence[Finding]) -> list[Step]:
    """Return the steps that try each shown change of the source; those that fit nowhere are broken already."""
    steps: list[Step] = []
    for finding in findings:
        if finding.after is None or finding.source is None:
            continue
        path, name = finding.source.rpartition(":")[0], judging.finding_name(finding)
        found.diffs += 1
        patch = make_patch([finding], {path: "\n".join(_lines(path)) + "\n"})
        if patch.files:
            steps.append((f"diff {name}", "runs", {"texts": {file.path: file.after for file in patch.files}}))
        else:
            found.diffs_broken.append(f"{name}: it fits nowhere: {patch.by_hand[0][1] if patch.by_hand else finding.after}")
    return steps


def _fixes(found: Judgement, analysis: Analysis) -> list[Step]:
    """Return the step that measures the kept fixes again: each, and all of them together."""
    if analysis.fixes is None or not analysis.fixes.codes:
        return []
    kept = {
        judging.finding_name(finding): finding
        for finding in analysis.findings
        if finding.proven and finding.edits and set(finding.edits) <= set(analysis.fixes.edits)
    }
    fixes = {name: [asdict(edit) for edit in finding.edits] for name, finding in kept.items()}
    gains = {name: finding.measured_gain for name, finding in kept.items()}
    if len(fixes) > 1:
        fixes["together"], gains["together"] = [asdict(edit) for edit in analysis.fixes.edits], analysis.fixes.measured_gain
    found.kept = {name: f"{gain.estimate:.2f}" if (gain := gains[name]) else "not measured" for name in fixes}
    return [("fixes", "again", {"fixes": fixes, "rounds": AGAIN_ROUNDS, "seconds": AGAIN_S})]


# --- all of them -----------------------------------------------------------------------------------------------------------------


def main() -> None:
    """Judge the pipelines of a list, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.public_pipelines", description=__doc__)
    parser.add_argument("--repositories", required=True, metavar="FOLDER", help="clones from GitHub, each named owner+name")
    parser.add_argument("--only", default="", metavar="NAME,NAME", help="of those of the list")
    parser.add_argument("--drawn", action="store_true", help="the list of drawn.py; resumes what --json holds")
    parser.add_argument("--runs", metavar="FOLDER", help="keep each run of the analyzer there")
    parser.add_argument("--json", metavar="FILE")
    chosen = parser.parse_args()
    listing, effort = (DRAWN, OF_DRAWN) if chosen.drawn else (LISTED, OF_LISTED)
    names = {one.name for one in listing}
    asked = [name for name in chosen.only.split(",") if name]
    if unknown := sorted(set(asked) - names):
        parser.error(f"--only: there is no {', '.join(unknown)}; there are {', '.join(sorted(names))}")
    by_hand: dict[str, dict[str, Any]] = json.loads(JUDGED.read_text(encoding="utf-8"))
    every = _resumed(chosen.json, names) if chosen.drawn else {}
    # Not in the temporary folder: that is a finding of its own.
    home = Path(platformdirs.user_cache_dir("cs_input_analyzer"))
    home.mkdir(parents=True, exist_ok=True)
    runs = Path(chosen.runs) if chosen.runs else None
    for listed in listing:
        hand = {name: (bool(value["true"]), str(value["why"])) for name, value in by_hand.get(listed.name, {}).items()}
        if (known := every.get(listed.name)) is not None:
            _, known.false_findings, known.unjudged = judging.judged(list(known.findings), hand)
        elif not asked or listed.name in asked:
            with tempfile.TemporaryDirectory(prefix="public_", dir=home) as folder:
                every[listed.name] = judgement_of(listed, Path(chosen.repositories), Path(folder), hand, runs, effort)
            print("; ".join(cells(every[listed.name])), file=sys.stderr, flush=True)
            save(chosen.json, {name: asdict(found) for name, found in every.items()})  # what is there when the rest is stopped
    show_all(list(every.values()))


def _resumed(file: str | None, names: set[str]) -> dict[str, Judgement]:
    """Return what an earlier run wrote of these pipelines."""
    if file is None or not Path(file).is_file():
        return {}
    kept = json.loads(Path(file).read_text(encoding="utf-8"))
    return {name: Judgement(**of_name) for name, of_name in kept.items() if name in names}


if __name__ == "__main__":
    main()

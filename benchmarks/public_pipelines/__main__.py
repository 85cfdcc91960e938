"""Is the analyzer right on public input functions by other authors? Samples counted, lines, findings, changes that run.

For each pipeline of `listed.yaml`, `analyze` is run as a user would, on synthetic data. The samples of its elements and the changes
that it shows are tried by `truth.py` without the analyzer. What cannot be run is a row that says why. Findings are judged by hand,
in `judged.json`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import platformdirs

from benchmarks.paired import arguments, save
from benchmarks.public_pipelines import judging, truth
from benchmarks.public_pipelines.listed import LISTED, Listed
from benchmarks.public_pipelines.table import Judgement, cells, show_all
from benchmarks.public_pipelines.trying import FailedError, Place, analyzed, measured, place_for
from cs_input_analyzer.api import Analysis
from cs_input_analyzer.records import Finding
from cs_input_analyzer.tfdata.source.patch import make_patch

JUDGED = Path(__file__).with_name("judged.json")
SIZES = 40
# For `analyze`, which may need some patience beyond that, and for a process that measures the truth.
ANALYZE_S, PATIENCE_S, TRUTH_S = 40, 80, 100
ByHand = Mapping[str, tuple[bool, str]]


# --- one pipeline ----------------------------------------------------------------------------------------------------------------


def judgement_of(listed: Listed, repositories: Path, folder: Path, hand: ByHand, runs: Path | None) -> Judgement:
    """Return what comes of one pipeline; a failure is its problem."""
    began_s = time.monotonic()
    found = Judgement(name=listed.name, repository=listed.repository, commit=listed.commit, function=listed.function)
    try:
        place = place_for(listed, repositories, folder)
        try:
            found.sizes = measured(place, truth.sizes, SIZES, TRUTH_S)
        except FailedError as error:
            found.samples = f"not checked: {error}"
        analysis = _analyzed_or_asked(found, place)
    except FailedError as error:
        found.problem = str(error)
    else:
        if runs is not None:
            runs.mkdir(parents=True, exist_ok=True)
            analysis.to_json(runs / f"{listed.name}.json")
        said = analysis.pipeline.samples_per_element
        if not found.samples and said is not None:
            found.samples = judging.samples_verdict(said.value, said.counted_in is not None, found.sizes)
        _judge_rows(found, analysis)
        found.findings = {judging.finding_name(finding): finding.message for finding in analysis.findings}
        found.false_findings, found.unjudged = judging.judged(list(found.findings), hand)
        _judge_changes(found, place, analysis.findings)
    found.seconds = time.monotonic() - began_s
    return found


def _analyzed_or_asked(found: Judgement, place: Place) -> Analysis:
    """Return what `analyze` finds; if it asks how many samples an element holds, tell it the true number."""
    try:
        return analyzed(place, ANALYZE_S, PATIENCE_S)
    except FailedError as error:
        if "--samples-per-element" not in str(error) or not found.sizes:
            raise
        found.samples = f"asked for: {max(found.sizes)}"
        return analyzed(place, ANALYZE_S, PATIENCE_S, ("--samples-per-element", str(max(found.sizes))))


def _judge_rows(found: Judgement, analysis: Analysis) -> None:
    ops = analysis.pipeline.ops
    rows = [] if analysis.profile is None else [(row.share_ratio, row.name) for row in analysis.profile.ops if row.share_ratio]
    found.largest = "`{1}` {0:.0%}".format(*max(rows)) if rows else "no cost table"
    found.lines = len(ops)
    texts = {path: _lines(path) for path in {place.rpartition(":")[0] for op in ops for place in judging.places_of(op)}}
    found.lines_wrong = judging.wrong_lines(ops, texts)


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []


def _judge_changes(found: Judgement, place: Place, findings: Sequence[Finding]) -> None:
    """Try each shown change of the source."""
    for finding in findings:
        if finding.after is None or finding.source is None:
            continue
        path, name = finding.source.rpartition(":")[0], judging.finding_name(finding)
        found.diffs += 1
        patch = make_patch([finding], {path: "\n".join(_lines(path)) + "\n"})
        try:
            if not patch.files:
                raise FailedError(f"it fits nowhere: {patch.by_hand[0][1] if patch.by_hand else finding.after}")
            measured(place, truth.runs, {file.path: file.after for file in patch.files}, TRUTH_S)
        except FailedError as error:
            found.diffs_broken.append(f"{name}: {error}")


# --- all of them -----------------------------------------------------------------------------------------------------------------


def main() -> None:
    """Judge the pipelines of the list, and print the table."""
    chosen = arguments(
        __doc__,
        repositories=(str, ".", "folder of clones from GitHub, each named owner+name"),
        only=(str, "", "names of the list, with commas between"),
        runs=(str, "", "folder for each run of the analyzer"),
    )
    names = {one.name for one in LISTED}
    asked = [name for name in chosen.only.split(",") if name]
    if unknown := sorted(set(asked) - names):
        raise SystemExit(f"--only: there is no {', '.join(unknown)}; there are {', '.join(sorted(names))}")
    by_hand: dict[str, dict[str, Any]] = json.loads(JUDGED.read_text(encoding="utf-8"))
    every: dict[str, Judgement] = {}
    # Not in the temporary folder: that is a finding of its own.
    home = platformdirs.user_cache_dir("cs_input_analyzer", ensure_exists=True)
    runs = Path(chosen.runs) if chosen.runs else None
    for listed in LISTED:
        if asked and listed.name not in asked:
            continue
        hand = {name: (bool(value["true"]), str(value["why"])) for name, value in by_hand.get(listed.name, {}).items()}
        with tempfile.TemporaryDirectory(prefix="public_", dir=home) as folder:
            every[listed.name] = judgement_of(listed, Path(chosen.repositories), Path(folder), hand, runs)
        print("; ".join(cells(every[listed.name])), file=sys.stderr, flush=True)
        save(chosen.json, {name: asdict(found) for name, found in every.items()})  # what is there when the rest is stopped
    show_all(list(every.values()))


if __name__ == "__main__":
    main()

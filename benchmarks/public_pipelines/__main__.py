"""Is the analyzer right on public input functions that nobody here wrote? Samples counted, dearest op, lines, findings, fixes.

For each pipeline of `listed.py`: `analyze` is run as a user would, on synthetic data; then its numbers are held against those that
`truth.py` measures without the analyzer's counting, costs and gains. What cannot be run is a row that says why. Findings are
judged by hand, in `judged.json`.

With `--drawn`, the pipelines of `drawn.py` are judged instead: samples, the share of the CPU that stands at ops and at the right
ones, findings. What `--json` holds already is not measured again.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

from benchmarks.paired import save
from benchmarks.public_pipelines import judging, synthetic
from benchmarks.public_pipelines.drawn import DRAWN
from benchmarks.public_pipelines.listed import LISTED, Listed
from benchmarks.public_pipelines.truth import MARK
from benchmarks.vendor_scripts.releases import take_out
from cs_input_analyzer import load_analysis
from cs_input_analyzer.api import Analysis
from cs_input_analyzer.pipeline.source.patch import make_patch
from cs_input_analyzer.records import Finding

JUDGED = Path(__file__).with_name("judged.json")
TARGETS = Path(__file__).with_name("targets.py")
# Seconds for `analyze`, for what it may need beyond that, and for the process that measures the truth.
ANALYZE_S, PATIENCE_S, TRUTH_S = 60.0, 120.0, 600.0
PAIRS, PAIR_S = 10, 1.5
SAVING_ROUNDS, SAVING_S, SAVINGS_S = 7, 0.25, 30.0
AGAIN_ROUNDS, AGAIN_S = 10, 1.0
# The same for a drawn pipeline, so that ten of them take less than 25 minutes.
DRAWN_ANALYZE_S, DRAWN_PATIENCE_S, DRAWN_TRUTH_S = 40.0, 50.0, 100.0
SIZES, SHARE_ROUNDS, SHARE_S, SHARES_S, READY_S, READY_OF_A_PASS_S = 40, 5, 0.25, 20.0, 0.3, 20.0


class FailedError(Exception):
    """One step of one pipeline gave nothing; says why, with the exit code where the analyzer ended."""

    def __init__(self, why: str, exit_code: int | None = None) -> None:
        super().__init__(why)
        self.exit_code = exit_code


@dataclass(slots=True, kw_only=True)
class Judgement:
    """What came of one pipeline. `problem`: why there is nothing; `steps_failed`: single steps that gave nothing, and why."""

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
    exit_code: int | None = None
    said: dict[str, Any] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)
    attributed: float | None = None
    right: float | None = None
    whole: list[float] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def is_dearest_right(self) -> bool:
        return bool(self.rows) and bool(self.dearest) and max(self.rows, key=lambda name: self.rows[name]) in self.dearest


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one pipeline is tried."""

    listed: Listed
    checkouts: Path
    data: Path

    def environment(self) -> dict[str, str]:
        downloads = {"TFDS_DATA_DIR": str(self.data), "KERAS_HOME": str(self.data)}
        return {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3", **downloads}


def place_for(listed: Listed, repositories: Path, folder: Path) -> Place:
    """Takes the Python files of the listed commit out of the clone, and writes the data. Raises FailedError."""
    missing = [name for name in listed.packages if importlib.util.find_spec(name) is None]
    if missing:
        raise FailedError(f"not installed: {', '.join(missing)}; put them into a folder, and that on PYTHONPATH")
    checkouts = folder / "checkouts"
    if listed.from_package is None:
        name = listed.repository.replace("/", "+")
        clone = next((path for path in (repositories / name / "repo", repositories / name) if path.is_dir()), None)
        if clone is None:
            raise FailedError(f"there is no clone {repositories / name} of github.com/{listed.repository}")
        try:
            take_out(str(clone), listed.commit, checkouts / name, needed=("*.py",))
        except (subprocess.CalledProcessError, tarfile.TarError) as error:
            raise FailedError(f"{clone} does not have commit {listed.commit}: {error}") from error
    data = folder / "data" / listed.name
    if listed.own_folder is not None:
        for path in (checkouts / listed.repository.replace("/", "+")).rglob("*.py"):
            path.write_text(path.read_text(encoding="utf-8").replace(listed.own_folder, str(data)), encoding="utf-8")
    synthetic.write(listed.name, data)
    return Place(listed=listed, checkouts=checkouts, data=data)


def analyzed(place: Place, seconds: float = ANALYZE_S, patience_s: float = PATIENCE_S, more: Sequence[str] = ()) -> Analysis:
    """What `analyze` finds, as a process of its own. Raises FailedError with what the user would read."""
    listed, file, folder = place.listed, place.data.parent / f"{place.listed.name}.json", None
    options = [
        "--json", str(file), "--quiet", "--max-seconds", str(seconds), *more,
        *(("--stand-in", ",".join(listed.stand_ins)) if listed.stand_ins else ()),
    ]  # fmt: skip
    if listed.script:
        script = place.checkouts / listed.repository.replace("/", "+") / listed.file
        rest, folder = ["--available-nodes", "4", *options, "python", script.name], script.parent
    else:
        params = ["--set", f"checkouts={place.checkouts}", "--set", f"data={place.data}"]
        rest = ["analyze", f"{TARGETS}:{listed.name}", *params, *options]
    try:
        done = _run([sys.executable, "-m", "cs_input_analyzer", *rest], place, seconds + patience_s, folder)
    except subprocess.TimeoutExpired as error:
        raise FailedError(f"not done after {error.timeout:.0f} s") from error
    if done.returncode != 0 or not file.is_file():
        raise FailedError(f"exit {done.returncode}: {' '.join(done.stderr.split())[-400:]}", done.returncode)
    return load_analysis(file)


def measured(place: Place, steps: Sequence[tuple[str, str, Mapping[str, Any]]], seconds: float = TRUTH_S) -> dict[str, Any]:
    """What `truth.py` says of steps, by label, in a fresh process: a dictionary, or a text that says why there is none."""
    command = [sys.executable, "-m", "benchmarks.public_pipelines.truth", place.listed.name, str(place.checkouts), str(place.data)]
    try:
        done = _run([*command, json.dumps(steps)], place, seconds)
    except subprocess.TimeoutExpired as error:
        output, why = (error.stdout or b"").decode(errors="replace"), f"not done after {seconds:.0f} s"
    else:
        output, why = done.stdout, f"exit {done.returncode}: {' '.join(done.stderr.split())[-400:]}"
    said = [json.loads(line.removeprefix(MARK)) for line in output.splitlines() if line.startswith(MARK)]
    return {label: why for label, _, _ in steps} | {one["label"]: one.get("found", one.get("problem")) for one in said}


def _run(command: Sequence[str], place: Place, seconds: float, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, env=place.environment(), timeout=seconds, cwd=folder)


# --- one pipeline ----------------------------------------------------------------------------------------------------------------


def rates_of(listed: Listed, repositories: Path, folder: Path, pairs: int) -> Judgement:
    """The rates alone, of so many pairs: what a host that is not quiet leaves undecided needs more of them."""
    found = Judgement(name=listed.name, repository=listed.repository, commit=listed.commit, function=listed.function)
    said = measured(place_for(listed, repositories, folder), [("rate", "rates", {"pairs": pairs, "seconds": PAIR_S})])["rate"]
    if isinstance(said, str):
        found.problem = said
    else:
        _judge_truth(found, {"rate": said})
    return found


def judgement_of(
    listed: Listed, repositories: Path, folder: Path, hand: Mapping[str, tuple[bool, str]], runs: Path | None
) -> Judgement:
    began_s = time.monotonic()
    found = Judgement(name=listed.name, repository=listed.repository, commit=listed.commit, function=listed.function)
    try:
        place = place_for(listed, repositories, folder)
    except FailedError as error:
        found.problem = str(error)
        return found
    steps: list[tuple[str, str, Mapping[str, Any]]] = [
        ("rate", "rates", {"pairs": PAIRS, "seconds": PAIR_S}),
        ("savings", "savings", {"rounds": SAVING_ROUNDS, "seconds": SAVING_S, "budget_s": SAVINGS_S}),
    ]
    try:
        analysis = analyzed(place)
    except FailedError as error:
        found.problem = f"analyze: {error}"
    else:
        if runs is not None:
            runs.mkdir(parents=True, exist_ok=True)
            analysis.to_json(runs / f"{listed.name}.json")
        _judge_rows(found, analysis)
        _judge_findings(found, analysis.findings, hand)
        steps += [*_diffs(found, analysis.findings), *_fixes(found, analysis)]
    said = measured(place, steps)
    for label, of_step in said.items():
        if isinstance(of_step, str):
            found.steps_failed[label] = of_step
    _judge_truth(found, {label: of_step for label, of_step in said.items() if not isinstance(of_step, str)})
    found.seconds = time.monotonic() - began_s
    return found


def drawn_judgement_of(
    listed: Listed, repositories: Path, folder: Path, hand: Mapping[str, tuple[bool, str]], runs: Path | None
) -> Judgement:
    """Judge a drawn pipeline: samples, attributed CPU, right ops, findings. Where the analyzer asks for the samples, tell it."""
    began_s = time.monotonic()
    found = Judgement(name=listed.name, repository=listed.repository, commit=listed.commit, function=listed.function)
    try:
        place = place_for(listed, repositories, folder)
    except FailedError as error:
        found.problem = str(error)
        return found
    ready_s = READY_OF_A_PASS_S if listed.pass_elements == 0 else READY_S
    steps: list[tuple[str, str, Mapping[str, Any]]] = [
        ("sizes", "sizes", {"elements": SIZES}),
        ("savings", "savings", {"rounds": SHARE_ROUNDS, "seconds": SHARE_S, "budget_s": SHARES_S, "least": 3, "ready_s": ready_s}),
    ]
    said = measured(place, steps, DRAWN_TRUTH_S)
    found.steps_failed |= {label: of_step for label, of_step in said.items() if isinstance(of_step, str)}
    _judge_truth(found, {label: of_step for label, of_step in said.items() if not isinstance(of_step, str)})
    try:
        analysis = _analyzed_or_asked(found, place)
    except FailedError as error:
        found.problem, found.exit_code = f"analyze: {error}", error.exit_code
    else:
        found.exit_code = 0
        if runs is not None:
            runs.mkdir(parents=True, exist_ok=True)
            analysis.to_json(runs / f"{listed.name}.json")
        _judge_rows(found, analysis)
        _judge_findings(found, analysis.findings, hand)
        if analysis.profile is not None:
            costs = judging.groups(analysis.profile.ops, analysis.pipeline.ops)
            found.attributed = judging.attributed_ratio(costs)
            true_shares = judging.shares(found.savings, found.whole)
            found.right = judging.right_ratio(costs, true_shares) if true_shares else None
            if found.savings and not true_shares:
                found.steps_failed["shares"] = "what the replaced ops save adds up to far more than the whole"
        of_pipeline = analysis.pipeline.samples_per_element
        if not found.samples and of_pipeline is not None:
            found.samples = judging.samples_verdict(of_pipeline.value, of_pipeline.counted_in is not None, found.sizes)
    found.seconds = time.monotonic() - began_s
    return found


def _analyzed_or_asked(found: Judgement, place: Place) -> Analysis:
    """What `analyze` finds; where it asks how many samples an element holds, it is told the true number."""
    try:
        return analyzed(place, DRAWN_ANALYZE_S, DRAWN_PATIENCE_S)
    except FailedError as error:
        if "--samples-per-element" not in str(error) or not found.sizes:
            raise
        found.samples = f"asked for: {max(found.sizes)}"
        return analyzed(place, DRAWN_ANALYZE_S, DRAWN_PATIENCE_S, ("--samples-per-element", str(max(found.sizes))))


def _judge_truth(found: Judgement, said: Mapping[str, dict[str, Any]]) -> None:
    if rate := said.get("rate"):
        found.pairs = {name: rate[name] for name in ("reported", "bare", "reported_cpu_s", "bare_cpu_s")}
        found.rate = judging.ratio_of_medians(rate["reported"], rate["bare"])
        found.cpu = judging.ratio_of_medians(rate["reported_cpu_s"], rate["bare_cpu_s"])
        counted = "unknown" if rate["is_unknown"] else "counted in each" if rate["counted_in"] is not None else rate["said_samples"]
        found.samples = f"{counted}: {rate['true_samples']} ({rate['said_source']})"
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


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []


def _judge_findings(found: Judgement, findings: Sequence[Finding], hand: Mapping[str, tuple[bool, str]]) -> None:
    found.findings = {judging.finding_name(finding): finding.message for finding in findings}
    _, found.false_findings, found.unjudged = judging.judged(list(found.findings), hand)


def _diffs(found: Judgement, findings: Sequence[Finding]) -> list[tuple[str, str, Mapping[str, Any]]]:
    """The steps that try each shown change of the source; those that fit nowhere are broken already."""
    steps: list[tuple[str, str, Mapping[str, Any]]] = []
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


def _fixes(found: Judgement, analysis: Analysis) -> list[tuple[str, str, Mapping[str, Any]]]:
    """The step that measures the kept fixes again: each, and all of them together."""
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


COLUMNS = (
    "pipeline",
    "samples of an element",
    "samples/s over bare loop",
    "largest row",
    "lines",
    "findings",
    "changes run",
    "gains",
)


def cells(found: Judgement) -> tuple[str, ...]:
    """One line of the table; what could not be measured says so."""
    named = f"{found.repository}, {found.commit[:12]}, `{found.function}`"
    if found.problem and found.rate is None:
        return (named, found.problem[:160], *[""] * (len(COLUMNS) - 2))
    largest = max(found.rows, key=lambda name: found.rows[name], default="none")
    dearest = "as by replacing" if found.is_dearest_right else f"{found.dearest[0]} by replacing" if found.dearest else "not known"
    rate = f"{_said(found.rate)} {judging.verdict(found.rate)}" if found.rate else "not measured"
    false, unjudged = len(found.false_findings), len(found.unjudged)
    return (
        named,
        found.samples.partition(" (")[0],
        rate,
        f"{largest}, {dearest}" + (f"; no row: {', '.join(found.without_row)}" if found.without_row else ""),
        f"{found.lines - len(found.lines_wrong)} of {found.lines}",
        f"{len(found.findings)}, {false} false" + (f", {unjudged} not judged" if unjudged else ""),
        f"{found.diffs - len(found.diffs_broken)} of {found.diffs}",
        f"{len(found.gains_gone)} of {len(found.again)} gone" if found.again else "none kept",
    )


DRAWN_COLUMNS = (
    "pipeline",
    "exit",
    "samples of an element",
    "CPU at ops",
    "CPU at the right ops",
    "largest row",
    "lines",
    "findings",
)


def drawn_cells(found: Judgement) -> tuple[str, ...]:
    """One line of the table of drawn pipelines."""
    named = f"{found.repository}, {found.commit[:12]}, `{found.function}`"
    code = "" if found.exit_code is None else str(found.exit_code)
    if found.problem:
        return (named, code, found.samples, found.problem[:160], *[""] * (len(DRAWN_COLUMNS) - 4))
    usual = cells(found)
    ratios = (f"{ratio * 100:.0f} %" if ratio is not None else "not measured" for ratio in (found.attributed, found.right))
    return (named, code, found.samples, *ratios, *usual[3:6])


def show_all(every: Sequence[Judgement], columns: Sequence[str], cells_of: Callable[[Judgement], tuple[str, ...]]) -> None:
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for found in every:
        print(f"| {' | '.join(cells_of(found))} |")
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


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.public_pipelines", description=__doc__)
    parser.add_argument("--repositories", required=True, metavar="FOLDER", help="clones from GitHub, each named owner+name")
    parser.add_argument("--only", default="", metavar="NAME,NAME", help="of those of the list")
    parser.add_argument("--drawn", action="store_true", help="the list of drawn.py; resumes what --json holds")
    parser.add_argument("--runs", metavar="FOLDER", help="keep each run of the analyzer there")
    parser.add_argument("--rates", type=int, metavar="PAIRS", help="measure the rates alone, with so many pairs")
    parser.add_argument("--json", metavar="FILE")
    chosen = parser.parse_args()
    chosen_list = DRAWN if chosen.drawn else LISTED
    names = {one.name for one in chosen_list}
    asked = [name for name in chosen.only.split(",") if name]
    if unknown := sorted(set(asked) - names):
        parser.error(f"--only: there is no {', '.join(unknown)}; there are {', '.join(sorted(names))}")
    hand: dict[str, dict[str, Any]] = json.loads(JUDGED.read_text(encoding="utf-8"))
    columns, cells_of = (DRAWN_COLUMNS, drawn_cells) if chosen.drawn else (COLUMNS, cells)
    every: dict[str, Judgement] = {}
    if chosen.drawn and chosen.json and Path(chosen.json).is_file():
        kept = json.loads(Path(chosen.json).read_text(encoding="utf-8"))
        every = {name: Judgement(**of_name) for name, of_name in kept.items() if name in names}
    # Not in the temporary folder: that is a finding of its own.
    home = Path(platformdirs.user_cache_dir("cs_input_analyzer"))
    home.mkdir(parents=True, exist_ok=True)
    for listed in chosen_list:
        of_hand = {name: (bool(value["true"]), str(value["why"])) for name, value in hand.get(listed.name, {}).items()}
        if listed.name in every:
            _, every[listed.name].false_findings, every[listed.name].unjudged = judging.judged(
                list(every[listed.name].findings), of_hand
            )
        if listed.name in every or (asked and listed.name not in asked):
            continue
        with tempfile.TemporaryDirectory(prefix="public_", dir=home) as folder:
            runs = Path(chosen.runs) if chosen.runs else None
            repositories = Path(chosen.repositories)
            if chosen.rates:
                every[listed.name] = rates_of(listed, repositories, Path(folder), chosen.rates)
            else:
                judge = drawn_judgement_of if chosen.drawn else judgement_of
                every[listed.name] = judge(listed, repositories, Path(folder), of_hand, runs)
        print("; ".join(cells_of(every[listed.name])), file=sys.stderr, flush=True)
        save(chosen.json, {name: asdict(found) for name, found in every.items()})  # what is there when the rest is stopped
    show_all(list(every.values()), columns, cells_of)


if __name__ == "__main__":
    main()

"""The patch of the kept fixes, on a launcher that invents its numbers: what goes into it, and what is said of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from cs_input_analyzer import rules
from cs_input_analyzer.cli import cli
from cs_input_analyzer.records import Analysis, Candidate, Edit, Finding, Fixes, Layout, Patch
from cs_input_analyzer.report import render_tuning
from cs_input_analyzer.trial.fixes import Outcome, Outcomes
from cs_input_analyzer.workflows import launched
from cs_input_analyzer.workflows.analyze import analyze
from tests.builders import make_analysis, make_estimate, make_finding, make_graph, make_op
from tests.fakes import FakeLauncher
from tests.report.hostile import HOSTILE, hostile
from tests.workflows.test_analysis import job, linear, silent

FILE = """\
def train_input_fn(params):
    ds = load(params).map(f)
    ds = ds.batch(8)
    return ds
"""
EDIT = Edit(kind="parallelize", op="map")
OTHER = Edit(kind="insert-prefetch", op="batch")
GAIN, OF_PATCH = make_estimate(2.1), make_estimate(1.9, spread=0.05)


def trying(*fates: Outcome, patch: Outcome | None = None) -> FakeLauncher:
    """Keeps every fix that it is given, as a change of the source where there is one. `fates`: what became of each instead."""

    def tell(candidates: Sequence[Candidate]) -> Outcomes:
        proven = Outcome(is_proven=True, elements=100, gain=make_estimate(2.0))
        each = tuple(replace(proven, source="proven" if candidate.change else "") for candidate in candidates)
        each = (*fates, *each[len(fates) :])
        kept = tuple(index for index, outcome in enumerate(each) if outcome.gain is not None)
        patched = tuple(index for index in kept if each[index].source == "proven")
        whole = patch or (Outcome(is_proven=True, elements=90, of=180, gain=OF_PATCH) if patched else Outcome())
        return Outcomes(each=each, kept=kept, patched=patched, patch=whole, gain=GAIN, elements=100, is_over=True)

    return FakeLauncher(linear, tell=tell)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "data.py"
    path.write_text(FILE)
    return path


def finding_at(file: Path, new: str) -> Finding:
    """That the map of the file should be this one."""
    code = "    ds = load(params).map(f)"
    told = {"source": f"{file}:2", "before": code, "after": code.replace("map(f)", new)}
    return make_finding("CSI101", edits=(EDIT,), proven=False, measured_gain=None, **told)


def tuned(launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch, *findings: Finding, **options: object) -> Analysis:
    monkeypatch.setattr(rules, "RULES", (rules.Rule("CSI101", "a-rule", lambda case: findings),))
    launcher.pipeline = make_graph(ops=(make_op("map"), make_op("batch")))
    return analyze(replace(job(max_seconds=200.0, **options), is_tuning=True), launcher, silent)  # type: ignore[arg-type]


def test_what_was_kept_is_the_patch_with_its_proof_and_gain(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = trying()
    found = tuned(launcher, monkeypatch, finding_at(file, "map(f, num_parallel_calls=2)"))
    patch = found.fixes.patch
    assert (patch.proven, patch.verified_elements, patch.pass_elements) == (True, 90, 180)
    assert (patch.measured_gain, patch.unproven_because) == (OF_PATCH, "")
    assert patch.folder == str(file.parent)
    assert "+    ds = load(params).map(f, num_parallel_calls=2)\n" in patch.diff
    (work,) = (plan for _, plan in launcher.ran if plan.candidates)  # what is shown is what was proven: there is no second trial
    assert work.texts == ((str(file), FILE),)
    assert file.read_text() == FILE
    assert found.options.max_seconds == 200.0
    assert launcher.clock_s <= 200.0


def test_a_patch_of_files_elsewhere_applies_in_their_folder(
    file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    patch = tuned(trying(), monkeypatch, finding_at(file, "map(g)")).fixes.patch
    assert patch.folder == str(file.parent)
    assert "--- ./data.py\n" in patch.diff


def test_a_fix_without_code_is_left_to_be_done_by_hand_beside_the_patch(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = finding_at(file, "map(g)"), make_finding("CSI101", edits=(OTHER,), fix="prefetch at the end")
    patch = tuned(trying(), monkeypatch, *both).fixes.patch
    assert "+    ds = load(params).map(g)\n" in patch.diff
    (by_hand,) = patch.by_hand
    assert "prefetch at the end" in by_hand
    assert "no single call" in by_hand
    assert "proven" not in by_hand


def test_only_edits_of_the_graph_are_no_patch(monkeypatch: pytest.MonkeyPatch) -> None:
    patch = tuned(trying(), monkeypatch, make_finding("CSI101", edits=(OTHER,))).fixes.patch
    assert (patch.diff, patch.codes, patch.proven) == ("", (), False)
    assert "proven as a change of your source" in patch.unproven_because


def test_nothing_kept_is_no_patch(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tuned(FakeLauncher(linear), monkeypatch, finding_at(file, "map(g)")).fixes.patch is None


@pytest.mark.parametrize("content", [FILE.encode("utf-16"), b"\xef\xbb\xbf" + FILE.encode(), None])
def test_a_file_that_cannot_be_patched_is_said(file: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None) -> None:
    finding = finding_at(file, "map(g)")
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    patch = tuned(trying(), monkeypatch, finding).fixes.patch
    assert patch.diff == ""
    assert "UTF-8" in patch.by_hand[0]


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (Outcome(is_proven=True, gain=GAIN, source="fails", source_reason="with it, element 3 differs"), "element 3 differs"),
        (Outcome(is_proven=True, gain=GAIN, source="not run", source_reason="data.py is not loaded anew"), "not loaded anew"),
    ],
)
def test_a_source_that_is_not_proven_is_not_offered(
    file: Path, monkeypatch: pytest.MonkeyPatch, outcome: Outcome, said: str
) -> None:
    found = tuned(trying(outcome), monkeypatch, finding_at(file, "map(g)"))
    patch = found.fixes.patch
    assert found.fixes.codes == ("CSI101",)  # the change of the graph is kept
    assert found.findings[0].proven
    assert (patch.diff, patch.proven) == ("", False)
    assert said in patch.by_hand[0]
    shown = " ".join(render_tuning(found).split())
    assert "not offered" in shown
    assert "what is proven is the change of the graph" in shown


def test_a_patch_that_was_not_proven_as_one_is_not_offered(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = tuned(trying(patch=Outcome(reason="element 3 differs")), monkeypatch, finding_at(file, "map(g)"))
    patch = found.fixes.patch
    assert not patch.proven
    assert patch.unproven_because == "element 3 differs"
    shown = render_tuning(found)
    assert "not offered" in shown
    assert patch.diff.split("\n")[0] not in shown


# --- the command ----------------------------------------------------------------------------------------------------------------

FIXES = Fixes(codes=("CSI101",), edits=(EDIT,), measured_gain=make_estimate(2.0), layout=Layout.parse("1x1x1"), elements=7)
PATCH = Patch(diff="--- ./x.py\n+++ ./x.py\n@@ -1 +1 @@\n-a\n+b\n", folder="/data", codes=("CSI101",), proven=True)


def run_tune(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, patch: Patch | None, *more: str) -> tuple[int, str, str]:
    analysis = make_analysis(findings=(make_finding(edits=(EDIT,)),))
    monkeypatch.setattr(launched, "analyze", lambda *a, **k: replace(analysis, fixes=replace(FIXES, patch=patch)))
    done = CliRunner().invoke(cli, ["tune", f"{__file__}:f", *more], standalone_mode=False, catch_exceptions=False)
    return done.return_value, done.stdout, done.stderr


def test_the_patch_is_printed_whole_and_written_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "x.patch"
    code, out, err = run_tune(monkeypatch, tmp_path, PATCH, "--write-patch", str(path))
    assert code == 0
    assert PATCH.diff.rstrip("\n") in out
    assert path.read_text() == PATCH.diff
    assert str(path) in err


@pytest.mark.parametrize(
    "patch", [None, replace(PATCH, diff=""), replace(PATCH, proven=False, unproven_because="element 3 differs")]
)
def test_what_is_not_proven_is_not_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, patch: Patch | None) -> None:
    path = tmp_path / "x.patch"
    path.write_text("older")
    code, _, err = run_tune(monkeypatch, tmp_path, patch, "--write-patch", str(path))
    assert code == 0
    assert path.read_text() == "older"
    assert "is not written" in err


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_hostile_acts_on_the_terminal(name: str) -> None:
    analysis = make_analysis(fixes=replace(FIXES, patch=replace(PATCH, by_hand=("a", "b"))))  # type: ignore[type-var]
    shown = render_tuning(hostile(analysis, HOSTILE[name]))
    assert not set(shown) & {"\x1b", "\x07", "\x9b", "\u202e", "\r"}

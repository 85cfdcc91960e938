"""The story of `tune` on a launcher that invents its numbers: what goes into the patch, what is checked, what is said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from cs_input_analyzer import api, rules
from cs_input_analyzer.cli import cli
from cs_input_analyzer.errors import LaunchError
from cs_input_analyzer.records import Analysis, Edit, Finding, Fixes, Layout, Patch
from cs_input_analyzer.report import render_tuning
from cs_input_analyzer.studies.tune import analyze_and_patch
from cs_input_analyzer.worker.fixes import Outcome, Outcomes
from cs_input_analyzer.worker.journal import Candidate
from tests.builders import make_analysis, make_estimate, make_finding, make_graph, make_op
from tests.fakes import FakeLauncher
from tests.report.hostile import HOSTILE, hostile
from tests.studies.test_analysis import job, linear, silent

FILE = """\
def train_input_fn(params):
    ds = load(params).map(f)
    ds = ds.batch(8)
    return ds
"""
EDIT = Edit(kind="parallelize", op="map")
OTHER = Edit(kind="insert-prefetch", op="batch")
PASSED = Outcome(is_proven=True, elements=90, gain=make_estimate(1.9, spread=0.05))


def trying(patched: Callable[[], Outcome] = lambda: PASSED) -> FakeLauncher:
    """Keeps every fix that it is given; `patched` is what becomes of a patched copy."""

    def tell(candidates: Sequence[Candidate]) -> Outcomes:
        if candidates[0].texts and not candidates[0].only_run:
            outcome = patched()
            is_over = outcome != Outcome()
            return Outcomes(each=(outcome,), is_over=is_over, running=None if is_over else 0, ended="it ended")
        each = tuple(Outcome(is_proven=True, elements=100, gain=make_estimate(2.0)) for _ in candidates)
        kept = tuple(index for index, candidate in enumerate(candidates) if candidate.edits)
        return Outcomes(each=each, kept=kept, gain=make_estimate(2.1), elements=100, is_over=True)

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
    return analyze_and_patch(job(max_seconds=200.0, **options), launcher, silent)  # type: ignore[arg-type]


def test_what_was_kept_is_patched_and_the_copy_is_tried(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = trying()
    found = tuned(launcher, monkeypatch, finding_at(file, "map(f, num_parallel_calls=2)"))
    patch = found.fixes.patch
    assert patch.proven
    assert patch.measured_gain == PASSED.gain
    assert patch.folder == str(file.parent)
    assert "+    ds = load(params).map(f, num_parallel_calls=2)\n" in patch.diff
    ((path, text),) = launcher.ran[-1][1].candidates[0].texts
    assert path == str(file)
    assert text == FILE.replace("map(f)", "map(f, num_parallel_calls=2)")
    assert file.read_text() == FILE
    assert found.options.max_seconds == 200.0
    assert launcher.clock_s <= 200.0


def test_the_copy_is_tried_also_where_starting_came_to_take_longer(
    file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """And a patch of files elsewhere applies in their folder."""
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    launcher = trying()
    told = launcher.tell

    def slowly(candidates: Sequence[Candidate]) -> Outcomes | None:
        """As on a node that somebody else came to."""
        launcher.import_s, launcher.clock_s = 15.0, launcher.clock_s + 150.0
        return told(candidates)

    launcher.tell = slowly
    patch = tuned(launcher, monkeypatch, finding_at(file, "map(g)")).fixes.patch
    assert patch.proven, patch.unproven_because
    assert patch.folder == str(file.parent)
    assert "--- ./data.py\n" in patch.diff


def test_a_fix_without_code_is_left_to_be_done_by_hand_beside_the_patch(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = finding_at(file, "map(g)"), make_finding("CSI101", edits=(OTHER,), fix="prefetch at the end")
    patch = tuned(trying(), monkeypatch, *both).fixes.patch
    assert "+    ds = load(params).map(g)\n" in patch.diff
    (by_hand,) = patch.by_hand
    assert "prefetch at the end" in by_hand
    assert "no single call" in by_hand


@pytest.mark.parametrize("is_kept", [False, True])
def test_nothing_kept_or_only_advice_is_no_patch_and_starts_no_worker(
    is_kept: bool, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = trying() if is_kept else FakeLauncher(linear)
    finding = make_finding("CSI101", edits=(OTHER,)) if is_kept else finding_at(file, "map(g)")
    patch = tuned(launcher, monkeypatch, finding).fixes.patch
    if is_kept:
        assert (patch.diff, patch.codes, patch.proven) == ("", (), False)
        assert patch.unproven_because
    else:
        assert patch is None
    assert not any(candidate.texts and not candidate.only_run for _, plan in launcher.ran for candidate in plan.candidates)


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
        (Outcome(reason="element 3 differs"), "element 3 differs"),
        (Outcome(), "the worker was lost while it ran with it"),
        (LaunchError("the disk is full"), "the disk is full"),
        (KeyboardInterrupt(), "interrupted"),
    ],
)
def test_a_copy_that_does_not_pass_is_not_offered(
    file: Path, monkeypatch: pytest.MonkeyPatch, outcome: Outcome | BaseException, said: str
) -> None:
    def patched() -> Outcome:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    found = tuned(trying(patched), monkeypatch, finding_at(file, "map(g)"))
    patch = found.fixes.patch
    assert not patch.proven
    assert said in patch.unproven_because
    assert found.interrupted is isinstance(outcome, KeyboardInterrupt)
    shown = render_tuning(found)
    assert "not offered" in shown
    assert patch.diff.split("\n")[0] not in shown


# --- the command ----------------------------------------------------------------------------------------------------------------

FIXES = Fixes(codes=("CSI101",), edits=(EDIT,), measured_gain=make_estimate(2.0), layout=Layout.parse("1x1x1"), elements=7)
PATCH = Patch(diff="--- ./x.py\n+++ ./x.py\n@@ -1 +1 @@\n-a\n+b\n", folder="/data", codes=("CSI101",), proven=True)


def run_tune(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, patch: Patch | None, *more: str) -> tuple[int, str, str]:
    analysis = make_analysis(findings=(make_finding(edits=(EDIT,)),))
    monkeypatch.setattr(api, "run", lambda *a, **k: replace(analysis, fixes=replace(FIXES, patch=patch)))
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

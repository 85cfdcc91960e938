"""The story of the fixes, without processes: what findings say afterwards, who is tried again, what it does to the plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from cs_input_analyzer.engines import WorkPlan
from cs_input_analyzer.errors import LaunchError
from cs_input_analyzer.records import Candidate, Edit, Estimate, Finding, Fixes, Layout, SourceChange
from cs_input_analyzer.trial.fixes import Outcome, Outcomes
from cs_input_analyzer.workflows import analyze as analysis
from cs_input_analyzer.workflows.probing.seconds import LEAST_FIXES_S
from cs_input_analyzer.workflows.prove import SWITCHED_OFF, Tried, prove_fixes
from tests.builders import make_alternative, make_cluster, make_finding, make_plan
from tests.fakes import FakeLauncher
from tests.workflows.test_analysis import analyzed, job, linear, probing_of

GAIN = Estimate(estimate=2.0, low=1.8, high=2.2, count=5)
SIZES = ("1x1x1", "1x1x2")
NO_TIME = "not measured: no time was left"
NO_GAIN = Estimate(estimate=1.0, low=0.9, high=1.1, count=5)
MAP, CACHE, PREFETCH = (
    (Edit(kind="parallelize", op="map"),),
    (Edit(kind="insert-cache", op="map"),),
    (Edit(kind="insert-prefetch", op="batch"),),
)

Tell = Callable[[Sequence[Candidate]], Outcomes | None]


def launcher_of(*tells: Tell) -> FakeLauncher:
    left = list(tells)
    return FakeLauncher(linear, tell=lambda candidates: left.pop(0)(candidates))


def telling(*each: Outcome, **more: Any) -> Tell:
    """The worker says so much of the candidates; it came to its end unless something is said to be `running`."""
    return lambda candidates: Outcomes(each=each, is_over="running" not in more, **more)


def raising(error: BaseException) -> Tell:
    def tell(candidates: Sequence[Candidate]) -> Outcomes:
        raise error

    return tell


def all_gain(candidates: Sequence[Candidate]) -> Outcomes:
    each = tuple(Outcome(is_proven=True, elements=40, of=64, gain=GAIN) for _ in candidates)
    return Outcomes(each=each, kept=tuple(range(len(each))), gain=GAIN, elements=40, of=64, is_over=True)


def findings_of(*edits: tuple[Edit, ...]) -> tuple[Finding, ...]:
    return tuple(make_finding(f"CSI10{number}", edits=edit, measured_gain=None, proven=False) for number, edit in enumerate(edits))


def tried_with(
    *tells: Tell, edits: Sequence[tuple[Edit, ...]] = (MAP, CACHE, PREFETCH), **options: Any
) -> tuple[Tried, FakeLauncher]:
    launcher = launcher_of(*tells)
    found = prove_fixes(findings_of(*edits), probing_of(launcher, *SIZES, **options), make_plan("1x1x2"))
    return found, launcher


def works(launcher: FakeLauncher) -> list[tuple[str, WorkPlan]]:
    return [(layout, work) for layout, work in launcher.ran if work.candidates]


def test_a_fix_that_gains_is_proven_measured_and_kept() -> None:
    tried, launcher = tried_with(all_gain)
    assert all(finding.proven and finding.measured_gain == GAIN and not finding.unproven_because for finding in tried.findings)
    assert tried.fixes.codes == ("CSI100", "CSI101", "CSI102")
    assert tried.fixes.edits == (*MAP, *CACHE, *PREFETCH)
    assert (tried.fixes.measured_gain, tried.fixes.elements, tried.fixes.pass_elements) == (GAIN, 40, 64)
    assert {(finding.verified_elements, finding.pass_elements) for finding in tried.findings} == {(40, 64)}
    ((layout, work),) = works(launcher)
    assert layout == str(tried.fixes.layout) == "1x1x2"  # the planned size
    assert work.fixes_s >= LEAST_FIXES_S
    assert [candidate.name for candidate in work.candidates] == ["CSI100", "CSI101", "CSI102"]


@pytest.mark.parametrize(
    ("planned", "meets_demand", "current", "size", "is_replanned"),
    [
        ("1x2x1", True, None, 1, True),
        ("1x2x1", False, "2x4x2", 1, True),
        ("1x2x1", None, None, 2, True),  # no demand: what does the whole host gain?
        ("1x2x1", None, "2x4x1", 1, True),
        ("1x2x1", None, "2x4x64", 4, True),  # today's launch, as far as this host goes
        ("1x2x2", None, "2x4x1", 1, False),  # a gain of narrower workers says nothing of the plan's
    ],
)
def test_fixes_are_tried_in_a_worker_of_the_size_that_counts(
    planned: str, meets_demand: bool | None, current: str | None, size: int, is_replanned: bool
) -> None:
    launcher = launcher_of(all_gain)
    probing = probing_of(launcher, *SIZES, current=Layout.parse(current) if current else None)
    asked: list[Fixes] = []
    plan = make_plan(planned, meets_demand=meets_demand)
    tried = prove_fixes(findings_of(CACHE), probing, plan, effect=lambda fixes: asked.append(fixes) or fixes)
    assert tried.fixes.layout == Layout(nodes=1, tasks_per_node=1, cpus_per_task=size)
    assert bool(asked) == is_replanned


@pytest.mark.parametrize(
    ("edits", "evidence", "size"),
    [
        ((MAP,), {"cpus_per_task": 2}, 2),
        ((MAP,), {"cpus_per_task": 3}, 3),
        ((MAP,), {"cpus_per_task": 64}, 4),  # no more than this host has
        ((MAP,), {}, 2),  # the evidence names no worker: side by side takes two CPUs
        ((CACHE, MAP), {"cpus_per_task": 3}, 3),  # one worker for all
        ((PREFETCH,), {}, 2),
        ((CACHE,), {"cpus_per_task": 3}, 1),  # gains on one CPU, as the plan has
        (((Edit(kind="vectorize", op="map"),),), {}, 1),
        ((MAP,), {"cpus_per_task": None}, 2),
    ],
)
def test_what_works_side_by_side_is_tried_in_the_layout_of_its_evidence(
    edits: Sequence[tuple[Edit, ...]], evidence: dict[str, Any], size: int
) -> None:
    findings = [make_finding("CSI101", edits=one, evidence=evidence, measured_gain=None, proven=False) for one in edits]
    tried = prove_fixes(findings, probing_of(launcher_of(all_gain), *SIZES), make_plan("1x4x1"))
    assert tried.fixes.layout == Layout(nodes=1, tasks_per_node=1, cpus_per_task=size)


@pytest.fixture
def source(tmp_path: Any) -> str:
    (tmp_path / "input.py").write_text("import tensorflow as tf\nds = ds.map(f)\nds = ds.batch(8)\n")
    return str(tmp_path / "input.py")


def changed_at(source: str, before: str = "ds = ds.map(f)", after: str = "ds = ds.map(g)", **more: Any) -> Finding:
    return make_finding("CSI307", source=f"{source}:2", before=before, after=after, measured_gain=None, proven=False, **more)


def run_with(finding: Finding, *tells: Tell, **options: Any) -> tuple[Finding, FakeLauncher]:
    launcher = launcher_of(*tells)
    (found,) = prove_fixes((finding,), probing_of(launcher, *SIZES, **options), make_plan("1x1x2")).findings
    return found, launcher


def test_a_change_of_the_source_is_run_before_it_is_shown(source: str) -> None:
    finding, launcher = run_with(changed_at(source, edits=()), telling(Outcome(source="ran")))
    ((_, work),) = works(launcher)
    (candidate,) = work.candidates
    assert candidate.edits == ()
    assert candidate.change == SourceChange(source=f"{source}:2", before="ds = ds.map(f)", after="ds = ds.map(g)")
    assert work.texts == ((source, "import tensorflow as tf\nds = ds.map(f)\nds = ds.batch(8)\n"),)
    assert (finding.after, finding.source_check, finding.unproven_because) == ("ds = ds.map(g)", "", "")


FAILS = "your code fails with it: TypeError: no"
GRAPH = "what is proven is the change of the graph"


@pytest.mark.parametrize(
    ("told", "is_shown", "check"),
    [
        (Outcome(is_proven=True, gain=GAIN, source="proven"), True, ""),
        (Outcome(is_proven=True, gain=GAIN, source="fails", source_reason=FAILS), False, f"{FAILS}; {GRAPH}"),
        (Outcome(is_proven=True, gain=GAIN, source="not run", source_reason="not loaded"), True, f"not loaded; {GRAPH}"),
        (Outcome(is_proven=True, gain=GAIN), True, f"no time was left; {GRAPH}"),
        (Outcome(reason="element 0 differs", source="ran"), True, ""),
        (Outcome(reason="element 0 differs", source="fails", source_reason=FAILS), False, FAILS),
    ],
)
def test_a_finding_says_whether_its_source_or_its_graph_is_proven(told: Outcome, is_shown: bool, check: str, source: str) -> None:
    finding, launcher = run_with(changed_at(source, edits=MAP), telling(told))
    ((_, work),) = works(launcher)
    assert [(bool(one.edits), one.change is not None) for one in work.candidates] == [(True, True)]  # one trial for both
    assert (finding.proven, finding.after is not None, finding.source_check) == (told.is_proven, is_shown, check)


def test_a_fix_without_a_change_of_the_source_says_that_the_graph_is_proven() -> None:
    tried, _ = tried_with(all_gain, edits=(MAP,))
    assert tried.findings[0].source_check == f"no single call of your code makes this change; {GRAPH}"
    assert tried.fixes.patch is None  # that is for `tune`


def test_a_change_that_fails_is_not_shown_and_the_reason_is(source: str) -> None:
    finding, _ = run_with(changed_at(source), telling(Outcome(source="fails", source_reason=FAILS)))
    assert (finding.after, finding.source_check) == (None, FAILS)
    finding, _ = run_with(changed_at(source), telling(Outcome(), running=0, ended="killed by signal 11 (SIGSEGV)"))
    assert finding.after is None
    assert "SIGSEGV" in finding.source_check
    finding, launcher = run_with(changed_at(source, before="ds = other.map(f)"))
    assert finding.after is None
    assert "not what it was" in finding.source_check
    assert works(launcher) == []
    finding, _ = run_with(changed_at(source, after="ds = ds.map("))
    assert finding.after is None
    assert "no Python" in finding.source_check


def test_a_change_that_was_not_run_says_so(source: str) -> None:
    assert run_with(changed_at(source), measure_fixes=False)[0].source_check == "measuring fixes is switched off"
    unread = run_with(changed_at(f"{source}.gone"))[0]
    assert unread.after is not None
    assert "cannot be read" in unread.source_check
    finding, _ = run_with(changed_at(source), telling(Outcome()))
    assert finding.after is not None
    assert finding.source_check.startswith("no time was left; --max-seconds")


def test_findings_without_edits_are_left_as_they_are_and_start_nothing() -> None:
    advice = (make_finding("CSI301", edits=()), make_finding("CSI302", edits=()))
    launcher = launcher_of()
    probing = probing_of(launcher, *SIZES)
    tried = prove_fixes(advice, probing, make_plan("1x1x2"))
    assert tried == Tried(findings=advice)
    assert works(launcher) == []
    assert not any("fixes" in what for what in probing.seconds.budget().not_measured)


def test_the_same_edits_are_tried_once_and_told_to_all_who_proposed_them() -> None:
    tried, launcher = tried_with(all_gain, edits=(MAP, MAP, ()))
    ((_, work),) = works(launcher)
    assert len(work.candidates) == 1
    assert [finding.proven for finding in tried.findings] == [True, True, False]


def test_switched_off_says_so_and_starts_nothing() -> None:
    tried, launcher = tried_with(measure_fixes=False)
    assert {finding.unproven_because for finding in tried.findings} == {SWITCHED_OFF}
    assert tried.fixes is None
    assert works(launcher) == []


def plain(because: str) -> str:
    """The reason without the longer time to ask for: twice that of `probing_of`, or of a run with less."""
    reason, hint, seconds = because.partition("; --max-seconds ")
    assert not hint or seconds in ("120 gives it more time", "16 gives it more time")
    assert bool(hint) == ("no time" in reason)
    return reason


def test_no_time_says_so_in_each_finding_and_in_the_budget() -> None:
    launcher = launcher_of()
    probing = probing_of(launcher, *SIZES)
    launcher.clock_s += 60
    tried = prove_fixes(findings_of(MAP, ()), probing, make_plan("1x1x2"))
    assert [plain(finding.unproven_because) for finding in tried.findings] == [NO_TIME, ""]
    assert tried.fixes is None
    assert [what for what in probing.seconds.budget().not_measured if "fixes" in what]


NOTHING, PROVEN, DIFFERS = Outcome(), Outcome(is_proven=True, elements=8), Outcome(reason="element 0 differs")
ABORTED = "killed by signal 6 (SIGABRT); its last line of output: Check failed"
LOST = f"the worker was lost while it ran with it: {ABORTED}"
LEFT, BESIDE = (
    f"not measured: the worker was lost while it ran with the fix of {code}; --ignore {code} tries the others"
    for code in ("CSI100", "CSI101")
)
NO_GAINS, GAINED = (Outcome(is_proven=True, elements=9, gain=gain) for gain in (NO_GAIN, GAIN))


@pytest.mark.parametrize(
    ("tell", "why", "proven", "kept"),
    [
        (telling(DIFFERS, PROVEN, NOTHING), (DIFFERS.reason, NO_TIME, NO_TIME), "010", ()),
        (telling(NO_GAINS, NOTHING, NOTHING), ("", NO_TIME, NO_TIME), "100", ()),
        # A worker that our own deadline ended is not lost.
        (telling(PROVEN, NOTHING, NOTHING, running=1, ended="time", was_late=True), (NO_TIME,) * 3, "100", ()),
        (telling(GAINED, NOTHING, NOTHING, kept=(0,), gain=GAIN, running=1, ended=ABORTED), ("", LOST, BESIDE), "100", ("CSI100",)),
        (
            telling(GAINED, DIFFERS, NOTHING, kept=(0,), gain=GAIN, running=0, ended=ABORTED),
            (LOST, DIFFERS.reason, LEFT),
            "000",
            (),
        ),
        (lambda candidates: None, ("not measured: this launcher does not try fixes",) * 3, "000", None),
        (raising(LaunchError("the disk is full")), ("not measured: the disk is full",) * 3, "000", None),
        (raising(KeyboardInterrupt()), ("not measured: the run was interrupted",) * 3, "000", None),
    ],
    ids=["refused", "no gain", "late", "crash", "crash of one that gained", "tries none", "full disk", "interrupt"],
)
def test_what_workers_say_of_fixes_is_what_the_findings_say(
    tell: Tell, why: tuple[str, ...], proven: str, kept: tuple[str, ...] | None
) -> None:
    """`proven`: 1 for each finding that is."""
    tried, launcher = tried_with(tell)
    assert tuple(plain(finding.unproven_because) for finding in tried.findings) == why
    assert "".join(str(int(finding.proven)) for finding in tried.findings) == proven
    assert (tried.fixes and tried.fixes.codes) == kept
    assert kept or tried.fixes is None or tried.fixes.measured_gain is None
    assert tried.is_interrupted == (kept is None and "interrupted" in why[0])
    assert len(works(launcher)) == 1


def test_the_effect_on_the_plan_is_asked_for_the_kept_fixes() -> None:
    launcher = launcher_of(all_gain)
    asked: list[Fixes] = []

    def effect(fixes: Fixes) -> Fixes:
        asked.append(fixes)
        return replace(fixes, plan=make_alternative("3x8x2"))

    tried = prove_fixes(findings_of(MAP), probing_of(launcher, *SIZES), make_plan("1x1x2"), effect=effect)
    assert [(fixes.measured_gain, str(fixes.layout)) for fixes in asked] == [(GAIN, "1x1x2")]
    assert tried.fixes.plan == make_alternative("3x8x2")


@pytest.mark.parametrize("seconds", [60.0, 8.0])
def test_an_analysis_tries_what_its_rules_propose(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = launcher_of(all_gain)
    wanted = findings_of(MAP, ())
    monkeypatch.setattr(
        analysis.rules, "sift", lambda case, select, ignore: analysis.rules.Sifted(findings=wanted, ignored_count=0)
    )
    nodes = make_cluster(nodes=8, cpus_per_node=16)
    found = analyzed(launcher, job(40_000, nodes, budget=4, max_seconds=seconds))
    if seconds < 10:
        assert found.fixes is None
        assert plain(found.findings[0].unproven_because) == NO_TIME
        return
    assert found.fixes.plan.layout.nodes <= found.recommendation.nodes
    assert found.budget.fixes_s > 0


@pytest.mark.parametrize("max_seconds", [43.0, 60.0, 300.0])
def test_time_that_was_kept_is_there_however_long_all_else_would_go_on(max_seconds: float) -> None:
    launcher = launcher_of(all_gain)
    launcher.import_s = 1.0
    probing = probing_of(launcher, *SIZES, max_seconds=max_seconds)
    probing.seconds.keep_for_fixes()
    launcher.clock_s += probing.seconds.left_s + 1.4  # all the rest went on for as long as it may, and ended late
    before = len(probing.results.measurements)
    tried = prove_fixes(findings_of(MAP), probing, make_plan("1x1x2"))
    assert [finding.proven for finding in tried.findings] == [True]
    assert len(probing.results.measurements) == before  # what was sampled on the way feeds no model
    ((_, work),) = works(launcher)
    assert work.fixes_s >= LEAST_FIXES_S
    assert launcher.clock_s <= max_seconds


@pytest.mark.parametrize("stops", [True, False])
def test_the_plan_is_told_before_fixes_are_tried_and_ctrl_c_keeps_it(stops: bool) -> None:
    told: list[str] = []

    def progress(what: str, ratio: float) -> None:
        told.append(what)
        if stops and "trying" in what:
            raise KeyboardInterrupt

    found = analysis.analyze(job(demand=500, max_seconds=300), launcher_of(all_gain), progress)  # type: ignore[arg-type]
    plan = found.recommendation
    assert [what for what in told if what.startswith("plan: ")] == told[-1:]
    assert f"{plan.layout}, accelerator-bound; Ctrl-C reports now; trying " in told[-1]
    assert (found.interrupted, found.verdict) == (stops, "accelerator_bound")
    assert any(finding.measured_gain for finding in found.findings) != stops


def test_no_plan_is_told_where_no_fix_is_tried() -> None:
    told: list[str] = []
    wanted = job(demand=500, max_seconds=300, measure_fixes=False)
    analysis.analyze(wanted, launcher_of(), lambda what, ratio: told.append(what))  # type: ignore[arg-type]
    assert not any(what.startswith("plan: ") for what in told)

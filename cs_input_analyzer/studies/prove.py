"""The story of the fixes: apply what findings propose, prove that nothing but the speed changes, measure what it gains, plan anew.

`prove_fixes` does it for an analysis, in a worker of the size that will run. `tune` does it for a training script, in its own
process, and gives back a dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from cs_input_analyzer import rules
from cs_input_analyzer.errors import LaunchError
from cs_input_analyzer.machines.host import read_host
from cs_input_analyzer.pipeline.source.patch import make_patch
from cs_input_analyzer.planning.recommend.whatif import FIXES
from cs_input_analyzer.records import LEAST_GAIN, UNTRIED, Alternative, Edit, Estimate, Finding, Fixes, LaunchPlan, Layout
from cs_input_analyzer.runs.in_process import case_here, check_dataset
from cs_input_analyzer.studies.probing.probing import Probing
from cs_input_analyzer.studies.probing.results import Results
from cs_input_analyzer.worker.fixes import Outcome, Outcomes, outcomes_of, try_fixes
from cs_input_analyzer.worker.gains import is_beyond
from cs_input_analyzer.worker.journal import Candidate

NO_TIME = f"{UNTRIED}: no time was left"
# What is said of a fix that more time would have decided.
OUT_OF_TIME = ("no time was left", "longer than there is time", "takes too long")
# These do side by side what was done one after the other: they gain nothing on one CPU.
SIDE_BY_SIDE = frozenset(
    {"parallelize", "set-parallelism", "interleave", "set-cycle-length", "insert-prefetch", "use-private-threads"}
)
LEAST_CPUS = 2
INTERRUPTED = "the run was interrupted"
NOT_HERE = "source files are not run anew in your own process"
# Edits, and CPUs of a worker -> the most that they can gain there.
MostGain = Callable[[Sequence[Edit], int], float | None]
SWITCHED_OFF = f"{UNTRIED}: measuring fixes is switched off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """The findings with `proven`, `measured_gain` and `unproven_because` filled in, in their order.

    Attributes:
        fixes: what the kept ones do together; None where no fix could be tried at all.
        plan: the plan made anew with the what-if row of all kept fixes; None where none was kept, or none can be made.
        is_interrupted: Ctrl-C ended it; what was found by then is here.
    """

    findings: tuple[Finding, ...]
    fixes: Fixes | None = None
    plan: LaunchPlan | None = None
    is_interrupted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """What `tune` did. `dataset` is the very one that was given where nothing gains; `why` says why nothing could be tried, if so.

    Measured in the caller's own process, with whatever else runs there: `isolation` is `none`, and no plan should rest on it.
    """

    dataset: Any
    findings: tuple[Finding, ...]
    fixes: Fixes | None
    why: str = ""
    isolation: Literal["none"] = "none"


def prove_fixes(
    findings: Sequence[Finding],
    probing: Probing,
    plan: LaunchPlan | None,
    *,
    replan: Callable[[Fixes], LaunchPlan | None] | None = None,
    most_gain: MostGain = lambda edits, cpus: None,
) -> Tried:
    """Try every finding that has edits, in one fresh worker; take what is left of the probing's time.

    Findings without edits come back as they are. Where there is no time (or `Options.measure_fixes` is off) those with edits say so
    in `unproven_because`, and the probing notes it in `Budget.not_measured`. Needs a launch that worked, for its pipeline.

    Args:
        plan: with a demand, its `cpus_per_task` is the size of the worker. Without one a plan only says how the host gives most:
            then the size is that of the launch in use today, or the widest that was measured. Fixes that work side by side need
            the CPUs of their finding's evidence: one worker tries all fixes, so the widest that any of them needs.
        replan: all kept fixes -> the plan made anew with the what-if row "all fixes applied", which becomes `Fixes.plan`; asked
            where the gain is one of workers as wide as the planned ones, or wider.
        most_gain: the bound that the costs allow: what lies above it is measured for longer, and declined if it stays there.
    """
    candidates = _candidates(findings)
    findings, checks = _source_checks(findings)
    if not candidates and not checks:
        return Tried(findings=tuple(findings))
    if not probing.results.options.measure_fixes:
        return untried(findings, SWITCHED_OFF)
    cpus = max(_cpus_of_worker(plan, probing.results), *(cpus_needed(one) for one in findings), 1)
    layout = Layout(nodes=1, tasks_per_node=1, cpus_per_task=max(1, min(cpus, probing.results.cpu_budget)))
    candidates = tuple(fix.bounded(most_gain(fix.candidate.edits, layout.cpus_per_task)) for fix in candidates)
    found = in_worker([fix.candidate for fix in (*candidates, *checks)], probing, layout)
    reached = [index for index, outcome in found.outcomes.items() if index < len(candidates) and _is_decided(outcome)]
    enough_s = probing.seconds.enough_s(len(reached), len(candidates))
    if not found.outcomes:
        probing.seconds.leave_out(f"what the fixes gain: {found.why}")
        because = _with_time(f"{UNTRIED}: {found.why}", enough_s)
        return replace(untried(findings, because), is_interrupted=found.is_interrupted)
    findings = _checked(findings, checks, [found.outcomes.get(len(candidates) + place) for place in range(len(checks))], found.why)
    if not candidates:
        return Tried(findings=findings, is_interrupted=found.is_interrupted)
    fixes = _fixes(candidates, found.together, layout, most_gain)
    anew = replan(fixes) if replan is not None and fixes.codes and (plan is None or fixes.says_of(plan)) else None
    filled = _filled(findings, candidates, found.outcomes, f"{UNTRIED}: {found.why}")
    return Tried(
        findings=tuple(replace(one, unproven_because=_with_time(one.unproven_because, enough_s)) for one in filled),
        fixes=replace(fixes, plan=effect(anew)),
        plan=anew,
        is_interrupted=found.is_interrupted,
    )


def _cpus_of_worker(plan: LaunchPlan | None, results: Results) -> int:
    today, widest = results.options.current, results.widest()
    if plan is not None and (plan.meets_demand is not None or (today is None and widest is None)):
        return plan.cpus_per_task
    if today is not None:
        return today.cpus_per_task
    return widest[0].layout.cpus_per_task if widest is not None else 1


def cpus_needed(finding: Finding) -> int:
    """Return the CPUs of a worker in which the fix can gain: those of the evidence, at least two, where it works side by side."""
    if not any(edit.kind in SIDE_BY_SIDE for edit in finding.edits):
        return 1
    seen = finding.evidence.get("cpus_per_task")
    return max(LEAST_CPUS, seen if isinstance(seen, int) else 1)


def _is_decided(outcome: Outcome) -> bool:
    return outcome.gain is not None or bool(outcome.reason and not any(text in outcome.reason for text in OUT_OF_TIME))


def _with_time(because: str, enough_s: float) -> str:
    """Return the reason, with the time that would have been enough where there was too little."""
    return f"{because}; --max-seconds {enough_s:g} gives it time" if any(text in because for text in OUT_OF_TIME) else because


def untried(findings: Sequence[Finding], because: str) -> Tried:
    """The findings, those with edits or a change of the source saying why nothing is known of them."""
    filled = _filled(findings, _candidates(findings), {}, because)
    return Tried(findings=_unrun(filled, because.removeprefix(f"{UNTRIED}: ")))


def _unrun(findings: Sequence[Finding], because: str) -> tuple[Finding, ...]:
    return tuple(replace(one, source_check=one.source_check or because) if _has_change(one) else one for one in findings)


def _has_change(finding: Finding) -> bool:
    return finding.before is not None and finding.after is not None


def texts_of(findings: Sequence[Finding]) -> dict[str, str]:
    """The user's files by path, as they are; those that are no plain UTF-8 text, or cannot be read, are left out."""
    texts = {}
    for path in {(finding.source or "").rpartition(":")[0] for finding in findings if finding.source}:
        try:
            text = Path(path).read_bytes().decode("utf-8")
        except (OSError, ValueError):
            continue
        if not text.startswith("\ufeff"):
            texts[path] = text
    return texts


def _source_checks(findings: Sequence[Finding]) -> tuple[tuple[Finding, ...], tuple[_Fix, ...]]:
    """The findings, without the changes of the source that give no Python; and of all others, each once, what is to be run."""
    texts = texts_of([finding for finding in findings if _has_change(finding)])
    checked, alike = list(findings), dict[tuple[tuple[str, str], ...], list[int]]()
    for position, finding in enumerate(findings):
        if not _has_change(finding):
            continue
        if (finding.source or "").rpartition(":")[0] not in texts:
            checked[position] = replace(finding, source_check="your file cannot be read as UTF-8 text")
            continue
        patch = make_patch([finding], texts)
        if patch.by_hand:
            checked[position] = replace(finding, after=None, source_check=patch.by_hand[0][1])
        else:
            changed = tuple((file.path, file.after) for file in patch.files)
            alike.setdefault(changed, []).append(position)
    checks = (
        _Fix(candidate=Candidate(name=checked[places[0]].code, edits=(), texts=changed, only_run=True), findings=tuple(places))
        for changed, places in alike.items()
    )
    return tuple(checked), tuple(checks)


def _checked(
    findings: Sequence[Finding], checks: Sequence[_Fix], outcomes: Sequence[Outcome | None], otherwise: str
) -> tuple[Finding, ...]:
    """The findings without the changes of the source that fail. `otherwise`: what is said of one that was not come to."""
    checked = list(findings)
    for check, outcome in zip(checks, outcomes, strict=True):
        for position in check.findings:
            finding = replace(checked[position], source_check=outcome.reason if outcome is not None else otherwise)
            checked[position] = finding if outcome is None or outcome.is_proven else replace(finding, after=None)
    return tuple(checked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """By candidate what the worker reported of it; `together`: what it reported of those that were put together."""

    outcomes: Mapping[int, Outcome] = field(default_factory=dict)
    together: Outcomes = field(default_factory=lambda: Outcomes(each=()))
    why: str = OUT_OF_TIME[0]
    is_interrupted: bool = False


def in_worker(candidates: Sequence[Candidate], probing: Probing, layout: Layout) -> Found:
    """What one fresh worker finds out about candidates in the time that is left."""
    try:
        launched = probing.measure_fixes(candidates, layout)
    except LaunchError as error:
        return Found(why=str(error))
    except KeyboardInterrupt:
        return Found(why=INTERRUPTED, is_interrupted=True)
    if launched is None:
        return Found()
    told = launched.outcomes
    if told is None:
        return Found(why="this launcher does not try fixes")
    outcomes = {index: outcome for index, outcome in enumerate(told.each) if outcome != Outcome()}
    found = Found(outcomes=outcomes, together=told)
    if launched.is_interrupted:
        return replace(found, why=INTERRUPTED, is_interrupted=True)
    if told.is_over or told.was_late:
        return found
    ended = told.ended or launched.measurement.workers[0].message or "nobody saw how"
    if told.running is None:  # it was not at a fix: the pipeline itself failed this time
        why = launched.failure.message if launched.failure else f"the worker was lost before it was through: {ended}"
        return replace(found, why=why)
    name = candidates[told.running].name
    lost = Outcome(reason=f"the worker was lost while it ran with it: {ended}")
    found = replace(
        found,
        outcomes=outcomes | {told.running: lost},
        why=f"the worker was lost while it ran with the fix of {name}; --ignore {name} tries the others",
    )
    return replace(found, together=Outcomes(each=())) if told.running in told.kept else found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fix:
    """Edits to be tried, and the findings (by position) that propose just these."""

    candidate: Candidate
    findings: tuple[int, ...]

    def bounded(self, most: float | None) -> _Fix:
        return replace(self, candidate=replace(self.candidate, most_gain=most))


def _candidates(findings: Sequence[Finding]) -> tuple[_Fix, ...]:
    """Every set of edits once."""
    alike: dict[tuple[Edit, ...], list[int]] = {}
    for position, finding in enumerate(findings):
        if finding.edits:
            alike.setdefault(finding.edits, []).append(position)
    return tuple(
        _Fix(candidate=Candidate(name=findings[positions[0]].code, edits=edits), findings=tuple(positions))
        for edits, positions in alike.items()
    )


def _filled(
    findings: Sequence[Finding], candidates: Sequence[_Fix], outcomes: Mapping[int, Outcome], otherwise: str
) -> tuple[Finding, ...]:
    """`otherwise`: what is said of a fix that nothing was found out about, or not what it gains."""
    filled = list(findings)
    for index, fix in enumerate(candidates):
        outcome, most = outcomes.get(index, Outcome()), fix.candidate.most_gain
        because = outcome.reason or _contradiction(outcome.gain, most) or ("" if outcome.gain is not None else otherwise)
        for position in fix.findings:
            filled[position] = replace(
                filled[position],
                proven=outcome.is_proven,
                measured_gain=outcome.gain,
                unproven_because=because,
                verified_elements=outcome.elements if outcome.is_proven else 0,
                pass_elements=outcome.of,
                most_gain=most,
            )
    return tuple(filled)


def _contradiction(gain: Estimate | None, most: float | None) -> str:
    """Why a gain is not believed; empty where nothing speaks against it."""
    if gain is None or most is None or not is_beyond(gain, most):
        return ""
    measured = f"{gain.estimate:.3g} times the rate was measured" + (f" in {gain.count} rounds" if gain.count else "")
    return f"declined: {measured}, and by the costs of the ops it can be {most:.3g} at most"


def _fixes(candidates: Sequence[_Fix], together: Outcomes, layout: Layout, most_gain: MostGain = lambda edits, cpus: None) -> Fixes:
    edits = tuple(edit for index in together.kept for edit in candidates[index].candidate.edits)
    most = most_gain(edits, layout.cpus_per_task) if edits else None
    because = (_contradiction(together.gain, most) if edits else "") or _dropped(candidates, together)
    if because:
        return Fixes(codes=(), edits=(), measured_gain=None, layout=layout, most_gain=most, none_because=because)
    return Fixes(
        codes=_codes(candidates, together.kept),
        edits=edits,
        measured_gain=together.gain if edits else None,
        layout=layout,
        elements=together.elements if edits else 0,
        pass_elements=together.of if edits else None,
        most_gain=most,
    )


def _codes(candidates: Sequence[_Fix], indices: Sequence[int]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(candidates[index].candidate.name for index in indices))


def _dropped(candidates: Sequence[_Fix], together: Outcomes) -> str:
    """Return why fixes that gained at first were not kept; empty where that is not so."""
    gain = together.gain
    if not together.dropped or gain is None:
        return ""
    codes = ", ".join(_codes(candidates, together.dropped))
    again = f"{codes} gained at first; measured again: {gain.estimate:.3g} times ({gain.low:.3g} to {gain.high:.3g}) the rate"
    return f"{again}, which is not more than {LEAST_GAIN:g} times for sure"


def effect(plan: LaunchPlan | None) -> Alternative | None:
    """The launch that would feed the accelerator with all fixes, as the plan's what-if row has it."""
    row = next((row for row in plan.what_if if row.name == FIXES), None) if plan is not None else None
    # Caches and buffers of the fixes were not part of it.
    return None if row is None else Alternative.of(row, memory_bytes_per_node=None)


# --- in the caller's process -------------------------------------------------------------------------------------------------


def tune(dataset: Any, *, seconds: float, select: Sequence[str] = (), ignore: Sequence[str] = ()) -> Tuned:
    """Finds, proves and measures fixes of a `tf.data.Dataset` right here, and applies those that gain together.

    The user's own dataset is not iterated: copies of its graph are, with caches and shuffle generators of their own. A pipeline
    whose copies would still touch something of the user's (Python functions, variables, files it writes) is left as it is.

    Raises:
        UsageError: not a `tf.data.Dataset`, or called inside a `tf.function`.
    """
    from cs_input_analyzer.pipeline import edits as rewrite
    from cs_input_analyzer.pipeline import graph
    from cs_input_analyzer.pipeline.edits import traits
    from cs_input_analyzer.pipeline.edits.difference import incomparable, read

    check_dataset(dataset, "tune")
    copy = read(dataset)
    held = traits.held_state(copy.text)
    why = incomparable(copy) or (f"it holds {held}" if held else None)
    if why is None and copy.calls_python:
        why = "it calls Python, which may not be run more often than training does"
    pipeline = graph.read_graph(dataset, graph.SourceLog(), target="a dataset in this process")
    findings = rules.sift(case_here(pipeline, read_host()), select, ignore).findings
    candidates = _candidates(findings)
    if why is not None or not candidates:
        because = f"left as it is: {why}" if why else ""
        found = _unrun(_filled(findings, candidates, {}, because), NOT_HERE)
        return Tuned(dataset=dataset, findings=found, fixes=None, why=because)
    events: list[dict[str, Any]] = []

    def record(name: str, **fields: Any) -> None:
        events.append({"event": name, **fields})

    try_fixes(record, dataset, [fix.candidate for fix in candidates], seconds=seconds)
    outcomes = outcomes_of(events, len(candidates))
    layout = Layout(nodes=1, tasks_per_node=1, cpus_per_task=read_host().cpu_budget)
    fixes = _fixes(candidates, outcomes, layout)
    return Tuned(
        dataset=rewrite.apply(dataset, fixes.edits) if fixes.edits else dataset,
        findings=_unrun(_filled(findings, candidates, dict(enumerate(outcomes.each)), NO_TIME), NOT_HERE),
        fixes=fixes,
    )

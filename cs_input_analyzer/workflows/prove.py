"""Try the fixes of an analysis: prove that only the speed changes, measure the gain, make the patch, plan again.

One worker of the size that will run does it. Where a fix is a change of the user's source, that is what is proven and measured.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from cs_input_analyzer.errors import LaunchError
from cs_input_analyzer.records import (
    LEAST_GAIN,
    UNTRIED,
    Candidate,
    Edit,
    Finding,
    Fixes,
    LaunchPlan,
    Layout,
    Patch,
    SourceChange,
)
from cs_input_analyzer.tfdata.source.patch import MEETS, NO_CALL, make_patch, unified_diff
from cs_input_analyzer.trial.fixes import Outcome, Outcomes
from cs_input_analyzer.workflows.probing.probing import Probing
from cs_input_analyzer.workflows.probing.results import Results

# The text about a fix that more time would have decided.
OUT_OF_TIME = ("no time was left", "longer than there is time", "takes too long")
# These edits run work side by side, so they gain nothing on one CPU.
SIDE_BY_SIDE = frozenset(
    {"parallelize", "set-parallelism", "interleave", "set-cycle-length", "insert-prefetch", "use-private-threads"}
)
LEAST_CPUS = 2
INTERRUPTED = "the run was interrupted"
# The text about a fix that was proven as a change of the graph, not of the source.
OF_GRAPH = "what is proven is the change of the graph"
NO_PATCH = "no fix that was kept was proven as a change of your source"
SWITCHED_OFF = f"{UNTRIED}: measuring fixes is switched off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """The findings with `proven`, `measured_gain` and `unproven_because` filled in, in their order.

    Attributes:
        fixes: what the kept ones do together; None if no fix could be tried at all.
        is_interrupted: Ctrl-C ended it; what was found by then is here.
    """

    findings: tuple[Finding, ...]
    fixes: Fixes | None = None
    is_interrupted: bool = False


def prove_fixes(
    findings: Sequence[Finding],
    probing: Probing,
    plan: LaunchPlan | None,
    *,
    effect: Callable[[Fixes], Fixes] = lambda fixes: fixes,
    wants_patch: bool = False,
) -> Tried:
    """Try every finding that has edits, in one fresh worker; take what is left of the probing's time.

    Findings without edits come back as they are. Where there is no time (or `Options.measure_fixes` is off) those with edits say so
    in `unproven_because`, and the probing notes it in `Budget.not_measured`. Needs a launch that worked, for its pipeline.

    Args:
        plan: with a demand, its `cpus_per_task` is the size of the worker. Without one a plan only says how the host gives most:
            then the size is that of the launch in use today, or the widest that was measured. Fixes that work side by side need
            the CPUs of their finding's evidence: one worker tries all fixes, so the widest that any of them needs.
        effect: adds what all kept fixes do to the plan; asked if the gain is one of workers as wide as the planned ones, or wider.
        wants_patch: whether `Fixes.patch` is made. It shows lines of the user's files around those that change.
    """
    texts = texts_of(findings)
    findings = _that_fit(findings, texts)
    candidates = fixes_in(findings, texts)
    if not candidates:
        return Tried(findings=tuple(findings))
    if not probing.results.options.measure_fixes:
        return untried(findings, SWITCHED_OFF)
    cpus = max(_cpus_of_worker(plan, probing.results), *(cpus_needed(one) for one in findings), 1)
    layout = Layout(nodes=1, tasks_per_node=1, cpus_per_task=max(1, min(cpus, probing.results.cpu_budget)))
    found = _in_worker([fix.candidate for fix in candidates], probing, layout, texts)
    wanted = [index for index, fix in enumerate(candidates) if fix.candidate.edits]
    more_s = 2 * probing.results.options.max_seconds
    if not found.outcomes:
        probing.seconds.leave_out(f"what the fixes gain: {found.why}")
        because = _with_time(f"{UNTRIED}: {found.why}", more_s)
        return replace(untried(findings, because), is_interrupted=found.is_interrupted)
    filled = tuple(
        replace(one, unproven_because=_with_time(one.unproven_because, more_s))
        for one in filled_in(findings, candidates, found.outcomes, found.why)
    )
    if not wanted:
        return Tried(findings=filled, is_interrupted=found.is_interrupted)
    fixes = fixes_together(candidates, found.together, layout)
    if wants_patch and fixes.codes:
        fixes = replace(fixes, patch=_patch(filled, candidates, found, texts))
    if plan is not None and fixes.codes and fixes.says_of(plan):
        fixes = effect(fixes)
    return Tried(findings=filled, fixes=fixes, is_interrupted=found.is_interrupted)


def _cpus_of_worker(plan: LaunchPlan | None, results: Results) -> int:
    today, widest = results.options.current, results.widest()
    if plan is not None and (plan.meets_demand is not None or (today is None and widest is None)):
        return plan.cpus_per_task
    if today is not None:
        return today.cpus_per_task
    return widest[0].layout.cpus_per_task if widest is not None else 1


def cpus_needed(finding: Finding) -> int:
    """Return the CPUs of a worker in which the fix can gain: those of the evidence, and at least two if it works side by side."""
    if not any(edit.kind in SIDE_BY_SIDE for edit in finding.edits):
        return 1
    seen = finding.evidence.get("cpus_per_task")
    return max(LEAST_CPUS, seen if isinstance(seen, int) else 1)


def _with_time(because: str, more_s: float) -> str:
    """Return the reason, with a longer time to ask for if there was too little."""
    return f"{because}; --max-seconds {more_s:g} gives it more time" if any(text in because for text in OUT_OF_TIME) else because


def untried(findings: Sequence[Finding], because: str) -> Tried:
    """Return the findings; those with a fix say why nothing is known of it. `because` begins with `UNTRIED`."""
    return Tried(findings=filled_in(findings, fixes_in(findings), {}, because.removeprefix(f"{UNTRIED}: ")))


def texts_of(findings: Sequence[Finding]) -> dict[str, str]:
    """Return the user's files by path, as they are. Leave out those that are no plain UTF-8 text, or cannot be read."""
    texts = {}
    for path in {_path_of(finding) for finding in findings if finding.change is not None}:
        try:
            text = Path(path).read_bytes().decode("utf-8")
        except (OSError, ValueError):
            continue
        if not text.startswith("\ufeff"):
            texts[path] = text
    return texts


def _path_of(finding: Finding) -> str:
    return (finding.source or "").rpartition(":")[0]


def _that_fit(findings: Sequence[Finding], texts: Mapping[str, str]) -> tuple[Finding, ...]:
    """Return the findings, without the changes of the source that fit nowhere or give no Python."""
    checked = list(findings)
    for position, finding in enumerate(findings):
        patch = make_patch([finding], texts) if finding.change is not None else None
        if patch is not None and patch.by_hand:
            after = None if _path_of(finding) in texts else finding.after
            checked[position] = replace(finding, after=after, source_check=patch.by_hand[0][1])
    return tuple(checked)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The report of the worker: by candidate, and `together` for the combined fixes."""

    outcomes: Mapping[int, Outcome] = field(default_factory=dict)
    together: Outcomes = field(default_factory=lambda: Outcomes(each=()))
    why: str = OUT_OF_TIME[0]
    is_interrupted: bool = False


def _in_worker(candidates: Sequence[Candidate], probing: Probing, layout: Layout, texts: Mapping[str, str]) -> _Found:
    """Return what one fresh worker finds out about candidates in the time that is left."""
    try:
        launched = probing.measure_fixes(candidates, layout, texts)
    except LaunchError as error:
        return _Found(why=str(error))
    except KeyboardInterrupt:
        return _Found(why=INTERRUPTED, is_interrupted=True)
    if launched is None:
        return _Found()
    told = launched.outcomes
    if told is None:
        return _Found(why="this launcher does not try fixes")
    outcomes = {index: outcome for index, outcome in enumerate(told.each) if outcome != Outcome()}
    found = _Found(outcomes=outcomes, together=told)
    if launched.is_interrupted:
        return replace(found, why=INTERRUPTED, is_interrupted=True)
    if told.is_over or told.was_late:
        return found
    ended = told.ended or launched.measurement.workers[0].message or "cause unknown"
    if told.running is None:  # it was not at a fix: the pipeline itself failed this time
        why = launched.failure.message if launched.failure else f"the worker was lost before it was through: {ended}"
        return replace(found, why=why)
    name = candidates[told.running].name
    reason = f"the worker was lost while it ran with it: {ended}"
    lost = Outcome(reason=reason, source="fails", source_reason=reason)
    found = replace(
        found,
        outcomes=outcomes | {told.running: lost},
        why=f"the worker was lost while it ran with the fix of {name}; --ignore {name} tries the others",
    )
    return replace(found, together=Outcomes(each=())) if told.running in told.kept else found


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """A candidate, and the findings (by position) that propose just this."""

    candidate: Candidate
    findings: tuple[int, ...]


def fixes_in(findings: Sequence[Finding], texts: Container[str] | None = None) -> tuple[Fix, ...]:
    """Return every fix once: edits of the graph, the same as a change of the source, or a change of the source alone.

    `texts`: paths of the files whose changes can be run; None for all files.
    """
    alike: dict[tuple[tuple[Edit, ...], SourceChange | None], list[int]] = {}
    for position, finding in enumerate(findings):
        change = finding.change if texts is None or _path_of(finding) in texts else None
        if finding.edits or change is not None:
            alike.setdefault((finding.edits, change), []).append(position)
    return tuple(
        Fix(candidate=Candidate(name=findings[positions[0]].code, edits=edits, change=change), findings=tuple(positions))
        for (edits, change), positions in alike.items()
    )


def filled_in(
    findings: Sequence[Finding], fixes: Sequence[Fix], outcomes: Mapping[int, Outcome], otherwise: str
) -> tuple[Finding, ...]:
    """Return the findings with what became of their fixes. `otherwise`: why nothing was found out, or not the gain."""
    filled = list(findings)
    for index, fix in enumerate(fixes):
        outcome = outcomes.get(index, Outcome())
        because = outcome.reason
        if not because and outcome.gain is None and otherwise:
            because = f"{UNTRIED}: {otherwise}"
        for position in fix.findings:
            finding = _with_source(filled[position], fix.candidate, outcome, otherwise)
            if fix.candidate.edits:
                finding = replace(
                    finding,
                    proven=outcome.is_proven,
                    measured_gain=outcome.gain,
                    unproven_because=because,
                    verified_elements=outcome.elements if outcome.is_proven else 0,
                    pass_elements=outcome.of,
                )
            filled[position] = finding
    return tuple(filled)


def _with_source(finding: Finding, candidate: Candidate, outcome: Outcome, otherwise: str) -> Finding:
    """Return the finding without a change of the source that fails, and with the reason why that was not proven."""
    if candidate.change is None:
        reason = finding.source_check or (NO_CALL if outcome.is_proven else "")
    else:
        reason = outcome.source_reason if outcome.source else finding.source_check or otherwise
    if reason and outcome.is_proven:
        reason = f"{reason}; {OF_GRAPH}"
    return replace(finding, source_check=reason, after=None if outcome.source == "fails" else finding.after)


def fixes_together(candidates: Sequence[Fix], together: Outcomes, layout: Layout) -> Fixes:
    """Return the effect of the kept fixes together."""
    edits = tuple(edit for index in together.kept for edit in candidates[index].candidate.edits)
    return Fixes(
        codes=_codes(candidates, together.kept),
        edits=edits,
        measured_gain=together.gain if edits else None,
        layout=layout,
        elements=together.elements if edits else 0,
        pass_elements=together.of if edits else None,
        none_because=_dropped(candidates, together),
    )


def _codes(candidates: Sequence[Fix], indices: Sequence[int]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(candidates[index].candidate.name for index in indices))


def _dropped(candidates: Sequence[Fix], together: Outcomes) -> str:
    """Return why fixes that gained at first were not kept; empty if that is not so."""
    gain = together.gain
    if not together.dropped or gain is None:
        return ""
    codes = ", ".join(_codes(candidates, together.dropped))
    again = f"{codes} gained at first; measured again: {gain.estimate:.3g} times ({gain.low:.3g} to {gain.high:.3g}) the rate"
    return f"{again}, which is not more than {LEAST_GAIN:g} times for sure"


def _patch(findings: Sequence[Finding], fixes: Sequence[Fix], found: _Found, texts: Mapping[str, str]) -> Patch:
    """Return the patch of the kept fixes that the worker ran as one changed source, with its proof and its gain."""
    kept = found.together.kept
    patched = [findings[fixes[index].findings[0]] for index in found.together.patched]
    source = make_patch(patched, texts)
    folder = _folder_of([Path(file.path) for file in source.files])
    by_hand = []
    for index in (index for index in kept if index not in found.together.patched):
        finding = findings[fixes[index].findings[0]]
        why = finding.source_check.removesuffix(f"; {OF_GRAPH}") or MEETS
        where = f" at {finding.source}" if finding.source else ""
        by_hand.append(f"{finding.code}{where}: {finding.fix or finding.message} ({why})")
    proof = found.together.patch
    because = "" if proof.gain is not None else proof.reason or OUT_OF_TIME[0]
    return Patch(
        diff=unified_diff(source.files, folder),
        folder=str(folder),
        codes=tuple(dict.fromkeys(finding.code for finding in patched)),
        by_hand=tuple(by_hand),
        proven=proof.is_proven,
        measured_gain=proof.gain,
        unproven_because=because if patched else NO_PATCH,
        verified_elements=proof.elements if proof.is_proven else 0,
        pass_elements=proof.of,
    )


def _folder_of(paths: Sequence[Path]) -> Path:
    """Return the folder in which a patch applies: this one if all files are below, else the one that they share."""
    here = Path.cwd()
    if all(path.is_relative_to(here) for path in paths):
        return here
    return Path(os.path.commonpath([path.parent for path in paths]))

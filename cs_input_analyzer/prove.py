"""The story of the fixes: apply what findings propose, prove that nothing but the speed changes, measure what it gains, plan anew.

`prove_fixes` does it for an analysis, in workers of the size that will run. `tune` does it for a training script, in its own
process, and gives back a dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from cs_input_analyzer import rules
from cs_input_analyzer.cluster import this_host
from cs_input_analyzer.errors import LaunchError, UsageError
from cs_input_analyzer.measure.fixes import Outcome, Outcomes, outcomes_of, try_fixes
from cs_input_analyzer.measure.host import read_host
from cs_input_analyzer.measure.journal import Candidate
from cs_input_analyzer.probing import Probing, Seen
from cs_input_analyzer.recommend.whatif import FIXES
from cs_input_analyzer.records import Alternative, Case, Edit, Estimate, Finding, Fixes, LaunchPlan, Layout, PipelineGraph

__all__ = ["Tried", "Tuned", "prove_fixes", "tune", "untried"]

# A worker that a fix brings down is followed by another one, for the other fixes.
MOST_WORKERS = 3
NO_TIME = "not measured: no time was left"
SWITCHED_OFF = "not measured: measuring fixes is switched off"


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
    replan: Callable[[Estimate], LaunchPlan | None] | None = None,
) -> Tried:
    """Tries every finding that has edits, in fresh workers of one size; takes what is left of the probing's time.

    Findings without edits come back as they are. Where there is no time (or `Options.measure_fixes` is off) those with edits say so
    in `unproven_because`, and the probing notes it in `Budget.not_measured`. Needs `probing.seen.pipeline`: one launch that worked.

    Args:
        plan: with a demand, its `cpus_per_task` is the size of the worker. Without one a plan only says how the host gives most:
            then the size is that of the launch in use today, or the widest that was measured.
        replan: gain of all kept fixes -> the plan made anew with the what-if row "all fixes applied", which becomes `Fixes.plan`;
            asked where the gain is one of workers of the planned size.
    """
    candidates = _candidates(findings)
    if not candidates:
        return Tried(findings=tuple(findings))
    if not probing.seen.options.measure_fixes:
        return untried(findings, SWITCHED_OFF)
    layout = Layout(
        nodes=1, tasks_per_node=1, cpus_per_task=max(1, min(_cpus_of_worker(plan, probing.seen), probing.seen.cpu_budget))
    )
    found = _in_workers(candidates, probing, layout)
    if not found.outcomes:
        probing.seconds.leave_out(f"what the fixes gain: {found.why}")
        return replace(untried(findings, f"not measured: {found.why}"), is_interrupted=found.is_interrupted)
    fixes = _fixes(candidates, found.kept, found.together, layout)
    is_of_plan = plan is None or plan.cpus_per_task == layout.cpus_per_task
    anew = replan(fixes.measured_gain) if replan is not None and fixes.measured_gain is not None and is_of_plan else None
    return Tried(
        findings=_filled(findings, candidates, found.outcomes, NO_TIME),
        fixes=replace(fixes, plan=_effect(anew)),
        plan=anew,
        is_interrupted=found.is_interrupted,
    )


def _cpus_of_worker(plan: LaunchPlan | None, seen: Seen) -> int:
    today, widest = seen.options.current, seen.widest()
    if plan is not None and (plan.meets_demand is not None or (today is None and widest is None)):
        return plan.cpus_per_task
    if today is not None:
        return today.cpus_per_task
    return widest[0].layout.cpus_per_task if widest is not None else 1


def untried(findings: Sequence[Finding], because: str) -> Tried:
    """The findings, those with edits saying why nothing is known of them."""
    return Tried(findings=_filled(findings, _candidates(findings), {}, because))


@dataclass(slots=True)
class _Found:
    """By candidate what workers told of it, however many it took; `kept` ones were put together last."""

    outcomes: dict[int, Outcome]
    kept: tuple[int, ...] = ()
    together: Outcomes | None = None
    why: str = "no time was left"
    is_interrupted: bool = False


def _in_workers(candidates: Sequence[_Fix], probing: Probing, layout: Layout) -> _Found:
    found = _Found(outcomes={})
    left = list(range(len(candidates)))
    for _ in range(MOST_WORKERS):
        try:
            launched = probing.measure_fixes([candidates[index].candidate for index in left], layout)
        except LaunchError as error:
            found.why = str(error)
            return found
        except KeyboardInterrupt:
            found.is_interrupted = True
            return found
        if launched is None:
            return found
        told = launched.outcomes
        if told is None:
            found.why = "this launcher does not try fixes"
            return found
        found.outcomes |= {index: outcome for index, outcome in zip(left, told.each, strict=True) if outcome != Outcome()}
        if told.kept:
            found.kept, found.together = tuple(left[position] for position in told.kept), told
        found.is_interrupted = launched.is_interrupted
        if told.is_over or found.is_interrupted:
            return found
        if told.running is None:  # it was not at a fix: the pipeline itself failed this time
            found.why = launched.failure.message if launched.failure else "the worker ended before it was through"
            return found
        lost = left[told.running]
        before = found.outcomes.get(lost, Outcome())
        message = launched.measurement.workers[0].message or "the worker was lost"
        if lost in found.kept:
            found.kept, found.together = (), None
        found.outcomes[lost] = replace(
            before, is_proven=False, gain=None, reason=f"the worker was lost while it ran with it: {message}"
        )
        open_ = (index for index in left if index != lost)
        left = [index for index in open_ if index not in found.outcomes or found.outcomes[index].is_proven]
        if not left:
            return found
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fix:
    """Edits to be tried, and the findings (by position) that propose just these."""

    candidate: Candidate
    findings: tuple[int, ...]


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
        outcome = outcomes.get(index, Outcome())
        because = outcome.reason or ("" if outcome.gain is not None else otherwise)
        for position in fix.findings:
            filled[position] = replace(
                filled[position], proven=outcome.is_proven, measured_gain=outcome.gain, unproven_because=because
            )
    return tuple(filled)


def _fixes(candidates: Sequence[_Fix], kept: Sequence[int], together: Outcomes | None, layout: Layout) -> Fixes:
    edits = tuple(edit for index in kept for edit in candidates[index].candidate.edits)
    return Fixes(
        codes=tuple(dict.fromkeys(candidates[index].candidate.name for index in kept)),
        edits=edits,
        measured_gain=together.gain if together is not None else None,
        layout=layout,
        elements=together.elements if together is not None else 0,
    )


def _effect(plan: LaunchPlan | None) -> Alternative | None:
    """The launch that would feed the accelerator with all fixes, as the plan's what-if row has it."""
    row = next((row for row in plan.what_if if row.name == FIXES), None) if plan is not None else None
    if row is None:
        return None
    return Alternative(
        layout=row.layout,
        input_workers=row.input_workers,
        predicted_samples_per_s=row.predicted_samples_per_s,
        limited_by=row.limited_by,
        memory_bytes_per_node=None,  # caches and buffers of the fixes were not part of it
        meets_demand=row.meets_demand,
        note=row.note,
    )


# --- in the caller's process -------------------------------------------------------------------------------------------------


def tune(dataset: Any, *, seconds: float, select: Sequence[str] = (), ignore: Sequence[str] = ()) -> Tuned:
    """Finds, proves and measures fixes of a `tf.data.Dataset` right here, and applies those that gain together.

    The user's own dataset is not iterated: copies of its graph are, with caches and shuffle generators of their own. A pipeline
    whose copies would still touch something of the user's (Python functions, variables, files it writes) is left as it is.

    Raises:
        UsageError: not a `tf.data.Dataset`, or called inside a `tf.function`.
    """
    import tensorflow as tf

    from cs_input_analyzer import graph, rewrite
    from cs_input_analyzer.rewrite import traits
    from cs_input_analyzer.rewrite.difference import calls_python, incomparable, read_text

    if not isinstance(dataset, tf.data.Dataset):
        raise UsageError(f"tune takes a tf.data.Dataset, not a {type(dataset).__name__}")
    if not tf.executing_eagerly():
        raise UsageError("tune measures, which cannot be done inside a tf.function; call it outside")
    text = read_text(dataset)
    held = traits.held_state(text)
    why = incomparable(text, dataset.element_spec) or (f"it holds {held}" if held else None)
    if why is None and calls_python(text):
        why = "it calls Python, which may not be run more often than training does"
    pipeline = graph.read_graph(dataset, graph.SourceLog(), target="a dataset in this process")
    findings = rules.find(_case(pipeline), select, ignore)
    candidates = _candidates(findings)
    if why is not None or not candidates:
        because = f"left as it is: {why}" if why else ""
        return Tuned(dataset=dataset, findings=_filled(findings, candidates, {}, because), fixes=None, why=because)
    events: list[dict[str, Any]] = []

    def tell(name: str, **fields: Any) -> None:
        events.append({"event": name, **fields})

    try_fixes(tell, dataset, [fix.candidate for fix in candidates], seconds=seconds)
    told = outcomes_of(events, len(candidates))
    layout = Layout(nodes=1, tasks_per_node=1, cpus_per_task=read_host().cpu_budget)
    fixes = _fixes(candidates, told.kept, told, layout)
    return Tuned(
        dataset=rewrite.apply(dataset, fixes.edits) if fixes.edits else dataset,
        findings=_filled(findings, candidates, dict(enumerate(told.each)), NO_TIME),
        fixes=fixes,
    )


def _case(pipeline: PipelineGraph) -> Case:
    """What rules may know of a dataset of which only the graph was read."""
    host = read_host()
    return Case(
        pipeline=pipeline,
        mode="train",
        is_sharded=pipeline.is_sharded,
        measurements=(),
        profile=None,
        plan=None,
        cluster=this_host(host),
        host=host,
    )

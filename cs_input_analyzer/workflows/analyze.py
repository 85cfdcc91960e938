"""The main workflow. Read this second, after `records/`.

Measure at a first guess, model the capacity, plan a launch. Then measure again with the planned number of workers
announced, because each reads its own shard, and a shard may be slower than the whole. Repeat until the plan stays or
the budget ends; then judge and find.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from cs_input_analyzer import rules
from cs_input_analyzer.engines import Launcher
from cs_input_analyzer.errors import Interrupted, LaunchError, UsageError
from cs_input_analyzer.model import buffers, capacity, recommend
from cs_input_analyzer.model.evidence import last_end
from cs_input_analyzer.model.launch_lines import launch_lines
from cs_input_analyzer.model.params import params_from_json, training_of
from cs_input_analyzer.records import (
    SCHEMA_VERSION,
    UNTRIED,
    Analysis,
    Case,
    Estimate,
    Finding,
    Fixes,
    LaunchPlan,
    Layout,
    Prediction,
    VerdictName,
)
from cs_input_analyzer.request.request import Request, with_pipelines_batch
from cs_input_analyzer.units import counted
from cs_input_analyzer.workflows import prove
from cs_input_analyzer.workflows.kept import with_kept_plan
from cs_input_analyzer.workflows.probing.probing import Probing
from cs_input_analyzer.workflows.probing.results import Results

MAX_ROUNDS = 4
Progress = Callable[[str, float], None]


def analyze(request: Request, launcher: Launcher, progress: Progress) -> Analysis:
    """Run the stages in order. Raise InputFunctionError, UsageError or LaunchError if nothing could be measured.

    Ctrl-C (KeyboardInterrupt) ends the measuring. The results so far are analyzed, and marked `interrupted`.
    """
    options = replace(request.options, batch_size=request.step)
    probing = Probing(request.target, request.pickled, options, request.host, launcher, progress, is_tuning=request.is_tuning)
    is_interrupted = False
    if request.cluster.source != recommend.THIS_HOST:  # a plan for this host is a by-product: measuring goes on without one
        recommend.check_cluster(request.cluster, request.options)
    try:
        _measure(request, probing)
    except LaunchError as error:  # the disk is full, no process can be started: what was measured before stands
        if not probing.results.has_rate:
            raise
        probing.seconds.cut_short = str(error)
    except KeyboardInterrupt:
        is_interrupted = True
        if not probing.results.has_rate or probing.results.pipeline is None:
            raise Interrupted("interrupted before anything was measured") from None
    request = _with_shared_storage(_complete(request, probing.results), probing.results)
    plan = _plan(request, probing)
    sifted = findings_of(request, probing.results, plan)
    if is_interrupted:
        tried = _interrupted(sifted.findings)
    else:
        if plan is not None:
            probing.found = _in_short(plan, verdict_of(request, probing.results, plan).verdict)
        try:
            tried = prove.prove_fixes(
                sifted.findings,
                probing,
                plan,
                effect=lambda fixes: with_effect(request, probing.results, plan, fixes),
                wants_patch=request.is_tuning,
            )
        except KeyboardInterrupt:  # before or after the launch, which keeps what it found
            tried = _interrupted(sifted.findings)
    plan = with_utilization(request, probing.results, plan)
    return _assemble(request, probing, plan, tried, sifted.ignored_count, is_interrupted or tried.is_interrupted)


def _interrupted(findings: Sequence[Finding]) -> prove.Tried:
    """Return the findings with the word that no fix was tried."""
    return replace(prove.untried(findings, f"{UNTRIED}: {prove.INTERRUPTED}"), is_interrupted=True)


def _in_short(plan: LaunchPlan, verdict: VerdictName) -> str:
    """Return the plan and the verdict for a line of progress."""
    judged = "" if verdict == "unknown" else f", {verdict.replace('_', '-')}"
    return f"plan: {counted(plan.nodes, 'node')}, {plan.layout}{judged}"


def _measure(request: Request, probing: Probing) -> None:
    """All launches but those of the fixes, in their order; every launch of a plan is chosen by what the ones before it gave."""
    plan: LaunchPlan | None = None
    probing.seconds.keep_for_fixes()
    probing.measure_first(request.options.probe_layouts or capacity.lone_probes(request.cluster, request.host.cpu_budget))
    request = _complete(request, probing.results)
    if not any(finding.edits or finding.after for finding in findings_of(request, probing.results, None).findings):
        probing.seconds.keep_nothing_for_fixes()
    probing.measure_storage()
    if not request.options.probe_layouts:
        probing.measure_full_node(request.cluster)
        probing.measure_next_probes(request.cluster)
    for _ in range(MAX_ROUNDS):
        plan = _plan(request, probing)
        if plan is None:
            break
        if probing.turn_cold(plan, request.cluster):
            continue
        if probing.has_measured(plan, request.cluster) or not probing.measure_round(plan, request.cluster):
            break
    if plan is not None:
        probing.measure_nodes(plan)


def _complete(request: Request, results: Results) -> Request:
    """Return the request with what only the pipeline tells: the demand for its batch size, and the plan of an earlier run."""
    return with_kept_plan(with_pipelines_batch(request, results.pipeline), results.pipeline)


def _plan(request: Request, probing: Probing) -> LaunchPlan | None:
    """Return the plan for the measurements so far. Note it if there is none."""
    plan, probing.no_plan = plan_or_why(request, probing.results)
    if plan is None:
        probing.seconds.leave_out(f"a plan: {probing.no_plan}")
    return plan


def plan_or_why(request: Request, results: Results) -> tuple[LaunchPlan | None, str | None]:
    """Return the plan for the measurements, or the reason why there is none.

    Raise UsageError if no launch fits another cluster.

    The machine that measured may have no room for any launch, and was still worth measuring.
    """
    cluster, options = request.cluster, request.options
    if results.pipeline is not None and (end := last_end(results.pipeline, results.measurements, options.mode)) is not None:
        count = "" if end.pass_elements is None else f" after {counted(end.pass_elements, 'element')}"
        return None, f"the data ended for good{count} (CSI302), so that no rate holds for a training"
    try:
        plan = recommend.recommend(results.model(), request.consumption, cluster, options, kept=request.kept)
        lines = launch_lines(plan, cluster, options, request.target)
    except UsageError as error:
        if cluster.source != recommend.THIS_HOST:
            raise
        return None, str(error)
    return replace(plan, launch=lines, confirmed_by=results.confirmation(plan), cache_state=results.cache), None


def with_effect(request: Request, results: Results, plan: LaunchPlan | None, fixes: Fixes) -> Fixes:
    """Return the fixes with what they do to the plan and to today's launch, if their gain says something of the plan."""
    after = today = None
    if plan is not None and fixes.measured_gain is not None and fixes.says_of(plan):
        after, today = recommend.with_gain(
            results.model(),
            request.consumption,
            request.cluster,
            request.options,
            plan=plan,
            gain=fixes.measured_gain,
            gain_cpus=fixes.layout.cpus_per_task,
        )
    return replace(fixes, plan=after, today=today)


def _with_shared_storage(request: Request, results: Results) -> Request:
    """Return the request with the measured rate of the shared storage.

    It counts if several of the planned nodes were measured together, and the user declared no rate.
    """
    scaling, cluster = results.scaling(), request.cluster
    if scaling is None or scaling.ceiling_bytes_per_s is None or cluster.storage_bytes_per_s is not None or not cluster.is_measured:
        return request
    ceiling = scaling.ceiling_bytes_per_s
    return replace(request, cluster=replace(cluster, storage_bytes_per_s=ceiling.estimate, measured_storage_bytes_per_s=ceiling))


def with_utilization(request: Request, results: Results, plan: LaunchPlan | None) -> LaunchPlan | None:
    """Return the plan with the share of the time in which the accelerator works, between refills of its shuffles at each pass."""
    if plan is None or request.consumption is None:
        return plan
    refilling = buffers.refill_ratio(_case(request, results, plan)) or 0.0
    used = recommend.utilization(plan.predicted_samples_per_s, request.consumption, refilling)
    return replace(plan, expected_accelerator_utilization=used)


def _assemble(
    request: Request, probing: Probing, plan: LaunchPlan | None, tried: prove.Tried, ignored_count: int, is_interrupted: bool
) -> Analysis:
    results = probing.results
    assert results.pipeline is not None
    judged = verdict_of(request, results, plan)
    return Analysis(
        schema_version=SCHEMA_VERSION,
        tool=request.tool,
        created_at=request.created_at,
        command=request.command,
        options=request.options,
        host=request.host,
        budget=probing.seconds.budget(),
        pipeline=results.pipeline,
        measurements=tuple(results.measurements),
        profile=results.profile_of(plan.cpus_per_task if plan else None),
        stations=results.stations(),
        storage=results.storage,
        capacity=results.model(),
        consumption=request.consumption,
        cluster=request.cluster,
        recommendation=plan,
        no_plan=None if plan is not None else probing.no_plan,
        findings=tried.findings,
        fixes=tried.fixes,
        **judged._asdict(),
        interrupted=is_interrupted,
        ignored_count=ignored_count,
        scaling=results.scaling(),
    )


class Judged(NamedTuple):
    """The verdict, the launch that it judges with its rate, and the reported confidence; None if there is no such launch."""

    verdict: VerdictName = "unknown"
    verdict_layout: Layout | None = None
    supply: Estimate | None = None
    confidence: float | None = None


def verdict_of(request: Request, results: Results, plan: LaunchPlan | None) -> Judged:
    """Judge the launch in use today if it was given, else the plan, else the measured workers.

    The last case is a host with too few nodes to stream weights from.
    """
    supply: Prediction | Estimate
    if request.consumption is None:
        return Judged()
    if results.pipeline is not None and last_end(results.pipeline, results.measurements, request.options.mode) is not None:
        return Judged()
    if plan is not None and request.options.current in (None, plan.layout):
        layout, supply = plan.layout, plan.predicted_samples_per_s
    elif request.options.current is not None:
        layout = request.options.current
        supply = recommend.predict_current(results.model(), request.consumption, request.cluster, request.options, layout)
    else:
        rates = {each.layout: each.samples_per_s for each in results.measurements if each.samples_per_s is not None}
        if request.options.wafer_mode != "weight_streaming" or not rates:
            return Judged()
        layout, supply = max(rates.items(), key=lambda rate: rate[1].estimate)
    verdict, confidence = recommend.judge(supply, request.consumption, request.options.headroom_ratio)
    return Judged(verdict, layout, supply.samples_per_s if isinstance(supply, Prediction) else supply, confidence)


def findings_of(request: Request, results: Results, plan: LaunchPlan | None) -> rules.Sifted:
    """Return the findings of the rules about the measurements and the plan."""
    return rules.sift(_case(request, results, plan), request.options.select, request.options.ignore)


def _case(request: Request, results: Results, plan: LaunchPlan | None) -> Case:
    assert results.pipeline is not None
    options = request.options
    return Case(
        pipeline=results.pipeline,
        mode=options.mode,
        is_sharded=results.is_sharded,
        measurements=tuple(results.measurements),
        profile=results.profile_of(plan.cpus_per_task if plan else None),
        plan=plan,
        cluster=request.cluster,
        host=request.host,
        storage=results.storage,
        stations=results.stations(),
        capacity=results.model(),
        demand_samples_per_s=request.consumption.samples_per_s.estimate if request.consumption is not None else None,
        training=training_of(params_from_json(options.params_json or "null"), has_wafer_model=options.wafer is not None),
        ends_epochs=request.ends_epochs,
    )

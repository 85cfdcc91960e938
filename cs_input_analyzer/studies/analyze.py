"""The main story. READ THIS SECOND, after `records/`.

Measure at a first guess, model the capacity, plan a launch, measure again with the planned number of workers announced (each reads
its own shard, and a shard may be slower than the whole), until the plan repeats or the budget ends; then judge and find.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from cs_input_analyzer import rules
from cs_input_analyzer.engines import Launcher
from cs_input_analyzer.errors import Interrupted, LaunchError, UsageError
from cs_input_analyzer.planning import buffers, capacity, feeding, recommend
from cs_input_analyzer.planning.evidence import last_end
from cs_input_analyzer.planning.function_table import function_table
from cs_input_analyzer.planning.gain_bounds import most_gain
from cs_input_analyzer.planning.launch_lines import launch_lines
from cs_input_analyzer.planning.params import params_from_json, training_of
from cs_input_analyzer.records import (
    SCHEMA_VERSION,
    UNTRIED,
    Analysis,
    Case,
    Cluster,
    Consumption,
    Edit,
    Estimate,
    Fixes,
    Host,
    LaunchPlan,
    Layout,
    Options,
    Prediction,
    StorageBasis,
    Tool,
    VerdictName,
    others_ratio,
)
from cs_input_analyzer.studies import prove
from cs_input_analyzer.studies.demand import with_mode, with_pipelines_batch
from cs_input_analyzer.studies.probing.probing import Probing
from cs_input_analyzer.studies.probing.results import Results
from cs_input_analyzer.units import counted

MAX_ROUNDS = 4
Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """All that one analysis starts from. `pickled` is the file of a function that cannot be imported by its `target` name;
    `is_tuning`: fixes are what it is for, so they get more of the time, and become a patch."""

    target: str
    pickled: str | None
    options: Options
    host: Host
    cluster: Cluster
    consumption: Consumption | None
    tool: Tool
    command: str
    created_at: str
    is_tuning: bool = False

    @property
    def step(self) -> int | None:
        """Samples of one step of the accelerator, as they were typed or as the demand was made for them; None where nobody said."""
        return self.options.batch_size or (self.consumption.batch_size if self.consumption is not None else None)


def analyze(job: Job, launcher: Launcher, progress: Progress) -> Analysis:
    """Runs the stages in order. Raises InputFunctionError, UsageError or LaunchError when nothing could be measured.

    Ctrl-C (KeyboardInterrupt) ends the measuring; what there is by then is analyzed, and marked `interrupted`.
    """
    options = replace(job.options, batch_size=job.step)
    probing = Probing(job.target, job.pickled, options, job.host, launcher, progress, is_tuning=job.is_tuning)
    is_interrupted = False
    if job.cluster.source != recommend.THIS_HOST:  # a plan for this host is a by-product: measuring goes on without one
        recommend.check_cluster(job.cluster, job.options)
    try:
        _measure(job, probing)
    except LaunchError as error:  # the disk is full, no process can be started: what was measured before stands
        if not probing.results.has_rate:
            raise
        probing.seconds.leave_out(f"all the rest: {error}")
    except KeyboardInterrupt:
        is_interrupted = True
        if not probing.results.has_rate or probing.results.pipeline is None:
            raise Interrupted("interrupted before anything was measured") from None
    job = _with_shared_storage(with_demand(job, probing.results), probing.results)
    plan = _plan(job, probing)
    sifted = findings_of(job, probing.results, plan)
    if is_interrupted:
        tried = prove.untried(sifted.findings, f"{UNTRIED}: {prove.INTERRUPTED}")
    else:
        tried = prove.prove_fixes(
            sifted.findings,
            probing,
            plan,
            replan=lambda fixes: _plan(job, probing, fixes),
            most_gain=lambda edits, cpus: _most_gain(job, probing.results, plan, edits, cpus),
            wants_patch=job.is_tuning,
        )
    plan = with_utilization(job, probing.results, tried.plan or plan)
    return _assemble(job, probing, plan, tried, sifted.ignored_count, is_interrupted or tried.is_interrupted)


def _measure(job: Job, probing: Probing) -> None:
    """All launches but those of the fixes, in their order; every launch of a plan is chosen by what the ones before it gave."""
    plan: LaunchPlan | None = None
    probing.seconds.keep_for_fixes()
    probing.measure_first(job.options.probe_layouts or capacity.first_probes(job.cluster, job.host.cpu_budget))
    job = with_demand(job, probing.results)
    if not any(finding.edits or finding.after for finding in findings_of(job, probing.results, None).findings):
        probing.seconds.keep_nothing_for_fixes()
    probing.measure_storage()
    probing.measure_next_probes(job.cluster)
    for _ in range(MAX_ROUNDS):
        plan = _plan(job, probing)
        if plan is None:
            break
        if not probing.turn_cold(plan, job.cluster) and (probing.results.has_measured(plan) or not probing.measure_round(plan)):
            break
    if plan is not None:
        probing.measure_nodes(plan)


def _plan(job: Job, probing: Probing, fixes: Fixes | None = None) -> LaunchPlan | None:
    """The plan for what was measured so far; that there is none is noted."""
    plan, probing.no_plan = plan_or_why(job, probing.results, fixes)
    if plan is None:
        probing.seconds.leave_out(f"a plan: {probing.no_plan}")
    return plan


def plan_or_why(job: Job, results: Results, fixes: Fixes | None = None) -> tuple[LaunchPlan | None, str | None]:
    """The plan for what was measured, or why there is none: the machine that measured may have no room for any launch, and was
    worth measuring all the same. Raises UsageError where no launch fits another cluster.

    `fixes`: those that were kept, for the what-if row about them.
    """
    cluster, options = job.cluster, job.options
    if results.pipeline is not None and (end := last_end(results.pipeline, results.measurements, options.mode)) is not None:
        count = "" if end.pass_elements is None else f" after {counted(end.pass_elements, 'element')}"
        return None, f"the data ended for good{count} (CSI302), so that no rate holds for a training"
    storage: StorageBasis | None = None if cluster.measured_storage_bytes_per_s is None else "measured"
    gain, gain_cpus = (fixes.measured_gain, fixes.layout.cpus_per_task) if fixes is not None else (None, 1)
    try:
        plan = recommend.recommend(
            results.model(), job.consumption, cluster, options, storage=storage, gain=gain, gain_cpus=gain_cpus
        )
        lines = launch_lines(plan, cluster, options, job.target)
    except UsageError as error:
        if cluster.source != recommend.THIS_HOST:
            raise
        return None, str(error)
    return replace(plan, launch=lines, confirmed_by=results.confirmation(plan), cache_state=results.cache), None


def _with_shared_storage(job: Job, results: Results) -> Job:
    """With what the storage gave to all nodes that were measured together, where they are of those that are planned for, and unless
    the user declared that."""
    scaling, cluster = results.scaling(), job.cluster
    if scaling is None or scaling.ceiling_bytes_per_s is None or cluster.storage_bytes_per_s is not None or not cluster.is_measured:
        return job
    ceiling = scaling.ceiling_bytes_per_s
    return replace(job, cluster=replace(cluster, storage_bytes_per_s=ceiling.estimate, measured_storage_bytes_per_s=ceiling))


def with_utilization(job: Job, results: Results, plan: LaunchPlan | None) -> LaunchPlan | None:
    """The plan with the share of time in which the accelerator will work: its workers replayed as they were measured, and its
    shuffles filled again at each pass."""
    shapes = feeding.shapes_of(results.traces_s)
    if plan is None or job.consumption is None or plan.expected_accelerator_utilization is None or not shapes:
        return plan
    utilization = plan.expected_accelerator_utilization
    if job.options.feed == "round-robin":
        utilization = feeding.expected_utilization(
            shapes,
            plan.predicted_samples_per_s,
            job.consumption,
            input_workers=plan.input_workers,
            depth=feeding.depth_of(results.pipeline) if results.pipeline else feeding.DEPTH,
            seed=job.options.seed,
        )
    refilling = buffers.refill_ratio(_case(job, results, plan)) or 0.0
    return replace(plan, expected_accelerator_utilization=utilization.scaled(1 - refilling))


def with_demand(job: Job, results: Results) -> Job:
    """With the demand of a wafer model that takes the pipeline's batches as they are, and the mode that it runs them in."""
    if job.consumption is not None or job.options.wafer is None or results.pipeline is None:
        return job
    consumption = with_pipelines_batch(job.options, results.pipeline.samples_per_element)
    options = with_mode(job.options, consumption=consumption)
    recommend.check_streaming_nodes(options)
    return replace(job, consumption=consumption, options=options)


def _assemble(
    job: Job, probing: Probing, plan: LaunchPlan | None, tried: prove.Tried, ignored_count: int, is_interrupted: bool
) -> Analysis:
    results = probing.results
    assert results.pipeline is not None
    judged = verdict_of(job, results, plan)
    return Analysis(
        schema_version=SCHEMA_VERSION,
        tool=job.tool,
        created_at=job.created_at,
        command=job.command,
        options=job.options,
        host=job.host,
        budget=probing.seconds.budget(),
        pipeline=results.pipeline,
        measurements=tuple(results.measurements),
        profile=results.profile_of(plan.cpus_per_task if plan else None),
        stations=results.stations(),
        storage=results.storage,
        capacity=results.model(),
        consumption=job.consumption,
        cluster=job.cluster,
        recommendation=plan,
        no_plan=None if plan is not None else probing.no_plan,
        findings=tried.findings,
        fixes=tried.fixes,
        **judged._asdict(),
        interrupted=is_interrupted,
        ignored_count=ignored_count,
        scaling=results.scaling(),
        functions=function_table(results.pipeline, tried.findings, is_sharded=results.is_sharded),
    )


class Judged(NamedTuple):
    """The verdict, the launch that it judges with its rate, and the confidence that is told; None where there is no such launch."""

    verdict: VerdictName = "unknown"
    verdict_layout: Layout | None = None
    supply: Estimate | None = None
    confidence: float | None = None


def verdict_of(job: Job, results: Results, plan: LaunchPlan | None) -> Judged:
    """Judges the launch in use today where one was given, else the plan; else, of a host that is too few nodes to stream weights
    from, the workers that were measured."""
    supply: Prediction | Estimate
    if job.consumption is None:
        return Judged()
    if results.pipeline is not None and last_end(results.pipeline, results.measurements, job.options.mode) is not None:
        return Judged()
    extrapolation_ratio = 1.0
    if plan is not None and job.options.current in (None, plan.layout):
        layout, supply, extrapolation_ratio = plan.layout, plan.predicted_samples_per_s, plan.extrapolation_ratio
    elif job.options.current is not None:
        layout = job.options.current
        supply = recommend.predict_current(results.model(), job.consumption, job.cluster, job.options, layout)
        extrapolation_ratio = supply.extrapolation_ratio
    else:
        rates = {each.layout: each.samples_per_s for each in results.measurements if each.samples_per_s is not None}
        if job.options.wafer_mode != "weight_streaming" or not rates:
            return Judged()
        layout, supply = max(rates.items(), key=lambda rate: rate[1].estimate)
    verdict, probability = recommend.judge(supply, job.consumption, job.options.headroom_ratio)
    confidence = recommend.capped(probability, others_ratio(results.measurements, results.cpu_budget), extrapolation_ratio)
    return Judged(verdict, layout, supply.samples_per_s if isinstance(supply, Prediction) else supply, confidence)


def _most_gain(job: Job, results: Results, plan: LaunchPlan | None, edits: Sequence[Edit], cpus: int) -> float | None:
    """What edits can gain in workers of this size; None where the costs of such a one were not measured."""
    profile = results.profile_of(cpus)
    if profile is None or profile.layout.cpus_per_task != cpus:
        return None
    return most_gain(replace(_case(job, results, plan), profile=profile), edits)


def findings_of(job: Job, results: Results, plan: LaunchPlan | None) -> rules.Sifted:
    return rules.sift(_case(job, results, plan), job.options.select, job.options.ignore)


def _case(job: Job, results: Results, plan: LaunchPlan | None) -> Case:
    assert results.pipeline is not None
    options = job.options
    return Case(
        pipeline=results.pipeline,
        mode=options.mode,
        is_sharded=results.is_sharded,
        measurements=tuple(results.measurements),
        profile=results.profile_of(plan.cpus_per_task if plan else None),
        plan=plan,
        cluster=job.cluster,
        host=job.host,
        storage=results.storage,
        stations=results.stations(),
        capacity=results.model(),
        demand_samples_per_s=job.consumption.samples_per_s.estimate if job.consumption is not None else None,
        training=training_of(params_from_json(options.params_json or "null"), options.dtype if options.wafer else None),
    )

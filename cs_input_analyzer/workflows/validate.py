"""The workflow after `analyze`: launch the predictions of a saved run for real, and record their errors.

Choose layouts that fit this host, the recommended one among them. Launch all of them in rounds, in random order, so
that none meets an idler host than the others. Compare each delivered rate with the prediction of the run's own model.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from cs_input_analyzer.engines import Launcher
from cs_input_analyzer.errors import AnalyzerError, InputFunctionError, Interrupted, UsageError
from cs_input_analyzer.host.cluster import this_host
from cs_input_analyzer.model import capacity
from cs_input_analyzer.model.estimates import half_width_of_mean, mean_of
from cs_input_analyzer.records import (
    OTHER_CACHE_RATIO,
    THIS_HOST,
    Analysis,
    CapacityModel,
    Cluster,
    Estimate,
    Feed,
    Host,
    LaunchPlan,
    Layout,
    Measurement,
    Options,
    PipelineGraph,
    Prediction,
    Validation,
    ValidationRow,
    others_ratio,
)
from cs_input_analyzer.request.again import Relaunch
from cs_input_analyzer.request.request import TOOL
from cs_input_analyzer.units import counted, format_ratio
from cs_input_analyzer.workflows.analyze import Progress
from cs_input_analyzer.workflows.changes.circumstances import machine_facts
from cs_input_analyzer.workflows.probing.launches import misfit
from cs_input_analyzer.workflows.probing.probing import Probing
from cs_input_analyzer.workflows.probing.results import Results
from cs_input_analyzer.workflows.probing.seconds import check_round, shortest_round_s
from cs_input_analyzer.workflows.remeasure import measured_rounds

# Rates as measured differ by about this much if other programs use so much more or less of the CPUs.
OTHER_BUSY_RATIO = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """Layouts to launch, which of them is the part of the plan that fits, and what the reader must know of the choice."""

    layouts: tuple[Layout, ...]
    part: Layout | None
    notes: tuple[str, ...] = ()


def validate(again: Relaunch, launcher: Launcher, progress: Progress) -> Analysis:
    """Return the run with its `validation`, and with the launches behind it among the measurements (in place of earlier ones).

    Ctrl-C (KeyboardInterrupt) ends the measuring; what there is by then is kept, and the validation marked `interrupted`.

    Raises:
        UsageError: a run without a model or plan, a layout that does not fit this host, too little time for one round.
        InputFunctionError, LaunchError, Interrupted: as `analysis.analyze`, where no layout could be measured.
    """
    model = _model_of(again.run)
    choice = _given(again, model, launcher) if again.layouts else _around_the_plan(again, model, launcher)
    probing = Probing(again.run.pipeline.target, None, _options(again), again.host, launcher, progress, role="validate")
    _, stopped = measured_rounds([probing], choice.layouts, again.rounds, "a launch that was predicted")
    counted_ones = _counting(again.run, probing.results.measurements)
    rows = tuple(_rows(again, model, choice, counted_ones))
    differences = tuple(_differences(again, probing.results))
    missing = tuple(_missing(again, choice.layouts, probing.results.measurements, counted_ones, stopped))
    if not rows and len(counted_ones) < len(probing.results.measurements):
        raise stopped or UsageError(f"nothing to compare: {'; '.join(missing)}")
    if not rows:
        raise stopped or InputFunctionError(f"no launch had a rate from each of its workers: {'; '.join(missing)}")
    return replace(
        again.run,
        measurements=(*(m for m in again.run.measurements if m.role == "probe"), *probing.results.measurements),
        validation=Validation(
            rows=rows,
            notes=(*differences, *choice.notes, *missing),
            is_alike=not differences,
            is_on_planned_nodes=_is_planned_kind(again.run.cluster, again.host),
            interrupted=isinstance(stopped, Interrupted),
            demand_samples_per_s=None if again.run.consumption is None else again.run.consumption.samples_per_s.estimate,
        ),
    )


def _counting(run: Analysis, measurements: Sequence[Measurement]) -> tuple[Measurement, ...]:
    """Return the launches to compare: no first pass that fills a cache, if the model was measured with a full one."""
    is_full = any(m.measured_workers and not m.is_filling_cache for m in run.measurements if m.role == "probe")
    return tuple(m for m in measurements if not (is_full and m.is_filling_cache))


def _rows(again: Relaunch, model: CapacityModel, choice: _Choice, measurements: Sequence[Measurement]) -> Iterator[ValidationRow]:
    """Return one row for each layout that was launched with all its workers at least once, in the order of the choice."""
    plan = again.run.recommendation
    for layout in choice.layouts:
        is_all = plan is not None and layout == plan.streaming
        launches = [rate for m in measurements if m.layout == layout and (rate := delivered(m, again.run.options.feed))]
        if launches:
            yield ValidationRow(
                layout=layout,
                role="recommended" if is_all else "part of the plan" if layout == choice.part else "neighbour",
                predicted_samples_per_s=_predicted(again, model, layout).samples_per_s,
                measured_samples_per_s=pooled(launches),
            )


def _is_planned_kind(cluster: Cluster, host: Host) -> bool:
    """Return whether the nodes of a plan are this host, or like it."""
    return cluster.source == THIS_HOST or cluster.is_measured or (cluster.cpu_model or "") == host.cpu_model


# --- one layout --------------------------------------------------------------------------------------------------------------


def delivered(measurement: Measurement, feed: Feed) -> Estimate | None:
    """Return the rate that one launch gave an accelerator with this feed. Return None unless every worker delivered.

    `first-come`: the sum of the workers. `round-robin`: workers × the slowest, for which it waits.
    """
    rates = [worker.samples_per_s for worker in measurement.workers if worker.samples_per_s is not None]
    if not rates or not measurement.is_whole:
        return None
    if feed == "first-come":
        return measurement.samples_per_s
    return min(rates, key=lambda rate: rate.estimate).scaled(len(rates))


def pooled(launches: Sequence[Estimate]) -> Estimate:
    """Return the mean over fresh launches of one layout; 90 %, `count` launches.

    Two errors in quadrature: launches differ from each other (Student's t on their spread), and each was seen for a while only. Of
    one launch alone the first is not known and left out.
    """
    mean = mean_of(launches)
    between = half_width_of_mean([rate.estimate for rate in launches])
    low = max(0.0, mean.estimate - math.hypot(between, mean.estimate - mean.low))
    high = mean.estimate + math.hypot(between, mean.high - mean.estimate)
    return Estimate(estimate=mean.estimate, low=low, high=high, count=len(launches))


def _predicted(again: Relaunch, model: CapacityModel, layout: Layout) -> Prediction:
    """Return the prediction of a launch. Every started task streams, so there is no chief."""
    feed = again.run.options.feed
    return capacity.predict(model, _cluster(again), layout, single_task_nodes=0, feed=feed, has_chief=False)


def _cluster(again: Relaunch) -> Cluster:
    """Return this host as a cluster of one node, or the available nodes like it, with the storage of the run.

    With another processor than the run's it is a machine of unknown speed to the model.
    """
    cluster = this_host(again.host)
    if again.nodes > 1:
        theirs = again.run.cluster
        cluster = replace(
            cluster,
            nodes=again.nodes,
            storage_bytes_per_s=theirs.storage_bytes_per_s,
            measured_storage_bytes_per_s=theirs.measured_storage_bytes_per_s,
        )
    return cluster if _is_alike(again) else replace(cluster, name=again.host.hostname, source=again.host.hostname, speed_ratio=None)


def _is_alike(again: Relaunch) -> bool:
    """Return whether this host has the processor of the run's, so that it was measured how busy it is."""
    return again.host.cpu_model == again.run.host.cpu_model


# --- which layouts -----------------------------------------------------------------------------------------------------------


def _given(again: Relaunch, model: CapacityModel, launcher: Launcher) -> _Choice:
    """Return the layouts that were asked for. Raise UsageError naming one that cannot run here, and why."""
    layouts = tuple(dict.fromkeys(again.layouts))
    for layout in layouts:
        problem = _problem(again, model, layout)
        if problem is not None:
            raise UsageError(f"--layouts {layout}: {problem}")
    check_round(layouts, launcher, again.options.max_seconds)
    plan = again.run.recommendation
    return _Choice(layouts=layouts, part=None if plan is None else _streaming_part(plan, again.nodes))


def _around_the_plan(again: Relaunch, model: CapacityModel, launcher: Launcher) -> _Choice:
    """Return the plan's workers of one node, or as many as fit this host, and the launches next to it that fit."""
    plan = again.run.recommendation
    if plan is None:
        raise UsageError("this run recommends no launch; say what to try with --layouts, for example --layouts 1x1x1,1x2x1")
    part = _streaming_part(plan, again.nodes)
    cpus = min(part.cpus_per_task, again.host.cpu_budget)
    sizes = range(min(part.tasks_per_node, again.host.cpu_budget // cpus), 0, -1)
    parts = [replace(part, tasks_per_node=tasks, cpus_per_task=cpus) for tasks in sizes]
    base = next((layout for layout in parts if _problem(again, model, layout) is None), None)
    if base is None:
        why = _problem(again, model, parts[-1])
        raise UsageError(f"not even one worker of the recommended launch fits this host: it {why}")
    fitting = [layout for layout in _neighbours(base) if _problem(again, model, layout) is None]
    kept = list(fitting)
    while kept and shortest_round_s([base, *kept], launcher) > again.options.max_seconds:
        kept.pop()
    notes = []
    if base != plan.layout:
        whole = f"the plan {plan.layout} streams from {counted(plan.input_workers, 'worker')}; launched was {base}"
        held = "what one node of it holds" if base.nodes == 1 else "those of its nodes that stream"
        notes.append(f"{whole}, {held if base == part else 'the largest part of it that fits here'}")
    if len(kept) < len(fitting):
        left_out = ", ".join(map(str, fitting[len(kept) :]))
        notes.append(f"no time for {left_out}: --max-seconds {again.options.max_seconds:g}")
    return _Choice(layouts=(base, *kept), part=base, notes=tuple(notes))


def _streaming_part(plan: LaunchPlan, nodes: int) -> Layout:
    """Return the tasks of the plan that stream, on as many of its nodes as there are here."""
    return replace(plan.streaming, nodes=min(nodes, plan.streaming.nodes))


def _neighbours(base: Layout) -> Iterator[Layout]:
    """Yield layouts around the plan.

    They have one task or CPU fewer and more, half and twice the tasks with as many CPUs in all, and with as many each,
    and one node fewer and more.
    """
    tasks, cpus = base.tasks_per_node, base.cpus_per_task
    pairs = [(tasks - 1, cpus), (tasks + 1, cpus), (tasks, cpus + 1), (tasks, cpus - 1)]
    pairs += [(tasks // 2, cpus * 2), (tasks * 2, cpus // 2), (tasks // 2, cpus), (tasks * 2, cpus)]
    for pair in dict.fromkeys(pairs):
        if min(pair) >= 1 and pair != (tasks, cpus):
            yield replace(base, tasks_per_node=pair[0], cpus_per_task=pair[1])
    for nodes in (base.nodes - 1, base.nodes + 1):
        if nodes >= 1:
            yield replace(base, nodes=nodes)


def _problem(again: Relaunch, model: CapacityModel, layout: Layout) -> str | None:
    """Why this host cannot launch a layout; None if it can."""
    return misfit(layout, again.host, again.nodes) or _predicted(again, model, layout).problem


# --- the run, and what differs from it ---------------------------------------------------------------------------------------


def _model_of(run: Analysis) -> CapacityModel:
    """Return the run's model, for launches that announce no more workers than they start. Raise UsageError if there is none.

    It leaves out the effect of the plan's worker count on a worker's shard, and the differences between those shards.
    """
    if run.capacity is None or not run.capacity.points:
        raise UsageError(
            "this run holds no capacity model, so there is no prediction to compare with: it was written by an older version, or "
            "ended before anything was measured; analyze again, and validate the new run"
        )
    return capacity.without_shards(run.capacity)


def _options(again: Relaunch) -> Options:
    """Return the run's own, with the cache in the state that its plan rests on."""
    plan, options = again.run.recommendation, again.run.options
    return replace(options, max_seconds=again.options.max_seconds, cache=options.cache if plan is None else plan.cache_state)


def _differences(again: Relaunch, results: Results) -> Iterator[str]:
    """Yield differences from the conditions of the run: with them, the errors are not those of the model alone."""
    run = again.run
    facts = zip(machine_facts(run.host, run.tool), machine_facts(again.host, TOOL), strict=True)
    changed = [f"{name} {before}, now {after}" for (name, before), (_, after) in facts if before != after]
    if changed:
        currency = "" if _is_alike(again) else "; so the predicted rates are on an idle node"
        yield f"not what the run was measured on: {'; '.join(changed)}{currency}"
    if run.interrupted:
        yield "the run was interrupted: its model rests on what was measured until then"
    if results.pipeline is not None and _shape(results.pipeline) != _shape(run.pipeline):
        yield "the pipeline is not the one of the run any more: its ops or its batch size have changed"
    then, now = run.others_ratio, others_ratio(results.measurements)
    if then is not None and now is not None and abs(now - then) > OTHER_BUSY_RATIO:
        yield f"other programs used {format_ratio(now)} of the CPUs, {format_ratio(then)} when the run was measured"
    before, after = (_cached_ratio(source, results.cache) for source in (run.measurements, results.measurements))
    if before is not None and after is not None and abs(before - after) > OTHER_CACHE_RATIO:
        yield f"{format_ratio(after)} of the files were in the page cache, {format_ratio(before)} when the run was measured"


def _shape(pipeline: PipelineGraph) -> tuple[object, ...]:
    """Return the properties that must be equal for two pipelines to cost the same, whatever files a worker reads."""
    return pipeline.batch_size, tuple((op.kind, op.within) for op in pipeline.ops)


def _cached_ratio(measurements: Sequence[Measurement], cache: str) -> float | None:
    """Return the share of cached files in most launches: the first one may have filled the cache for later ones."""
    known = [m.page_cache_ratio for m in measurements if m.cache_state == cache and m.page_cache_ratio is not None]
    return median(known) if known else None


def _missing(
    again: Relaunch,
    layouts: Sequence[Layout],
    measurements: Sequence[Measurement],
    counting: Sequence[Measurement],
    stopped: AnalyzerError | None,
) -> Iterator[str]:
    """Yield layouts with fewer launches than asked for, and why; those with the same reason together."""
    ending = "interrupted" if isinstance(stopped, Interrupted) else f"ended early, {stopped}" if stopped else "the time was up"
    alike: dict[str, list[str]] = {}
    for layout in layouts:
        launches = [m for m in measurements if m.layout == layout]
        whole = [m for m in launches if m in counting and delivered(m, again.run.options.feed) is not None]
        lost = [worker for m in launches for worker in m.workers if worker.samples_per_s is None]
        if len(whole) < again.rounds:
            why = f"a worker gave no rate ({lost[0].message or lost[0].status})" if lost else ending
            if any(m not in counting for m in launches):
                why = (
                    "its cache was not full when the time was up, and the prediction is for a full one; give it more --max-seconds"
                )
            alike.setdefault(f"measured in {len(whole)} of {again.rounds} rounds: {why}", []).append(str(layout))
    for what, names in alike.items():
        yield f"{', '.join(names)} {what}"

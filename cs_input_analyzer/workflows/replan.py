"""Another story: a saved run planned again, for another demand, cluster or launch in use today. Nothing is measured.

What the run measured stays as it is, and so does what a prediction rests on. The demand and the cluster are as the run has them,
unless they are asked for anew; the plan, the verdict and the findings follow from both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cs_input_analyzer.errors import Mistakes, UsageError
from cs_input_analyzer.host import cluster as clusters
from cs_input_analyzer.host.cluster.file import LAUNCH_FIELDS
from cs_input_analyzer.host.machine import utc_now
from cs_input_analyzer.host.node_speed import with_speed_of_same_model
from cs_input_analyzer.model import recommend
from cs_input_analyzer.records import UNTRIED, Analysis, Cluster, Finding, LaunchPlan, Options, Parent, Validation
from cs_input_analyzer.request.checks import SOURCES, sources_of
from cs_input_analyzer.request.demand import resolved
from cs_input_analyzer.request.keywords import SHORT, ClusterKeywords, DemandKeywords, PlanKeywords, fields_of, known_among
from cs_input_analyzer.request.options import NO_LAUNCH, as_cluster, read_options, with_cluster_file
from cs_input_analyzer.request.request import Request, with_pipelines_batch
from cs_input_analyzer.tfdata.samples import check_demand
from cs_input_analyzer.workflows import prove
from cs_input_analyzer.workflows.analyze import findings_of, plan_or_why, verdict_of, with_effect, with_utilization
from cs_input_analyzer.workflows.kept import key_of
from cs_input_analyzer.workflows.probing.results import Results

OF_DEMAND = fields_of(DemandKeywords)
OF_CLUSTER = ("cluster", *fields_of(ClusterKeywords))
NOT_TRIED = f"{UNTRIED}: this run was planned from a saved one"


def with_choices(run: Analysis, choices: Mapping[str, Any], declared: Cluster | None) -> dict[str, Any]:
    """Return the choices of a run with those that are made anew; what says the same in another way gives way to them."""
    kept = {name: getattr(run.options, name) for name in Options.__dataclass_fields__}
    fresh = Options()
    if any(choices.get(name) is not None for name in SOURCES.values()):
        # How the wafer executes stays, unless another network decides it.
        of_demand = [name for name in OF_DEMAND if name != "wafer_mode" or choices.get("wafer") is not None]
        kept |= {name: getattr(fresh, name) for name in of_demand}
    if choices.get("cluster") is not None or declared is not None:
        of_file = with_cluster_file({"cluster": run.options.cluster})
        of_last = [name for name in LAUNCH_FIELDS if name in of_file and of_file[name] == kept[name]]
        kept |= {name: getattr(fresh, name) for name in (*OF_CLUSTER, *of_last)}
    return kept | dict(choices)


def plan(
    found: Analysis,
    *,
    path: str | None = None,
    command: str,
    cluster: Cluster | Mapping[str, Any] | str | Path | None = None,
    mistakes: Mistakes | None = None,
    **choices: Any,
) -> Analysis:
    """Return a saved run planned again for the choices; those that are None stay as they are in the run.

    Args:
        path: the file that the run was read from; None if there was none.
        command: what was called or typed.
        cluster: given as such or by its name.
        mistakes: those that were found before.
        choices: `PlanKeywords`.

    Raises:
        UsageError: all mistakes at once.
    """
    noted = Mistakes() if mistakes is None else mistakes
    known = known_among(choices, PlanKeywords, noted)
    declared, name = as_cluster(cluster, noted)
    if name is not None or declared is not None:
        known["cluster"] = name
    wanted = {SHORT.get(name, name): choice for name, choice in known.items() if choice is not None}
    wanted = with_cluster_file(wanted, declared)
    merged = with_choices(found, wanted, declared)
    options = read_options(noted, **merged | {"current": merged["current"] or NO_LAUNCH})
    count, counted_as = wanted.get("samples_per_element"), found.pipeline.samples_per_element
    if count is not None and counted_as is not None and counted_as.value != count:
        noted.note(
            f"--samples-per-element {count}: the rates of this run are of {counted_as.value or 'an unknown number of'} samples an "
            "element; analyze again with it"
        )
    noted.raise_any()
    assert options is not None
    request = Request(
        target=found.pipeline.target,
        options=options if merged["current"] is not None else replace(options, current=None),
        host=found.host,
        cluster=found.cluster,
        consumption=found.consumption,
        command=command,
        created_at=utc_now(),
        ends_epochs=found.capture is not None and found.capture.ends_epochs,
    )
    return plan_again(found, request, tuple(wanted), declared=declared, path=path)


def plan_again(run: Analysis, request: Request, changed: Sequence[str], *, declared: Cluster | None, path: str | None) -> Analysis:
    """Return the run with the plan, the verdict and the findings that follow from the request's options.

    Args:
        request: the options as `with_choices` has them, and who plans; the demand and the cluster of the run.
        changed: fields of the options that were chosen anew.
        declared: a cluster given as such, in place of `Options.cluster`.
        path: the file that the run was read from; None if there was none.

    Raises:
        UsageError: a demand or cluster that cannot be, or on which no launch of this pipeline can run; a run that holds too little.
    """
    results = Results.of(run)
    if not results.has_rate:
        raise UsageError("this run measured no rate, so there is nothing to plan with: analyze again")
    mistakes = Mistakes()
    with mistakes:
        request = replace(request, cluster=_cluster(run, request.options, changed, declared))
    with mistakes:
        request = _with_demand(request, results, is_new=any(name in OF_DEMAND for name in changed))
    mistakes.raise_any()
    request = _with_kept_plan(run, request)
    try:
        with np.errstate(all="ignore"):  # what is not finite is no estimate in the end
            plan, no_plan = plan_or_why(request, results)
            plan = with_utilization(request, results, plan)
            judged = verdict_of(request, results, plan)
            sifted = findings_of(request, results, plan)
            fixes = None if run.fixes is None else with_effect(request, results, plan, run.fixes)
    except (ArithmeticError, ValueError) as error:  # somebody has edited the file
        message = f"this run holds numbers that no measurement gives, so nothing can be planned with them: {error}"
        raise UsageError(message) from error
    found = _with_proofs(sifted.findings, run.findings)
    return replace(
        run,
        tool=request.tool,
        created_at=request.created_at,
        command=request.command,
        options=request.options,
        cluster=request.cluster,
        consumption=request.consumption,
        recommendation=plan,
        no_plan=no_plan,
        findings=found,
        ignored_count=sifted.ignored_count,
        fixes=fixes,
        **judged._asdict(),
        validation=_validation(run, request, plan),
        parent=Parent(path=path, created_at=run.created_at, command=run.command),
    )


def _cluster(run: Analysis, options: Options, changed: Sequence[str], declared: Cluster | None) -> Cluster:
    """Return the run's own, with the flags that are new; or the one that is named, beside the machine that measured."""
    if declared is None and "cluster" not in changed:
        declared = run.cluster
        kept = [name for name in OF_CLUSTER if name not in changed]
        options = replace(options, **{name: getattr(Options(), name) for name in kept})
    found = with_speed_of_same_model(clusters.resolve(options, run.host, declared=declared), run.host)
    if "storage_bytes_per_s" in changed:
        found = replace(found, measured_storage_bytes_per_s=None)
    recommend.check_single_task_nodes(found, options)
    if found.source != recommend.THIS_HOST:  # a plan for the machine that measured is a by-product
        recommend.check_cluster(found, options)
    return found


def _with_demand(request: Request, results: Results, *, is_new: bool) -> Request:
    """Return the request with the demand that the options name, if it is another than the run's."""
    assert results.pipeline is not None
    options, consumption = resolved(request.options, consumption=None if is_new else request.consumption)
    request = replace(request, options=options, consumption=consumption if is_new else request.consumption)
    if is_new:
        if (found := results.pipeline.samples_per_element) is not None:
            check_demand(found, request.step, has_demand=bool(sources_of(options)))
        request = with_pipelines_batch(request, results.pipeline)
    return request


def _with_proofs(findings: Sequence[Finding], before: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings with what the run tried of them: a fix that another plan changes was not."""
    tried = {(one.code, one.op, one.source, one.edits): one for one in before}
    untried = prove.untried(findings, NOT_TRIED).findings
    return tuple(
        one
        if (old := tried.get((one.code, one.op, one.source, one.edits))) is None
        else replace(old, severity=one.severity, message=one.message, evidence=one.evidence, fix=one.fix)
        for one in untried
    )


def _with_kept_plan(run: Analysis, request: Request) -> Request:
    """Return the request with the plan that the run had kept, if it is for the same."""
    plan = run.recommendation
    if plan is None or plan.kept_from is None or request.options.fresh or run.consumption is None or request.consumption is None:
        return request
    before = key_of(run.pipeline, run.options, run.cluster, run.consumption)
    is_same = before == key_of(run.pipeline, request.options, request.cluster, request.consumption)
    return replace(request, kept=plan.kept_from) if is_same else request


def _validation(run: Analysis, request: Request, plan: LaunchPlan | None) -> Validation | None:
    """Return the rows as they are; recommended is what this plan recommends, if it is for the same nodes and feed."""
    validation = run.validation
    if validation is None:
        return None
    is_same = request.options.feed == run.options.feed and request.cluster.source == run.cluster.source
    layout = plan.streaming if plan is not None and is_same else None
    rows = tuple(replace(row, role="recommended" if row.layout == layout else "neighbour") for row in validation.rows)
    demand = request.consumption.samples_per_s.estimate if request.consumption is not None else None
    return replace(validation, rows=rows, demand_samples_per_s=demand)

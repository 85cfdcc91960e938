"""Keep the plan of an earlier run while it feeds the accelerator, so that a plan does not follow every wobble of a measurement."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, replace

from cs_input_analyzer.errors import AnalyzerError
from cs_input_analyzer.host import history
from cs_input_analyzer.records import Analysis, Cluster, Consumption, KeptPlan, Options, PipelineGraph
from cs_input_analyzer.request.request import Request

# Parameters that differ from run to run of the same code.
CHANGING = ("seed", "seed2")
OF_LAUNCH = ("mode", "params_json", "headroom_ratio", "feed", "single_task_nodes", "shared_nodes", "cyclic", "cache")


def with_kept_plan(request: Request, pipeline: PipelineGraph | None) -> Request:
    """Return the request with the plan that an earlier run made for the same; as it is with `--fresh`, or without a demand."""
    if request.options.fresh or pipeline is None or request.consumption is None:
        return request
    key = key_of(pipeline, request.options, request.cluster, request.consumption)
    return replace(request, kept=history.kept_plan(key))


def remember(found: Analysis) -> None:
    """Remember the plan of a run, if it feeds the accelerator. Without a cache folder every run stands alone."""
    plan = found.recommendation
    if plan is None or not plan.meets_demand or found.consumption is None:
        return
    key = key_of(found.pipeline, found.options, found.cluster, found.consumption)
    with suppress(OSError, AnalyzerError):
        history.remember_plan(key, plan.kept_from or KeptPlan(layout=plan.layout, created_at=found.created_at))


def key_of(pipeline: PipelineGraph, options: Options, cluster: Cluster, consumption: Consumption) -> str:
    """Return a name of all that a plan is for: pipeline, params, files, cluster, demand, headroom, and this version of ours."""
    from cs_input_analyzer import __version__

    ops = [
        (op.kind, op.inputs, op.function_ops, {name: value for name, value in op.parameters.items() if name not in CHANGING})
        for op in pipeline.ops
    ]
    chosen = {name: getattr(options, name) for name in OF_LAUNCH}
    nodes = asdict(replace(cluster, measured_storage_bytes_per_s=None, storage_bytes_per_s=options.storage_bytes_per_s))
    files = pipeline.files.count if pipeline.files is not None else None
    parts = (__version__, pipeline.target, ops, files, chosen, nodes, asdict(consumption))
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()

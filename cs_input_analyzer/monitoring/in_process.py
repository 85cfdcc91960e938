"""`recommend_for`: what one worker like this process gives, and how many of it a demand needs, from inside a training script."""

from __future__ import annotations

import math
import socket
from dataclasses import dataclass, replace
from typing import Any, Literal

from cs_input_analyzer import rules
from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.machines.cluster import this_host
from cs_input_analyzer.machines.host import read_host
from cs_input_analyzer.monitoring.alone import Alone, check_dataset, measure_alone
from cs_input_analyzer.pipeline import graph
from cs_input_analyzer.pipeline.lineage import deals_out_files
from cs_input_analyzer.pipeline.samples import check_demand, element_sentence
from cs_input_analyzer.planning import recommend
from cs_input_analyzer.records import (
    Case,
    Consumption,
    Estimate,
    Finding,
    Host,
    Layout,
    Measurement,
    Options,
    PipelineGraph,
    VerdictName,
    WorkerResult,
)
from cs_input_analyzer.units import counted, format_estimate, format_rate
from cs_input_analyzer.worker.summary import measurement_of

TARGET = "a dataset in this process"
NOT_A_PLAN = (
    "measured inside this process, beside all else that runs here: it feeds no capacity model and is no launch plan; "
    "csia.analyze(function, …) measures in processes of its own and plans one"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """What was found about a dataset where it is used.

    Attributes:
        isolation: always `none`: nothing kept the rest of this process from taking part. Never made into a capacity model.
        measurement: of one worker, this process with all its CPUs.
        workers_needed: such workers, each with as many CPUs to itself, whose rates at the low end add up to the demand with
            headroom, if files, storage and network keep up; None without a demand.
        verdict: on one such worker; `unknown` without a demand.
        findings: of the rules that need no more than the graph and this measurement; no fix was tried (`csia.tune` does).
    """

    pipeline: PipelineGraph
    measurement: Measurement
    consumption: Consumption | None
    workers_needed: int | None
    verdict: VerdictName
    confidence: float | None
    findings: tuple[Finding, ...]
    isolation: Literal["none"] = "none"

    @property
    def samples_per_s(self) -> Estimate:
        """Of this process alone."""
        found = self.measurement.samples_per_s
        assert found is not None
        return found

    @property
    def cpus(self) -> int:
        return self.measurement.layout.cpus_per_task

    def __str__(self) -> str:
        samples = self.pipeline.samples_per_element
        lines = [
            f"one worker of {counted(self.cpus, 'CPU')}, this process: {format_estimate(self.samples_per_s)} (isolation: none)",
            *([] if samples is None else [element_sentence(samples, self.consumption.batch_size if self.consumption else None)]),
        ]
        if self.consumption is not None:
            demand = format_rate(self.consumption.samples_per_s.estimate)
            needed = f"it takes {demand}"
            if self.workers_needed is not None:
                needed = f"{counted(self.workers_needed, 'such worker')} for {demand} with headroom"
            lines.append(f"{self.verdict.replace('_', '-')}: {needed}")
        lines += [f"{one.code} {one.severity}: {one.message}{f' ({one.source})' if one.source else ''}" for one in self.findings]
        return "\n".join([*lines, NOT_A_PLAN])


def case_here(pipeline: PipelineGraph, host: Host, *measurements: Measurement) -> Case:
    """What rules may know of a dataset in this process."""
    return Case(
        pipeline=pipeline,
        mode="train",
        is_sharded=deals_out_files(pipeline.ops),
        measurements=measurements,
        profile=None,
        plan=None,
        cluster=this_host(host),
        host=host,
    )


def recommend_for(dataset: Any, options: Options, consumption: Consumption | None, *, seconds: float) -> Recommendation:
    """Reads `dataset` here for about `seconds`; of the `options`, those about a demand count.

    Raises:
        UsageError: `batch_size` is no multiple of what an element holds, or nothing says what one holds; not a `tf.data.Dataset`,
            or it cannot be read here (says why).
    """
    check_dataset(dataset, "recommend_for")
    log, said, headroom = graph.SourceLog(), options.samples_per_element, options.headroom_ratio
    pipeline = graph.read_graph(dataset, log, target=TARGET, said=said, demand_size=options.batch_size)
    samples = pipeline.samples_per_element
    assert samples is not None
    check_demand(samples, options.batch_size, has_demand=consumption is not None)
    alone = measure_alone(dataset, samples, max_s=seconds)
    if alone.samples_per_s is None:
        raise UsageError(f"nothing can be recommended: {alone.missing}")
    host, rate = read_host(), alone.samples_per_s
    measurement = _measurement(alone, rate, host)
    needed = None
    if consumption is not None and rate.low > 0:
        needed = max(1, math.ceil(recommend.needed_per_s(consumption, headroom).estimate / rate.low))
    verdict, confidence = recommend.judge(rate, consumption, headroom)
    return Recommendation(
        pipeline=pipeline,
        measurement=measurement,
        consumption=consumption,
        workers_needed=needed,
        verdict=verdict,
        confidence=confidence,
        findings=rules.sift(case_here(pipeline, host, measurement)).findings,
    )


def _measurement(alone: Alone, rate: Estimate, host: Host) -> Measurement:
    worker = WorkerResult(
        index=0, node=socket.gethostname(), status="done", samples_per_s=rate, cpu_s_per_sample=alone.cpu_s_per_sample
    )
    layout = Layout(nodes=1, tasks_per_node=1, cpus_per_task=host.cpu_budget)
    return replace(measurement_of(layout, 1, (worker,), why="read inside the process that uses it"), isolation="none")

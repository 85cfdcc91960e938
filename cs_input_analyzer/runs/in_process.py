"""Measure a dataset inside a training process: its rate by itself, and how many such workers a demand needs.

The process has all its CPUs, the caches of what was read before, and whatever else runs in it. So the result is marked
`isolation: none`, and is never part of a capacity model.
"""

from __future__ import annotations

import math
import os
import socket
import threading
from dataclasses import dataclass, replace
from typing import Any, Literal

from cs_input_analyzer import rules
from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.host.cluster import this_host
from cs_input_analyzer.host.counters import CounterReader
from cs_input_analyzer.host.machine import read_host
from cs_input_analyzer.model import recommend
from cs_input_analyzer.records import (
    Case,
    Consumption,
    Estimate,
    Finding,
    Host,
    Layout,
    Measurement,
    Op,
    Options,
    PipelineGraph,
    SamplesPerElement,
    VerdictName,
    WorkerResult,
)
from cs_input_analyzer.runs.verdict import InputAlone
from cs_input_analyzer.tfdata import graph
from cs_input_analyzer.tfdata.lineage import deals_out_files
from cs_input_analyzer.tfdata.op_kinds import THREADED, WRITERS
from cs_input_analyzer.tfdata.op_traits import prefetches_by_itself
from cs_input_analyzer.tfdata.samples import check_demand, element_sentence
from cs_input_analyzer.units import counted, format_estimate, format_rate, in_a_line
from cs_input_analyzer.worker.summary import measurement_of

TARGET = "a dataset in this process"
NOT_A_PLAN = (
    "measured inside this process, beside all else that runs here: it feeds no capacity model and is no launch plan; "
    "csia.analyze(function, …) measures in processes of its own and plans one"
)
# Added to the time for measuring before a pipeline that gives nothing is left alone.
GRACE_S = 10.0
FEWEST_BATCHES = 8


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Recommendation:
    """The measurement of a dataset inside the process that uses it.

    Attributes:
        isolation: always `none`: nothing kept the rest of this process from taking part.
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
        """Return the rate of this process alone."""
        found = self.measurement.samples_per_s
        assert found is not None
        return found

    @property
    def cpus(self) -> int:
        """Return the CPUs of the measurement."""
        return self.measurement.layout.cpus_per_task

    def __repr__(self) -> str:
        needed = "" if self.workers_needed is None else f", {counted(self.workers_needed, 'such worker')} needed"
        return in_a_line(f"Recommendation {self.verdict}: {format_estimate(self.samples_per_s)} here{needed}")

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


def recommend_for(dataset: Any, options: Options, consumption: Consumption | None, *, seconds: float) -> Recommendation:
    """Read `dataset` here for about `seconds`; of the `options`, those about a demand count.

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
    worker = WorkerResult(
        index=0, node=socket.gethostname(), status="done", samples_per_s=rate, cpu_s_per_sample=alone.cpu_s_per_sample
    )
    layout = Layout(nodes=1, tasks_per_node=1, cpus_per_task=host.cpu_budget)
    measurement = replace(measurement_of(layout, 1, (worker,), why="read inside the process that uses it"), isolation="none")
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


def case_here(pipeline: PipelineGraph, host: Host, *measurements: Measurement) -> Case:
    """Return what rules may know of a dataset in this process."""
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


def check_dataset(dataset: Any, function: str) -> None:
    """Raise UsageError if what this `function` of ours was given cannot be read here."""
    import tensorflow as tf

    if not isinstance(dataset, tf.data.Dataset):
        raise UsageError(f"{function} takes a tf.data.Dataset, not a {type(dataset).__name__}")
    if not tf.executing_eagerly():
        raise UsageError(f"{function} measures, which cannot be done inside a tf.function or a graph; call it outside")


def measure_alone(dataset: Any, samples: SamplesPerElement | int, *, max_s: float) -> InputAlone:
    """Read `dataset`, a `tf.data.Dataset`, through an iterator of its own for about `max_s` seconds. Raise nothing.

    It is read on another thread: one that hangs is left behind, as no call into a pipeline can be taken back.

    Args:
        samples: how many an element holds; as a number, what the user says.
    """
    held = SamplesPerElement(value=samples, source="batch_size of the monitor") if isinstance(samples, int) else samples
    found: list[InputAlone] = []

    def read() -> None:
        try:
            found.append(_measured(dataset, _ops_of(dataset), held, max_s))
        except UsageError as error:
            found.append(InputAlone(missing=str(error)))
        except Exception as error:  # the user's pipeline, in whatever way it fails
            found.append(InputAlone(missing=f"reading the dataset failed: {type(error).__name__}: {str(error)[:300]}"))

    reader = threading.Thread(target=read, daemon=True, name="csia-alone")
    reader.start()
    reader.join(max_s + GRACE_S)
    return found[0] if found else InputAlone(missing=f"the dataset gave too little in {max_s + GRACE_S:.0f} s for a rate")


def _ops_of(dataset: Any) -> tuple[Op, ...]:
    """Return the ops of a dataset that may be read. Raise UsageError with the reason if it may not."""
    check_dataset(dataset, "KerasInputMonitor")
    ops = graph.ops_of(graph.graph_def_of(dataset))
    for op in ops:
        file = str(op.parameters.get("filename") or "") if op.kind == "Cache" else ""
        if op.kind in WRITERS or (file and not os.path.exists(f"{file}.index")):  # a complete cache is only read
            raise UsageError(
                f"the dataset writes files ({op.name}), and reading a part of it would leave them unfinished for the training"
            )
    return ops


def _measured(dataset: Any, ops: tuple[Op, ...], samples: SamplesPerElement, max_s: float) -> InputAlone:
    import numpy as np

    from cs_input_analyzer.model.steady_state import rate_of, steady_window
    from cs_input_analyzer.worker.sampling import SamplingLoop, counted_here
    from cs_input_analyzer.worker.steady_clock import now_s

    if samples.counted_in is not None:
        samples = counted_here(next(iter(dataset), ()), samples)
    loop, iterator = SamplingLoop(counted_in=samples.counted_in, rows=samples.rows), iter(dataset.repeat())
    loop(iterator, 0, 0.0)  # traces it
    stamps_s: list[float] = []
    held: list[int] = []
    began_cpu_s, until_s, is_over = CounterReader().read().cpu_s, now_s() + max_s, False
    while now_s() < until_s and not is_over:
        chunk = loop(iterator, until_s=until_s)
        stamps_s.extend(chunk.stamps_s)
        held.extend(chunk.samples if chunk.samples is not None else [samples.value or 1] * len(chunk.stamps_s))
        if chunk.error is not None:
            return InputAlone(missing=f"reading the dataset failed: {str(chunk.error)[:300]}")
        is_over = chunk.ended
    cpu_s = CounterReader().read().cpu_s - began_cpu_s
    window = steady_window(np.asarray(stamps_s, dtype=np.float64)) if len(stamps_s) >= FEWEST_BATCHES else None
    if window is None:
        return InputAlone(missing=f"the dataset gave {len(stamps_s)} batches in {max_s:g} s")
    mean = float(np.mean(held[window.first + 1 :]))
    if mean <= 0:
        return InputAlone(missing="how many samples its batches hold is not known: give batch_size")
    return InputAlone(
        samples_per_s=rate_of(window.gap_s, mean),
        is_overlapped=prefetches_by_itself(ops) or any(op.kind in THREADED and op.within is None for op in ops),
        cpu_s_per_sample=cpu_s / float(sum(held)),
    )

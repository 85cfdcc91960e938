"""A launcher whose workers deliver the rates of a truth, with noise; its clock moves only when it runs something."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from benchmarks.simulated_nodes.truth import Rates, Truth, WorkerRate
from cs_input_analyzer.engines import LaunchResult, WorkPlan
from cs_input_analyzer.engines.launch import OnSampled
from cs_input_analyzer.records import (
    Component,
    Estimate,
    FileSet,
    Layout,
    Measurement,
    Noise,
    Op,
    OpCost,
    PipelineGraph,
    Profile,
    SteadyState,
    WorkerResult,
)

# As on this project's machines: TensorFlow is imported once, and workers are forked from that process, two a second and CPU.
IMPORT_S, FORK_S, BUILD_S = 3.0, 0.1, 1.0
BATCH = 32
BLOCKS = 32
NORMAL_95 = 1.645


@dataclass(frozen=True)
class Handle:
    layout: Layout


class SimulatedLauncher:
    """Attributes: `launches`, `worker_starts`: how many there were."""

    def __init__(self, truth: Truth, rates: Rates, seed: int) -> None:
        self.truth, self.rates = truth, rates
        self.random = np.random.default_rng(seed)
        self.nodes = truth.cluster.measured_nodes
        self.node_logs = self.random.normal(0, truth.cluster.spread, truth.cluster.nodes)
        self.clock_s = 0.0
        self.launches = self.worker_starts = 0
        self.pipeline = _pipeline(truth)

    def now_s(self) -> float:
        return self.clock_s

    def free_bytes(self) -> int:
        return int(self.truth.node.memory_bytes or 4e9 * self.truth.node.cpus)

    def starting_s(self, workers: int) -> float:
        return FORK_S * workers + (0.0 if self.launches else IMPORT_S)

    def start(self, layout: Layout) -> Handle:
        return Handle(layout)

    def run(self, handle: Handle, plan: WorkPlan, on_sampled: OnSampled | None = None) -> LaunchResult:
        layout = handle.layout
        window_s = min(plan.max_window_s, max(plan.min_window_s, 2.5))
        starting_s = self.starting_s(layout.tasks) + BUILD_S
        self.clock_s += starting_s + window_s
        self.launches += 1
        self.worker_starts += len(plan.worker_indices)
        tasks = max(1, len(plan.worker_indices) // layout.nodes)
        true = self.rates(layout.nodes, tasks, layout.cpus_per_task)
        launch_log = self.random.normal(0, self.truth.noise.launch)
        others = min(0.9, self.random.exponential(self.truth.noise.others)) if self.truth.noise.others else 0.0
        workers = tuple(
            self._worker(index, place // tasks, true, launch_log, others, layout) for place, index in enumerate(plan.worker_indices)
        )
        rates = [worker.samples_per_s.estimate for worker in workers if worker.samples_per_s is not None]
        measurement = Measurement(
            layout=layout,
            num_workers=plan.num_workers,
            cache_state=plan.cache,
            role=plan.role,
            isolation="process",
            workers=workers,
            samples_per_s=Estimate.exact(math.fsum(rates)),
            page_cache_ratio=0.0 if self.truth.pipeline.read_bytes else None,
            steady_state=workers[0].steady_state,
            why=plan.why,
        )
        return LaunchResult(
            measurement=measurement,
            pipeline=self.pipeline,
            files=(),
            profile=self._profile(layout, true, workers[0].cpu_s_per_sample or true.cpu_s_per_sample),
            failure=None,
            starting_s=starting_s,
            transient_s=0.1,
        )

    def close(self) -> None:
        """Hold nothing."""

    def _worker(self, index: int, node: int, true: WorkerRate, launch_log: float, others: float, layout: Layout) -> WorkerResult:
        noise, pipeline = self.truth.noise, self.truth.pipeline
        log = launch_log + self.node_logs[node] + self.random.normal(0, noise.process)
        # Other work takes CPUs from those that compute, and nothing from those that wait.
        used_ratio = min(1.0, true.samples_per_s * true.cpu_s_per_sample / layout.cpus_per_task)
        left_ratio = min(1.0, (1 - others) / used_ratio)
        steady = true.samples_per_s * math.exp(log) * left_ratio
        blocks = steady * np.exp(self.random.normal(0, noise.window * math.sqrt(BLOCKS), BLOCKS))
        rate = float(blocks.mean())
        half = NORMAL_95 * float(blocks.std(ddof=1)) / math.sqrt(BLOCKS)
        return WorkerResult(
            index=index,
            node=f"node{node}",
            status="done",
            samples_per_s=Estimate(estimate=rate, low=rate - half, high=rate + half, count=BLOCKS),
            batches_per_s=rate / BATCH,
            cpu_s_per_sample=true.cpu_s_per_sample * math.exp(self.random.normal(0, 0.005)),
            bytes_read_per_sample=pipeline.read_bytes or None,
            bytes_out_per_sample=None,
            private_bytes=int(pipeline.worker_bytes),
            shared_bytes=400_000_000,
            steady_state=_steady_state(),
            noise=Noise(
                run_queue_wait_ratio=0.1 + others,
                steal_ratio=0.0,
                preempted_ratio=others,
                others_ratio=others + 0.002,
            ),
            block_samples_per_s=tuple(float(block) for block in blocks),
        )

    def _profile(self, layout: Layout, true: WorkerRate, cpu_s: float) -> Profile:
        """Return the costs that the running pipeline shows: its serial op and its Python functions have rows of their own."""
        side_by_side_s = max(0.0, cpu_s - true.serial_s - true.python_s)
        costs = {"map": side_by_side_s, "map_2": true.serial_s, "map_3": true.python_s}
        rows = []
        for op in self.pipeline.ops:
            seconds = costs.get(op.name, 0.0)
            width = 1.0 if op.name == "map_2" else float(layout.cpus_per_task)
            rows.append(
                OpCost(
                    name=op.name,
                    kind=op.kind,
                    self_cpu_s_per_sample=seconds,
                    wait_s_per_sample=0.0,
                    share_ratio=seconds / cpu_s,
                    parallelism=width if op.kind == "ParallelMap" else None,
                    source=op.source,
                    elements_per_sample=1.0,
                    bytes_in_per_sample=0.0,
                    bytes_out_per_sample=0.0,
                    buffered_elements=0.0,
                    is_serial=op.name == "map_2",
                )
            )
        return Profile(layout=layout, harness_us_per_batch=20.0, cpu_s_per_sample=cpu_s, ops=tuple(rows))


def _pipeline(truth: Truth) -> PipelineGraph:
    """Return the graph: files, a parallel map, where the truth has them a serial map and a Python function, then prefetch."""
    made: list[Op] = []

    def add(name: str, kind: str, **more: object) -> None:
        inputs = (made[-1].name,) if made else ()
        parameters = more.pop("parameters", {})
        made.append(Op(name=name, kind=kind, source=f"data.py:{len(made) + 10}", inputs=inputs, parameters=parameters, **more))  # type: ignore[arg-type]

    add("tensor_slices", "TensorSlice")
    add("shard", "Shard", parameters={"num_shards": 1, "index": 0})
    add("interleave", "ParallelInterleave", parameters={"cycle_length": truth.pipeline.readers, "num_parallel_calls": "AUTOTUNE"})
    add("map", "ParallelMap", parameters={"num_parallel_calls": "AUTOTUNE", "deterministic": False})
    if truth.pipeline.serial_s:
        add("map_2", "Map")
    if truth.pipeline.python_s:
        add("map_3", "ParallelMap", parameters={"num_parallel_calls": "AUTOTUNE"}, function_ops=("EagerPyFunc",))
    add("prefetch", "Prefetch", parameters={"buffer_size": "AUTOTUNE"})
    reader = Op(name="tf_record", kind="TFRecord", source="data.py:12", parameters={}, within="interleave")
    ops = (*made[:2], reader, *made[2:])
    size = int(truth.pipeline.read_bytes * 1000) or 1 << 20
    files = FileSet(count=truth.pipeline.files, bytes=size * truth.pipeline.files, largest_bytes=size, smallest_bytes=size)
    spec = (Component(name="x", shape=(BATCH, 8), dtype="float32"),)
    return PipelineGraph(target="simulated", batch_size=BATCH, element_spec=spec, ops=ops, files=files, is_infinite=True)


def _steady_state() -> SteadyState:
    return SteadyState(
        transient_s=0.5,
        transient_batches=8,
        window_s=2.5,
        batches=320,
        blocks=BLOCKS,
        lag1_autocorrelation=0.0,
        epochs=0,
        stopped_by="precision",
    )

"""Complete, literal records without TensorFlow: say what matters to the test, get sensible values for the rest.

The default run is an image pipeline (JPEG in TFRecord files) on a 16-CPU host that plans for an eight-node cluster. Every builder
takes the fields of its record as keywords:

    make_analysis(recommendation=None, verdict="unknown")
    make_measurement(layout="1x4x2", rates=(900, 910, 880, 905))
    make_graph("tf_record > map*8 > shuffle > batch > prefetch")
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from cs_input_analyzer import records
from cs_input_analyzer.engines import WorkPlan
from cs_input_analyzer.errors import Mistakes
from cs_input_analyzer.report.foreign import own_lines
from cs_input_analyzer.report.to_json import searched_supply
from cs_input_analyzer.request.options import read_options

Record = TypeVar("Record")

GIB = 2**30
MIB = 2**20
SOURCE = "/home/ada/resnet/input_fn.py"

# What tf.data's methods become in the graph.
KINDS = {
    "tensor_slices": "TensorSlice",
    "tf_record": "TFRecord",
    "interleave": "ParallelInterleave",
    "map": "ParallelMap",
    "filter": "Filter",
    "shard": "Shard",
    "shuffle": "Shuffle",
    "repeat": "Repeat",
    "batch": "Batch",
    "cache": "Cache",
    "prefetch": "Prefetch",
}
DEFAULT_CHAIN = "tensor_slices > shard > interleave > map*8 > shuffle > batch > prefetch"
DEFAULT_PARAMETERS: dict[str, dict[str, Any]] = {
    "interleave": {"cycle_length": 4, "block_length": 1, "num_parallel_calls": "AUTOTUNE", "deterministic": False},
    "map": {"num_parallel_calls": 8, "deterministic": True},
    "shard": {"num_shards": 1, "index": 0},  # as a worker sees it that runs alone
    "shuffle": {"buffer_size": 10_000, "seed": 7},
    "batch": {"batch_size": 256, "drop_remainder": True},
    "prefetch": {"buffer_size": "AUTOTUNE"},
}


def _make(record: Callable[..., Record], overrides: dict[str, Any], **defaults: Any) -> Record:
    # A record itself refuses a field that it does not have.
    return record(**(defaults | overrides))


def make_estimate(value: float = 1000.0, *, spread: float = 0.02, count: int | None = 12) -> records.Estimate:
    """`value` with a symmetric interval of `spread` relative half-width."""
    return records.Estimate(estimate=value, low=value * (1 - spread), high=value * (1 + spread), count=count)


def make_layout(layout: str | records.Layout = "1x1x1") -> records.Layout:
    return records.Layout.parse(layout) if isinstance(layout, str) else layout


make_cluster = partial(
    records.Cluster,
    name="eight-nodes",
    nodes=8,
    cpus_per_node=64,
    memory_bytes_per_node=128 * GIB,
    threads_per_core=1,
    cpu_model="AMD EPYC 7702P",
    network_bytes_per_s_per_node=12.5e9,
    source="flags",
)

make_host = partial(
    records.Host,
    hostname="probe-01",
    cpus=16,
    cpu_model="AMD EPYC 7702P",
    memory_bytes=64 * GIB,
    cpu_budget=16,
    cpu_budget_source="affinity",
    python_version="3.11.2",
    tensorflow_version="2.18.0",
)


# --- the pipeline ------------------------------------------------------------------------------------------------------------


def make_op(method: str = "map", **overrides: Any) -> records.Op:
    """One op, named as the method of tf.data that makes it."""
    return _make(
        records.Op,
        overrides,
        name=method,
        kind=KINDS.get(method, method.title().replace("_", "")),
        source=f"{SOURCE}:42",
        parameters=dict(DEFAULT_PARAMETERS.get(method, {})),
    )


def make_graph(chain: str = DEFAULT_CHAIN, **overrides: Any) -> records.PipelineGraph:
    """A straight pipeline, source first. `map*4` sets `num_parallel_calls=4`, `batch*32` the batch size, `map*AUTOTUNE` AUTOTUNE.

    A TFRecord source is put inside each `interleave`, as in real pipelines.
    """
    ops: list[records.Op] = []
    seen: dict[str, int] = {}
    previous: tuple[str, ...] = ()
    for line, step in enumerate(chain.split(" > "), start=20):
        method, _, number = step.strip().partition("*")
        seen[method] = seen.get(method, 0) + 1
        name = method if seen[method] == 1 else f"{method}_{seen[method]}"
        parameters = dict(DEFAULT_PARAMETERS.get(method, {}))
        if number:
            key = {"batch": "batch_size", "shuffle": "buffer_size", "prefetch": "buffer_size"}.get(method, "num_parallel_calls")
            parameters[key] = int(number) if number.isdigit() else number
        if method == "interleave":
            inner = "tf_record" if name == method else f"tf_record_{seen[method]}"
            ops.append(make_op("tf_record", name=inner, source=f"{SOURCE}:{line}", within=name))
        ops.append(make_op(method, name=name, source=f"{SOURCE}:{line}", inputs=previous, parameters=parameters))
        previous = (name,)
    sizes = [op.parameters["batch_size"] for op in ops if op.kind == "Batch"]
    size = sizes[-1] if sizes and isinstance(sizes[-1], int) else 1
    return _make(
        records.PipelineGraph,
        overrides,
        target="resnet.input_fn:train_input_fn",
        batch_size=size,
        element_spec=(
            records.Component(name="image", shape=(size, 224, 224, 3), dtype="float16"),
            records.Component(name="label", shape=(size,), dtype="int32"),
        ),
        ops=tuple(ops),
        files=make_files(),
        cardinality=None,
        is_infinite=True,
    )


make_files = partial(
    records.FileSet,
    count=1024,
    bytes=140 * GIB,
    largest_bytes=141 * MIB,
    smallest_bytes=138 * MIB,
    directory="/data/imagenet/train",
)


# --- measured ----------------------------------------------------------------------------------------------------------------


make_steady_state = partial(
    records.SteadyState,
    transient_s=2.4,
    transient_batches=11,
    window_s=12.5,
    batches=180,
    blocks=12,
    lag1_autocorrelation=0.04,
    epochs=2,
    stopped_by="precision",
    epoch_gap_s=0.84,
)

make_noise = partial(
    records.Noise,
    run_queue_wait_ratio=0.012,
    steal_ratio=0.0,
)


def make_worker(rate: float | None = 1000.0, **overrides: Any) -> records.WorkerResult:
    """A worker that delivered `rate` samples per second; `rate=None` is one that was lost."""
    if rate is None:
        return _make(
            records.WorkerResult, overrides, index=0, node="probe-01", status="lost", message="killed by signal 9 (out of memory?)"
        )
    return _make(
        records.WorkerResult,
        overrides,
        index=0,
        node="probe-01",
        status="done",
        samples_per_s=make_estimate(rate),
        batches_per_s=rate / 256,
        cpu_s_per_sample=0.00192,
        import_s=3.6,
        build_s=0.31,
        first_batch_s=1.7,
        batch_gap_s=records.BatchGap(p50=0.25, p95=0.29, p99=0.34, max=0.41),
        bytes_read_per_sample=146_800.0,
        physical_bytes_read_per_sample=0.0,
        bytes_out_per_sample=301_060.0,
        private_bytes=1_310 * MIB,
        shared_bytes=410 * MIB,
        peak_rss_bytes=1_740 * MIB,
        steady_state=make_steady_state(),
        noise=make_noise(),
        tuned=(records.TunedParameter(op="interleave", parameter="num_parallel_calls", value=4.0),),
        block_samples_per_s=tuple(rate * factor for factor in (0.99, 1.01, 1.0, 1.005, 0.995)),
        file_count=1024,
        pss_bytes=1_440 * MIB,
        buffered_bytes=590 * MIB,
    )


def make_measurement(
    layout: str | records.Layout = "1x1x2", rates: Sequence[float | None] | None = None, **overrides: Any
) -> records.Measurement:
    """One layout, run. `rates`: one worker for each, by default as many as the layout has tasks; None stands for a lost worker."""
    where = make_layout(layout)
    rates = [1000.0] * where.tasks if rates is None else rates
    delivered = [rate for rate in rates if rate is not None]
    return _make(
        records.Measurement,
        overrides,
        layout=where,
        num_workers=len(rates),
        cache_state="as-is",
        role="probe",
        isolation="process",
        workers=tuple(make_worker(rate, index=index) for index, rate in enumerate(rates)),
        samples_per_s=make_estimate(sum(delivered)) if delivered else None,
        shared_bytes=410 * MIB,
        page_cache_ratio=1.0,
        noise=make_noise(),
        steady_state=make_steady_state() if delivered else None,
    )


def make_op_cost(name: str = "map", **overrides: Any) -> records.OpCost:
    return _make(
        records.OpCost,
        overrides,
        name=name,
        kind=KINDS.get(name, name),
        self_cpu_s_per_sample=0.00157,
        wait_s_per_sample=0.00002,
        share_ratio=0.82,
        parallelism=1.9,
        source=f"{SOURCE}:23",
        elements_per_sample=1.0,
        bytes_in_per_sample=146_800.0,
        bytes_out_per_sample=301_060.0,
        buffered_elements=0.0,
        is_serial=False,
    )


def make_station(kind: str = "CPU", **overrides: Any) -> records.Station:
    return _make(
        records.Station,
        overrides,
        kind=kind,
        op=None,
        source=None,
        samples_per_s=1042.0,
        utilization_ratio=0.96,
        layout=make_layout("1x1x2"),
    )


def make_stations() -> tuple[records.Station, ...]:
    """A worker that its two CPUs hold back."""
    return (
        make_station(),
        make_station("serial op", op="batch", source=f"{SOURCE}:25", samples_per_s=12_500.0, utilization_ratio=0.08),
        make_station("readers", op="interleave", source=f"{SOURCE}:22", samples_per_s=21_000.0, utilization_ratio=0.0476),
    )


def make_profile(**overrides: Any) -> records.Profile:
    return _make(
        records.Profile,
        overrides,
        layout=make_layout("1x1x2"),
        harness_us_per_batch=23.0,
        cpu_s_per_sample=0.00192,
        ops=(
            make_op_cost(
                "interleave",
                self_cpu_s_per_sample=0.00017,
                share_ratio=0.09,
                parallelism=4.0,
                source=f"{SOURCE}:22",
                bytes_out_per_sample=146_800.0,
                buffered_elements=128.0,
            ),
            make_op_cost("map"),
            make_op_cost(
                "batch",
                self_cpu_s_per_sample=0.00008,
                wait_s_per_sample=None,
                share_ratio=0.04,
                parallelism=1.0,
                source=f"{SOURCE}:25",
                elements_per_sample=1 / 256,
                bytes_in_per_sample=301_060.0,
                is_serial=True,
            ),
            make_runtime_cost(),
        ),
    )


def make_runtime_cost(share_ratio: float = 0.05) -> records.OpCost:
    """The row of CPU that belongs to no op."""
    return records.OpCost(
        name="runtime",
        kind="runtime",
        self_cpu_s_per_sample=0.002 * share_ratio,
        wait_s_per_sample=None,
        share_ratio=share_ratio,
        parallelism=None,
        source=None,
    )


def make_read_rate(streams: int = 1, **overrides: Any) -> records.ReadRate:
    return _make(
        records.ReadRate,
        overrides,
        streams=streams,
        cache_state="as-is",
        bytes_per_s=380e6 * streams,
        latency_s=0.0027,
        read_bytes=MIB,
    )


# A network file system of which this host holds nearly everything in memory.
make_storage = partial(
    records.Storage,
    directory="/data/imagenet/train",
    file_system="nfs4",
    is_shared=True,
    dataset_bytes=140 * GIB,
    cached_ratio=0.97,
    evicted=None,
    reads=tuple(make_read_rate(streams) for streams in (1, 2, 4)),
    source_samples_per_s=make_estimate(21_000.0),
)

make_budget = partial(
    records.Budget,
    import_s=7.4,
    transient_s=9.1,
    probes_s=38.0,
    total_s=57.2,
    not_measured=("storage ceiling", "fixes"),
)


# --- predicted ---------------------------------------------------------------------------------------------------------------


def make_point(tasks: int, cpus: int, rate: float, *, spread: float = 0.02, cost: float | None = 0.0019) -> records.RatePoint:
    """Rate of one of `tasks` workers that ran together on so many CPUs each."""
    return records.RatePoint(
        tasks=tasks, cpus=cpus, samples_per_s=make_estimate(rate, spread=spread, count=3), cpu_s_per_sample=cost
    )


make_capacity_model = partial(
    records.CapacityModel,
    points=(make_point(1, 1, 520.0), make_point(1, 2, 1000.0, cost=0.00192), make_point(8, 2, 930.0, cost=0.00192)),
    shard_ratio=records.Estimate.exact(1.0),
    slowest_ratio=0.98,
    host_cpus=16,
    private_bytes=1_310 * MIB,
    shared_bytes=410 * MIB,
    bytes_read_per_sample=146_800.0,
    bytes_out_per_sample=301_060.0,
    is_sharded=True,
    file_count=1024,
)


def make_alternative(layout: str | records.Layout = "3x8x2", **overrides: Any) -> records.Alternative:
    where = make_layout(layout)
    return _make(
        records.Alternative,
        overrides,
        layout=where,
        input_workers=(where.nodes - 1) * where.tasks_per_node,
        predicted_samples_per_s=make_estimate(14_900.0, spread=0.06),
        limited_by="worker CPU",
        memory_bytes_per_node=11 * GIB,
        meets_demand=True,
        note="one node more, half the memory per node",
    )


make_launch_lines = partial(
    records.LaunchLines,
    defaults="nodes: 2\ntasks_per_node: 16\ncpus_per_task: 2",
    csrun_wse=(
        "csrun_wse --total-nodes=2 --tasks-per-node=16 --cpus-per-task=2 --single-task-nodes=1 --mount-dirs=/data/imagenet "
        "python run.py --mode train --params configs/params_resnet50.yaml"
    ),
    srun="srun --nodes=2 --ntasks-per-node=16 --cpus-per-task=2 --kill-on-bad-exit python run.py --mode train",
    sbatch="#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=16\n#SBATCH --cpus-per-task=2\nsrun python run.py\n",
)


def make_plan(layout: str | records.Layout = "2x16x2", **overrides: Any) -> records.LaunchPlan:
    where = make_layout(layout)
    return _make(
        records.LaunchPlan,
        overrides,
        nodes=where.nodes,
        tasks_per_node=where.tasks_per_node,
        cpus_per_task=where.cpus_per_task,
        single_task_nodes=1,
        input_workers=(where.nodes - 1) * where.tasks_per_node,
        predicted_samples_per_s=make_estimate(14_500.0, spread=0.08),
        extrapolation_ratio=2.0,
        limited_by="worker CPU",
        meets_demand=True,
        headroom_ratio=0.905,
        memory_bytes_per_node=22 * GIB,
        storage="unverified",
        expected_accelerator_utilization=make_estimate(0.99, spread=0.01),
        alternatives=(
            make_alternative("3x8x2"),
            make_alternative("2x8x2", predicted_samples_per_s=make_estimate(7_400.0), meets_demand=False, note=""),
        ),
        launch=make_launch_lines(),
        confirmed_by=1,
    )


def make_finding(code: str = "CSI101", **overrides: Any) -> records.Finding:
    return _make(
        records.Finding,
        overrides,
        code=code,
        severity="warning",
        message="the map after the shuffle decodes JPEG on a single thread",
        op="map",
        source=f"{SOURCE}:23",
        evidence={"num_parallel_calls": 1, "share_ratio": 0.82, "is_deterministic": True, "op_kind": "Map", "seed": None},
        fix="give it num_parallel_calls=tf.data.AUTOTUNE",
        measured_gain=make_estimate(1.8, spread=0.05),
        proven=True,
    )


def make_consumption(samples_per_s: float = 7_000.0, **overrides: Any) -> records.Consumption:
    return _make(records.Consumption, overrides, samples_per_s=records.Estimate.exact(samples_per_s), source="declared")


make_validation = partial(
    records.Validation,
    rows=(
        records.ValidationRow(
            layout=make_layout("2x16x2"),
            role="recommended",
            predicted_samples_per_s=make_estimate(14_500.0, spread=0.08),
            measured_samples_per_s=make_estimate(14_120.0, spread=0.01),
        ),
        records.ValidationRow(
            layout=make_layout("2x8x2"),
            role="neighbour",
            predicted_samples_per_s=make_estimate(7_400.0),
            measured_samples_per_s=make_estimate(7_620.0, spread=0.01),
        ),
    ),
)

# What a rule is given: by default the records of `make_analysis`, where each worker reads its own files.
make_case = partial(
    records.Case,
    pipeline=make_graph(),
    mode="train",
    is_sharded=True,
    measurements=(make_measurement("1x1x1", (520.0,)), make_measurement("1x1x2", (1000.0,))),
    profile=make_profile(),
    plan=make_plan(),
    cluster=make_cluster(),
)


# --- the whole run -----------------------------------------------------------------------------------------------------------


def make_analysis(**overrides: Any) -> records.Analysis:
    """A finished run whose plan feeds the accelerator."""
    run: records.Analysis = _make(
        records.Analysis,
        overrides,
        schema_version=1,
        tool=records.Tool(name="cs_input_analyzer", version="0.1.0"),
        created_at="2026-11-21T12:00:00+00:00",
        command="cs_input_analyzer analyze resnet.input_fn:train_input_fn --params params.yaml --demand 7000 --nodes 8",
        options=records.Options(params_json='{"batch_size": 256}', demand_samples_per_s=7000.0, nodes=8, cpus_per_node=64),
        host=make_host(),
        budget=make_budget(),
        pipeline=make_graph(),
        measurements=(
            make_measurement("1x1x1", (520.0,)),
            make_measurement("1x1x2", (1000.0,)),
            make_measurement("1x4x2", (940.0, 930.0, 900.0, 950.0), num_workers=16),
        ),
        profile=make_profile(),
        stations=make_stations(),
        storage=make_storage(),
        consumption=make_consumption(),
        cluster=make_cluster(),
        recommendation=make_plan(confirmed_by=2),
        findings=(
            make_finding(),
            make_finding("CSI502", severity="info", op=None, source=None, fix=None, measured_gain=None, proven=False),
        ),
        verdict="accelerator_bound",
        verdict_layout=make_layout("2x16x2"),
        confidence=0.97,
        validation=make_validation(),
    )
    plan = run.recommendation
    if plan is not None and plan.launch == make_launch_lines():  # nobody asked for others: those that follow, as in any run
        run = replace(run, recommendation=replace(plan, launch=own_lines(run)[0]))
    return run if "supply" in overrides else replace(run, supply=searched_supply(run))


def make_bare_analysis(**overrides: Any) -> records.Analysis:
    """The least that a run can be: interrupted before anything was measured."""
    bare: dict[str, Any] = {
        "measurements": (),
        "profile": None,
        "stations": (),
        "storage": None,
        "consumption": None,
        "recommendation": None,
        "findings": (),
        "verdict": "unknown",
        "verdict_layout": None,
        "confidence": None,
        "validation": None,
        "interrupted": True,
        "pipeline": make_graph(ops=(), element_spec=(), files=None, batch_size=None),
        "budget": records.Budget(),
        "options": records.Options(),
    }
    return make_analysis(**(bare | overrides))


def make_options(**choices: Any) -> records.Options:
    """The options record, checked, as for Python and the command line. Raises UsageError, one line for each mistake."""
    mistakes = Mistakes()
    options = read_options(mistakes, **choices)
    mistakes.raise_any()
    return options  # type: ignore[return-value]


def make_work_plan(target: str = "data.py:f", workers: int = 1, **overrides: Any) -> WorkPlan:
    """What the workers of a short launch are to do. `deadline_s` has no default that would fit a launcher's clock."""
    return _make(
        WorkPlan,
        overrides,
        target=target,
        pickled=None,
        params_json=None,
        mode="train",
        batch_size=None,
        num_workers=workers,
        worker_indices=tuple(range(workers)),
        target_error_ratio=0.5,
        min_window_s=0.5,
        max_window_s=1.0,
    )

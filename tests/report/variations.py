"""Runs that differ from the usual one in one fact, by topic. The golden files show what a report then says instead."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from builders import (
    make_alternative,
    make_analysis,
    make_budget,
    make_capacity_model,
    make_cluster,
    make_consumption,
    make_estimate,
    make_finding,
    make_graph,
    make_host,
    make_layout,
    make_measurement,
    make_noise,
    make_op,
    make_op_cost,
    make_plan,
    make_profile,
    make_read_rate,
    make_runtime_cost,
    make_station,
    make_stations,
    make_steady_state,
    make_storage,
    make_worker,
)
from variations_of_fixes import FINDINGS, FIXES, PATCHES, UNPATCHED, Overrides, tried

from cs_input_analyzer.records import (
    BatchGap,
    Capture,
    CaptureCandidate,
    Estimate,
    Op,
    OpCost,
    Options,
    Parent,
    SamplesPerElement,
    Scaling,
    Surer,
    Validation,
)

USED = make_layout("2x8x2")
STEPS = Options(step_time_s=0.05)
WIDE = Estimate(estimate=7000.0, low=2000.0, high=20_000.0)


def elements(value: int | None, source: str, **options: Any) -> Overrides:
    return {
        "pipeline": make_graph(samples_per_element=SamplesPerElement(value=value, source=source)),
        "options": Options(**options),
    }


VERDICTS: dict[str, Overrides] = {
    "input-bound": {"verdict": "input_bound", "findings": (tried(1.8),), "validation": None},
    "balanced, of the launch in use": {
        "verdict": "balanced",
        "verdict_layout": USED,
        "options": Options(current=USED),
    },
    "unknown, for the supply": {"verdict": "unknown", "recommendation": make_plan(predicted_samples_per_s=WIDE)},
    "unknown, for the demand": {"verdict": "unknown", "consumption": replace(make_consumption(), samples_per_s=WIDE)},
    "unknown, without a supply": {"verdict": "unknown", "recommendation": None, "verdict_layout": None, "measurements": ()},
    "no demand": {
        "verdict": "unknown",
        "consumption": None,
        "recommendation": make_plan(meets_demand=None, headroom_ratio=None),
    },
    "demand of a step time": {
        "options": STEPS,
        "consumption": make_consumption(5120.0, source="step_time", batch_size=256),
    },
    "demand of a wafer model": {
        "consumption": make_consumption(
            source="wafer_model",
            system="CS-2",
            mode="weight_streaming",
            limited_by="ingress",
            is_extrapolated=True,
            batch_size=1024,
            notes=("fp16",),
        ),
    },
    "elements of known size": elements(256, "batch(256), data.py:3", batch_size=1024),
    "elements as an option said": {"options": Options(batch_size=1024)},
    "elements beside a step time": {"options": Options(batch_size=1024, step_time_s=0.1)},
    "busy host": {"findings": (make_finding("CSI506", severity="info", message="the measuring host was busy"), make_finding())},
    "nothing but a busy host": {"findings": (make_finding("CSI506", severity="info", message="the measuring host was busy"),)},
}

ALONE = make_plan(confirmed_by=None)
PLANS: dict[str, Overrides] = {
    "not met": {
        "recommendation": make_plan(meets_demand=False, probability=0.23, limited_by="declared storage ceiling"),
        "verdict": "input_bound",
    },
    "limited by scaling": {"recommendation": make_plan(limited_by="worker scaling")},
    "tasks that all feed": {"recommendation": make_plan(fewest_tasks=8, most_tasks=32)},
    "one task that feeds": {"recommendation": make_plan(fewest_tasks=16, most_tasks=16)},
    "no CPU left idle": {
        "recommendation": make_plan("2x32x2", fewest_tasks=16, most_tasks=32),
        "verdict_layout": make_layout("2x32x2"),
    },
    "a task over two NUMA nodes": {"recommendation": make_plan("2x1x64"), "host": make_host(numa_cpus=32)},
    "a task within a NUMA node": {"recommendation": make_plan("2x2x32"), "host": make_host(numa_cpus=32)},
    "inside what was measured": {"recommendation": make_plan(confirmed_by=99, extrapolation_ratio=1.0)},
    "no single-task node": {"recommendation": make_plan(single_task_nodes=0)},
    "storage measured": {"recommendation": make_plan(storage="measured")},
    "first come": {"options": Options(feed="first-come")},
    "surer by a node": {"recommendation": make_plan(surer=(Surer(how="node", half_width_ratio=0.05),))},
    "no launch lines": {"recommendation": make_plan(launch=None, launch_note="the reason")},
    "no alternatives": {"recommendation": make_plan(alternatives=())},
    "many alternatives": {
        "recommendation": make_plan(
            alternatives=(
                make_alternative("9x1x1", note="current launch", is_current=True, predicted_samples_per_s=Estimate.exact(77.0)),
                *(make_alternative(layout, note="") for layout in ("1x16x2", "3x8x2", "3x16x2")),
            ),
        )
    },
}

CLUSTERS: dict[str, Overrides] = {
    name: {"cluster": make_cluster(**given)}
    for name, given in {
        "speed stated": {"speed_ratio": Estimate.exact(1.2)},
        "speed by CPU models": {"speed_ratio": make_estimate(1.18, spread=0.025), "speed_basis": "CPU models"},
        "speed of this host": {"speed_ratio": Estimate.exact(1.0), "speed_basis": "this host"},
        "two threads per core": {"threads_per_core": 2},
        "unknown threads per core": {"threads_per_core": None},
        "all bandwidths": {"memory_bandwidth_bytes_per_s_per_node": 150e9, "storage_bytes_per_s": 5e9},
        "no network": {"network_bytes_per_s_per_node": None, "cpu_model": None},
    }.items()
}

STORAGES: dict[str, Overrides] = {
    name: {"storage": make_storage(**given)}
    for name, given in {
        "local": {"is_shared": False},
        "nothing known": {"is_shared": None, "file_system": None, "cached_ratio": None, "reads": (), "source_samples_per_s": None},
        "half cached": {"cached_ratio": 0.5},
        "hardly cached": {"cached_ratio": 0.05},
        "evicted": {"evicted": True},
        "evicted, unknown whether shared": {"evicted": True, "is_shared": None},
        "not evicted": {"evicted": False},
        "cold and warm reads": {
            "reads": (
                make_read_rate(1, cache_state="cold", latency_s=0.008),
                make_read_rate(4, cache_state="warm", bytes_per_s=2.5e9),
            )
        },
    }.items()
}


def launched(*workers: Overrides, layout: str = "", **launch: Any) -> Overrides:
    """One launch of these workers, which no plan has confirmed."""
    rates = [worker.get("rate", 500.0) for worker in workers]
    made = [
        make_worker(rate, index=index, **{name: value for name, value in worker.items() if name != "rate"})
        for index, (rate, worker) in enumerate(zip(rates, workers, strict=True))
    ]
    where = layout or f"1x{len(workers)}x1"
    return {"measurements": (make_measurement(where, rates, workers=tuple(made), **launch),), "recommendation": ALONE}


SHORT_TAIL, LONG_TAIL = BatchGap(p50=0.1, p95=0.2, p99=0.3, max=9.0), BatchGap(p50=0.1, p95=0.2, p99=0.4, max=0.5)
UNREAD: Overrides = {"pss_bytes": None, "peak_rss_bytes": None, "buffered_bytes": None}
NODES = ("n1", "n1", "n2", "n2")
WORKERS: dict[str, Overrides] = {
    "the longest tail": launched({"batch_gap_s": SHORT_TAIL}, {"batch_gap_s": LONG_TAIL}, {"batch_gap_s": None}),
    "the largest memory": launched({"private_bytes": 2**30}, {"private_bytes": 2**31}),
    "a lone worker's memory": launched({"private_bytes": 2**30} | UNREAD),
    "no memory read": launched({"private_bytes": None} | UNREAD),
    "short of time": launched({"status": "deadline", "message": "ended by us"}),
    "short of time, without a rate": launched({"rate": None, "status": "deadline", "message": "ended by us"}),
    "lost and corrupt": launched(
        {"rate": 800.0, "first_batch_s": 3.0, "cpu_s_per_sample": None},
        {"rate": None, "message": "killed by signal 9"},
        {"rate": 700.0, "status": "data_error", "message": "corrupted record at 4711\nin shard-3.tfrecord"},
    ),
    "all of many lost": launched(*({"rate": None} for _ in range(30))),
    "a validation": {"measurements": (make_measurement("1x1x1"), make_measurement("1x2x1", role="validate"))},
    "the confirming launch is shown": {"recommendation": make_plan(confirmed_by=0)},
    "no confirming launch": {"recommendation": make_plan(confirmed_by=-1)},
    "no straggler": launched(*({"node": node, "rate": 100.0} for node in NODES), layout="2x2x1", notes=("Slurm binds no task",)),
    "stragglers of a node": launched(
        *({"node": f"n{at // 2}", "rate": rate} for at, rate in enumerate((100.0, 101.0, 99.0, 102.0, 98.0, 100.0, 50.0, 52.0))),
        layout="4x2x1",
    )
    | {
        "scaling": Scaling(points=(), kept_ratio=Estimate.exact(1.0), ceiling_bytes_per_s=None, note="each keeps 100 % of its rate")
    },
}

PLACES = tuple(
    CaptureCandidate(number=at, kind="keras", call=call, source=f"run.py:{at}", code=None, mode="train")
    for at, call in ((1, "Model.fit"), (2, "Model.evaluate"))
)
MEASURING: dict[str, Overrides] = {
    "moved parameters": launched({}, steady_state=make_steady_state(moved=("map.num_parallel_calls", "prefetch.buffer_size"))),
    "many moved parameters": launched({}, steady_state=make_steady_state(moved=tuple(f"map_{number}.n" for number in range(10)))),
    "others on the CPUs": launched({}, noise=make_noise(others_ratio=0.123, run_queue_wait_ratio=None, steal_ratio=None)),
    "no noise read": launched({}, noise=make_noise(run_queue_wait_ratio=None, steal_ratio=None)),
    "data ended": launched({}, steady_state=make_steady_state(stopped_by="data_end", epoch_gap_s=None)),
    "nothing left out": {"budget": make_budget(not_measured=(), import_s=60.0), "left_out": ("the traces",)},
    "interrupted": {"interrupted": True},
    "planned again": {"parent": Parent(path="run.json", created_at="2026-11-20", command="cs_input_analyzer analyze data.py:f")},
    "snapshots of costs": {"profile": make_profile(poll_count=31, poll_time_ratio=0.004)},
    "parts run alone": {"profile": make_profile(ops=(make_op_cost("map", told_apart_cpu_s_per_sample=0.001),), poll_count=1)},
    "a script": {"capture": Capture(command="python run.py", picked=1, candidates=PLACES, stand_ins=("horovod",), runs=3)},
    "notes and stand-ins": {
        "pipeline": make_graph(
            notes=("left out: copy_to_device", "costs of ops need TensorFlow 2.17"),
            stand_ins=("horovod.tensorflow",),
            redirected=("cache",),
            user_files="private copies",
            batch_size=None,
        )
    },
    "a command of nobody": {"command": "cs_input_analyzer.analyze(…)"},
    "options in tuples": {"options": Options(nodes=8, mount_dirs=("a", "b\n"), node_speed_ratio=make_estimate(1.2))},
}


def cost(name: str = "map", **fields: Any) -> OpCost:
    """Without details."""
    details = ("wait_s_per_sample", "source", "elements_per_sample", "bytes_in_per_sample", "bytes_out_per_sample", "is_serial")
    plain = {"self_cpu_s_per_sample": 0.001, "share_ratio": 0.5, "parallelism": 2.0}
    return make_op_cost(name, **(dict.fromkeys(details) | plain | fields))


def unseen(name: str = "map", **fields: Any) -> OpCost:
    return cost(name, **({"self_cpu_s_per_sample": None, "share_ratio": None, "merged_into": "unattributed"} | fields))


def unattributed(share: float) -> OpCost:
    return replace(make_runtime_cost(share), name="unattributed", kind="unattributed")


READER = cost("tf_record", share_ratio=0.1, wait_s_per_sample=0.004, source="data.py:7")
COSTS: dict[str, Overrides] = {
    name: {"profile": make_profile(ops=ops)}
    for name, ops in {
        "no details": (cost(), cost("batch", elements_per_sample=3.0)),
        "serial, parallel or unknown": tuple(
            cost(f"map_{at}", parallelism=parallelism, is_serial=serial)
            for at, (parallelism, serial) in enumerate(((1.0, True), (None, True), (1.9, False), (None, None)))
        ),
        "mostly unattributed": (
            cost("batch", share_ratio=0.07),
            *(unseen(f"map_{at}", source=f"/home/ada/net/data.py:{34 + at}") for at in (1, 2, 3)),
            unattributed(0.93),
        ),
        "partly unattributed": (cost(share_ratio=0.6), unseen("map_2", source="data.py:7"), unattributed(0.4)),
        "a group of which some is unattributed": (
            cost("map ×150", share_ratio=0.1, merged_into="unattributed"),
            cost("batch", share_ratio=0.3),
            unattributed(0.6),
        ),
        "merged into the costliest": (cost(share_ratio=0.9), unseen("batch", merged_into="map")),
        "mostly runtime": (cost(share_ratio=0.2), make_runtime_cost(0.8)),
        "a long wait": (READER, cost()),
        "a short wait": (replace(READER, wait_s_per_sample=0.0009), cost()),
        "built by a package": (cost(source="/home/me/data.py:7", library_source="/venv/site-packages/tree/__init__.py:435"),),
    }.items()
}
OPS: dict[str, Overrides] = {
    "no costs": {"profile": None},
    "a serial op": {
        "stations": (
            make_station("serial op", op="map", source="data.py:9", samples_per_s=2_500.0, utilization_ratio=0.97),
            *make_stations(),
        )
    },
    "no station near its limit": {"stations": (make_station(utilization_ratio=0.5, layout=None),)},
    "an op of another library": {"pipeline": make_graph(ops=(Op(name="kafka", kind="Kafka", parameters={}),))},
    "ops inside each other": {
        "pipeline": make_graph(ops=(make_op("map", name="a", within="b"), make_op("map", name="b", within="a")))
    },
    "two that join": {
        "pipeline": make_graph(ops=(make_op("map", name="a"), make_op("map", name="b"), make_op("zip", inputs=("a", "b"))))
    },
}


def validated(*rows: tuple[float, float], role: Any = "neighbour", **more: Any) -> Overrides:
    """Pairs of a predicted and a measured rate."""
    made = tuple(
        replace(
            make_analysis().validation.rows[1],
            role=role,
            predicted_samples_per_s=make_estimate(predicted, spread=0.1),
            measured_samples_per_s=make_estimate(measured, count=3) if measured else Estimate.exact(0.0),
        )
        for predicted, measured in rows
    )
    return {"validation": Validation(rows=made, **more)}


VALIDATIONS: dict[str, Overrides] = {
    "not done": {"validation": None},
    "errors": validated(
        (110.0, 100.0), (200.0, 100.0), (101.0, 100.0), notes=("1x4x1 measured in 1 of 3 rounds",), interrupted=True
    ),
    "nothing delivered": validated((10.0, 0.0)),
    "the plan holds": validated((1000.0, 900.0), role="recommended", demand_samples_per_s=800.0),
    "the plan does not hold": validated((1000.0, 900.0), role="recommended", demand_samples_per_s=1000.0),
}


def busy(layout: str) -> Any:
    noise = make_noise(others_ratio=0.3)
    tasks = int(layout.split("x")[1])
    return make_measurement(layout, workers=tuple(make_worker(1000.0 - at, index=at, noise=noise) for at in range(tasks)))


# A plan for other nodes, measured on a host where launches got 70 % of their rates on an idle node; and a plan for that host.
ELSEWHERE: Overrides = {
    "capacity": make_capacity_model(host_ratio=Estimate(estimate=0.7, low=0.35, high=1.0)),
    "measurements": (busy("1x1x1"), busy("1x1x2"), busy("1x4x2")),
}
HERE: Overrides = ELSEWHERE | {
    "cluster": make_cluster(source="this host"),
    "recommendation": make_plan("2x4x2", quiet_samples_per_s=make_estimate(20_000.0, spread=0.1)),
    "verdict_layout": make_layout("2x4x2"),
}
FIXED = FIXES["kept"] | {"fixes": replace(FIXES["kept"]["fixes"], plan=make_alternative("3x16x2", note=""))}
CURRENCIES: dict[str, Overrides] = {"elsewhere, with fixes": ELSEWHERE | FIXED, "here": HERE}

TOPICS: dict[str, dict[str, Overrides]] = {
    "verdicts": VERDICTS,
    "plans": PLANS,
    "clusters": CLUSTERS,
    "storage": STORAGES,
    "workers": WORKERS,
    "measuring": MEASURING,
    "costs": COSTS | OPS,
    "findings": FINDINGS,
    "fixes": FIXES,
    "patches": PATCHES,
    "validations": VALIDATIONS,
    "currencies": CURRENCIES,
}
# What the runs of a topic are compared with, if it is not the usual run.
BASES: dict[str, Overrides] = {"patches": UNPATCHED}

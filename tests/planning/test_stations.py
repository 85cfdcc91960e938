"""Every station from its law: it fires where it is the limit, it is silent where it is not or nobody measured it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.planning.bottlenecks import LATENCY_RATIO, PYTHON_REFUTED_RATIO, REFUTED_RATIO, ceilings, stations_of
from cs_input_analyzer.records import Estimate, Measurement, Op, OpCost, Profile, Station, Storage
from tests.builders import (
    make_capacity_model,
    make_graph,
    make_layout,
    make_measurement,
    make_noise,
    make_read_rate,
    make_runtime_cost,
    make_storage,
    make_worker,
)

# CPU and waiting of one op for one sample, in seconds.
Times = Mapping[str, tuple[float, float]]
LATE_S = 0.001


def op(name: str, kind: str, *inputs: str, within: str | None = None, calls: tuple[str, ...] = (), **parameters: Any) -> Op:
    source = f"data.py:{len(name)}"
    return Op(name=name, kind=kind, source=source, inputs=inputs, parameters=parameters, within=within, function_ops=calls)


CHAIN = (
    op("read", "TFRecord"),
    op("map", "Map", "read"),
    op("prefetch", "Prefetch", "map"),
    op("map_2", "ParallelMap", "prefetch", num_parallel_calls="AUTOTUNE"),
    op("batch", "Batch", "map_2"),
)
PARALLEL_READ = (
    op("files", "TensorSlice"),
    op("read", "TFRecord", within="interleave"),
    op("interleave", "ParallelInterleave", "files", num_parallel_calls="AUTOTUNE", cycle_length=4),
    op("batch", "Batch", "interleave"),
)
FLAT = (op("read", "TFRecord", within="flat_map"), op("flat_map", "FlatMap"), op("batch", "Batch", "flat_map"))


def row(name: str, cpu_s: float, wait_s: float, parallelism: float | None = None) -> OpCost:
    return OpCost(
        name=name,
        kind="",
        self_cpu_s_per_sample=cpu_s,
        wait_s_per_sample=wait_s,
        share_ratio=None,
        parallelism=parallelism,
        source=None,
    )


def profile(times: Times, cpu_s: float, cpus: int, parallelism: Mapping[str, float] | None = None) -> Profile:
    rows = [row(name, *seconds, (parallelism or {}).get(name)) for name, seconds in times.items()]
    layout = make_layout(f"1x1x{cpus}")
    return Profile(layout=layout, harness_us_per_batch=None, cpu_s_per_sample=cpu_s, ops=(*rows, make_runtime_cost()))


def run(rate: float, cpus: int, preempted_ratio: float | None = None, **fields: Any) -> Measurement:
    noise = make_noise(preempted_ratio=preempted_ratio)
    worker = make_worker(rate, noise=noise, bytes_read_per_sample=fields.pop("bytes_read_per_sample", 4096.0))
    return make_measurement(f"1x1x{cpus}", workers=(worker,), **({"page_cache_ratio": 0.0} | fields))


def found(
    ops: tuple[Op, ...],
    times: Times,
    *,
    rate: float = 1000.0,
    cpus: int = 2,
    cpu_s: float | None = None,
    storage: Storage | None = None,
    parallelism: Mapping[str, float] | None = None,
    preempted_ratio: float | None = None,
    measured: Mapping[str, Any] | None = None,
    **more: Any,
) -> tuple[Station, ...]:
    """CPU of the process: that of the ops, unless `cpu_s` says otherwise."""
    total_s = sum(cpu for cpu, _ in times.values()) if cpu_s is None else cpu_s
    return stations_of(
        make_graph(ops=ops),
        profile(times, total_s, cpus, parallelism),
        run(rate, cpus, preempted_ratio, **(measured or {})),
        storage=storage,
        **more,
    )


def kinds(stations: tuple[Station, ...]) -> list[str]:
    return [station.kind for station in stations]


def the(kind: str, stations: tuple[Station, ...]) -> Station:
    (station,) = [station for station in stations if station.kind == kind]
    return station


def reading(bytes_per_s: Mapping[int, float], source_per_s: float | None = None, **fields: Any) -> Storage:
    reads = tuple(make_read_rate(streams, bytes_per_s=rate) for streams, rate in bytes_per_s.items())
    alone = None if source_per_s is None else Estimate.exact(source_per_s)
    return make_storage(reads=reads, source_samples_per_s=alone, **fields)


# --- laws ---------------------------------------------------------------------------------------------------------------------

seconds = st.floats(min_value=1e-7, max_value=1e-2)
some_times = st.fixed_dictionaries({one.name: st.tuples(seconds, seconds) for one in CHAIN})


@given(some_times, st.integers(1, 64), st.floats(0.01, 1.0))
def test_no_ceiling_is_below_what_was_measured_and_the_lowest_is_first(times: Times, cpus: int, used: float) -> None:
    rate = used * cpus / sum(cpu for cpu, _ in times.values())
    stations = found(CHAIN, times, rate=rate, cpus=cpus)
    assert all(station.samples_per_s >= rate * (1 - 1e-12) for station in stations)
    assert all(0 < station.utilization_ratio <= 1 for station in stations)
    assert all(station.utilization_ratio * station.samples_per_s == pytest.approx(rate) for station in stations)
    assert [s.samples_per_s for s in stations] == sorted(s.samples_per_s for s in stations)
    assert the("CPU", stations).samples_per_s == pytest.approx(rate / used)


@given(some_times, st.floats(1e-3, 1e3))
def test_times_k_the_times_is_a_kth_of_every_ceiling(times: Times, factor: float) -> None:
    slower = {name: (cpu * factor, wait * factor) for name, (cpu, wait) in times.items()}
    before, after = found(CHAIN, times, rate=10.0), found(CHAIN, slower, rate=10.0 / factor)
    assert kinds(before) == kinds(after)
    for one, other in zip(before, after, strict=True):
        assert other.samples_per_s == pytest.approx(one.samples_per_s / factor)
        assert other.utilization_ratio == pytest.approx(one.utilization_ratio)


@given(some_times)
def test_an_op_that_costs_nothing_changes_nothing(times: Times) -> None:
    longer = (*CHAIN, op("shuffle", "Shuffle", "batch"))
    assert found(longer, {**times, "shuffle": (0.0, 0.0)}, rate=10.0) == found(CHAIN, times, rate=10.0)


@given(some_times, st.integers(1, 32))
def test_more_cpus_lift_only_their_own_ceiling(times: Times, cpus: int) -> None:
    few, many = found(CHAIN, times, rate=10.0, cpus=cpus), found(CHAIN, times, rate=10.0, cpus=cpus * 2)
    assert the("CPU", many).samples_per_s == pytest.approx(2 * the("CPU", few).samples_per_s)
    serial = [station.samples_per_s for station in few if station.kind == "serial op"]
    assert [station.samples_per_s for station in many if station.kind == "serial op"] == pytest.approx(serial)


@pytest.mark.parametrize("rate", [None, 0.0])
def test_without_a_rate_there_is_no_station(rate: float | None) -> None:
    run_of = make_measurement("1x1x2", workers=(make_worker(rate),))
    assert stations_of(make_graph(ops=CHAIN), profile({"map": (0.001, 0.0)}, 0.001, 2), run_of) == ()


def test_without_cpu_time_there_is_no_station() -> None:
    without = replace(profile({"map": (0.001, 0.0)}, 0.001, 2), cpu_s_per_sample=None)
    assert stations_of(make_graph(ops=CHAIN), without, run(100.0, 2)) == ()


def test_each_station_says_whose_it_is() -> None:
    assert {str(station.layout) for station in found(CHAIN, {"map": (0.0008, 0.0)}, cpus=4)} == {"1x1x4"}


# --- CPU ----------------------------------------------------------------------------------------------------------------------


def test_parallel_work_that_fills_the_cpus_is_the_cpus() -> None:
    stations = found(CHAIN, {"map": (0.0001, 0.0), "map_2": (0.0018, 0.0)}, rate=1000.0)
    assert kinds(stations)[0] == "CPU"
    assert stations[0].samples_per_s == pytest.approx(2 / 0.0019)
    assert stations[0].op is None


def test_cpu_of_the_runtime_counts() -> None:
    assert found(CHAIN, {"map_2": (0.0001, 0.0)}, cpu_s=0.0019)[0].samples_per_s == pytest.approx(2 / 0.0019)


def test_cpus_that_were_used_up_are_never_refuted() -> None:
    cpu = the("CPU", found(CHAIN, {"map_2": (0.003, 0.0)}, rate=1000.0))
    assert (cpu.samples_per_s, cpu.utilization_ratio) == (1000.0, 1.0)


def test_a_cost_too_small_to_divide_by_is_no_ceiling() -> None:
    assert kinds(found(CHAIN, {"map": (5e-324, 0.0), "map_2": (0.001, 0.0)})) == ["CPU"]


# --- one thread ---------------------------------------------------------------------------------------------------------------


def test_a_serial_map_is_named_by_its_op_and_line() -> None:
    stations = found(CHAIN, {"read": (0.0001, 0.0), "map": (0.0008, 0.0), "map_2": (0.0003, 0.0), "batch": (0.0002, 0.0)})
    assert (stations[0].kind, stations[0].op, stations[0].source) == ("serial op", "map", "data.py:3")
    assert stations[0].samples_per_s == pytest.approx(1 / 0.0009)
    assert [station.op for station in stations if station.kind == "serial op"] == ["map", "batch"]


def test_a_map_that_tensorflow_made_parallel_is_not_serial() -> None:
    times = {"map": (0.0009, 0.0), "map_2": (0.0001, 0.0)}
    assert kinds(found(CHAIN, times)) == ["serial op", "CPU"]
    assert kinds(found(CHAIN, times, parallelism={"map": 2.0})) == ["CPU"]


def test_a_thread_that_cannot_have_been_one_is_left_out() -> None:
    """1,000 samples/s of 2 ms each were not done one after the other."""
    times = {"map": (0.001 * REFUTED_RATIO + 0.0001, 0.0)}
    assert "serial op" not in kinds(found(CHAIN, times))
    assert "serial op" in kinds(found(CHAIN, {"map": (0.001 * REFUTED_RATIO - 0.0001, 0.0)}))


def test_waiting_for_a_cpu_is_no_service_where_the_worker_fills_its_cpus() -> None:
    times = {"map": (0.0007, 0.0003), "map_2": (0.0012, 0.0)}
    assert found(CHAIN, times, preempted_ratio=0.4)[0].kind == "CPU"
    assert found(CHAIN, times, preempted_ratio=0.0)[0].kind == "serial op"


def test_where_cpus_idle_waiting_is_service() -> None:
    times = {"map": (0.0005, 0.0004), "map_2": (0.0002, 0.0)}
    assert the("serial op", found(CHAIN, times, preempted_ratio=0.4)).samples_per_s == pytest.approx(1 / 0.0009)


# --- fixed parallelism --------------------------------------------------------------------------------------------------------


def fixed(calls: int | str, **parameters: Any) -> tuple[Op, ...]:
    return (*CHAIN[:3], op("map_2", "ParallelMap", "prefetch", num_parallel_calls=calls, **parameters), CHAIN[4])


def test_fewer_calls_than_cpus_are_named() -> None:
    stations = found(fixed(2), {"map_2": (0.0019, 0.0)}, cpus=4)
    assert (stations[0].kind, stations[0].op) == ("fixed parallelism", "map_2")
    assert stations[0].samples_per_s == pytest.approx(2 / 0.0019)


@pytest.mark.parametrize("calls", [2, 3, "AUTOTUNE"])
def test_as_many_calls_as_cpus_are_not(calls: int | str) -> None:
    assert "fixed parallelism" not in kinds(found(fixed(calls), {"map_2": (0.0019, 0.0)}))


def test_calls_that_wait_need_more_than_the_cpus() -> None:
    stations = found(fixed(8), {"map_2": (0.0002, 0.0077)})
    assert stations[0].kind == "fixed parallelism"
    assert stations[0].samples_per_s == pytest.approx(8 / 0.0079)
    assert "fixed parallelism" not in kinds(found(fixed(8), {"map_2": (0.0018, 0.0001)}))


def test_an_interleave_has_no_more_calls_than_its_cycle_and_holds_what_is_inside() -> None:
    ops = (
        *PARALLEL_READ[:2],
        op("interleave", "ParallelInterleave", "files", num_parallel_calls=16, cycle_length=2),
        PARALLEL_READ[3],
    )
    stations = found(ops, {"read": (0.0001, 0.0017), "interleave": (0.0001, 0.0)}, cpus=8)
    assert (stations[0].kind, stations[0].op) == ("fixed parallelism", "interleave")
    assert stations[0].samples_per_s == pytest.approx(2 / 0.0019)


# --- Python -------------------------------------------------------------------------------------------------------------------


def python(kind: str = "ParallelMap", **parameters: Any) -> tuple[Op, ...]:
    return (op("files", "TensorSlice"), op("map", kind, "files", calls=("PyFunc",), **parameters), op("batch", "Batch", "map"))


def test_python_in_parallel_is_limited_by_the_lock_and_not_by_its_calls() -> None:
    """Four calls, each of them waiting for the three others."""
    stations = found(python(num_parallel_calls=4), {"map": (0.00098, 0.003)}, cpu_s=0.0011)
    assert kinds(stations)[:2] == ["Python (GIL)", "fixed parallelism"]
    assert stations[0].op == "map"


def test_python_on_one_thread_is_that_thread() -> None:
    """Part of the runtime's CPU is taken for the function's, which must not bring the lock to the front."""
    stations = found(python("Map"), {"map": (0.00105, 0.0)}, cpu_s=0.0011)
    assert kinds(stations)[:2] == ["serial op", "Python (GIL)"]
    longer = found((*python("Map"), op("more", "Map", "batch")), {"map": (0.0008, 0.0), "more": (0.0001, 0.0)})
    assert kinds(longer)[:2] == ["serial op", "Python (GIL)"]


def test_one_python_call_at_a_time_is_that_call() -> None:
    assert kinds(found(python(num_parallel_calls=1), {"map": (0.00099, 0.00001)}, cpu_s=0.0011))[:2] == [
        "fixed parallelism",
        "Python (GIL)",
    ]


def test_cpu_of_the_runtime_in_the_functions_row_does_not_refute_the_lock() -> None:
    lock = found(python(num_parallel_calls=4), {"map": (0.0014, 0.0025)})[0]
    assert (lock.kind, lock.samples_per_s, lock.utilization_ratio) == ("Python (GIL)", 1000.0, 1.0)


def test_python_that_lets_go_of_the_lock_is_not_limited_by_it() -> None:
    times = {"map": (0.001 * PYTHON_REFUTED_RATIO + 0.0001, 0.0)}
    assert "Python (GIL)" not in kinds(found(python(num_parallel_calls=4), times))


def test_python_that_waits_leaves_the_lock_to_others() -> None:
    stations = found(python(num_parallel_calls=4), {"map": (0.0001, 0.0038)})
    assert stations[0].kind == "fixed parallelism"
    assert the("Python (GIL)", stations).utilization_ratio == pytest.approx(0.1)


def test_several_python_functions_share_one_lock() -> None:
    ops = (*python(num_parallel_calls=4)[:2], op("map_2", "ParallelMap", "map", calls=("EagerPyFunc",), num_parallel_calls=4))
    lock = the("Python (GIL)", found(ops, {"map": (0.0004, 0.0), "map_2": (0.0005, 0.0)}))
    assert lock.samples_per_s == pytest.approx(1 / 0.0009)
    assert lock.op is None


def test_without_python_there_is_no_lock() -> None:
    assert "Python (GIL)" not in kinds(found(CHAIN, {"map": (0.0009, 0.0)}))


# --- files --------------------------------------------------------------------------------------------------------------------


def test_readers_that_are_slow_by_themselves_are_named_by_what_holds_them() -> None:
    stations = found(PARALLEL_READ, {"read": (0.0002, 0.0)}, storage=reading({}, 1_050.0))
    assert (stations[0].kind, stations[0].op) == ("readers", "interleave")


def test_readers_are_silent_where_they_were_not_run_alone_or_are_refuted() -> None:
    times = {"read": (0.0002, 0.0)}
    assert "readers" not in kinds(found(PARALLEL_READ, times, storage=reading({})))
    assert "readers" not in kinds(found(PARALLEL_READ, times))
    assert "readers" not in kinds(found(PARALLEL_READ, times, storage=reading({}, 1000.0 / REFUTED_RATIO - 1)))


def test_a_thread_that_reads_stands_before_the_readers() -> None:
    stations = found(FLAT, {"read": (0.0008, 0.00002)}, storage=reading({}, 1_100.0))
    assert kinds(stations)[:2] == ["serial op", "readers"]
    far = found(FLAT, {"read": (0.0004, 0.0)}, storage=reading({}, 1_010.0))
    assert kinds(far)[0] == "readers"


def test_a_narrow_file_system_is_its_bandwidth() -> None:
    """More streams draw no more."""
    narrow = reading({1: 4.2e6, 2: 4.3e6, 4: 4.2e6}, 1_010.0)
    stations = found(PARALLEL_READ, {"read": (0.0001, 0.0036)}, storage=narrow)
    assert kinds(stations)[0] == "storage bandwidth"
    assert stations[0].samples_per_s == pytest.approx(4.3e6 / 4096)
    assert "storage latency" not in kinds(stations)


def test_reads_that_are_waited_for_one_by_one_are_its_latency() -> None:
    """One stream draws a fraction of what eight would, and one is all that a flat_map has."""
    slow = reading({1: 4.4e6, 2: 8.8e6, 4: 17e6, 8: 34e6}, 1_060.0)
    stations = found(FLAT, {"read": (0.00005, 0.0009)}, storage=slow)
    assert (stations[0].kind, stations[0].op) == ("storage latency", "flat_map")
    assert stations[0].samples_per_s == pytest.approx(4.4e6 / 4096)
    assert the("storage bandwidth", stations).samples_per_s == pytest.approx(34e6 / 4096)


@pytest.mark.parametrize(("cycle", "drawn"), [(1, 10e6), (2, 20e6), (3, 30e6), (4, 40e6), (6, 56e6)])
def test_latency_is_what_the_readers_own_streams_draw(cycle: int, drawn: float) -> None:
    storage = reading({1: 10e6, 2: 20e6, 4: 40e6, 8: 56e6})
    ops = (*PARALLEL_READ[:2], replace(PARALLEL_READ[2], parameters={"cycle_length": cycle, "num_parallel_calls": "AUTOTUNE"}))
    stations = found(ops, {"read": (0.0001, 0.0)}, storage=storage)
    expected = [drawn / 4096] if drawn < LATENCY_RATIO * 56e6 else []
    assert [station.samples_per_s for station in stations if station.kind == "storage latency"] == pytest.approx(expected)


def test_latency_is_not_above_what_more_streams_drew() -> None:
    ops = (*PARALLEL_READ[:2], replace(PARALLEL_READ[2], parameters={"cycle_length": 3}))
    stations = found(ops, {"read": (0.0001, 0.0)}, storage=reading({1: 10e6, 2: 20e6, 4: 24e6, 8: 56e6}))
    assert the("storage latency", stations).samples_per_s == pytest.approx(24e6 / 4096)


def test_more_streams_than_were_tried_leave_the_bandwidth_open() -> None:
    ops = (*PARALLEL_READ[:2], replace(PARALLEL_READ[2], parameters={"cycle_length": 16, "num_parallel_calls": 16}))
    growing = found(ops, {"read": (0.0001, 0.0)}, storage=reading({1: 10e6, 2: 20e6, 4: 40e6}))
    assert "storage bandwidth" not in kinds(growing)
    assert the("storage latency", growing).samples_per_s == pytest.approx(160e6 / 4096)
    full = found(ops, {"read": (0.0001, 0.0)}, storage=reading({1: 10e6, 2: 38e6, 4: 40e6}))
    assert "storage latency" not in kinds(full)
    assert the("storage bandwidth", full).samples_per_s == pytest.approx(40e6 / 4096)


def test_streams_that_tensorflow_chooses_are_those_it_chose() -> None:
    whole = (op("read", "ParallelMap", calls=("ReadFile",), num_parallel_calls="AUTOTUNE"),)
    storage = reading({1: 10e6, 2: 20e6, 4: 40e6})
    stations = found(whole, {"read": (0.0001, 0.0)}, storage=storage, parallelism={"read": 2.0})
    assert the("storage latency", stations).samples_per_s == pytest.approx(20e6 / 4096)
    assert "storage latency" not in kinds(found(whole, {"read": (0.0001, 0.0)}, storage=storage))


def test_two_readers_have_no_number_of_streams() -> None:
    ops = (op("a", "TFRecord"), op("b", "TFRecord"), op("zip", "Zip", "a", "b"))
    stations = found(ops, {"a": (0.0001, 0.0)}, storage=reading({1: 10e6, 8: 80e6}, 5_000.0))
    assert "storage latency" not in kinds(stations)
    assert the("readers", stations).op is None


@pytest.mark.parametrize(
    "measured", [{"page_cache_ratio": 1.0}, {"cache_state": "warm"}, {"cache_state": "cold"}, {"bytes_read_per_sample": None}]
)
def test_storage_is_silent_where_files_come_from_memory_or_were_not_read_in_that_state(measured: dict[str, Any]) -> None:
    storage = reading({1: 4.1e6, 8: 33e6})
    assert not {"storage latency", "storage bandwidth"} & set(
        kinds(found(FLAT, {"read": (1e-4, 0.0)}, storage=storage, measured=measured))
    )


def test_cold_windows_are_compared_with_cold_reads() -> None:
    reads = (make_read_rate(1, cache_state="cold", bytes_per_s=4.2e6), make_read_rate(1, cache_state="warm", bytes_per_s=5e9))
    cold = make_storage(reads=reads, evicted=True, source_samples_per_s=None)
    stations = found(FLAT, {"read": (1e-4, 0.0)}, storage=cold, measured={"cache_state": "cold"})
    assert the("storage bandwidth", stations).samples_per_s == pytest.approx(4.2e6 / 4096)


def test_a_cache_that_could_not_be_emptied_is_compared_as_it_was_found() -> None:
    storage = reading({1: 4.2e6}, evicted=False)
    assert "storage bandwidth" in kinds(found(FLAT, {"read": (1e-4, 0.0)}, storage=storage, measured={"cache_state": "cold"}))


# --- several workers ----------------------------------------------------------------------------------------------------------


def together(*workers: tuple[float, float, float]) -> Measurement:
    """(rate, CPU seconds, bytes read) of each."""
    results = tuple(
        make_worker(rate, index=index, cpu_s_per_sample=cpu_s, bytes_read_per_sample=size)
        for index, (rate, cpu_s, size) in enumerate(workers)
    )
    return make_measurement(f"1x{len(workers)}x1", workers=results)


HEAVY = together((400.0, 0.0025, 4096.0), (1000.0, 0.001, 4096.0))
LARGE = together((1000.0, 0.001, 4096.0), (400.0, 0.001, 16384.0))
DISTURBED = together((400.0, 0.00101, 4096.0), (1000.0, 0.001, 4096.0))


@pytest.mark.parametrize("run_of_two", [HEAVY, LARGE])
def test_a_heavier_shard_is_waited_for(run_of_two: Measurement) -> None:
    model = make_capacity_model(slowest_ratio=0.57)
    stations = found(CHAIN, {"map_2": (0.0019, 0.0)}, capacity=model, measurements=(run_of_two,))
    assert kinds(stations)[:2] == ["slowest shard", "CPU"]
    assert stations[0].samples_per_s == pytest.approx(570.0)
    assert stations[0].utilization_ratio == 1.0


@pytest.mark.parametrize(
    "more",
    [
        {"capacity": make_capacity_model(slowest_ratio=0.57), "measurements": (DISTURBED,)},
        {"capacity": make_capacity_model(slowest_ratio=0.57), "measurements": ()},
        {"capacity": make_capacity_model(slowest_ratio=0.95), "measurements": (HEAVY,)},
        {"capacity": make_capacity_model(slowest_ratio=0.57), "measurements": (HEAVY,), "feed": "first-come"},
        {"capacity": None, "measurements": (HEAVY,)},
        {"capacity": make_capacity_model(slowest_ratio=0.57), "measurements": (together((400.0, 0.0025, 4096.0)),)},
    ],
    ids=["no more work", "no run of several", "nearly even", "first come", "no model", "one worker"],
)
def test_workers_that_are_alike_or_not_waited_for_are_no_station(more: dict[str, Any]) -> None:
    assert "slowest shard" not in kinds(found(CHAIN, {"map_2": (0.0019, 0.0)}, **more))


def test_only_what_more_cpus_cannot_lift_is_a_ceiling_beyond_them() -> None:
    def station(kind: Any, op: str | None = None) -> Station:
        return Station(kind=kind, op=op, source=None, samples_per_s=100.0, utilization_ratio=1.0)

    kinds = (
        "CPU",
        "readers",
        "storage bandwidth",
        "slowest shard",
        "serial op",
        "fixed parallelism",
        "Python (GIL)",
        "storage latency",
    )
    kept = ceilings(station(kind, "map") for kind in kinds)
    assert [limit.name for limit in kept] == ["serial op map", "fixed parallelism map", "Python (GIL) map", "storage latency map"]
    assert all(limit.samples_per_s == 100.0 for limit in kept)

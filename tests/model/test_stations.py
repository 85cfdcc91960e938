"""Every station from its law: it fires where it is the limit, it is silent where it is not or nobody measured it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.model.bottlenecks import ceilings, stations_of
from cs_input_analyzer.model.capacity.assumptions import CEILING_ERROR_RATIO
from cs_input_analyzer.model.worker_ceilings import LATENCY_RATIO, REFUTED_RATIOS
from cs_input_analyzer.records import Estimate, Measurement, Op, Profile, Station, Storage
from tests.builders import (
    make_capacity_model,
    make_graph,
    make_layout,
    make_measurement,
    make_noise,
    make_op_cost,
    make_read_rate,
    make_runtime_cost,
    make_storage,
    make_worker,
)
from tests.worker.ops import op

# CPU and waiting of one op for one sample, in seconds.
Times = Mapping[str, tuple[float, float]]
SAMPLE_BYTES = 4096.0


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


def profile(times: Times, total_s: float, cpus: int, parallelism: Mapping[str, float] | None = None) -> Profile:
    rows = [
        make_op_cost(name, self_cpu_s_per_sample=cpu_s, wait_s_per_sample=wait_s, parallelism=(parallelism or {}).get(name))
        for name, (cpu_s, wait_s) in times.items()
    ]
    layout = make_layout(f"1x1x{cpus}")
    return Profile(layout=layout, harness_us_per_batch=None, cpu_s_per_sample=total_s, ops=(*rows, make_runtime_cost()))


def run(rate: float, cpus: int, preempted_ratio: float | None = None, **fields: Any) -> Measurement:
    noise = make_noise(preempted_ratio=preempted_ratio)
    worker = make_worker(rate, noise=noise, bytes_read_per_sample=fields.pop("bytes_read_per_sample", SAMPLE_BYTES))
    return make_measurement(f"1x1x{cpus}", workers=(worker,), **({"page_cache_ratio": 0.0} | fields))


def found(
    ops: tuple[Op, ...],
    times: Times,
    *,
    rate: float = 1000.0,
    cpus: int = 2,
    cpu_s: float | None = None,
    parallelism: Mapping[str, float] | None = None,
    preempted_ratio: float | None = None,
    measured: Mapping[str, Any] | None = None,
    **more: Any,
) -> tuple[Station, ...]:
    """CPU of the process: that of the ops, unless `cpu_s` says otherwise."""
    total_s = sum(cpu for cpu, _ in times.values()) if cpu_s is None else cpu_s
    launch = run(rate, cpus, preempted_ratio, **(measured or {}))
    return stations_of(make_graph(ops=ops), profile(times, total_s, cpus, parallelism), launch, **more)


def kinds(stations: tuple[Station, ...]) -> list[str]:
    return [station.kind for station in stations]


def the(kind: str, stations: tuple[Station, ...]) -> Station:
    (station,) = [station for station in stations if station.kind == kind]
    return station


def reading(samples_per_s: Mapping[int, float], source_per_s: float | None = None, **fields: Any) -> Storage:
    """What so many streams draw, and the readers alone."""
    reads = tuple(make_read_rate(streams, bytes_per_s=rate * SAMPLE_BYTES) for streams, rate in samples_per_s.items())
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


def test_without_a_rate_or_a_cpu_time_there_is_no_station() -> None:
    of_map = profile({"map": (0.001, 0.0)}, 0.001, 2)
    for rate in (None, 0.0):
        assert stations_of(make_graph(ops=CHAIN), of_map, make_measurement("1x1x2", workers=(make_worker(rate),))) == ()
    assert stations_of(make_graph(ops=CHAIN), replace(of_map, cpu_s_per_sample=None), run(100.0, 2)) == ()


# --- each law: where a station is the limit, and where it is silent ---------------------------------------------------------------


def fixed(calls: int | str) -> tuple[Op, ...]:
    return (*CHAIN[:3], op("map_2", "ParallelMap", "prefetch", num_parallel_calls=calls), CHAIN[4])


def python(kind: str = "ParallelMap", **parameters: Any) -> tuple[Op, ...]:
    return (op("files", "TensorSlice"), op("map", kind, "files", calls=("PyFunc",), **parameters), op("batch", "Batch", "map"))


def interleaved(**parameters: Any) -> tuple[Op, ...]:
    return (*PARALLEL_READ[:2], replace(PARALLEL_READ[2], parameters=parameters), PARALLEL_READ[3])


ONE, FOUR = python(num_parallel_calls=1), python(num_parallel_calls=4)
ONE_AFTER_THE_OTHER = (*PARALLEL_READ[:2], op("interleave", "Interleave", "files", cycle_length=4), PARALLEL_READ[3])
TWO_OF_SIXTEEN = interleaved(cycle_length=2, num_parallel_calls=16)
SIXTEEN = interleaved(cycle_length=16, num_parallel_calls=16)
TWO_FUNCTIONS = (*FOUR[:2], op("map_2", "ParallelMap", "map", calls=("EagerPyFunc",), num_parallel_calls=4))
WHOLE_FILES = (op("read", "ParallelMap", calls=("ReadFile",), num_parallel_calls="AUTOTUNE"),)
TWO_READERS = (op("a", "TFRecord"), op("b", "TFRecord"), op("zip", "Zip", "a", "b"))
NARROW = {"storage": reading({1: 1025, 2: 1050, 4: 1025}, 1010)}
SLOW = {"storage": reading({1: 1075, 2: 2150, 4: 4150, 8: 8300}, 1060)}
GROWING = {"storage": reading({1: 2500, 2: 5000, 4: 10_000})}
LEVEL = {"storage": reading({1: 2500, 2: 9500, 4: 10_000})}
COLD_READS = make_storage(
    reads=(
        make_read_rate(1, cache_state="cold", bytes_per_s=1025 * SAMPLE_BYTES),
        make_read_rate(1, cache_state="warm", bytes_per_s=5e9),
    ),
    evicted=True,
    source_samples_per_s=None,
)
READ_ALONE = {"storage": reading({1: 2500, 8: 19_500}, 5000)}
EVICTED = {"storage": COLD_READS, "measured": {"cache_state": "cold"}}
NOT_EVICTED = {"storage": reading({1: 1025}, evicted=False), "measured": {"cache_state": "cold"}}
CPU, READERS = "CPU", "readers"
REFUTED_S, LOCK_REFUTED_S = 0.001 * CEILING_ERROR_RATIO, 0.001 * REFUTED_RATIOS["Python (GIL)"]
SERIAL, FIXED, LOCK, BANDWIDTH, LATENCY = "serial op", "fixed parallelism", "Python (GIL)", "storage bandwidth", "storage latency"


@pytest.mark.parametrize(
    ("ops", "times", "options", "expected"),
    [
        # CPU: that of the runtime counts, what was used up is never refuted, and a cost may be too small to divide by.
        (CHAIN, {"map": (1e-4, 0), "map_2": (18e-4, 0)}, {}, {CPU: 2 / 19e-4, SERIAL: 1 / 1e-4}),
        (CHAIN, {"map_2": (1e-4, 0)}, {"cpu_s": 19e-4}, {CPU: 2 / 19e-4}),
        (CHAIN, {"map_2": (30e-4, 0)}, {}, {CPU: 1000}),
        (CHAIN, {"map": (5e-324, 0), "map_2": (10e-4, 0)}, {}, {CPU: 2 / 10e-4}),
        # One thread: its ops add up; not where TensorFlow made it parallel, nor where the rate refutes it.
        (CHAIN, {"map": (9e-4, 0), "map_2": (1e-4, 0)}, {}, {SERIAL: 1 / 9e-4, CPU: 2 / 10e-4}),
        (CHAIN, {"map": (9e-4, 0), "map_2": (1e-4, 0)}, {"parallelism": {"map": 2.0}}, {CPU: 2 / 10e-4}),
        (CHAIN, {"map": (REFUTED_S + 1e-4, 0)}, {}, {CPU: 2 / (REFUTED_S + 1e-4)}),
        (CHAIN, {"map": (REFUTED_S - 1e-4, 0)}, {}, {SERIAL: 1000, CPU: 2 / (REFUTED_S - 1e-4)}),
        # Waiting for a CPU is no service where the worker fills its CPUs; where they idle, waiting is.
        (CHAIN, {"map": (7e-4, 3e-4), "map_2": (12e-4, 0)}, {"preempted_ratio": 0.4}, {CPU: 2 / 19e-4, SERIAL: 1.4 / 10e-4}),
        (CHAIN, {"map": (7e-4, 3e-4), "map_2": (12e-4, 0)}, {"preempted_ratio": 0.0}, {SERIAL: 1 / 10e-4, CPU: 2 / 19e-4}),
        (CHAIN, {"map": (5e-4, 4e-4), "map_2": (2e-4, 0)}, {"preempted_ratio": 0.4}, {SERIAL: 1 / 9e-4, CPU: 2 / 7e-4}),
        # Fixed parallelism: fewer calls than CPUs, or calls that wait; an interleave has no more calls than its cycle is long.
        (fixed(2), {"map_2": (19e-4, 0)}, {"cpus": 4}, {FIXED: 2 / 19e-4, CPU: 4 / 19e-4}),
        (fixed(2), {"map_2": (19e-4, 0)}, {}, {CPU: 2 / 19e-4}),
        (fixed(8), {"map_2": (2e-4, 77e-4)}, {}, {FIXED: 8 / 79e-4, CPU: 2 / 2e-4}),
        (fixed(8), {"map_2": (18e-4, 1e-4)}, {}, {CPU: 2 / 18e-4}),
        (TWO_OF_SIXTEEN, {"read": (1e-4, 17e-4), "interleave": (1e-4, 0)}, {"cpus": 8}, {FIXED: 2 / 19e-4, CPU: 8 / 2e-4}),
        (ONE_AFTER_THE_OTHER, {"read": (1e-4, 8e-4)}, {}, {SERIAL: 1 / 9e-4, CPU: 2 / 1e-4}),
        # Python: in parallel each call waits for the others' lock; on one thread, or one call at a time, that is the limit.
        (FOUR, {"map": (9.8e-4, 30e-4)}, {"cpu_s": 11e-4}, {LOCK: 1 / 9.8e-4, FIXED: 4 / 39.8e-4, CPU: 2 / 11e-4}),
        (python("Map"), {"map": (10.5e-4, 0)}, {"cpu_s": 11e-4}, {SERIAL: 1000, LOCK: 1000, CPU: 2 / 11e-4}),
        (ONE, {"map": (9.9e-4, 1e-5)}, {"cpu_s": 11e-4}, {FIXED: 1000, LOCK: 1 / 9.9e-4, CPU: 2 / 11e-4}),
        # CPU of the runtime in the functions' row does not refute the lock; functions that let go of it do, or leave it to others.
        (FOUR, {"map": (14e-4, 25e-4)}, {}, {LOCK: 1000, FIXED: 4 / 39e-4, CPU: 2 / 14e-4}),
        (FOUR, {"map": (LOCK_REFUTED_S + 1e-4, 0)}, {}, {CPU: 2 / (LOCK_REFUTED_S + 1e-4)}),
        (FOUR, {"map": (1e-4, 38e-4)}, {}, {FIXED: 4 / 39e-4, LOCK: 1 / 1e-4, CPU: 2 / 1e-4}),
        (TWO_FUNCTIONS, {"map": (4e-4, 0), "map_2": (5e-4, 0)}, {}, {LOCK: 1 / 9e-4, CPU: 2 / 9e-4}),
        # Readers: slow by themselves, not run alone, refuted, or the thread that reads, which stands before them.
        (PARALLEL_READ, {"read": (2e-4, 0)}, {"storage": reading({}, 1_050.0)}, {READERS: 1050, CPU: 2 / 2e-4}),
        (PARALLEL_READ, {"read": (2e-4, 0)}, {"storage": reading({})}, {CPU: 2 / 2e-4}),
        (PARALLEL_READ, {"read": (2e-4, 0)}, {"storage": reading({}, 1000 / CEILING_ERROR_RATIO - 1)}, {CPU: 2 / 2e-4}),
        (FLAT, {"read": (8e-4, 2e-5)}, {"storage": reading({}, 1_100.0)}, {SERIAL: 1 / 8.2e-4, READERS: 1100, CPU: 2 / 8e-4}),
        (FLAT, {"read": (4e-4, 0)}, {"storage": reading({}, 1_010.0)}, {READERS: 1010, SERIAL: 1 / 4e-4, CPU: 2 / 4e-4}),
        # Storage: more streams draw no more, or would draw more than the one that there is.
        (PARALLEL_READ, {"read": (1e-4, 36e-4)}, NARROW, {BANDWIDTH: 1050, FIXED: 4 / 37e-4, READERS: 1010, CPU: 2 / 1e-4}),
        (FLAT, {"read": (5e-5, 9e-4)}, SLOW, {LATENCY: 1075, SERIAL: 1 / 9.5e-4, READERS: 1060, BANDWIDTH: 8300, CPU: 2 / 5e-5}),
        # More streams than were tried leave the bandwidth open, unless it was level already.
        (SIXTEEN, {"read": (1e-5, 0)}, GROWING, {LATENCY: 40_000, CPU: 2 / 1e-5}),
        (SIXTEEN, {"read": (1e-4, 0)}, LEVEL, {BANDWIDTH: 10_000, CPU: 2 / 1e-4}),
        # Streams are those that TensorFlow chose; of two readers their number is not known.
        (
            WHOLE_FILES,
            {"read": (1e-4, 0)},
            GROWING | {"parallelism": {"read": 2.0}},
            {LATENCY: 5000, BANDWIDTH: 10_000, CPU: 2 / 1e-4},
        ),
        (WHOLE_FILES, {"read": (1e-4, 0)}, GROWING, {BANDWIDTH: 10_000, CPU: 2 / 1e-4}),
        (TWO_READERS, {"a": (1e-4, 0)}, READ_ALONE, {READERS: 5000, SERIAL: 1e4, BANDWIDTH: 19_500, CPU: 2 / 1e-4}),
        # Windows are compared with reads in the same state of the cache, or with what could not be emptied.
        (FLAT, {"read": (1e-4, 0)}, EVICTED, {BANDWIDTH: 1025, SERIAL: 1e4, CPU: 2 / 1e-4}),
        (FLAT, {"read": (1e-4, 0)}, NOT_EVICTED, {BANDWIDTH: 1025, SERIAL: 1e4, CPU: 2 / 1e-4}),
    ],
)
def test_a_station_by_its_law(ops: tuple[Op, ...], times: Times, options: dict[str, Any], expected: dict[str, float]) -> None:
    """`expected`: all ceilings by kind, in order."""
    stations = found(ops, times, **options)
    assert kinds(stations) == list(expected)
    assert {station.kind: station.samples_per_s for station in stations} == pytest.approx(expected)


def test_a_station_is_named_by_its_op_and_line() -> None:
    stations = found(CHAIN, {"read": (0.0001, 0.0), "map": (0.0008, 0.0), "map_2": (0.0003, 0.0), "batch": (0.0002, 0.0)})
    assert (stations[0].kind, stations[0].op, stations[0].source) == ("serial op", "map", "data.py:3")
    assert [station.op for station in stations if station.kind == "serial op"] == ["map", "batch"]
    assert {str(station.layout) for station in stations} == {"1x1x2"}
    held = found(PARALLEL_READ, {"read": (0.0002, 0.0)}, storage=reading({}, 1_050.0))
    assert (held[0].kind, held[0].op) == ("readers", "interleave")  # by what holds them
    of_two = found(TWO_READERS, {"a": (1e-4, 0)}, **READ_ALONE)
    assert the("readers", of_two).op is None
    assert the(LOCK, found(TWO_FUNCTIONS, {"map": (4e-4, 0), "map_2": (5e-4, 0)})).op is None


@pytest.mark.parametrize(
    ("cycle", "level", "drawn"),
    [(1, 10_000, 2500), (2, 10_000, 5000), (3, 10_000, 7500), (4, 10_000, 10_000), (6, 10_000, 14_000), (3, 6000, 6000)],
)
def test_latency_is_what_the_readers_own_streams_draw_and_not_above_what_more_drew(cycle: int, level: float, drawn: float) -> None:
    most = min(14_000, 2 * level)  # twice the streams draw at most twice the rate
    storage = reading({1: 2500, 2: 5000, 4: level, 8: most})
    ops = interleaved(cycle_length=cycle, num_parallel_calls="AUTOTUNE")
    expected = [drawn] if drawn < LATENCY_RATIO * most else []
    stations = found(ops, {"read": (0.0001, 0.0)}, storage=storage)
    assert [station.samples_per_s for station in stations if station.kind == "storage latency"] == pytest.approx(expected)


def test_a_window_below_its_share_of_a_wider_one_was_disturbed() -> None:
    """N streams draw at most N times the rate of one; 1,100/s, which the pipeline draws, would refute the window of one stream."""
    storage = reading({1: 800, 2: 2500, 4: 5000})
    stations = found(FLAT, {"read": (1e-4, 0.0)}, rate=1100.0, storage=storage)
    assert the(LATENCY, stations).samples_per_s == pytest.approx(1250)


@pytest.mark.parametrize(
    "measured", [{"page_cache_ratio": 1.0}, {"cache_state": "warm"}, {"cache_state": "cold"}, {"bytes_read_per_sample": None}]
)
def test_storage_is_silent_where_files_come_from_memory_or_were_not_read_in_that_state(measured: dict[str, Any]) -> None:
    stations = found(FLAT, {"read": (1e-4, 0.0)}, storage=reading({1: 1000, 8: 8000}), measured=measured)
    assert not {"storage latency", "storage bandwidth"} & set(kinds(stations))


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
        {"capacity": make_capacity_model(slowest_ratio=0.57, is_sharded=False), "measurements": (HEAVY,)},
        {"capacity": make_capacity_model(slowest_ratio=0.95), "measurements": (HEAVY,)},
        {"capacity": make_capacity_model(slowest_ratio=0.57), "measurements": (HEAVY,), "feed": "first-come"},
        {"capacity": None, "measurements": (HEAVY,)},
        {"capacity": make_capacity_model(slowest_ratio=0.57), "measurements": (together((400.0, 0.0025, 4096.0)),)},
    ],
    ids=["no more work", "no run of several", "the same data", "nearly even", "first come", "no model", "one worker"],
)
def test_workers_that_are_alike_or_not_waited_for_are_no_station(more: dict[str, Any]) -> None:
    assert "slowest shard" not in kinds(found(CHAIN, {"map_2": (0.0019, 0.0)}, **more))


def lasting(
    ops: tuple[Op, ...],
    times: Times,
    *,
    rate: float = 1000.0,
    cpus: int = 2,
    idle_rate: float | None = None,
    speed: float = 1.0,
    others: Sequence[float] = (),
    **more: Any,
) -> dict[str, float]:
    """Each ceiling by name, on an idle node. `others`: rates of workers of other launches."""
    of_ops, launch = profile(times, sum(cpu for cpu, _ in times.values()), cpus), run(rate, cpus)
    cpu_s = of_ops.cpu_s_per_sample
    assert cpu_s is not None
    idle = make_worker(idle_rate or rate, cpu_s_per_sample=cpu_s * speed)
    measurements = [run(other, 1) for other in others]
    limits = ceilings(make_graph(ops=ops), of_ops, launch, idle, measurements=measurements, **more)
    return {limit.name: pytest.approx(limit.samples_per_s) for limit in limits}


def test_only_what_more_cpus_cannot_lift_is_a_ceiling_beyond_them() -> None:
    """CPUs, readers and the bandwidth of the storage are none."""
    assert lasting(CHAIN, {"map_2": (0.0019, 0.0)}) == {}
    assert lasting(CHAIN, {"map_2": (1e-3, 0.0), "batch": (5e-4, 0.0)}) == {"serial op batch": 2000}
    assert lasting(fixed(2), {"map_2": (5e-4, 1e-3)}, cpus=4) == {"fixed parallelism map_2": 2 / 1.5e-3}
    assert lasting(CHAIN, {"map_2": (1e-4, 0.0)}, idle_rate=1500.0, **SLOW) == {"storage latency read": 1075}


@pytest.mark.parametrize("calls", [2, 8])
def test_calls_that_fill_the_cpus_are_a_ceiling_only_for_a_worker_of_more(calls: int) -> None:
    """A written `num_parallel_calls=2` makes two calls at a time also where a task has 64 CPUs."""
    ops, computes = fixed(calls), {"map_2": (1.9e-3, 0.0)}
    assert FIXED not in kinds(found(ops, computes))
    assert lasting(ops, computes) == {"fixed parallelism map_2": calls / 1.9e-3}


@pytest.mark.parametrize(
    ("by_cpus", "cycle", "growth"),
    [
        ({}, 9, 1),
        ({"num_parallel_calls": 1024}, 9, 9 / 2),  # more calls than the code opens files are of no use
        ({"num_parallel_calls": 1024}, 2, 1),
        ({"num_parallel_calls": 1024}, 1, 1),
        ({"num_parallel_calls": 1024, "cycle_length": 512}, 2, 512 / 2),
        ({"cycle_length": 1024}, 1, 2),
    ],
)
def test_a_ceiling_grows_with_the_calls_that_the_code_takes_from_the_cpus(
    by_cpus: dict[str, int], cycle: int, growth: float
) -> None:
    ops = interleaved(num_parallel_calls=2, cycle_length=cycle)
    ops = (*ops[:2], replace(ops[2], by_cpus=by_cpus), ops[3])
    waits, calls = {"read": (1e-4, 8e-4)}, min(2, cycle)
    assert the(FIXED, found(ops, waits)).samples_per_s == pytest.approx(calls / 9e-4)
    assert lasting(ops, waits)["fixed parallelism interleave"] == growth * calls / 9e-4
    slow = {"storage": reading({1: 1075, 2: 2150, 4: 4150, 8: 8300})}
    assert the(LATENCY, found(ops, {"read": (1e-4, 0.0)}, **slow)).samples_per_s == 1075 * calls
    assert lasting(ops, {"read": (1e-4, 0.0)}, **slow)["storage latency interleave"] == growth * 1075 * calls


def test_reads_that_tensorflow_tunes_are_bounded_only_by_the_files_that_are_open() -> None:
    slow, reads = {"storage": reading({1: 1075, 2: 2150, 4: 4150, 8: 8300})}, {"read": (1e-4, 0.0)}
    whole = profile(reads, 1e-4, 2, {"read": 1.0})
    limits = ceilings(make_graph(ops=WHOLE_FILES), whole, run(1000.0, 2), make_worker(1000.0, cpu_s_per_sample=1e-4), **slow)
    assert limits == ()
    one, chosen = interleaved(num_parallel_calls="AUTOTUNE", cycle_length=1), {"cycle_length": 342}
    assert lasting(one, reads, **slow)["storage latency interleave"] == 1075
    assert lasting((*one[:2], replace(one[2], by_cpus=chosen), one[3]), reads, **slow)["storage latency interleave"] == 342 * 1075


def test_an_idle_node_lifts_a_ceiling_by_what_it_lifts_the_worker() -> None:
    waits = {"map_2": (1e-4, 0.0), "batch": (1e-4, 7e-4)}
    assert lasting(CHAIN, waits, idle_rate=1500.0) == {"serial op batch": 1875}


@pytest.mark.parametrize("speed", [1.0, 0.8])
def test_no_ceiling_is_lifted_above_what_its_cpu_time_allows(speed: float) -> None:
    """Others take no CPU time from a sample: only CPUs that run faster lift the lock, or a thread that never waits."""
    computes = {"map_2": (1e-4, 0.0), "batch": (8e-4, 0.0)}
    assert lasting(CHAIN, computes, idle_rate=2200.0, speed=speed)["serial op batch"] == 1250 / speed
    calls = {"map": (8e-4, 0.0)}
    assert lasting(FOUR, calls, idle_rate=2200.0, speed=speed)["Python (GIL) map"] == 1250 / speed


def test_no_ceiling_is_below_what_any_worker_delivered() -> None:
    times = {"map_2": (1e-4, 0.0), "batch": (8e-4, 0.0)}
    assert lasting(CHAIN, times, others=(900.0, 1300.0))["serial op batch"] == 1300
    assert lasting(CHAIN, times, others=(900.0,))["serial op batch"] == 1250


@given(some_times, st.integers(1, 64), st.floats(0.01, 1.0), st.floats(1.0, 9.0), st.floats(0.1, 1.0))
def test_an_idle_node_lowers_no_ceiling(times: Times, cpus: int, used: float, faster: float, speed: float) -> None:
    rate = used * cpus / sum(cpu for cpu, _ in times.values())
    as_measured = lasting(CHAIN, times, rate=rate, cpus=cpus)
    idle = lasting(CHAIN, times, rate=rate, cpus=cpus, idle_rate=rate * faster, speed=speed)
    assert idle.keys() == as_measured.keys()
    assert all(rate <= as_measured[name].expected <= idle[name].expected * (1 + 1e-9) for name in idle)


def test_a_worker_without_a_rate_has_no_ceilings() -> None:
    of_map = profile({"map": (0.001, 0.0)}, 0.001, 2)
    graph = make_graph(ops=CHAIN)
    assert ceilings(graph, of_map, make_measurement("1x1x2", workers=(make_worker(None),)), make_worker(100.0)) == ()
    assert ceilings(graph, of_map, run(100.0, 2), make_worker(None)) == ()

"""Serial stations: found where one thread is the limit, silent where CPUs are, or nothing is."""

from __future__ import annotations

from typing import Any

from cs_input_analyzer.pipeline.threads import is_serial
from cs_input_analyzer.records import Op
from cs_input_analyzer.worker.serial import GIL, serial_station


def op(name: str, kind: str, *inputs: str, within: str | None = None, calls: tuple[str, ...] = (), **parameters: Any) -> Op:
    return Op(name=name, kind=kind, inputs=inputs, parameters=parameters, within=within, function_ops=calls)


SERIAL_MAP = (
    op("TFRecordDataset", "TFRecord"),
    op("map", "Map", "TFRecordDataset"),
    op("batch", "Batch", "map"),
    op("prefetch", "Prefetch", "batch"),
)
PARALLEL_MAP = (
    op("TFRecordDataset", "TFRecord"),
    op("map", "ParallelMap", "TFRecordDataset", num_parallel_calls="AUTOTUNE"),
    op("batch", "Batch", "map"),
    op("prefetch", "Prefetch", "batch"),
)


def test_a_serial_map_that_fills_its_thread_is_found() -> None:
    found = serial_station(SERIAL_MAP, {"map": 0.009, "batch": 0.0005}, samples_per_s=100, idle_cpus=1.0)
    assert found is not None
    assert found.op == "map"
    assert found.busy_ratio == 0.95
    assert found.idle_cpus == 1.0


def test_several_small_ops_of_one_thread_add_up_and_the_dearest_is_named() -> None:
    walls = {"TFRecordDataset": 0.003, "map": 0.002, "batch": 0.004}
    found = serial_station(SERIAL_MAP, walls, samples_per_s=100, idle_cpus=1.0)
    assert found is not None
    assert found.op == "batch"


def test_silent_when_no_cpu_is_idle() -> None:
    assert serial_station(SERIAL_MAP, {"map": 0.01}, samples_per_s=100, idle_cpus=0.1) is None


def test_silent_when_the_thread_has_time() -> None:
    assert serial_station(SERIAL_MAP, {"map": 0.005}, samples_per_s=100, idle_cpus=1.0) is None


def test_silent_for_a_parallel_map_however_long_it_takes() -> None:
    assert serial_station(PARALLEL_MAP, {"map": 0.05}, samples_per_s=100, idle_cpus=1.0) is None


def test_the_batch_behind_a_parallel_map_is_found() -> None:
    found = serial_station(PARALLEL_MAP, {"map": 0.05, "batch": 0.0095}, samples_per_s=100, idle_cpus=1.0)
    assert found is not None
    assert found.op == "batch"


def test_python_in_a_parallel_map_is_the_interpreters_lock() -> None:
    chain = (op("range", "Range"), op("map", "ParallelMap", "range", calls=("PyFunc",), num_parallel_calls=4))
    found = serial_station(chain, {"map": 0.03}, samples_per_s=100, idle_cpus=1.2)
    assert found is not None
    assert found.op == GIL
    assert found.busy_ratio == 1.0


def test_python_that_has_time_is_no_station() -> None:
    chain = (op("range", "Range"), op("map", "ParallelMap", "range", calls=("PyFunc",), num_parallel_calls=4))
    assert serial_station(chain, {"map": 0.003}, samples_per_s=100, idle_cpus=1.2) is None


def test_what_is_serial() -> None:
    nested = (
        op("TFRecordDataset", "TFRecord", within="interleave"),
        op("interleave", "ParallelInterleave", num_parallel_calls="AUTOTUNE"),
        op("map", "ParallelMap", "interleave", num_parallel_calls=1),
        op("shuffle", "Shuffle", "map"),
    )
    by_name = {found.name: found for found in nested}
    assert not is_serial(by_name["TFRecordDataset"], nested)  # read by as many threads as the interleave has
    assert not is_serial(by_name["interleave"], nested)
    assert is_serial(by_name["map"], nested)  # parallel in name only
    assert is_serial(by_name["shuffle"], nested)

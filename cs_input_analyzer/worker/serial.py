"""Whether one thread holds the worker back while CPUs idle.

A segment of serial ops is a station with one server, so by the utilization law U = X · D it is the bottleneck when rate times wall
time per sample comes near 1 while CPUs idle. The lock of Python functions is another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cs_input_analyzer.pipeline.threads import dearest, is_serial, python_ops, segments
from cs_input_analyzer.records import Op, SerialStation

GIL = "GIL"
BUSY_RATIO = 0.8
IDLE_CPUS = 0.3


def serial_station(
    ops: Sequence[Op], wall_s_per_sample: Mapping[str, float], samples_per_s: float, idle_cpus: float
) -> SerialStation | None:
    """The station of one server that is busy while CPUs idle; None where there is none.

    Args:
        ops: as TensorFlow runs them (`threads.as_run`).
        wall_s_per_sample: thread time by op name, waiting included: a thread that waits for storage is taken, too.
        idle_cpus: of the worker, on average over the window.
    """
    if idle_cpus < IDLE_CPUS:
        return None
    python = python_ops(ops)
    stations = [(GIL, python)] if any(not is_serial(op, ops) for op in python) else []
    stations += [(dearest(segment, wall_s_per_sample).name, segment) for segment in segments(ops)]
    found = None
    for name, members in stations:
        busy_ratio = samples_per_s * sum(wall_s_per_sample.get(op.name, 0.0) for op in members)
        if busy_ratio >= BUSY_RATIO and (found is None or min(1.0, busy_ratio) > found.busy_ratio):
            found = SerialStation(op=name, busy_ratio=min(1.0, busy_ratio), idle_cpus=idle_cpus)
    return found

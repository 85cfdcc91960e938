"""Find the numbers of an op that the user's code, or TensorFlow, takes from the CPUs."""

from __future__ import annotations

import os
from collections.abc import Sequence

from cs_input_analyzer.records import Op
from cs_input_analyzer.tfdata.op_traits import (
    THREADS_PER_FILE,
    WIDTHS,
    has_written_cycle,
    is_made_by_reader,
    number_of,
    written_number,
)
from cs_input_analyzer.tfdata.source.code import count_calls
from cs_input_analyzer.tfdata.source.cpu_counts import number_on

# No node has more CPUs.
MANY_CPUS = 1024


def by_cpus(op: Op, ops: Sequence[Op]) -> dict[str, int]:
    """Return `Op.by_cpus`: numbers that follow from the CPUs of the host, or of this process, and grow with them."""
    here = {os.cpu_count() or 1, len(os.sched_getaffinity(0))}
    found: dict[str, int] = {}
    for name in WIDTHS:
        number, most = number_of(op, name), _number_on(MANY_CPUS, op, name, ops)
        if number is not None and most is not None and most > number:
            found |= {name: most} if any(_number_on(cpus, op, name, ops) == number for cpus in here) else {}
    return found


def _number_on(cpus: int, op: Op, name: str, ops: Sequence[Op]) -> int | None:
    """Return the number of an op on a node of these CPUs; None if it is not known."""
    if name == "cycle_length" and _has_chosen_cycle(op, ops):
        calls = _number_on(cpus, op, "num_parallel_calls", ops) or number_of(op, "num_parallel_calls")
        return -(-cpus // THREADS_PER_FILE) if calls is None else min(calls, cpus)
    written = written_number(op, name, ops)
    return number_on(cpus, written, op.source) if written and op.source else None


def _has_chosen_cycle(op: Op, ops: Sequence[Op]) -> bool:
    """Return whether TensorFlow chose the number of files that are open. The graph has this number, and not that it was chosen."""
    if is_made_by_reader(op, ops):
        return "num_parallel_calls" in op.parameters  # which a written number of reads leaves out
    return op.kind == "ParallelInterleave" and count_calls(op.code, "interleave") > 0 and not has_written_cycle(op, ops)

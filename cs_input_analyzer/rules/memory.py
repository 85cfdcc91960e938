"""Rules of memory: what a worker holds beside the elements it works on."""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.planning.evidence import finding
from cs_input_analyzer.records import Case, Finding
from cs_input_analyzer.units import format_bytes

LARGE_BYTES = 32 * 2**20
# From this share of a node's memory on, arrays of all tasks of a node are worth a warning.
NODE_RATIO = 0.1


def arrays_in_graph(case: Case) -> Iterator[Finding]:
    """An array is a constant of the graph, and each worker holds all of it.

    `from_tensor_slices(array)`, or a function that uses an array from outside, puts the array into the graph. Every task of a node
    has a copy of its own, beside the NumPy array that it was made of, `shard` or not; TensorFlow serializes it with the graph
    (which `tf.data.service`, `tf.function` and a saved model do, and which fails from 2 GB on).

    Fix: write the samples to TFRecord files, of which each worker reads its own; or `np.load(path, mmap_mode="r")` in a generator
    over this worker's indices, which shares the pages of the file between tasks.

    A warning where the arrays of the tasks of one node take a tenth of its memory or more; else for your information.

    Silent below 32 MiB, and for texts: lists of file names are short beside the files.
    """
    holders, tasks = {op.within for op in case.pipeline.ops}, case.plan.tasks_per_node if case.plan else 1
    for op in case.pipeline.ops:
        held = op.constant_bytes
        if held < LARGE_BYTES or op.name in holders:
            continue
        of_node, room = tasks * held, case.cluster.memory_bytes_per_node
        many = f", {format_bytes(of_node)} in the {tasks} tasks of a node" if tasks > 1 else ""
        message = f"the graph holds an array of {format_bytes(held)} for {op.name}{many}"
        fix = "write the samples to TFRecord files, or read them with np.load(path, mmap_mode='r') in a generator"
        evidence = {"constant_bytes": held, "bytes_per_node": of_node, "memory_bytes_per_node": room}
        yield finding(op, message, fix, evidence, is_warning=of_node >= NODE_RATIO * room)

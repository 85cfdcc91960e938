"""Rules of memory: the arrays and buffers that a worker holds."""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.model.buffers import buffers_of
from cs_input_analyzer.model.evidence import finding, free_bytes_per_node, tasks_per_node
from cs_input_analyzer.records import Case, Finding
from cs_input_analyzer.units import format_bytes

LARGE_BYTES = 32 * 2**20
# Above this share of a node's memory, the arrays of all its tasks are worth a warning.
NODE_RATIO = 0.1


def arrays_in_graph(case: Case) -> Iterator[Finding]:
    """An array is a constant of the graph, and each worker holds all of it.

    `from_tensor_slices(array)`, or a function that uses an array from outside, puts the array into the graph. Every
    task of a node has its own copy, besides the NumPy array, even with `shard`. A graph of 2 GB or more cannot be
    serialized.

    Fix: write the samples to TFRecord files, so that each worker reads its own. Or use `np.load(path, mmap_mode="r")`
    in a generator over this worker's indices, which shares the pages of the file between tasks.

    A warning if the arrays of the tasks of one node take a tenth of its memory or more; else for your information.

    Silent below 32 MiB, and for strings: lists of file names are small.
    """
    holders, tasks = {op.within for op in case.pipeline.ops}, tasks_per_node(case)
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


def buffers_exceed_memory(case: Case) -> Iterator[Finding]:
    """The buffers of the tasks of a node may fill its memory, and the kernel then kills a worker.

    A `shuffle`, a `prefetch` and a `cache` in memory fill while training goes on, in every task of the node. A run of a
    minute ends long before they are full.

    Fix: a smaller buffer; `shuffle` before the decoding, or of file names or keys instead of samples; `cache` to a
    file, or before the decoding.

    A warning if the measured memory and the growth of the buffers together exceed the memory of a node.

    Silent if the full buffers fit, and if the size of elements is unknown. Buffers that AUTOTUNE sizes do not count.
    """
    tasks, room = tasks_per_node(case), case.cluster.memory_bytes_per_node
    buffers = buffers_of(case)
    need = room - free_bytes_per_node(case) + tasks * sum(buffer.growth_bytes for buffer in buffers)
    if need <= room or not buffers:
        return
    worst = max(buffers, key=lambda buffer: buffer.growth_bytes)
    each = f" in each of {tasks} tasks" if tasks > 1 else ""
    held = f", {format_bytes(worst.held_bytes)} so far" if worst.held_bytes else ""
    message = f"{worst.op.name} holds {format_bytes(worst.full_bytes)} when it is full{each}{held}; a node has {format_bytes(room)}"
    fix = "cache before the decoding, or to a file" if worst.op.kind == "Cache" else "give it a smaller buffer"
    if worst.op.kind == "Shuffle":
        fix += ", shuffle before the decoding, or shuffle file names"
    evidence = {"held_bytes": round(worst.held_bytes), "full_bytes": worst.full_bytes, "bytes_per_node_when_full": round(need)}
    yield finding(worst.op, message, fix, evidence, is_warning=True)

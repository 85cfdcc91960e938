"""How many samples, elements and bytes the data of a Case hold; None if that is not known. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import harmonic_mean

from cs_input_analyzer.model.evidence import is_full, tasks_per_node, visits, workers_of
from cs_input_analyzer.records import Case, FileSet, Op
from cs_input_analyzer.tfdata.layers import Walk
from cs_input_analyzer.tfdata.lineage import at_or_behind, deals_out_files, downstream, upstream
from cs_input_analyzer.tfdata.op_kinds import KEEPERS, KEEPS_SIZE, MAPS, OPENS, REPEATS, SOURCES, kinds_with
from cs_input_analyzer.tfdata.op_traits import cost_of, length_of, number_of, sample_bytes
from cs_input_analyzer.tfdata.samples import samples_reaching
from cs_input_analyzer.tfdata.threads import inside, reader_ops

# If the workers' bytes of a sample differ by more than this, the number of samples is unknown.
AGREEING_RATIO = 1.5
# Files to write: at least this number for each worker, of about this size.
FILES_PER_WORKER = 4
GOOD_BYTES = 128 * 2**20


def files_wanted(files: FileSet, workers: int | None) -> int:
    """Return the number of files to write the data of these files into, for a number of workers."""
    return max(-(-files.bytes // GOOD_BYTES), FILES_PER_WORKER * (workers or 1))


def samples_of_worker(case: Case, op: Op | None = None) -> float | None:
    """Return the samples in the files of one worker of the plan (of all files, without one).

    If maps read whole files, they are the elements of the list of files, or the files. Else they are the bytes of all
    over those read for a sample. None if not all samples come from readers of files: what a generator reads, and how
    often, is not known. None, too, where a file is read in slices, each by a `skip` over those before it: then its
    bytes are read more than once in a pass. None if a full cache feeds the passes: then no file is read for a sample.
    And None if workers do not agree on the bytes of a sample: then what one of them read was not what its samples are
    made of.

    A `take` limits them. With `op`, only those count that it takes its elements from: a buffer before a `take` still fills.
    """
    counts = _sample_counts(case, op)
    if not counts or max(counts) > AGREEING_RATIO * min(counts):
        return None
    return harmonic_mean(counts)  # as many bytes as the mean worker read


def _sample_counts(case: Case, op: Op | None) -> list[float]:
    """Return the samples of a worker by the bytes that each measured one read for a sample; empty if they are not known."""
    ops, files = case.pipeline.ops, case.pipeline.files
    is_read_again = any(one.kind == "Skip" and one.within is not None for one in ops)
    if files is None or is_read_again or any(one.kind in kinds_with("python") for one in ops) or not reader_ops(ops):
        return []
    workers, most = (workers_of(case) or 1) if case.is_sharded else 1, _most_taken(ops, op)
    if files_are_samples(ops) and not any(one.kind in kinds_with("filter") for one in ops):
        # What Python code deals out may be in the graph as the names of one worker.
        listed = _shortest_source(ops) if not case.is_sharded or deals_out_files(ops) else None
        return [min((listed or files.count) / workers, most)]
    if any(one.kind in KEEPERS and is_full(case, one) for one in ops):
        return []
    read = [worker.bytes_read_per_sample for m in case.measurements for worker in m.measured_workers]
    return [min(files.bytes / size / workers, most) for size in read if size]


def _shortest_source(ops: Sequence[Op]) -> int | None:
    """Return the elements of the only source, or of the shortest that a `zip` joins: a sample may be of several files.

    Return None if a length is unknown, or if an op may make several elements of one.
    """
    lengths = [length_of(one) for one in ops if one.within is None and not one.inputs]
    may_grow = any(one.kind in OPENS | {"Unbatch"} or (len(one.inputs) > 1 and one.kind != "Zip") for one in ops)
    known = [length for length in lengths if length is not None]
    return min(known) if known and len(known) == len(lengths) and not may_grow else None


def _most_taken(ops: Sequence[Op], op: Op | None) -> float:
    """Return the samples of a pass that each `take` up to `op` lets through, at most; infinity without a `take`.

    A `take` behind a `repeat` ends no pass. Behind a `take` of file names, and before a join, there may be more samples.
    """
    before, most = ops if op is None else (*upstream(op, ops), op), math.inf
    for take in before:
        count = number_of(take, "count") if take.kind == "Take" and take.within is None else None
        if count is None or count < 0 or any(one.kind in REPEATS for one in upstream(take, ops)):
            continue
        later, each = [one for one in downstream(take, ops) if one in before], samples_reaching(take, ops)
        may_grow = any(one.kind in OPENS | {"Unbatch"} or len(one.inputs) > 1 for one in later)
        if each is not None and not may_grow:
            most = min(most, count * each)
    return most


def files_are_samples(ops: Sequence[Op]) -> bool:
    """Return whether maps read a whole file for each element, as of folders of pictures, and nothing takes it apart.

    An `unbatch` that takes batches of files apart leaves the files whole.
    """
    readers = {op.name: op for op in reader_ops(ops)}
    if not readers or not all(op.kind in MAPS and op.within is None for op in readers.values()):
        return False
    behind, got = at_or_behind(ops, lambda op: op.name in readers), Walk.over(ops).passing
    return not any(op.kind in OPENS or (op.kind == "Unbatch" and not got[op.name][0].batches) for op in ops if op.name in behind)


def elements_of_worker(case: Case, op: Op) -> float | None:
    """Return the elements that `op` gives in a pass of one worker: its samples, or as many as were measured for a sample."""
    samples, each = samples_of_worker(case, op), visits(case, op)
    return samples * each if samples is not None and each else samples


def cache_bytes_per_node(case: Case, op: Op) -> float | None:
    """Return the memory that a cache after `op` takes on a node of the plan: one pass for each of its workers.

    If workers disagree on their samples the largest number counts, because the cache must fit.
    """
    samples, cost = samples_of_pass(case, op), cost_of(op, case.profile)
    each = bytes_per_sample(case, op)
    if samples is None or cost is None or each is None:
        return None
    taken = op.parameters.get("count") if op.kind == "Take" else None
    if isinstance(taken, int) and taken >= 0 and cost.elements_per_sample:
        samples = min(samples, taken / cost.elements_per_sample)
    return samples * each * tasks_per_node(case)


def samples_of_pass(case: Case, op: Op) -> float | None:
    """Return the most samples that a pass of one worker has before `op`. None if nothing says when a pass ends.

    The files say it, or else the length of the only source, over its elements that were measured for a sample.
    """
    samples = samples_of_worker(case, op) or max(_sample_counts(case, op), default=None)
    if samples is not None:
        return samples
    before = (*upstream(op, case.pipeline.ops), op)
    sources = [one for one in (*before, *(nested for one in before for nested in inside(one, case.pipeline.ops))) if not one.inputs]
    length = length_of(sources[0]) if len(sources) == 1 and sources[0].kind in SOURCES else None
    each = visits(case, sources[0]) if length is not None else None
    return length / each if length is not None and each else None


def bytes_per_sample(case: Case, op: Op) -> float | None:
    """Return the bytes of a sample as `op` gives it. None if they are not known.

    TensorFlow merges a `batch` into the map before it, and then counts no bytes for it. What follows says them if it changes no
    size: the rows of later ops, what workers sent, or the element spec.
    """
    given = cost_of(op, case.profile)
    if given is not None and given.bytes_out_per_sample is not None:
        return given.bytes_out_per_sample
    for later in downstream(op, case.pipeline.ops):
        if later.kind not in KEEPS_SIZE - kinds_with("filter"):
            return None
        row = cost_of(later, case.profile)
        if row is not None and row.bytes_out_per_sample is not None:
            return row.bytes_out_per_sample
    sent = [worker.bytes_out_per_sample for m in case.measurements for worker in m.workers if worker.bytes_out_per_sample]
    return max(sent, default=None) or sample_bytes(case.pipeline)

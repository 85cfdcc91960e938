"""Rules of `shuffle`: its place and the length of its buffer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from cs_input_analyzer.model.amounts import elements_of_worker, files_are_samples, samples_of_worker
from cs_input_analyzer.model.buffers import element_bytes
from cs_input_analyzer.model.evidence import (
    bytes_per_task,
    finding,
    rate_of_worker,
    windows_of,
)
from cs_input_analyzer.records import Case, Edit, Finding, Op
from cs_input_analyzer.tfdata.edits.kinds import argument_set, moved_up
from cs_input_analyzer.tfdata.function_ops import calls
from cs_input_analyzer.tfdata.layers import leaving
from cs_input_analyzer.tfdata.lineage import reads_names_only, upstream
from cs_input_analyzer.tfdata.op_kinds import BATCHING, GROUPING, INTERLEAVES, KEEPERS, SHUFFLES, kinds_with
from cs_input_analyzer.tfdata.op_traits import chain_before, cost_of, is_map, sample_bytes
from cs_input_analyzer.tfdata.samples import batching_op, samples_reaching, shuffle_of_samples
from cs_input_analyzer.tfdata.source.code import with_calls_swapped
from cs_input_analyzer.tfdata.threads import reader_ops
from cs_input_analyzer.units import format_bytes

GROWTH_RATIO = 2.0
SMALL_BYTES = 16 * 2**20
# Above this share of a task's memory the buffer is worth a warning.
MEMORY_RATIO = 0.05


def shuffle_of_decoded(case: Case) -> Iterator[Finding]:
    """A `shuffle` buffer holds decoded elements although it could hold encoded ones.

    A decoded picture takes ten to thirty times the bytes of its JPEG. The buffer is filled before the first batch, so
    all its elements are decoded before training starts, and again after every pass.

    Fix: `shuffle` before the `map` that decodes. It mixes as well as before: with a seed, the same order comes out. Or
    use a smaller buffer. If a `zip` stands between the two: `zip` the encoded elements, shuffle the pairs, and decode
    them then. That is advice only, because your function then gets pairs.

    Silent if the buffer holds encoded records, if elements grow to less than twice their size, and below 16 MiB.
    """
    ops = case.pipeline.ops
    for shuffle in ops:
        count = shuffle.parameters.get("buffer_size")
        if shuffle.kind not in SHUFFLES or not isinstance(count, int) or samples_reaching(shuffle, ops) != 1:
            continue
        before = chain_before(shuffle, ops)  # the nearest first
        maps = list(takewhile(is_map, before))
        zipped = [one for joint in before[len(maps) :][:1] if joint.kind == "Zip" for one in _maps_of_inputs(joint, ops)]
        decoder = next((op for op in (*maps, *zipped) if calls(op, "decodes") or _growth(op, case) >= GROWTH_RATIO), None)
        if decoder is None:
            continue
        each, there = element_bytes(before[0], case), elements_of_worker(case, before[0])
        kept = round(min(count, there or count))
        held = kept * each if each is not None else None
        if held is not None and held < SMALL_BYTES:
            continue
        message = f"{shuffle.name} keeps {kept:,} decoded elements" + (f", {format_bytes(held)}" if held is not None else "")
        fix = f"shuffle before {decoder.name}, while the elements are still encoded"
        if decoder in zipped:
            fix = f"zip and shuffle before {decoder.name}, while the elements are still encoded"
        evidence = {"buffer_size": count, "bytes_per_element": each, "buffer_bytes": held, "decoded_by": decoder.name}
        passed = maps[: maps.index(decoder) + 1] if decoder in maps else ()
        edits = tuple(Edit(kind="swap", op=shuffle.name) for _ in passed)
        is_heavy = held is not None and held > MEMORY_RATIO * bytes_per_task(case)
        yield finding(shuffle, message, fix, evidence, is_warning=is_heavy, edits=edits)


def _maps_of_inputs(joint: Op, ops: Sequence[Op]) -> list[Op]:
    """Return the maps that each input of an op passed last, the nearest first."""
    inputs = [op for op in ops if op.name in joint.inputs]
    return [one for op in inputs for one in takewhile(is_map, (op, *chain_before(op, ops)))]


def _growth(op: Op, case: Case) -> float:
    """Return the bytes that a map gives over the bytes that it takes. Return 1 if they were not measured."""
    cost = cost_of(op, case.profile)
    if cost is None or not cost.bytes_in_per_sample or cost.bytes_out_per_sample is None:
        return 1.0
    return cost.bytes_out_per_sample / cost.bytes_in_per_sample


# A gap between two passes that takes this share of a pass is worth a warning.
GAP_RATIO = 0.1
# A buffer of at most this number of batches is short, however few samples there are.
BATCHES = 10


def shuffle_exceeds_shard(case: Case) -> Iterator[Finding]:
    """A `shuffle` buffer is longer than the shard of one worker.

    The buffer then reads the worker's whole shard before it gives the first element, in each pass, while everything
    else waits. More workers make the shards smaller, but the buffer stays as long.

    Fix: a buffer of some batches or a few percent of the shard, together with a shuffle of the file names. Behind a
    `cache` the buffer alone mixes, because the cache keeps one order of the files. If you want the whole shard
    shuffled: `repeat` before `shuffle`, so that the passes overlap.

    Silent if the buffer is shorter than the shard, or no longer than ten batches. Silent for file names, after `batch`,
    and after an endless `repeat` (the buffer is filled only once). Silent if no measurement shows the number of
    samples, for example because workers disagree on the bytes of a sample.
    """
    ops = case.pipeline.ops
    for op in ops:
        count = op.parameters.get("buffer_size")
        if op.kind not in SHUFFLES or not isinstance(count, int) or op.within is not None:
            continue
        if (samples := elements_of_worker(case, op)) is None:
            continue
        is_endless = any(other.kind == "Repeat" and other.parameters.get("count") == -1 for other in upstream(op, ops))
        if is_endless or reads_names_only(op, ops) or samples_reaching(op, ops) != 1:
            continue
        if count <= max(samples, BATCHES * (case.pipeline.full_batch or 1)):
            continue
        gap_s = max((one.epoch_gap_s for one in windows_of(case.measurements) if one.epoch_gap_s is not None), default=None)
        message = f"the buffer of {op.name} takes {count:,} elements, and a worker has only about {samples:,.0f}"
        fix = "give the buffer some batches or a few percent of a worker's samples"
        if not any(other.kind in KEEPERS for other in upstream(op, ops)):  # a cache keeps one order of the files
            fix = f"shuffle the file names, and {fix}"
        evidence = {"buffer_size": count, "samples_of_a_worker": round(samples), "epoch_gap_s": gap_s}
        rate = rate_of_worker(case)
        is_slow = rate is not None and gap_s is not None and gap_s >= GAP_RATIO * samples / rate
        yield finding(op, message, fix, evidence, is_warning=is_slow)


# With these ops the order is intended, or is not the order of samples in a file.
ORDERED_KINDS = (
    GROUPING - BATCHING
    | {"Scan", "TextLine", "CSV", "Sql", "Load", "DataService", "GlobalShuffle", "Random"}
    | kinds_with("python")
)
# A buffer of this share of a worker's samples mixes the neighbours in a file.
SHARD_RATIO = 0.01


def shuffle_too_small(case: Case) -> Iterator[Finding]:
    """A `shuffle` buffer is too small to mix the samples.

    An element can move ahead by no more than the length of the buffer. Samples that are neighbours in a file stay
    together in a batch. If files were written class by class or day by day, each batch is one class or one day, and
    training suffers.

    Fix: a buffer of several batches. Also shuffle the file names (with a seed if workers share them), which costs
    nothing. Not behind a `cache`, which keeps one order of the files.

    Silent in evaluation, for file names, and after `batch`. Silent for buffers of a batch or more, unless files are
    read in a fixed order and the buffer is under a hundredth of a worker's samples. Silent if another shuffle of
    samples is long enough.
    """
    ops, batch = case.pipeline.ops, case.pipeline.full_batch
    op, count = shuffle_of_samples(ops)
    samples = samples_of_worker(case, op)
    if case.mode == "eval" or op is None or batch is None or batch < 2:
        return
    is_mixed_before = any(other.kind in SHUFFLES and reads_names_only(other, ops) for other in ops)
    is_small_part = samples is not None and not is_mixed_before and count < SHARD_RATIO * samples
    if count < 1 or (count >= batch and not is_small_part):
        return
    better = BATCHES * batch
    if is_small_part and samples is not None:
        better = max(better, round(SHARD_RATIO * samples))
    limit = f"a batch of {batch}" if count < batch else f"a hundredth of a worker's {samples:,.0f} samples"
    message = f"the buffer of {op.name} takes {count:,} elements, less than {limit}: neighbours stay together"
    is_kept = any(other.kind in KEEPERS for other in upstream(op, ops))  # a cache keeps one order of the files
    needs_no_names = is_mixed_before or is_kept or not reader_ops(ops)
    fix = f"give it a buffer of {better:,}{'' if needs_no_names else ', and shuffle the file names'}"
    evidence = {"buffer_size": count, "batch_size": batch, "samples_of_a_worker": round(samples) if samples else None}
    yield finding(op, message, fix, evidence, after=argument_set(op, ops, "buffer_size", str(better)))


def shuffle_after_batch(case: Case) -> Iterator[Finding]:
    """A `shuffle` after `batch` mixes batches, not samples.

    The same samples meet in the same batch in every pass, in the order of the files. The buffer holds whole batches, so
    a buffer size that was meant in samples takes a batch size times the memory.

    Fix: `shuffle` before `batch`, with a buffer of some batches of samples. This is advice only, because the batches
    change.

    Silent in evaluation. Silent if samples were shuffled before the batch too. Silent if the batch is split again
    before the shuffle. Silent for a batch of a window, which is one sample.
    """
    ops = case.pipeline.ops
    if case.mode == "eval":
        return
    for shuffle in ops:
        batch = batching_op(ops, shuffle) if shuffle.kind in SHUFFLES else None
        count = shuffle.parameters.get("buffer_size")
        if batch is None or not isinstance(count, int):
            continue
        is_file = files_are_samples(ops)
        before = [op for op in upstream(batch, ops) if op.kind in SHUFFLES and (is_file or not reads_names_only(op, ops))]
        if any(batching_op(ops, op) is None for op in before):
            continue
        each, size = sample_bytes(case.pipeline), case.pipeline.full_batch
        held = count * each * size if each is not None and size is not None else None  # a short dataset does not fill it
        up_to = f", up to {format_bytes(held)}" if held is not None else ""
        message = f"{shuffle.name} mixes whole batches ({count:,} of them{up_to}), not the samples in them"
        holder = next((op for op in ops if op.name == batch.within and op.kind == "GroupByWindow"), batch)
        fix = f"shuffle before {holder.name}, with a buffer counted in samples; the batches will be others"
        evidence = {"buffer_size": count, "batch_size": size, "buffer_bytes": held}
        after = with_calls_swapped(shuffle.code, "batch", "shuffle") if holder is batch else None
        yield finding(shuffle, message, fix, evidence, is_warning=True, after=after)


def repeat_before_shuffle(case: Case) -> Iterator[Finding]:
    """A `repeat` before `shuffle` lets passes overlap.

    Some samples then come twice before others come once, and nothing marks the end of a pass. On the other hand the
    buffer is filled only once, and there is no gap between passes, so this may be intended.

    Fix: `shuffle` before `repeat`, if every pass must hold each sample once. This is advice only, because the order of
    the elements changes.

    Silent if `repeat` comes after `shuffle`. Silent if file names are repeated, which fills the readers and is
    intended. Silent for a shuffle that comes after another shuffle of samples, and in evaluation.
    """
    ops = case.pipeline.ops
    if case.mode == "eval":
        return
    for shuffle in ops:
        if shuffle.kind not in SHUFFLES or shuffle.within is not None:
            continue
        earlier = upstream(shuffle, ops)
        if any(op.kind in SHUFFLES and not reads_names_only(op, ops) for op in earlier):
            continue
        repeat = next((op for op in reversed(earlier) if op.kind == "Repeat" and op.within is None), None)
        if repeat is None or (count := repeat.parameters.get("count")) in (0, 1) or reads_names_only(repeat, ops):
            continue
        is_near = next(iter(chain_before(shuffle, ops)), None) == repeat
        message = f"{shuffle.name} comes after {repeat.name}, so it mixes samples of different passes"
        fix = "shuffle before repeat, if each pass is to hold every sample once"
        evidence = {"repeat": repeat.name, "count": count if isinstance(count, int) else None}
        yield finding(shuffle, message, fix, evidence, after=moved_up(shuffle, ops) if is_near else None)


def shuffle_missing(case: Case) -> Iterator[Finding]:
    """Nothing shuffles the samples of a training.

    The samples then come in the order of the files, in every pass. Neighbours in a file, often of one class or one
    source, meet in each batch, so the gradient of a batch shows only a part of the data. A shuffle of file names alone
    changes nothing inside a file.

    Fix: `shuffle(buffer)` of some batches before `batch`, together with a shuffle of file names. If each file is one
    sample, as in folders of pictures, a shuffle of all names is enough, and holds no picture. This is advice only,
    because the order changes.

    Silent in evaluation, and if the pipeline shuffles. A shuffle of file names counts if several files are read in
    turn, or if a file is a sample. Silent for elements from Python, another pipeline or a counter, and for text and
    tables read line by line. Silent for pipelines whose order matters (`window`, `group_by_window`, `scan`). Silent
    without a batch, because the code that makes batches may shuffle.
    """
    ops = case.pipeline.ops
    batch = next(iter(leaving(ops).batches), None)  # the one of single samples: batches may be batched again
    if case.mode == "eval" or batch is None or {op.kind for op in ops} & ORDERED_KINDS or not reader_ops(ops):
        return
    shuffles, is_file = [op for op in ops if op.kind in SHUFFLES], files_are_samples(ops)
    is_mixed_by_names = is_file or any(op.kind in INTERLEAVES for op in ops)
    if any(not reads_names_only(op, ops) for op in shuffles) or (shuffles and is_mixed_by_names):
        return
    samples, files = samples_of_worker(case), case.pipeline.files
    evidence = {"shuffles_of_names": len(shuffles), "samples_of_a_worker": samples}
    if is_file:
        message = "nothing is shuffled: samples come in the order of the list of their files, in every pass"
        fix = f"shuffle the list of file names{f', with a buffer of all {files.count:,}' if files is not None else ''}"
        yield finding(batch, message, fix, evidence)
        return
    names = "only names of files are shuffled, and one file is read after the other" if shuffles else "nothing is shuffled"
    message = f"{names}: samples that stand together in a file are together in each batch, in every pass"
    better = BATCHES * (case.pipeline.full_batch or 1)
    fix = f"put .shuffle({max(better, round(SHARD_RATIO * samples) if samples else 0):,}) before {batch.name}"
    yield finding(batch, message, fix, evidence)

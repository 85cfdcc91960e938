"""Rules of order and time: a forced order, the first batch, the end of a pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from cs_input_analyzer.model.amounts import samples_of_worker
from cs_input_analyzer.model.buffers import refill_ratio
from cs_input_analyzer.model.evidence import (
    COSTLY_RATIO,
    bottleneck,
    finding,
    is_endless,
    last_end,
    seconds_before,
    share_of,
    visits,
    waits,
    windows_of,
    workers_of,
)
from cs_input_analyzer.records import Case, Edit, EditKind, Finding, Op, SteadyState
from cs_input_analyzer.tfdata import op_traits as traits
from cs_input_analyzer.tfdata.edits.kinds import argument_set
from cs_input_analyzer.tfdata.lineage import deals_out_files, freeing_shuffle, reads_names_only, without_end
from cs_input_analyzer.tfdata.op_kinds import BATCHING, HANDS_ON, KEEPERS, OPENS, REPEATS, SHUFFLES, THREADED, kinds_with
from cs_input_analyzer.tfdata.samples import batching_op, shuffle_of_samples
from cs_input_analyzer.tfdata.source.code import AUTOTUNE
from cs_input_analyzer.units import counted, format_count, format_ratio, format_seconds, several

_ORDERED = ("ParallelMap", "ParallelInterleave", "ParallelBatch", "ParallelFilter")


def order_forced(case: Case) -> Iterator[Finding]:
    """A deterministic order is kept before a shuffle without a seed, which makes the order irrelevant.

    An op that keeps the order gives nothing until its slowest call is done. A shuffle without a seed gives another
    order in every run, so the order before it has no effect.

    Fix: `deterministic=False` at the op. This is advice only: the analyzer never makes a pipeline less deterministic by
    itself.

    Silent if no shuffle of its own elements follows. A shuffle of batches does not mix the samples in them, and a
    `take` shows which elements came first. Silent if the shuffle has a seed (or `tf.random.set_seed` was called), and
    if `deterministic=False` is set. Silent if nothing is set and the op does not wait for its calls longer than it
    works.
    """
    ops = case.pipeline.ops
    forced: dict[str, list[Op]] = {}
    for op in ops:
        shuffle = freeing_shuffle(op, ops) if op.kind in _ORDERED and traits.is_written(op) and _is_forced(op, case) else None
        if shuffle is not None:
            forced.setdefault(shuffle.name, []).append(op)
    for shuffle_name, those in forced.items():  # one cause, one finding, however many ops it holds up
        is_one = len(those) == 1
        keep = f"{those[0].name} keeps its" if is_one else f"{several([op.name for op in those])} keep their"
        message = f"{keep} elements in order, and {shuffle_name} then shuffles them without a seed"
        fix = f"give {'it' if is_one else 'each of them'} deterministic=False"
        after = those[0].code
        for op in those:  # all of them, or none
            after = argument_set(op, ops, "deterministic", "False", after) if after and op.code == those[0].code else None
        yield finding(those[0], message, fix, {"shuffle": shuffle_name, "ops": len(those)}, after=after)


def _is_forced(op: Op, case: Case) -> bool:
    said = op.parameters.get("deterministic")
    if said == "true":
        # A reader with num_parallel_reads says so by itself, and cannot be changed.
        return op.code is None or "deterministic" in op.code
    if said != "default" or traits.option(case.pipeline.ops, "deterministic") is False:
        return False
    return traits.option(case.pipeline.ops, "deterministic") is True or waits(case, op)


DROPPED_RATIO = 0.1
# Above this share of the CPU time the waste is worth a warning.
WASTED_RATIO = 0.1


def late_filter(case: Case) -> Iterator[Finding]:
    """A `filter` drops elements after costly work on them.

    The dropped elements were read, decoded and resized for nothing. A condition on a field of the record (a label, a
    size, a name) can be tested before the costly part.

    Fix: split the map: parse the fields of the condition, filter, then decode. Better still, write the dataset without
    the unused elements. This is advice only, because your condition then gets other arguments.

    Silent if the maps before it are cheap, or if it drops less than a tenth. Silent if either was not measured, as
    before a full cache. Silent if a batch stands between, because then whole batches are filtered. Silent for a filter
    that a library made, as `rejection_resample` does.
    """
    for op in case.pipeline.ops:
        if op.kind not in kinds_with("filter") or not traits.is_written(op):
            continue
        before = _made_by(op, case)
        maps = [one for one in before if traits.is_map(one)]
        # Ops of other kinds give as many as they take.
        counting = [one for one in before if traits.is_map(one) or one.kind in kinds_with("filter") | OPENS]
        kept, given = visits(case, op), visits(case, counting[-1]) if counting else None
        share, dropped = share_of(case, maps), 1 - kept / given if kept and given else 0.0
        if share is None or share < COSTLY_RATIO or dropped < DROPPED_RATIO:
            continue
        wasted = share * dropped
        names = " and ".join(one.name for one in maps)
        message = f"{op.name} drops {format_ratio(dropped)} of the elements after {names} worked on them"
        fix = "test fields of the record before the costly map, in a filter of its own"
        evidence = {"dropped_ratio": dropped, "maps_share_ratio": share, "wasted_ratio": wasted}
        yield finding(op, message, fix, evidence, is_warning=wasted >= WASTED_RATIO)


def _made_by(op: Op, case: Case) -> tuple[Op, ...]:
    """Return the ops that make an element of the filter, in the order of the pipeline.

    They include all inputs of a `zip`, and no op before a batch.
    """
    passed, found = {op.name}, set[str]()
    for other in reversed(case.pipeline.ops):  # inputs come first
        if other.name not in passed or other.kind in BATCHING or other.kind == "Unbatch":
            continue
        found.add(other.name)
        if len(other.inputs) == 1 or other.kind == "Zip":
            passed.update(other.inputs)
    return tuple(other for other in case.pipeline.ops if other.name in found - {op.name})


# Ops that hand elements on without working on them.
_HANDS_ON = HANDS_ON | {"Repeat", "Take", "Skip"}


def prefetch_missing(case: Case) -> Iterator[Finding]:
    """The pipeline has no `prefetch` at the end, so the next batch starts only when the accelerator asks for it.

    A step then takes the time of the accelerator plus that of the input. A prefetch further up does not help the ops
    after it, and `prefetch(0)` has no effect. TensorFlow appends a prefetch to a pipeline that ends without one. It
    does not do so if `autotune`, `inject_prefetch` or the default optimizations are switched off.

    Fix: `.prefetch(tf.data.AUTOTUNE)` as the last call.

    Silent if there is a prefetch, also with `repeat`, `take` or `with_options` after it. Silent if TensorFlow appends
    it. Silent if the last op works ahead by itself, as a parallel `map` or `batch` does.
    """
    ops = case.pipeline.ops
    by_name = {op.name: op for op in ops}
    last = next((op for op in reversed(ops) if op.within is None), None)
    while last is not None and last.kind in _HANDS_ON:
        last = by_name.get(last.inputs[0]) if last.inputs else None
    if last is None:
        return
    if last.kind == "Prefetch":
        if last.parameters.get("buffer_size") == 0:
            yield _no_prefetch(last, case, f"{last.name} has a buffer of 0 and prefetches nothing", "set-buffer")
        return
    if last.kind in THREADED or traits.prefetches_by_itself(ops):
        return
    yield _no_prefetch(last, case, f"the pipeline ends with {last.name} and without a prefetch", "insert-prefetch")


def _no_prefetch(op: Op, case: Case, message: str, kind: EditKind) -> Finding:
    station = bottleneck(case, ("serial op",), at=(op.name,))
    fix = f"end the pipeline with .prefetch({AUTOTUNE})"
    evidence = {"last_op": op.name, "ceiling_samples_per_s": station.samples_per_s if station is not None else None}
    return finding(op, message, fix, evidence, is_warning=station is not None, edits=(Edit(kind=kind, op=op.name),))


QUICK_S = 2.0
TIMES = 20.0
LONG_START_S = 60.0
# Filling the buffer is named as the cause if it takes this share of the wait.
CAUSE_RATIO = 0.3
LONG_REFILL_RATIO = 0.05


def slow_first_batch(case: Case) -> Iterator[Finding]:
    """The first batch takes much longer than later ones, at the start or in each pass.

    All nodes of a training wait for it at every start. Most often a `shuffle` fills its buffer first, one sample at a
    time, through all ops before it. If the data are repeated after the shuffle, that happens at the start of each pass.

    The time to fill the buffer follows from the measured costs of the ops before the shuffle, not from the rate of the
    whole pipeline.

    Fix: a smaller shuffle buffer (some batches), or the shuffle before the costly ops, so that the buffer fills
    quickly. A shuffle of file names mixes as well and needs no wait. Put `repeat()` directly after the shuffle:
    TensorFlow makes one op of the two, which fills the buffer from the next pass while it drains it.

    Silent without a measurement. Silent if the first batch comes within two seconds, or within twenty times the mean
    time of a batch. It still fires if the wait returns in each pass and takes 5 % of the time or more. The finding
    names the shuffle as the cause only if the costs of all ops before it are known.
    """
    starts = [
        (worker.first_batch_s, 1 / worker.batches_per_s)
        for launch in case.measurements
        for worker in launch.measured_workers
        if worker.first_batch_s is not None and worker.batches_per_s
    ]
    slow = [start for start in starts if start[0] > max(QUICK_S, TIMES * start[1])]
    is_slow = bool(slow) and len(slow) >= sum(len(launch.measured_workers) for launch in case.measurements) / 2
    refilling = refill_ratio(case) or 0.0
    if not is_slow and (refilling < LONG_REFILL_RATIO or not starts):
        return
    # The quickest start: a slow one may have met a cold cache or a busy host.
    first_s, gap_s = min(slow or starts)
    shuffle, count = shuffle_of_samples(case.pipeline.ops)
    fill_s = seconds_before(case, shuffle, count) if shuffle is not None else None
    cause, fix = "", "check the ops that run before the first batch"
    if shuffle is not None and fill_s is None:
        fix += f"; {shuffle.name} takes up to {count:,} elements before it gives one, and their cost was not measured"
    filled = shuffle if fill_s is not None and fill_s >= CAUSE_RATIO * first_s else None
    if filled is not None:
        cause = f": {filled.name} fills its buffer of {count:,} elements first"
        fix = "give the shuffle a smaller buffer, or put it before the costly ops"
    if refilling >= LONG_REFILL_RATIO:
        cause += f"{' and' if cause else ': it does so'} again at each pass, {format_ratio(refilling)} of the accelerator's time"
        fix = f"put .repeat() directly after the shuffle, where the next pass fills it while the last one drains; or {fix}"
    message = f"the first batch takes {format_seconds(first_s)}, later ones {format_seconds(gap_s)}{cause}"
    evidence = {"first_batch_s": first_s, "batch_gap_mean_s": gap_s, "fill_s": fill_s}
    evidence["refill_ratio"] = refilling or None
    is_warning = first_s >= LONG_START_S or refilling >= LONG_REFILL_RATIO
    shown = shuffle if refilling >= LONG_REFILL_RATIO or fill_s is None else filled
    yield finding(shown, message, fix, evidence, is_warning=is_warning)


# A number of batches that is estimated from file sizes counts as too few only below this share of the steps.
SURELY_FEWER_RATIO = 0.8


def dataset_ends(case: Case) -> Iterator[Finding]:
    """The dataset ends before the training does.

    An accelerator that streams needs an endless input. The finding has one of two reasons. The elements of all workers
    may be fewer than the steps in the params (`max_steps` and the like; times the epochs, if they name them). Training
    then stops with `OUT_OF_RANGE: End of sequence`, or "ran out of data". Or the data ended within the measuring window
    and were read again from the start, so the rate includes that restart.

    An error if the data ended for good: the dataset claims to be endless and ended, or gave nothing when it was read
    again. Its source can be read only once, such as a generator object that `from_generator` gets from a `lambda`. An
    observed end overrules the length that TensorFlow states. There is then neither a plan nor a verdict.

    Fix: `dataset.repeat()` (after `shuffle`, before `prefetch`). After an error: give `from_generator` the generator
    function, which makes a new generator for each pass.

    Silent for datasets that claim to be endless and do not end. Silent in evaluation, which needs only one pass. Silent
    for a script whose `fit` of Keras has no `steps_per_epoch`, or whose `for` takes the data until they end: that is the
    end of an epoch. Silent if the data did not end during the measurement, and the params name no steps, or no more
    steps than batches. If TensorFlow does not know the number of elements, it is estimated from the bytes of the files
    and of a sample. The estimate counts only if a fifth of the steps or more has no batch.
    """
    last = case.pipeline.ops[-1] if case.pipeline.ops else None
    if (end := last_end(case.pipeline, case.measurements, case.mode)) is not None:
        yield _ended_for_good(case, end)
        return
    if is_endless(case.pipeline) or case.mode == "eval":
        return
    fix = f"add .repeat(){_place_of_repeat(case.pipeline.ops)}, and set the number of steps in the run"
    passes = max((window.epochs for window in windows_of(case.measurements)), default=0)
    steps, batches = case.training.steps, _batches(case)
    evidence = {"passes": passes, "elements_per_pass": case.pipeline.cardinality, "steps": steps, "batches": batches}
    if steps is not None and batches is not None and batches < steps:
        message = f"all workers together have {format_count(batches)} batches for the {format_count(steps)} steps of the params"
    elif passes and not case.ends_epochs:
        message = f"the dataset ended and was read {passes + 1} times within one window; training input should repeat without end"
    else:
        return
    yield finding(last, message, fix, evidence, is_warning=True)


def _place_of_repeat(ops: Sequence[Op]) -> str:
    """Name the shuffle or cache of samples that a `repeat` follows, and the last prefetch; "" without both."""
    kept = [op for op in ops if op.within is None and op.kind in SHUFFLES | KEEPERS and not reads_names_only(op, ops)]
    places = [f"after {kept[-1].name}"] if kept else []
    places += [f"before {ops[-1].name}"] if ops and ops[-1].kind == "Prefetch" else []
    return f" {' and '.join(places)}" if places else ""


def _ended_for_good(case: Case, end: SteadyState) -> Finding:
    """Return a finding at the source that can be read only once.

    It is a generator, else the op that repeats the data, else the last op.
    """
    ops = case.pipeline.ops
    generator = traits.first_of(ops, ("Generator",))
    last = ops[-1] if ops else None
    repeat = without_end(ops).get(last.name) if last is not None else None
    gave = "" if end.pass_elements is None else f" {counted(end.pass_elements, 'element')}"
    claims = "claims to be endless" if is_endless(case.pipeline) else None
    if claims is None and case.pipeline.cardinality is not None and case.pipeline.cardinality != end.pass_elements:
        claims = f"claims to have {counted(case.pipeline.cardinality, 'element')}"
    again = "" if end.stopped_by != "data_end" else ", and none when it was read again"
    message = f"the dataset {claims}; it gave{gave}{again}" if claims else f"the dataset gave{gave}{again}"
    fix = (
        "give from_generator a function that makes a new generator at each call: a generator object is used up after one pass"
        if generator is not None
        else "use a source that can be read again in each pass, and find the op that drops the later elements"
    )
    evidence = {"pass_elements": end.pass_elements, "claims_endless": is_endless(case.pipeline), "passes": end.epochs}
    return finding(generator or repeat or last, message, fix, evidence, severity="error")


def _batches(case: Case) -> float | None:
    """Return a safe lower bound of the batches of all workers and epochs together. Return None if it is unknown."""
    pipeline, ops = case.pipeline, case.pipeline.ops
    workers, epochs = workers_of(case), case.training.epochs or 1
    if batching_op(ops) is None or workers is None:
        return None
    if pipeline.cardinality is not None:  # of one of the workers that the first launch announced
        shards_records = pipeline.is_sharded and not deals_out_files(ops)
        announced = case.measurements[0].num_workers if case.measurements else 1
        return pipeline.cardinality * epochs * (announced if case.is_sharded or shards_records else workers)
    samples = samples_of_worker(case)
    if samples is None or not pipeline.full_batch:
        return None
    counts = [traits.number_of(op, "count") or 1 for op in ops if op.kind in REPEATS]
    if -1 in counts:  # the data repeat without end
        return None
    passes = prod(counts)
    return samples * workers * passes * epochs / pipeline.full_batch / SURELY_FEWER_RATIO

"""Work after the import of TensorFlow: build the pipeline, read one element, sample, and do the other requested work.

order ─▶ built ─▶ first_batch ─▶ window ─▶ chunk, chunk, … ─▶ done ─▶ readers alone, fixes ─▶ over
"""

from __future__ import annotations

import faulthandler
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import msgspec

from cs_input_analyzer.errors import TargetError, UsageError
from cs_input_analyzer.host.page_cache import cached_ratio, evenly, evict, warm
from cs_input_analyzer.model.params import batch_sizes_in, params_from_json
from cs_input_analyzer.records import ContextUse, Layout, PipelineGraph, SamplesPerElement
from cs_input_analyzer.tfdata import graph, load
from cs_input_analyzer.tfdata.file_order import begun_at
from cs_input_analyzer.tfdata.left_out import devices_left_out
from cs_input_analyzer.tfdata.lineage import picks_names
from cs_input_analyzer.tfdata.python_chance import seeded
from cs_input_analyzer.tfdata.samples import check_demand, is_open, samples_per_element_of
from cs_input_analyzer.worker import capture, isolation
from cs_input_analyzer.worker.failures import lacking_numbers, named_place, place_of, report_failure
from cs_input_analyzer.worker.journal import HUNG, JournalWriter, Order, read_journal
from cs_input_analyzer.worker.process import end_forked_child
from cs_input_analyzer.worker.redirect import redirected_writes
from cs_input_analyzer.worker.sampler import sample
from cs_input_analyzer.worker.sampling import bytes_of, digest_of, samples_in, shapes_of
from cs_input_analyzer.worker.side_thread import Sampling
from cs_input_analyzer.worker.steady_clock import now_s

# The longest time to empty or fill the cache before a window.
CACHE_S = 10.0
# The journal lists at most this many files, evenly spread. Questions about files (shards, sizes, reads) then use a sample.
LISTED_FILES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Built:
    """Hold the built pipeline.

    Attributes:
        samples: of an element, by the graph.
        count: the same, with the shapes of the first element; it raises UsageError for a demand that does not fit.
        files: paths and sizes.
    """

    dataset: Any
    pipeline: PipelineGraph
    samples: SamplesPerElement
    count: Callable[[Any], SamplesPerElement]
    files: Sequence[tuple[str, int]]
    built_s: float


def follow_order(journal: JournalWriter, order: Order, orders: TextIO, folder: Path, inherited_shared_bytes: int) -> None:
    """Follow an order, and the next lines of `orders`. Raise JournalError, and errors of user code that no stage reports."""
    stood_in = list[str]()
    if (why := isolation.refusal()) and not isolation.is_ours(order.plan.target):
        journal.event("failed", stage=isolation.NOT_ISOLATED, kind="NotIsolated", message=why, details="")
        return
    # Packages to stand in for where they are not installed: those that the user names, and what the script's Python has.
    pythons = capture.parse_script(order.plan.target).stand_ins if capture.is_script(order.plan.target) else ()
    on_use = partial(_tell_stand_in, journal) if order.plan.searches else stood_in.append
    with capture.standing_in((*order.plan.stand_ins, *pythons), on_use):  # until the end: what is sampled may import, too
        if order.plan.searches:
            _search(journal, order, folder)
            return
        built = _build(journal, order, folder, stood_in)
        if built is not None and _measure(journal, orders, order, built, inherited_shared_bytes):
            _measure_more(journal, order, built, folder)
            journal.event("over")


def _search(journal: JournalWriter, order: Order, folder: Path) -> None:
    """Run a script once, to find every place where it takes data. Write its stack if it takes too long."""
    try:
        with (folder / HUNG).open("w") as hung, redirected_writes(folder), devices_left_out(), capture.setting_up():
            faulthandler.dump_traceback_later(order.left_s, file=hung)
            journal.event("ended", why=capture.search(order.plan.target, journal.event))
            faulthandler.cancel_dump_traceback_later()
    except BaseException as error:
        report_failure(journal, "script", error)


def _tell_stand_in(journal: JournalWriter, name: str) -> None:
    journal.event("stand_in", name=name)


def _measure(journal: JournalWriter, orders: TextIO, order: Order, built: _Built, inherited_shared_bytes: int) -> bool:
    """Take the first batch, and sample when the parent has sent the window's length. Return False if there is no more to do."""
    isolation.read_as_they_are([path for path, _ in built.files])
    started = _first_batch(journal, built)
    window = orders.readline() if started is not None else ""
    if started is None or not window:
        return False
    iterator, samples = started
    journal.event("go", at_s=now_s())
    window_s = float(window)
    sampling = Sampling(
        dataset=built.dataset,
        iterator=iterator,
        ops=built.pipeline.ops,
        samples=samples,
        # Side by side all sample for the same time: one that stopped early would leave its CPUs to the others.
        min_window_s=min(order.plan.min_window_s, window_s) if order.is_alone else window_s,
        max_window_s=window_s,
        target_error_ratio=order.plan.target_error_ratio,
        want_costs=order.is_first,
        files=built.files,
        inherited_shared_bytes=inherited_shared_bytes,
    )
    sample(journal, sampling)
    return True


def _measure_more(journal: JournalWriter, order: Order, built: _Built, folder: Path) -> None:
    """Measure after the window. Its iterator is gone, with all elements in its buffers."""
    if not order.is_first:
        return
    if order.plan.want_source:
        from cs_input_analyzer.worker.parts import count_ignored, sample_readers

        if any(op.kind == "IgnoreErrors" and op.within is None for op in built.pipeline.ops):
            count_ignored(journal, built.dataset, built.pipeline.ops)
        sample_readers(journal, built.dataset)
    if order.plan.candidates:
        from cs_input_analyzer.trial.fixes import try_fixes
        from cs_input_analyzer.worker.stopwatch import Stopwatch

        seconds = order.fixes_s - (time.monotonic() - built.built_s)
        rebuild = partial(_rebuilt, order, folder)
        texts = dict(order.plan.texts)
        tried = order.plan.candidates
        try_fixes(journal.event, built.dataset, tried, seconds=seconds, watch=Stopwatch(), texts=texts, rebuild=rebuild)
    if order.plan.look_s > 0:
        _look_again(journal, order, built, folder)


def _look_again(journal: JournalWriter, order: Order, built: _Built, folder: Path) -> None:
    """Run parts of the pipeline if the window left CPU that belongs to no op."""
    from cs_input_analyzer.worker.parts import look_again
    from cs_input_analyzer.worker.summary import Ending, profile_from, worker_result

    seen = read_journal(folder)
    worker = worker_result(seen, Ending(returncode=None, killed_for=None, output_tail=""), index=0, node="")
    layout = Layout(nodes=1, tasks_per_node=1, cpus_per_task=len(os.sched_getaffinity(0)))
    profile = profile_from(seen, layout, built.pipeline, worker)
    left_s = order.left_s - (time.monotonic() - built.built_s)
    if profile is not None:
        look_again(journal, built.dataset, built.pipeline.ops, profile, min(order.plan.look_s, left_s / 2))


def _build(journal: JournalWriter, order: Order, folder: Path, stood_in: Sequence[str]) -> _Built | None:
    """Run the user's input function. Return None if it failed; the journal tells how."""
    os.environ["TF_CONFIG"] = order.tf_config
    own_pid = os.getpid()
    began_s = time.monotonic()
    stage = "build" if capture.is_script(order.plan.target) else "import"
    uses = list[ContextUse]()
    journal.event("loading")
    try:
        with (
            graph.recorded_sources() as log,
            redirected_writes(folder) as moved,
            devices_left_out() as left_out,
            begun_at(order.plan.begin_ratio),
            seeded() if order.plan.candidates else nullcontext(),
        ):
            found = _found(order)
            stage = "build"
            journal.event("building")
            dataset = load.build_dataset(found, _call_of(order), uses.append)
        end_forked_child(own_pid)
        build_s = time.monotonic() - began_s
        with graph.unreadable_named(dataset, log):
            files = graph.sized_files_of(dataset)
        pipeline = graph.read_graph(
            dataset,
            log,
            target=order.plan.target,
            sized=files,
            **_sizes_said(order),
            redirected=tuple(dict.fromkeys(moved)),
        )
        if order.plan.begin_ratio and picks_names(pipeline.ops) and not capture.is_script(order.plan.target):
            # Elsewhere in the list it would pick other files than the user wants. A script runs only once.
            return _build(journal, replace(order, plan=replace(order.plan, begin_ratio=0.0)), folder, stood_in)
        pipeline = _with_circumstances(pipeline, uses, stood_in, left_out)
        stage = "load"
        samples = pipeline.samples_per_element
        assert samples is not None
        # What is open in the spec is known once an element is there.
        check_demand(samples, _step(order), has_demand=order.plan.has_demand and not is_open(pipeline.element_spec))
    except BaseException as error:
        end_forked_child(own_pid)
        report_failure(journal, "load" if isinstance(error, TargetError) else stage, error)
        return None
    fields = msgspec.to_builtins(pipeline) if order.is_first else None
    file_count = pipeline.files.count if pipeline.files else None
    listed = evenly(files, LISTED_FILES) if order.is_first else ()
    journal.event("built", build_s=build_s, pipeline=fields, file_count=file_count, files=listed, writes=pipeline.redirected)
    _prepare_cache(journal, order, [path for path, _ in files])
    return _Built(
        dataset=dataset,
        pipeline=pipeline,
        samples=samples,
        count=partial(_counted, order, pipeline),
        files=files,
        built_s=time.monotonic(),
    )


def _with_circumstances(
    pipeline: PipelineGraph, uses: Sequence[ContextUse], stood_in: Sequence[str], left_out: Sequence[str]
) -> PipelineGraph:
    """Return the pipeline with what was given to its code, replaced and left out."""
    context = next(iter(sorted(uses)), None)  # "given" before "left"
    stand_ins = capture.innermost(stood_in)
    notes = (*dict.fromkeys(left_out), *lacking_numbers(pipeline.ops), *capture.notes_on(stand_ins))
    level = isolation.here().level
    return replace(pipeline, input_context=context, stand_ins=stand_ins, notes=notes, user_files=level)


def _sizes_said(order: Order) -> dict[str, Any]:
    """Return the hints of the user and the params on the samples of an element."""
    params = params_from_json(order.plan.params_json or "null")
    return {
        "said": order.plan.samples_per_element,
        "params_sizes": batch_sizes_in(params),
        "demand_size": order.plan.batch_size,
    }


def _counted(order: Order, pipeline: PipelineGraph, element: Any) -> SamplesPerElement:
    """Return the count of samples, from the first element. Raise UsageError for a demand that does not fit."""
    seen = shapes_of(element)
    found = samples_per_element_of(pipeline.ops, pipeline.element_spec, seen=seen, **_sizes_said(order))
    check_demand(found, _step(order), has_demand=order.plan.has_demand)
    return found


def _step(order: Order) -> int | None:
    """Return the samples of a step of the accelerator; None for several workers: a function may divide it by their number."""
    return order.plan.batch_size if order.plan.num_workers == 1 else None


def _found(order: Order) -> Any:
    """Return the input function, or the Dataset, of the order."""
    with capture.setting_up():
        if order.plan.pickled:
            # The user's function, with the modules it names found where the user's script finds them.
            import cloudpickle

            search_path, function = cloudpickle.loads(load.read_pickled(Path(order.plan.pickled)))
            sys.path += [folder for folder in search_path if folder not in sys.path]
            return cloudpickle.loads(function)
        if capture.is_script(order.plan.target):
            return capture.captured(order.plan.target)
        return load.find_object(load.parse_target(order.plan.target))


def _call_of(order: Order) -> load.Call:
    """Return the arguments of the input function."""
    mode: Any = order.plan.mode
    return load.Call(
        params=params_from_json(order.plan.params_json) if order.plan.params_json is not None else None,
        mode=mode,
        num_workers=order.plan.num_workers,
        worker_index=order.worker_index,
        input_context=order.plan.input_context,
    )


def _rebuilt(order: Order, folder: Path, texts: Mapping[str, str]) -> Any:
    """Return the dataset of the input function for other texts of source files. Raise the errors of the user's code."""
    from cs_input_analyzer.tfdata.patched import patched_sources

    own_pid = os.getpid()
    try:
        with patched_sources(texts), redirected_writes(folder), devices_left_out(), seeded():
            return load.build_dataset(_found(order), _call_of(order))
    finally:
        end_forked_child(own_pid)


def _prepare_cache(journal: JournalWriter, order: Order, paths: Sequence[str]) -> None:
    """Empty or fill the page cache with the pipeline's files, as ordered. Report the part of them that it holds then."""
    if not paths:
        return
    deadline_s = time.monotonic() + CACHE_S
    if order.plan.cache == "cold":
        evict(paths, deadline_s=deadline_s)
    elif order.plan.cache == "warm":
        warm(paths, deadline_s)
    journal.event("cache", state=order.plan.cache, ratio=cached_ratio(paths, deadline_s=time.monotonic() + CACHE_S / 10))


def _first_batch(journal: JournalWriter, built: _Built) -> tuple[Any, SamplesPerElement] | None:
    """Read one element eagerly, and note its latency, size and samples.

    Return the iterator and the way to count its elements; None if there was no element.
    """
    began_s = time.monotonic()
    try:
        iterator = iter(built.dataset)
        first = next(iterator)
    except StopIteration:
        journal.event("failed", stage="first_batch", kind="Empty", message=_why_empty(built), details="")
        return None
    except BaseException as error:
        report_failure(journal, "first_batch", error, place_of(error, built.dataset, built.pipeline.ops, built.files))
        return None
    first_batch_s = time.monotonic() - began_s
    try:
        samples = built.count(first)
    except UsageError as error:
        report_failure(journal, "load", error)
        return None
    seen = {"bytes": bytes_of(first), "samples": samples_in(first, samples), "digest": digest_of(first)}
    counted = asdict(samples) if samples != built.samples else None
    journal.event("first_batch", first_batch_s=first_batch_s, counted=counted, **seen)
    return iterator, samples


def _why_empty(built: _Built) -> str:
    """Return a sentence about a dataset without an element, with the op that dropped all if one is found."""
    from cs_input_analyzer.worker.parts import emptied_by

    op = emptied_by(built.dataset, built.pipeline.ops)
    if op is None:
        return "the dataset gave no element: its file list or generator is empty, a filter drops everything, or a shard has no file"
    short = ": fewer than a batch, and drop_remainder drops them" if op.parameters.get("drop_remainder") is True else ""
    return f"the dataset gave no element: {named_place(op.name, op.source)} got elements and gave none{short}"

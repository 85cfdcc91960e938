"""One input worker: its own process, its own CPUs, its own TF_CONFIG. Started by command line or forked by `fork_server`, ordered
over stdin.

    spawn ─▶ imported ─▶ order ─▶ built ─▶ first_batch ─▶ window ─▶ chunk, chunk, … ─▶ done ─▶ os._exit

User code runs here, so everything is guarded: events are flushed as they happen, a forked child that comes back from the input
function is ended, stdin is hidden from it, and the process leaves by `os._exit`, because interpreters with Python functions in
their pipelines are known to hang at shutdown.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TextIO

from cs_input_analyzer.records import SamplesPerElement
from cs_input_analyzer.worker.journal import EXIT_UNWRITTEN, UNWRITTEN, JournalError, JournalWriter, Order

# A chunk larger than the one before by more than this is watched by the clock.
SETTLED_GROWTH = 1.5
# For what was killed to be gone.
CHILDREN_S = 1.0
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
STOP_CHECK_S = 0.5
MESSAGE_LIMIT = 4000
# At most so long is spent on emptying or filling the cache before a window.
CACHE_S = 10.0
# After an error in the data, at most so long is spent on looking which file has changed.
CHANGED_FILES_S = 1.0
# For the pipeline cut after one of its ops, tracing included; at most so long for all cuts.
PREFIX_S = 0.9
PREFIXES_S = 12.0

# TensorFlow puts this before the message of an error inside a tf.function, and the loop is one.
_LOOP_FRAMES = re.compile(
    r"\AGraph execution error:\s+(?:Detected at node [^\n]*\n(?:<stack traces unavailable>\n|\s*File [^\n]*\n|\s*\n)*)+"
)
Files = Sequence[tuple[str, int]]  # paths and sizes


def main(arguments: Sequence[str]) -> NoReturn:
    """`FOLDER CPU,CPU,… PARENT_PID [NOT_ISOLATED]`: the journal's folder, the CPUs to run on, who started us.

    Of a worker that runs a user's script also why its files are no private copies, empty where they are. Never returns.
    """
    cpus = [int(cpu) for cpu in arguments[1].split(",")]
    run(arguments[0], cpus, int(arguments[2]), not_isolated=arguments[3] if len(arguments) > 3 else None)


class Inherited(NamedTuple):
    """From the process that a worker was forked from: how long its import took, and what it held that workers share."""

    import_s: float
    shared_bytes: int


def run(
    folder: str, cpus: Sequence[int], parent_pid: int, inherited: Inherited | None = None, *, not_isolated: str | None = None
) -> NoReturn:
    """The whole life of this process as a worker. `not_isolated`: as for `main`; None where no script is run."""
    began_s = time.monotonic()
    os.sched_setaffinity(0, cpus)  # before TensorFlow makes its thread pools: it sizes them by what it may run on
    die_with(parent_pid)
    orders = _private_stdin()
    own_pid = os.getpid()

    def life() -> NoReturn:
        try:
            journal = JournalWriter(Path(folder))
            if not_isolated:
                journal.event("not_isolated", why=not_isolated)
            status = _live(journal, orders, Path(folder), began_s, inherited)
        except JournalError as error:  # what we print is all that still reaches the parent
            status = EXIT_UNWRITTEN
            os.write(2, f"\n{UNWRITTEN}{error}\n".encode())
        _leave(status, own_pid)

    if not_isolated is None:
        life()
    from cs_input_analyzer.worker.capture import beside_scripts

    beside_scripts(life)


def _live(journal: JournalWriter, orders: TextIO, folder: Path, began_s: float, inherited: Inherited | None) -> int:
    """Does what is ordered; gives the status to leave with. Raises JournalError only."""
    own_pid = os.getpid()
    try:
        _run(journal, orders, folder, began_s, inherited)
        return 0
    except JournalError:
        raise
    except BaseException as error:  # SystemExit and KeyboardInterrupt of user code too: this is the end of the process
        if os.getpid() == own_pid:
            _tell_failure(journal, "worker", error)
        return 70


def _run(journal: JournalWriter, orders: TextIO, folder: Path, began_s: float, inherited: Inherited | None) -> None:
    import tensorflow as tf

    from cs_input_analyzer.worker import capture

    tf.get_logger().setLevel("ERROR")
    import_s = inherited.import_s if inherited else time.monotonic() - began_s
    journal.event("imported", import_s=import_s, tensorflow_version=tf.__version__)
    if inherited:
        _allow_threads()
    line = orders.readline()
    if not line:  # the parent needs this worker no more
        return
    order, stood_in, shared_bytes = Order.from_line(line), list[str](), inherited.shared_bytes if inherited else 0
    with capture.standing_in(_stand_ins_of(order), stood_in.append):  # until the end: what is sampled may import, too
        _follow(journal, orders, folder, order, stood_in, shared_bytes)


def _follow(journal: JournalWriter, orders: TextIO, folder: Path, order: Order, stood_in: Sequence[str], shared_bytes: int) -> None:
    """Builds what is ordered, samples it, and does what else is asked for. `stood_in` gets longer meanwhile."""
    built = _build(journal, order, folder, stood_in)
    if built is None:
        return
    built_s = time.monotonic()
    dataset, ops, samples, files = built
    started = _first_batch(journal, dataset, samples)
    if started is None:
        return
    iterator, samples = started
    window = orders.readline()
    if not window:
        return
    window_s, *barrier = window.split()
    order = replace(order, max_window_s=float(window_s), min_window_s=min(order.min_window_s, float(window_s)))
    begin = partial(_wait_for_start, journal, orders) if barrier else None
    sample(journal, dataset, iterator, order, ops, samples, files=files, inherited_shared_bytes=shared_bytes, begin=begin)
    del iterator  # and with it what waits in its buffers
    if order.want_costs and files:
        from cs_input_analyzer.machines.page_cache import cached_ratio

        paths = [path for path, _ in files]
        journal.event("cache_after", ratio=cached_ratio(paths, deadline_s=time.monotonic() + CACHE_S / 10))
    if order.want_source:
        from cs_input_analyzer.worker.readers_alone import sample_readers

        sample_readers(journal, dataset)
    if order.want_prefixes:
        from cs_input_analyzer.worker.prefixes import cpu_s_per_element
        from cs_input_analyzer.worker.sampling import harness_us_per_batch

        budget_s = min(PREFIXES_S, PREFIX_S * sum(op.within is None for op in ops))
        for op, cpu_s in cpu_s_per_element(dataset, ops, budget_s, harness_us_per_batch() * 1e-6):
            journal.event("prefix", op=op, cpu_s_per_element=cpu_s)
    if order.candidates:
        from cs_input_analyzer.worker.fixes import try_fixes

        seconds = order.fixes_s - (time.monotonic() - built_s)
        try_fixes(journal.event, dataset, order.candidates, seconds=seconds, rebuild=partial(_rebuilt, order, folder))
    journal.event("over")


def _build(
    journal: JournalWriter, order: Order, folder: Path, stood_in: Sequence[str]
) -> tuple[Any, Any, SamplesPerElement, Files] | None:
    """Runs the user's input function. None when it failed; the journal says how."""
    from pydantic import TypeAdapter

    from cs_input_analyzer.errors import TargetError, UsageError
    from cs_input_analyzer.pipeline import graph
    from cs_input_analyzer.pipeline.samples import batch_sizes_in, check_demand
    from cs_input_analyzer.records import ContextUse, PipelineGraph
    from cs_input_analyzer.worker import capture, load
    from cs_input_analyzer.worker.redirect import redirected_writes

    os.environ["TF_CONFIG"] = order.tf_config
    own_pid = os.getpid()
    began_s = time.monotonic()
    stage = "build" if capture.is_script(order.target) else "import"
    uses: list[ContextUse] = []
    journal.event("loading")
    try:
        with graph.recorded_sources() as log, redirected_writes(folder) as moved:
            found = _found(order)
            stage = "build"
            journal.event("building")
            dataset = load.build_dataset(found, _call_of(order), uses.append)
        _end_forked_child(own_pid)
        build_s = time.monotonic() - began_s
        pipeline = graph.read_graph(
            dataset,
            log,
            target=order.target,
            said=order.samples_per_element,
            params_sizes=batch_sizes_in(json.loads(order.params_json or "null")),
            demand_size=order.batch_size,
            redirected=tuple(dict.fromkeys(moved)),
        )
        context = next(iter(sorted(uses)), None)  # given before left
        pipeline = replace(pipeline, input_context=context, stand_ins=capture.innermost(stood_in))
    except BaseException as error:
        _end_forked_child(own_pid)
        _tell_failure(journal, "load" if isinstance(error, TargetError) else stage, error)
        return None
    assert pipeline.samples_per_element is not None
    try:
        # Among several a function may divide the batch of the step by their number: that is no contradiction.
        step = order.batch_size if order.num_workers == 1 else None
        check_demand(pipeline.samples_per_element, step, has_demand=order.has_demand)
    except UsageError as error:
        _tell_failure(journal, "load", error)
        return None
    fields = TypeAdapter(PipelineGraph).dump_python(pipeline, mode="json") if order.want_graph else None
    files = graph.sized_files_of(dataset)
    file_count = pipeline.files.count if pipeline.files else None
    journal.event("built", build_s=build_s, pipeline=fields, file_count=file_count, files=files if order.want_graph else ())
    _prepare_cache(journal, order, [path for path, _ in files])
    return dataset, pipeline.ops, pipeline.samples_per_element, files


def _found(order: Order) -> Any:
    """The input function, or the Dataset, that the order is about."""
    from cs_input_analyzer.worker import capture, load

    with capture.setting_up():
        if order.pickled:
            return _unpickle(order.pickled)
        if capture.is_script(order.target):
            return capture.captured(order.target)
        return load.find_object(load.parse_target(order.target))


def _stand_ins_of(order: Order) -> tuple[str, ...]:
    """Packages to stand in for where they are not installed: those that the user names, and what the script's Python has."""
    from cs_input_analyzer.worker import capture

    return (*order.stand_ins, *(capture.parse_script(order.target).stand_ins if capture.is_script(order.target) else ()))


def _call_of(order: Order) -> Any:
    """What the input function is called with."""
    from cs_input_analyzer.worker import load

    params = json.loads(order.params_json) if order.params_json is not None else None
    mode: Any = order.mode
    return load.Call(
        params=params,
        mode=mode,
        num_workers=order.num_workers,
        worker_index=order.worker_index,
        input_context=order.input_context,
    )


def _rebuilt(order: Order, folder: Path, texts: Mapping[str, str]) -> Any:
    """The dataset that the input function gives when source files have other texts. Raises what the user's code raises."""
    from cs_input_analyzer.worker import load
    from cs_input_analyzer.worker.patched import patched_sources
    from cs_input_analyzer.worker.redirect import redirected_writes

    own_pid = os.getpid()
    try:
        with patched_sources(texts), redirected_writes(folder):
            return load.build_dataset(_found(order), _call_of(order))
    finally:
        _end_forked_child(own_pid)


def _prepare_cache(journal: JournalWriter, order: Order, paths: Sequence[str]) -> None:
    """Empties or fills the page cache with the pipeline's own files, as ordered, and says what part of them is in it then."""
    from cs_input_analyzer.machines.page_cache import cached_ratio, evict, warm

    if not paths:
        return
    deadline_s = time.monotonic() + CACHE_S
    if order.cache == "cold":
        evict(paths, deadline_s=deadline_s)
    elif order.cache == "warm":
        warm(paths, deadline_s)
    journal.event("cache", state=order.cache, ratio=cached_ratio(paths, deadline_s=time.monotonic() + CACHE_S / 10))


def _first_batch(journal: JournalWriter, dataset: Any, samples: SamplesPerElement) -> tuple[Any, SamplesPerElement] | None:
    """Reads one element eagerly: its latency, its size, its samples. Gives the iterator, and how to count the elements that come;
    None when there was none."""
    from cs_input_analyzer.worker.sampling import bytes_of, counted_here, samples_in

    began_s = time.monotonic()
    try:
        iterator = iter(dataset)
        first = next(iterator)
    except StopIteration:
        journal.event("failed", stage="first_batch", kind="Empty", message="the dataset gave no element", details="")
        return None
    except BaseException as error:
        _tell_failure(journal, "first_batch", error)
        return None
    first_batch_s = time.monotonic() - began_s
    samples = counted_here(first, samples)
    journal.event("first_batch", first_batch_s=first_batch_s, bytes=bytes_of(first), samples=samples_in(first, samples))
    return iterator, samples


def sample(
    journal: JournalWriter,
    dataset: Any,
    iterator: Any,
    order: Order,
    ops: Any,
    samples: SamplesPerElement,
    files: Files = (),
    inherited_shared_bytes: int = 0,
    begin: Callable[[], bool] | None = None,
) -> None:
    """Samples in chunks until the rate is precise enough, the time is up, or the data end; a finished pass begins again.

    `begin` is called when all is ready, and returns when sampling is to begin: workers of several nodes begin together.
    """
    import numpy as np

    from cs_input_analyzer.machines.counters import CounterReader, read_memory
    from cs_input_analyzer.machines.reference import time_reference
    from cs_input_analyzer.stats.steady_state import steady_window
    from cs_input_analyzer.worker.bytes_read import reads_of
    from cs_input_analyzer.worker.costs import CostMeter
    from cs_input_analyzer.worker.sampling import CHUNK_S, harness_us_per_batch, next_chunk, sampling_loop

    counted_in = samples.counted_in
    loop = sampling_loop(dataset.element_spec, count_samples=counted_in is not None, counted_in=counted_in, rows=samples.rows)
    for until_s in (0.0, math.inf):  # traces both forms now: in the window it would be a pause, and a burst after it
        loop(iterator, 0, until_s)
    meter = CostMeter(ops=ops)
    arrivals: list[Any] = []
    passes: list[int] = []
    epochs, batches, chunk_batches, last_batches, since_epoch = 0, 0, 1, 0, 1
    stopped_by = "budget"
    counters = CounterReader()
    told: dict[str, float] | None = None
    journal.event("reference", **asdict(time_reference()))
    if begin is not None and not begin():  # the parent needs this worker no more
        return
    began_s = checked_s = filled_s = time.monotonic()
    journal.event("sampling", counters=asdict(counters.read()), at_s=time.time())
    meter.poll(iterator)
    if is_filling := meter.is_filling_cache:
        journal.event("cache_filling")
    journal.event("reads", **asdict(reads_of(ops, meter.passed, {})))
    if order.want_costs:
        told = _tell_tuned(journal, meter, told, batches)
    while True:
        chunk_began_s = time.monotonic()
        # A buffer that was full when we began makes the first batches far faster than the later ones: a chunk that grew on them may
        # not take for ever.
        is_growing = chunk_batches > SETTLED_GROWTH * last_batches
        chunk = loop(iterator, chunk_batches, time.time() + 2 * CHUNK_S) if is_growing else loop(iterator, chunk_batches)
        last_batches = max(1, len(chunk.stamps_s))
        now_s = time.monotonic()
        arrivals.append(chunk.stamps_s)
        batches += len(chunk.stamps_s)
        since_epoch += len(chunk.stamps_s)
        if order.want_costs or is_filling:  # told now and not only in the end, which a worker that hangs or is killed does not see
            meter.poll(iterator)
        if order.want_costs:
            _tell_costs(journal, meter, harness_us=None)
        journal.chunk(chunk.stamps_s, chunk.samples, counters.read())
        if is_filling and not meter.is_filling_cache:  # later passes read the cache: another pipeline begins here
            is_filling = False
            journal.event("cache_filled", batches=batches)
            arrivals.clear()
            passes.clear()
            meter.begin_again()
            filled_s = now_s
        if order.want_costs:
            told = _tell_tuned(journal, meter, told, batches)
        if chunk.error is not None:
            message = _loop_error(chunk.error, files)[:MESSAGE_LIMIT]
            journal.event("data_error", kind=type(chunk.error).__name__, message=message, batches=batches)
            stopped_by = "error"
            break
        if chunk.ended:
            epochs += 1
            if epochs == 1 and not order.want_costs:
                meter.poll(iterator)
            restart_began_cpu_s = time.thread_time()  # threads of the new pass begin their work meanwhile
            iterator = iter(dataset) if since_epoch else iterator
            journal.event("epoch", batches=batches, restart_cpu_s=time.thread_time() - restart_began_cpu_s)
            if since_epoch == 0:  # a source that can be read only once
                stopped_by = "data_end"
                break
            since_epoch = 0
            passes.append(sum(map(len, arrivals)))
        elapsed_s = now_s - began_s
        if elapsed_s >= order.max_window_s:
            break
        if arrivals and now_s - filled_s >= order.min_window_s and now_s - checked_s >= STOP_CHECK_S:
            checked_s = now_s
            window = steady_window(np.concatenate(arrivals), passes)
            half_width = window.gap_s.relative_half_width_ratio if window else None
            is_long = window is not None and window.window_s >= order.min_window_s / 2
            if half_width is not None and half_width <= order.target_error_ratio and is_long:
                stopped_by = "precision"
                break
        chunk_batches = next_chunk(len(chunk.stamps_s), now_s - chunk_began_s, order.max_window_s - elapsed_s)
    counters.close()
    if not order.want_costs and batches > 0:
        meter.poll(iterator)
    journal.event("reads", **asdict(reads_of(ops, meter.passed, _looks(dataset, ops))))
    journal.event("reference", **asdict(time_reference()))
    journal.event("memory", **asdict(read_memory(inherited_shared_bytes)))
    if order.want_costs:
        _tell_costs(journal, meter, harness_us=harness_us_per_batch() if stopped_by != "error" else None)
    journal.event("done", stopped_by=stopped_by, epochs=epochs)


def _looks(dataset: Any, ops: Any) -> dict[str, Any]:
    """What is in the files of those readers whose elements do not tell what was read for them, by op name."""
    from cs_input_analyzer.machines.raw_reads import look_into
    from cs_input_analyzer.pipeline import graph
    from cs_input_analyzer.worker.bytes_read import needs_look

    wanted = [op.name for op in ops if needs_look(op)]
    files = graph.files_by_reader(graph.graph_def_of(dataset)) if wanted else {}
    looks = {name: look_into([path for path, _ in files.get(name, ())]) for name in wanted}
    return {name: look for name, look in looks.items() if look is not None}


def _wait_for_start(journal: JournalWriter, orders: TextIO) -> bool:
    """Until the moment (epoch seconds) that the parent names once every worker is ready; False where it names none."""
    journal.event("ready")
    line = orders.readline()
    if not line:
        return False
    time.sleep(max(0.0, float(line) - time.time()))
    return True


def _tell_costs(journal: JournalWriter, meter: Any, harness_us: float | None) -> None:
    """Writes down what the ops have cost so far; the last of these counts."""
    # `asdict` copies deeply, which costs a millisecond for a long pipeline.
    seen = {name: {field.name: getattr(counts, field.name) for field in fields(counts)} for name, counts in meter.seen.items()}
    tuned = [{"op": value.op, "parameter": value.parameter, "value": value.value} for value in meter.parameters()]
    journal.event("costs", seen=seen, tuned=tuned, harness_us=harness_us)


def _tell_tuned(journal: JournalWriter, meter: Any, told: dict[str, float] | None, batches: int) -> dict[str, float] | None:
    """Writes down the values that AUTOTUNE changed since they were `told`; the first line, even if empty, says they are read."""
    if not meter.has_model:
        return told
    values = {f"{tuned.op}.{tuned.parameter}": tuned.value for tuned in meter.parameters()}
    changed = {name: value for name, value in values.items() if told is None or told.get(name) != value}
    if told is None or changed:
        journal.event("tuned", batches=batches, values=changed)
    return values


def _tell_failure(journal: JournalWriter, stage: str, error: BaseException) -> None:
    """Writes down what the user's code, or we, raised; long texts are cut, because a message may hold a whole tensor."""
    from cs_input_analyzer.worker.load import plain_message, user_traceback

    journal.event(
        "failed",
        stage=stage,
        kind=type(error).__name__,
        message=plain_message(error)[:MESSAGE_LIMIT],
        details=user_traceback(error)[-8000:],
    )


def _loop_error(error: BaseException, files: Files) -> str:
    """What went wrong with an element: without the frames of our own loop, and with the file that changed while it was read."""
    from cs_input_analyzer.worker.load import plain_message

    return _LOOP_FRAMES.sub("", plain_message(error)).strip() + _changed_file(files)


def _changed_file(files: Files) -> str:
    """The first file that is gone, or of another size than when the pipeline was built; empty where there is none."""
    deadline_s = time.monotonic() + CHANGED_FILES_S
    for path, size in files:
        if time.monotonic() > deadline_s:
            return ""
        try:
            now = os.stat(path).st_size
        except OSError as error:
            return f" ({path}: {(error.strerror or str(error)).lower()}; it was there when the pipeline was built)"
        if now != size:
            return f" ({path} had {size} bytes when the pipeline was built and has {now} now: something writes to it)"
    return ""


def _unpickle(path: str) -> Any:
    """The user's function, with the modules it names found where the user's script finds them."""
    import cloudpickle

    search_path, function = cloudpickle.loads(Path(path).read_bytes())
    sys.path += [folder for folder in search_path if folder not in sys.path]
    return cloudpickle.loads(function)


def _end_forked_child(own_pid: int) -> None:
    """A child that user code forked must not go on as a second worker."""
    if os.getpid() != own_pid:
        os._exit(0)


def end_children() -> None:
    """Ends what this process and its descendants have started, and waits for that: who waits for us finds nothing left."""
    import psutil

    try:
        children = psutil.Process().children(recursive=True)
    except (psutil.Error, OSError):  # a /proc that cannot be read; the parent ends the whole group
        return
    for child in children:
        try:
            child.kill()
        except psutil.Error:
            continue
    psutil.wait_procs(children, timeout=CHILDREN_S)


def _private_stdin() -> TextIO:
    """The parent's orders on a descriptor of our own; user code that reads stdin finds it empty."""
    private = os.dup(0)
    os.set_inheritable(private, False)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - lives as long as the process
    return os.fdopen(private, "r", encoding="utf-8")


def _allow_threads() -> None:
    """As many threads for BLAS as there are CPUs, as a process that loads it here would have; the fork server held it to one."""
    import threadpoolctl

    threadpoolctl.threadpool_limits(len(os.sched_getaffinity(0)))


def die_with(parent_pid: int) -> None:
    """Asks Linux to kill this process when its parent dies, so that nothing is left running after a killed analyzer.

    And to give it the orphans of what user code starts, so that daemons of its own making can be found and ended too.
    """
    try:
        libc = ctypes.CDLL(None)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    except (OSError, AttributeError):
        return
    if os.getppid() != parent_pid:  # it died before we asked
        os._exit(1)


def _leave(status: int, own_pid: int) -> NoReturn:
    if os.getpid() == own_pid:
        end_children()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                pass
    os._exit(status)

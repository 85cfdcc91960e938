"""Workers as processes on this host."""

from __future__ import annotations

import collections
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Literal

import psutil
from pydantic import TypeAdapter

import cs_input_analyzer
from cs_input_analyzer.errors import LaunchError
from cs_input_analyzer.launch.interface import Launched, Launching, WorkerFailure, WorkPlan
from cs_input_analyzer.launch.tf_config import free_ports, local_tf_config
from cs_input_analyzer.measure.host import cpu_sets
from cs_input_analyzer.measure.journal import EVENTS, EXIT_UNWRITTEN, UNWRITTEN, Journal, Order, read_journal
from cs_input_analyzer.measure.summary import Ending, measurement_of, profile_from, source_rate, stage_of, status_of, worker_result
from cs_input_analyzer.records import Layout, PipelineGraph, WorkerResult

POLL_S = 0.03
CHILDREN_S = 1.0
OUTPUT_TAIL_BYTES = 64 * 1024
EXIT_GRACE_S = 5.0
# What import and building took longer is taken off the window, so that workers end by themselves and not at the deadline.
LEAVING_S = 1.0
SHORTEST_WINDOW_S = 0.3
# The package may be a plain checkout: its root goes last on the path, where it can shadow nothing of the user's.
_BOOTSTRAP = (
    "import sys; root = sys.argv.pop(1); sys.path[:] = [p for p in sys.path if p] + [root]; "
    "from cs_input_analyzer.measure.worker import main; main(sys.argv[1:])"
)
_CHATTER = re.compile(r"[IW]\d{4} \d\d|WARNING: All log messages before absl|To enable the following instructions")
Killed = Literal["deadline", "memory", "interrupt"]


class WorkerProcess:
    """One worker seen from its parent: sends its order, watches its memory, keeps the tail of what it prints, ends it."""

    def __init__(self, folder: Path, cpus: Sequence[int], memory_limit_bytes: int | None) -> None:
        self.folder = folder
        self.killed_for: Killed | None = None
        self._memory_limit_bytes = memory_limit_bytes
        self._seen_bytes = 0
        self._children: list[psutil.Process] = []
        self._children_at_s = 0.0
        self._heard: set[str] = set()
        self._tail: collections.deque[bytes] = collections.deque()
        self._tail_bytes = 0
        root = str(Path(cs_input_analyzer.__file__).resolve().parent.parent)
        arguments = [str(folder), ",".join(map(str, cpus)), str(os.getpid())]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _BOOTSTRAP, root, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=_worker_environment(folder),
                start_new_session=True,  # Ctrl-C is the parent's to handle; and the whole group can be ended at once
            )
        except OSError as error:
            raise LaunchError(f"a worker process could not be started: {error}") from error
        self._drain = threading.Thread(target=self._keep_tail, args=(self._process.stdout,), daemon=True)
        self._drain.start()

    def send(self, line: str) -> None:
        """Sends one line; a worker that is gone already is found out by `poll`."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
        except (BrokenPipeError, OSError):
            return

    def has_said(self, *kinds: str) -> bool:
        """Whether any of these events has been written; looks only when the file has grown."""
        try:
            size = (self.folder / EVENTS).stat().st_size
        except OSError:
            return False
        if size != self._seen_bytes:
            self._seen_bytes = size
            self._heard = {str(event["event"]) for event in read_journal(self.folder).events}
        return not self._heard.isdisjoint(kinds)

    @property
    def is_over(self) -> bool:
        return self._process.poll() is not None

    def watch_memory(self) -> None:
        """Ends the worker when it and its children hold more than their limit: before the kernel ends something else.

        Looking for children reads every process of the host, a millisecond here and tens of them on a busy node: now and then.
        """
        if self._memory_limit_bytes is None or self.is_over:
            return
        now_s = time.monotonic()
        try:
            process = psutil.Process(self._process.pid)
            if now_s - self._children_at_s >= CHILDREN_S:
                self._children_at_s, self._children = now_s, process.children(recursive=True)
            held = process.memory_info().rss + sum(child.memory_info().rss for child in self._children if child.is_running())
        except psutil.Error:
            self._children = []
            return
        if held > self._memory_limit_bytes:
            self.kill("memory")

    def kill(self, reason: Killed) -> None:
        """Ends the worker and everything it started."""
        if self.is_over:
            return
        self.killed_for = reason
        self._end_group()

    def finish(self) -> Ending:
        """Waits for a worker that is done; one that hangs while exiting is ended, and that is not held against it.

        Its memory is watched to the end: what it still does may hold more than the measuring did.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except OSError:
            pass
        deadline_s = time.monotonic() + EXIT_GRACE_S
        while not self.is_over and time.monotonic() < deadline_s:
            self.watch_memory()
            time.sleep(POLL_S)
        self._end_group()  # also what it forked and left behind
        self._process.wait()
        self._drain.join(timeout=1.0)
        tail = b"".join(self._tail)[-OUTPUT_TAIL_BYTES:]
        return Ending(returncode=self._process.returncode, killed_for=self.killed_for, output_tail=tail.decode(errors="replace"))

    def _end_group(self) -> None:
        strays: list[psutil.Process] = []
        try:
            strays = psutil.Process(self._process.pid).children(recursive=True)  # those that left the group too
        except psutil.Error:
            pass
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        for stray in strays:
            try:
                stray.kill()
            except psutil.Error:
                continue

    def _keep_tail(self, stream: IO[bytes] | None) -> None:
        """Drains what the worker prints, so that it never blocks, and keeps the end of it, so that we never drown."""
        if stream is None:
            return
        while block := os.read(stream.fileno(), 1 << 16):
            self._tail.append(block)
            self._tail_bytes += len(block)
            while self._tail_bytes > 2 * OUTPUT_TAIL_BYTES and len(self._tail) > 1:
                self._tail_bytes -= len(self._tail.popleft())


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalLaunching:
    """Workers of one layout on this host."""

    layout: Layout
    processes: tuple[WorkerProcess, ...]


class LocalLauncher:
    """Starts workers as processes of this host, each pinned to its own CPUs out of the budget."""

    def __init__(
        self, cpu_budget: int, worker_memory_bytes: int | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._cpu_budget = cpu_budget
        self._worker_memory_bytes = worker_memory_bytes
        self._clock = clock
        try:
            self._folder = Path(tempfile.mkdtemp(prefix="cs_input_analyzer-"))
        except OSError as error:
            raise LaunchError(f"no temporary folder can be made: {_storage_advice(error.strerror or str(error))}") from None
        self._started: list[WorkerProcess] = []
        self._next_cpu = 0

    @property
    def folder(self) -> Path:
        """Private scratch space, removed by `close`."""
        return self._folder

    def now_s(self) -> float:
        return self._clock()

    def start(self, layout: Layout) -> LocalLaunching:
        if layout.nodes != 1:
            raise LaunchError(f"layout {layout}: this host is one node")
        # Layouts wait side by side while they import; each begins where the last one ended, so that they share no CPU needlessly.
        sets = cpu_sets(layout.tasks_per_node, layout.cpus_per_task, self._cpu_budget, self._next_cpu)
        self._next_cpu += layout.cpus_per_node
        processes = []
        for cpus in sets:
            folder = self._folder / f"worker-{len(self._started)}"
            try:
                folder.mkdir()
            except OSError as error:
                raise LaunchError(f"no folder can be made for a worker: {_storage_advice(error.strerror or str(error))}") from None
            process = WorkerProcess(folder, cpus, self._memory_limit())
            self._started.append(process)
            processes.append(process)
        return LocalLaunching(layout=layout, processes=tuple(processes))

    def run(self, launching: Launching, plan: WorkPlan) -> Launched:
        assert isinstance(launching, LocalLaunching)
        is_interrupted = False
        try:
            self._drive(launching.processes, plan)
        except KeyboardInterrupt:
            is_interrupted = True
            for process in launching.processes:
                process.kill("interrupt")
        endings = [process.finish() for process in launching.processes]
        journals = [read_journal(process.folder) for process in launching.processes]
        for process in launching.processes:
            shutil.rmtree(process.folder, ignore_errors=True)
        return _launched(launching.layout, plan, journals, endings, is_interrupted)

    def _drive(self, processes: Sequence[WorkerProcess], plan: WorkPlan) -> None:
        """Takes the workers through their stages; returns when each is done or gone."""
        # All that were started: a neighbour that still imports would take the CPUs from those that are measured.
        self._wait([process for process in self._started if not process.is_over], ("imported", "failed"), plan.deadline_s)
        ports = free_ports(plan.num_workers + 1)
        for process, index in zip(processes, plan.worker_indices, strict=True):
            process.send(_order(plan, index, ports, is_first=process is processes[0], is_alone=len(processes) == 1).to_line())
        self._wait(processes, ("first_batch", "failed"), plan.deadline_s)
        window_s = max(SHORTEST_WINDOW_S, min(plan.max_window_s, plan.deadline_s - self._clock() - LEAVING_S))
        for process in processes:
            process.send(f"{window_s}\n")
        self._wait(processes, ("done", "failed"), plan.deadline_s)
        if plan.want_source or plan.want_prefixes:
            self._wait(processes[:1], ("over", "failed"), plan.deadline_s)

    def close(self) -> None:
        for process in self._started:
            process.kill("interrupt")
        for process in self._started:
            process.finish()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _wait(self, processes: Sequence[WorkerProcess], kinds: tuple[str, ...], deadline_s: float) -> None:
        """Until each worker has said one of `kinds` or is gone; past the deadline the late ones are ended."""
        while waiting := [process for process in processes if not process.is_over and not process.has_said(*kinds)]:
            for process in waiting:
                if self._clock() > deadline_s:
                    process.kill("deadline")
                else:
                    process.watch_memory()
            time.sleep(POLL_S)

    def _memory_limit(self) -> int:
        """The user's limit, else nearly all that is free now: this host must survive a pipeline that eats memory."""
        available = int(psutil.virtual_memory().available * 0.9)
        return min(self._worker_memory_bytes, available) if self._worker_memory_bytes is not None else available


def _order(plan: WorkPlan, index: int, ports: Sequence[int], *, is_first: bool, is_alone: bool) -> Order:
    return Order(
        target=plan.target,
        pickled=plan.pickled,
        params_json=plan.params_json,
        mode=plan.mode,
        num_workers=plan.num_workers,
        worker_index=index,
        tf_config=local_tf_config(plan.num_workers, index, ports),
        batch_size=plan.batch_size,
        target_error_ratio=plan.target_error_ratio,
        # Side by side all sample for the same time: one that stopped early would leave its CPUs to the others.
        min_window_s=plan.min_window_s if is_alone else plan.max_window_s,
        max_window_s=plan.max_window_s,
        want_graph=is_first,
        want_costs=is_first,
        cache=plan.cache,
        want_source=is_first and plan.want_source,
        want_prefixes=is_first and plan.want_prefixes,
    )


def _launched(
    layout: Layout, plan: WorkPlan, journals: Sequence[Journal], endings: Sequence[Ending], is_interrupted: bool
) -> Launched:
    # A worker that met its end early says nothing about how long the others may be looked at.
    whole = [journal for journal in journals if journal.last("done") and not journal.last("data_error")]
    ends = [float(journal.stamps_s[-1]) for journal in whole if len(journal.stamps_s)]
    until_s = min(ends, default=None)
    node = socket.gethostname()
    workers = [
        _blaming_storage(worker_result(journal, ending, index=index, node=node, until_s=until_s), ending)
        for journal, ending, index in zip(journals, endings, plan.worker_indices, strict=True)
    ]
    built = journals[0].last("built")
    fields = built["pipeline"] if built else None
    pipeline = TypeAdapter(PipelineGraph).validate_python(fields) if fields else None
    cache = journals[0].last("cache")
    measurement = measurement_of(
        layout, plan.num_workers, workers, cache_state=plan.cache, page_cache_ratio=cache["ratio"] if cache else None
    )
    return Launched(
        measurement=measurement,
        pipeline=pipeline,
        files=tuple((str(path), int(size)) for path, size in built["files"]) if built else (),
        profile=profile_from(journals[0], layout, pipeline, workers[0]) if pipeline else None,
        failure=_failure(journals, endings) if measurement.samples_per_s is None else None,
        import_s=max((worker.import_s or 0.0 for worker in workers), default=0.0),
        transient_s=max((worker.steady_state.transient_s for worker in workers if worker.steady_state), default=0.0),
        source_samples_per_s=source_rate(journals[0], pipeline) if pipeline else None,
        is_interrupted=is_interrupted,
    )


def _failure(journals: Sequence[Journal], endings: Sequence[Ending]) -> WorkerFailure:
    """The first worker's failure, in the user's terms."""
    journal, ending = journals[0], endings[0]
    failed = journal.last("failed")
    if failed is not None:
        return WorkerFailure(stage=failed["stage"], kind=failed["kind"], message=failed["message"], details=failed["details"])
    data_error = journal.last("data_error")
    if data_error is not None:
        return WorkerFailure(stage="sampling", kind=data_error["kind"], message=data_error["message"], details="")
    unwritten = _unwritten(ending)
    if unwritten is not None:
        return WorkerFailure(stage="journal", kind="JournalError", message=unwritten, details="")
    _, message = status_of(journal, ending)
    stage = "hang" if ending.killed_for == "deadline" else "exit"
    return WorkerFailure(
        stage=stage,
        kind=ending.killed_for or stage_of(journal),
        message=message,
        details=_without_chatter(ending.output_tail)[-2000:],
    )


def _unwritten(ending: Ending) -> str | None:
    """What to tell about a worker that could not write its journal; None for others."""
    _, said, reason = ending.output_tail.rpartition(UNWRITTEN)
    if ending.returncode != EXIT_UNWRITTEN or not said:
        return None
    return f"what a worker measured could not be written down: {_storage_advice(reason.strip())}"


def _blaming_storage(result: WorkerResult, ending: Ending) -> WorkerResult:
    """Says of a worker that could not write its journal why it was lost; what it had written before is kept."""
    unwritten = _unwritten(ending)
    return result if unwritten is None or result.status == "done" else replace(result, status="lost", message=unwritten)


def _storage_advice(reason: str) -> str:
    """What is wrong with the folder for temporary files, and what to do."""
    try:
        folder = tempfile.gettempdir()
    except OSError:
        return f"{reason}; set TMPDIR to a folder with some free space"
    return f"{reason.lower()} in {folder}; free some space there, or set TMPDIR to another folder"


def _without_chatter(output: str) -> str:
    """Without what TensorFlow logs about itself while it is imported; its errors stay."""
    return "".join(line for line in output.splitlines(keepends=True) if not _CHATTER.match(line))


def _worker_environment(folder: Path) -> dict[str, str]:
    """The user's environment without accelerators, and without TensorFlow's chatter in the output we keep.

    Temporary files go to the worker's folder: AutoGraph's would outlive a process that is killed.
    """
    return {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": "-1",
        "TPU_VISIBLE_CHIPS": "",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",  # the user's folders stay as they are
        "TMPDIR": str(folder),
    }

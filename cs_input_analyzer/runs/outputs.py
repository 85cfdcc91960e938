"""The record of a monitored run: `steps.jsonl`, TensorBoard events, and lines for the console.

One thread does all that touches the file system, from making the folder on, as any of it may stall for hours. The training only
puts blocks of lines on its queue. An output that fails is logged once, and is not tried again. A process among several
writes into a folder that is named for its place in the launch.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import queue
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cs_input_analyzer.runs.rates import is_kept
from cs_input_analyzer.runs.settings import LOG

# In the order in which TensorFlow numbers them; parameter servers and the evaluator do not train.
TRAINING_TASKS = ("chief", "master", "worker")

RANKS = (
    # Not SLURM_NTASKS: a batch script has that, too, without being one of several tasks. Only a step has this.
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("RANK", "WORLD_SIZE"),  # torchrun
)
"""By launcher, the variables with the rank of a process and their number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingTask:
    """`rank` of `workers`, counted from 0; `name` for lines and folders: `worker-3`, `chief-0`, `rank-3`."""

    name: str = "worker-0"
    rank: int = 0
    workers: int = 1


def training_task(environ: Mapping[str, str]) -> TrainingTask:
    """Return this process's task. If nothing can be read, it is a lone worker."""
    return _from_tf_config(environ.get("TF_CONFIG", "")) or _from_ranks(environ) or TrainingTask()


def _from_tf_config(text: str) -> TrainingTask | None:
    try:
        config = json.loads(text)
        cluster, task = config["cluster"], config["task"]
        names = [f"{kind}-{index}" for kind in TRAINING_TASKS for index in range(len(cluster.get(kind, ())))]
        name = f"{task['type']}-{int(task['index'])}"
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):  # also for an index of Infinity
        return None
    return TrainingTask(name=name, rank=names.index(name), workers=len(names)) if name in names else None


def _from_ranks(environ: Mapping[str, str]) -> TrainingTask | None:
    """Return the task by the launcher that numbers most processes: one may start another, as srun does torchrun."""
    places: list[TrainingTask] = []
    for rank_name, size_name in RANKS:
        with contextlib.suppress(KeyError, ValueError):
            rank, size = int(environ[rank_name]), int(environ[size_name])
            if 0 <= rank < size and size > 1:
                places.append(TrainingTask(name=f"rank-{rank}", rank=rank, workers=size))
    return max(places, key=lambda place: place.workers, default=None)


STEPS = "steps.jsonl"
SCALARS = ("local_samples_per_sec", "avg_samples_per_sec", "input_wait_ratio")
MOST_FOLDERS = 1000
BLOCK_LINES = 48
ALWAYS_WRITTEN = ("start", "verdict", "end", "error")
SETTLE_S, CLOSE_S = 1.0, 5.0
"""How long the end of a pass, and of the run, wait for the file system."""


def console_line(device: str, step: int, loss: float | None, rate_per_s: float | None, global_per_s: float | None) -> str:
    """Return `| Train Device=…, Step=…, Loss=…, Rate=… samples/sec, GlobalRate=… samples/sec`, without what is not known."""
    loss_text = "" if loss is None else f", Loss={loss:.5f}"
    known = [(name, rate) for name, rate in (("Rate", rate_per_s), ("GlobalRate", global_per_s)) if rate is not None]
    texts = [f", {name}={rate:{'.3g' if 0 < rate < 1 else '.2f'}} samples/sec" for name, rate in known]
    return f"| Train Device={device}, Step={step}{loss_text}{''.join(texts)}"


def _step_line(
    *, step: int, steps: int, at_s: float, samples: float | None, wait_s: float | None, step_s: float, phase: str
) -> str:
    """Return the line of a step. There are so many of them that `json` would be too slow."""
    held = "null" if samples is None else f"{samples:g}" if samples < 1e5 else repr(samples)
    wait = "null" if wait_s is None else f"{wait_s:.7g}"
    return (
        f'{{"event": "step", "step": {step}, "steps": {steps}, "at_s": {at_s:.6f}, "samples": {held}, '
        f'"wait_s": {wait}, "step_s": {step_s:.7g}, "phase": "{phase}"}}'
    )


class Outputs:
    """The record of one monitor in one folder; without a folder, none.

    A second monitor with the same folder, of this process or of another, writes into `monitor-2` in it, and so on. A forked child
    writes nothing.
    """

    def __init__(self, log_dir: str | Path | None, task: TrainingTask, *, tensorboard: bool) -> None:
        self._is_warned = False
        self._lines: list[str] = []
        self._seen: Counter[str] = Counter()
        self._queue: queue.SimpleQueue[Callable[[_Files], object] | None] = queue.SimpleQueue()
        self._owner: int | None = os.getpid() if log_dir is not None else None
        self._thread: threading.Thread | None = None
        self._settled = threading.Event()
        self._settled.set()
        if log_dir is None:
            return
        if tensorboard and find_spec("tensorboard") is None:
            tensorboard = False
            self.warn("the input monitor writes no TensorBoard events: tensorboard is not installed; steps.jsonl has all of them")
        try:
            folder = Path(log_dir).expanduser().absolute()
            arguments = (folder / task.name if task.workers > 1 else folder, tensorboard)
            thread = threading.Thread(target=self._write_all, args=arguments, daemon=True, name="csia-monitor")
            thread.start()
            self._thread = thread
        except Exception as error:  # no home, no thread
            self._give_up(error)

    def line(self, event: str, **fields: Any) -> None:
        """Keep one line of `steps.jsonl` until the next `flush`, or until a block is full."""
        if not self._is_due(event):
            return
        if event == "step":
            self._lines.append(_step_line(**fields))
        else:
            plain = {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in fields.items()}
            self._lines.append(json.dumps({"event": event, **plain}, default=str))
        if len(self._lines) >= BLOCK_LINES:
            self.flush()

    def scalars(self, step: int, values: Mapping[str, float | None]) -> None:
        """Write the values that are known for TensorBoard."""
        seen = {tag: value for tag, value in values.items() if value is not None and math.isfinite(value)}
        if seen and self._is_due("scalars"):
            at_s = time.time()
            self._put(lambda files: files.add_scalars(step, at_s, seen))

    def flush(self) -> None:
        """Give the lines to the thread."""
        lines, self._lines = self._lines, []
        if lines:
            self._put(lambda files: files.add_lines(lines))

    def settle(self) -> None:
        """Flush, and wait until all is written, but not for a file system that stalls."""
        self.flush()
        if self._owner == os.getpid() and self._settled.is_set():  # else it stalled the last time, and has not gone on since
            done = self._settled = threading.Event()
            self._put(lambda files: done.set())
            done.wait(SETTLE_S)

    def close(self) -> None:
        """Write what is left. May be called by the garbage collector, in any thread."""
        self.flush()
        if self._thread is not None and self._thread.is_alive():
            self._queue.put(None)
            if threading.current_thread() is not self._thread:
                self._thread.join(CLOSE_S)
                if self._thread.is_alive():
                    self.warn("the input monitor leaves its record unfinished: the folder of the log takes nothing any more")
        self._owner = None

    def warn(self, message: str) -> None:
        """Give the one warning of this monitor; later ones are not shown."""
        if not self._is_warned:
            self._is_warned = True
            LOG.warning("%s", message)

    def _is_due(self, event: str) -> bool:
        """Return whether this one of its kind is written: they become rarer as a run goes on."""
        if self._owner is None:
            return False
        self._seen[event] += 1
        return event in ALWAYS_WRITTEN or is_kept(self._seen[event])

    def _put(self, write: Callable[[_Files], object]) -> None:
        if self._owner == os.getpid():  # None if nothing is written, another in a forked child
            self._queue.put(write)

    def _give_up(self, error: Exception) -> None:
        self._owner = None
        self._settled.set()
        self.warn(f"the input monitor cannot write its record, training goes on without: {type(error).__name__}: {error}")

    def _write_all(self, folder: Path, tensorboard: bool) -> None:
        """Do the work of the thread."""
        try:
            with contextlib.closing(_Files(folder, tensorboard)) as files:
                while (write := self._queue.get()) is not None:
                    write(files)
        except Exception as error:  # a full disk, a folder that is a file, a library that cannot be loaded
            self._give_up(error)


class _Files:
    """The files of one monitor; only the thread has them.

    They are not buffered: Python would wait for a buffer's lock when it ends, and the thread may hold that for ever.
    """

    def __init__(self, folder: Path, tensorboard: bool) -> None:
        folders = (folder if number == 1 else folder / f"monitor-{number}" for number in range(1, MOST_FOLDERS + 1))
        for self.folder in folders:
            steps = _locked_journal(self.folder)
            if steps is not None:
                break
        else:
            raise OSError(f"{MOST_FOLDERS} monitors write there already")
        self._steps, self._tensorboard = steps, tensorboard
        self._events: Any = None
        # A run that goes on in the folder of an earlier one adds to its record; that one may have been killed within a line.
        if os.fstat(self._steps).st_size:
            os.write(self._steps, b"\n")

    def add_lines(self, lines: list[str]) -> None:
        text = memoryview(("\n".join(lines) + "\n").encode())
        while len(text):  # a disk that is nearly full takes a part
            text = text[os.write(self._steps, text) :]

    def add_scalars(self, step: int, at_s: float, values: Mapping[str, float]) -> None:
        if not self._tensorboard:
            return
        from tensorboard.compat.proto import event_pb2, summary_pb2  # type: ignore[import-untyped]
        from tensorboard.summary.writer.record_writer import RecordWriter  # type: ignore[import-untyped]

        if self._events is None:
            name = f"events.out.tfevents.{int(at_s):010d}.{socket.gethostname()}.{os.getpid()}"
            self._events = RecordWriter((self.folder / name).open("ab", buffering=0))
            self._events.write(event_pb2.Event(wall_time=at_s, file_version="brain.Event:2").SerializeToString())
        summary = summary_pb2.Summary(value=[{"tag": tag, "simple_value": value} for tag, value in values.items()])
        self._events.write(event_pb2.Event(wall_time=at_s, step=step, summary=summary).SerializeToString())

    def close(self) -> None:
        # Closing alone would not unlock: processes that were forked meanwhile hold the file as well.
        with contextlib.suppress(OSError):
            fcntl.flock(self._steps, fcntl.LOCK_UN)
        with contextlib.suppress(OSError):
            os.close(self._steps)
            if self._events is not None:
                self._events.close()


def _locked_journal(folder: Path) -> int | None:
    """Open the journal in the folder, and lock it. Return None if another monitor writes there. No link is followed."""
    folder.mkdir(parents=True, exist_ok=True)
    file = os.open(folder / STEPS, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    except OSError:  # file systems of a network that lock nothing: then it is unknown, and mostly no one does
        pass
    return file

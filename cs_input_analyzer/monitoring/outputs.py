"""What a monitored run leaves behind: TensorBoard events, `performance.json`, the steps, lines on the console.

One thread does all that touches the file system, from making the folder on, as any of it may stall for hours. The training puts
blocks of lines on a queue of bounded length and counts the lines that found no room. An output that fails is said once on the log,
and is not tried again.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import math
import os
import queue
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cs_input_analyzer.monitoring.rates import Rates, is_kept
from cs_input_analyzer.monitoring.task import TrainingTask
from cs_input_analyzer.monitoring.verdict import Verdict, bottleneck_text

LOG = logging.getLogger("cs_input_analyzer.monitoring")
STEPS = "steps.jsonl"
PERFORMANCE = "performance.json"
SCALARS = ("local_samples_per_sec", "avg_samples_per_sec", "input_wait_ratio")
MOST_FOLDERS = 1000
MOST_QUEUED = 4_000
"""Blocks of lines that wait for the file system, some 10 MB; what comes when so many wait is dropped."""
ALWAYS_WRITTEN = ("start", "verdict", "end", "error")
SETTLE_S, CLOSE_S = 1.0, 5.0
"""How long the end of a pass, and of the run, wait for the file system."""

_folders_in_use: set[Path] = set()


def console_line(device: str, step: int, loss: float | None, rate_per_s: float | None, global_per_s: float | None) -> str:
    """`| Train Device=…, Step=…, Loss=…, Rate=… samples/sec, GlobalRate=… samples/sec`; what is not known is left out."""
    loss_text = "" if loss is None else f", Loss={loss:.5f}"
    known = [(name, rate) for name, rate in (("Rate", rate_per_s), ("GlobalRate", global_per_s)) if rate is not None]
    texts = [f", {name}={rate:{'.3g' if 0 < rate < 1 else '.2f'}} samples/sec" for name, rate in known]
    return f"| Train Device={device}, Step={step}{loss_text}{''.join(texts)}"


def performance(seen: Rates | None, verdict: Verdict, *, compile_s: float | None, expected_per_s: float | None) -> str:
    """`performance.json` with the keys that 1.x runs write. Time and samples since the executable was loaded."""
    samples = seen.samples if seen is not None else None
    content = {
        "compile_time": compile_s,
        "est_samples_per_sec": expected_per_s,
        "programming_time": None,
        "samples_per_sec": seen.global_per_s if seen is not None else None,
        "suspected_input_bottleneck": bottleneck_text(verdict),
        "total_samples": int(samples) if samples is not None and float(samples).is_integer() else samples,
        "total_time": seen.elapsed_s if seen is not None else None,
    }
    return json.dumps(content, indent=4) + "\n"


class Outputs:
    """The record of one monitor in one folder; without a folder, none.

    A second monitor that is given the same folder, of this process or of another, writes into `monitor-2` in it, and so on. A
    forked child of the process that made this writes nothing.

    Attributes:
        dropped: lines that found no room in the queue.
    """

    def __init__(self, log_dir: str | Path | None, task: TrainingTask, *, tensorboard: bool) -> None:
        self.dropped = 0
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
        try:
            folder = Path(log_dir).expanduser().absolute()
            folders = _folders(folder / task.name if task.workers > 1 else folder)
            arguments = (next(folders), folders, tensorboard)
            thread = threading.Thread(target=self._write_all, args=arguments, daemon=True, name="csia-monitor")
            thread.start()
            self._thread = thread
        except Exception as error:  # no home, no thread
            self._give_up(error)

    def line(self, event: str, **fields: Any) -> None:
        """One line of `steps.jsonl`, kept until the next `flush`."""
        if not self._is_due(event):
            return
        if event != "step":
            plain = {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in fields.items()}
            self._lines.append(json.dumps({"event": event, **plain}, default=str))
            return
        samples, wait_s = fields["samples"], fields["wait_s"]  # there are so many steps that their lines are formatted here
        held = "null" if samples is None else f"{samples:g}" if samples < 1e5 else repr(samples)
        wait = "null" if wait_s is None else f"{wait_s:.7g}"
        self._lines.append(
            f'{{"event": "step", "step": {fields["step"]}, "steps": {fields["steps"]}, "at_s": {fields["at_s"]:.6f}, '
            f'"samples": {held}, "wait_s": {wait}, "step_s": {fields["step_s"]:.7g}, "phase": "{fields["phase"]}"}}'
        )

    def scalars(self, step: int, values: Mapping[str, float | None]) -> None:
        """To TensorBoard, those that are known."""
        seen = {tag: value for tag, value in values.items() if value is not None and math.isfinite(value)}
        if seen and self._is_due("scalars"):
            at_s = time.time()
            self._put(lambda files: files.add_scalars(step, at_s, seen), 1)

    def performance(self, content: str) -> None:
        self._put(lambda files: _replace(files.folder / PERFORMANCE, content), 1)

    def flush(self) -> None:
        """Gives the lines to the thread."""
        lines, self._lines = self._lines, []
        if lines:
            self._put(lambda files: files.add_lines(lines), len(lines))

    def settle(self) -> None:
        """`flush`, and waits until all is written, but not for a file system that stalls."""
        self.flush()
        if self._owner == os.getpid() and self._settled.is_set():  # else it stalled the last time, and has not gone on since
            done = self._settled = threading.Event()
            self._put(lambda files: done.set(), 0)
            done.wait(SETTLE_S)

    def close(self) -> None:
        """Writes what is left. May be called by the garbage collector, in any thread."""
        self.flush()
        if self._thread is not None and self._thread.is_alive():
            self._queue.put(None)
            if threading.current_thread() is not self._thread:
                self._thread.join(CLOSE_S)
                if self._thread.is_alive():
                    self.warn("the input monitor leaves its record unfinished: the folder of the log takes nothing any more")
        self._owner = None

    def warn(self, message: str) -> None:
        """The one warning of this monitor; those after it are not shown."""
        if not self._is_warned:
            self._is_warned = True
            LOG.warning("%s", message)

    def _is_due(self, event: str) -> bool:
        """Whether this one of its kind is written: there are fewer, the longer a run goes on."""
        if self._owner is None:
            return False
        self._seen[event] += 1
        return event in ALWAYS_WRITTEN or is_kept(self._seen[event])

    def _put(self, write: Callable[[_Files], object], lines: int) -> None:
        if self._owner != os.getpid():  # None where nothing is written, another in a forked child
            return
        if self._queue.qsize() >= MOST_QUEUED:
            self.dropped += lines
            self.warn("the input monitor drops lines of its record, training goes on: the folder of the log is too slow for it")
            return
        self._queue.put(write)

    def _give_up(self, error: Exception) -> None:
        self._owner = None
        self._settled.set()
        self.warn(f"the input monitor cannot write its record, training goes on without: {type(error).__name__}: {error}")

    def _write_all(self, folder: Path, others: Iterator[Path], tensorboard: bool) -> None:
        """The thread."""
        files: _Files | None = None
        try:
            files = _Files(folder, others, tensorboard)
            while (write := self._queue.get()) is not None:
                write(files)
        except Exception as error:  # a full disk, a folder that is a file, a library that cannot be loaded
            self._give_up(error)
        finally:
            if files is not None:
                files.close()
            else:
                _folders_in_use.discard(folder)


class _Files:
    """The files of one monitor; only the thread has them.

    They are not buffered: Python would wait for a buffer's lock when it ends, and the thread may hold that for ever.
    """

    def __init__(self, folder: Path, others: Iterator[Path], tensorboard: bool) -> None:
        while (steps := _opened(folder)) is None:
            _folders_in_use.discard(folder)
            folder = next(others)
        self.folder, self._steps, self._tensorboard = folder, steps, tensorboard
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
        _folders_in_use.discard(self.folder)


def _folders(folder: Path) -> Iterator[Path]:
    """The folder itself, `monitor-2` in it, and so on: each that no other monitor of this process has, and from now on this one."""
    for number in range(1, MOST_FOLDERS + 1):
        chosen = folder if number == 1 else folder / f"monitor-{number}"
        if chosen not in _folders_in_use:
            _folders_in_use.add(chosen)
            yield chosen
    raise OSError(f"{MOST_FOLDERS} monitors write there already")


def _opened(folder: Path) -> int | None:
    """The journal in the folder, locked; None where another process writes there: a rank of a launch that we do not know, say."""
    folder.mkdir(parents=True, exist_ok=True)
    file = os.open(folder / STEPS, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    except OSError:  # file systems of a network that lock nothing: then it is not known, and mostly nobody does
        pass
    return file


def _replace(path: Path, text: str) -> None:
    """Whole or not at all, as another process may read it meanwhile; through no link that somebody has laid there."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.unlink(missing_ok=True)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666), "wb", buffering=0) as file:
        file.write(text.encode())
    os.replace(new, path)


def print_line(line: str) -> None:
    """To standard output at once; an output that is closed, or cannot show the text, is not the training's concern."""
    try:
        print(line, flush=True)
    except (OSError, ValueError):
        return

"""What a monitored run leaves behind: TensorBoard events, `performance.json`, the steps, lines on the console.

Nothing here may stop a training: an output that fails says so once, on the log, and is not tried again.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from cs_input_analyzer.monitoring.rates import Rates
from cs_input_analyzer.monitoring.task import TrainingTask
from cs_input_analyzer.monitoring.verdict import Verdict, bottleneck_text

LOG = logging.getLogger("cs_input_analyzer.monitoring")
STEPS = "steps.jsonl"
PERFORMANCE = "performance.json"
SCALARS = ("local_samples_per_sec", "avg_samples_per_sec", "input_wait_ratio")
MOST_STEP_LINES = 2_000_000
"""Some 200 MB of them; after that only what else happens is written."""
MOST_FOLDERS = 1000

_folders_in_use: set[Path] = set()


def console_line(device: str, step: int, loss: float | None, rate_per_s: float | None, global_per_s: float | None) -> str:
    """`| Train Device=…, Step=…, Loss=…, Rate=… samples/sec, GlobalRate=… samples/sec`; what is not known is left out."""
    parts = [f"Device={device}", f"Step={step}"]
    if loss is not None:
        parts.append(f"Loss={loss:.5f}")
    parts += [
        f"{name}={_rate(rate)} samples/sec"
        for name, rate in (("Rate", rate_per_s), ("GlobalRate", global_per_s))
        if rate is not None
    ]
    return f"| Train {', '.join(parts)}"


def _rate(per_s: float) -> str:
    return f"{per_s:.3g}" if 0 < per_s < 1 else f"{per_s:.2f}"


def performance(seen: Rates | None, verdict: Verdict, *, compile_s: float | None, expected_per_s: float | None) -> dict[str, Any]:
    """The keys of `performance.json` as 1.x runs write them. Time and samples since the executable was loaded."""
    samples, elapsed_s = (seen.samples, seen.elapsed_s) if seen is not None else (None, None)
    return {
        "compile_time": compile_s,
        "est_samples_per_sec": expected_per_s,
        "programming_time": None,
        "samples_per_sec": seen.global_per_s if seen is not None else None,
        "suspected_input_bottleneck": bottleneck_text(verdict),
        "total_samples": int(samples) if samples is not None and float(samples).is_integer() else samples,
        "total_time": elapsed_s,
    }


class Outputs:
    """The files of one monitor in one folder; without a folder, none.

    A second monitor that is given the same folder, of this process or of another, writes into `monitor-2` in it, and so on.
    """

    def __init__(self, log_dir: str | Path | None, task: TrainingTask, *, tensorboard: bool) -> None:
        self.folder: Path | None = None
        self._is_warned = False
        self._lines: list[str] = []
        self._step_lines = 0
        self._file: IO[str] | None = None
        self._events: Any = None
        self._owner_pid = os.getpid()
        if log_dir is not None:
            self._try("its folder", lambda: self._open(Path(log_dir), task, tensorboard))

    def line(self, event: str, **fields: Any) -> None:
        """One line of `steps.jsonl`, kept until the next `flush`. That of a step is formatted here, as there are so many."""
        if self._file is None:
            return
        if event != "step":
            fields = {key: _plain(value) for key, value in fields.items()}
            self._lines.append(json.dumps({"event": event, **fields}, default=str))
        elif self._step_lines < MOST_STEP_LINES:
            self._step_lines += 1
            samples, wait_s = fields["samples"], fields["wait_s"]
            held = "null" if samples is None else f"{samples:g}" if samples < 1e5 else repr(samples)
            wait = "null" if wait_s is None else f"{wait_s:.7g}"
            self._lines.append(
                f'{{"event": "step", "step": {fields["step"]}, "steps": {fields["steps"]}, "at_s": {fields["at_s"]:.6f}, '
                f'"samples": {held}, "wait_s": {wait}, "step_s": {fields["step_s"]:.7g}, "phase": "{fields["phase"]}"}}'
            )

    @property
    def pending(self) -> int:
        """Lines that wait for `flush`."""
        return len(self._lines)

    def flush(self) -> None:
        if self._lines and self._file is not None and os.getpid() == self._owner_pid:
            lines, self._lines = self._lines, []
            self._try(STEPS, lambda: self._write(lines))

    def flush_all(self) -> None:
        """`flush`, and TensorBoard's events too."""
        self.flush()
        if self._events is not None and os.getpid() == self._owner_pid:
            self._try("TensorBoard events", self._events.flush)

    def scalars(self, step: int, values: Mapping[str, float | None]) -> None:
        """To TensorBoard, those that are known."""
        seen = {tag: value for tag, value in values.items() if value is not None and math.isfinite(value)}
        if self._events is not None and seen:
            self._try("TensorBoard events", lambda: self._add(step, seen))

    def performance(self, content: Mapping[str, Any]) -> None:
        if self.folder is None or os.getpid() != self._owner_pid:
            return
        path = self.folder / PERFORMANCE
        self._try(PERFORMANCE, lambda: _replace(path, json.dumps(content, indent=4, sort_keys=True) + "\n"))

    def close(self) -> None:
        """Writes what is left. A forked child of the process that opened them leaves the files to it."""
        if os.getpid() != self._owner_pid:
            self.folder, self._file, self._events = None, None, None
            return
        self.flush()
        if self._file is not None:
            _unlock(self._file)
        for close in (self._events, self._file):
            if close is not None:
                self._try("its files", close.close)
        if self.folder is not None:
            _folders_in_use.discard(self.folder)
        self.folder, self._file, self._events = None, None, None

    def warn(self, message: str) -> None:
        """The one warning of this monitor; those after it are not shown."""
        if not self._is_warned:
            self._is_warned = True
            LOG.warning("%s", message)

    def _open(self, log_dir: Path, task: TrainingTask, tensorboard: bool) -> None:
        folder = log_dir.expanduser().absolute()
        if task.workers > 1:
            folder = folder / task.name
        self.folder, self._file = _free_folder(folder)
        _folders_in_use.add(self.folder)
        # A run that goes on in the folder of an earlier one adds to its record; that one may have been killed within a line.
        if self._file.tell() > 0:
            self._file.write("\n")
        if tensorboard:
            import tensorflow as tf

            with tf.Graph().as_default():  # there this writer touches no device: a monitor must not be what initialises a GPU
                self._events = tf.compat.v1.summary.FileWriter(str(self.folder))

    def _add(self, step: int, values: Mapping[str, float]) -> None:
        import tensorflow as tf

        entries = [tf.compat.v1.Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        self._events.add_summary(tf.compat.v1.Summary(value=entries), step)

    def _write(self, lines: list[str]) -> None:
        assert self._file is not None
        self._file.write("\n".join(lines) + "\n")
        self._file.flush()

    def _try(self, what: str, action: Callable[[], object]) -> None:
        try:
            action()
        except Exception as error:  # a full disk, a folder that is a file, a library that cannot be loaded
            self._file = self._events = None
            if self.folder is not None:
                _folders_in_use.discard(self.folder)
            self.folder = None
            self.warn(f"the input monitor cannot write {what}, training goes on without: {type(error).__name__}: {error}")


def _free_folder(folder: Path) -> tuple[Path, IO[str]]:
    """The folder itself, or the first `monitor-N` in it that no other monitor writes into; and its journal, opened and locked."""
    for taken in range(1, MOST_FOLDERS + 1):
        chosen = folder if taken == 1 else folder / f"monitor-{taken}"
        if chosen in _folders_in_use:
            continue
        chosen.mkdir(parents=True, exist_ok=True)
        file = open(chosen / STEPS, "a", encoding="utf-8")  # noqa: SIM115 - lives as long as the monitor
        if _is_ours(file):
            return chosen, file
        file.close()
    raise OSError(f"{MOST_FOLDERS} monitors write there already")


def _is_ours(file: IO[str]) -> bool:
    """Whether no other process writes there: ranks of a launch that we do not know, say, each of which takes itself for alone."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # file systems of a network that lock nothing: then it is not known, and mostly nobody does
        return True
    return True


def _unlock(file: IO[str]) -> None:
    """Closing alone would not: processes that were forked meanwhile hold the file as well."""
    with contextlib.suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_UN)


def _replace(path: Path, text: str) -> None:
    """Whole or not at all: another process may read it while training goes on."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_text(text, encoding="utf-8")
    os.replace(new, path)


def _plain(value: Any) -> Any:
    """What JSON can say: NaN and infinity are no numbers there."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_line(line: str) -> None:
    """To standard output at once; an output that is closed, or cannot show the text, is not the training's concern."""
    try:
        print(line, flush=True)
    except (OSError, ValueError):
        return

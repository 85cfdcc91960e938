"""How a run is watched: one frozen record, whose fields are the keyword arguments that all monitors take."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cs_input_analyzer.errors import UsageError, typed
from cs_input_analyzer.gone import gone_message

LOG = logging.getLogger("cs_input_analyzer.runs")


# Also as a Path, which takes one of its slashes.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def print_line(line: str) -> None:
    """Print a line at once. An output that is closed, or cannot show the text, is not the training's concern."""
    try:
        print(line, flush=True)
    except (OSError, ValueError):
        return


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a run is watched.

    Attributes:
        source: where the steps are seen.
        batch_size: samples in a full batch; None: the size of each batch is read, if it has one.
        log_dir: local folder for TensorBoard events and `steps.jsonl`; several workers write into subfolders. None: none.
        log_every: training steps between two lines if the user's code logs none itself; 0: never.
        device: for the lines; None: `GPU` if TensorFlow is loaded and sees one, else `CPU`.
        console: called with each line; None: silent.
        clock: seconds; any clock that mostly runs forwards.
        environ: where the place of this process in its launch is read; None: the process's environment.

    Raises:
        UsageError: a value makes no sense.
    """

    source: Literal["iterator", "keras"]
    batch_size: int | None = None
    log_dir: str | Path | None = None
    log_every: int = 100
    device: str | None = None
    console: Callable[[str], object] | None = print_line
    tensorboard: bool = True
    clock: Callable[[], float] = time.perf_counter
    environ: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        hints = {"batch_size": int | None, "log_dir": str | None, "log_every": int}
        for name, hint in hints.items():
            typed(name, getattr(self, name), hint)
        if self.log_dir is not None and _URL.match(str(self.log_dir)):
            raise UsageError(f"log_dir={str(self.log_dir)!r}: a URL; give a local folder, and copy the record later")
        if self.batch_size is not None and self.batch_size < 1:
            raise UsageError(f"batch_size {self.batch_size}: how many samples a full batch holds, 1 or more")
        if self.log_every < 0:
            raise UsageError(f"log_every {self.log_every}: a number of steps, or 0 for never")


def settings_of(**options: Any) -> Settings:
    """Return the settings of a monitor's keyword arguments. Raise UsageError for one that is gone."""
    for message in filter(None, (gone_message("option", name) for name in options)):
        raise UsageError(message)
    return Settings(**options)

"""How a run is watched: one frozen record, whose fields are the keyword arguments that all monitors take."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cs_input_analyzer.errors import UsageError, typed
from cs_input_analyzer.monitoring.outputs import print_line
from cs_input_analyzer.monitoring.rates import SMOOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a run is watched.

    Attributes:
        source: where the steps are seen.
        batch_size: samples in a full batch; None: the size of each batch is read, where it has one.
        log_dir: folder for TensorBoard events, `performance.json` and `steps.jsonl`; several workers write into subfolders. None:
            nothing is written.
        log_every: training steps between two lines where the user's code logs none itself; 0: never.
        smoothing: weight of the Rate before in the new one.
        device: for the lines; None: `GPU` where TensorFlow is loaded and sees one, else `CPU`.
        console: called with each line; None: silent.
        analysis: a saved run of `analyze` (a path, or the record), from whose predictions advice is taken.
        est_samples_per_sec: what the accelerator is expected to take; by default the demand in `analysis`.
        clock: seconds; any clock that mostly runs forwards.
        environ: where the place of this process in its launch is read; None: the process's environment.

    Raises:
        UsageError: a value makes no sense.
    """

    source: Literal["iterator", "keras"]
    batch_size: int | None = None
    log_dir: str | Path | None = None
    log_every: int = 100
    smoothing: float = SMOOTHING
    device: str | None = None
    console: Callable[[str], object] | None = print_line
    tensorboard: bool = True
    analysis: Any = None
    est_samples_per_sec: float | None = None
    clock: Callable[[], float] = time.perf_counter
    environ: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        hints = {"batch_size": int | None, "log_dir": str | None, "log_every": int, "est_samples_per_sec": float | None}
        for name, hint in {**hints, "smoothing": float}.items():
            typed(name, getattr(self, name), hint)
        if self.est_samples_per_sec is not None and not 0 < self.est_samples_per_sec < math.inf:
            raise UsageError(f"est_samples_per_sec {self.est_samples_per_sec}: samples per second, more than 0")
        if self.batch_size is not None and self.batch_size < 1:
            raise UsageError(f"batch_size {self.batch_size}: how many samples a full batch holds, 1 or more")
        if not 0 <= self.smoothing < 1:
            raise UsageError(f"smoothing {self.smoothing}: 0 or more and below 1 (0.4 is usual)")
        if self.log_every < 0:
            raise UsageError(f"log_every {self.log_every}: a number of steps, or 0 for never")

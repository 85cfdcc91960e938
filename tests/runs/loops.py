"""Training loops that run on an invented clock: a host that waits for input and dispatches, and an accelerator behind it.

The accelerator starts a batch when it has it and is done with the one before; so how long it truly stood still is known.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cs_input_analyzer as csia
from cs_input_analyzer.runs.outputs import STEPS

MS = 1e-3


@dataclass(slots=True)
class FakeClock:
    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@dataclass(slots=True)
class Batch:
    """All that is looked at."""

    shape: tuple[int, ...] = (8,)


@dataclass(slots=True)
class Loop:
    """`waits_s[i]` is what `next()` takes for batch i, `compute_s[i]` the accelerator's time; dispatching takes `dispatch_s`.

    `free_at_s`: when the accelerator will be done with all that it was given. `starved_s`: time it stood still, ready, while the
    host was waiting for input.
    """

    clock: FakeClock
    waits_s: Sequence[float]
    compute_s: Sequence[float]
    dispatch_s: float = 0.0
    size: int = 8
    free_at_s: float = 0.0
    starved_s: float = 0.0
    given: int = 0

    def __iter__(self) -> Iterator[Batch]:
        for wait in self.waits_s:
            asked = self.clock.now_s
            self.clock.sleep(wait)
            self.starved_s += max(0.0, self.clock.now_s - max(asked, self.free_at_s))
            yield Batch((self.size,))

    def train(self) -> None:
        """Gives the batch at hand to the accelerator."""
        self.free_at_s = max(self.free_at_s, self.clock.now_s) + self.compute_s[self.given]
        self.given += 1
        self.clock.sleep(self.dispatch_s)

    def synchronise(self) -> None:
        self.clock.now_s = max(self.clock.now_s, self.free_at_s)


def events(folder: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """Lines of the journal in a folder."""
    lines = [json.loads(line) for line in (folder / STEPS).read_text(encoding="utf-8").splitlines() if line]
    return [line for line in lines if kind is None or line["event"] == kind]


def loop_of(wait: float = 5 * MS, compute: float = 10 * MS, batches: int = 60, **more: Any) -> Loop:
    return Loop(clock=FakeClock(), waits_s=[wait] * batches, compute_s=[compute] * batches, **more)


def monitor_of(loop: Loop, **options: Any) -> csia.InputMonitor[Batch]:
    """It prints into its `lines`."""
    lines: list[str] = []
    defaults: dict[str, Any] = {"console": lines.append, "clock": loop.clock, "environ": {}, "device": "test", "tensorboard": False}
    monitor = csia.InputMonitor(loop, loop.size, **(defaults | options))
    monitor.lines = lines  # type: ignore[attr-defined]
    return monitor


def train(loop: Loop, monitor: csia.InputMonitor[Batch], *, log_every: int = 0, sync_every: int = 0) -> csia.InputMonitor[Batch]:
    for step, _ in enumerate(monitor, start=1):
        loop.train()
        if log_every and step % log_every == 0:
            loop.synchronise()
            monitor.log(loss=1 / step)
        elif sync_every and step % sync_every == 0:
            loop.synchronise()
            monitor.sync()
    return monitor

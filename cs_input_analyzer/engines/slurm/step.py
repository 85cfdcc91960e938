"""Run one job step: srun as a child process, and the messages of its agents."""

from __future__ import annotations

import collections
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from cs_input_analyzer.engines.slurm.jobs import cause_in, srun_complaint
from cs_input_analyzer.errors import LaunchError
from cs_input_analyzer.host.cluster.slurm_commands import our_environment

LOOK_S = 0.2
# An agent sends a message every second. After this silence its node or the network is gone. The second limit holds before the first
# message, while Slurm makes the step.
SILENCE_S = 15.0
BEGIN_PATIENCE_S = 60.0
# Seconds from the end of their input to the end of the tasks; then from each signal to the next.
LEAVE_S = 5.0
SIGNAL_S = 3.0
ERROR_LINES = 200


@dataclass(slots=True)
class Task:
    """Hold the state of one worker, as its agent reports it. `lost`: why no more messages are expected; else empty."""

    rank: int
    node: str = ""
    here: dict[str, Any] | None = None
    heard: set[str] = field(default_factory=set)
    ended: dict[str, Any] | None = None
    lost: str = ""
    last_word_s: float = 0.0
    imported_s: float | None = None


class JobStep:
    """Run a step. It starts at once; `wait` for its tasks, `tell` them what to do, and `close` it.

    Times are of a monotonic clock.
    """

    def __init__(self, words: Sequence[str], tasks: int) -> None:
        self.tasks = tuple(Task(rank=rank) for rank in range(tasks))
        self.began_s = time.monotonic()
        self._changed = threading.Condition()
        self._errors: collections.deque[bytes] = collections.deque(maxlen=ERROR_LINES)
        try:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=our_environment(os.environ),
                start_new_session=True,  # Ctrl-C is the launcher's to handle
            )
        except OSError as error:
            raise LaunchError(f"srun cannot be run: {error.strerror or error}") from error
        readers = ((self._process.stdout, self._take), (self._process.stderr, self._errors.append))
        self._readers = [threading.Thread(target=self._read, args=reader, daemon=True) for reader in readers]
        for reader in self._readers:
            reader.start()

    # --- messages from the tasks ---

    def _read(self, stream: IO[bytes], take: Callable[[bytes], None]) -> None:
        for line in stream:
            take(line)
        with self._changed:
            self._changed.notify_all()

    def _take(self, line: bytes) -> None:
        try:
            said = json.loads(line)
            task, what = self.tasks[said.pop("rank")], said.pop("say")
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            return  # not an agent's: a line that was cut when its task died
        with self._changed:
            task.last_word_s = time.monotonic()
            if what == "here":
                task.here, task.node = said, said["node"]
                task.lost = task.lost or said["problem"]
            elif what == "heard":
                task.heard.update(said["kinds"])
                if "imported" in said["kinds"]:
                    task.imported_s = task.last_word_s
            elif what == "ended":
                task.ended = said
            self._changed.notify_all()

    @property
    def complaint(self) -> str:
        """Return why srun failed, in our words if the cause is known, else in its own. Return an empty text if it said nothing."""
        lines = [line.decode(errors="replace").rstrip() for line in self._errors]
        return cause_in(lines) or srun_complaint(lines)

    def _with_complaint(self, problem: str) -> str:
        complaint = self.complaint
        return f"{problem}: {complaint}" if complaint else problem

    @property
    def is_over(self) -> bool:
        """Return whether srun has ended and all its output was read."""
        return self._process.poll() is not None and not self._readers[0].is_alive()

    @property
    def number(self) -> str | None:
        """Return Slurm's number of the step in its job; None until a task has reported it."""
        return next((task.here["step"] for task in self.tasks if task.here and task.here.get("step")), None)

    # --- waiting ---

    def wait(self, is_ready: Callable[[Task], bool], deadline_s: float, tasks: Sequence[Task] | None = None) -> tuple[Task, ...]:
        """Wait until each task is ready or lost. Return those that are neither at the deadline. Mark silent tasks as lost."""
        watched = self.tasks if tasks is None else tasks
        with self._changed:
            while late := tuple(task for task in watched if not is_ready(task) and not task.lost):
                now_s = time.monotonic()
                if now_s > deadline_s:
                    return late
                if self.is_over:  # the unfinished tasks are lost
                    for task in (task for task in self.tasks if task.ended is None and not task.lost):
                        task.lost = f"its step ended: {self.complaint or 'srun gave no reason'}"
                else:
                    self._lose_silent(now_s)
                    self._changed.wait(min(LOOK_S, max(0.01, deadline_s - now_s)))
        return ()

    def _lose_silent(self, now_s: float) -> None:
        for task in self.tasks:
            if task.lost or task.ended is not None:
                continue
            if task.here is None:
                if now_s - self.began_s > BEGIN_PATIENCE_S:
                    task.lost = self._with_complaint(f"Slurm did not start the worker within {BEGIN_PATIENCE_S:g} s")
            elif now_s - task.last_word_s > SILENCE_S:
                task.lost = self._with_complaint(f"node {task.node} stopped answering")

    # --- messages to the tasks ---

    def tell(self, do: str, **fields: object) -> None:
        """Send a message to all tasks. `wait` notices a step that is gone already."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **fields}).encode() + b"\n")
            self._process.stdin.flush()
        except (BrokenPipeError, OSError, ValueError):
            return

    def close(self) -> None:
        """End srun and its tasks: by the end of their input, else by signals. Nothing of the step is left if Slurm obeys."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except OSError:
            pass
        has_lost = any(task.lost for task in self.tasks)
        for patience_s, number in ((LEAVE_S, signal.SIGTERM), (SIGNAL_S, signal.SIGKILL), (SIGNAL_S, None)):
            try:
                self._process.wait(min(patience_s, SIGNAL_S) if has_lost else patience_s)
                break
            except subprocess.TimeoutExpired:
                if number is not None:
                    self._process.send_signal(number)
        for reader in self._readers:
            reader.join(timeout=1.0)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None and not any(reader.is_alive() for reader in self._readers):
                stream.close()

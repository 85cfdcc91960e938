"""A control group whose memory is limited, for a command and all that it starts: version 2 of the kernel's interface, or 1."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from cs_input_analyzer.host.machine import CGROUP, OWN_GROUPS
from tests.waiting import comes

PREFIX = "csia-test-"
# Room for the command, the process that has imported TensorFlow, and two workers; little enough for any host.
GROUP_BYTES = 2 * 2**30
# What is left of the memory when another program begins to take all.
SPARE_BYTES = 64 * 2**20
# Takes the memory of its group until the kernel has ended others for it. The pages of a file in memory that is not mapped are no
# process's, so the kernel does not choose this one.
GREEDY = """
import os, sys
from pathlib import Path
group, file = Path(sys.argv[1]), os.memfd_create("greedy")
counts = [group / "memory.events", group / "memory.oom_control"]
def kills():
    lines = [line.split() for file in counts if file.exists() for line in file.read_text().splitlines()]
    return max([int(words[1]) for words in lines if words[0] == "oom_kill"], default=0)
(group / "cgroup.procs").write_text(str(os.getpid()))
before = kills()
print("begun", flush=True)
while kills() == before:
    os.write(file, bytes(2**20))
"""


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """One below that of the tests."""

    folder: Path

    @property
    def within(self) -> tuple[str, ...]:
        """A command that enters the group and becomes the one that follows it."""
        return ("sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', str(self.folder))

    @property
    def used_bytes(self) -> int:
        return max(
            int(file.read_text()) for name in ("memory.current", "memory.usage_in_bytes") if (file := self.folder / name).exists()
        )

    @property
    def kills(self) -> int:
        """Processes that the kernel has ended for the memory of the group."""
        files = [self.folder / name for name in ("memory.events", "memory.oom_control")]
        lines = [line.split() for file in files if file.exists() for line in file.read_text().splitlines()]
        return max((int(words[1]) for words in lines if words[0] == "oom_kill"), default=0)

    def limit(self, size_bytes: int) -> None:
        new = self.folder / "memory.max"
        (new if new.exists() else self.folder / "memory.limit_in_bytes").write_text(str(size_bytes))

    def fill(self) -> None:
        """Another program of the group takes all of its memory until the kernel ends something."""
        before = self.kills
        greedy = subprocess.Popen([sys.executable, "-c", GREEDY, str(self.folder)], stdout=subprocess.PIPE)
        assert greedy.stdout is not None
        assert greedy.stdout.readline() == b"begun\n"
        self.limit(self.used_bytes + SPARE_BYTES)
        try:
            assert comes(lambda: self.kills > before)
        finally:
            self.limit(GROUP_BYTES)
            greedy.kill()
            greedy.wait()
            greedy.stdout.close()


def _parents() -> Iterator[Path]:
    """Where a group may be made."""
    for line in OWN_GROUPS.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield CGROUP / path.lstrip("/")
            yield CGROUP
        elif controllers == "memory":
            yield CGROUP / "memory" / path.lstrip("/")
            yield CGROUP / "memory"


@contextmanager
def memory_group() -> Iterator[MemoryGroup]:
    """A new group; the test is skipped, with the reason, where none can be had."""
    why = "no control group of memory"
    for parent in _parents():
        made = MemoryGroup(parent / f"{PREFIX}{uuid.uuid4().hex}")
        try:
            made.folder.mkdir()
            made.limit(GROUP_BYTES)
        except OSError as error:
            why = f"{error.filename}: {error.strerror}"
            with suppress(OSError):
                made.folder.rmdir()
            continue
        try:
            yield made
        finally:
            for pid in (made.folder / "cgroup.procs").read_text().split():
                with suppress(psutil.Error):
                    psutil.Process(int(pid)).kill()
            deadline_s = time.monotonic() + 30
            while made.folder.exists() and time.monotonic() < deadline_s:  # the kernel lets it go once its processes are gone
                with suppress(OSError):
                    made.folder.rmdir()
                time.sleep(0.05)
        return
    pytest.skip(f"no control group with a limit can be made here: {why}")

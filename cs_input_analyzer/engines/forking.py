"""The parent's side of the fork server: starts it, requests workers, receives their exit statuses."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from cs_input_analyzer.engines.bootstrap import command, environment
from cs_input_analyzer.errors import LaunchError
from cs_input_analyzer.worker.fork_server import MESSAGE_BYTES
from cs_input_analyzer.worker.isolation import Wanted

FORK_PATIENCE_S = 10.0
# What makes libraries start threads when they are loaded, unless it says 1.
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewWorker:
    """A worker to start.

    Attributes:
        folder: where it keeps its journal.
        cpus: those that it may run on.
        isolated: the private files of its launch; None if it runs on the user's own.
        is_script: whether it runs a user's script.
        variables: what its environment has beside ours.
    """

    folder: Path
    cpus: tuple[int, ...]
    isolated: Wanted | None = None
    is_script: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)


class ForkedProcess:
    """A worker that the server forked, with as much of `subprocess.Popen` as a launcher needs."""

    def __init__(self, server: ForkServer, pid: int, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        self.pid, self.stdin, self.stdout = pid, stdin, stdout
        self.returncode: int | None = None
        self._server = server

    def poll(self, timeout_s: float = 0.0) -> int | None:
        if self.returncode is None:
            self.returncode = self._server.returncode_of(self.pid, timeout_s)
        return self.returncode

    def wait(self) -> int:
        while (returncode := self.poll(1.0)) is None:
            pass
        return returncode


class ForkServer:
    """One process with TensorFlow imported, for the command with this private folder. It cannot be used where it did not come up
    single-threaded."""

    def __init__(self, scratch: Path) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        held = [name for name in _THREADS if name not in os.environ]
        try:
            self._process = subprocess.Popen(
                command("cs_input_analyzer.worker.fork_server", str(theirs.fileno()), str(os.getpid()), ",".join(held)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment(scratch) | dict.fromkeys(held, "1"),
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise LaunchError(f"a worker process could not be started: {error}") from error
        finally:
            theirs.close()
        self._socket = ours
        self._ended: dict[int, int] = {}
        self._forked: dict[str, int] = {}
        self._is_ready: bool | None = None

    def is_ready(self) -> bool | None:
        """Return whether it forks workers; None while it still imports."""
        self.receive()
        return self._is_ready

    def is_usable(self, start_timeout_s: float) -> bool:
        """Wait until the import is done. Raise LaunchError if it takes longer than this."""
        deadline_s = time.monotonic() + start_timeout_s
        while self._is_ready is None:
            if time.monotonic() > deadline_s:
                raise LaunchError(f"TensorFlow was not imported within {start_timeout_s:g} s; --start-timeout gives it more")
            self.receive(timeout_s=0.5)
        return self._is_ready

    def returncode_of(self, pid: int, timeout_s: float) -> int | None:
        """Of a worker that has ended; once, as its number may then be another's."""
        self.receive(timeout_s)
        if self._is_ready is False:  # its workers died with it, those too whose end it could not report any more
            self._ended.setdefault(pid, -signal.SIGKILL)
        return self._ended.pop(pid, None)

    def start(self, worker: NewWorker) -> ForkedProcess:
        """Fork a worker. Raises LaunchError when the server is gone."""
        to_worker, from_worker = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
        request = json.dumps(asdict(worker), default=str).encode()
        try:
            socket.send_fds(self._socket, [request], [to_worker[0], from_worker[1]])
            pid = self._pid_of(str(worker.folder))
        except (OSError, LaunchError) as error:
            os.close(to_worker[1])
            os.close(from_worker[0])
            raise LaunchError(f"a worker process could not be forked: {error}") from error
        finally:
            os.close(to_worker[0])
            os.close(from_worker[1])
        stdin, stdout = os.fdopen(to_worker[1], "wb", buffering=0), os.fdopen(from_worker[0], "rb", buffering=0)
        return ForkedProcess(self, pid, stdin, stdout)

    def _pid_of(self, folder: str) -> int:
        deadline_s = time.monotonic() + FORK_PATIENCE_S
        while folder not in self._forked:
            if self._is_ready is False or time.monotonic() > deadline_s:
                raise LaunchError("the process that forks workers does not answer")
            self.receive(timeout_s=0.5)
        return self._forked.pop(folder)

    def receive(self, timeout_s: float = 0.0) -> None:
        """Handles the messages of the server; waits at most `timeout_s` for the first one."""
        while self._is_ready is not False and select.select([self._socket], [], [], timeout_s)[0]:
            timeout_s = 0.0
            try:
                message = self._socket.recv(MESSAGE_BYTES)
            except OSError:
                message = b""
            self._take(json.loads(message) if message else None)

    def _take(self, message: dict[str, Any] | None) -> None:
        if message is None:  # it is gone, and its workers with it: they die with their parent
            self._is_ready = False
        elif "ready" in message:
            self._is_ready = message["ready"]
        elif "returncode" in message:
            self._ended[message["pid"]] = message["returncode"]
        else:
            self._forked[message["folder"]] = message["pid"]

    def close(self) -> None:
        """Ends the server, and with it every worker that still runs."""
        self._socket.close()
        self._is_ready = False
        self._process.kill()
        self._process.wait()

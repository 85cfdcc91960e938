"""Start the workers of one machine. Fork them from one import of TensorFlow if possible, else start each by itself."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from cs_input_analyzer.engines.bootstrap import command, environment, started
from cs_input_analyzer.errors import LaunchError
from cs_input_analyzer.worker.fork_server import MESSAGE_BYTES
from cs_input_analyzer.worker.isolation import Wanted

FORK_PATIENCE_S = 10.0
# Variables that let libraries start threads when they are loaded, unless they are 1.
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerKind:
    """Hold the settings that all workers of a command share.

    Attributes:
        forks: whether one process imports TensorFlow and forks them; else each imports it.
        isolates: whether the workers of a launch have private copies of all files; else they write to the user's own.
        has_network: whether they have the real network.
    """

    forks: bool = True
    isolates: bool = True
    has_network: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class NewWorker:
    """Describe a worker to start.

    Attributes:
        folder: where it keeps its journal.
        cpus: the CPUs that it may run on.
        isolated: the private files of its launch; None if it runs on the user's own.
        variables: added to our environment.
    """

    folder: Path
    cpus: tuple[int, ...]
    isolated: Wanted | None = None
    variables: Mapping[str, str] = field(default_factory=dict)


class ForkedProcess:
    """Control a forked worker, with the part of the interface of `subprocess.Popen` that a launcher needs."""

    def __init__(self, starter: WorkerStarter, pid: int, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        self.pid, self.stdin, self.stdout = pid, stdin, stdout
        self.returncode: int | None = None
        self._starter = starter

    def poll(self, timeout_s: float = 0.0) -> int | None:
        """Return the exit status; None if the process still runs after `timeout_s`."""
        if self.returncode is None:
            self.returncode = self._starter.returncode_of(self.pid, timeout_s)
        return self.returncode

    def wait(self) -> int:
        """Wait for the end. Return the exit status."""
        while (returncode := self.poll(1.0)) is None:
            pass
        return returncode


class WorkerStarter:
    """Start workers for the command with the private folder `scratch`. The first call of a method imports TensorFlow, in a server.

    `forks` is None until the import has shown whether the server can fork workers. It is False if the server failed, left threads,
    or has ended since.
    """

    def __init__(self, scratch: Path, kind: WorkerKind) -> None:
        self._scratch, self._kind = scratch, kind
        self.forks: bool | None = None if kind.forks else False
        self._server: subprocess.Popen[bytes] | None = None
        self._ended: dict[int, int] = {}
        self._forked: dict[str, int] = {}

    def is_ready(self) -> bool:
        """Return whether a worker can be started without waiting for the import. Do not wait."""
        self._receive()
        return self.forks is not None

    def wait(self, start_timeout_s: float) -> None:
        """Wait for the import. Raise LaunchError if it takes longer than this."""
        deadline_s = time.monotonic() + start_timeout_s
        while self.forks is None:
            if time.monotonic() > deadline_s:
                raise LaunchError(f"TensorFlow was not imported within {start_timeout_s:g} s; --start-timeout allows more")
            self._receive(timeout_s=0.5)

    def start(
        self, folder: Path, cpus: Sequence[int], place: Path | None, variables: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes] | ForkedProcess:
        """Start a worker that keeps its journal in `folder`, inside the folder of its launch.

        Args:
            place: where the private files of the launch are kept; None for all workers of a launch but its first on this machine.
            variables: added to our environment.
        """
        kind = self._kind
        worker = NewWorker(
            folder=folder,
            cpus=tuple(cpus),
            isolated=Wanted(launch=folder.parent, place=place, has_network=kind.has_network) if kind.isolates else None,
            variables=variables or {},
        )
        if self.forks:
            # the server was killed or is stuck: start this worker without it, and leave the running ones alone
            with suppress(OSError):
                return self._fork(worker)
        return fresh_process(worker, self._scratch)

    def _fork(self, worker: NewWorker) -> ForkedProcess:
        """Have the server fork a worker. Raise OSError if it does not."""
        to_worker, from_worker = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
        request = json.dumps(asdict(worker), default=str).encode()
        deadline_s = time.monotonic() + FORK_PATIENCE_S
        try:
            socket.send_fds(self._socket, [request], [to_worker[0], from_worker[1]])
            while str(worker.folder) not in self._forked:
                if self.forks is False or time.monotonic() > deadline_s:
                    raise OSError("the process that forks workers does not answer")
                self._receive(timeout_s=0.5)
        except OSError:
            os.close(to_worker[1])
            os.close(from_worker[0])
            raise
        finally:
            os.close(to_worker[0])
            os.close(from_worker[1])
        stdin, stdout = os.fdopen(to_worker[1], "wb", buffering=0), os.fdopen(from_worker[0], "rb", buffering=0)
        return ForkedProcess(self, self._forked.pop(str(worker.folder)), stdin, stdout)

    def returncode_of(self, pid: int, timeout_s: float) -> int | None:
        """Return the exit status of a forked worker; None if it runs. Return it only once: the pid may be reused."""
        self._receive(timeout_s)
        if self.forks is False:  # its workers died with it, also those whose end it could not report
            self._ended.setdefault(pid, -signal.SIGKILL)
        return self._ended.pop(pid, None)

    def _receive(self, timeout_s: float = 0.0) -> None:
        """Handle the messages of the server. Wait at most `timeout_s` for the first one."""
        if self.forks is None and self._server is None:
            self._start_server()
        while self.forks is not False and select.select([self._socket], [], [], timeout_s)[0]:
            timeout_s = 0.0
            try:
                message = self._socket.recv(MESSAGE_BYTES)
            except OSError:
                message = b""
            self._take(json.loads(message) if message else None)

    def _take(self, message: dict[str, Any] | None) -> None:
        if message is None:  # the server is gone, and its workers died with it
            self.forks = False
        elif "ready" in message:
            self.forks = message["ready"]
        elif "returncode" in message:
            self._ended[message["pid"]] = message["returncode"]
        else:
            self._forked[message["folder"]] = message["pid"]

    def _start_server(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        held = [name for name in _THREADS if name not in os.environ]
        line = command("cs_input_analyzer.worker.fork_server", str(theirs.fileno()), str(os.getpid()), ",".join(held))
        try:
            self._server = subprocess.Popen(
                line,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment(self._scratch) | dict.fromkeys(held, "1"),
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        except OSError as error:
            self._socket.close()
            raise LaunchError(f"a worker process could not be started: {error}") from error
        finally:
            theirs.close()

    def close(self) -> None:
        """End the server, and with it every forked worker."""
        self.forks = False
        if self._server is not None:
            self._socket.close()
            self._server.kill()
            self._server.wait()


def fresh_process(worker: NewWorker, scratch: Path) -> subprocess.Popen[bytes]:
    """Start a worker by command line. `scratch`: the private folder of the command."""
    arguments = (str(worker.folder), ",".join(map(str, worker.cpus)), str(os.getpid()))
    line = command("cs_input_analyzer.worker.process", *arguments, isolated=worker.isolated)
    return started(line, scratch, worker.variables)

"""Start the workers of one machine: forked from one import of TensorFlow, or by themselves where that cannot be."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cs_input_analyzer.engines.bootstrap import command, started
from cs_input_analyzer.engines.forking import ForkedProcess, ForkServer, NewWorker
from cs_input_analyzer.errors import LaunchError
from cs_input_analyzer.worker.isolation import Wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerKind:
    """What the workers of a command have in common.

    Attributes:
        forks: whether one process imports TensorFlow and forks them; else each imports it.
        isolates: whether the workers of a launch have private copies of all files; else they write to the user's own.
        has_network: whether they have the real network.
        is_script: whether they run a user's script.
    """

    forks: bool = True
    isolates: bool = True
    has_network: bool = True
    is_script: bool = False


class WorkerStarter:
    """Starts workers for the command with the private folder `scratch`. The first question imports TensorFlow.

    `forks` is None until the import has shown whether workers can be forked.
    """

    def __init__(self, scratch: Path, kind: WorkerKind) -> None:
        self._scratch, self._kind = scratch, kind
        self._server: ForkServer | None = None
        self.forks: bool | None = None if kind.forks else False

    def is_ready(self) -> bool:
        """Return whether a worker can be started without waiting for the import. Returns at once."""
        if self.forks is None:
            self.forks = self._running().is_ready()
        return self.forks is not None

    def wait(self, start_timeout_s: float) -> None:
        """Wait for the import. Raise LaunchError if it takes longer than this."""
        if self.forks is None:
            self.forks = self._running().is_usable(start_timeout_s)

    def _running(self) -> ForkServer:
        if self._server is None:
            self._server = ForkServer(self._scratch)
        return self._server

    def start(
        self, folder: Path, cpus: Sequence[int], place: Path | None, variables: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes] | ForkedProcess:
        """Start a worker that keeps its journal in `folder`; the folder above it is that of its launch.

        Args:
            place: where the private files of the launch are kept; None for all workers of a launch but its first on this machine.
            variables: what its environment has beside ours.
        """
        kind = self._kind
        worker = NewWorker(
            folder=folder,
            cpus=tuple(cpus),
            isolated=Wanted(launch=folder.parent, place=place, has_network=kind.has_network) if kind.isolates else None,
            is_script=kind.is_script,
            variables=variables or {},
        )
        if self._server is not None and self.forks:
            try:
                return self._server.start(worker)
            except LaunchError:  # killed from outside: the workers that come can do without it
                self.forks = False
        return fresh_process(worker, self._scratch)

    def close(self) -> None:
        """End the import, and with it every worker that was forked."""
        if self._server is not None:
            self._server.close()


def fresh_process(worker: NewWorker, scratch: Path) -> subprocess.Popen[bytes]:
    """Start a worker by command line. `scratch`: the private folder of the command."""
    arguments = (str(worker.folder), ",".join(map(str, worker.cpus)), str(os.getpid()), str(int(worker.is_script)))
    line = command("cs_input_analyzer.worker.process", *arguments, isolated=worker.isolated)
    return started(line, scratch, worker.folder, worker.variables)

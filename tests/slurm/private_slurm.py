"""A real Slurm of one's own: controller, several virtual nodes and munge on loopback ports of this host, without systemd or /etc.

    with private_slurm(Path("/tmp/x")) as slurm:
        subprocess.run(["srun", "-N3", "hostname"], env=slurm.environment())

It is up in a tenth of a second. Debian and Ubuntu: `apt-get install --no-install-recommends slurmctld slurmd slurm-client munge`.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import psutil

PACKAGES = "slurmctld slurmd slurm-client munge"
PROGRAMS = ("slurmctld", "slurmd", "srun", "sbatch", "munged")
UP_PATIENCE_S = 90.0
DOWN_PATIENCE_S = 30.0
# Virtual CPUs of a node. With as many as this host has, tasks can be bound; more than that are only counted.
CPUS = 2
MEMORY_MB = 8000
SMALL_MB = 1500

CONFIGURATION = """\
ClusterName=private
SlurmctldHost=localhost
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin={task_plugin}
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
ReturnToService=2
SlurmctldTimeout=10
SlurmdTimeout=5
InactiveLimit=0
KillWait=2
UnkillableStepTimeout=10
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=1,bf_interval=1
PropagateResourceLimits=NONE
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill
AccountingStorageType=accounting_storage/none
GresTypes=cs
"""


def missing() -> str | None:
    """What keeps this machine from running a Slurm, in one sentence; None when it can."""
    absent = [program for program in PROGRAMS if _program(program) is None]
    if absent:
        return f"not installed: {', '.join(absent)} (apt-get install {PACKAGES})"
    return None


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateSlurm:
    """A running cluster. Partitions: `main`, the default one, of n1 …, the accelerator's node `wafer`, and `broken`, which is down;
    and `small` of `tiny`, a node of little memory."""

    folder: Path
    nodes: tuple[str, ...]
    unmarked: dict[str, str]

    @property
    def conf(self) -> Path:
        return self.folder / "slurm.conf"

    def environment(self) -> dict[str, str]:
        return {**os.environ, "SLURM_CONF": str(self.conf)}

    def ask(self, *words: str) -> str:
        done = subprocess.run(words, env=self.environment(), capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def jobs(self) -> tuple[str, ...]:
        """Jobs that are not over, as `ID STATE`; those of which only the tidying up is left count as over."""
        lines = self.ask("squeue", "--noheader", "--format=%i %T").splitlines()
        return tuple(line for line in lines if not line.endswith("COMPLETING"))

    def steps(self) -> tuple[str, ...]:
        """Running steps but those that stand for a job itself."""
        lines = self.ask("squeue", "--noheader", "--steps", "--format=%i").split()
        return tuple(line for line in lines if line.rpartition(".")[2].isdigit())

    def start_node(self, name: str) -> None:
        (self.folder / "spool" / name).mkdir(parents=True, exist_ok=True)
        subprocess.run([_program("slurmd") or "slurmd", "-N", name], env=self.unmarked, check=True, capture_output=True, timeout=30)

    def kill_node(self, name: str) -> None:
        """As if its power had failed: the daemon and every process that it started are gone at once."""
        daemon = psutil.Process(int((self.folder / f"slurmd-{name}.pid").read_text()))
        doomed = [daemon]
        for step in _steps_with(self.folder, f"slurmd-{name}.log"):
            with contextlib.suppress(psutil.Error):
                doomed += [step, *step.children(recursive=True)]
        for process in doomed:
            with contextlib.suppress(psutil.Error):
                process.kill()

    def wait_for_idle(self, nodes: Sequence[str] | None = None) -> None:
        wanted = set(nodes if nodes is not None else self.nodes)
        deadline_s = time.monotonic() + UP_PATIENCE_S
        while True:
            lines = self.ask("sinfo", "--noheader", "--Node", "--format=%N %T").splitlines()
            if wanted <= {line.split()[0] for line in lines if line.split()[1] == "idle"}:
                return
            assert time.monotonic() < deadline_s, f"not idle: {lines}"
            time.sleep(0.05)


def _steps_with(folder: Path, name: str) -> list[psutil.Process]:
    """All nodes are this host, so the log that a step's daemon writes to tells whose it is."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.name() == "slurmstepd" and any(fnmatch(file.path, f"{folder}/{name}") for file in process.open_files()):
                found.append(process)
    return found


@contextlib.contextmanager
def private_slurm(folder: Path, *, nodes: int = 4, cpus: int = CPUS) -> Iterator[PrivateSlurm]:
    """A cluster in `folder`, which should be short and empty; its daemons are ended whatever happens.

    `unmarked` daemons: what the tests' watch over stray processes looks for in the environment is not theirs.
    """
    names = tuple(f"n{number}" for number in range(1, nodes + 1))
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "CS_INPUT_ANALYZER_"))}
    slurm = PrivateSlurm(folder=folder, nodes=names, unmarked={**environ, "SLURM_CONF": str(folder / "slurm.conf")})
    _configure(slurm, cpus)
    try:
        _start(slurm)
        yield slurm
    finally:
        _stop(slurm)


def _configure(slurm: PrivateSlurm, cpus: int) -> None:
    # Tasks can be bound only to CPUs that are there; more than those are merely counted.
    task_plugin = "task/affinity" if (os.cpu_count() or 1) >= cpus else "task/none"
    folder, host = slurm.folder, socket.gethostname().split(".")[0]
    for name in ("state", "spool"):
        (folder / name).mkdir()
    folder.chmod(0o755)
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(128))
    port, *node_ports = _free_ports(len(slurm.nodes) + 4)
    lines = [CONFIGURATION.format(port=port, user=getpass.getuser(), folder=folder, task_plugin=task_plugin)]
    kinds = [*((name, MEMORY_MB, "State=UNKNOWN") for name in slurm.nodes), ("tiny", SMALL_MB, "State=UNKNOWN")]
    # Down from the start: a node that never answers changes its state in the middle of some test.
    kinds += [("wafer", MEMORY_MB, "Gres=cs:1 State=UNKNOWN"), ("broken", MEMORY_MB, "State=DOWN")]
    for (name, memory_mb, rest), node_port in zip(kinds, node_ports, strict=True):
        where = f"NodeHostname={host} NodeAddr=127.0.0.1 Port={node_port}"
        lines.append(f"NodeName={name} {where} CPUs={cpus} RealMemory={memory_mb} Feature=cpu {rest}")
    lines.append(f"PartitionName=main Nodes={','.join((*slurm.nodes, 'wafer', 'broken'))} Default=YES MaxTime=INFINITE State=UP")
    lines.append("PartitionName=small Nodes=tiny MaxTime=INFINITE State=UP")
    slurm.conf.write_text("\n".join([*lines, ""]))
    (folder / "gres.conf").write_text("NodeName=wafer Name=cs Count=1\n")


def _free_ports(count: int) -> list[int]:
    holders = [socket.socket() for _ in range(count)]
    try:
        for holder in holders:
            holder.bind(("127.0.0.1", 0))
        return [holder.getsockname()[1] for holder in holders]
    finally:
        for holder in holders:
            holder.close()


def _start(slurm: PrivateSlurm) -> None:
    folder = slurm.folder
    files = {"socket": "munge.socket", "key-file": "munge.key", "pid-file": "munged.pid"}
    files |= {"log-file": "munged.log", "seed-file": "munge.seed"}
    munged = [_program("munged") or "munged", "--force", *(f"--{name}={folder / file}" for name, file in files.items())]
    for command in (munged, [_program("slurmctld") or "slurmctld", "-i"]):
        subprocess.run(command, env=slurm.unmarked, check=True, capture_output=True, timeout=30)
    for name in (*slurm.nodes, "tiny"):
        slurm.start_node(name)
    slurm.wait_for_idle((*slurm.nodes, "tiny"))


def _stop(slurm: PrivateSlurm) -> None:
    """Jobs first, then the daemons by their own process numbers, munge last: the others speak through it."""
    if (slurm.folder / "slurmctld.pid").exists():
        slurm.ask("scancel", "--full", "--quiet", f"--user={getpass.getuser()}")
        deadline_s = time.monotonic() + DOWN_PATIENCE_S
        while time.monotonic() < deadline_s and slurm.ask("squeue", "--noheader", "--format=%i").strip():
            time.sleep(0.05)  # a step that cannot tell its controller that it has ended keeps trying
    for names in (sorted(path.name for path in slurm.folder.glob("slurm*.pid")), ["munged.pid"]):
        _end([process for name in names if (process := _daemon(slurm.folder / name)) is not None])
    _end(_steps_with(slurm.folder, "*"))


def _daemon(pid_file: Path) -> psutil.Process | None:
    try:
        return psutil.Process(int(pid_file.read_text()))
    except (OSError, ValueError, psutil.Error):
        return None


def _end(processes: Sequence[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(signal.SIGTERM)
    _, alive = psutil.wait_procs(processes, timeout=DOWN_PATIENCE_S)
    for process in alive:
        with contextlib.suppress(psutil.Error):
            process.kill()

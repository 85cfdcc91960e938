"""Runs the command line as users do, in a folder of theirs, and looks at what is left: processes, temporary files, their tree."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = Path(__file__).with_name("input_functions.py")
MARK = "CS_INPUT_ANALYZER_TEST_CASE"
POLL_S = 0.05
# Workers whose parent was killed are ended by the kernel; reaping them takes a moment, on a busy host a longer one.
VANISH_S = 30.0
# Ends a run that hangs; no run takes half of it, even on a busy machine.
TIMEOUT_S = 240.0

# In place of `cs_input_analyzer`, where what comes of the first launch is judged: its docstring says what it leaves out.
BRIEF = "tests.functional.brief"
# One worker on one CPU. With BRIEF some ten seconds, however many `--max-seconds` grants to a busy host.
ONE_CPU = ("--cpus", "1", "--probe-layouts", "1x1x1", "--max-seconds", "40", "--target-error", "0.5", "--no-measure-fixes")
SMALL_NODES = ("--cpus-per-node", "2", "--memory-per-node", "16GiB")
QUICK = (*ONE_CPU, "--nodes", "1", *SMALL_NODES)

Tree = dict[str, tuple[int, int, bytes | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A signal to send, or what else is to be done to the process, `wait_s` after `text` has appeared on stderr."""

    text: str
    wait_s: float = 0.0
    number: signal.Signals = signal.SIGINT
    strike: Callable[[psutil.Process], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended. `peak_bytes`: high-water mark of the analyzer's own memory; `left_…`: what it should have taken along."""

    code: int
    out: str
    err: str
    peak_bytes: int
    left_processes: tuple[str, ...]
    left_files: tuple[str, ...]
    is_tree_untouched: bool
    run: Any


def run_cli(
    arguments: Sequence[str],
    folder: Path,
    *,
    stop: Stop | None = None,
    cpu: int | None = None,
    within: Sequence[str] = (),
    modules: Path | None = None,
    program: str = "cs_input_analyzer",
) -> Outcome:
    """`python -m PROGRAM ARGUMENTS --json …` in `folder/users`, temporary files in `folder/temporary`. `cpu` is the only one
    that the run may use: runs side by side would all choose the first. `within` is a command that sets the
    scene and becomes the one that follows it; `modules` is a folder whose Python modules come before all others."""
    users, temporary, json_file = folder / "users", folder / "temporary", folder / "run.json"
    users.mkdir(parents=True, exist_ok=True)
    temporary.mkdir(exist_ok=True)
    mark = uuid.uuid4().hex
    path = os.pathsep.join(filter(None, [modules and str(modules), str(ROOT), os.environ.get("PYTHONPATH")]))
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = tree_of(users)
    command = [*within, sys.executable, "-m", program, *arguments, "--json", str(json_file)]
    environ = {**inherited, "PYTHONPATH": path, "TMPDIR": str(temporary), MARK: mark}
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err, _confined_to(cpu):
        process = subprocess.Popen(
            command, cwd=users, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environ, preexec_fn=_hear_hang_ups
        )
    peak_bytes = _wait(process, folder / "err", stop)
    return Outcome(
        code=process.returncode,
        out=(folder / "out").read_text(errors="replace"),
        err=(folder / "err").read_text(errors="replace"),
        peak_bytes=peak_bytes,
        left_processes=_left_processes(mark),
        left_files=tuple(str(file.relative_to(temporary)) for file in temporary.rglob("*")),
        is_tree_untouched=tree_of(users) == before,
        run=json.loads(json_file.read_text()) if json_file.exists() else None,
    )


def _hear_hang_ups() -> None:
    """Also where these tests run under `nohup`."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@contextmanager
def _confined_to(cpu: int | None) -> Iterator[None]:
    """Lends this thread's affinity to what it starts meanwhile."""
    allowed = os.sched_getaffinity(0)
    if cpu is not None:
        os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def tree_of(folder: Path) -> Tree:
    """Every path below `folder`, with its mode, its time of change and its content."""
    return {
        str(path.relative_to(folder)): (
            (found := path.stat()).st_mode,
            found.st_mtime_ns,
            path.read_bytes() if path.is_file() else None,
        )
        for path in sorted(folder.rglob("*"))
    }


def _wait(process: subprocess.Popen[bytes], err: Path, stop: Stop | None) -> int:
    deadline_s = time.monotonic() + TIMEOUT_S
    peak_bytes = 0
    while process.poll() is None:
        peak_bytes = max(peak_bytes, _high_water_bytes(process.pid))
        if stop is not None and stop.text in err.read_text(errors="replace"):
            time.sleep(stop.wait_s)
            if stop.strike is not None:
                stop.strike(psutil.Process(process.pid))
            else:
                process.send_signal(stop.number)
            stop = None
        if time.monotonic() > deadline_s:
            process.kill()
            process.wait()
            raise AssertionError(f"the analyzer hung; it had said: {err.read_text(errors='replace')[-2000:]}")
        time.sleep(POLL_S)
    return peak_bytes


def _high_water_bytes(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0)


def _left_processes(mark: str) -> tuple[str, ...]:
    """What still runs of a run, after it had time to go; and an end to it."""
    deadline_s = time.monotonic() + VANISH_S
    while (left := [process for process in psutil.process_iter() if _is_marked(process, mark)]) and time.monotonic() < deadline_s:
        time.sleep(POLL_S)
    told = []
    for process in left:
        try:
            told.append(" ".join(process.cmdline()))
            process.kill()
        except psutil.Error:
            continue
    return tuple(told)


def _is_marked(process: psutil.Process, mark: str) -> bool:
    try:
        return process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, OSError):
        return False


def ran(words: Sequence[str], folder: Path = ROOT, timeout_s: float = 180.0, **environ: str) -> subprocess.CompletedProcess[str]:
    """A program's exit code and what it printed; Python finds this checkout."""
    path = os.pathsep.join(filter(None, [environ.pop("PYTHONPATH", ""), str(ROOT), os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "PYTHONPATH": path, **environ}
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=timeout_s, check=False)


def loaded_after(statement: str, *packages: str) -> set[str]:
    """Which of these packages a fresh interpreter holds after a statement that says nothing on stderr: pytest's own may hold
    TensorFlow already, from another test."""
    ending = "except SystemExit as end:\n    assert not end.code, end.code"
    loaded = "print('LOADED', *{name.partition('.')[0] for name in sys.modules})"
    done = ran([sys.executable, "-c", f"import sys\ntry:\n    {statement}\n{ending}\n{loaded}"], timeout_s=60)
    assert (done.returncode, done.stderr) == (0, "")
    return set(done.stdout.rpartition("LOADED")[2].split()) & set(packages)


def sleeps_left() -> list[psutil.Process]:
    """Programs `sleep` that tests of this process have started, once they had time to go."""
    _, left = psutil.wait_procs([process for process in psutil.process_iter() if _is_sleep(process)], timeout=2 * VANISH_S)
    return left


def _is_sleep(process: psutil.Process) -> bool:
    name = "CS_INPUT_ANALYZER_TEST_RUN"
    try:
        return process.name() == "sleep" and process.environ().get(name) == os.environ[name]
    except (psutil.Error, OSError):  # any process of this host may end between two looks
        return False

"""One occasion: fresh processes of every launch, and randomized slices of them in turns; then once more with new processes."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import platform
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import platformdirs
import psutil
import yaml

import sample_pipelines
from benchmarks import slowfs
from benchmarks.occasion.saved import DATA, add
from sample_pipelines import write_sample

SAMPLES = ("fc_mnist", "bert_pretrain", "resnet50")
PIPELINES = (*SAMPLES, "storage", "compute")
READ_LATENCY_S, STORAGE_FILES = 0.005, 8
LAYOUTS = ((1, 1), (2, 1), (1, 2))  # tasks, CPUs of each: 1x1x1, 1x2x1, 1x1x2
COLUMNS = ("at_s", "pipeline", "tasks", "cpus", "launch", "task", "slice", "samples", "wall_us", "cpu_us", "queue_us")
HOST_COLUMNS = ("host_cpu_ms", "steal_ms", "load", "others_ratio")
LAUNCHES, SLICES, SLICE_S = 2, 3, 0.9
MAX_SECONDS = 280.0
START_PATIENCE_S, SLICE_PATIENCE_S = 90.0, 20.0
# Processes that are started at a time: importing TensorFlow keeps a CPU busy.
STARTING = 2
PROCESS_BYTES = 700 * 2**20
# Of the CPU time of the host during slices, what others used; above this an occasion is marked.
QUIET_OTHERS_RATIO = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The measurements of an occasion, and their longest time."""

    pipelines: tuple[str, ...]
    launches: int = LAUNCHES
    slices: int = SLICES
    slice_s: float = SLICE_S
    max_seconds: float = MAX_SECONDS


@dataclass(slots=True)
class _Process:
    started: subprocess.Popen[str]
    is_lost: bool = False

    def hear(self, patience_s: float) -> dict[str, Any] | None:
        """Its next answer; None if it died or took too long, and then it is ended."""
        assert self.started.stdout is not None
        if not self.is_lost and select.select([self.started.stdout], [], [], patience_s)[0]:
            line = self.started.stdout.readline()
            if line:
                answer: dict[str, Any] = json.loads(line)
                return answer
        self.is_lost = True
        self.end()
        return None

    def say(self, order: str) -> None:
        assert self.started.stdin is not None
        try:
            self.started.stdin.write(order + "\n")
            self.started.stdin.flush()
        except BrokenPipeError:
            self.is_lost = True

    def end(self) -> None:
        self.started.kill()
        self.started.wait()


@dataclass(slots=True)
class _Launch:
    pipeline: str
    tasks: int
    cpus: int
    number: int
    processes: list[_Process] = field(default_factory=list)
    slices: int = 0

    @property
    def name(self) -> str:
        return f"{self.pipeline} 1x{self.tasks}x{self.cpus}"


def measure(plan: Plan, path: Path = DATA) -> dict[str, Any]:
    """Measure an occasion, append it to a file and return it. An interrupted one is appended, too."""
    began = time.time()
    rows: list[list[float | int | str]] = []
    notes: list[str] = []
    ended = "complete"
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        with _params(plan.pipelines, notes) as params, tempfile.TemporaryDirectory() as temporary:
            os.environ["TMPDIR"] = temporary  # AutoGraph's files outlive a process that is killed
            began_s = time.monotonic()
            for number in range(plan.launches):
                if not _generation(plan, params, number, began_s, rows, notes):
                    ended = "out of time"
                    break
    except KeyboardInterrupt:
        ended = "interrupted"
    occasion = _occasion(plan, began, ended, rows, notes)
    add(occasion, path)
    return occasion


def _generation(plan: Plan, params: dict[str, str], number: int, began_s: float, rows: list[Any], notes: list[str]) -> bool:
    """One launch of every pipeline in every layout, all alive at once and measured in turns. False when the time ran out."""
    launches = [_Launch(name, tasks, cpus, number) for name in params for tasks, cpus in LAYOUTS]
    random.shuffle(launches)
    try:
        if not _start(launches, params, notes, plan, began_s):
            return False
        for index in range(plan.slices):
            for launch in random.sample(launches, len(launches)):
                if any(process.is_lost for process in launch.processes):
                    continue
                if time.monotonic() - began_s > plan.max_seconds:
                    return False
                at_s = round(time.monotonic() - began_s, 1)
                for process in launch.processes:
                    process.say(f"slice {plan.slice_s}")
                answers = [process.hear(SLICE_PATIENCE_S) for process in launch.processes]
                for task, answer in enumerate(answers):
                    if answer is None:
                        notes.append(f"{launch.name}, launch {number}: a process was lost in slice {index}")
                        continue
                    rows.append([at_s, launch.pipeline, launch.tasks, launch.cpus, number, task, index, *answer.values()])
        return True
    finally:
        for launch in launches:
            for process in launch.processes:
                process.end()


def _start(launches: Sequence[_Launch], params: dict[str, str], notes: list[str], plan: Plan, began_s: float) -> bool:
    """Start all processes, some at a time, and waits until each has run its pipeline for a moment."""
    waiting: list[tuple[_Launch, _Process]] = []
    for launch, task in [(one, task) for one in launches for task in range(one.tasks)]:
        if psutil.virtual_memory().available < 2 * PROCESS_BYTES:
            raise SystemExit("too little memory is free: an occasion holds twenty processes of TensorFlow, about 12 GB")
        process = _Process(_started(launch, task, params[launch.pipeline]))
        launch.processes.append(process)
        waiting.append((launch, process))
        if len(waiting) >= STARTING:
            _hear_ready(*waiting.pop(0), notes)
        if time.monotonic() - began_s > plan.max_seconds:
            return False
    for pair in waiting:
        _hear_ready(*pair, notes)
    return True


def _hear_ready(launch: _Launch, process: _Process, notes: list[str]) -> None:
    if process.hear(START_PATIENCE_S) is None:
        notes.append(f"{launch.name}, launch {launch.number}: a process did not start")


def _started(launch: _Launch, task: int, params: str) -> subprocess.Popen[str]:
    """On its own CPUs, with the TF_CONFIG of its launch."""
    available = sorted(os.sched_getaffinity(0))
    first = task * launch.cpus
    cpus = [available[number % len(available)] for number in range(first, first + launch.cpus)]
    names = [f"localhost:{port}" for port in range(launch.tasks)]
    config = {"cluster": {"worker": names}, "task": {"type": "worker", "index": task}}
    quiet = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3", "TF_CONFIG": json.dumps(config)}
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.occasion.process", launch.pipeline, ",".join(map(str, cpus)), params],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | quiet,
        text=True,
        start_new_session=True,  # Ctrl-C is for us, who end them
    )


@contextlib.contextmanager
def _params(names: Sequence[str], notes: list[str]) -> Iterator[dict[str, str]]:
    """Yield the params of each pipeline as JSON.

    Data are in the user's cache folder, read from memory except for `storage`.
    """
    cache = Path(platformdirs.user_cache_dir("cs_input_analyzer")) / "occasion"
    with contextlib.ExitStack() as stack:
        params: dict[str, str] = {}
        for name in names:
            if name == "compute":
                params[name] = "{}"
            elif name == "storage":
                if len(list((cache / name).glob("part-*"))) < STORAGE_FILES:
                    from benchmarks.occasion.pipelines import write_storage_files  # imports TensorFlow

                    write_storage_files(cache / name, STORAGE_FILES)
                try:
                    mount = stack.enter_context(slowfs.mounted(cache / name, read_latency_s=READ_LATENCY_S, uncached=True))
                except slowfs.UnavailableError as error:
                    notes.append(f"storage was not measured: {error}")
                    continue
                params[name] = json.dumps({"files": f"{mount}/part-*"})
            else:
                params[name] = json.dumps(yaml.safe_load(write_sample(name, cache / name).read_text()))
        yield params


def _occasion(plan: Plan, began: float, ended: str, rows: Sequence[Sequence[Any]], notes: Sequence[str]) -> dict[str, Any]:
    """Return all that is saved: when, on what host, and a row for each slice of each task."""
    columns = (*COLUMNS, *HOST_COLUMNS)
    return {
        "version": 1,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began)),
        "ended": ended,
        "others_ratio": others_ratio(columns, rows),
        "notes": list(notes),
        "slice_s": plan.slice_s,
        "pipelines_digest": _digest(),
        "cpu_model": _cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_bytes": psutil.virtual_memory().total,
        "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "tensorflow": next(
            (importlib.metadata.version(name) for name in ("tensorflow", "tensorflow-cpu") if _is_installed(name)), None
        ),
        "columns": list(columns),
        "rows": [list(row) for row in rows],
    }


def others_ratio(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> float | None:
    """Return the share of the CPU time during slices that processes other than the measured ones took."""
    at = {name: number for number, name in enumerate(columns)}
    launches: dict[tuple[Any, ...], list[Sequence[Any]]] = {}
    for row in rows:
        launches.setdefault(tuple(row[at[name]] for name in ("pipeline", "tasks", "cpus", "launch", "slice")), []).append(row)
    had = others = 0.0
    for tasks in launches.values():
        wall_s = sum(row[at["wall_us"]] for row in tasks) / len(tasks) * 1e-6
        busy_s = sum(row[at["host_cpu_ms"]] for row in tasks) / len(tasks) * 1e-3
        had += wall_s * len(os.sched_getaffinity(0))
        others += max(0.0, busy_s - sum(row[at["cpu_us"]] for row in tasks) * 1e-6)
    return round(others / had, 3) if had else None


def _digest() -> str:
    """Return the digest of the sources of the measurement: occasions with another digest measured something else."""
    here, samples = Path(__file__).parent, Path(sample_pipelines.__file__).parent
    own = [here / "pipelines.py", here / "process.py"]
    sources = [*own, *(samples / f"{name}{end}" for name in SAMPLES for end in (".py", ".yaml"))]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())

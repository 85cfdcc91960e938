"""What every test runs in: no accelerator, a private cache folder, and a watch over what a test leaves behind."""

from __future__ import annotations

import os
import signal
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import settings

from tests.waiting import comes

# No test asserts a time, and a busy host takes its own. More examples are tried where nobody waits for them.
settings.register_profile("local", deadline=None, max_examples=20)
settings.register_profile("CI", deadline=None, max_examples=40)
settings.load_profile("CI" if os.environ.get("CI") else "local")

ROOT = Path(__file__).resolve().parent.parent

# Inherited by every process that a test starts, however deep; the value is this run's own, so that two runs at once do not see
# each other's workers.
MARK = "CS_INPUT_ANALYZER_TEST_RUN"
MARK_VALUE = uuid.uuid4().hex

# What pytest and its plugins, Python and the linters write into the folder they are started in.
EXPECTED_ENTRIES = {
    ".pytest_cache",
    ".hypothesis",
    ".mypy_cache",
    ".ruff_cache",
    ".import_linter_cache",
    ".coverage",
    "__pycache__",
}

# The files that take longest are begun first, so that none is left for one process alone at the end. The two that run several
# command lines at once are kept apart.
LONGEST = (
    "slurm/test_slurm_run.py",
    "test_pages.py",
    "worker/test_capture.py",
    "functional/test_end_of_life.py",
    "functional/test_hostile_data.py",
    "test_wheel.py",  # short: it goes to the process whose first file has the fewest tests, before that one is done
    "functional/test_bad_input.py",
    "slurm/test_slurm_launcher.py",
    "functional/test_analyze.py",
    "runs/test_monitoring_page.py",
    "sample_pipelines/test_sample_pipelines.py",
    "functional/test_tune_command.py",
    "functional/test_validate_run.py",
    "engines/test_slurm_launch.py",
    "slurm/test_slurm_plans.py",
    "worker/test_fork_server.py",
    "engines/test_local_launcher.py",
    "runs/test_monitor_tensorflow.py",
    "functional/test_known_truth.py",
    "runs/test_analyze_in_scripts.py",
    "browser/test_page.py",
    "trial/test_fixes.py",
    "trial/test_equality.py",
)

# A worker that was asked to end may still be on its way out when the test returns, for longer on a busy host.
GRACE_S = 20.0


def pytest_configure(config: pytest.Config) -> None:
    # What a shell starts in the background ignores Ctrl-C, and hands that on: programs that tests interrupt would not hear it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config.option, "loadscopereorder"):  # of pytest-xdist, which would begin with the files of most tests
        config.option.loadscopereorder = False
    # Before any test module is imported: TensorFlow reads these once, when it is loaded.
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.environ[MARK] = MARK_VALUE
    for name in ("TF_CONFIG", "DEF_NODES", "DEF_TASKS", "DEF_CPUS", "COLUMNS", "FORCE_COLOR", "NO_COLOR"):
        os.environ.pop(name, None)
    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        del os.environ[name]
    cache = tempfile.TemporaryDirectory(prefix="cs_input_analyzer_tests_", ignore_cleanup_errors=True)
    config.add_cleanup(cache.cleanup)
    os.environ["XDG_CACHE_HOME"] = cache.name


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {ROOT / "tests" / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


@pytest.fixture(autouse=True)
def no_process_left_behind() -> Iterator[None]:
    """Fails the test that leaves a child process running: a worker holds a CPU set and half a gigabyte."""
    before = set(_children())
    yield
    _end([process for process in _children() if process not in before])


@pytest.fixture(autouse=True, scope="module")
def no_orphan_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails the last test of a file whose tests leave processes whose parent is gone; only those that start workers can."""
    items = [item for item in request.session.items if item.path == request.path]
    starts_workers = any(item.get_closest_marker(name) for item in items for name in ("tf", "slow"))
    before = _orphans() if starts_workers else []
    yield
    if starts_workers:
        _end([process for process in _orphans() if process not in before])


@pytest.fixture(autouse=True)
def no_file_left_behind() -> Iterator[None]:
    """Fails the test that writes into the folder it was started in."""
    folder = Path.cwd()
    before = {entry.name for entry in folder.iterdir()} | EXPECTED_ENTRIES
    yield
    assert Path.cwd() == folder, "the test changed the working folder and did not go back"
    stray = sorted({entry.name for entry in folder.iterdir()} - before)
    assert not stray, f"written into {folder}: {stray}"


@pytest.fixture(scope="module")
def launcher() -> Iterator[Any]:
    """One for a file: TensorFlow is imported once."""
    yield from _launcher(isolates=True)


@pytest.fixture(scope="module")
def open_launcher() -> Iterator[Any]:
    """The same on the files themselves: for functions that write down what they see."""
    yield from _launcher(isolates=False)


def _launcher(*, isolates: bool) -> Iterator[Any]:
    """A worker of it waits for ever, so that it all is there before the first test."""
    from cs_input_analyzer.engines import LocalLauncher
    from cs_input_analyzer.engines.starting import WorkerKind
    from cs_input_analyzer.records import Layout

    made = LocalLauncher(cpu_budget=min(2, len(os.sched_getaffinity(0))), kind=WorkerKind(isolates=isolates))
    waiting = made.start(Layout.parse("1x1x1"))
    assert comes(lambda: waiting.processes[0].has_said("imported"))
    yield made
    made.close()
    assert not made.folder.exists()


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


def _children() -> list[psutil.Process]:
    """Descendants of this process, but for Python's own helper of `multiprocessing`, which lives as long as the interpreter."""
    processes = psutil.Process().children(recursive=True) if _has_children() else []
    return [process for process in processes if "multiprocessing.resource_tracker" not in _describe(process)]


def _orphans() -> list[psutil.Process]:
    """What tests of this process started whose parent has ended."""
    known = {os.getpid(), *(process.pid for process in _children())}
    return [process for process in psutil.process_iter() if process.pid not in known and _is_ours(process)]


def _end(left: list[psutil.Process]) -> None:
    """Gives processes time to go; ends those that do not, and fails."""
    _, alive = psutil.wait_procs(left, timeout=GRACE_S)
    names = [_describe(process) for process in alive]
    for process in alive:
        _kill(process)
    psutil.wait_procs(alive, timeout=GRACE_S)
    assert not names, f"left running: {names}"


def _has_children() -> bool:
    """Thousands of tests start nothing: to look through all processes of the host for each would take a minute of a CPU."""
    try:
        return any((task / "children").read_text() for task in Path("/proc/self/task").iterdir())
    except OSError:  # a kernel that does not tell, or a thread that has just ended
        return True


def _is_ours(process: psutil.Process) -> bool:
    try:
        return process.environ().get(MARK) == MARK_VALUE
    except (psutil.Error, OSError):
        return False


def _describe(process: psutil.Process) -> str:
    try:
        return f"{process.pid}: {' '.join(process.cmdline()) or process.name()}"
    except psutil.Error:
        return f"{process.pid}: gone"


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return

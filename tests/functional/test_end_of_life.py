"""Every way in which a run may end, at every moment of it: what was measured is saved, nothing is left (docs/reliability.md).

One table: a fault, and where it strikes. The input function leaves two processes behind, one in a session of its own and one
without a parent. What the kernel does for want of memory is a `kill -9` of one process or another.
"""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest

from cs_input_analyzer.engines.scratch import Scratch
from cs_input_analyzer.host.machine import CGROUP, OWN_GROUPS
from tests.functional.cases import refusal_of
from tests.functional.running import BRIEF, FUNCTIONS, QUICK, Outcome, Stop, run_cli
from tests.waiting import comes

pytestmark = [pytest.mark.tf, pytest.mark.slow, pytest.mark.long]

# Text on stderr, and the seconds from then on. There is a rate once the second layout is measured, for two seconds and more; then
# the run ends.
MOMENTS = {
    "at the start": ("importing TensorFlow", 0.0),
    "importing": ("importing TensorFlow", 2.0),
    "building": ("measuring 1x1x1", 0.0),
    "sampling": ("measuring 1x1x1", 3.0),
    "with a rate": ("measuring 1x2x1", 1.0),
}
MEASURED = "with a rate"
ARGUMENTS = (
    *("--cpus", "2", "--probe-layouts", "1x1x1,1x2x1", "--max-seconds", "24", "--target-error", "0.05", "--no-measure-fixes"),
    *("--nodes", "1", "--cpus-per-node", "2", "--memory-per-node", "16GiB"),
)
# All moments, where that is asked for: half an hour. Else the moment at which most is at stake.
TRIED = tuple(MOMENTS) if "FAULT_RUNS" in os.environ else (MEASURED,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """`strike` is given the process of the command; `codes`: exit codes that are right; `saves`: whether a rate that was measured
    is in the report."""

    name: str
    strike: Callable[[psutil.Process], None]
    codes: tuple[int, ...]
    saves: bool = True


def send(*numbers: signal.Signals) -> Callable[[psutil.Process], None]:
    def strike(command: psutil.Process) -> None:
        for number in numbers:
            command.send_signal(number)
            time.sleep(0.05)

    return strike


def end(*names: str, number: signal.Signals = signal.SIGKILL) -> Callable[[psutil.Process], None]:
    """Ends the guard, the fork server, the workers and the command, in this order, where they are named and there."""

    def strike(command: psutil.Process) -> None:
        found = named(command)
        for name in names:
            for process in found[name]:
                process.send_signal(number)

    return strike


def named(command: psutil.Process) -> dict[str, list[psutil.Process]]:
    """The processes of a run by what they are."""
    children = command.children()
    return {
        "guard": [child for child in children if child.name() == "sh"],
        "server": [child for child in children if child.name() != "sh"],
        "worker": [grandchild for child in children if child.name() != "sh" for grandchild in child.children()],
        "command": [command],
    }


def end_before_the_next_run(*names: str) -> Callable[[psutil.Process], None]:
    """Where the guard is gone, too, it is the next run that tidies up, as it begins."""

    def strike(command: psutil.Process) -> None:
        temporary = Path(command.environ()["TMPDIR"])
        end(*names)(command)
        # Whoever started it learns how it ended; its files are closed once its last thread is gone.
        while command.status() != psutil.STATUS_ZOMBIE or len(os.listdir(f"/proc/{command.pid}/task")) > 1:
            time.sleep(0.05)
        Scratch(temporary).close()

    return strike


INT, TERM, HUP, KILL = signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL
GOES_ON = (0, 3, 4)  # with what is left; or it says why it cannot
FAULTS = (
    Fault(name="Ctrl-C", strike=send(INT), codes=(130,)),
    Fault(name="two Ctrl-C", strike=send(INT, INT), codes=(130,)),
    Fault(name="three Ctrl-C", strike=send(INT, INT, INT), codes=(130,), saves=False),
    Fault(name="SIGTERM", strike=send(TERM), codes=(130,)),
    Fault(name="SIGTERM, then Ctrl-C", strike=send(TERM, INT), codes=(130,)),
    Fault(name="SIGHUP", strike=send(HUP), codes=(130,)),
    Fault(name="SIGHUP twice, then SIGTERM", strike=send(HUP, HUP, TERM), codes=(130,)),
    Fault(name="kill -9 of the command", strike=send(KILL), codes=(-9,), saves=False),
    Fault(name="kill -9 of the guard", strike=end("guard"), codes=(0,)),
    Fault(name="kill -9 of guard and command", strike=end_before_the_next_run("guard", "command"), codes=(-9,), saves=False),
    Fault(
        name="kill -9 of all at once",
        strike=end_before_the_next_run("guard", "server", "worker", "command"),
        codes=(-9,),
        saves=False,
    ),
    Fault(name="kill -9 of the fork server", strike=end("server"), codes=GOES_ON, saves=False),
    Fault(name="kill -9 of workers", strike=end("worker"), codes=GOES_ON, saves=False),
)


TARGET = f"{FUNCTIONS}:leaves_processes_behind"


@contextmanager
def memory_group() -> Iterator[Path]:
    """Make a control group of 2 GB below that of the tests, in either version of the kernel's interface."""
    controllers = {line.split(":", 2)[1]: line.split(":", 2)[2] for line in OWN_GROUPS.read_text().splitlines()}
    parent, name = (CGROUP / "memory", "memory") if "memory" in controllers else (CGROUP, "")
    folder = parent / controllers.get(name, "/").lstrip("/") / f"csia-test-{uuid.uuid4().hex}"
    try:
        folder.mkdir()
        (folder / ("memory.limit_in_bytes" if name else "memory.max")).write_text(str(2 * 2**30))
    except OSError as error:
        with suppress(OSError):
            folder.rmdir()
        pytest.skip(f"no control group with a limit can be made here: {error}")
    yield folder

    def is_gone() -> bool:  # the kernel lets it go once its processes are gone
        with suppress(OSError):
            folder.rmdir()
        return not folder.exists()

    assert comes(is_gone)


@pytest.mark.parametrize("moment", TRIED)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_run_that_ends_early_saves_what_it_has_and_leaves_nothing(fault: Fault, moment: str, tmp_path: Path) -> None:
    text, wait_s = MOMENTS[moment]
    stop = Stop(strike=fault.strike, text=text, wait_s=wait_s)
    outcome = run_cli(("analyze", TARGET, *ARGUMENTS), tmp_path, stop=stop, program=BRIEF)
    judge(outcome, fault.codes)
    if moment == MEASURED and fault.saves and fault.codes == (130,):
        assert outcome.run["interrupted"] is True
        assert outcome.run["measurements"][0]["samples_per_s"]["estimate"] > 0


def test_a_worker_is_ended_before_the_kernel_does_it_for_the_memory_of_the_group(tmp_path: Path) -> None:
    with memory_group() as group:
        within = ("sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', str(group))
        outcome = run_cli(("analyze", f"{FUNCTIONS}:eats_memory_slowly", *QUICK), tmp_path, program=BRIEF, within=within)
    judge(outcome, (3,))  # the kernel would have ended the fork server too, or the command
    assert "more memory" in outcome.err


def judge(outcome: Outcome, codes: Sequence[int]) -> None:
    context = f"exit {outcome.code}\n{outcome.err[-3000:]}"
    assert outcome.code in codes, context
    assert outcome.left_processes == (), context
    assert outcome.left_files == (), context
    assert outcome.is_tree_untouched
    assert "Traceback" not in outcome.err, context


# One page is free of the full ones: a worker's events fit, its stamps do not, however slow the host is.
# Where the disk is full, or the folder cannot be used: what happens before anything is started, and the report still comes out.
FULL = 'mount -t tmpfs -o size=64k none "{folder}" && head -c 61440 /dev/zero >"{folder}/data"; exec "$@"'
READ_ONLY = 'mount -t tmpfs -o ro none "{folder}"; exec "$@"'


@pytest.mark.parametrize(
    ("place", "codes"), [("temporary", (4,)), ("cache", (0,)), ("reports", (4,)), ("users", (0,))], ids=lambda value: str(value)
)
@pytest.mark.parametrize("scene", [FULL, READ_ONLY], ids=["full", "read-only"])
def test_a_folder_that_takes_nothing(
    scene: str, place: str, codes: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / place
    within = ("unshare", "--mount", "sh", "-c", scene.format(folder=folder), "sh")
    if why := refusal_of(lambda: ("unshare", "--mount", "sh", "-c", 'exec "$@"', "sh")):
        pytest.skip(why)
    for name in ("temporary", "cache", "reports", "users"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    report = ("--html", str(tmp_path / "reports" / "report.html"))
    outcome = run_cli(("analyze", TARGET, *QUICK, *report), tmp_path, within=within, program=BRIEF)
    # Before the measuring a folder that may not be written is the user's choice; one that fills up is the storage's.
    # Where nothing can be written at the temporary folder, Python takes the system's.
    right = {"reports": (2, 4), "temporary": (0,)}.get(place, codes) if scene == READ_ONLY else codes
    if place == "cache" and scene == READ_ONLY:  # then it is a folder of the user's own among the temporary ones
        others = tuple(file for file in outcome.left_files if not file.startswith(f"cs_input_analyzer-{os.getuid()}"))
        assert others != outcome.left_files
        outcome = replace(outcome, left_files=others)
    judge(outcome, right)

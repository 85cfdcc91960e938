"""Data and machines that turn against a run: nothing measured is lost, one line says what and where, nothing is left behind.

Nothing is feigned but /proc: the kernel refuses the file, cuts it, fills the disk, kills the worker. As in `test_bad_input`, the
runs are started a few at a time before the first test, because each waits for TensorFlow's import; each test judges one.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import make_work_plan

from cs_input_analyzer.engines import LaunchResult, LocalLauncher
from cs_input_analyzer.machines.counters import read_counters
from cs_input_analyzer.records import Layout
from cs_input_analyzer.worker.journal import JournalError, JournalWriter, read_journal
from tests.functional.running import BRIEF, QUICK, ROOT, Outcome, run_cli

pytestmark = [pytest.mark.tf, pytest.mark.slow, pytest.mark.timeout(900)]

FUNCTIONS = Path(__file__).with_name("hostile_functions.py")
CPUS = sorted(os.sched_getaffinity(0))
AT_ONCE = 2  # a third one beside them, and beside other tests, is not done with its launch in time
# For the first launch of a busy machine; nothing is launched after it. 16 seconds were too few on a slow hour.
SHORT = ("--max-seconds", "40")
TWO_WORKERS = ("--cpus", "2", "--probe-layouts", "1x1x1,1x2x1", "--max-seconds", "40")
# For what is ended at its deadline, which is waited for.
BLOCKING = ("--max-seconds", "20")
FIVE_SHARDS = 5

# Root reads whatever it likes, by two capabilities. Without them, which cannot be had again, it is refused like anybody.
OBEYING_MODES = """
import ctypes, os, sys
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, PR_CAPBSET_DROP = 1, 2, 24
if os.geteuid() == 0:
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        if ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            sys.exit("these capabilities cannot be dropped")
os.execv(sys.argv[1], sys.argv[1:])
"""
# A file system of our own under $TMPDIR, in which two pages are free: enough to begin with.
FULL_TMPDIR = 'mount -t tmpfs -o size=64k none "$TMPDIR" && head -c 57344 /dev/zero >"$TMPDIR/data" && exec "$@"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A run and what must come of it. `prepare` fills the data folder; `says` are patterns on stderr; `holds` judges the rest.

    `is_long`: left to `make test-long`.
    """

    name: str
    function: str
    code: int
    says: tuple[str, ...] = ()
    arguments: tuple[str, ...] = SHORT
    prepare: Callable[[Path], None] = lambda data: None
    within: Callable[[], tuple[str, ...]] = tuple
    is_long: bool = True
    holds: Callable[[Outcome], None] = lambda outcome: None


# --- the scene ---------------------------------------------------------------------------------------------------------------


def shards(count: int, records: int = 3000, forbidden: int | None = None) -> Callable[[Path], None]:
    """TFRecord files of `records` records of 100 bytes each; nobody may read the one numbered `forbidden`."""

    def write(data: Path) -> None:
        import tensorflow as tf

        for shard in range(count):
            with tf.io.TFRecordWriter(str(data / f"part-{shard}.tfrecord")) as writer:
                for _ in range(records):
                    writer.write(b"x" * 100)
        if forbidden is not None:
            (data / f"part-{forbidden}.tfrecord").chmod(0)

    return write


def obeying_modes() -> tuple[str, ...]:
    return (sys.executable, "-c", OBEYING_MODES)


def with_full_tmpdir() -> tuple[str, ...]:
    return ("unshare", "--mount", "sh", "-c", FULL_TMPDIR, "sh")


@functools.cache
def refusal_of(within: Callable[[], tuple[str, ...]]) -> str:
    """Why this scene cannot be set here; empty where it can."""
    command = [*within(), sys.executable, "-c", "pass"]
    if shutil.which(command[0]) is None:
        return f"no {command[0]} here"
    scratch = Path(os.environ["XDG_CACHE_HOME"]) / "scene"
    scratch.mkdir(exist_ok=True)
    tried = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "TMPDIR": str(scratch)})
    return "" if tried.returncode == 0 else tried.stderr.strip() or f"{command[0]} failed"


# --- what must hold of the outcome -------------------------------------------------------------------------------------------


def first_launch(outcome: Outcome) -> dict[str, Any]:
    found: dict[str, Any] = outcome.run["measurements"][0]
    return found


def first_worker(outcome: Outcome) -> dict[str, Any]:
    worker: dict[str, Any] = first_launch(outcome)["workers"][0]
    return worker


def has_rate(worker: dict[str, Any]) -> bool:
    rate = worker["samples_per_s"]
    return rate is not None and 0 < rate["low"] <= rate["estimate"] <= rate["high"]


def two_workers(outcome: Outcome) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The launch of two workers, and both."""
    launch = next(m for m in outcome.run["measurements"] if m["layout"]["tasks_per_node"] == 2)
    first, second = launch["workers"]
    return launch, first, second


def codes(outcome: Outcome) -> set[str]:
    return {finding["code"] for finding in outcome.run["findings"]}


def finding(outcome: Outcome, code: str) -> dict[str, Any]:
    return next(finding for finding in outcome.run["findings"] if finding["code"] == code)


def clean(outcome: Outcome) -> None:
    worker = first_worker(outcome)
    assert (worker["status"], worker["message"]) == ("done", "")
    assert has_rate(worker)
    assert "CSI501" not in codes(outcome)


def forbidden_on_the_way(outcome: Outcome) -> None:
    worker = first_worker(outcome)
    assert worker["status"] == "data_error"
    assert has_rate(worker)
    assert re.fullmatch(r"after 1499 batches: \S+/part-1\.tfrecord; Permission denied", worker["message"])
    assert finding(outcome, "CSI501")["severity"] == "error"
    assert "Permission denied" in " ".join(outcome.out.split())


def forbidden_to_the_second(outcome: Outcome) -> None:
    launch, first, second = two_workers(outcome)
    assert (first["status"], second["status"]) == ("done", "lost")
    assert has_rate(first)
    assert launch["samples_per_s"]["estimate"] == pytest.approx(first["samples_per_s"]["estimate"])
    assert re.search(r"part-1\.tfrecord; Permission denied", second["message"])
    assert re.search("worker 1 of layout 1x2x1 .*Permission denied", finding(outcome, "CSI502")["message"])


def shrunk(outcome: Outcome) -> None:
    worker = first_worker(outcome)
    assert worker["status"] == "data_error"
    assert has_rate(worker)
    assert re.fullmatch(
        r"after \d+ batches: truncated record at .* "
        r"\(\S+/part-0\.tfrecord had 580000 bytes when the pipeline was built and has 400050 now: something writes to it\)",
        worker["message"],
    )
    assert finding(outcome, "CSI501")["severity"] == "error"
    assert outcome.run["pipeline"]["files"]["bytes"] == 580_000


def without_what_proc_tells(outcome: Outcome) -> None:
    clean(outcome)
    worker = first_worker(outcome)
    for name in ("private_bytes", "shared_bytes", "pss_bytes", "peak_rss_bytes"):
        assert worker[name] is None, name
    assert worker["bytes_read_per_sample"] == 0  # no op of it reads: that is known without the kernel
    for name in ("run_queue_wait_ratio", "steal_ratio", "pressure_ratio"):
        assert worker["noise"][name] is None, name
    assert worker["cpu_s_per_sample"] > 0  # from a system call


def only_its_end_lost(outcome: Outcome) -> None:
    worker = first_worker(outcome)
    assert worker["status"] == "lost"
    assert has_rate(worker)
    assert re.match("what a worker measured could not be written down: file too large in .*set TMPDIR", worker["message"])
    assert finding(outcome, "CSI502")["severity"] == "warning"


def printed_and_saved(outcome: Outcome) -> None:
    assert "samples/s" in outcome.out
    assert has_rate(first_worker(outcome))  # the other file was written
    assert not re.search("html written to", outcome.err)
    assert re.search("json written to", outcome.err)


def printed_though_quiet(outcome: Outcome) -> None:
    assert "samples/s" in outcome.out


def read_again_and_again(outcome: Outcome) -> None:
    clean(outcome)
    assert finding(outcome, "CSI302")["evidence"]["elements_per_pass"] == 1
    assert first_worker(outcome)["steady_state"]["epochs"] > 1


def read_without_end(outcome: Outcome) -> None:
    clean(outcome)
    assert "CSI302" not in codes(outcome)
    assert first_worker(outcome)["steady_state"]["epochs"] == 0


def big_but_bounded(outcome: Outcome) -> None:
    clean(outcome)
    worker = first_worker(outcome)
    assert worker["bytes_out_per_sample"] == 3e8
    assert 3e8 < worker["peak_rss_bytes"] < 1e9 + 6 * 3e8  # TensorFlow, and the few that the pipeline itself holds
    assert outcome.peak_bytes < 250e6


def kept_until_it_blocked(outcome: Outcome) -> None:
    worker = first_worker(outcome)
    assert (worker["status"], worker["message"]) == ("deadline", "ended by us at its deadline while sampling")
    assert has_rate(worker)
    assert worker["samples_per_s"]["estimate"] < 110  # a hundredth of a second each
    assert 0 < worker["steady_state"]["batches"] < 60
    rows = {op["name"]: op for op in outcome.run["profile"]["ops"]}
    assert rows["from_generator"]["wait_s_per_sample"] > 0.001  # what it cost was told on the way
    assert "CSI502" in codes(outcome)


def second_blocks(outcome: Outcome) -> None:
    _, first, second = two_workers(outcome)
    assert (first["status"], second["status"]) == ("done", "deadline")
    assert has_rate(first)
    assert has_rate(second)
    assert first["steady_state"]["batches"] > second["steady_state"]["batches"]
    assert re.search("worker 1 of layout 1x2x1", finding(outcome, "CSI502")["message"])


def second_killed(outcome: Outcome) -> None:
    _, first, second = two_workers(outcome)
    assert (first["status"], second["status"]) == ("done", "lost")
    assert re.search("killed by signal 9 while sampling.*memory", second["message"])
    assert has_rate(first)
    assert has_rate(second)
    assert second["steady_state"]["batches"] < 800
    found = finding(outcome, "CSI502")
    assert found["severity"] == "warning"
    assert re.search("worker 1 of layout 1x2x1 .*killed by signal 9", found["message"])
    assert "worker 1" in outcome.out


DATA = "--set", "folder={data}"
CASES = (
    Case(
        name="one shard forbidden",
        is_long=False,
        function="reads_shards",
        arguments=(*SHORT, *DATA),
        prepare=shards(FIVE_SHARDS, forbidden=1),
        within=obeying_modes,
        code=0,
        holds=forbidden_on_the_way,
    ),
    Case(
        name="the only shard forbidden",
        function="reads_shards",
        arguments=(*SHORT, *DATA, "--cache", "cold"),
        prepare=shards(1, forbidden=0),
        within=obeying_modes,
        code=3,
        says=(r"part-0\.tfrecord; Permission denied",),
    ),
    Case(
        name="one worker's shard forbidden",
        function="own_shard",
        arguments=(*TWO_WORKERS, *DATA),
        prepare=shards(2, forbidden=1),
        within=obeying_modes,
        code=0,
        holds=forbidden_to_the_second,
    ),
    Case(name="a file shrinks", function="shrinks", arguments=(*SHORT, *DATA), prepare=shards(1, 5000), code=0, holds=shrunk),
    Case(name="no /proc", function="without_proc", code=0, holds=without_what_proc_tells),
    Case(name="the disk fills", is_long=False, function="fills_the_disk", code=0, holds=only_its_end_lost),
    Case(
        name="temporary files on a full disk",
        is_long=False,
        function="one_element_repeated",
        within=with_full_tmpdir,
        code=4,
        says=(r"no space left on device in \S+temporary; free some space there, or set TMPDIR",),
    ),
    Case(
        name="results on a full disk",
        function="one_element_repeated",
        arguments=(*SHORT, "--html", "/dev/full"),
        code=4,
        says=("cannot write /dev/full: no space left on device; .*free some space or give another path",),
        holds=printed_and_saved,
    ),
    Case(
        name="results on a full disk, quietly",
        function="one_element_repeated",
        arguments=(*SHORT, "--csv", "/dev/full", "--quiet"),
        code=4,
        says=("cannot write /dev/full",),
        holds=printed_though_quiet,
    ),
    Case(name="one element", function="one_element", code=0, holds=read_again_and_again),
    Case(name="one element, repeated", function="one_element_repeated", code=0, holds=read_without_end),
    Case(
        name="elements of 300 MB",
        function="huge_elements",
        arguments=(*SHORT, "--set", "megabytes=300"),
        code=0,
        holds=big_but_bounded,
    ),
    Case(
        name="elements of 300 MB, shuffled",
        function="huge_elements",
        arguments=(*SHORT, "--set", "megabytes=300", "--set", "shuffle=100", "--worker-memory", "2GB"),
        code=3,
        says=("the worker was lost: ended while waiting for the first batch: it used more memory than allowed",),
    ),
    Case(
        name="blocks at once",
        function="blocks_at_once",
        arguments=("--max-seconds", "8"),
        code=3,
        says=("hung: a worker was ended by us at its deadline while waiting for the first batch; --max-seconds is 8",),
    ),
    Case(name="blocks later", function="blocks_later", arguments=BLOCKING, code=0, holds=kept_until_it_blocked),
    Case(
        name="the second worker blocks",
        function="blocks_as_second_worker",
        arguments=(*TWO_WORKERS, "--max-seconds", "25"),
        code=0,
        holds=second_blocks,
    ),
    Case(
        name="the second worker is killed",
        is_long=False,
        function="killed_as_second_worker",
        arguments=TWO_WORKERS,
        code=0,
        holds=second_killed,
    ),
)


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """The runs of the cases that this session will judge."""
    items = [item for item in request.session.items if item.path == request.path and isinstance(item, pytest.Function)]
    params = [item.callspec.params for item in items if hasattr(item, "callspec")]
    cases = [case for param in params if (case := param.get("case")) and not (case.within() and refusal_of(case.within))]
    folders = {case.name: tmp_path_factory.mktemp("case") for case in cases}
    for case in cases:
        (folders[case.name] / "data").mkdir()
        case.prepare(folders[case.name] / "data")

    def run(case: Case, cpu: int) -> Outcome:
        folder = folders[case.name]
        told = [argument.format(data=folder / "data") for argument in case.arguments]
        arguments = ["analyze", f"{FUNCTIONS}:{case.function}", *QUICK, *told]
        pinned = None if "--cpus" in case.arguments else cpu
        return run_cli(arguments, folder, cpu=pinned, within=case.within(), program=BRIEF)

    # Those that wait the longest first.
    ordered = sorted(cases, key=lambda case: case.arguments[: len(TWO_WORKERS)] != TWO_WORKERS)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip([case.name for case in ordered], pool.map(run, ordered, itertools.cycle(CPUS)), strict=True))


@pytest.mark.parametrize("case", [pytest.param(one, id=one.name, marks=[pytest.mark.long] * one.is_long) for one in CASES])
def test_hostile_data(case: Case, outcomes: dict[str, Outcome]) -> None:
    if case.within() and refusal_of(case.within):
        pytest.skip(refusal_of(case.within))
    outcome = outcomes[case.name]
    told = f"exit {outcome.code}\n{outcome.err[-3000:]}"
    assert outcome.code == case.code, told
    for pattern in case.says:
        assert re.search(pattern, outcome.err), f"{pattern!r} is not in: {told}"
    for own in ("/cs_input_analyzer/worker/", "Traceback", "0000 00:00"):
        assert own not in outcome.out + outcome.err, told
    if case.code:  # one line says it, after those of the progress
        assert re.match("cs_input_analyzer: ", outcome.err.rstrip().splitlines()[-1]), told
    if case.code == 3:
        assert outcome.out == ""
    assert outcome.left_processes == ()
    assert outcome.left_files == ()
    assert outcome.is_tree_untouched
    case.holds(outcome)


# --- from outside ------------------------------------------------------------------------------------------------------------


def killed_while_sampling(launcher: LocalLauncher) -> LaunchResult:
    """A launch of two; the second is killed from outside, as by the kernel, when it has told of some batches."""
    handle = launcher.start(Layout.parse("1x2x1"))
    plan = make_work_plan(
        f"{FUNCTIONS}:one_element_repeated",
        workers=2,
        target_error_ratio=1e-9,
        min_window_s=2.0,
        max_window_s=4.0,
        deadline_s=launcher.now_s() + 60.0,
    )
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(launcher.run, handle, plan)
        second = handle.processes[1]
        events = second.folder / "events.jsonl"
        until_s = time.monotonic() + 50.0
        while time.monotonic() < until_s and not running.done():
            if events.exists() and events.read_bytes().count(b'"chunk"') >= 4:
                os.kill(second.pid, signal.SIGKILL)
                break
            time.sleep(0.05)
        return running.result()


def test_a_worker_killed_from_outside_leaves_what_it_measured() -> None:
    launcher = LocalLauncher(cpu_budget=min(2, len(CPUS)))
    try:
        launched = killed_while_sampling(launcher)
    finally:
        launcher.close()
    first, second = launched.measurement.workers
    assert (first.status, second.status) == ("done", "lost")
    assert "killed by signal 9 while sampling" in second.message
    assert first.samples_per_s is not None
    assert second.samples_per_s is not None
    assert first.steady_state is not None
    assert first.steady_state.window_s > 1.0  # of 4: the other's end did not shorten it
    assert launched.failure is None
    assert launched.profile is not None


# --- without measuring -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run_file(outcomes: dict[str, Outcome], tmp_path_factory: pytest.TempPathFactory) -> Path:
    saved = next((outcome.run for outcome in outcomes.values() if outcome.run is not None), None)
    if saved is None:
        pytest.skip("no run of this session was saved")
    path = tmp_path_factory.mktemp("saved") / "run.json"
    path.write_text(json.dumps(saved))
    return path


@pytest.mark.parametrize("arguments", [(), ("--format", "json"), ("--format", "html")])
def test_a_full_disk_behind_standard_output(arguments: tuple[str, ...], run_file: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "cs_input_analyzer", "report", str(run_file), *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
    assert done.returncode == 4, done.stderr
    assert done.stderr.splitlines() == [
        "cs_input_analyzer: the report could not be printed: no space left on device; "
        "free some space there, or save it with --json FILE elsewhere"
    ]


@pytest.mark.parametrize(("record_bytes", "records_per_batch"), [(100, 64), (4 << 20, 16), (40 << 20, 1)])
def test_the_readers_alone_hold_no_more_than_the_pipeline(record_bytes: int, records_per_batch: int, tmp_path: Path) -> None:
    """Many small records are read at once, so that the loop's own cost does not count; of huge ones that would fill the memory."""
    import tensorflow as tf

    from cs_input_analyzer.worker.cuts import sample_readers

    path = str(tmp_path / "part-0.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for _ in range(3):
            writer.write(bytes(record_bytes))
    sample_readers(JournalWriter(tmp_path), tf.data.TFRecordDataset(path).map(tf.strings.length).batch(8))
    told = read_journal(tmp_path).last("source")
    assert told is not None
    assert told["message"] == ""
    assert told["records_per_batch"] == records_per_batch
    assert told["window"]["estimate"] > 0


@pytest.mark.parametrize("full", ["events.jsonl", "stamps.f64", "samples.i64"])
def test_a_journal_that_cannot_be_written_says_so(full: str, tmp_path: Path) -> None:
    """What was written before it stands; a chunk of which a part is missing does not count."""
    counters = read_counters()
    (tmp_path / full).symlink_to("/dev/full")
    journal = JournalWriter(tmp_path)
    if full != "events.jsonl":
        journal.event("sampling", counters=asdict(counters))
    with pytest.raises(JournalError, match="No space left on device"):
        journal.chunk(np.array([1.0, 2.0]), np.array([8, 8]), counters)
    (tmp_path / full).unlink()
    left = read_journal(tmp_path)
    assert len(left.events) == (full != "events.jsonl")
    assert len(left.stamps_s) == 0


def test_a_folder_for_the_journal_that_is_gone_says_so(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="No such file"):
        JournalWriter(tmp_path / "gone")

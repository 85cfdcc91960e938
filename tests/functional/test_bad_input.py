"""Everything that users get wrong, through the command line: one clear message, the promised exit code, and nothing left behind.

What ends before a worker starts runs in this process. The other runs are started a few at a time before the first test, because
each waits for TensorFlow's import; each test judges one.
"""

from __future__ import annotations

import itertools
import os
import re
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.functional.running import BRIEF, FUNCTIONS, QUICK, Outcome, Stop, run_cli, run_here

CPUS = sorted(os.sched_getaffinity(0))
AT_ONCE = 4  # two of the first four only wait
TWO_LAYOUTS = ("--cpus", "2", "--probe-layouts", "1x1x1,1x2x1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A run and what must come of it. `prepare` fills the user's folder; `says` are patterns on stderr; `holds` judges the rest.

    `is_long`: left to `make test-long`.
    """

    name: str
    function: str = ""
    target: str = ""
    code: int
    says: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    prepare: Callable[[Path], None] = lambda users: None
    stop: Stop | None = None
    is_long: bool = False
    holds: Callable[[Outcome], None] = lambda outcome: None


# --- the user's folder -------------------------------------------------------------------------------------------------------


def records(count: int, corrupt: int | None = None) -> Callable[[Path], None]:
    """A TFRecord file of `count` records; the one numbered `corrupt` fails its checksum."""

    def write(users: Path) -> None:
        import tensorflow as tf

        (users / "records").mkdir(parents=True)
        path = users / "records" / "part-0.tfrecord"
        with tf.io.TFRecordWriter(str(path)) as writer:
            for _ in range(count):
                writer.write(b"x" * 100)
        if corrupt is not None:
            content = bytearray(path.read_bytes())
            content[corrupt * 116 + 12 + 50] ^= 0xFF
            path.write_bytes(bytes(content))

    return write


def file(name: str, content: str) -> Callable[[Path], None]:
    def write(users: Path) -> None:
        users.mkdir(parents=True)
        (users / name).write_text(content)

    return write


def half_a_cache(users: Path) -> None:
    """A folder of the user's, with what a killed training left in it."""
    (users / "cache").mkdir(parents=True)
    (users / "cache" / "store_0.lockfile").write_text("Created at: 1700000000")


# --- what must hold of the outcome -------------------------------------------------------------------------------------------


def finding(outcome: Outcome, code: str) -> dict[str, Any]:
    found = [finding for finding in outcome.run["findings"] if finding["code"] == code]
    assert found, outcome.run["findings"]
    return found[0]


def dataset_ends(outcome: Outcome) -> None:
    assert finding(outcome, "CSI302")["severity"] == "warning"
    worker = outcome.run["measurements"][0]["workers"][0]
    assert worker["samples_per_s"]["estimate"] > 0
    assert worker["samples_per_s"]["low"] <= worker["samples_per_s"]["estimate"] <= worker["samples_per_s"]["high"]
    assert worker["steady_state"]["epochs"] > 0
    assert "CSI302" in outcome.out


def corrupt_half_way(outcome: Outcome) -> None:
    found = finding(outcome, "CSI501")
    assert found["severity"] == "error"
    assert re.fullmatch(
        r"worker 0 met an element that cannot be read, after 149 batches: corrupted record at \d+.*", found["message"]
    )
    worker = outcome.run["measurements"][0]["workers"][0]
    assert worker["status"] == "data_error"
    assert worker["samples_per_s"]["estimate"] > 0
    assert "CSI501" in outcome.out


def own_frames_only(outcome: Outcome) -> None:
    assert f'File "{FUNCTIONS}", line' in outcome.err
    assert "in _picky" in outcome.err
    files = set(re.findall(r'File "([^"]+)", line', outcome.err))
    assert files == {str(FUNCTIONS)}


def small_parent(outcome: Outcome) -> None:
    assert outcome.run["measurements"][0]["samples_per_s"]["estimate"] > 0
    assert outcome.peak_bytes < 250e6  # 200 MB were printed on top of some 100 of its own
    assert "xxxx" not in outcome.out + outcome.err


def measured(outcome: Outcome) -> None:
    assert outcome.run["measurements"][0]["workers"][0]["status"] == "done"
    assert outcome.run["measurements"][0]["samples_per_s"]["estimate"] > 0
    assert outcome.run["interrupted"] is False


def has_rate(outcome: Outcome) -> None:
    assert outcome.run["measurements"][0]["samples_per_s"]["estimate"] > 0
    assert outcome.run["budget"]["import_s"] > 10


def second_worker_lost(outcome: Outcome) -> None:
    found = finding(outcome, "CSI502")
    assert found["severity"] == "warning"
    assert "shard 1 is not mounted" in found["message"]
    launches = [measurement for measurement in outcome.run["measurements"] if measurement["layout"]["tasks_per_node"] == 2]
    assert launches
    for launch in launches:
        first, second = launch["workers"]
        assert (first["status"], second["status"]) == ("done", "lost")
        assert first["samples_per_s"]["estimate"] == pytest.approx(launch["samples_per_s"]["estimate"])
        assert second["samples_per_s"] is None


def interrupted_with_numbers(outcome: Outcome) -> None:
    assert outcome.run["interrupted"] is True
    assert outcome.run["measurements"][0]["samples_per_s"]["estimate"] > 0
    assert "interrupted" in outcome.err


def nothing_written(outcome: Outcome) -> None:
    assert outcome.run is None


RAISES_AT_IMPORT = "import no_such_dependency\n\ndef train_input_fn():\n    pass\n"
WRONG_SYNTAX = "def train_input_fn(:\n    pass\n"
SCRIPT = "import sys\n\ndef train_input_fn():\n    pass\n\nsys.exit(3)\n"

# What is refused before anything is imported.
EARLY = (
    Case(name="no such file", target="nowhere.py:train_input_fn", code=2, says=("no file nowhere.py",), holds=nothing_written),
    Case(name="not a target", target="just words", code=2, says=("package.module:function",)),
    Case(name="no params file", function="endless", arguments=("--params", "p.yaml"), code=2, says=("no file p.yaml",)),
    Case(
        name="params are not yaml",
        function="endless",
        arguments=("--params", "p.yaml"),
        prepare=file("p.yaml", "train_input: [1,\n"),
        code=2,
        says=("p.yaml is not YAML",),
    ),
    Case(name="no nodes", function="endless", arguments=("--nodes", "0"), code=2, says=("nodes",), holds=nothing_written),
    Case(
        name="fewer than no CPUs",
        function="endless",
        arguments=("--cpus-per-node", "-4"),
        code=2,
        says=("--cpus-per-node -4: must be 1 or more",),
        holds=nothing_written,
    ),
    Case(name="no memory", function="endless", arguments=("--memory-per-node", "0GiB"), code=2, says=("memory",)),
    Case(name="more CPUs than there are", function="endless", arguments=("--cpus", "100000"), code=2, says=("--cpus 100000",)),
    Case(name="no such cluster", function="endless", arguments=("--cluster", "atlantis"), code=2, says=("atlantis",)),
    Case(name="no demand at all", function="endless", arguments=("--demand", "-1"), code=2, says=("demand",)),
    Case(name="no such folder", function="endless", arguments=("--html", "nowhere/a.html"), code=2, says=("nowhere",)),
)
CASES = (
    Case(name="no such module", target="no_such_package.data:train_input_fn", code=2, says=("no module 'no_such_package'",)),
    # the target
    Case(
        name="no such function",
        is_long=True,
        function="no_such_function",
        code=2,
        says=("has no 'no_such_function'; it has: blocks_after",),
    ),
    Case(
        name="import fails",
        target="data.py:train_input_fn",
        prepare=file("data.py", RAISES_AT_IMPORT),
        code=2,
        says=("cannot be imported", "no_such_dependency", r"data\.py:1"),
    ),
    Case(
        name="wrong syntax",
        is_long=True,
        target="data.py:train_input_fn",
        prepare=file("data.py", WRONG_SYNTAX),
        code=2,
        says=("cannot be imported", "SyntaxError", r"data\.py"),
    ),
    Case(
        name="a script without a guard",
        target="data.py:train_input_fn",
        prepare=file("data.py", SCRIPT),
        code=2,
        says=("sys.exit", "__main__"),
    ),
    Case(name="wrong signature", is_long=True, function="wants_the_impossible", code=2, says=("tokenizer, vocabulary",)),
    Case(name="returns nothing", is_long=True, function="returns_nothing", code=2, says=("returned nothing", "return")),
    Case(name="returns tensors", is_long=True, function="returns_tensors", code=2, says=("not the tensors",)),
    Case(name="returns an iterator", is_long=True, function="returns_an_iterator", code=2, says=("not an iterator",)),
    # the data
    Case(name="no file matches", function="no_file_matches", code=2, says=(r"no file matches: shards/part-\*\.tfrecord \(",)),
    Case(name="a missing file", is_long=True, function="missing_file", code=2, says=("no file matches", "shards/part-0.tfrecord")),
    Case(name="empty", function="empty", code=3, says=("no element",), holds=nothing_written),
    Case(name="ends", is_long=True, function="ends", code=0, holds=dataset_ends),
    Case(name="corrupt half-way", function="reads_records", prepare=records(400, corrupt=300), code=0, holds=corrupt_half_way),
    Case(
        name="corrupt at once",
        is_long=True,
        function="reads_records",
        prepare=records(10, corrupt=0),
        code=3,
        says=("corrupted record",),
    ),
    # the function
    Case(name="raises", function="raises", code=3, says=("the crop is larger than the picture",), holds=own_frames_only),
    Case(name="a generator raises", is_long=True, function="raises_while_iterating", code=3, says=("the database went away",)),
    Case(
        name="hangs",
        is_long=True,
        function="hangs",
        arguments=("--start-timeout", "30"),
        code=3,
        says=("hung: .* --start-timeout is 30",),
    ),
    Case(
        name="a generator blocks",
        function="generator_blocks",
        arguments=("--max-seconds", "8"),
        code=3,
        says=("hung: .* --max-seconds is 8",),
    ),
    Case(name="slow to build", is_long=True, function="slow_to_build", arguments=("--max-seconds", "8"), code=0, holds=has_rate),
    Case(name="sys.exit", function="calls_sys_exit", code=3, says=("sys.exit",)),
    Case(name="os._exit", is_long=True, function="calls_os_exit", code=3, says=("exited with status 0", "building")),
    Case(name="dies of a signal", function="dies_of_a_signal", code=3, says=("lost: killed by signal 11",)),
    Case(name="eats memory", function="eats_memory", arguments=("--worker-memory", "1500MB"), code=3, says=("more memory",)),
    Case(name="prints a lot", is_long=True, function="prints_a_lot", code=0, holds=small_parent),
    Case(name="forks", is_long=True, function="forks", code=0, holds=measured),
    Case(name="hangs at shutdown", is_long=True, function="numpy_function_and_threads", code=0, holds=measured),
    # several workers, and what ends a run from outside
    Case(
        name="one worker lost",
        is_long=True,
        function="fails_as_second_worker",
        arguments=TWO_LAYOUTS,
        code=0,
        holds=second_worker_lost,
    ),
    Case(
        name="Ctrl-C",
        function="caches_in_a_file",
        arguments=(*TWO_LAYOUTS, "--max-seconds", "60", "--target-error", "0.0001"),
        prepare=half_a_cache,
        stop=Stop(number=signal.SIGINT, text="measuring 1x2x1", wait_s=1.0),
        code=130,
        holds=interrupted_with_numbers,
    ),
    Case(
        name="scancel before anything was measured",
        function="endless",
        stop=Stop(number=signal.SIGTERM, text="importing TensorFlow", wait_s=0.5),
        code=130,
        says=("interrupted before anything was measured",),
        holds=nothing_written,
    ),
    Case(
        name="kill -9",
        is_long=True,
        function="caches_in_a_file",
        arguments=("--max-seconds", "60", "--target-error", "0.0001"),
        prepare=half_a_cache,
        stop=Stop(number=signal.SIGKILL, text="measuring 1x1x1", wait_s=6.0),
        code=-signal.SIGKILL,
    ),
)


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """The runs of the cases that this session will judge."""
    items = [item for item in request.session.items if item.path == request.path and isinstance(item, pytest.Function)]
    cases = [item.callspec.params["case"] for item in items if item.originalname == "test_bad_input"]
    folders = {case.name: tmp_path_factory.mktemp("case") for case in cases}
    for case in cases:
        case.prepare(folders[case.name] / "users")

    def run(case: Case, cpu: int) -> Outcome:
        arguments = ["analyze", case.target or f"{FUNCTIONS}:{case.function}", *QUICK, *case.arguments]
        program = "cs_input_analyzer" if case.stop else BRIEF  # one that is to be stopped must not be over before
        pinned = None if "--cpus" in case.arguments else cpu
        return run_cli(arguments, folders[case.name], stop=case.stop, cpu=pinned, program=program)

    # Those that wait the longest first.
    ordered = sorted(cases, key=lambda case: not (case.stop or {"--max-seconds", "--start-timeout"}.intersection(case.arguments)))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip([case.name for case in ordered], pool.map(run, ordered, itertools.cycle(CPUS)), strict=True))


@pytest.mark.parametrize("case", EARLY, ids=lambda case: case.name)
def test_bad_input_that_no_worker_is_needed_for(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case.prepare(tmp_path / "users")
    arguments = ["analyze", case.target or f"{FUNCTIONS}:{case.function}", *QUICK, *case.arguments]
    check(case, run_here(arguments, tmp_path, monkeypatch, capsys))


@pytest.mark.tf
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", [pytest.param(one, id=one.name, marks=[pytest.mark.long] * one.is_long) for one in CASES])
def test_bad_input(case: Case, outcomes: dict[str, Outcome]) -> None:
    check(case, outcomes[case.name])


def check(case: Case, outcome: Outcome) -> None:
    told = f"exit {outcome.code}\n{outcome.err[-3000:]}"
    assert outcome.code == case.code, told
    for pattern in case.says:
        assert re.search(pattern, outcome.err), f"{pattern!r} is not in: {told}"
    assert "/cs_input_analyzer/" not in "".join(re.findall(r'File "[^"]+"', outcome.err)), told
    assert "0000 00:00" not in outcome.err, told  # TensorFlow's chatter about itself
    assert outcome.left_processes == ()
    assert outcome.is_tree_untouched
    if case.code not in (0, 130, -signal.SIGKILL):
        assert outcome.out == ""
        assert "cs_input_analyzer: " in outcome.err or "Error: " in outcome.err, told
    if case.code != -signal.SIGKILL:  # nobody can tidy up after that
        assert outcome.left_files == ()
    case.holds(outcome)

"""Everything that users get wrong, through the command line: one clear message, the promised exit code, and nothing left behind."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from tests.functional.cases import (
    TWO_WORKERS,
    Case,
    data_error,
    done,
    finding,
    first_worker,
    has_rate,
    judge,
    nothing_written,
    outcomes_of,
    params,
    records,
    two_workers,
)
from tests.functional.running import FUNCTIONS, QUICK, Outcome, Stop, run_here

AT_ONCE = 4  # two of the first four only wait


@pytest.mark.parametrize(
    ("target", "arguments", "says"),
    [
        ("nowhere.py:train_input_fn", [], "no file nowhere.py"),
        ("just words", [], "package.module:function"),
        ("", ["--params", "p.yaml"], "no file p.yaml"),
        ("", ["--params", "wrong.yaml"], "wrong.yaml is not YAML"),
        ("", ["--nodes", "0"], "nodes"),
        ("", ["--cpus-per-node", "-4"], "--cpus-per-node -4: must be 1 or more"),
        ("", ["--memory-per-node", "0GiB"], "memory"),
        ("", ["--cpus", "100000"], "--cpus 100000"),
        ("", ["--cluster", "atlantis"], "atlantis"),
        ("", ["--demand", "-1"], "demand"),
        ("", ["--html", "nowhere/a.html"], "nowhere"),
    ],
)
def test_wrong_use(
    target: str,
    arguments: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "users").mkdir()
    (tmp_path / "users" / "wrong.yaml").write_text("train_input: [1,\n")
    given = ["analyze", target or f"{FUNCTIONS}:endless", *QUICK, "--full", *arguments]
    outcome = run_here(given, tmp_path, monkeypatch, capsys)
    judge(Case(name="", code=2, says=(re.escape(says),), holds=nothing_written), outcome)


def dataset_ends(outcome: Outcome) -> None:
    assert finding(outcome, "CSI302")["severity"] == "warning"
    assert has_rate(first_worker(outcome))
    assert first_worker(outcome)["steady_state"]["epochs"] > 0
    assert "CSI302" in outcome.out


def own_frames_only(outcome: Outcome) -> None:
    assert "in _picky" in outcome.err
    assert set(re.findall(r'File "([^"]+)", line', outcome.err)) == {str(FUNCTIONS)}


def small_parent(outcome: Outcome) -> None:
    done(outcome)
    assert outcome.peak_bytes < 250e6  # 200 MB were printed on top of some 100 of its own
    assert "xxxx" not in outcome.out + outcome.err


def slow_to_build(outcome: Outcome) -> None:
    assert has_rate(first_worker(outcome))
    assert outcome.run["budget"]["import_s"] > 10


def interrupted_with_numbers(outcome: Outcome) -> None:
    assert outcome.run["interrupted"] is True
    assert outcome.run["measurements"][0]["samples_per_s"]["estimate"] > 0
    assert "interrupted" in outcome.err


RAISES_AT_IMPORT = "import no_such_dependency\n\ndef train_input_fn():\n    pass\n"
WRONG_SYNTAX = "def train_input_fn(:\n    pass\n"
SCRIPT = "import sys\n\ndef train_input_fn():\n    pass\n\nsys.exit(3)\n"
USERS = "data.py:train_input_fn"
# What a killed training left behind.
HALF_A_CACHE = ("cache/store_0.lockfile", "Created at: 1700000000")
ENDLESS = ("--max-seconds", "60", "--target-error", "0.0001")

CASES = (
    # the target
    Case(name="no such module", target="no_such_package.data:train_input_fn", code=2, says=("no module 'no_such_package'",)),
    Case(name="no such function", function="no_such_function", code=2, says=("has no 'no_such_function'; it has: blocks_after",)),
    Case(
        name="import fails",
        target=USERS,
        users_file=("data.py", RAISES_AT_IMPORT),
        code=2,
        says=("cannot be imported", "no_such_dependency", r"data\.py:1"),
    ),
    Case(
        name="wrong syntax",
        target=USERS,
        users_file=("data.py", WRONG_SYNTAX),
        code=2,
        says=("cannot be imported", "SyntaxError", r"data\.py"),
    ),
    Case(name="a script without a guard", target=USERS, users_file=("data.py", SCRIPT), code=2, says=("sys.exit", "__main__")),
    Case(name="wrong signature", function="wants_the_impossible", code=2, says=("tokenizer, vocabulary",)),
    Case(name="returns nothing", function="returns_nothing", code=2, says=("returned nothing", "return")),
    Case(name="returns tensors", function="returns_tensors", code=2, says=("not the tensors",)),
    Case(name="returns an iterator", function="returns_an_iterator", code=2, says=("not an iterator",)),
    # the data
    Case(name="no file matches", function="no_file_matches", code=2, says=(r"no file matches: shards/part-\*\.tfrecord \(",)),
    Case(name="a missing file", function="missing_file", code=2, says=("no file matches", "shards/part-0.tfrecord")),
    Case(name="empty", function="empty", code=3, says=("no element",), holds=nothing_written),
    Case(name="ends", function="ends", code=0, holds=dataset_ends),
    Case(
        name="corrupt half-way",
        function="reads_records",
        arguments=("--set", "folder={data}"),
        prepare=records(400, corrupt=300),
        code=0,
        holds=lambda outcome: data_error(outcome, r"after 149 batches: corrupted record at \d+.*"),
    ),
    Case(
        name="corrupt at once",
        function="reads_records",
        arguments=("--set", "folder={data}"),
        prepare=records(10, corrupt=0),
        code=3,
        says=("corrupted record",),
    ),
    # the function
    Case(name="raises", function="raises", code=3, says=("the crop is larger than the picture",), holds=own_frames_only),
    Case(name="a generator raises", function="raises_while_iterating", code=3, says=("the database went away",)),
    Case(name="hangs", function="hangs", arguments=("--start-timeout", "30"), code=3, says=("hung: .* --start-timeout is 30",)),
    Case(
        name="a generator blocks",
        function="generator_blocks",
        arguments=("--max-seconds", "8"),
        code=3,
        says=("hung: .* --max-seconds is 8",),
    ),
    Case(name="slow to build", function="slow_to_build", arguments=("--max-seconds", "8"), code=0, holds=slow_to_build),
    Case(name="sys.exit", function="calls_sys_exit", code=3, says=("sys.exit",)),
    Case(name="os._exit", function="calls_os_exit", code=3, says=("exited with status 0", "building")),
    Case(name="dies of a signal", function="dies_of_a_signal", code=3, says=("lost: killed by signal 11",)),
    Case(name="eats memory", function="eats_memory", arguments=("--worker-memory", "1500MB"), code=3, says=("more memory",)),
    Case(name="prints a lot", function="prints_a_lot", code=0, holds=small_parent),
    Case(name="forks", function="forks", code=0, holds=lambda outcome: done(outcome) and None),
    Case(name="hangs at shutdown", function="numpy_function_and_threads", code=0, holds=lambda outcome: done(outcome) and None),
    # several workers, and what ends a run from outside
    Case(
        name="one worker lost",
        function="fails_as_second_worker",
        arguments=TWO_WORKERS,
        code=0,
        holds=lambda outcome: two_workers(outcome, "lost", "shard 1", "shard 1 is not mounted") and None,
    ),
    Case(
        name="Ctrl-C",
        function="caches_in_a_file",
        arguments=(*TWO_WORKERS, *ENDLESS),
        users_file=HALF_A_CACHE,
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
        function="caches_in_a_file",
        arguments=ENDLESS,
        users_file=HALF_A_CACHE,
        stop=Stop(number=signal.SIGKILL, text="measuring 1x1x1", wait_s=6.0),
        code=-signal.SIGKILL,
    ),
)


IN_MAKE_TEST = (
    *("no such module", "import fails", "a script without a guard", "no file matches", "empty", "corrupt half-way", "raises"),
    *("a generator blocks", "sys.exit", "dies of a signal", "eats memory", "Ctrl-C"),
    "scancel before anything was measured",
)


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    return outcomes_of(request, tmp_path_factory, AT_ONCE)


@pytest.mark.tf
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", params(CASES, *IN_MAKE_TEST))
def test_bad_input(case: Case, outcomes: dict[str, Outcome]) -> None:
    judge(case, outcomes[case.name])

"""Everything that users get wrong, through the command line: one clear message, the promised exit code, and nothing left behind."""

from __future__ import annotations

import re
import signal
from typing import Any

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
)
from tests.functional.running import FUNCTIONS, Outcome, Stop

AT_ONCE = 4  # each has one busy thread, and some only wait


def dataset_ends(outcome: Outcome) -> None:
    assert finding(outcome, "CSI302")["severity"] == "warning"
    assert has_rate(first_worker(outcome))
    assert first_worker(outcome)["steady_state"]["epochs"] > 0
    assert "CSI302" in outcome.out


def own_frames_only(outcome: Outcome) -> None:
    assert "in _picky" in outcome.err
    assert set(re.findall(r'File "([^"]+)", line', outcome.err)) == {str(FUNCTIONS)}


def slow_to_build(outcome: Outcome) -> None:
    assert has_rate(first_worker(outcome))
    assert outcome.run["budget"]["import_s"] > 10


def corrupt_half_way(outcome: Outcome) -> None:
    data_error(outcome, r"after 149 batches: TFRecordDataset in \S+\.py:\d+, \S+\.tfrecord: corrupted record at \d+.*")


def interrupted_with_numbers(outcome: Outcome) -> None:
    assert outcome.run["interrupted"] is True
    assert outcome.run["measurements"][0]["samples_per_s"]["estimate"] > 0
    assert "interrupted" in outcome.err


def of_a_store(outcome: Outcome) -> None:
    """With stock TensorFlow the files of an object store are listed, sized and read."""
    done(outcome)
    sizes = [400 * number * (500 + 16) for number in range(1, 5)]  # a record's frame has 16 bytes
    files = outcome.run["pipeline"]["files"]
    assert (files["count"], files["bytes"], files["directory"]) == (4, sum(sizes), "ram://bucket/train")
    assert (files["largest_bytes"], files["smallest_bytes"]) == (max(sizes), min(sizes))
    assert outcome.run["storage"]["file_system"] == "ram"
    assert outcome.run["storage"]["reads"] == []
    assert any("ram://bucket/train is in an object store" in what for what in outcome.run["budget"]["not_measured"])
    assert not any("was there when the pipeline was built" in line for line in outcome.out.splitlines())


# What a killed training left behind.
HALF_A_CACHE = ("cache/store_0.lockfile", "Created at: 1700000000")


def bad(name: str, function: str, code: int, *says: str, **others: Any) -> Case:
    return Case(name=name, function=function, code=code, says=says, **others)


DATA = ("--set", "folder={data}")
CASES = (
    # the target
    Case(
        name="import fails",
        target="data.py:train_input_fn",
        users_file=("data.py", "import no_such_dependency\n\ndef train_input_fn():\n    pass\n"),
        code=2,
        says=("cannot be imported", "no_such_dependency", r"data\.py:1"),
    ),
    bad("returns nothing", "returns_nothing", 2, "returned nothing", "return"),
    bad("returns tensors", "returns_tensors", 2, "not the tensors"),
    # the data
    bad("no file matches", "no_file_matches", 2, r"no file matches: shards/part-\*\.tfrecord \("),
    bad("empty", "empty", 3, "no element", holds=nothing_written),
    bad("ends", "ends", 0, holds=dataset_ends),
    bad("gives one once", "gives_one_once", 3, "ended after too few elements for a rate", holds=nothing_written),
    bad("corrupt half-way", "reads_records", 0, arguments=DATA, prepare=records(400, corrupt=300), holds=corrupt_half_way),
    bad("in a store", "reads_records_of_a_store", 0, arguments=("--set", "folder=ram://bucket/train"), holds=of_a_store),
    bad("corrupt at once", "reads_records", 3, "corrupted record", arguments=DATA, prepare=records(10, corrupt=0)),
    # the function
    bad("raises", "raises", 3, "the crop is larger than the picture", holds=own_frames_only),
    bad("hangs", "hangs", 3, "hung, or .* --start-timeout is 30", arguments=("--start-timeout", "30")),
    bad("a generator blocks", "generator_blocks", 3, "hung, or .* --max-seconds is 8", arguments=("--max-seconds", "8")),
    bad("slow to build", "slow_to_build", 0, arguments=("--max-seconds", "8"), holds=slow_to_build),
    bad("dies of a signal", "dies_of_a_signal", 3, "lost: killed by signal 11"),
    bad("eats memory", "eats_memory", 3, "more memory", arguments=("--worker-memory", "1500MB")),
    bad("forks", "forks", 0, holds=lambda outcome: done(outcome) and None),
    # what ends a run from outside
    bad(
        *("Ctrl-C", "caches_in_a_file", 130),
        arguments=(*TWO_WORKERS, "--max-seconds", "60", "--target-error", "0.0001"),
        users_file=HALF_A_CACHE,
        stop=Stop(number=signal.SIGINT, text="measuring 1x2x1", wait_s=1.0),
        holds=interrupted_with_numbers,
    ),
    bad(
        *("scancel before anything was measured", "endless", 130, "interrupted before anything was measured"),
        stop=Stop(number=signal.SIGTERM, text="importing TensorFlow", wait_s=0.5),
        holds=nothing_written,
    ),
)


IN_MAKE_TEST = ("import fails", "corrupt half-way", "in a store", "raises", "Ctrl-C")


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    return outcomes_of(request, tmp_path_factory, AT_ONCE)


@pytest.mark.tf
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", params(CASES, *IN_MAKE_TEST))
def test_bad_input(case: Case, outcomes: dict[str, Outcome]) -> None:
    judge(case, outcomes[case.name])

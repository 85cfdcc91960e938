"""Data and machines that turn against a run: nothing measured is lost, one line says what and where, nothing is left behind.

Nothing is feigned but /proc: the kernel refuses the file, cuts it, fills the disk, kills the worker.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest

from cs_input_analyzer.host.counters import CounterReader
from cs_input_analyzer.report.to_json import to_json
from cs_input_analyzer.worker.journal import EVENTS, JournalError, JournalWriter, read_journal
from tests.builders import make_analysis
from tests.functional.cases import (
    TWO_WORKERS,
    Case,
    data_error,
    done,
    finding,
    first_worker,
    has_rate,
    judge,
    outcomes_of,
    params,
    records,
    refusal_of,
    two_workers,
)
from tests.functional.running import ROOT, Outcome

pytestmark = [pytest.mark.tf, pytest.mark.slow, pytest.mark.timeout(900)]

FUNCTIONS = Path(__file__).with_name("hostile_functions.py")
AT_ONCE = 2  # a third one beside them, and beside other tests, is not done with its launch in time
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


def obeying_modes() -> tuple[str, ...]:
    return (sys.executable, "-c", OBEYING_MODES)


# --- what must hold of the outcome -------------------------------------------------------------------------------------------


def shrunk(outcome: Outcome) -> None:
    changed = r"had 580000 bytes when the pipeline was built and has \d{4,6} now: something writes to it"
    data_error(
        outcome,
        rf"after \d+ batches: TFRecordDataset in \S+\.py:\d+(?:, \S+)?: truncated record at .* \(\S+/part-0\.tfrecord {changed}\)",
    )
    assert outcome.run["pipeline"]["files"]["bytes"] == 580_000


def without_what_proc_shows(outcome: Outcome) -> None:
    worker = done(outcome)
    for name in ("private_bytes", "shared_bytes", "pss_bytes", "peak_rss_bytes"):
        assert worker[name] is None, name
    assert worker["bytes_read_per_sample"] == 0  # no op of it reads: that is known without the kernel
    for name in ("run_queue_wait_ratio", "steal_ratio", "others_ratio"):
        assert worker["noise"][name] is None, name
    assert worker["cpu_s_per_sample"] > 0  # from a system call


def only_its_end_lost(outcome: Outcome) -> None:
    worker = first_worker(outcome)
    assert worker["status"] == "lost"
    assert has_rate(worker)
    assert re.match("a worker could not write its results: file too large in .*set TMPDIR", worker["message"])
    assert finding(outcome, "CSI502")["severity"] == "warning"


def big_but_bounded(outcome: Outcome) -> None:
    worker = done(outcome)
    assert worker["bytes_out_per_sample"] == 3e8
    assert 3e8 < worker["peak_rss_bytes"] < 1e9 + 6 * 3e8  # TensorFlow, and the few that the pipeline itself holds
    assert outcome.peak_bytes < 250e6


def second_killed(outcome: Outcome) -> None:
    killed = "killed by signal 9"
    _, second = two_workers(outcome, "lost", f"{killed} while sampling.*memory", f"worker 1 of layout 1x2x1 .*{killed}")
    assert has_rate(second)
    assert second["steady_state"]["batches"] < 800
    assert "worker 1" in outcome.out


def hostile(name: str, function: str, code: int, *arguments: str, **others: Any) -> Case:
    return Case(name=name, file=FUNCTIONS, function=function, code=code, arguments=arguments, **others)


DATA = "--set", "folder={data}"
FORBIDDEN = r"after 5999 batches: TFRecordDataset in \S+\.py:\d+: \S+/part-1\.tfrecord; Permission denied"
CASES = (
    hostile(
        *("one shard forbidden", "reads_shards", 0, *DATA),
        prepare=records(3000, files=5, forbidden=1),
        within=obeying_modes,
        holds=lambda outcome: data_error(outcome, FORBIDDEN),
    ),
    hostile("a file shrinks", "shrinks", 0, *DATA, "--on-own-files", prepare=records(5000), holds=shrunk),
    hostile("no /proc", "without_proc", 0, holds=without_what_proc_shows),
    hostile("the disk fills", "fills_the_disk", 0, holds=only_its_end_lost),
    hostile("elements of 300 MB", "huge_elements", 0, *("--set", "megabytes=300"), holds=big_but_bounded),
    hostile("the second worker is killed", "killed_as_second_worker", 0, *TWO_WORKERS, holds=second_killed),
)


IN_MAKE_TEST = ("one shard forbidden", "the second worker is killed")


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    return outcomes_of(request, tmp_path_factory, AT_ONCE)


@pytest.mark.parametrize("case", params(CASES, *IN_MAKE_TEST))
def test_hostile_data(case: Case, outcomes: dict[str, Outcome]) -> None:
    if refusal_of(case.within):
        pytest.skip(refusal_of(case.within))
    outcome = outcomes[case.name]
    judge(case, outcome)
    assert "Traceback" not in outcome.out + outcome.err


# --- without measuring -------------------------------------------------------------------------------------------------------


def test_a_full_disk_behind_standard_output(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(to_json(make_analysis()))
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "cs_input_analyzer", "report", str(path)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
    assert done.returncode == 4, done.stderr
    assert done.stderr.splitlines()[-1:] == [
        "cs_input_analyzer: the report could not be printed: no space left on device; "
        "free some space there, or send it to a file elsewhere"
    ]


@pytest.mark.parametrize(("record_bytes", "records_per_batch"), [(100, 64), (4 << 20, 16), (40 << 20, 1)])
def test_the_readers_alone_hold_no_more_than_the_pipeline(record_bytes: int, records_per_batch: int, tmp_path: Path) -> None:
    """Many small records are read at once, so that the loop's own cost does not count; of huge ones that would fill the memory."""
    import tensorflow as tf

    from cs_input_analyzer.worker.parts import sample_readers

    path = str(tmp_path / "part-0.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for _ in range(3):
            writer.write(bytes(record_bytes))
    sample_readers(JournalWriter(tmp_path), tf.data.TFRecordDataset(path).map(tf.strings.length).batch(8))
    event = read_journal(tmp_path).last("source")
    assert event["records_per_batch"] == records_per_batch
    assert event["window"] is None or event["window"]["estimate"] > 0  # a busy host may have given too few batches for one


def test_a_journal_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    counters = CounterReader().read()
    (tmp_path / EVENTS).symlink_to("/dev/full")
    journal = JournalWriter(tmp_path)
    with pytest.raises(JournalError, match="No space left on device"):
        journal.chunk(np.array([1.0, 2.0]), np.array([8, 8]), counters, 2.0)
    (tmp_path / EVENTS).unlink()
    assert len(read_journal(tmp_path).stamps_s) == 0


def test_a_folder_for_the_journal_that_is_gone_says_so(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="No such file"):
        JournalWriter(tmp_path / "gone")


def _ignored(folder: Path, dataset: Any) -> list[dict[str, Any]]:
    """What the journal says of each `ignore_errors`."""
    from cs_input_analyzer.tfdata import graph
    from cs_input_analyzer.worker.parts import count_ignored

    folder = Path(mkdtemp(dir=folder))
    count_ignored(JournalWriter(folder), dataset, graph.ops_of(graph.graph_def_of(dataset)))
    event = read_journal(folder).last("ignored")
    return list(event["each"]) if event else []


def _failing(count: int = 10) -> Any:
    import tensorflow as tf

    numbers = tf.data.Dataset.range(count)
    return numbers.map(lambda n: tf.debugging.check_numerics(tf.math.log(tf.cast(n % 5, tf.float32)), "a bad number"))


def test_errors_that_are_ignored_are_counted_with_the_first_one(tmp_path: Path) -> None:
    import tensorflow as tf

    numbers = tf.data.Dataset.range(10)
    (found,) = _ignored(tmp_path, _failing().ignore_errors().batch(2))
    assert (found["elements"], found["dropped"]) == (10, 2)
    assert found["error"].startswith("a bad number")  # what failed, and not where
    (found,) = _ignored(tmp_path, numbers.ignore_errors().batch(2))
    assert (found["elements"], found["dropped"], found["error"]) == (10, 0, "")
    assert _ignored(tmp_path, numbers.batch(2)) == []


def test_what_is_filled_first_is_left_out_of_the_count(tmp_path: Path) -> None:
    (found,) = _ignored(tmp_path, _failing().repeat().shuffle(1 << 40).ignore_errors())
    assert found["dropped"] * 5 == pytest.approx(found["elements"], abs=5)
    (found,) = _ignored(tmp_path, _failing().shuffle(4).cache(str(tmp_path / "cache")).prefetch(1).ignore_errors())
    assert (found["elements"], found["dropped"]) == (10, 2)
    assert not list(tmp_path.glob("cache*"))


def test_a_count_that_hangs_or_cannot_be_made_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorflow as tf

    from cs_input_analyzer.worker import parts

    monkeypatch.setattr(parts, "IGNORED_S", 0.2)
    monkeypatch.setattr(parts, "IGNORED_PATIENCE_S", 0.2)
    release = threading.Event()  # a filter that drops all without end would take a CPU from all tests that follow
    hanging = tf.data.Dataset.range(1).map(lambda n: tf.numpy_function(lambda n: (release.wait(60), n)[1], [n], tf.int64))
    assert _ignored(tmp_path, hanging.ignore_errors()) == []
    release.set()

    def refuse(dataset: Any, op: str) -> Any:
        raise ValueError(op)

    monkeypatch.setattr(parts, "prefix_of", refuse)
    assert _ignored(tmp_path, _failing().ignore_errors()) == []

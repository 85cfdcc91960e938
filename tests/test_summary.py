"""What becomes of a worker's journal, whole or cut off anywhere. Journals are written by the worker's own writer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cs_input_analyzer.measure.counters import Counters, Memory, read_counters, read_memory
from cs_input_analyzer.measure.journal import EVENTS, STAMPS, Journal, JournalWriter, read_journal
from cs_input_analyzer.measure.summary import Ending, measurement_of, status_of, worker_result
from cs_input_analyzer.records import Layout

CLEAN = Ending(returncode=0, killed_for=None, output_tail="")
ZERO = Counters(cpu_s=0.0, read_bytes=0, physical_read_bytes=0, run_s=0.0, queued_s=0.0, host_cpu_s=0.0, host_steal_s=0.0)


def written(
    folder: Path,
    *,
    batches: int = 100,
    gap_s: float = 0.01,
    cpu_s_per_batch: float = 0.02,
    start_s: float = 1000.0,
    until: str = "done",
) -> Journal:
    """A worker's journal up to the event `until`: batches of 10 samples, counters at every tenth."""
    folder.mkdir(exist_ok=True)
    writer = JournalWriter(folder)
    writer.event("imported", import_s=3.0, tensorflow_version="2")
    writer.event("building")
    if until == "building":
        return read_journal(folder)
    writer.event("built", build_s=0.2, pipeline=None, file_count=4, file_bytes=[])
    if until == "built":
        return read_journal(folder)
    writer.event("first_batch", first_batch_s=0.5, bytes=400, samples=10)
    from dataclasses import asdict

    writer.event("sampling", counters=asdict(ZERO))
    for done in range(10, batches + 1, 10):
        stamps = start_s + gap_s * np.arange(done - 10, done)
        counters = replace(
            ZERO, cpu_s=cpu_s_per_batch * done, read_bytes=50 * done, physical_read_bytes=0, run_s=1.0 * done, queued_s=0.1 * done
        )
        writer.chunk(stamps, None, counters)
    if until == "chunk":
        return read_journal(folder)
    writer.event("memory", **asdict(Memory(private_bytes=10, shared_bytes=5, peak_rss_bytes=20)))
    writer.event("done", stopped_by="precision", epochs=0)
    return read_journal(folder)


def test_a_whole_story(tmp_path: Path) -> None:
    result = worker_result(written(tmp_path), CLEAN, index=3, node="n1")
    assert result.status == "done"
    assert result.message == ""
    assert result.samples_per_s is not None
    assert result.samples_per_s.estimate == pytest.approx(1000)
    assert result.cpu_s_per_sample == pytest.approx(0.002)
    assert result.bytes_read_per_sample == pytest.approx(5)
    assert result.bytes_out_per_sample == 40
    assert result.private_bytes == 10
    assert result.noise is not None
    assert result.noise.run_queue_wait_ratio == pytest.approx(0.1)
    assert result.noise.steal_ratio is None  # the host's clock did not move
    assert result.steady_state is not None
    assert result.steady_state.stopped_by == "precision"
    assert (result.index, result.node) == (3, "n1")


def test_killed_while_sampling_keeps_what_was_measured(tmp_path: Path) -> None:
    ending = Ending(returncode=-9, killed_for="deadline", output_tail="")
    result = worker_result(written(tmp_path, until="chunk"), ending, index=0, node="n")
    assert result.status == "deadline"
    assert "deadline while sampling" in result.message
    assert result.samples_per_s is not None
    assert result.private_bytes is None


def test_a_hang_at_exit_is_not_held_against_a_worker_that_is_done(tmp_path: Path) -> None:
    result = worker_result(written(tmp_path), Ending(returncode=-9, killed_for="deadline", output_tail=""), index=0, node="n")
    assert result.status == "done"


@pytest.mark.parametrize(
    ("until", "ending", "status", "words"),
    [
        ("building", Ending(returncode=-9, killed_for="deadline", output_tail=""), "deadline", "building the pipeline"),
        ("building", Ending(returncode=-9, killed_for="memory", output_tail=""), "lost", "more memory than allowed"),
        ("building", Ending(returncode=-9, killed_for=None, output_tail=""), "lost", "run out of memory"),
        ("building", Ending(returncode=-11, killed_for=None, output_tail=""), "lost", "killed by signal 11"),
        ("building", Ending(returncode=7, killed_for=None, output_tail=""), "lost", "exited with status 7"),
        ("built", Ending(returncode=-9, killed_for="deadline", output_tail=""), "deadline", "first batch"),
        ("chunk", Ending(returncode=-9, killed_for="interrupt", output_tail=""), "deadline", "interrupted while sampling"),
    ],
)
def test_every_end_has_its_words(tmp_path: Path, until: str, ending: Ending, status: str, words: str) -> None:
    found, message = status_of(written(tmp_path, until=until), ending)
    assert found == status
    assert words in message


def test_a_half_written_line_and_a_half_written_stamp_were_never_said(tmp_path: Path) -> None:
    whole = written(tmp_path, until="chunk")
    with (tmp_path / EVENTS).open("a") as events:
        events.write('{"event": "done", "stopp')
    with (tmp_path / STAMPS).open("ab") as stamps:
        stamps.write(b"\x00\x01\x02")
    cut = read_journal(tmp_path)
    assert cut.last("done") is None
    assert np.array_equal(cut.stamps_s, whole.stamps_s)


def test_stamps_that_no_event_vouches_for_are_left_out(tmp_path: Path) -> None:
    written(tmp_path, until="chunk")
    with (tmp_path / STAMPS).open("ab") as stamps:
        stamps.write(np.array([9e9]).tobytes())
    assert len(read_journal(tmp_path).stamps_s) == 100


def test_an_empty_folder_is_a_worker_that_never_spoke(tmp_path: Path) -> None:
    result = worker_result(
        read_journal(tmp_path / "nowhere"), Ending(returncode=1, killed_for=None, output_tail=""), index=0, node="n"
    )
    assert result.status == "lost"
    assert "importing TensorFlow" in result.message
    assert result.samples_per_s is None


def test_the_common_window_cuts_a_worker_that_ran_longer(tmp_path: Path) -> None:
    journal = written(tmp_path, batches=200)
    whole = worker_result(journal, CLEAN, index=0, node="n")
    cut = worker_result(journal, CLEAN, index=0, node="n", until_s=1000.0 + 0.5)
    assert whole.steady_state is not None
    assert cut.steady_state is not None
    assert cut.steady_state.batches < whole.steady_state.batches


def test_a_launch_is_the_sum_of_those_that_delivered(tmp_path: Path) -> None:
    good = worker_result(written(tmp_path / "a"), CLEAN, index=0, node="n")
    slow = worker_result(written(tmp_path / "b", gap_s=0.02), CLEAN, index=1, node="n")
    lost = worker_result(read_journal(tmp_path / "c"), Ending(returncode=1, killed_for=None, output_tail=""), index=2, node="n")
    launch = measurement_of(Layout.parse("1x3x1"), 3, [good, slow, lost])
    assert launch.samples_per_s is not None
    assert launch.samples_per_s.estimate == pytest.approx(1500)
    assert len(launch.measured_workers) == 2
    assert launch.steady_state == slow.steady_state


def test_a_launch_where_all_were_lost_has_no_rate(tmp_path: Path) -> None:
    lost = worker_result(read_journal(tmp_path), Ending(returncode=1, killed_for=None, output_tail=""), index=0, node="n")
    assert measurement_of(Layout.parse("1x1x1"), 1, [lost]).samples_per_s is None


def test_this_process_can_be_counted() -> None:
    before = read_counters()
    total = sum(number * number for number in range(200_000))
    after = read_counters()
    assert total > 0
    assert after.cpu_s > before.cpu_s
    memory = read_memory()
    assert memory.peak_rss_bytes is not None
    assert memory.private_bytes is not None
    assert memory.peak_rss_bytes >= memory.private_bytes > 0


def test_an_unreadable_proc_gives_none_and_not_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cs_input_analyzer.measure.counters.PROC", tmp_path)
    counters, memory = read_counters(), read_memory()
    assert counters.read_bytes is None
    assert counters.run_s is None
    assert counters.host_steal_s is None
    assert memory.private_bytes is None
    assert memory.peak_rss_bytes is None
    assert counters.cpu_s > 0

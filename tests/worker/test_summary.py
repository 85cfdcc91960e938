"""What becomes of a worker's journal, whole or cut off anywhere. Journals are written by the worker's own writer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.host.counters import Counters, Memory
from cs_input_analyzer.records import Layout, WorkerResult
from cs_input_analyzer.worker.journal import EVENTS, Journal, JournalWriter, read_journal
from cs_input_analyzer.worker.summary import Ending, Killed, measurement_of, status_of, worker_result

CLEAN = Ending(returncode=0, killed_for=None, output_tail="")
FAILED = Ending(returncode=1, killed_for=None, output_tail="")
KILLED = Ending(returncode=-9, killed_for="deadline", output_tail="")
ZERO = Counters(cpu_s=0.0, read_bytes=0, physical_read_bytes=0, run_s=0.0, queued_s=0.0, host_cpu_s=0.0, host_steal_s=0.0)


def written(folder: Path, *, batches: int = 100, gap_s: float = 0.01, until: str = "done") -> Journal:
    """A worker's journal up to the event `until`: batches of 10 samples, counters at every tenth."""
    folder.mkdir(exist_ok=True)
    writer = JournalWriter(folder)
    writer.event("imported", import_s=3.0)
    writer.event("building")
    if until == "building":
        return read_journal(folder)
    writer.event("built", build_s=0.2, pipeline=None, file_count=4, files=[])
    if until == "built":
        return read_journal(folder)
    writer.event("first_batch", first_batch_s=0.5, bytes=400, samples=10)
    writer.event("sampling", counters=asdict(ZERO), at_s=1000.0 - gap_s)
    for done in range(10, batches + 1, 10):
        stamps = 1000.0 + gap_s * np.arange(done - 10, done)
        counters = replace(
            ZERO, cpu_s=0.02 * done, read_bytes=50 * done, physical_read_bytes=0, run_s=1.0 * done, queued_s=0.1 * done
        )
        writer.chunk(stamps, None, counters, float(stamps[-1]))
    if until == "chunk":
        return read_journal(folder)
    writer.event("memory", **asdict(Memory(private_bytes=10, shared_bytes=5, peak_rss_bytes=20, pss_bytes=12)))
    writer.event("done", stopped_by="precision", epochs=0)
    return read_journal(folder)


def test_a_whole_story(tmp_path: Path) -> None:
    result = worker_result(written(tmp_path), CLEAN, index=3, node="n1")
    assert result.status == "done"
    assert result.message == ""
    assert result.samples_per_s.estimate == pytest.approx(1000)
    assert result.cpu_s_per_sample == pytest.approx(0.002)
    assert result.bytes_read_per_sample == pytest.approx(5)
    assert result.bytes_out_per_sample == 40
    assert (result.private_bytes, result.pss_bytes) == (10, 12)
    assert result.noise.run_queue_wait_ratio == pytest.approx(0.1)
    assert result.noise.steal_ratio is None  # the host's clock did not move
    assert result.steady_state.stopped_by == "precision"
    assert (result.index, result.node) == (3, "n1")


@given(
    sizes=st.lists(st.integers(1, 60), min_size=2, max_size=8),
    costs=st.lists(st.floats(0.001, 1.0), min_size=8, max_size=8),
    slow_s=st.floats(0.001, 0.1),
)
def test_cpu_time_and_rate_are_of_the_same_batches(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], costs: list[float], slow_s: float
) -> None:
    """Chunks whose batches cost different CPU time, the first of them in a burst: the window need not begin or end with a chunk."""
    folder = tmp_path_factory.mktemp("window")
    writer = JournalWriter(folder)
    writer.event("first_batch", first_batch_s=0.5, bytes=400, samples=10)
    writer.event("sampling", counters=asdict(ZERO), at_s=1000.0)
    gaps_s = np.concatenate([np.full(sizes[0], 0.0001), np.full(sum(sizes[1:]), slow_s)])
    of_each = np.repeat(costs[: len(sizes)], sizes)
    for begin, size in zip(np.cumsum([0, *sizes[:-1]]), sizes, strict=True):
        counters = replace(ZERO, cpu_s=float(of_each[: begin + size].sum()), read_bytes=7 * int(begin + size))
        stamps_s = 1000.0 + np.cumsum(gaps_s)[begin : begin + size]
        writer.chunk(stamps_s, None, counters, float(stamps_s[-1]))
    writer.event("done", stopped_by="precision", epochs=0)
    found = worker_result(read_journal(folder), CLEAN, index=0, node="n")
    first = found.steady_state.transient_batches
    expected = of_each[first : first + found.steady_state.batches].mean() / 10
    assert found.cpu_s_per_sample == pytest.approx(expected, rel=1e-9)
    assert found.bytes_read_per_sample == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("until", "returncode", "killed_for", "status", "words"),
    [
        ("done", -9, "deadline", "done", ""),  # a hang at exit is not held against a worker that is done
        ("building", -9, "deadline", "deadline", "building the pipeline"),
        ("building", -9, "memory", "lost", "more memory than allowed"),
        ("building", -9, None, "lost", "run out of memory"),
        ("building", -11, None, "lost", "killed by signal 11"),
        ("building", 7, None, "lost", "exited with status 7"),
        ("built", -9, "deadline", "deadline", "first batch"),
        ("chunk", -9, "deadline", "deadline", "deadline while sampling"),
        ("chunk", -9, "interrupt", "interrupted", "interrupted while sampling"),
    ],
)
def test_every_end_has_its_words(
    tmp_path: Path, until: str, returncode: int, killed_for: Killed | None, status: str, words: str
) -> None:
    found, message = status_of(written(tmp_path, until=until), Ending(returncode=returncode, killed_for=killed_for, output_tail=""))
    assert found == status
    assert words in message


WHILE_SAMPLING = ("epoch", "cache_filling", "cache_filled", "costs", "reads", "tuned")


@pytest.mark.parametrize(
    ("last", "stage"), [*((kind, "sampling") for kind in WHILE_SAMPLING), ("memory", "finishing"), ("nobody knows", "sampling")]
)
def test_what_it_did_is_known_whatever_it_wrote_last(tmp_path: Path, last: str, stage: str) -> None:
    written(tmp_path, until="chunk")
    JournalWriter(tmp_path).event(last, batches=100, values={}, cpu_s=1.0, wall_s=1.0)
    assert f"while {stage}" in status_of(read_journal(tmp_path), KILLED)[1]


def test_a_truncated_line_is_dropped(tmp_path: Path) -> None:
    whole = written(tmp_path, until="chunk")
    with (tmp_path / EVENTS).open("a") as events:
        events.write('{"event": "done", "stopp')
    cut = read_journal(tmp_path)
    assert cut.last("done") is None
    assert np.array_equal(cut.stamps_s, whole.stamps_s)
    result = worker_result(cut, KILLED, index=0, node="n")
    assert result.samples_per_s is not None
    assert result.private_bytes is None


def test_an_empty_folder_is_a_worker_that_never_spoke(tmp_path: Path) -> None:
    result = worker_result(read_journal(tmp_path / "nowhere"), FAILED, index=0, node="n")
    assert (result.status, result.samples_per_s) == ("lost", None)
    assert "importing TensorFlow" in result.message
    assert measurement_of(Layout.parse("1x1x1"), 1, [result]).samples_per_s is None


def test_the_common_window_cuts_a_worker_that_ran_longer(tmp_path: Path) -> None:
    journal = written(tmp_path, batches=200)
    whole = worker_result(journal, CLEAN, index=0, node="n")
    cut = worker_result(journal, CLEAN, index=0, node="n", until_s=1000.0 + 0.5)
    assert cut.steady_state.batches < whole.steady_state.batches


def test_a_launch_is_the_sum_of_those_that_delivered(tmp_path: Path) -> None:
    good = worker_result(written(tmp_path / "a"), CLEAN, index=0, node="n")
    slow = worker_result(written(tmp_path / "b", gap_s=0.02), CLEAN, index=1, node="n")
    lost = worker_result(read_journal(tmp_path / "c"), FAILED, index=2, node="n")
    launch = measurement_of(Layout.parse("1x3x1"), 3, [good, slow, lost])
    assert launch.samples_per_s.estimate == pytest.approx(1500)
    assert len(launch.measured_workers) == 2
    assert launch.steady_state == slow.steady_state


# --- how far the window can be trusted --------------------------------------------------------------------------------------------


def lived(
    folder: Path,
    gaps_s: list[float],
    *,
    ends: Sequence[int] = (),
    counters: Callable[[int], Counters] = lambda batches: ZERO,
    tuned: Mapping[int, Mapping[str, float]] | None = None,
) -> WorkerResult:
    """A worker that saw these gaps in chunks of ten batches, passes that ended with the batches `ends`, and was done; `tuned`: what
    AUTOTUNE had changed after so many batches."""
    writer = JournalWriter(folder)
    stamps = 1000.0 + np.concatenate([[0.0], np.cumsum(gaps_s)])
    writer.event("first_batch", first_batch_s=0.5, bytes=400, samples=10)
    writer.event("sampling", counters=asdict(counters(0)), at_s=stamps[0] - gaps_s[0])
    values = tuned or {}
    for done in range(10, len(stamps) + 1, 10):
        if done - 10 in values:
            writer.event("tuned", at_s=float(stamps[done - 10]), values=values[done - 10])
        writer.chunk(stamps[done - 10 : done], None, counters(done), float(stamps[done - 1]))
        for _ in range(ends.count(done)):
            writer.event("epoch", batches=done)
    writer.event("done", stopped_by="budget", epochs=0)
    return worker_result(read_journal(folder), CLEAN, index=0, node="n")


CONSTANT = [0.01] * 199  # 200 stamps, nothing is cut


SLOW_START = [0.1] * 100 + [0.01] * 299  # the first hundred gaps are cut


@pytest.mark.parametrize(
    ("gaps_s", "tuned", "moved"),
    [
        (CONSTANT, {}, None),  # nobody read the model
        (CONSTANT, {0: {"map.n": 2, "prefetch.m": 4}}, ()),
        (
            CONSTANT,
            {0: {"map.n": 1, "prefetch.m": 1, "batch.n": 2}, 50: {"prefetch.m": 2}, 100: {"map.n": 2}},
            ("map.n", "prefetch.m"),
        ),
        # A parameter that appears late has not moved until it does.
        (CONSTANT, {0: {}, 50: {"map.n": 3}}, ()),
        (CONSTANT, {0: {}, 50: {"map.n": 3}, 100: {"map.n": 4}}, ("map.n",)),
        (SLOW_START, {0: {"map.n": 1}, 50: {"map.n": 8}}, ()),
        (SLOW_START, {0: {"map.n": 1}, 200: {"map.n": 8}}, ("map.n",)),
    ],
)
def test_what_autotune_changed_inside_the_window_is_named_once(
    tmp_path: Path, gaps_s: list[float], tuned: dict[int, dict[str, float]], moved: tuple[str, ...] | None
) -> None:
    assert lived(tmp_path, gaps_s, tuned=tuned).steady_state.moved == moved


# --- passes --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "ends", "gap_between_passes_s"),
    [
        ({49: 0.5, 149: 0.7}, [50, 150], 0.6),  # a mean of all
        ({99: 0.3}, [100, 100], 0.3),  # a second pass that gave nothing counts once
        ({}, [200], None),  # a pass that ends with the run
        ({124: 1.0}, [], None),
    ],
)
def test_gaps_between_passes(
    tmp_path: Path, changed: dict[int, float], ends: list[int], gap_between_passes_s: float | None
) -> None:
    gaps = [changed.get(place, 0.01) for place in range(199)]
    result = lived(tmp_path, gaps, ends=ends)
    assert result.steady_state.epoch_gap_s == (None if gap_between_passes_s is None else pytest.approx(gap_between_passes_s))
    if not ends:
        assert result.batch_gap_s.max == pytest.approx(max(changed.values()))  # nothing was dropped


# --- noise ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("busy_s", "own_s", "others"), [(0.01, 0.01, 0.0), (0.01, 0.004, 0.6), (0.004, 0.006, 0.0)])
def test_others_had_what_was_busy_and_not_our_own(tmp_path: Path, busy_s: float, own_s: float, others: float) -> None:
    def shared(batches: int) -> Counters:
        return replace(ZERO, cpu_s=own_s * batches, own_cpus_s=0.01 * batches, own_cpus_busy_s=busy_s * batches)

    assert lived(tmp_path, CONSTANT, counters=shared).noise.others_ratio == pytest.approx(others)


def test_a_worker_that_began_after_the_window_that_others_share_keeps_its_own_rate(tmp_path: Path) -> None:
    journal = written(tmp_path)
    late = worker_result(journal, CLEAN, index=0, node="n", until_s=999.0)
    assert (late.status, late.message) == ("done", "")
    assert late.samples_per_s == worker_result(journal, CLEAN, index=0, node="n").samples_per_s

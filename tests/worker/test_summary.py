"""What becomes of a worker's journal, whole or cut off anywhere. Journals are written by the worker's own writer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.machines.counters import Counters, Memory, read_counters, read_memory
from cs_input_analyzer.records import Layout, Noise, SteadyState, WorkerResult
from cs_input_analyzer.worker.journal import EVENTS, STAMPS, Journal, JournalWriter, read_journal
from cs_input_analyzer.worker.summary import Ending, between_processes_ratio, measurement_of, status_of, worker_result

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
    writer.event("built", build_s=0.2, pipeline=None, file_count=4, files=[])
    if until == "built":
        return read_journal(folder)
    writer.event("first_batch", first_batch_s=0.5, bytes=400, samples=10)
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
    writer.event("sampling", counters=asdict(ZERO))
    gaps_s = np.concatenate([np.full(sizes[0], 0.0001), np.full(sum(sizes[1:]), slow_s)])
    of_each = np.repeat(costs[: len(sizes)], sizes)
    for begin, size in zip(np.cumsum([0, *sizes[:-1]]), sizes, strict=True):
        counters = replace(ZERO, cpu_s=float(of_each[: begin + size].sum()), read_bytes=7 * int(begin + size))
        writer.chunk(1000.0 + np.cumsum(gaps_s)[begin : begin + size], None, counters)
    writer.event("done", stopped_by="precision", epochs=0)
    found = worker_result(read_journal(folder), CLEAN, index=0, node="n")
    assert found.steady_state is not None
    first = found.steady_state.transient_batches
    expected = of_each[first : first + found.steady_state.batches].mean() / 10
    assert found.cpu_s_per_sample == pytest.approx(expected, rel=1e-9)
    assert found.bytes_read_per_sample == pytest.approx(0.7)


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
        ("chunk", Ending(returncode=-9, killed_for="interrupt", output_tail=""), "interrupted", "interrupted while sampling"),
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
    monkeypatch.setattr("cs_input_analyzer.machines.counters.PROC", tmp_path)
    counters, memory = read_counters(), read_memory()
    assert counters.read_bytes is None
    assert counters.run_s is None
    assert counters.host_steal_s is None
    assert memory.private_bytes is None
    assert memory.peak_rss_bytes is None
    assert counters.cpu_s > 0


# --- how far the window can be trusted --------------------------------------------------------------------------------------------


def lived(
    folder: Path,
    gaps_s: list[float],
    *,
    chunk: int = 10,
    after: Mapping[int, list[dict[str, Any]]] | None = None,
    counters: Callable[[int], Counters] = lambda batches: ZERO,
) -> WorkerResult:
    """A worker that saw these gaps in chunks of equal size, told `after[batches]` at that chunk's end, and was done."""
    writer = JournalWriter(folder)
    stamps = 1000.0 + np.concatenate([[0.0], np.cumsum(gaps_s)])
    assert set(after or ()) <= {0, *range(chunk, len(stamps) + 1, chunk)}, "said at the end of no chunk"

    def tell(batches: int) -> None:
        for event in (after or {}).get(batches, ()):
            writer.event(event["event"], **{key: value for key, value in event.items() if key != "event"})

    writer.event("first_batch", first_batch_s=0.5, bytes=400, samples=10)
    writer.event("sampling", counters=asdict(counters(0)))
    tell(0)
    for begin in range(0, len(stamps), chunk):
        part = stamps[begin : begin + chunk]
        writer.chunk(part, None, counters(begin + len(part)))
        tell(begin + len(part))
    writer.event("done", stopped_by="budget", epochs=0)
    return worker_result(read_journal(folder), CLEAN, index=0, node="n")


def steady(result: WorkerResult) -> SteadyState:
    assert result.steady_state is not None
    return result.steady_state


def noise(result: WorkerResult) -> Noise:
    assert result.noise is not None
    return result.noise


def tuned(**values: float) -> dict[str, Any]:
    return {"event": "tuned", "values": {name.replace("__", "."): value for name, value in values.items()}}


CONSTANT = [0.01] * 199  # 200 stamps, nothing is cut
SLOW_START = [0.1] * 100 + [0.01] * 299  # 400 stamps, the first hundred gaps are cut


def test_a_journal_of_an_older_version_knows_nothing_new(tmp_path: Path) -> None:
    """Counters without the new fields, memory without PSS, none of the new events."""
    written(tmp_path)
    old = ("host_pressure_s", "rss_bytes", "at_s", "pss_bytes")
    lines = (tmp_path / EVENTS).read_text()
    for name in old:
        assert f', "{name}": null' in lines
        lines = lines.replace(f', "{name}": null', "")
    (tmp_path / EVENTS).write_text(lines)
    result = worker_result(read_journal(tmp_path), CLEAN, index=0, node="n")
    assert result.samples_per_s is not None
    assert (result.pss_bytes, result.rss_growth_bytes_per_min) == (None, None)
    assert (noise(result).pressure_ratio, noise(result).reference_ratio) == (None, None)
    assert (steady(result).moved, steady(result).epoch_gap_s, steady(result).outliers) == (None, None, 0)


def test_pss_is_told(tmp_path: Path) -> None:
    written(tmp_path, until="chunk")
    memory = Memory(private_bytes=10, shared_bytes=5, peak_rss_bytes=20, pss_bytes=12)
    JournalWriter(tmp_path).event("memory", **asdict(memory))
    assert worker_result(read_journal(tmp_path), CLEAN, index=0, node="n").pss_bytes == 12


# AUTOTUNE


def test_nobody_read_the_model(tmp_path: Path) -> None:
    assert steady(lived(tmp_path, CONSTANT)).moved is None


def test_it_was_read_and_nothing_moved(tmp_path: Path) -> None:
    assert steady(lived(tmp_path, CONSTANT, after={0: [tuned()]})).moved == ()
    (tmp_path / "again").mkdir()
    said = {0: [tuned(map__parallelism=2, prefetch__buffer_size=4)]}
    assert steady(lived(tmp_path / "again", CONSTANT, after=said)).moved == ()


def test_what_changed_inside_the_window_is_named_once(tmp_path: Path) -> None:
    said = {
        0: [tuned(map__parallelism=1, prefetch__buffer_size=1, batch__parallelism=2)],
        50: [tuned(prefetch__buffer_size=2)],
        100: [tuned(prefetch__buffer_size=4, map__parallelism=2)],
    }
    assert steady(lived(tmp_path, CONSTANT, after=said)).moved == ("map.parallelism", "prefetch.buffer_size")


def test_what_changed_in_the_transient_has_not_moved(tmp_path: Path) -> None:
    said = {0: [tuned(map__parallelism=1)], 50: [tuned(map__parallelism=8)]}
    result = lived(tmp_path, SLOW_START, after=said)
    assert steady(result).transient_batches > 90
    assert steady(result).moved == ()


def test_what_changed_after_the_window_has_not_moved(tmp_path: Path) -> None:
    lived(tmp_path, CONSTANT, after={0: [tuned(map__parallelism=1)], 180: [tuned(map__parallelism=8)]})
    journal = read_journal(tmp_path)
    whole = worker_result(journal, CLEAN, index=0, node="n")
    cut = worker_result(journal, CLEAN, index=0, node="n", until_s=1000.0 + 1.0)
    assert steady(whole).moved == ("map.parallelism",)
    assert steady(cut).moved == ()


def test_a_parameter_that_appears_late_has_not_moved_until_it_does(tmp_path: Path) -> None:
    said = {0: [tuned()], 50: [tuned(map__parallelism=3)]}
    assert steady(lived(tmp_path, CONSTANT, after=said)).moved == ()
    (tmp_path / "again").mkdir()
    said[100] = [tuned(map__parallelism=4)]
    assert steady(lived(tmp_path / "again", CONSTANT, after=said)).moved == ("map.parallelism",)


# passes over the data


def test_the_gap_between_two_passes_is_a_mean_of_all(tmp_path: Path) -> None:
    gaps = list(CONSTANT)
    gaps[49], gaps[149] = 0.5, 0.7  # before the stamps number 50 and 150
    said = {50: [{"event": "epoch", "batches": 50}], 150: [{"event": "epoch", "batches": 150}]}
    assert steady(lived(tmp_path, gaps, after=said)).epoch_gap_s == pytest.approx(0.6)


def test_a_pass_that_ends_with_the_run_shows_no_gap(tmp_path: Path) -> None:
    said = {200: [{"event": "epoch", "batches": 200}]}
    assert steady(lived(tmp_path, CONSTANT, after=said)).epoch_gap_s is None


def test_no_pass_was_seen_to_end(tmp_path: Path) -> None:
    assert steady(lived(tmp_path, CONSTANT)).epoch_gap_s is None


def test_a_second_pass_that_gave_nothing_counts_once(tmp_path: Path) -> None:
    gaps = list(CONSTANT)
    gaps[99] = 0.3
    said = {100: [{"event": "epoch", "batches": 100}, {"event": "epoch", "batches": 100}]}
    assert steady(lived(tmp_path, gaps, after=said)).epoch_gap_s == pytest.approx(0.3)


# outliers


def test_a_stall_inside_a_chunk_is_an_outlier(tmp_path: Path) -> None:
    gaps = list(CONSTANT)
    gaps[124] = gaps[177] = 1.0
    result = lived(tmp_path, gaps)
    assert steady(result).outliers == 2
    assert result.batch_gap_s is not None
    assert result.batch_gap_s.max == pytest.approx(1.0)  # and it was not dropped


def test_across_the_seam_of_two_chunks_of_fast_batches_the_gap_is_ours(tmp_path: Path) -> None:
    gaps = [0.001] * 199
    for seam in range(10, 200, 10):
        gaps[seam - 1] = 0.01
    assert steady(lived(tmp_path, gaps)).outliers == 0


def test_for_slow_batches_it_is_the_pipelines(tmp_path: Path) -> None:
    gaps = [0.1] * 199
    gaps[149] = 5.0
    assert steady(lived(tmp_path, gaps, chunk=10)).outliers == 1


def test_the_edge_of_a_pass_is_no_outlier_it_has_a_number_of_its_own(tmp_path: Path) -> None:
    gaps = [0.1] * 199
    gaps[149] = 5.0
    result = lived(tmp_path, gaps, after={150: [{"event": "epoch", "batches": 150}]})
    assert steady(result).outliers == 0
    assert steady(result).epoch_gap_s == pytest.approx(5.0)


# memory and noise


def growing(bytes_per_batch: float, gap_s: float) -> Callable[[int], Counters]:
    return lambda batches: replace(ZERO, rss_bytes=int(10**9 + bytes_per_batch * batches), at_s=77.0 + gap_s * batches)


def test_memory_that_grows_is_told_per_minute(tmp_path: Path) -> None:
    result = lived(tmp_path, [1.0] * 99, counters=growing(1e6, 1.0))
    assert result.rss_growth_bytes_per_min == pytest.approx(60e6)


def test_memory_that_stays_does_not_grow(tmp_path: Path) -> None:
    assert lived(tmp_path, [1.0] * 99, counters=growing(0, 1.0)).rss_growth_bytes_per_min == 0


def test_below_a_minute_nothing_is_said_of_growth(tmp_path: Path) -> None:
    assert lived(tmp_path, [0.5] * 99, counters=growing(1e6, 0.5)).rss_growth_bytes_per_min is None


def test_pressure_is_the_share_of_the_window(tmp_path: Path) -> None:
    def quarter(batches: int) -> Counters:
        return replace(ZERO, host_pressure_s=500 + 0.0025 * batches, at_s=77.0 + 0.01 * batches)

    assert noise(lived(tmp_path, CONSTANT, counters=quarter)).pressure_ratio == pytest.approx(0.25)


def test_pressure_is_at_most_the_whole_window(tmp_path: Path) -> None:
    def late(batches: int) -> Counters:
        return replace(ZERO, host_pressure_s=500 + 0.0101 * batches, at_s=77.0 + 0.01 * batches)

    assert noise(lived(tmp_path, CONSTANT, counters=late)).pressure_ratio == 1


def test_the_reference_is_the_first_run_over_the_last(tmp_path: Path) -> None:
    def ran(cpu_s: float) -> dict[str, Any]:
        return {"event": "reference", "cpu_s": cpu_s, "wall_s": 9.0}

    assert noise(lived(tmp_path, CONSTANT, after={0: [ran(0.003)]})).reference_ratio is None
    (tmp_path / "again").mkdir()
    result = lived(tmp_path / "again", CONSTANT, after={0: [ran(0.003)], 200: [ran(0.004)]})
    assert noise(result).reference_ratio == pytest.approx(0.75)


def test_the_reference_never_touches_the_rate(tmp_path: Path) -> None:
    runs = {0: [{"event": "reference", "cpu_s": 1.0, "wall_s": 1.0}], 200: [{"event": "reference", "cpu_s": 9.0, "wall_s": 9.0}]}
    (tmp_path / "without").mkdir()
    assert lived(tmp_path, CONSTANT, after=runs).samples_per_s == lived(tmp_path / "without", CONSTANT).samples_per_s


@pytest.mark.parametrize("last", ["epoch", "tuned", "reference"])
def test_a_worker_killed_after_one_of_these_was_sampling(tmp_path: Path, last: str) -> None:
    written(tmp_path, until="chunk")
    JournalWriter(tmp_path).event(last, batches=100, values={}, cpu_s=1.0, wall_s=1.0)
    _, message = status_of(read_journal(tmp_path), Ending(returncode=-9, killed_for="deadline", output_tail=""))
    assert "while sampling" in message


@given(st.lists(st.floats(1.0, 1e6), min_size=2, max_size=8), st.floats(1e-3, 1e3))
def test_the_spread_of_processes_has_no_unit_and_no_order(rates: list[float], factor: float) -> None:
    spread = between_processes_ratio(rates)
    assert spread is not None
    assert spread >= 0
    assert between_processes_ratio([rate * factor for rate in reversed(rates)]) == pytest.approx(spread, abs=1e-9)


def test_the_spread_of_known_rates() -> None:
    assert between_processes_ratio([90.0, 100.0, 110.0]) == pytest.approx(0.1)
    assert between_processes_ratio([100.0, 100.0]) == 0


@pytest.mark.parametrize("rates", [[], [100.0], [0.0, 0.0]])
def test_one_process_has_no_spread(rates: list[float]) -> None:
    assert between_processes_ratio(rates) is None

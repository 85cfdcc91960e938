"""Each rate has a label where an idle node gives another one, with the factor once; and no screen tells how sure it is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import (
    make_analysis,
    make_bare_analysis,
    make_capacity_model,
    make_cluster,
    make_estimate,
    make_finding,
    make_measurement,
    make_noise,
    make_plan,
    make_station,
    make_worker,
)
from page_runs import usual_run
from pages import Page

from cs_input_analyzer.records import Analysis, Estimate, Tool
from cs_input_analyzer.report import load, render, render_tuning
from cs_input_analyzer.report.costs import stations_table
from cs_input_analyzer.report.planned import alternatives_table, validation_table, what_if_table
from cs_input_analyzer.report.to_console import MOST_LINES
from cs_input_analyzer.report.wording import AS_MEASURED, ON_IDLE_NODE, factor_sentence, supply_and_demand, titled
from cs_input_analyzer.report.workers import measured_table, workers_table
from cs_input_analyzer.workflows.compare import compare

TOOL = Tool(name="cs_input_analyzer", version="0.1.0")
SEEN = Path(__file__).parent / "run_0.1.0.json"


def busy(layout: str, others: float | None = 0.3) -> Any:
    noise = make_noise(others_ratio=others)
    tasks = int(layout.split("x")[1])
    return make_measurement(layout, workers=tuple(make_worker(1000.0 - at, index=at, noise=noise) for at in range(tasks)))


def elsewhere(host_ratio: float = 0.7, others: float | None = 0.3, **given: Any) -> Analysis:
    """A plan for other nodes, measured on a host where launches got this share of their rates on an idle node."""
    capacity = make_capacity_model(host_ratio=Estimate(estimate=host_ratio, low=host_ratio / 2, high=1.0))
    launches = (busy("1x1x1", others), busy("1x1x2", others), busy("1x4x2", others))
    return usual_run(**({"capacity": capacity, "measurements": launches} | given))


def here(idle: float = 20_000.0, **given: Any) -> Analysis:
    """A plan for the host that measured."""
    cluster, plan = make_cluster(source="this host"), make_plan("2x4x2", quiet_samples_per_s=make_estimate(idle, spread=0.1))
    return elsewhere(**({"cluster": cluster, "recommendation": plan, "verdict_layout": plan.layout} | given))


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


# --- the labels and the factor ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("run", "factor"), [(elsewhere(), "1.43"), (here(), "1.38")], ids=["elsewhere", "here"])
def test_a_screen_of_two_currencies_shows_both_labels_and_the_factor_once(run: Analysis, factor: str) -> None:
    for name, text in screens(run).items():
        assert AS_MEASURED in text, name
        assert ON_IDLE_NODE in text, name
        assert text.count(f"on an idle node {factor} times as measured, as others used 30 % of the CPUs") == 1, name
        assert text.count("times as measured") == 1, name
        assert "quiet host" not in text, name
    assert len(render(run, "console").splitlines()) <= MOST_LINES


@pytest.mark.parametrize(
    "run",
    [elsewhere(1.0), elsewhere(0.998), here(14_500.0), here(14_510.0), usual_run(capacity=None), here(recommendation=None)],
    ids=["exact", "rounded", "here", "here, rounded", "no model", "no plan"],
)
def test_where_both_are_one_there_is_no_second_currency(run: Analysis) -> None:
    assert factor_sentence(run) == ""
    for name, text in screens(run).items():
        assert ON_IDLE_NODE not in text, name
        assert "times as measured" not in text, name


def test_the_reason_is_what_was_seen() -> None:
    assert factor_sentence(elsewhere(0.5, 0.42)) == "on an idle node 2.00 times as measured, as others used 42 % of the CPUs"
    told = factor_sentence(here())
    assert told.endswith("of the CPUs: 20,000 samples/s (18,000 to 22,000) for 2x4x2")


def test_the_supply_has_the_currency_of_its_plan() -> None:
    assert dict(supply_and_demand(elsewhere()))["supply"].startswith("14,500 samples/s (13,340 to 15,660) on an idle node, ")
    assert dict(supply_and_demand(here()))["supply"].startswith("14,500 samples/s (13,340 to 15,660) as measured, ")
    assert dict(supply_and_demand(elsewhere(1.0)))["supply"].startswith("14,500 samples/s (13,340 to 15,660), ")


def test_each_table_of_rates_has_its_label_in_its_title() -> None:
    run, plan = elsewhere(), make_plan()
    assert measured_table(run).title == "Measured (rates as measured)"
    assert workers_table(run.measurements[-1]).title == "Workers of 1x4x2 (rates as measured)"
    assert stations_table((make_station(layout=None),)).title == "Bottleneck (rates as measured)"
    assert stations_table((make_station(),)).title == "Bottleneck (one worker of 1x1x2, rates as measured)"
    assert alternatives_table(plan, ON_IDLE_NODE).title == "Alternatives (rates on an idle node)"
    assert what_if_table(plan).title == "What if"
    assert run.validation is not None
    assert validation_table(run.validation).title == "Validation (rates as measured)"
    assert titled("Plain", "") == "Plain"


def test_a_page_keeps_its_anchors_with_labels_and_without() -> None:
    anchors = [set(Page(render(run, "html")).attribute("id")) for run in (elsewhere(), elsewhere(1.0))]
    assert anchors[0] == anchors[1] >= {"measured", "bottleneck", "plan", "alternatives", "what-if", "validation"}


def test_rates_in_the_evidence_of_a_finding_are_labelled() -> None:
    of_rates = make_finding(evidence={"ceiling_samples_per_s": 26.3})
    assert "ceiling_samples_per_s=26.3 (rates as measured)" in screens(elsewhere(findings=(of_rates,)))["full console"]
    for evidence in ({"share_ratio": 0.4}, {"ceiling_samples_per_s": None, "share_ratio": 0.4}):
        text = screens(elsewhere(findings=(make_finding(evidence=evidence),)))["full console"]
        assert "share_ratio=0.4 " in text
        assert "share_ratio=0.4 (rates" not in text


def test_what_fixes_would_do_has_the_currency_of_the_plan() -> None:
    tuned = " ".join(render_tuning(elsewhere(), width=400).split())
    assert "15,100 samples/s (14,798 to 15,402) predicted; meets the demand (rates on an idle node)" in " ".join(tuned.split())
    assert tuned.count("1.43 times as measured") == 1
    assert "rates" not in render_tuning(elsewhere(1.0), width=400)


def test_a_comparison_is_on_an_idle_node_and_shows_the_factor_of_each_run() -> None:
    found = compare(elsewhere(), here(), tool=TOOL)
    for text in (render(found, "console", full=True, width=400), Page(render(found, "html")).text):
        text = " ".join(text.split())
        assert text.count("on an idle node 1.43 times as measured") == text.count("on an idle node 1.38 times as measured") == 1
        assert "14,500 samples/s (13,340 to 15,660) on an idle node" in text
        assert "14,500 samples/s (13,340 to 15,660) as measured" in text
        assert "All rates are on an idle node" in text
    alike = render(compare(usual_run(), usual_run(), tool=TOOL), "console", full=True, width=400)
    assert "times as measured" not in alike


# --- no sureness ------------------------------------------------------------------------------------------------------------------

RUNS = {
    "usual": usual_run(),
    "elsewhere": elsewhere(),
    "here": here(),
    "of 0.1.0": load(SEEN),
    "bare": make_bare_analysis(),
    "input-bound": make_analysis(
        verdict="input_bound", confidence=0.9999, recommendation=make_plan(meets_demand=False, probability=0.01)
    ),
    "balanced": make_analysis(verdict="balanced", confidence=0.71),
    "unknown": make_analysis(verdict="unknown", confidence=None),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_no_screen_tells_how_sure_it_is(run: Analysis) -> None:
    both = compare(run, replace(run), tool=TOOL) if run.measurements else None
    texts = [*screens(run).values(), render_tuning(run)]
    texts += [] if both is None else [render(both, "console", full=True), Page(render(both, "html")).text]
    for text in texts:
        for word in ("% sure", "sure)", "probability of 0", "probability of >", "probability of <", "% probable", "(> to"):
            assert word not in text.replace("at a probability of 0.9", "")
    assert json.loads(render(run, "json"))["confidence"] == run.confidence


# --- a headline and its body ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("meets", "said"), [(True, "recommended launch"), (None, "recommended launch"), (False, "best launch")])
def test_no_launch_is_recommended_that_does_not_do(meets: bool | None, said: str) -> None:
    plan = make_plan(meets_demand=meets)
    run = make_analysis(recommendation=plan, verdict="input_bound" if meets is False else "accelerator_bound")
    supply = dict(supply_and_demand(run))["supply"]
    assert f"{said} {plan.layout}" in supply
    assert ("does NOT reach the demand" in supply) is (meets is False)
    notes = [row[-1] for row in alternatives_table(plan).rows]
    assert ("recommended" in notes) is (meets is not False)
    if meets is False:
        assert "recommended launch" not in screens(run)["short console"]

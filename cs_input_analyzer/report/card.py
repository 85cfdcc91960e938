"""Analysis -> the card that a notebook shows for it: one element without scripts, its style its own, all text escaped."""

from __future__ import annotations

from cs_input_analyzer.records import Analysis
from cs_input_analyzer.report import page
from cs_input_analyzer.report.to_html import render_page
from cs_input_analyzer.report.wording import plan_facts, supply_and_demand, verdict_sentence

__all__ = ["to_card"]

PIECE = "card.html.j2"
FINDINGS_SHOWN = 5
LONGEST_MESSAGE = 300
# What the plan promises, and what holds it back: the rest is in the report.
PLAN_FACTS = ("predicted", "demand", "limited by", "accelerator")


def to_card(analysis: Analysis) -> str:
    """A `<div>`. Raises AnalyzerError as `to_html`."""
    plan, found = analysis.recommendation, page.cards(analysis.findings)
    facts = plan_facts(plan, analysis) if plan is not None else ()
    return render_page(
        PIECE,
        verdict=analysis.verdict,
        sentence=verdict_sentence(analysis),
        target=analysis.pipeline.target,
        interrupted=analysis.interrupted,
        supply_facts=supply_and_demand(analysis),
        launch=", ".join(f"{name} {value}" for name, value in page.launch_values(plan)),
        plan_facts=tuple(fact for fact in facts if fact[0] in PLAN_FACTS),
        findings=tuple((card, _cut(card.view.message), dict(card.view.facts).get("gain", "")) for card in found[:FINDINGS_SHOWN]),
        more=max(0, len(found) - FINDINGS_SHOWN),
    )


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_MESSAGE else f"{text[: LONGEST_MESSAGE - 1]}…"

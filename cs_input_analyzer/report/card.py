"""Document -> what a notebook shows for it: one element without scripts, its style its own, all text escaped."""

from __future__ import annotations

from cs_input_analyzer.report.document import Document
from cs_input_analyzer.report.to_html import render_page


def to_card(document: Document) -> str:
    """A `<div>` with the short report. Raises AnalyzerError as `to_html`."""
    return render_page("card.html.j2", document=document, sections=document.brief())

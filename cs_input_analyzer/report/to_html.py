"""Document -> one self-contained HTML page: no request leaves it, and it holds its record, so that `report RUN.html` reads it back.

The templates escape by default (autoescape) and refuse a misspelt name (StrictUndefined); control characters are made visible on
the way out. What draws the pictures is copied into the page, which therefore looks the same without a network, and in years.
"""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cs_input_analyzer.errors import AnalyzerError
from cs_input_analyzer.records import Analysis
from cs_input_analyzer.report.document import Document, Figure, Flow, Section, in_unit_of
from cs_input_analyzer.report.excerpt import excerpt
from cs_input_analyzer.report.glossary import MEANINGS, Glossary
from cs_input_analyzer.report.to_json import script_safe, to_embedded_json
from cs_input_analyzer.report.wording import visible

if TYPE_CHECKING:
    from jinja2 import Environment

    from cs_input_analyzer.report.charts import Chart

PAGE = "report.html.j2"
# What draws the pictures, in the order in which one needs the other.
LIBRARY = ("vega.min.js", "vega-lite.min.js", "vega-embed.min.js")


def to_html(document: Document) -> str:
    """The page as text.

    A run of thousands of workers is shown, and held, by some of them; the page says by which.

    Raises:
        AnalyzerError: the templates are not where an installation keeps them.
    """
    from markupsafe import Markup

    analysis = document.record if isinstance(document.record, Analysis) else None
    charts = _charts(analysis)
    record = document.record if analysis is None else excerpt(analysis)
    sections = _drawn(document.sections, charts)
    return render_page(
        PAGE,
        document=document,
        first=_drawn(document.first, charts),
        sections=sections,
        charts=charts,
        flow=_flow(document, analysis),
        glossary=Glossary(),
        meanings=MEANINGS,
        record=Markup(to_embedded_json(record)),
        specs=Markup(_specs(charts)),
        library=Markup(_library() if charts else ""),
    )


def render_page(name: str, **view: object) -> str:
    """The template `name`. Raises AnalyzerError as `to_html`."""
    return _environment().get_template(name).render(**view)


def _charts(analysis: Analysis | None) -> dict[str, Chart]:
    if analysis is None:
        return {}
    from cs_input_analyzer.report.charts import charts_of

    return in_unit_of(analysis, charts_of(analysis))


def _drawn(sections: tuple[Section, ...], charts: dict[str, Chart]) -> tuple[Section, ...]:
    """Without the pictures that there is nothing to draw for, and the sections that held nothing else."""
    kept = (
        replace(section, parts=tuple(part for part in section.parts if not (isinstance(part, Figure) and part.name not in charts)))
        for section in sections
    )
    return tuple(section for section in kept if section.parts)


def _flow(document: Document, analysis: Analysis | None) -> object:
    """The rows of the pipeline's picture."""
    flow = next((part for section in document.sections for part in section.parts if isinstance(part, Flow)), None)
    if flow is None or analysis is None:
        return None
    from cs_input_analyzer.report.charts import pipeline_rows

    return in_unit_of(analysis, pipeline_rows(analysis, dict(flow.anchors)))


def templates_dir() -> Path:
    """The folder of the templates: inside the package in a wheel, `reports/templates` in a checkout or an editable install.

    Raises:
        AnalyzerError: it is in neither place.
    """
    here = Path(__file__).resolve().parent
    places = (here / "templates", here.parents[1] / "reports" / "templates")
    for place in places:
        if (place / PAGE).is_file():
            return place
    searched = " or ".join(map(str, places))
    raise AnalyzerError(f"the installation is incomplete: no {PAGE} in {searched}; install cs_input_analyzer again")


@functools.cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(templates_dir()),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _shown(value: object) -> object:
    """What an expression of the template prints: plain text without control characters, markup as it is."""
    return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _specs(charts: dict[str, Chart]) -> str:
    """The specifications by picture and panel, with the look that they share."""
    from cs_input_analyzer.report.charts import CONFIG

    plots = {f"{chart.name}-{place}": panel.spec for chart in charts.values() for place, panel in enumerate(chart.panels)}
    return script_safe(json.dumps({"config": CONFIG, "plots": plots}, allow_nan=False))


@functools.cache
def _library() -> str:
    """The charting library as one text. It must not end the element that it is put into.

    Raises:
        AnalyzerError: the installation lacks it.
    """
    try:
        parts = [(templates_dir() / "vendor" / name).read_text(encoding="utf-8") for name in LIBRARY]
    except OSError as error:
        raise AnalyzerError(f"the installation is incomplete: {error}; install cs_input_analyzer again") from None
    return ";\n".join(parts)

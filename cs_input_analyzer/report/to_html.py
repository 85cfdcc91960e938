"""Analysis -> one self-contained HTML page: no request leaves it, and it holds the run, so that `report RUN.html` reads it back.

The templates escape by default (autoescape) and refuse a misspelt name (StrictUndefined); control characters are made visible on
the way out. What draws the pictures is copied into the page, which therefore looks the same without a network, and in years.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING

from cs_input_analyzer.errors import AnalyzerError
from cs_input_analyzer.records import Analysis
from cs_input_analyzer.report import page
from cs_input_analyzer.report.cluster import cluster_facts
from cs_input_analyzer.report.costs import dearest_sentence, op_cost_table, serial_sentence
from cs_input_analyzer.report.excerpt import excerpt
from cs_input_analyzer.report.findings import fixes_facts, ignored_sentence
from cs_input_analyzer.report.glossary import MEANINGS, Glossary
from cs_input_analyzer.report.measuring import measured_facts, measuring_facts, shown_measurement
from cs_input_analyzer.report.nodes import node_facts, node_tables
from cs_input_analyzer.report.stations import bottleneck_sentence, stations_table
from cs_input_analyzer.report.storage import reads_table, storage_facts
from cs_input_analyzer.report.tables import measured_table, pipeline_table, troubles
from cs_input_analyzer.report.to_json import script_safe, to_embedded_json
from cs_input_analyzer.report.wording import pipeline_facts, plan_facts, supply_and_demand, verdict_sentence, visible
from cs_input_analyzer.report.workers import workers_table

if TYPE_CHECKING:
    from jinja2 import Environment

    from cs_input_analyzer.report.charts import Chart

PAGE = "report.html.j2"
# What draws the pictures, in the order in which one needs the other.
LIBRARY = ("vega.min.js", "vega-lite.min.js", "vega-embed.min.js")


def to_html(analysis: Analysis) -> str:
    """The page as text.

    A run of thousands of workers is shown, and held, by some of them; the page says by which.

    Raises:
        AnalyzerError: the templates are not where an installation keeps them.
    """
    from markupsafe import Markup

    from cs_input_analyzer.report.charts import charts_of

    charts = charts_of(analysis)
    shown = excerpt(analysis)
    return (
        _environment()
        .get_template(PAGE)
        .render(
            analysis=analysis,
            charts=charts,
            glossary=Glossary(),
            meanings=MEANINGS,
            **_answer(analysis),
            **_measured(analysis),
            left_out=shown.left_out,
            measuring_facts=measuring_facts(shown),
            options_facts=page.options_facts(analysis.options),
            run=Markup(to_embedded_json(shown)),
            specs=Markup(_specs(charts)),
            library=Markup(_library() if charts else ""),
        )
    )


def _answer(analysis: Analysis) -> dict[str, object]:
    """What the user came for: the verdict, the launch, the findings."""
    plan, found = analysis.recommendation, page.cards(analysis.findings)
    return {
        "verdict": verdict_sentence(analysis),
        "verdict_facts": supply_and_demand(analysis),
        "supply_bars": page.supply_bars(analysis),
        "launch_values": page.launch_values(plan),
        "launch_facts": plan_facts(plan, analysis) if plan is not None else (),
        "launch_lines": page.launch_lines(plan),
        "findings": found,
        "first": page.to_look_at_first(found),
        "fixes_facts": fixes_facts(analysis),
        "ignored": ignored_sentence(analysis),
        "tables": page.standing_tables(analysis),
        "wafer_facts": page.wafer_facts(analysis),
        "feeding_facts": page.feeding_facts(analysis),
        "cluster_facts": cluster_facts(analysis.cluster),
    }


def _measured(analysis: Analysis) -> dict[str, object]:
    """What that rests on."""
    from cs_input_analyzer.report.charts import pipeline_rows

    profile, storage, measurement = analysis.profile, analysis.storage, shown_measurement(analysis)
    return {
        "flow": pipeline_rows(analysis, page.anchors_of(analysis.findings)),
        "pipeline": pipeline_table(analysis),
        "pipeline_facts": pipeline_facts(analysis),
        "stations": stations_table(analysis.stations),
        "bottleneck": bottleneck_sentence(analysis.stations, analysis.recommendation),
        "op_costs": op_cost_table(profile) if profile is not None else None,
        "dearest": dearest_sentence(profile) if profile is not None else "",
        "serial": serial_sentence(profile) if profile is not None else "",
        "measured": measured_table(analysis),
        "measured_facts": measured_facts(analysis),
        "troubles": troubles(analysis),
        "node_facts": node_facts(analysis),
        "node_tables": node_tables(analysis),
        "workers": workers_table(measurement) if measurement is not None else None,
        "reads": reads_table(storage) if storage is not None else None,
        "storage_facts": storage_facts(analysis),
    }


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


def render_page(name: str, **view: object) -> str:
    """Another page of the same look: the template `name`, under the same rules. Raises AnalyzerError as `to_html`."""
    return _environment().get_template(name).render(**view)


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

"""Render a document as one self-contained HTML page, or as a card for a notebook. No request leaves them.

`report RUN.html` reads back the record that the page holds.

The templates escape by default (autoescape) and refuse a misspelt name (StrictUndefined); control characters are made visible on
the way out. Pictures are SVG, drawn here: the page asks for no library and looks the same in years.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING

from cs_input_analyzer.errors import AnalyzerError
from cs_input_analyzer.report.document import Document
from cs_input_analyzer.report.to_json import script_safe, to_json
from cs_input_analyzer.units import visible

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

PAGE, CARD = "report.html.j2", "card.html.j2"
_WORD = re.compile(r"\S+")
# What each figure of the page means, shown on hover and focus, by the label beside it, where that does not say it itself.
# Columns of tables bring their own meaning.
MEANINGS = {
    # the verdict and the launch
    "supply": "samples per second that the input workers of the judged launch deliver together, predicted from what was measured",
    "rates": "as measured: with other programs on the CPUs; on an idle node: with the CPUs to themselves",
    "demand": "samples per second that the accelerator takes when it never waits for input",
    "predicted": "samples per second that the launch will deliver, with its 90 % interval",
    "memory": "private: held by a worker alone; PSS: shared pages divided among their holders; peak RSS: the most it ever held",
    "extrapolation": "how far the plan lies outside of what was measured; 1 is inside, and the interval grows with it",
    "nodes": "machines of the launch, those that run a single task included",
    "tasks_per_node": "processes that each node starts; each is one input worker",
    "cpus_per_task": "CPUs that each of them gets",
    # findings
    "gain": "rate with the fix over rate without, measured side by side; 1 is no change",
    # measured
    "batch gaps": "time between two batches: half, 95 % and 99 % of them stay under p50, p95 and p99",
    "page cache": "share of the files that this host held in memory: those need no storage",
    "readers alone": "the pipeline cut after its readers: what nothing behind them can exceed",
    "node's CPU": "speed of one CPU of a node beside one of the host that measured",
    # how it was measured
    "steady state": "the window that was used, after the start was cut off by the MSER-5 rule",
    "noise": "how idle the host was: what others took away, and how far fresh processes differ",
}


def to_html(document: Document) -> str:
    """Return the page as text.

    Raises:
        AnalyzerError: the templates are not where an installation keeps them.
    """
    from markupsafe import Markup

    return (
        _environment()
        .get_template(PAGE)
        .render(
            document=document,
            meanings=MEANINGS,
            record=Markup(script_safe(to_json(document.record, indent=None).strip())),
        )
    )


def to_card(document: Document) -> str:
    """Return the first screen for a notebook: no script and no id, so that it may be shown twice. Raise as `to_html`."""
    return _environment().get_template(CARD).render(document=document)


def templates_dir() -> Path:
    """Return the folder of the templates: in the package of a wheel, `reports/templates` in a checkout or an editable install.

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

    environment = Environment(
        loader=FileSystemLoader(templates_dir()),
        autoescape=True,
        undefined=StrictUndefined,
        # Plain text without control characters; markup as it is.
        finalize=lambda value: visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["breakable"] = _breakable
    return environment


def _breakable(text: str) -> Markup:
    """Return a text whose paths may go on in the next line behind a `/`, so that a narrow column breaks no name in them.

    A path is a word with two slashes; a unit has one, too.
    """
    from markupsafe import Markup, escape

    def broken(match: re.Match[str]) -> str:
        return match[0].replace("/", "/<wbr>") if match[0].count("/", 0, -1) > 1 else match[0]

    return Markup(_WORD.sub(broken, str(escape(visible(text)))))

"""What all pictures share: their record, their look, and the marks that several of them use.

Colours are the page's own CSS variables, so that one specification is right in the light, in the dark and on paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cs_input_analyzer.records import Estimate
from cs_input_analyzer.report.tables import Table

__all__ = [
    "CONFIG",
    "Chart",
    "Panel",
    "Spec",
    "axis",
    "coloured",
    "field",
    "interval_fields",
    "labelled",
    "layered",
    "rate_form",
    "time_unit",
    "tooltip",
]

Spec = Mapping[str, object]

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif"

_AXIS = {
    "labelColor": "var(--soft)",
    "titleColor": "var(--soft)",
    "labelFontSize": 12,
    "titleFontSize": 12,
    "titleFontWeight": 500,
    "titlePadding": 8,
    "labelPadding": 5,
    "gridColor": "var(--grid)",
    "domainColor": "var(--edge)",
    "tickColor": "var(--edge)",
    "tickSize": 4,
    "labelOverlap": True,
}

CONFIG: Spec = {
    "background": "transparent",
    "font": FONT,
    # The page itself names each picture and gives its table: a reader of the screen is spared the marks.
    "aria": False,
    "padding": 2,
    "view": {"stroke": None},
    "axis": _AXIS,
    "axisX": {"grid": False, "tickCount": 8},
    "axisY": {
        "domain": False,
        "ticks": False,
        "titleAnchor": "end",
        "titleAngle": 0,
        "titleAlign": "left",
        "titleY": -12,
        "titleX": 0,
    },
    "text": {"color": "var(--ink)", "fontSize": 12},
    "rule": {"color": "var(--ink)"},
    "scale": {"bandPaddingInner": 0.3},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One drawing of a picture. `title`: empty where it has only one."""

    spec: Spec
    title: str = ""
    height: int = 280


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A picture.

    Attributes:
        name: the `data-chart` of its element.
        title: what it shows, `caption` how to read it.
        panels: drawings that belong together.
        table: the same as text.
        key: the name of each colour, and the colour; empty where one says nothing.
        note: what was left out or put together; empty where it shows all.
    """

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    table: Table
    key: tuple[tuple[str, str], ...] = ()
    note: str = ""


def layered(layers: Sequence[Spec], *, height: int, **more: object) -> Spec:
    """A specification as wide as its place."""
    return {
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "layer": [*layers],
        **more,
    }


def field(name: str, kind: str = "quantitative", **more: object) -> Spec:
    return {"field": name, "type": kind, **more}


def axis(title: str, form: str = "~s", **more: object) -> Spec:
    """`form`: of d3-format; `~s` writes 12k for 12,000."""
    return {"title": title, "format": form, **more}


def tooltip(*names: str) -> list[Spec]:
    """Fields that hold text already, under their own names."""
    return [{"field": name, "type": "nominal", "title": name} for name in names]


def interval_fields(rate: Estimate) -> dict[str, float]:
    return {"rate": rate.estimate, "low": rate.low, "high": rate.high}


def labelled(encoding: Spec, color: str, *, bold: bool = False, **mark: object) -> list[Spec]:
    """Text on a picture, the field `label` of its row, with a rim of the card's colour that sets it off from marks behind it."""
    text = {"type": "text", "align": "left", "fontWeight": 600 if bold else 400, **mark}
    placed = {**encoding, "text": {"field": "label"}}
    rim = {
        "mark": {**text, "color": "var(--card)", "stroke": "var(--card)", "strokeWidth": 4, "strokeJoin": "round"},
        "encoding": placed,
    }
    return [rim, {"mark": {**text, "color": color}, "encoding": placed}]


def rate_form(highest: float) -> str:
    """How an axis up to `highest` is written: 12k, but 800 and not 0.8k."""
    return "~s" if highest >= 10_000 else ",~r"


def time_unit(longest_s: float) -> tuple[float, str]:
    """The unit in which times up to this are read best: how many seconds it has, and its name."""
    for seconds, name in ((1.0, "seconds"), (1e-3, "milliseconds"), (1e-6, "microseconds")):
        if longest_s >= seconds:
            return seconds, name
    return 1e-9, "nanoseconds"


def coloured(colors: Mapping[str, str]) -> Spec:
    """A colour for each name in the field `what`. The page itself writes the key: it wraps where a drawing would cut it off."""
    scale = {"domain": [*colors], "range": [*colors.values()]}
    return {"field": "what", "type": "nominal", "scale": scale, "legend": None}

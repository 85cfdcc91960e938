"""What all pictures share: their record, their look, and the marks that several of them use.

Colours are the page's own CSS variables, so that one specification is right in the light, in the dark and on paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cs_input_analyzer.report.tables import Column, Table

Spec = Mapping[str, object]
Row = dict[str, object]

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
# Titles of the upright axes stand above them.
_UPRIGHT = {"titleAnchor": "end", "titleAngle": 0, "titleAlign": "left", "titleY": -12, "titleX": 0}

CONFIG: Spec = {
    "background": "transparent",
    "font": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif",
    # The page itself names each picture and gives its table: a reader of the screen is spared the marks.
    "aria": False,
    "padding": 2,
    "view": {"stroke": None},
    "axis": _AXIS,
    "axisX": {"grid": False, "tickCount": 8},
    "axisY": {"domain": False, "ticks": False, **_UPRIGHT},
    "text": {"color": "var(--ink)", "fontSize": 12},
    "rule": {"color": "var(--ink)"},
    "scale": {"bandPaddingInner": 0.3},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One drawing of a picture, as wide as its place. `title`: empty where it has only one."""

    layers: Sequence[Spec]
    height: int
    title: str = ""

    @property
    def spec(self) -> Spec:
        autosize = {"type": "fit-x", "contains": "padding"}
        return {"width": "container", "height": self.height, "autosize": autosize, "layer": [*self.layers]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A picture. `name`: the `data-chart` of its element; `table`: the same as text; `key`: names and colours."""

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    table: Table
    key: tuple[tuple[str, str], ...] = ()
    note: str = ""


def shown(title: str, rows: Sequence[Row], *fields: str) -> Table:
    """The rows of a picture as a table: those of their fields that hold text."""
    columns = tuple(Column(name=name, meaning="") for name in fields)
    cells = tuple(tuple(str(row[name]) for name in fields) for row in rows)
    return Table(title=title, columns=columns, rows=cells)


def layer(rows: Sequence[Row], kind: str, mark: Spec, /, **encoding: object) -> Spec:
    """Marks of one kind, one for each row or one through all of them."""
    return {"data": {"values": rows}, "mark": {"type": kind, **mark}, "encoding": encoding}


def labels(rows: Sequence[Row], color: str, /, *, mark: Spec, **encoding: object) -> list[Spec]:
    """Text on a picture, the field `label` of its row, with a rim of the card's colour that sets it off from marks behind it."""
    rim = {"color": "var(--card)", "stroke": "var(--card)", "strokeWidth": 4, "strokeJoin": "round"}
    written = {"align": "left", **mark}
    return [layer(rows, "text", written | extra, **encoding, text={"field": "label"}) for extra in (rim, {"color": color})]


def field(name: str, kind: str = "quantitative", **more: object) -> Spec:
    return {"field": name, "type": kind, **more}


def axis(title: str, form: str = "~s", **more: object) -> Spec:
    """`form`: of d3-format; `~s` writes 12k for 12,000, and would write 0k."""
    return {"title": title, "format": form, "labelExpr": "datum.value === 0 ? '0' : datum.label", **more}


def tooltip(*names: str) -> list[Spec]:
    """Fields that hold text already, under their own names."""
    return [{"field": name, "type": "nominal", "title": name} for name in names]


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

"""The look of a picture, and the marks of which it is made.

Colours are the page's own CSS variables, so that one specification is right in the light, in the dark and on paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from cs_input_analyzer.report.document import Spec, Table, table_of, text

Row = dict[str, Any]

_AXIS = {
    "labelColor": "var(--soft)",
    "titleColor": "var(--soft)",
    "labelFontSize": 12,
    "titleFontSize": 12,
    "titleFontWeight": 500,
    "titlePadding": 8,
    "gridColor": "var(--track)",
    "domainColor": "var(--edge)",
    "tickColor": "var(--edge)",
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
    "scale": {"bandPaddingInner": 0.3},
}
# Expressions of Vega for the numbers at an axis: `800`, `12k`; `250µs`, `1.5s`; `40%`.
NUMBER = "format(datum.value, datum.value < 1000 ? ',~r' : '~s')"
SECONDS = "format(datum.value, '~s') + (datum.value ? 's' : '')"
SHARE = "format(datum.value, '~%')"


def shown(title: str, rows: Sequence[Row], *fields: str) -> Table:
    """Return the rows of a picture as a table of those fields that hold text."""
    return table_of(title, [text(name, "", itemgetter(name)) for name in fields], rows)


def layer(rows: Sequence[Row], kind: str, mark: Spec, /, **encoding: object) -> Spec:
    """Return marks of one kind: one for each row, or one through all rows."""
    return {"data": {"values": rows}, "mark": {"type": kind, **mark}, "encoding": encoding}


def labels(rows: Sequence[Row], color: str, /, *, mark: Spec, **encoding: object) -> list[Spec]:
    """Return text on a picture, the field `label` of its row, in a rim that sets it off from marks behind it."""
    rim = {"color": "var(--card)", "stroke": "var(--card)", "strokeWidth": 4, "strokeJoin": "round"}
    written = {"align": "left", **mark}
    return [layer(rows, "text", written | extra, **encoding, text={"field": "label"}) for extra in (rim, {"color": color})]


def field(name: str, **more: object) -> Spec:
    return {"field": name, "type": "quantitative", **more}


def axis(title: str, numbers: str = NUMBER, **more: object) -> Spec:
    return {"title": title, "labelExpr": numbers, **more}


def tooltip(*names: str) -> list[Spec]:
    """Return fields that hold text already, under their own names."""
    return [{"field": name, "type": "nominal", "title": name} for name in names]

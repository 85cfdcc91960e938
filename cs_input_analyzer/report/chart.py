"""Draw pictures as SVG text: the marks, and the frame with its axes.

A picture is as wide as its place, so places across are in % and places upwards in pixels. Text keeps its size on every screen.
Colours are classes of `charts.css`. So one picture is right in the light, in the dark and on paper.

A label never lies on the plot: each has a row of its own above it.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from cs_input_analyzer.report.document import Table, table_of, text
from cs_input_analyzer.units import visible

Row = dict[str, Any]
# A point of a curve, and a point that tells its numbers under the mouse.
Point = tuple[float, float]
Told = tuple[float, float, str]

# Pixels: a row of labels, the height of the plot itself, and the room below it for the numbers and the title of the axis.
ROW, HEIGHT, FOOT = 18, 180, 42
# Curves are drawn in a part of the picture that is stretched to its width.
STRETCHED = 1000
# Numbers at an axis that lie closer than this share of it would touch each other on a phone.
LEAST_APART, MOST_TICKS = 0.17, 6


def tag(name: str, attributes: Mapping[str, object], *inside: str) -> str:
    """Return an element. `inside` is markup."""
    written = "".join(f' {key}="{escaped(_short(value))}"' for key, value in attributes.items() if value != "")
    return f"<{name}{written}>{''.join(inside)}</{name}>" if inside else f"<{name}{written}/>"


def escaped(text: object) -> str:
    """Return text as markup, with control characters made visible."""
    return html.escape(visible(str(text)))


def told(tip: str) -> tuple[str, ...]:
    """Return what an element says under the mouse; nothing without a tip."""
    return (tag("title", {}, escaped(tip)),) if tip else ()


def _short(value: object) -> object:
    """Return a number with the digits that an eye can see. Raise ValueError for one that is not finite."""
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        raise ValueError(f"{value} has no place in a picture")
    return f"{value:.1f}".removesuffix(".0")


def axis_number(value: float) -> str:
    """Return `800`, `12k`, `1.5M`."""
    for step, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= step:
            return f"{value / step:.4g}{letter}"
    return f"{value:.4g}"


def percent(share: float) -> str:
    """Return a share of the width. Raise ValueError for one that is not finite."""
    _short(share)
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + "%"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """One axis. `form` writes its numbers; `is_whole`: it counts."""

    title: str
    low: float
    high: float
    form: Callable[[float], str]
    is_log: bool = False
    is_whole: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and (self.low > 0 or not self.is_log)):
            raise ValueError(f"no axis runs from {self.low} to {self.high}")

    def at(self, value: float) -> float:
        """Return the place of a value as a share of the axis; values outside lie on its ends."""
        low, high, value = (math.log(each) if self.is_log else each for each in (self.low, self.high, max(value, self.low)))
        return min(1.0, (value - low) / (high - low)) if high > low else 0.5

    def ticks(self) -> tuple[float, ...]:
        """Return round numbers whose labels have room beside each other."""
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1) if self.is_log else range(0)
        fine = [digit * 10.0**decade for decade in decades for digit in (1, 2, 5)]
        found = self._apart(fine)
        if len(found) < 2:
            found = self._apart(_round_numbers(self.low, self.high, self.is_whole))
        return found

    def _apart(self, candidates: Iterable[float]) -> tuple[float, ...]:
        found: list[float] = []
        for value in candidates:
            inside = self.low <= value <= self.high
            if inside and (not found or self.at(value) - self.at(found[-1]) >= LEAST_APART):
                found.append(value)
        return tuple(found)


def _round_numbers(low: float, high: float, is_whole: bool) -> list[float]:
    rough = (high - low) / MOST_TICKS
    if not rough > 0:
        return [low]
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    step = max(1.0, step) if is_whole else step
    first = math.ceil(low / step)
    return [step * count for count in range(first, first + MOST_TICKS + 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The plot of a picture: its axes and size. `rows`: rows of labels above the plot."""

    x: Scale
    y: Scale
    rows: int = 0
    height: int = HEIGHT

    @property
    def top(self) -> int:
        """Return the pixels above the plot: the axis title and the labels."""
        return ROW * (self.rows + 1)

    def across(self, value: float) -> str:
        """Return the place of a value from the left."""
        return percent(self.x.at(value))

    def upwards(self, value: float) -> float:
        """Return the place of a value from the top, in pixels."""
        return self.top + self.height * (1 - self.y.at(value))

    def path(self, points: Iterable[Point]) -> str:
        """Return points as a path in the part that is stretched."""
        return "L".join(f"{_short(STRETCHED * self.x.at(x))} {_short(self.upwards(y))}" for x, y in points)


def curve(frame: Frame, points: Sequence[Point], look: str) -> str:
    """Return a line through points."""
    return _stretched(frame, tag("path", {"class": f"curve {look}", "d": f"M{frame.path(points)}"}))


def area(frame: Frame, lows: Sequence[Point], highs: Sequence[Point], look: str) -> str:
    """Return the area between two curves."""
    outline = [*lows, *reversed(highs)]
    return _stretched(frame, tag("path", {"class": f"area {look}", "d": f"M{frame.path(outline)}Z"}))


def _stretched(frame: Frame, inside: str) -> str:
    height = frame.top + frame.height
    box = {"viewBox": f"0 0 {STRETCHED} {height}", "preserveAspectRatio": "none", "width": "100%", "height": height}
    return tag("svg", box, inside)


def dots(frame: Frame, points: Iterable[Told], look: str, radius: int = 3) -> str:
    """Return points that tell their numbers; one above the picture is an arrow at its upper edge."""
    drawn = []
    for x, y, tip in points:
        if y > frame.y.high:
            drawn.append(_sign(frame.across(x), frame.top, "M-5 9L0 0 5 9Z", "clipped", tip))
        else:
            place = {"cx": frame.across(x), "cy": frame.upwards(y), "r": radius}
            drawn.append(tag("circle", {"class": f"dot {look}", **place}, *told(tip)))
    return "".join(drawn)


def diamond(frame: Frame, x: float, y: float, look: str, tip: str) -> str:
    """Return a diamond at a point, with its hover text."""
    return _sign(frame.across(x), frame.upwards(y), "M0-8L8 0 0 8-8 0Z", f"dot {look}", tip)


def _sign(across: str, upwards: float, shape: str, look: str, tip: str) -> str:
    place = {"class": "sign", "x": across, "y": upwards}
    return tag("svg", place, tag("path", {"class": look, "d": shape}, *told(tip)))


def bars(frame: Frame, spans: Iterable[tuple[float, float, float, str]], look: str) -> str:
    """Return bars: from, to, height, and what each tells."""
    drawn = []
    for low, high, value, tip in spans:
        top, foot = frame.upwards(value), frame.upwards(0.0)
        place = {"x": frame.across(low), "y": top, "width": percent(frame.x.at(high) - frame.x.at(low))}
        drawn.append(tag("rect", {"class": f"bar {look}", **place, "height": max(1.0, foot - top)}, *told(tip)))
    return "".join(drawn)


def level(frame: Frame, value: float, look: str, tip: str = "") -> str:
    """Return a line across the picture."""
    at = frame.upwards(value)
    return tag("line", {"class": f"rule {look}", "x1": 0, "x2": "100%", "y1": at, "y2": at}, *told(tip))


def belt(frame: Frame, low: float, high: float, look: str) -> str:
    """Return a band across the picture."""
    top = frame.upwards(high)
    return tag("rect", {"class": f"area {look}", "x": 0, "width": "100%", "y": top, "height": frame.upwards(low) - top})


def upright(frame: Frame, value: float, look: str, *, label: str = "", row: int = 0, tip: str = "", low: float = 0.0) -> str:
    """Return a line from a value of the y axis up to its label, which stands in a row above the plot."""
    at = frame.across(value)
    top = ROW * (row + 1) + 4 if label else frame.top
    rule = tag("line", {"class": f"rule {look}", "x1": at, "x2": at, "y1": top, "y2": frame.upwards(low)}, *told(tip or label))
    return rule + (_label(frame, value, look, label, row) if label else "")


def shade(frame: Frame, low: float, high: float, look: str, *, label: str, row: int = 0) -> str:
    """Return a part of the picture that is set off, with its label in a row above the plot."""
    place = {"x": frame.across(low), "width": percent(frame.x.at(high) - frame.x.at(low)), "y": frame.top}
    return tag("rect", {"class": f"area {look}", **place, "height": frame.height}, *told(label)) + _label(
        frame, low, look, label, row
    )


def _label(frame: Frame, value: float, look: str, label: str, row: int) -> str:
    is_right = frame.x.at(value) > 0.5
    place = {"class": f"label {look}{' before' if is_right else ''}", "x": frame.across(value), "dx": -6 if is_right else 6}
    return tag("text", {**place, "y": ROW * (row + 2) - 4}, escaped(label))


def framed(frame: Frame, *marks: str) -> str:
    """Return the whole picture: its axes, then its marks."""
    foot, height = frame.top + frame.height, frame.top + frame.height + FOOT
    parts = [tag("text", {"class": "axis upright", "x": 0, "y": 12}, escaped(frame.y.title))]
    for value in frame.y.ticks():
        at = frame.upwards(value)
        parts.append(tag("line", {"class": "grid", "x1": 0, "x2": "100%", "y1": at, "y2": at}))
        parts.append(tag("text", {"class": "axis before", "x": -8, "y": at + 4}, escaped(frame.y.form(value))))
    parts.append(tag("line", {"class": "base", "x1": 0, "x2": "100%", "y1": foot, "y2": foot}))
    places = [({"class": "axis middle", "x": frame.across(value), "y": foot + 16}, value) for value in frame.x.ticks()]
    parts += [tag("text", place, escaped(frame.x.form(value))) for place, value in places]
    parts.append(tag("text", {"class": "axis before", "x": "100%", "y": foot + 34}, escaped(frame.x.title)))
    return tag("svg", {"class": "frame-of-axes", "height": height}, *parts, *marks)


def shown(title: str, rows: Sequence[Row], *fields: str) -> Table:
    """Return the rows of a picture as a table of those fields that hold text."""
    return table_of(title, [text(name, "", itemgetter(name)) for name in fields], rows)

"""Charts as SVG: specified in Vega-Lite, drawn by vl-convert (extra `plot`).

A chart has a text alternative, its marks show their values on hover, and its colours come from `palette`, for light
and dark pages. Viewing it needs no scripts, fonts or network.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from purerec.output import palette

_WIDTH, _HEIGHT = 460, 290
_LETTER = 6.6
"""Width of a letter in a label, a generous estimate"""
_MOST_MARKS = 60
"""Maximum points of a curve that show their values; on longer curves, every second, third and so on does"""
Spec = dict[str, Any]


@dataclass(frozen=True)
class Point:
    """A value, with an interval if it has one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Series:
    """Points that belong together."""

    name: str
    points: Sequence[Point]
    dashed: bool = False
    """A reference, not the subject of the chart."""


@dataclass(frozen=True)
class Spot:
    """One thing in a scatter plot."""

    name: str
    x: float
    y: float
    group: str = ""
    """Spots of a group share a colour."""
    size: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Axis:
    """The quantity on an axis."""

    title: str
    log: bool = False
    zero: bool = False
    """True if a linear axis starts at zero."""


@dataclass(frozen=True)
class Chart:
    """A chart to draw."""

    title: str
    alt: str
    """The text alternative, for people who cannot see the chart."""
    spec: Spec
    height: int = _HEIGHT


def lines(
    title: str, series: Sequence[Series], x: Axis, y: Axis, *, shape: Literal["linear", "steps"] = "linear"
) -> Chart:
    """Curves, with bands if points have intervals. `steps` fills the area below, as in a histogram."""
    shown = [
        Series(s.name, [p for p in s.points if _drawable(p.x, x) and _drawable(p.y, y)], s.dashed) for s in series
    ]
    shown = [s for s in shown if s.points]
    names = [s.name for s in shown]
    rows: list[Spec] = [
        {
            "series": s.name,
            "dashed": s.dashed,
            "x": p.x,
            "y": p.y,
            "low": p.y if p.low is None or not _drawable(p.low, y) else p.low,
            "high": p.y if p.high is None else p.high,
            "hover": f"{s.name}: {_said(p.y, p.low, p.high)} at {x.title} {p.x:g}",
            "marked": not s.dashed and n % -(-len(s.points) // _MOST_MARKS) == 0,
        }
        for s in shown
        for n, p in enumerate(s.points)
    ]
    colour = {"field": "series", "type": "nominal", "sort": names, "scale": _colours(names), "legend": _legend(names)}
    place = {"x": _channel("x", x, [r["x"] for r in rows]), "y": _channel("y", y, [r["y"] for r in rows])}
    place["y"]["stack"] = None  # otherwise areas would be stacked
    line: Spec = {"type": "line", "aria": False, "strokeWidth": 2}
    if shape == "steps":
        line |= {"type": "area", "interpolate": "step-after", "fillOpacity": 0.25, "line": {"strokeWidth": 1.5}}
    dash = {"condition": {"test": "datum.dashed", "value": [5, 4]}, "value": [1, 0]}
    layers: list[Spec] = [{"mark": line, "encoding": place | {"color": colour, "strokeDash": dash}}]
    if any(p.low is not None for s in shown for p in s.points):
        band = place | {"y": place["y"] | {"field": "low"}, "y2": {"field": "high"}, "color": colour}
        layers.insert(0, {"mark": {"type": "area", "aria": False, "opacity": 0.15}, "encoding": band})
    few = all(len(s.points) <= _MOST_MARKS for s in shown)
    layers.append(
        {
            "mark": {"type": "point", "filled": True, "size": 36 if few and shape == "linear" else 90},
            "transform": [{"filter": "datum.marked"}],
            "encoding": place
            | {
                "color": colour,
                "description": {"field": "hover"},
                "opacity": {"value": 1 if few and shape == "linear" else 0},
            },
        }
    )
    ends = "; ".join(
        f"{s.name} at {s.points[0].y:.3g}"
        if len({p.y for p in s.points}) == 1
        else f"{s.name} from {s.points[0].y:.3g} at {s.points[0].x:g} to {s.points[-1].y:.3g} at {s.points[-1].x:g}"
        for s in shown
    )
    what = f"{y.title} against {x.title}"
    return Chart(title, f"{title}: {what}. {ends or 'Nothing was recorded'}.", {"data": rows, "layer": layers})


def scatter(title: str, spots: Sequence[Spot], x: Axis, y: Axis, *, labels: bool = True) -> Chart:
    """Spots with their names beside them, and intervals if they have any."""
    groups = list(dict.fromkeys(spot.group for spot in spots))
    rows: list[Spec] = [
        {
            "name": spot.name,
            "group": spot.group,
            "x": spot.x,
            "y": spot.y,
            "low": spot.y if spot.low is None else spot.low,
            "high": spot.y if spot.high is None else spot.high,
            "hover": f"{spot.name}: {y.title} {_said(spot.y, spot.low, spot.high)}, {x.title} {spot.x:.3g}",
        }
        for spot in spots
        if _drawable(spot.x, x) and _drawable(spot.y, y)
    ]
    place = {"x": _channel("x", x, [r["x"] for r in rows]), "y": _channel("y", y, [r["y"] for r in rows])}
    if x.log and labels and rows:  # room for names
        place["x"]["scale"]["domain"] = [min(r["x"] for r in rows) / 1.5, max(r["x"] for r in rows) * 1.8]
    colour = {
        "field": "group",
        "type": "nominal",
        "sort": groups,
        "scale": _colours(groups),
        "legend": _legend(groups) if len(groups) > 1 else None,
    }
    dots = {"type": "circle", "size": 80 if labels else 14, "opacity": 1, "fillOpacity": 0.9 if labels else 0.5}
    marks = place | {"color": colour} | ({"description": {"field": "hover"}} if labels else {})
    dots["aria"] = labels
    layers: list[Spec] = [{"mark": dots, "encoding": marks}]
    if any(spot.low is not None for spot in spots):
        ends = {"x": place["x"], "y": place["y"] | {"field": "low"}, "y2": {"field": "high"}, "color": colour}
        layers.insert(0, {"mark": {"type": "rule", "aria": False, "strokeWidth": 1.5}, "encoding": ends})
    if labels:
        sides = _sides(rows, place)
        for side, (align, dx, dy) in _SIDES.items():
            text = {"type": "text", "aria": False, "align": align, "baseline": "middle", "dx": dx, "dy": dy}
            own = [row for row, chosen in zip(rows, sides, strict=True) if chosen == side]
            layers.append({"data": {"values": own}, "mark": text, "encoding": place | {"text": {"field": "name"}}})
        found = "; ".join(r["hover"] for r in rows)
    else:
        found = "; ".join(f"{sum(r['group'] == g for r in rows)} of {g}" for g in groups)
    return Chart(title, f"{title}: {y.title} against {x.title}. {found}.", {"data": rows, "layer": layers})


def bubbles(title: str, spots: Sequence[Spot], x: Axis, size: str) -> Chart:
    """A line for each spot, in the given order, with a circle at its place on `x` whose area is `size`."""
    names = [spot.name for spot in spots]
    rows: list[Spec] = [
        {
            "name": spot.name,
            "group": spot.group,
            "x": spot.x,
            "size": spot.size,
            "hover": f"{spot.name}: {x.title} {spot.x:.3g}, {size} {_said(spot.y, spot.low, spot.high)}",
        }
        for spot in spots
        if _drawable(spot.x, x)
    ]
    groups = list(dict.fromkeys(spot.group for spot in spots))
    # Browser fonts are wider than the font used to measure labels.
    room = _LETTER * max((len(name) for name in names), default=0)
    axis = {"title": None, "grid": True, "domain": False, "ticks": False, "minExtent": room, "labelLimit": 2 * room}
    place = _channel("x", x, [r["x"] for r in rows])
    if x.log and rows:  # room for circles
        place["scale"]["domain"] = [min(r["x"] for r in rows) / 1.5, max(r["x"] for r in rows) * 1.5]
    encoding = {
        "x": place,
        "y": {"field": "name", "type": "nominal", "sort": names, "axis": axis},
        "size": {
            "field": "size",
            "type": "quantitative",
            "title": size,
            "scale": {"zero": True, "rangeMax": 320},
            "legend": None,
        },
        "color": {"field": "group", "type": "nominal", "sort": groups, "scale": _colours(groups), "legend": None},
        "description": {"field": "hover"},
    }
    layer = {"mark": {"type": "circle", "opacity": 1, "fillOpacity": 0.85}, "encoding": encoding}
    found = "; ".join(r["hover"] for r in rows)
    alt = f"{title}: {x.title}, and {size} as the size of the circles. {found}."
    return Chart(title, alt, {"data": rows, "layer": [layer]}, height=60 + 20 * len(names))


# ---------------------------------------------------------------------- Vega-Lite


def vega_lite(chart: Chart) -> Spec:
    """The complete Vega-Lite specification."""
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "width": _WIDTH,
        "height": chart.height,
        "autosize": {"type": "fit", "contains": "padding"},
        "background": None,
        "padding": {"left": 8, "right": 8, "top": 4, "bottom": 4},
        "title": {"text": chart.title, "anchor": "start"} if chart.title else None,
        "data": {"values": chart.spec["data"]},
        "layer": chart.spec["layer"],
        "config": _CONFIG,
    }


_FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
"""vl-convert ships the first, so text is measured the same way on all machines; the next two have the same width."""
_CONFIG: Spec = {
    "font": _FONT,
    "view": {"stroke": None},
    "axis": {
        "aria": False,
        "labelColor": palette.DIM,
        "titleColor": palette.DIM,
        "titleFontWeight": "normal",
        "gridColor": palette.LINE,
        "domainColor": palette.LINE,
        "tickColor": palette.LINE,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titlePadding": 10,
    },
    "legend": {
        "aria": False,
        "orient": "top",
        "title": None,
        "labelColor": palette.INK,
        "labelFontSize": 12,
        "columns": 3,
        "symbolType": "circle",
        "symbolStrokeWidth": 0,
        "symbolOpacity": 1,
        "labelLimit": 220,
        "columnPadding": 18,
        "offset": 4,
    },
    "text": {"color": palette.INK, "fontSize": 11},
    "title": {"color": palette.INK, "fontSize": 13, "fontWeight": "bold"},
}


def _colours(names: Sequence[str]) -> Spec:
    return {"domain": list(names), "range": [palette.colour(n) for n in range(len(names))]}


def _legend(names: Sequence[str]) -> Spec | None:
    if names == [""] or not names:
        return None
    wide = max(map(len, names)) > 18
    return {"columns": 2 if wide else 3, "symbolOpacity": 1}


def _channel(field: str, axis: Axis, values: Sequence[float]) -> Spec:
    scale: Spec = {"type": "log"} if axis.log else {"type": "linear", "zero": axis.zero, "nice": True}
    shape: Spec = {"title": axis.title, "grid": field == "y", "tickCount": 5}
    if axis.log and values:
        low, high = math.floor(math.log10(min(values)) + 1e-9), math.ceil(math.log10(max(values)) - 1e-9)
        step = max(1, math.ceil((high - low) / 7))
        ticks = [10.0**n for n in range(low, high + 1, step)]
        powers = "replace(format(datum.value, '.0e'), '+', '')"
        plain = low >= -3 and high <= 4
        shape |= {"values": ticks, "labelOverlap": False} | ({"format": "~g"} if plain else {"labelExpr": powers})
        # If the values span less than a power of ten, the axis ends at the values, and Vega chooses the ticks.
        if math.log10(max(values) / min(values)) < 1:
            shape = {"title": axis.title, "grid": field == "y", "format": "~g", "tickCount": 4}
            scale["domain"] = [min(values) / 1.1, max(values) * 1.1]
        else:
            scale["domain"] = [10.0**low, 10.0**high] if field == "y" else [min(values), max(values)]
    return {"field": field, "type": "quantitative", "scale": scale, "axis": shape}


def _drawable(value: float, axis: Axis) -> bool:
    return math.isfinite(value) and not (axis.log and value <= 0)


def _said(value: float, low: float | None, high: float | None) -> str:
    text = f"{value:.4g}"
    return text if low is None or high is None or low == high else f"{text} ({low:.4g} to {high:.4g})"


_SIDES = {"right": ("left", 7, 0), "left": ("right", -7, 0), "above": ("center", 0, -11), "below": ("center", 0, 11)}
"""Possible places of a name: alignment, and distance from its spot"""


def _sides(rows: Sequence[Spec], place: Spec) -> list[str]:
    """For each spot, the side on which its name covers the fewest others, estimated before drawing."""
    xs, ys = (_positions([r[f] for r in rows], place[f], size) for f, size in (("x", _WIDTH - 60), ("y", -210)))
    taken = [(x - 5, y - 5, x + 5, y + 5) for x, y in zip(xs, ys, strict=True)]
    chosen = []
    for row, x, y in zip(rows, xs, ys, strict=True):
        width, boxes = 6.2 * len(row["name"]), {}
        for side, (align, dx, dy) in _SIDES.items():
            left = x + dx - {"left": 0.0, "center": width / 2, "right": width}[align]
            boxes[side] = (left, y + dy - 6, left + width, y + dy + 6)
        best = min(boxes, key=lambda side: sum(_overlap(boxes[side], box) for box in taken) + _outside(boxes[side]))
        taken.append(boxes[best])
        chosen.append(best)
    return chosen


def _positions(values: Sequence[float], channel: Spec, size: float) -> list[float]:
    """Positions in pixels, from the lowest value up (or, with a negative size, from the highest down)."""
    at = [math.log10(v) if channel["scale"]["type"] == "log" else v for v in values]
    low, high = min(at, default=0), max(at, default=1)
    return [(v - low) / ((high - low) or 1) * size for v in at]


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))


def _outside(box: tuple[float, ...]) -> float:
    return 20 * (max(0.0, -box[0]) + max(0.0, box[2] - (_WIDTH - 55)))

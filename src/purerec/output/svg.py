"""Drawing charts: SVG elements for a page, and standalone SVG files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from purerec.errors import MissingExtraError
from purerec.output import palette
from purerec.output.charts import Chart, vega_lite

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_SVG = "http://www.w3.org/2000/svg"
_KEPT = ("x", "y", "x2", "y2", "d", "transform", "viewBox", "width", "height", "opacity", "text-anchor")
_KEPT_PREFIXES = ("fill", "stroke", "font")
_INHERITED = (
    "fill",
    "fill-opacity",
    "stroke",
    "stroke-width",
    "text-anchor",
    "font-family",
    "font-size",
    "font-weight",
)
"""Attributes that a group may set for all its elements"""
_NOTHING = "M0,0h0v0h0Z"
_GAP = 12


def element(chart: Chart) -> str:
    """An <svg> element for a page whose style has the colours of `palette`."""
    return _text(_drawn(chart))


def file(charts: Sequence[Chart], *, title: str, columns: int = 2) -> str:
    """One SVG file with the charts side by side, with colours for light and dark screens."""
    drawn = [_drawn(chart) for chart in charts]
    columns = min(columns, len(drawn))
    width = max(float(svg.attrib["width"]) for svg in drawn)
    rows = [drawn[n : n + columns] for n in range(0, len(drawn), columns)]
    heights = [max(float(svg.attrib["height"]) for svg in row) for row in rows]
    total = columns * width + (columns - 1) * _GAP, sum(heights) + (len(rows) - 1) * _GAP
    whole = _labelled(f"{title}. " + " ".join(chart.alt for chart in charts))
    whole.attrib |= {"viewBox": f"0 0 {total[0]:g} {total[1]:g}", "width": f"{total[0]:g}", "height": f"{total[1]:g}"}
    style = ElementTree.SubElement(whole, f"{{{_SVG}}}style")
    style.text = palette.style()
    ElementTree.SubElement(whole, f"{{{_SVG}}}rect", {"width": "100%", "height": "100%", "fill": "var(--page)"})
    top = 0.0
    for row, height in zip(rows, heights, strict=True):
        for n, svg in enumerate(row):
            for name in ("role", "aria-label"):
                svg.attrib.pop(name)
            svg.attrib |= {"x": f"{n * (width + _GAP):g}", "y": f"{top:g}"}
            whole.append(svg)
        top += height + _GAP
    return _text(whole) + "\n"


def _drawn(chart: Chart) -> Element:
    raw = ElementTree.fromstring(_vl_convert().vegalite_to_svg(vega_lite(chart)))
    svg = _labelled(chart.alt)
    svg.attrib |= {name: raw.attrib[name] for name in ("viewBox", "width", "height")}
    svg.extend(raw)
    _clean(svg)
    return svg


def _vl_convert() -> Any:
    try:
        import vl_convert
    except ModuleNotFoundError:
        raise MissingExtraError("vl-convert-python", "plot", purpose="drawing charts") from None
    return vl_convert


def can_draw() -> bool:
    """Return whether the extra is installed."""
    from importlib.util import find_spec

    return find_spec("vl_convert") is not None


def check_can_draw(purpose: str) -> None:
    """Raise an error that names the extra if it is not installed."""
    if not can_draw():
        raise MissingExtraError("vl-convert-python", "plot", purpose=purpose)


def _labelled(alt: str) -> Element:
    return ElementTree.Element(f"{{{_SVG}}}svg", {"class": "chart", "role": "img", "aria-label": alt})


def _clean(node: Element) -> None:
    """Remove invisible elements; Vega's description of a mark becomes its title, which browsers show on hover."""
    for child in list(node):
        is_mark = (
            child.attrib.get("role") == "graphics-symbol" and child.attrib.get("aria-roledescription") != "title"
        )
        label = child.attrib.get("aria-label") if is_mark else None
        child.attrib = {
            name: _rounded(value)
            for name, value in child.attrib.items()
            if name in _KEPT or name.startswith(_KEPT_PREFIXES)
        }
        _clean(child)
        invisible = child.attrib.get("opacity") == "0" and label is None
        empty = child.tag == f"{{{_SVG}}}g" and not len(child)
        blank = child.tag == f"{{{_SVG}}}text" and not (child.text or "").strip()
        background = child.tag == f"{{{_SVG}}}path" and not {"fill", "stroke"} & child.attrib.keys() and label is None
        if invisible or empty or blank or background or child.attrib.get("d") == _NOTHING:
            node.remove(child)
        elif label is not None:
            title = ElementTree.Element(f"{{{_SVG}}}title")
            title.text = label
            child.insert(0, title)
    for name in _INHERITED:
        values = {child.attrib.get(name) for child in node}
        if len(node) > 1 and len(values) == 1 and (value := values.pop()) is not None:
            node.attrib[name] = value
            for child in node:
                del child.attrib[name]


def _rounded(text: str) -> str:
    return re.sub(r"-?\d+\.\d+", lambda found: f"{float(found[0]):.1f}".removesuffix(".0"), text)


def _text(svg: Element) -> str:
    ElementTree.register_namespace("", _SVG)
    ElementTree.indent(svg, " ")
    return ElementTree.tostring(svg, encoding="unicode")

"""Line charts as inline SVG: no script, no font, no network. Colours come from the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

Curve = Sequence[tuple[float, float]]
_WIDTH, _HEIGHT = 560, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 12, 12, 34


def line_chart(curves: Mapping[str, Curve], *, x_label: str, log: bool = False) -> str:
    """One chart with a legend; empty curves are left out. `log` for quantities over many orders of magnitude."""
    shown = {name: [(x, y) for x, y in curve if not log or y > 0] for name, curve in curves.items()}
    shown = {name: curve for name, curve in shown.items() if curve}
    if not shown:
        return '<p class="none">nothing recorded</p>'
    xs = [x for curve in shown.values() for x, _ in curve]
    ys = [math.log10(y) if log else y for curve in shown.values() for _, y in curve]
    x_ticks, y_ticks = _ticks(min(xs), max(xs), whole=True), _ticks(min(ys), max(ys), whole=log)
    x_low, x_high = min(xs), max(max(xs), min(xs) + 1)
    y_low, y_high = min(ys[0], *ys, *y_ticks), max(*ys, *y_ticks)
    if y_high == y_low:
        y_high += 1

    def place(x: float, y: float) -> tuple[float, float]:
        value = math.log10(y) if log else y
        return (
            _LEFT + (x - x_low) / (x_high - x_low) * (_WIDTH - _LEFT - _RIGHT),
            _TOP + (y_high - value) / (y_high - y_low) * (_HEIGHT - _TOP - _BOTTOM),
        )

    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(", ".join(shown))}">']
    for tick in y_ticks:
        y = place(x_low, 10**tick if log else tick)[1]
        label = f"1e{tick:g}" if log else f"{tick:g}"
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    for tick in x_ticks:
        x = _LEFT + (tick - x_low) / (x_high - x_low) * (_WIDTH - _LEFT - _RIGHT)
        parts.append(f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle">{tick:g}</text>')
    parts.append(f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 4}" text-anchor="end">{escape(x_label)}</text>')
    for n, curve in enumerate(shown.values()):
        points = [place(x, y) for x, y in curve]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline class="c{n}" points="{path}"/>')
        if len(points) <= 40:
            parts += [f'<circle class="c{n}" cx="{x:.1f}" cy="{y:.1f}" r="2.2"/>' for x, y in points]
    parts.append("</svg>")
    keys = "".join(f'<li class="c{n}">{escape(name)}</li>' for n, name in enumerate(shown))
    return "".join(parts) + f'<ul class="legend">{keys}</ul>'


def _ticks(low: float, high: float, *, whole: bool = False) -> list[float]:
    """Round numbers that cover the range, about five of them."""
    if high <= low:
        return [low]
    raw = (high - low) / 5
    power = 10 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw)
    step = max(1.0, round(step)) if whole else step
    first = math.ceil(low / step - 1e-9)
    return [round(n * step, 12) for n in range(first, math.floor(high / step + 1e-9) + 1)]

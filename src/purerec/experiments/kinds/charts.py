"""Charts as experiments write them to their results files: the numbers and the axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from purerec.errors import PurerecError

_DIGITS = 5


def recorded(
    title: str,
    x: str,
    y: str,
    series: Mapping[str, Iterable[Sequence[float]]],
    *,
    shape: Literal["linear", "steps", "points"] = "linear",
    log: Sequence[str] = (),
    dashed: Sequence[str] = (),
) -> dict[str, Any]:
    """A chart of named series of (x, y) or (x, y, low, high), for `output.study.figures`."""
    shown = [
        {
            "name": name,
            "points": [[float(f"{value:.{_DIGITS}g}") for value in point] for point in points],
            "dashed": name in dashed,
        }
        for name, points in series.items()
    ]
    if not any(one["points"] for one in shown):
        raise PurerecError(f"there is nothing to draw of {title!r}; the experiment recorded nothing")
    return {
        "title": title,
        "shape": shape,
        "x": {"title": x, "log": "x" in log},
        "y": {"title": y, "log": "y" in log},
        "series": shown,
    }

"""A comparison as a chart: a metric with its interval against the fit time. Needs the extra `plot`."""

from __future__ import annotations

import base64
import os
import re
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from purerec import storage
from purerec.errors import ConfigError, MissingExtraError
from purerec.evaluation.significance import bootstrap_interval
from purerec.experiments.advice import costs_and_tests, doubts
from purerec.output import page, palette, svg
from purerec.output.charts import Axis, Chart, Spot, scatter
from purerec.rng import named_rng

if TYPE_CHECKING:
    from purerec.experiments.results import Comparison

_SHORTEST = 0.001
"""Very short fits are drawn at a millisecond: the axis is logarithmic."""


@dataclass(frozen=True)
class Picture:
    """A chart that notebooks display and that can be saved."""

    chart: Chart

    @property
    def svg(self) -> str:
        """A whole SVG file, with colours for light and dark screens."""
        return svg.file([self.chart], title=self.chart.title, columns=1)

    @property
    def png(self) -> bytes:
        """The same as PNG, in the colours of a light screen and at twice the size."""
        try:
            from vl_convert import svg_to_png
        except ModuleNotFoundError:
            raise MissingExtraError("vl-convert-python", "plot", purpose="drawing charts") from None
        light = dict(re.findall(r"--(\w+): ([^;]+);", palette.style().split("}")[0]))
        plain = re.sub(r"<(\w+:)?style>.*?</(\w+:)?style>", "", self.svg, flags=re.DOTALL)
        drawn: bytes = svg_to_png(re.sub(r"var\(--(\w+)\)", lambda name: light[name[1]], plain), scale=2)
        return drawn

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it to a file that ends in .svg or .png."""
        check_name(path)
        return storage.write_file(path, self.png if os.fspath(path).endswith(".png") else self.svg)

    def _repr_html_(self) -> str:
        coded = base64.b64encode(self.svg.encode()).decode()
        return f'<img alt="{escape(self.chart.alt)}" src="data:image/svg+xml;base64,{coded}">'


def check_name(path: str | os.PathLike[str]) -> None:
    """Raise an error for an unsupported file name before any work is done."""
    if not os.fspath(path).endswith((".svg", ".png")):
        raise ConfigError(f"a picture is written to a .svg or .png file, not to {os.fspath(path)}")
    if not svg.can_draw():
        raise MissingExtraError("vl-convert-python", "plot", purpose="drawing charts")


def picture(found: Comparison, metric: str | None = None) -> Picture:
    """One point for each model, with the 95 % interval of its mean over people."""
    shown = metric or found.metric
    if shown not in found.metrics:
        raise ConfigError(f"there is no {shown!r} in this comparison; it has {', '.join(found.metrics)}")
    spots = []
    for name, results in found.results.items():
        values = [r.evaluation.per_user[shown] for r in results if shown in r.evaluation.per_user]
        low, high = None, None
        if values:
            low, high = bootstrap_interval(np.mean(values, axis=0), named_rng(0, "bootstrap"))
        seconds = max(_SHORTEST, found.fit_seconds(name))
        spots.append(Spot(name, seconds, found.mean(name, shown), low=low, high=high))
    return Picture(scatter(f"{found.data}: {shown} and fit time", spots, Axis("fit time (s)", log=True), Axis(shown)))


def html(found: Comparison) -> str:
    """The tables and the advice for a notebook, with the chart if it can be drawn."""
    scores = [[_text(cell) for cell in row] for row in found.scores()]
    parts = [
        f"<p><b>{escape(found.advice)}</b></p>",
        page.table(["model", *found.metrics], scores),
        page.table(*costs_and_tests(found), words=(0, 4)),
        *(f"<p>{escape(doubt)}</p>" for doubt in doubts(found)),
    ]
    if svg.can_draw() and len(found.results) > 1:
        parts.append(picture(found)._repr_html_())
    return "<div>" + "".join(parts) + "</div>"


def _text(cell: object) -> str:
    return "" if cell is None else f"{cell:.4f}" if isinstance(cell, float) else str(cell)

"""Results as figures, which are specified in experiments/figures.toml."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from purerec.output.charts import Axis, Chart, Point, Series, Spot, bubbles, lines, scatter
from purerec.output.study.results import PanelResults, StudyResults, panels
from purerec.paper.printed import experiments_folder
from purerec.storage.toml_files import TomlTable, checked, read_toml

_LEAST_SECONDS = 0.001
"""Shortest time shown: a logarithmic axis has no zero."""
_TITLES = {"ml-100k": "ML-100k", "ml-1m": "ML-1M", "yelp": "Yelp", "gowalla": "Gowalla"}


class FigureSpec(TomlTable):
    """One figure of experiments/figures.toml."""

    name: str
    title: str
    caption: str = ""
    chart: Literal["time", "bubbles", "sweep", "regret", "recorded"]
    """time: accuracy against the time of a fit; bubbles: the same with accuracy as the size of circles, the paper's
    figure 'Running time'; sweep: metrics against a setting that lines vary; regret: how far defaults fall behind the
    best settings, cumulated over logs; recorded: charts as written by the experiment."""
    results: list[str] = Field(min_length=1)
    """Experiments it is made from; those without results are left out."""
    metrics: list[str] = Field(default=[])
    """By default, the deciding metric of the experiment."""
    protocols: list[str] = Field(default=["exact", "sampled"])
    highlight: str = "pure"
    """The subject of the figure."""
    models: list[str] | None = None
    """The models of a comparison to show."""
    show: list[str] | None = None
    """Show only recorded charts whose titles start with one of these."""


class _Figures(TomlTable):
    """The file."""

    figures: list[FigureSpec]


def figure_specs(path: Path | None = None) -> list[FigureSpec]:
    """All figures, in their order."""
    path = path or experiments_folder() / "figures.toml"
    return checked(path, read_toml(path), _Figures).figures


def charts_of(spec: FigureSpec, results: Mapping[str, StudyResults]) -> list[Chart]:
    """The charts of a figure; empty if none of its experiments has results."""
    return [
        chart for name in spec.results if name in results for chart in _KINDS[spec.chart](spec, name, results[name])
    ]


def accuracy_and_time(
    panel: PanelResults, metric: str, *, highlight: str = "pure", models: Sequence[str] = ()
) -> Chart:
    """Models (by default all) by accuracy and fit time."""
    spots = _spots(panel, metric, highlight, models)
    return scatter(_title(panel), spots, Axis("seconds to fit", log=True), Axis(metric))


def _time(spec: FigureSpec, name: str, found: StudyResults) -> list[Chart]:
    return [
        accuracy_and_time(panel, metric, highlight=spec.highlight, models=spec.models or ())
        for panel in _panels(spec, name, found)
        for metric in spec.metrics or [panel.metric]
        if metric in panel.metrics
    ]


def _bubbles(spec: FigureSpec, name: str, found: StudyResults) -> list[Chart]:
    made = []
    for panel in _panels(spec, name, found):
        metric = (spec.metrics or [panel.metric])[0]
        spots = sorted(_spots(panel, metric, spec.highlight, spec.models or ()), key=lambda spot: -spot.y)
        made.append(bubbles(_title(panel), spots, Axis("seconds to fit", log=True), metric))
    return made


def _spots(panel: PanelResults, metric: str, highlight: str, models: Sequence[str]) -> list[Spot]:
    spots = []
    shown = [model for model in panel.models if not models or model in models]
    for model in sorted(shown, key=lambda model: not _is_of(model, highlight)):
        mean, spread = panel.mean(model, metric), panel.deviation(model, metric)
        ends = (None, None) if spread is None else (mean - spread, mean + spread)
        group = highlight if _is_of(model, highlight) else "others"
        spots.append(Spot(model, max(_LEAST_SECONDS, panel.seconds(model)), mean, group, mean, *ends))
    return spots


def _is_of(model: str, highlight: str) -> bool:
    return model == highlight or model.startswith(f"{highlight},")


def _sweep(spec: FigureSpec, name: str, found: StudyResults) -> list[Chart]:
    return [
        _swept(panel, metric)
        for panel in _panels(spec, name, found)
        for metric in spec.metrics or [panel.metric]
        if metric in panel.metrics
    ]


def _swept(panel: PanelResults, metric: str) -> Chart:
    """Lines that vary a setting, plus or minus one deviation; the other models as dashed lines."""

    def point(value: float, row: str) -> Point:
        mean, spread = panel.mean(row, metric), panel.deviation(row, metric)
        return Point(value, mean) if spread is None else Point(value, mean, mean - spread, mean + spread)

    series = [Series(line, [point(*one) for one in rows]) for line, rows in panel.lines.items()]
    xs = [p.x for one in series for p in one.points]
    for model in panel.models:
        if model not in panel.varied:
            mean = panel.mean(model, metric)
            series.append(Series(model, [Point(min(xs), mean), Point(max(xs), mean)], dashed=True))
    wide = max(xs) / min(xs) > 20 if min(xs) > 0 else False
    what = panel.setting.replace("_", " ")
    return lines(f"{_title(panel)}, {metric}", series, Axis(what, log=wide), Axis(metric))


def _regret(spec: FigureSpec, name: str, found: StudyResults) -> list[Chart]:
    def climb(regrets: Sequence[float]) -> list[Point]:
        return [Point(100 * regret, (n + 1) / len(regrets)) for n, regret in enumerate(sorted(regrets))]

    series = [
        Series(model, climb([choice["regret_of_defaults"] for choice in logs.values()]))
        for model, logs in found["left_out"].items()
        if spec.models is None or model in spec.models
    ]
    behind = Axis(f"per cent of {found['metric']} behind the best settings")
    return [lines(f"Defaults on {len(found['logs'])} logs", series, behind, Axis("share of logs", zero=True))]


def _recorded(spec: FigureSpec, name: str, found: StudyResults) -> list[Chart]:
    made = []
    for chart in found.get("charts", []):
        if spec.show is not None and not chart["title"].startswith(tuple(spec.show)):
            continue
        x, y = (Axis(chart[axis]["title"], log=chart[axis].get("log", False)) for axis in ("x", "y"))
        if chart["shape"] == "points":
            spots = [Spot(one["name"], px, py, one["name"]) for one in chart["series"] for px, py in one["points"]]
            made.append(scatter(chart["title"], spots, x, y, labels=False))
        else:
            series = [
                Series(one["name"], [Point(*point) for point in one["points"]], one.get("dashed", False))
                for one in chart["series"]
            ]
            y = Axis(y.title, y.log, zero=chart["shape"] == "steps")
            made.append(lines(chart["title"], series, x, y, shape=chart["shape"]))
    return made


def _panels(spec: FigureSpec, name: str, found: StudyResults) -> list[PanelResults]:
    return [panel for panel in panels(name, found) if panel.protocol in spec.protocols]


def _title(panel: PanelResults) -> str:
    return _TITLES.get(panel.data, panel.data)


_KINDS: dict[str, Callable[[FigureSpec, str, StudyResults], Sequence[Chart]]] = {
    "time": _time,
    "bubbles": _bubbles,
    "sweep": _sweep,
    "regret": _regret,
    "recorded": _recorded,
}

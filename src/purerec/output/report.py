"""`report.html` of a fitted model: one self-contained file that opens without a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any, Protocol

from purerec.errors import counted
from purerec.output import page, svg
from purerec.output.charts import Axis, Chart, Point, Series, lines
from purerec.output.settings import shown_settings

if TYPE_CHECKING:
    from purerec.evaluation.protocols import Evaluation
    from purerec.models.contract.fitted_on import FittedOn
    from purerec.training.history import History


class ReportedModel(Protocol):
    """What the report needs from a model."""

    @property
    def name(self) -> str: ...
    @property
    def config(self) -> Any: ...
    @property
    def fitted_on(self) -> FittedOn: ...


def fit_report(
    model: ReportedModel,
    evaluation: Evaluation | None = None,
    beside: Mapping[str, Mapping[str, float]] | None = None,
) -> str:
    """The page as text. `beside` are other rows of metrics to show alongside, by name."""
    facts = model.fitted_on
    history: History | None = getattr(model, "history", None)
    title = f"{model.name} on {facts.name}"
    rows = {
        "users": f"{facts.users:,}",
        "items": f"{facts.items:,}",
        "interactions": f"{facts.interactions:,}",
        "positives": f"{facts.positives:,}"
        + (f" (rating >= {facts.positive_rating:g})" if facts.positive_rating is not None else ""),
        "seed": facts.seed,
        "fitted in": f"{facts.fit_seconds:.2f} s",
        "data fingerprint": facts.fingerprint[:16],
    }
    if history is not None:
        rows["stopped"] = history.stopped
        if history.best_epoch is not None:
            rows["best epoch"] = f"{history.best_epoch} ({history.best_metric:.4f})"
    body = [
        f"<h1>{escape(title)}</h1><p class='dim'>Fitted with purerec. Curves are of this one run.</p>",
        _metrics(evaluation, beside or {}),
        page.grid(
            [
                page.section("Fitted on", page.facts(rows)),
                page.section("Settings", page.facts(shown_settings(model.config, facts.resolved))),
            ]
        ),
    ]
    if history is not None and history.records:
        body.append(_curves(history))
    return page.page(title, body)


def _curves(history: History) -> str:
    if not svg.can_draw():
        return page.section("Curves", "<p>Curves are drawn with the extra plot: pip install 'purerec[plot]'</p>")
    shown = [(title, chart) for title, chart in _charts(history) if chart.spec["data"]]
    return page.grid([page.section(title, page.figure([chart])) for title, chart in shown])


def _charts(history: History) -> list[tuple[str, Chart]]:
    def curves(title: str, names: Mapping[str, str], what: str, *, log: bool = False) -> tuple[str, Chart]:
        series = [Series(shown, _points(history.curve(name))) for shown, name in names.items()]
        chart = lines("", series, Axis("epoch"), Axis(what, log=log))
        return title, replace(chart, alt=f"{title}{chart.alt}")

    return [
        curves("Loss", {"discriminator": "loss", "generators": "generator_loss"}, "loss"),
        curves("On validation data", {history.metric: history.metric}, history.metric),
        curves(
            "D on positives, unlabeled pairs and fakes",
            {name: f"D({name})" for name in ("positive", "unlabeled", "fake")},
            "D",
            log=True,
        ),
        curves(
            "Mean norms of embeddings",
            {"users": "user_norm", "items": "item_norm", "fakes": "fake_norm"},
            "norm",
        ),
        curves("Learning rate", {"rate": "learning_rate"}, "learning rate", log=True),
    ]


def _points(curve: Sequence[tuple[int, float]]) -> list[Point]:
    return [Point(epoch, value) for epoch, value in curve]


def _metrics(evaluation: Evaluation | None, beside: Mapping[str, Mapping[str, float]]) -> str:
    if evaluation is None:
        return ""
    rows = {evaluation.model: evaluation.metrics, **beside}
    cells = [
        [name, *(f"{row[metric]:.4f}" if metric in row else "" for metric in evaluation.metrics)]
        for name, row in rows.items()
    ]
    note = f"{evaluation.label}; {counted(evaluation.n_users_evaluated, 'user')}"
    table = page.table(["", *evaluation.metrics], cells, caption=note)
    return page.section(f"Metrics on {evaluation.on} data", table)

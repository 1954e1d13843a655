"""`report.html` of a fitted model: one self-contained file that opens without a network."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any, Protocol

from purerec.output.settings import shown_settings
from purerec.output.svg import line_chart

if TYPE_CHECKING:
    from purerec.evaluation.protocols import Evaluation
    from purerec.models.contract.fitted_on import FittedOn
    from purerec.training.history import History

_STYLE = """
:root { --ink: #1d2733; --dim: #66727f; --line: #dfe4ea; --page: #ffffff; --card: #f6f8fa;
  --c0: #1668c7; --c1: #d2691e; --c2: #2a8f4f; --c3: #9b3fb5; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e9ee; --dim: #98a4b0; --line: #333d47; --page: #14191f;
  --card: #1c232b; --c0: #64a8f0; --c1: #f0a060; --c2: #67c98a; --c3: #cf8fe3; } }
* { box-sizing: border-box } body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif } main { max-width: 76rem; margin: 0 auto; padding: 1.5rem 1rem 3rem }
h1 { font-size: 1.5rem; margin: 0 } h2 { font-size: 1.05rem; margin: 0 0 .5rem } .dim, .none { color: var(--dim) }
.grid2 { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)) }
section { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: 1rem;
  margin-top: 1rem; overflow-x: auto } table { border-collapse: collapse; font-variant-numeric: tabular-nums }
td, th { padding: .15rem .9rem .15rem 0; text-align: left; vertical-align: top } th { font-weight: 600 }
td.n, th.n { text-align: right } svg { width: 100%; height: auto; display: block } svg text { fill: var(--dim);
  font-size: 11px } line.grid { stroke: var(--line) } polyline { fill: none; stroke-width: 1.8 }
polyline.c0 { stroke: var(--c0) } polyline.c1 { stroke: var(--c1) } polyline.c2 { stroke: var(--c2) }
polyline.c3 { stroke: var(--c3) } circle.c0 { fill: var(--c0) } circle.c1 { fill: var(--c1) }
circle.c2 { fill: var(--c2) } circle.c3 { fill: var(--c3) } .legend { display: flex; flex-wrap: wrap; gap: 0 1.2rem;
  list-style: none; margin: .3rem 0 0; padding: 0 } .legend li::before { content: "\\25CF\\00A0" }
.legend .c0::before { color: var(--c0) } .legend .c1::before { color: var(--c1) }
.legend .c2::before { color: var(--c2) } .legend .c3::before { color: var(--c3) }
"""


class ReportedModel(Protocol):
    """What the report needs of a model."""

    @property
    def name(self) -> str: ...
    @property
    def config(self) -> Any: ...

    fitted_on: FittedOn


def fit_report(
    model: ReportedModel,
    evaluation: Evaluation | None = None,
    beside: Mapping[str, Mapping[str, float]] | None = None,
) -> str:
    """The page as text. `beside` are other rows of metrics to show, by name."""
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
        f"<h1>{escape(title)}</h1><p class='dim'>ReportedModel with purerec. Curves are of this one run.</p>",
        _metrics(evaluation, beside or {}),
        "<div class='grid2'>",
        _section("ReportedModel on", _table(rows)),
        _section("Settings", _table(shown_settings(model.config, facts.resolved))),
        "</div>",
    ]
    if history is not None and history.records:
        body += ["<div class='grid2'>", *_charts(history), "</div>"]
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><main>{''.join(body)}</main></body></html>\n"
    )


def _charts(history: History) -> list[str]:
    charts = [
        _section(
            "Loss",
            line_chart(
                {"discriminator": history.curve("loss"), "generators": history.curve("generator_loss")},
                x_label="epoch",
            ),
        ),
        _section(
            "D on positives, unlabeled pairs and fakes",
            line_chart(
                {name: history.curve(f"D({name})") for name in ("positive", "unlabeled", "fake")},
                x_label="epoch",
                log=True,
            ),
        ),
        _section(
            "Mean norms of embeddings",
            line_chart(
                {
                    "users": history.curve("user_norm"),
                    "items": history.curve("item_norm"),
                    "fakes": history.curve("fake_norm"),
                },
                x_label="epoch",
            ),
        ),
        _section("Learning rate", line_chart({"rate": history.curve("learning_rate")}, x_label="epoch", log=True)),
    ]
    if validated := history.curve(history.metric):
        charts.insert(1, _section("On validation data", line_chart({history.metric: validated}, x_label="epoch")))
    return charts


def _metrics(evaluation: Evaluation | None, beside: Mapping[str, Mapping[str, float]]) -> str:
    if evaluation is None:
        return ""
    rows = {evaluation.model: evaluation.metrics, **beside}
    head = "".join(f"<th class='n'>{escape(name)}</th>" for name in evaluation.metrics)
    lines = "".join(
        f"<tr><th>{escape(name)}</th>"
        + "".join(
            f"<td class='n'>{row[metric]:.4f}</td>" if metric in row else "<td></td>" for metric in evaluation.metrics
        )
        + "</tr>"
        for name, row in rows.items()
    )
    note = f"<p class='dim'>{escape(evaluation.label)}; {evaluation.n_users_evaluated:,} users</p>"
    return _section(f"Metrics on {evaluation.on} data", f"<table><tr><th></th>{head}</tr>{lines}</table>{note}")


def _section(title: str, content: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{content}</section>"


def _table(rows: Mapping[str, Any]) -> str:
    cells = "".join(f"<tr><th>{escape(str(k))}</th><td>{escape(str(v))}</td></tr>" for k, v in rows.items())
    return f"<table>{cells}</table>"

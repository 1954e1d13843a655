"""`purerec compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from purerec.cli.completing import complete_models
from purerec.cli.groups import Parts, Reading, as_given
from purerec.cli.options import (
    MODELS_HELP,
    DataOpt,
    JsonOpt,
    MetricsOpt,
    PoolOpt,
    ProtocolOpt,
    SetOpt,
    SettingsOpt,
    SplitOpt,
    as_typed,
    command,
    limit_of,
    models_of,
    pool_of,
    protocol_of,
    settings_of,
    settings_of_each,
)
from purerec.output import console

if TYPE_CHECKING:
    from purerec.data.splits import Split
    from purerec.experiments.results import Comparison

QUICK = ("itemknn", "ials", "gmf", "ease", "pure")
"""Models of different kinds, fitted in seconds on medium-sized data"""


def compare(
    data: DataOpt = None,
    models: Annotated[
        str | None,
        typer.Option(
            "--models",
            help=f"{MODELS_HELP} By default {','.join(QUICK)}, or those of --settings.",
            autocompletion=complete_models,
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", help="Runs per model (seeds 0, 1, ...); by default 5, 3 or 1, by data size.", min=1),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option("--against", help="Model that the others are tested against.")
    ] = None,
    metrics: MetricsOpt = None,
    metric: Annotated[
        str | None,
        typer.Option("--metric", help="The metric to test and to base the advice on."),
    ] = None,
    set_: SetOpt = None,
    settings: SettingsOpt = None,
    tuned: Annotated[
        bool, typer.Option("--tuned", help="Use the settings that were tuned for the paper's data sets.")
    ] = False,
    split: SplitOpt = "auto",
    given: Parts = Parts(),
    protocol: ProtocolOpt = "exact",
    pool: PoolOpt = None,
    limit: Annotated[
        str | None, typer.Option("--limit", metavar="TIME", help="Time limit for each model, such as 5m.")
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Plot the metric against fit time (.svg or .png)."),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again even where results are stored.")] = False,
    json: JsonOpt = None,
    reading: Reading = Reading(),
) -> None:
    """Compare models on one split: means over seeds, paired tests, and which one to use.

    Results are stored: the same command continues after an interruption, another model is added without rerunning the
    others, and a second process with the same command shares the work. --set applies to those models that have such a
    setting.

    Examples:
      purerec compare clicks.csv
      purerec compare clicks.csv --models all --limit 5m --plot found.svg
      purerec compare clicks.csv --models pure,ease,bpr --set dim=64
      purerec compare clicks.csv --metrics Recall@20,NDCG@20 --metric NDCG@20
      purerec compare --train train.csv --test test.csv
      purerec compare ml-100k --split u1 --models all --seeds 5
    """
    from purerec.data.picking import published_test_rows
    from purerec.evaluation.choosing import check_choice
    from purerec.experiments.advice import doubts
    from purerec.experiments.cells.view import watching
    from purerec.experiments.compare import cell_store, compare
    from purerec.experiments.picture import check_name
    from purerec.paper.printed import published
    from purerec.tuning.settings_file import read_settings

    if models is None:
        models = ",".join(QUICK if settings is None else read_settings(settings))
    named = models_of(models)
    settings_of_each(named, set_)  # reports errors before the data is read
    kind = protocol_of(protocol)
    n_candidates = pool_of(pool, kind)
    check_choice(metrics, metric, kind)
    limit_s = limit_of(limit)
    if plot is not None:
        check_name(plot)
    given.check(data, split)
    log, parts = given.load(data, split, reading)
    store = cell_store(fresh=fresh)
    try:
        with watching() as watch:
            found = compare(
                log,
                named,
                seeds=seeds,
                against=baseline,
                metrics=metrics,
                metric=metric,
                settings=settings_of(set_),
                settings_file=settings,
                tuned=tuned,
                split=parts,
                protocol=kind,
                pool=n_candidates,
                limit=limit_s,
                store=store,
                watch=watch,
                warn=console.warn,
            )
    except KeyboardInterrupt:
        raise console.Interrupted("interrupted; finished results are stored: run it again to continue") from None
    if plot is not None:
        found.plot().save(plot)
    if json:
        console.write_json(found.to_dict(), json)
    if json != "-":
        comparable = kind == "exact" and parts.label == "given" and published_test_rows(log) > 0
        _show(found, parts, published(log.name) if comparable else {})
    for doubt in doubts(found):
        console.warn(doubt)
    if json == "-":
        return
    best = found.best
    told = ["--settings", settings] if settings is not None else []
    for name, value in settings_of_each(named, set_)[best].items():
        told += ["--set", f"{name}={value}"]
    source = data if data is not None else str(given.train)
    console.note(
        f"next: {command('fit', source, '--model', as_typed(best), *told, *as_given(reading), '--out', 'model')}"
    )


def _show(found: Comparison, parts: Split, others: dict[str, dict[str, float]]) -> None:
    """Print the tables; `others` are values published by others for the same split."""
    from purerec.experiments.advice import costs_and_tests

    many = f"mean of {found.seeds} seeds ± deviation" if found.seeds > 1 else "one seed"
    console.say(f"{found.data}, {parts.describe()}; {found.label}; {many}")
    console.table(["model", *found.metrics], found.scores(), bold=found.best_scores())
    if found.paper:
        console.say("paper: its Table 2, with vectors of width 5; add --set dim=5 to use that width here")
    console.say()
    if shared := [m for m in found.metrics if any(m in values for values in others.values())]:
        rows = [[name, *(values.get(m) for m in shared)] for name, values in others.items()]
        console.table(["published by others", *shared], rows)
        console.say()
    console.table(*costs_and_tests(found))
    console.say(found.advice)

"""`purerec compare`."""

from __future__ import annotations

from typing import Annotated

import typer

from purerec.cli.groups import Parts, Reading
from purerec.cli.options import (
    DataOpt,
    JsonOpt,
    MetricsOpt,
    ModelsOpt,
    PoolOpt,
    ProtocolOpt,
    SetOpt,
    SettingsOpt,
    SplitOpt,
    protocol_of,
    settings_of,
    settings_of_each,
)
from purerec.output import console

_FEW_USERS = 100


def compare(
    data: DataOpt = None,
    models: ModelsOpt = "all",
    seeds: Annotated[int, typer.Option("--seeds", help="Runs of each model, with seeds 0, 1, ...", min=1)] = 5,
    baseline: Annotated[
        str | None, typer.Option("--against", help="Model that the others are tested against.")
    ] = None,
    metrics: MetricsOpt = None,
    metric: Annotated[
        str | None, typer.Option("--metric", help="The one that decides: tested, and named in the advice.")
    ] = None,
    set_: SetOpt = None,
    settings: SettingsOpt = None,
    tuned: Annotated[
        bool, typer.Option("--tuned", help="Use the settings that were tuned for the paper's data sets.")
    ] = False,
    split: SplitOpt = "auto",
    given: Parts = Parts(),
    protocol: ProtocolOpt = "exact",
    pool: PoolOpt = 500,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted comparison.")] = False,
    json: JsonOpt = None,
    reading: Reading = Reading(),
) -> None:
    """Several models on the same split: means over seeds, spread, and paired tests.

    --set goes to those models that have such a setting.

    Examples:
      purerec compare ml-100k --split u1 --models all --seeds 5
      purerec compare clicks.csv --models pure,ease,bpr --set dim=64
      purerec compare clicks.csv --metrics Recall@20,NDCG@20 --metric NDCG@20
      purerec compare --train train.csv --test test.csv --models itempop,ease
    """
    from purerec.data.catalog import cache_folder
    from purerec.evaluation.choosing import check_choice
    from purerec.experiments.compare import compare
    from purerec.experiments.run import RunStore
    from purerec.models.registry import REGISTRY, model_name

    named = list(REGISTRY) if models == "all" else [m.strip() for m in models.split(",") if m.strip()]
    named = list(dict.fromkeys(map(model_name, named)))
    settings_of_each(named, set_)  # what is wrong with them is said before the data is read
    kind = protocol_of(protocol)
    check_choice(metrics, metric, kind)
    given.check(data, split)
    log, parts = given.load(data, split, reading)
    store = RunStore(cache_folder() / "runs" / parts.full_train.fingerprint[:16])
    if not resume:
        store.clear()
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
        pool=pool,
        store=store,
        tell=console.note,
        warn=console.warn,
    )
    if not found.failed:
        store.clear()
    if json:
        console.write_json(found.to_dict(), json)
        if json == "-":
            return
    console.say(f"{log.name}, {parts.describe()}; {found.label}; mean of {seeds} seed{'s' * (seeds > 1)} ± deviation")
    console.table(["model", *found.metrics], found.scores(), bold=found.best_scores())
    if found.paper:
        console.say("paper: its Table 2, where vectors have 5 numbers; for the same width here add --set dim=5")
    console.say()
    console.table(*found.costs_and_tests())
    console.say(found.recommendation())
    users = next(iter(found.results.values()))[0].evaluation.n_users_evaluated
    if users < _FEW_USERS:
        console.note(f"this rests on {users:,} users; with so few, only large differences can be told from chance")
    for name, reason in found.failed.items():
        console.warn(f"{name} failed and is left out: {reason}")

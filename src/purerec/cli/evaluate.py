"""`purerec evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from purerec.cli.clusters.connecting import OnOpt
from purerec.cli.groups import Parts, Reading, as_given, warn_of_no_ratings
from purerec.cli.options import (
    DataOpt,
    JsonOpt,
    MemoryOpt,
    MetricsOpt,
    ModelOpt,
    PoolOpt,
    ProtocolOpt,
    SeedOpt,
    SetOpt,
    SettingsOpt,
    SplitOpt,
    as_typed,
    command,
    epoch_lines,
    pool_of,
    protocol_of,
    settings_of,
    settings_words,
    told_settings,
)
from purerec.errors import ConfigError, counted
from purerec.output import console


def evaluate(
    data: DataOpt = None,
    model: ModelOpt = None,
    from_: Annotated[Path | None, typer.Option("--from", help="A folder written by `purerec fit`.")] = None,
    set_: SetOpt = None,
    settings: SettingsOpt = None,
    split: SplitOpt = "auto",
    given: Parts = Parts(),
    metrics: MetricsOpt = None,
    metric: Annotated[str | None, typer.Option("--metric", help="The deciding metric; shown first.")] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="COLUMN", help="Also break results down by column.")
    ] = None,
    users_table: Annotated[
        Path | None, typer.Option("--users", metavar="FILE", help="User table with the --by column.")
    ] = None,
    items_table: Annotated[
        Path | None, typer.Option("--items", metavar="FILE", help="Item table with the --by column.")
    ] = None,
    protocol: ProtocolOpt = "exact",
    pool: PoolOpt = None,
    seed: SeedOpt = 0,
    memory_mb: MemoryOpt = 256,
    on: OnOpt = None,
    json: JsonOpt = None,
    reading: Reading = Reading(),
) -> None:
    """Fit a model on the train part and score it on the test part; or score a fitted one.

    The parts come from a split of DATA, or from files: --train, --test and, to be fitted on too, --valid.

    Examples:
      purerec evaluate ml-100k --split u1 --model itempop
      purerec evaluate ml-100k --model itempop --metrics Recall@20,NDCG@20
      purerec evaluate clicks.csv --model itempop --split temporal --json result.json
      purerec evaluate --train train.csv --test test.csv --model itempop
      purerec evaluate clicks.csv --model itempop --by gender --users users.csv
      purerec evaluate clicks --from model --split ratio --on ray
    """
    from purerec.cli.clusters.evaluations import evaluating_on
    from purerec.evaluation.choosing import check_choice, default_metrics, parse_all
    from purerec.evaluation.groups import read_groups, warm_and_cold, warmth
    from purerec.experiments import run
    from purerec.models.registry import load_model, make_model, model_name
    from purerec.paper.printed import paper_row
    from purerec.training.run import Run
    from purerec.tuning.settings_file import check_searched

    if (model is None) == (from_ is None):
        raise ConfigError("give either --model NAME or --from DIR")
    if from_ is not None and (set_ or settings):
        raise ConfigError("--set and --settings go with --model; a fitted model keeps its settings")
    tables = [table for table in (users_table, items_table) if table is not None]
    if len(tables) != (by is not None):
        raise ConfigError("--by COLUMN goes with one table: --users FILE or --items FILE")
    kind = protocol_of(protocol)
    n_candidates = pool_of(pool, kind)
    decides = check_choice(metrics, metric, kind)
    given.check(data, split)
    if from_ is not None:
        chosen = load_model(from_)
    else:
        model = model_name(cast(str, model))
        chosen = make_model(model, **settings_of(set_, settings, model))
    threshold = chosen.fitted_on.positive_rating if from_ is not None and reading.min_rating is None else None
    log, parts = given.load(data, split, reading, explain_positives=threshold is None)
    if threshold is not None and parts.test.rating is None:
        warn_of_no_ratings(str(data or given.test), threshold)
    elif threshold is not None and parts.test.positive_rating is None:
        parts = parts.with_positives(threshold)
        console.note(f"ratings of at least {threshold:g} count as positive, as in the fit of {from_}")
    if settings is not None:
        check_searched(settings, log, parts, console.warn)
    grouping = None
    if by is not None:
        grouping = read_groups(parts, by, users=users_table, items=items_table, encoding=reading.encoding)
    shown: str | list[str] | None = metrics
    if decides is not None:
        others = default_metrics(log.name) if metrics is None else [m.name for m in parse_all(metrics)]
        shown = [decides, *others]
    with evaluating_on(on, shown) as evaluator:
        how: dict[str, Any] = {"protocol": kind, "seed": seed, "pool": n_candidates, "evaluator": evaluator}
        options = Run(progress=console.progress(), callbacks=epoch_lines())
        result = run.run(parts, chosen, options=options, metrics=shown, memory_mb=memory_mb, **how)
        how["metrics"] = list(result.evaluation.metrics)
        groups = None if grouping is None else grouping.measure(chosen, parts, result.evaluation, **how)
        by_warmth = None
        if json != "-" and 0 < parts.cold.users < parts.cold.judged:
            by_warmth = warm_and_cold(chosen, parts, result.evaluation.by(warmth(parts)), **how)
    facts = result.to_dict() | ({} if groups is None else {"by": {"column": by, "groups": groups.to_dicts()}})
    if json:
        console.write_json(facts, json)
        if json == "-":
            return
    console.detail(told_settings(chosen))
    console.say(f"{chosen.name} on {log.name}, {parts.describe()}; {result.evaluation.label}")
    console.say(
        f"{counted(facts['users'], 'user')} evaluated, {facts['users_without_positives']:,} skipped "
        f"(no test positive); "
        f"fitted in {facts['fit_seconds']:.2f} s, evaluated in {facts['evaluate_seconds']:.2f} s"
    )
    rows: list[list[Any]] = [[chosen.name, *facts["metrics"].values()]]
    # Only Table 2 was made with a sound evaluator; its numbers are shown next to exact ones on the same split.
    printed = paper_row(log.name, chosen.name)
    if printed is not None and log.name == "ml-100k" and kind == "exact" and parts.label == "u1":
        rows.append(["paper", *(printed.get(name) for name in facts["metrics"])])
    console.table(["model", *facts["metrics"]], rows)
    if by_warmth is not None:
        console.say()
        console.table(["", *by_warmth.columns[1:]], by_warmth.rows())
    if groups is not None:
        console.say()
        console.table([str(by), *groups.columns[1:]], groups.rows())
    from purerec.experiments.advice import FEW_USERS

    if facts["users"] < FEW_USERS:
        console.note(f"based on only {counted(facts['users'], 'user')}; another split may give other results")
    if from_ is None:
        same = [*settings_words(set_, settings), *as_given(reading)]
        source = data if data is not None else given.train
        console.note(f"next: {command('fit', source, '--model', as_typed(chosen.name), *same, '--out', 'model')}")

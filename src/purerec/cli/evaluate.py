"""`purerec evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from purerec.cli.groups import Parts, Reading
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
    epoch_lines,
    protocol_of,
    settings_of,
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
    protocol: ProtocolOpt = "exact",
    pool: PoolOpt = 500,
    seed: SeedOpt = 0,
    memory_mb: MemoryOpt = 256,
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
    """
    from purerec.evaluation.choosing import check_choice
    from purerec.experiments import run
    from purerec.models.registry import load_model, make_model, model_name
    from purerec.paper.printed import paper_row
    from purerec.training.run import Run
    from purerec.tuning.settings_file import check_searched

    if (model is None) == (from_ is None):
        raise ConfigError("give either --model NAME or --from DIR")
    if from_ is not None and (set_ or settings):
        raise ConfigError("--set and --settings go with --model; a fitted model keeps its settings")
    kind = protocol_of(protocol)
    check_choice(metrics, None, kind)
    given.check(data, split)
    if from_ is not None:
        chosen = load_model(from_)
    else:
        model = model_name(cast(str, model))
        chosen = make_model(model, **settings_of(set_, settings, model))
    log, parts = given.load(data, split, reading)
    if settings is not None:
        check_searched(settings, log, parts, console.warn)
    result = run.run(
        parts,
        chosen,
        seed=seed,
        protocol=kind,
        metrics=metrics,
        options=Run(progress=console.progress(), callbacks=epoch_lines()),
        pool=pool,
        memory_mb=memory_mb,
    )
    if json:
        console.write_json(result.to_dict(), json)
        if json == "-":
            return
    facts = result.to_dict()
    console.detail(told_settings(chosen))
    console.say(f"{chosen.name} on {log.name}, {parts.describe()}; {result.evaluation.label}")
    console.say(
        f"{counted(facts['users'], 'user')} evaluated, {facts['users_without_positives']:,} without a test positive "
        f"left out; "
        f"fitted in {facts['fit_seconds']:.2f} s, evaluated in {facts['evaluate_seconds']:.2f} s"
    )
    rows: list[list[Any]] = [[chosen.name, *facts["metrics"].values()]]
    # Only Table 2 was made with a sound evaluator; its numbers stand beside exact ones of the same split.
    printed = paper_row(log.name, chosen.name)
    if printed is not None and log.name == "ml-100k" and kind == "exact" and parts.label == "u1":
        rows.append(["paper", *(printed.get(name) for name in facts["metrics"])])
    console.table(["model", *facts["metrics"]], rows)

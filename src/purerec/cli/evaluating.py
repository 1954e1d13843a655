"""`purerec evaluate`, `purerec compare` and `purerec reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from purerec.cli.groups import HoldingOut, Reading
from purerec.cli.options import (
    DataArg,
    JsonOpt,
    MemoryOpt,
    PoolOpt,
    ProtocolOpt,
    SeedOpt,
    SetOpt,
    SettingsOpt,
    SplitOpt,
    protocol_of,
    settings_of,
    settings_of_each,
)
from purerec.errors import ConfigError
from purerec.output import console


def evaluate(
    data: DataArg,
    model: Annotated[str | None, typer.Option("--model", help="See `purerec models`.")] = None,
    from_: Annotated[Path | None, typer.Option("--from", help="A folder written by `purerec fit`.")] = None,
    set_: SetOpt = None,
    settings: SettingsOpt = None,
    split: SplitOpt = "auto",
    holding_out: HoldingOut = HoldingOut(),
    protocol: ProtocolOpt = "exact",
    pool: PoolOpt = 500,
    seed: SeedOpt = 0,
    memory_mb: MemoryOpt = 256,
    json: JsonOpt = None,
    reading: Reading = Reading(),
) -> None:
    """Fit a model on the train part and score it on the test part; or score a fitted one.

    Examples:
      purerec evaluate ml-100k --split u1 --model itempop
      purerec evaluate clicks.csv --model itempop --split temporal --json result.json
    """
    from purerec.experiments import run
    from purerec.models.registry import load_model, make_model
    from purerec.paper.printed import paper_row
    from purerec.training.run import Run
    from purerec.tuning.settings_file import check_searched

    if (model is None) == (from_ is None):
        raise ConfigError("give either --model NAME or --from DIR")
    if from_ is not None and (set_ or settings):
        raise ConfigError("--set and --settings go with --model; a fitted model keeps its settings")
    if from_ is not None:
        chosen = load_model(from_)
    else:
        chosen = make_model(cast(str, model), **settings_of(set_, settings, model))
    kind = protocol_of(protocol)
    log = reading.load(data)
    parts = holding_out.split(log, split)
    if settings is not None:
        check_searched(settings, log, parts, console.warn)
    result = run.run(
        parts,
        chosen,
        seed=seed,
        protocol=kind,
        options=Run(progress=console.err.is_terminal),
        pool=pool,
        memory_mb=memory_mb,
    )
    if json:
        console.write_json(result.to_dict(), json)
        if json == "-":
            return
    facts = result.to_dict()
    console.say(f"{chosen.name} on {log.name}, {parts.describe()}; {result.evaluation.label}")
    console.say(
        f"{facts['users']:,} users evaluated, {facts['users_without_positives']:,} without a test positive left out; "
        f"fitted in {facts['fit_seconds']:.2f} s, evaluated in {facts['evaluate_seconds']:.2f} s"
    )
    rows: list[list[Any]] = [[chosen.name, *facts["metrics"].values()]]
    # Only Table 2 was made with a sound evaluator; its numbers stand beside exact ones of the same split.
    printed = paper_row(log.name, chosen.name)
    if printed is not None and log.name == "ml-100k" and kind == "exact" and parts.label == "u1":
        rows.append(["paper", *(printed.get(name) for name in facts["metrics"])])
    console.table(["model", *facts["metrics"]], rows)


def compare(
    data: DataArg,
    models: Annotated[str, typer.Option("--models", help="Names, separated by commas, or all.")] = "all",
    seeds: Annotated[int, typer.Option("--seeds", help="Runs of each model, with seeds 0, 1, ...", min=1)] = 5,
    baseline: Annotated[
        str | None, typer.Option("--against", help="Model that the others are tested against.")
    ] = None,
    metric: Annotated[str, typer.Option("--metric", help="Metric of the significance test.")] = "P@5",
    set_: SetOpt = None,
    settings: SettingsOpt = None,
    tuned: Annotated[
        bool, typer.Option("--tuned", help="With the settings that were found for the paper's data sets.")
    ] = False,
    split: SplitOpt = "auto",
    holding_out: HoldingOut = HoldingOut(),
    protocol: ProtocolOpt = "exact",
    pool: PoolOpt = 500,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted comparison.")] = False,
    json: JsonOpt = None,
    reading: Reading = Reading(),
) -> None:
    """Several models on the same split: means over seeds, spread, and paired tests.

    --set goes to those models that have such a setting.

    Examples:
      purerec compare ml-100k --split u1 --models all --seeds 5
      purerec compare clicks.csv --models pure,ease,bpr --set dim=64
    """
    from purerec.data.catalog import cache_folder
    from purerec.evaluation.metrics import parse_of_ranks
    from purerec.experiments.compare import compare
    from purerec.experiments.run import RunStore
    from purerec.models.registry import REGISTRY

    named = list(REGISTRY) if models == "all" else [m.strip() for m in models.split(",") if m.strip()]
    named = list(dict.fromkeys(named))
    settings_of_each(named, set_)  # what is wrong with them is said before the data is read
    kind = protocol_of(protocol)
    parse_of_ranks(metric)
    log = reading.load(data)
    parts = holding_out.split(log, split)
    store = RunStore(cache_folder() / "runs" / parts.full_train.fingerprint[:16])
    if not resume:
        store.clear()
    found = compare(
        log,
        named,
        seeds=seeds,
        against=baseline,
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
    for name, reason in found.failed.items():
        console.warn(f"{name} failed and is left out: {reason}")


def reproduce(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Experiments, or all.")],
    quick: Annotated[bool, typer.Option("--quick", help="Two seeds, to see that it works.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run.")] = False,
    out: Annotated[Path, typer.Option("--out", help="Folder for the results.")] = Path("results"),
) -> None:
    """Run the experiments behind a table and write its results file.

    Example: purerec reproduce table2 --quick
    """
    from purerec.data.catalog import cache_folder
    from purerec.experiments import reproduce
    from purerec.experiments.run import RunStore

    known = reproduce.names()
    chosen = known if names == ["all"] else names
    for name in chosen:
        if name not in known:
            raise ConfigError(f"there is no experiment {name!r}; there are {', '.join(known)} and all")
    for name in chosen:
        store = RunStore(cache_folder() / "runs" / name)
        if not resume:
            store.clear()
        found = reproduce.reproduce(name, quick=quick, store=store, tell=console.note)
        target = reproduce.results_file(name, out)
        console.write_json(found, str(target))
        store.clear()
        console.say(f"{name}: written to {target}")

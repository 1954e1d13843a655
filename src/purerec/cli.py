"""The command line: parse, call, print.

Exit codes: 0 done, 2 wrong use or bad input (one line that says what is wrong and what to do), 1 anything else.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from purerec import __version__, console
from purerec.errors import ConfigError, PurerecError

if TYPE_CHECKING:
    from purerec.evaluating import Protocol
    from purerec.interactions import Interactions
    from purerec.splitting import Split

app = typer.Typer(
    name="purerec",
    help="Recommendations from a log of who touched what, and an honest score for them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="Data sets with a name: list them, look at one, fetch one.", no_args_is_help=True)
app.add_typer(data_app, name="data")


def main() -> None:
    """Entry point: every error ends in one line and an exit code."""
    warnings.showwarning = lambda message, *_args, **_kwargs: console.warn(str(message))
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `purerec ... | head` ends quietly
    sys.exit(_run())


def _run() -> int:
    try:
        code = app(standalone_mode=False)
        return code if isinstance(code, int) else 0
    except typer.Exit as stop:
        if stop.exit_code == 130:  # what typer makes of Ctrl-C
            console.err.print("interrupted")
            return 1
        return stop.exit_code
    except typer.TyperException as wrong:
        context = getattr(wrong, "ctx", None)
        if type(wrong).__name__ == "NoArgsIsHelpError":
            console.say(wrong.format_message())
            return 2
        console.fail(f"{wrong.format_message()} (see `{context.command_path if context else 'purerec'} --help`)")
        return 2
    except PurerecError as error:
        console.fail(str(error))
        return 2
    except (KeyboardInterrupt, typer.Abort):
        console.err.print("interrupted")
        return 1
    except MemoryError:
        console.fail("out of memory; lower --memory-mb, or use fewer users, items or dimensions")
        return 1
    except Exception as error:
        if os.environ.get("PUREREC_TRACEBACK"):
            raise
        console.fail(f"internal error: {type(error).__name__}: {error} (PUREREC_TRACEBACK=1 shows where)")
        return 1


# ---------------------------------------------------------------------- options that several commands share

DataArg = Annotated[str, typer.Argument(metavar="DATA", help="A name from `purerec data list`, or a path.")]
UserCol = Annotated[str | None, typer.Option("--user", help="Column of the user.", rich_help_panel="Reading")]
ItemCol = Annotated[str | None, typer.Option("--item", help="Column of the item.", rich_help_panel="Reading")]
RatingCol = Annotated[str | None, typer.Option("--rating", help="Column of the rating.", rich_help_panel="Reading")]
TimeCol = Annotated[str | None, typer.Option("--timestamp", help="Column of the time.", rich_help_panel="Reading")]
MinRating = Annotated[
    float | None,
    typer.Option("--min-rating", help="Ratings from here on count as positive.", rich_help_panel="Reading"),
]
Titles = Annotated[
    Path | None, typer.Option("--titles", help="File with item ids and titles.", rich_help_panel="Reading")
]
Encoding = Annotated[str, typer.Option("--encoding", help="Encoding of a text file.", rich_help_panel="Reading")]
SplitOpt = Annotated[
    str,
    typer.Option("--split", help="auto, u1 to u5, ratio, leave_n_out or temporal.", rich_help_panel="Split"),
]
SplitN = Annotated[int | None, typer.Option("--n", help="Held out per user.", rich_help_panel="Split")]
SplitTest = Annotated[float | None, typer.Option("--test", help="Share held out.", rich_help_panel="Split")]
SplitAt = Annotated[str | None, typer.Option("--at", help="Time point of a temporal split.", rich_help_panel="Split")]
SplitSeed = Annotated[int, typer.Option("--split-seed", help="Seed of the split.", rich_help_panel="Split")]
SetOpt = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting of the model; may be repeated."),
]
JsonOpt = Annotated[
    str | None, typer.Option("--json", metavar="FILE|-", help="Write JSON to a file, or to standard output.")
]
ProtocolOpt = Annotated[
    str,
    typer.Option("--protocol", help="exact, sampled or as_published (defective, for explaining tables 3 and 4)."),
]
SeedOpt = Annotated[int, typer.Option("--seed", help="Seed of the model and of ties in the ranking.")]
PoolOpt = Annotated[int, typer.Option("--pool", help="Candidates per user in the sampled protocol.")]
MemoryOpt = Annotated[float, typer.Option("--memory-mb", help="Memory for scores during evaluation.")]


def _load(
    source: str,
    columns: dict[str, str | None] | None = None,
    *,
    min_rating: float | None = None,
    titles: Path | None = None,
    encoding: str = "utf-8",
) -> Interactions:
    from purerec import catalog
    from purerec.reading import read, read_labels

    columns = columns or {}
    if source in catalog.CATALOG:
        given = [f"--{name}" for name, value in columns.items() if value is not None]
        if given:
            raise ConfigError(f"{', '.join(given)} say how to read a file, and {source} is a data set with a name")
        data = catalog.load(source, progress=console.err.is_terminal)
        if min_rating is not None:
            data = data.with_positives(min_rating)
    elif not Path(source).exists() and not Path(source).suffix and os.sep not in source:
        data = catalog.load(source)  # raises, with the names that there are
    else:
        data = read(source, **columns, encoding=encoding, positive_rating=min_rating)  # type: ignore[arg-type]
        if data.rating is not None and min_rating is None and data.rating.min() < data.rating.max():
            console.note(
                f"{source}: ratings from {data.rating.min():g} to {data.rating.max():g}; every row counts as a "
                "positive (--min-rating 4 would count those from 4 on)"
            )
    return data.with_labels(read_labels(titles)) if titles is not None else data


def _split(data: Interactions, how: str, n: int | None, test: float | None, at: str | None, seed: int) -> Split:
    from purerec.splitting import split

    return split(data, how, n=n, test=test, at=at, seed=seed)


def _settings(assignments: list[str] | None) -> dict[str, str]:
    settings = {}
    for text in assignments or []:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"--set takes NAME=VALUE, such as --set dim=8, not {text!r}")
        settings[name.strip().replace("-", "_")] = value.strip()
    return settings


def _protocol(name: str) -> Protocol:
    if name.replace("-", "_") not in ("exact", "sampled", "as_published"):
        raise ConfigError(f"there is no protocol {name!r}; choose exact, sampled or as_published")
    return cast("Protocol", name.replace("-", "_"))


# ---------------------------------------------------------------------- data


@data_app.command("list")
def data_list(json: JsonOpt = None) -> None:
    """The data sets that have a name.

    Example: purerec data list
    """
    from purerec import catalog

    rows = [catalog.describe(name) for name in catalog.CATALOG]
    if json:
        console.write_json(rows, json)
        return
    console.table(
        ["name", "users", "items", "interactions", "split", "here", "title"],
        [
            [
                r["name"],
                r["paper"]["users"],
                r["paper"]["items"],
                r["paper"]["interactions"],
                r["split"],
                r["here"],
                r["title"],
            ]
            for r in rows
        ],
    )


@data_app.command("show")
def data_show(name: DataArg, json: JsonOpt = None) -> None:
    """Statistics of a data set beside the paper's Table 1, its licence and source.

    Example: purerec data show ml-1m
    """
    from purerec import catalog

    data = _load(name)
    facts: dict[str, Any] = {"name": data.name, **catalog.statistics(data)}
    entry = catalog.describe(name) if name in catalog.CATALOG else None
    if entry is not None:
        facts |= {key: entry[key] for key in ("title", "licence", "homepage", "paper")}
    if json:
        console.write_json(facts, json)
        return
    printed = (entry or {}).get("paper") or {}
    rows = [[what, facts[what], printed.get(what)] for what in ("users", "items", "interactions", "positives")]
    rows.append(
        ["density", f"{facts['density']:.2%}", f"{printed['density']:.2%}" if printed.get("density") else None]
    )
    console.table([data.name, "here", "paper's Table 1"], [[_text(c) for c in row] for row in rows])
    if entry is not None:
        for key in ("title", "licence", "homepage"):
            console.say(f"{key}: {entry[key]}")


def _text(value: Any) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


@data_app.command("get")
def data_get(name: DataArg) -> None:
    """Fetch a data set into the cache and say where it is.

    Example: purerec data get ml-100k
    """
    from purerec import catalog

    console.say(str(catalog.fetch(name, progress=console.err.is_terminal)))


# ---------------------------------------------------------------------- models


@app.command("models")
def models(name: Annotated[str | None, typer.Argument(help="A model, to see its settings.")] = None) -> None:
    """The models, or the settings of one.

    Example: purerec models pure
    """
    from purerec.models import REGISTRY, model_class

    if name is None:
        rows = [[n, (sys.modules[model_class(n).__module__].__doc__ or "").strip().splitlines()[0]] for n in REGISTRY]
        console.table(["model", "what it is"], rows)
        return
    fields = model_class(name).config_class.model_fields
    console.table(
        ["setting", "default", "meaning"],
        [[n, str(f.default), " ".join((f.description or "").split())] for n, f in fields.items()],
    )


@app.command("fit")
def fit(
    data: DataArg,
    model: Annotated[str, typer.Option("--model", help="See `purerec models`.")],
    out: Annotated[Path, typer.Option("--out", help="Folder to write the fitted model to.")],
    set_: SetOpt = None,
    seed: SeedOpt = 0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the checkpoint of an interrupted fit.")
    ] = False,
    early_stopping: Annotated[
        bool,
        typer.Option("--early-stopping", help="Find the number of epochs on a validation part, then refit on all."),
    ] = False,
    time_limit: Annotated[
        float | None, typer.Option("--time-limit", metavar="SECONDS", help="Stop after this.")
    ] = None,
    log: Annotated[Path | None, typer.Option("--log", help="File for one JSON line per epoch.")] = None,
    tensorboard: Annotated[Path | None, typer.Option("--tensorboard", help="Folder for TensorBoard.")] = None,
    split: Annotated[
        str | None,
        typer.Option("--split", help="Fit on the train part of this split only.", rich_help_panel="Split"),
    ] = None,
    n: SplitN = None,
    test: SplitTest = None,
    at: SplitAt = None,
    split_seed: SplitSeed = 0,
    user: UserCol = None,
    item: ItemCol = None,
    rating: RatingCol = None,
    timestamp: TimeCol = None,
    min_rating: MinRating = None,
    titles: Titles = None,
    encoding: Encoding = "utf-8",
) -> None:
    """Fit a model and write it to a folder, with a report.

    Examples:
      purerec fit clicks.csv --model pure --out model
      purerec fit ml-100k --model pure --set dim=8 --split u1 --out model
      purerec fit clicks.csv --model pure --out model --resume
    """
    from purerec.experiments import fit_with_early_stopping
    from purerec.models import make_model
    from purerec.reporting.fit import fit_report
    from purerec.storing import check_target
    from purerec.training import Run

    check_target(out)  # before the work, not after
    recommender = make_model(model, **_settings(set_))
    where = {"user": user, "item": item, "rating": rating, "timestamp": timestamp}
    data_log = _load(data, where, min_rating=min_rating, titles=titles, encoding=encoding)
    train = data_log if split is None else _split(data_log, split, n, test, at, split_seed).full_train
    checkpoint = out.with_name(out.name + ".checkpoint")
    options = Run(
        progress=console.err.is_terminal,
        checkpoint=checkpoint,
        resume=resume,
        time_limit_s=time_limit,
        log=log,
        tensorboard=tensorboard,
    )
    try:
        if early_stopping:
            fit_with_early_stopping(recommender, train, seed=seed, options=options)
        else:
            recommender.fit(train, seed=seed, run=options)
    except KeyboardInterrupt as stop:
        console.err.print(f"interrupted {stop}".strip())
        raise typer.Exit(1) from None
    folder = recommender.save(out, files={"report.html": fit_report(recommender).encode()})
    shutil.rmtree(checkpoint, ignore_errors=True)
    facts = recommender.fitted_on
    console.say(
        f"{model} fitted on {facts['positives']:,} positives of {facts['users']:,} users and {facts['items']:,} "
        f"items in {facts['fit_seconds']:.2f} s, saved in {folder}"
    )
    console.note(f"next: purerec recommend {folder} --user {recommender.users[0]}")


@app.command("evaluate")
def evaluate(
    data: DataArg,
    model: Annotated[str | None, typer.Option("--model", help="See `purerec models`.")] = None,
    from_: Annotated[Path | None, typer.Option("--from", help="A folder written by `purerec fit`.")] = None,
    set_: SetOpt = None,
    split: SplitOpt = "auto",
    n: SplitN = None,
    test: SplitTest = None,
    at: SplitAt = None,
    split_seed: SplitSeed = 0,
    protocol: ProtocolOpt = "exact",
    pool: PoolOpt = 500,
    seed: SeedOpt = 0,
    memory_mb: MemoryOpt = 256,
    json: JsonOpt = None,
    user: UserCol = None,
    item: ItemCol = None,
    rating: RatingCol = None,
    timestamp: TimeCol = None,
    min_rating: MinRating = None,
    encoding: Encoding = "utf-8",
) -> None:
    """Fit a model on the train part and score it on the test part; or score a fitted one.

    Examples:
      purerec evaluate ml-100k --split u1 --model itempop
      purerec evaluate clicks.csv --model itempop --split temporal --json result.json
    """
    from purerec import experiments
    from purerec.models import load_model, make_model
    from purerec.training import Run

    if (model is None) == (from_ is None):
        raise ConfigError("give either --model NAME or --from DIR")
    if from_ is not None and set_:
        raise ConfigError("--set goes with --model; a fitted model keeps its settings")
    chosen = load_model(from_) if from_ is not None else make_model(cast(str, model), **_settings(set_))
    kind = _protocol(protocol)
    where = {"user": user, "item": item, "rating": rating, "timestamp": timestamp}
    log = _load(data, where, min_rating=min_rating, encoding=encoding)
    parts = _split(log, split, n, test, at, split_seed)
    result = experiments.run(
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
    printed = experiments.paper_row(log.name, chosen.name)
    if printed is not None and log.name == "ml-100k" and kind == "exact" and parts.label == "u1":
        rows.append(["paper", *(printed.get(name) for name in facts["metrics"])])
    console.table(["model", *facts["metrics"]], rows)


@app.command("recommend")
def recommend(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder written by `purerec fit`.")],
    user: Annotated[list[str] | None, typer.Option("--user", help="A user id; may be repeated.")] = None,
    history: Annotated[
        str | None, typer.Option("--history", metavar="ITEM,ITEM", help="Items that a new person liked.")
    ] = None,
    k: Annotated[int, typer.Option("-k", help="How many items.")] = 10,
    include_seen: Annotated[
        bool, typer.Option("--include-seen", help="Also items that the user has already.")
    ] = False,
    json: JsonOpt = None,
) -> None:
    """The best items for users of the training data, or for a new person with a history.

    Examples:
      purerec recommend model --user 196 --user 22 -k 5
      purerec recommend model --history 50,181
    """
    from purerec.models import load_model

    if (not user) == (history is None):
        raise ConfigError("give either --user ID (may be repeated) or --history ITEM,ITEM")
    model = load_model(folder)
    if user:
        found = model.recommend(user, k=k, exclude_seen=not include_seen)
    else:
        items = [part.strip() for part in (history or "").split(",") if part.strip()]
        found = model.recommend_for(items, k=k, exclude_seen=not include_seen)
    if json:
        console.write_json(found.to_dicts(), json)
    if json != "-":
        order = [c for c in ("user", "rank", "item", "label", "score") if c in found.columns]
        console.table(
            order,
            [[_id_text(c, v) for c, v in zip(order, row, strict=True)] for row in found.select(order).rows()],
        )


def _id_text(column: str, value: Any) -> Any:
    return str(value) if column in ("user", "item") and value is not None else value


@app.command("compare")
def compare(
    data: DataArg,
    models: Annotated[str, typer.Option("--models", help="Names, separated by commas, or all.")] = "all",
    seeds: Annotated[int, typer.Option("--seeds", help="Runs of each model, with seeds 0, 1, ...", min=1)] = 5,
    baseline: Annotated[
        str | None, typer.Option("--against", help="Model that the others are tested against.")
    ] = None,
    metric: Annotated[str, typer.Option("--metric", help="Metric of the significance test.")] = "P@5",
    split: SplitOpt = "auto",
    n: SplitN = None,
    test: SplitTest = None,
    at: SplitAt = None,
    split_seed: SplitSeed = 0,
    protocol: ProtocolOpt = "exact",
    pool: PoolOpt = 500,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted comparison.")] = False,
    json: JsonOpt = None,
    user: UserCol = None,
    item: ItemCol = None,
    rating: RatingCol = None,
    timestamp: TimeCol = None,
    min_rating: MinRating = None,
    encoding: Encoding = "utf-8",
) -> None:
    """Several models on the same split: means over seeds, spread, and paired tests.

    Example: purerec compare ml-100k --split u1 --models itempop --seeds 5
    """
    from purerec.catalog import cache_folder
    from purerec.experiments import Plan, RunStore, compare_models
    from purerec.models import REGISTRY

    names = list(REGISTRY) if models == "all" else [m.strip() for m in models.split(",") if m.strip()]
    kind = _protocol(protocol)
    where = {"user": user, "item": item, "rating": rating, "timestamp": timestamp}
    log = _load(data, where, min_rating=min_rating, encoding=encoding)
    parts = _split(log, split, n, test, at, split_seed)
    store = RunStore(cache_folder() / "runs" / parts.full_train.fingerprint[:16])
    if not resume:
        store.clear()
    plans = [Plan(name, name) for name in dict.fromkeys(names)]
    found = compare_models(
        parts,
        plans,
        seeds=seeds,
        baseline=baseline,
        metric=metric,
        protocol=kind,
        pool=pool,
        store=store,
        tell=console.note,
    )
    store.clear()
    if json:
        console.write_json(found.to_dict(), json)
        if json == "-":
            return
    console.say(f"{log.name}, {parts.describe()}; {found.label}; mean of {seeds} seed{'s' * (seeds > 1)} ± deviation")
    console.table(found.headings(), found.rows(), bold=found.best_rows())
    for line in found.verdicts():
        console.say(line)
    console.say(found.recommendation())


@app.command("reproduce")
def reproduce(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Experiments, or all.")],
    quick: Annotated[bool, typer.Option("--quick", help="Two seeds, to see that it works.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run.")] = False,
    out: Annotated[Path, typer.Option("--out", help="Folder for the results.")] = Path("results"),
) -> None:
    """Run the experiments behind a table and write its results file.

    Example: purerec reproduce table2 --quick
    """
    from purerec import reproducing
    from purerec.catalog import cache_folder
    from purerec.experiments import RunStore

    known = reproducing.names()
    chosen = known if names == ["all"] else names
    for name in chosen:
        if name not in known:
            raise ConfigError(f"there is no experiment {name!r}; there are {', '.join(known)} and all")
    for name in chosen:
        store = RunStore(cache_folder() / "runs" / name)
        if not resume:
            store.clear()
        found = reproducing.reproduce(name, quick=quick, store=store, tell=console.note)
        target = reproducing.results_file(name, out)
        console.write_json(found, str(target))
        store.clear()
        console.say(f"{name}: written to {target}")


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version and stop.", is_eager=True)] = False,
) -> None:
    if show:
        console.say(f"purerec {__version__}")
        raise typer.Exit


if __name__ == "__main__":
    main()

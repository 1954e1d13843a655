"""`purerec fit`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from purerec.cli.clusters.connecting import OnOpt
from purerec.cli.groups import HoldingOut, ReadingWithTitles
from purerec.cli.options import (
    DataArg,
    JsonOpt,
    MetricsOpt,
    ModelArg,
    SeedOpt,
    SetOpt,
    SettingsOpt,
    command,
    epoch_lines,
    imports_of,
    limit_of,
    note_compiling,
    settings_of,
    told_settings,
)
from purerec.cli.workers import is_worker, rows_read, start_workers, was_restarted
from purerec.errors import ConfigError, counted
from purerec.output import console

if TYPE_CHECKING:
    from purerec.data.items.table import ItemTable
    from purerec.training.history import History


def fit(
    data: DataArg,
    model: ModelArg,
    out: Annotated[Path, typer.Option("--out", help="Folder to write the fitted model to.")],
    set_: SetOpt = None,
    settings: SettingsOpt = None,
    seed: SeedOpt = 0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from the checkpoint of an interrupted fit.")
    ] = False,
    early_stopping: Annotated[
        bool,
        typer.Option("--early-stopping", help="Find the number of epochs on a validation part, then refit on all."),
    ] = False,
    metric: Annotated[
        str | None, typer.Option("--metric", help="What --early-stopping watches; P@5 if not given.")
    ] = None,
    limit: Annotated[
        str | None, typer.Option("--limit", metavar="TIME", help="Stop training after this time, such as 5m.")
    ] = None,
    log: Annotated[Path | None, typer.Option("--log", help="File for one JSON line per epoch.")] = None,
    tensorboard: Annotated[Path | None, typer.Option("--tensorboard", help="Folder for TensorBoard.")] = None,
    mlflow: Annotated[bool, typer.Option("--mlflow", help="Log the fit to MLflow (extra `mlflow`).")] = False,
    split: Annotated[
        str | None,
        typer.Option(
            "--split",
            help="Fit on the train part of this split, evaluate on its test part.",
            rich_help_panel="Split",
        ),
    ] = None,
    metrics: MetricsOpt = None,
    workers: Annotated[
        int | None, typer.Option("--workers", help="Processes that share the fit (gmf, pugmf, pure, ials and ease).")
    ] = None,
    on: OnOpt = None,
    holding_out: HoldingOut = HoldingOut(),
    json: JsonOpt = None,
    reading: ReadingWithTitles = ReadingWithTitles(),
) -> None:
    """Fit a model and write it to a folder, with a report.

    Examples:
      purerec fit clicks.csv --model pure --out model
      purerec fit clicks.csv --model pure --items items.csv --out model
      purerec fit ml-100k --model pure --set dim=8 --split u1 --out model
      purerec fit clicks.csv --model pure --early-stopping --metric NDCG@20 --out model
      purerec fit clicks.csv --model pure --out model --resume
      purerec fit clicks.csv --model my_model:MyModel --out model
      purerec fit clicks --model pure --workers 4 --out model
      purerec fit clicks --model pure --on ray://head:10001 --workers 16 --out model
      purerec fit clicks.csv --model pure --split ratio --mlflow --out model
    """
    if workers is not None or on is not None:
        check_shared(model)
        if not is_worker():
            raise typer.Exit(_started(workers, on, out))
    from purerec.evaluation.choosing import check_choice
    from purerec.evaluation.protocols import evaluate
    from purerec.experiments.run import check_epochs, fit_with_early_stopping
    from purerec.models.contract.fitted_on import Stopwatch
    from purerec.models.registry import make_model, model_name
    from purerec.output.report import fit_report
    from purerec.output.tracking import check_can_log, log_fit
    from purerec.storage import beside, check_outputs, check_target, locked, remove_folder
    from purerec.training.checkpoints import CHECKPOINT
    from purerec.training.history import TIME_LIMIT
    from purerec.training.run import Run
    from purerec.tuning.settings_file import check_searched

    if mlflow:
        check_can_log()
    _check_metrics(metrics, metric, split=split, early_stopping=early_stopping)
    metric = check_choice(metrics, metric, "exact")
    limit_s = limit_of(limit)
    model = model_name(model)
    if early_stopping:
        check_epochs(model)
    checkpoint = beside(out, ".checkpoint")
    check_target(out, kind="model")  # before any work is done
    check_target(checkpoint, kind=CHECKPOINT)
    check_outputs({"--log": log, "the checkpoint": checkpoint}, {})
    given = settings_of(set_, settings, model)
    recommender = make_model(model, **given | ({} if metric is None else {"metric": metric}))
    items = reading.item_table()
    together = None if split is not None or early_stopping else reading.load_together(data)
    data_log = reading.load(data) if together is None else together
    if items is not None:
        items.check_knows(data_log.items)  # before the fit
    parts = None if split is None else holding_out.split(data_log, split)
    if parts is not None and settings is not None:
        check_searched(settings, data_log, parts, console.warn)
    train = data_log if parts is None else parts.full_train
    options = Run(
        progress=console.progress(),
        callbacks=epoch_lines(),
        checkpoint=checkpoint,
        resume=resume or was_restarted(),
        time_limit_s=limit_s,
        log=log,
        tensorboard=tensorboard,
    )
    watch = Stopwatch()
    with locked(out):
        try:
            if early_stopping:
                fit_with_early_stopping(recommender, train, seed=seed, options=options)
            else:
                recommender.fit(train, seed=seed, run=options)
        except KeyboardInterrupt as stop:
            raise console.Interrupted(f"interrupted {stop}".strip()) from None
        if together is not None:
            recommender._amend(**rows_read())
        if items is not None:
            recommender.set_items(items)
        judged = None if parts is None else evaluate(recommender, parts, metrics=metrics, seed=seed)
        report = {"report.html": fit_report(recommender, judged).encode()}
        measured = {} if judged is None else {"metrics": judged.metrics}
        folder = recommender.save(out, files=report, **measured)
        remove_folder(checkpoint, kind=CHECKPOINT)
    run_id = log_fit(recommender, folder, {} if judged is None else judged.metrics) if mlflow else None
    facts = recommender.fitted_on
    if json:
        about = {"model": model, "settings": recommender.config.model_dump(mode="json"), "folder": str(folder)}
        how = ({} if parts is None else {"split": parts.label}) | ({} if run_id is None else {"mlflow_run": run_id})
        console.write_json(about | how | measured | {"fitted_on": facts.model_dump()}, json)
        if json == "-":
            return
    console.detail(told_settings(recommender))
    console.say(
        f"{model} fitted on {counted(facts.positives, 'positive')} of {counted(facts.users, 'user')} and "
        f"{counted(facts.items, 'item')} in {facts.fit_seconds:.2f} s, saved in {folder}"
    )
    note_compiling(watch)
    history: History | None = getattr(recommender, "history", None)  # for models fitted in epochs
    if history is not None and history.stopped.startswith(TIME_LIMIT):
        console.note(f"stopped by the {history.stopped}, after {counted(len(history.records), 'epoch')}")
    if judged is not None and parts is not None:
        console.say(f"on the test part of {parts.describe()}; {judged.label}:")
        console.table(list(judged.metrics), [list(judged.metrics.values())])
    if run_id is not None:
        console.say(f"logged to MLflow as run {run_id}")
    if recommender.item_table is not None:
        console.note(_about_items(recommender.item_table))
    own = imports_of(recommender)
    ask = command("recommend", folder, "--user", recommender.users[0], *own)
    console.note(f"next: {ask}   or   {command('serve', folder, *own)}")


def _started(workers: int | None, on: str | None, out: Path) -> int:
    """Have other processes run this command; return the exit code."""
    if on is None:
        assert workers is not None
        return start_workers(workers)
    from purerec.cli.clusters.fits import start_on_ray

    return start_on_ray(on, workers, out)


def check_shared(model: str) -> None:
    from purerec.models.registry import SHARED

    if model not in SHARED:
        raise ConfigError(f"{model} is fitted by one process; --workers and --on are for {', '.join(SHARED)}")


def _about_items(table: ItemTable) -> str:
    """A line about the item table."""
    columns = ", ".join(f"{name} ({column.kind})" for name, column in table.columns.items())
    new = f"; {table.n_cold:,} not in training, see --cold-items" if table.n_cold else ""
    return f"items: {columns or 'no columns but the title'}{new}"


def _check_metrics(metrics: str | None, metric: str | None, *, split: str | None, early_stopping: bool) -> None:
    """Raise an error for options that would have no effect."""
    if metrics is not None and split is None:
        raise ConfigError("--metrics needs a test part; add --split, such as --split ratio")
    if metric is not None and not early_stopping:
        raise ConfigError("--metric needs --early-stopping; add it, or leave --metric out")

"""`purerec tune`."""

from __future__ import annotations

import shlex
import sys
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from purerec import __version__
from purerec.cli.completing import complete_models
from purerec.cli.groups import Parts, Reading, as_given
from purerec.cli.options import (
    MODELS_HELP,
    DataOpt,
    JsonOpt,
    PoolOpt,
    ProtocolOpt,
    SetOpt,
    SplitOpt,
    as_typed,
    command,
    limit_of,
    models_of,
    pool_of,
    protocol_of,
    settings_of_each,
)
from purerec.errors import ConfigError, PurerecError, StoreError, counted
from purerec.output import console

if TYPE_CHECKING:
    from purerec.tuning.search import Tuned


def tune(
    model: Annotated[str, typer.Option("--model", "--models", help=MODELS_HELP, autocompletion=complete_models)],
    data: DataOpt = None,
    trials: Annotated[
        int | None, typer.Option("--trials", help="Trials per model; 30 if no --limit is given.", min=1)
    ] = None,
    limit: Annotated[
        str | None, typer.Option("--limit", metavar="TIME", help="Time to search each model, such as 5m.")
    ] = None,
    minutes: Annotated[float | None, typer.Option("--minutes", hidden=True)] = None,
    metric: Annotated[str | None, typer.Option("--metric", help="Metric that settings are chosen by.")] = None,
    folds: Annotated[int, typer.Option("--folds", help="Validation folds to search on.", min=1)] = 2,
    fresh_folds: Annotated[
        int, typer.Option("--fresh-folds", help="Unseen folds to check the best trial on.", min=1)
    ] = 3,
    set_: SetOpt = None,
    settings: Annotated[
        Path | None, typer.Option("--settings", help="A settings file, tried right after the defaults.")
    ] = None,
    study: Annotated[
        Path | None, typer.Option("--study", help="File to store the trials in; by default one in the cache.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue with the trials in the study file.")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Settings file to write (TOML).")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the search, the folds and the fits.")] = 0,
    split: SplitOpt = "auto",
    given: Parts = Parts(),
    protocol: ProtocolOpt = "exact",
    pool: PoolOpt = None,
    json: JsonOpt = None,
    reading: Reading = Reading(),
) -> None:
    """Search for the settings of a model, on validation folds of the train part; the test part is never used.

    With --train and --test files, folds are made of the train file and, if there is one, the --valid file.

    Examples:
      purerec tune clicks.csv --model pure --trials 40 --out tuned.toml
      purerec tune ml-100k --split u1 --models all --limit 2m --set dim=5 --out tuned.toml
      purerec evaluate clicks.csv --model pure --settings tuned.toml
    """
    from purerec.evaluation.choosing import check_choice, deciding_metric
    from purerec.tuning.objective import Task
    from purerec.tuning.search import Budget
    from purerec.tuning.search import tune as search
    from purerec.tuning.settings_file import (
        check_searched,
        check_target,
        kept_settings,
        read_settings,
        searched,
        write_settings,
    )
    from purerec.tuning.study import need_optuna

    need_optuna()
    if out is not None:
        check_target(out)
    fixed = settings_of_each(models_of(model), set_)
    also = read_settings(settings) if settings is not None else {}
    if limit is not None and minutes is not None:
        raise ConfigError("give either --limit or --minutes, which is its name in 0.1")
    budget = Budget(trials, limit_of(limit) if minutes is None else 60 * minutes)
    kind = protocol_of(protocol)
    n_candidates = pool_of(pool, kind)
    metric = check_choice(None, metric, kind)
    given.check(data, split)
    log, parts = given.load(data, split, reading)
    metric = metric or deciding_metric(log.name)
    if settings is not None:
        check_searched(settings, log, parts, console.warn)
    task = Task(parts.full_train, parts.made, metric, kind, n_candidates, folds, fresh_folds, seed)
    facts = {
        "data": log.name,
        "split": parts.label,
        "searched": searched(parts),
        "metric": metric,
        "protocol": kind if kind == "exact" else f"{kind}, {n_candidates} candidates",
        "folds": folds,
        "fresh_folds": fresh_folds,
        "trials_each": trials,
        "minutes_each": None if budget.limit_s is None else budget.limit_s / 60,
        "seed": seed,
        "command": _command(),
        "purerec": __version__,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }
    if out is not None:
        kept_settings(out, facts, fixed)  # refuses a file of another search before this one starts
    claims = ExitStack()  # for all models: no other process may claim the file between two of them
    path = _study_file(study, claims, list(fixed), resume=resume, fingerprint=task.train.fingerprint)
    found: dict[str, Tuned] = {}
    for name, settings_fixed in fixed.items():
        try:
            found[name] = search(
                task, name, fixed=settings_fixed, also=also.get(name), budget=budget, study=path, tell=console.note
            )
        except KeyboardInterrupt:
            raise console.Interrupted(
                f"interrupted; the trials are in {path}; run the same command with --resume to continue"
            ) from None
        except PurerecError as error:
            if len(fixed) == 1 or isinstance(error, ConfigError | StoreError):
                raise
            console.warn(f"{name} is left out: {error.at_command_line}")
            continue
        if out is not None:
            kept = kept_settings(out, facts, fixed)  # again: another search may have written to it since
            write_settings(out, facts, kept | {n: result.entry() for n, result in found.items()})
    claims.close()
    if not found:
        raise PurerecError("none of the models could be searched; see the warnings above")
    if json:
        console.write_json(facts | {"models": {n: result.to_dict() for n, result in found.items()}}, json)
        if json == "-":
            return
    console.say(
        f"{log.name}, train part of {parts.label}; {metric} ({facts['protocol']}), "
        f"{counted(folds, 'validation fold')}"
    )
    for name, result in found.items():
        _print(name, result)
    if len(found) > 1:
        _summary(found)
    if out is not None:
        console.say(f"settings written to {out}")
        how = [] if split == "auto" else ["--split", split]
        same = [*([] if data is None else [data, *how]), *as_given(given), *as_given(reading)]
        if kind != "exact":
            same += ["--protocol", kind, "--pool", str(n_candidates)]
        what = ("compare",) if len(found) > 1 else ("evaluate", "--model", as_typed(next(iter(found))))
        console.note(f"next: {command(what[0], *same, *what[1:], '--settings', out)}")


def _study_file(given: Path | None, claims: ExitStack, models: list[str], *, resume: bool, fingerprint: str) -> Path:
    """The given file, or one in the cache that no other search is using."""
    from purerec.data.catalog import cache_folder
    from purerec.tuning.study import claimed, forget, in_use, models_in

    if given is not None:
        if given.exists() and given.stat().st_size and not resume:
            raise ConfigError(f"{given} already exists; add --resume to continue its trials, or remove it")
        if not claims.enter_context(claimed(given)):
            raise in_use(given)
        return given
    stem, place = fingerprint[:16], cache_folder() / "studies"

    def by_use(path: Path) -> tuple[bool, float]:
        """Files with a study of these models first, the latest first of all."""
        try:
            theirs = models_in(path)
        except ConfigError:  # damaged
            theirs = set()
        return theirs.isdisjoint(models), -path.stat().st_mtime

    latest = sorted(place.glob(f"{stem}*.jsonl"), key=by_use) if resume else []
    numbered = (place / f"{stem}{'' if number == 1 else f'-{number}'}.jsonl" for number in count(1))
    path = next(path for path in chain(latest, numbered) if claims.enter_context(claimed(path)))
    if not resume:
        forget(path, models)
    return path


def _command() -> str:
    """The command as typed, without files that are useless to others."""
    kept: list[str] = []
    skip = False
    for word in sys.argv[1:]:
        name = word.partition("=")[0]
        if not skip and name not in ("--study", "--out", "--json", "--resume"):
            kept.append(word)
        skip = not skip and word in ("--study", "--out", "--json")
    return shlex.join(["purerec", *kept])


def _print(name: str, result: Tuned) -> None:
    spent = f"{counted(result.trials, 'trial')} in {result.seconds:.0f} s"
    given_up = f", {result.pruned} given up early" if result.pruned else ""
    failed = f", {result.failed} failed" if result.failed else ""
    console.say(f"\n{name}: {spent}{given_up}{failed}")
    searched = list(dict.fromkeys(key for t in result.top for key in t["settings"]))
    rows: list[list[Any]] = [
        [str(t["trial"]), t["value"], *(_short(t["settings"].get(key)) for key in searched)] for t in result.top
    ]
    rows.append(["defaults", result.defaults, *("" for _ in searched)])
    console.table(["trial", result.metric, *searched], rows)
    if result.importance:
        console.say("mattered most: " + ", ".join(f"{key} {share:.0%}" for key, share in _most(result.importance)))
    console.say(f"kept: {result.kept}; {result.why}")


def _most(importance: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(importance.items(), key=lambda pair: -pair[1])[:4]


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else "" if value is None else str(value)


def _summary(found: dict[str, Tuned]) -> None:
    console.say("\nall models; fresh folds are those that no trial has seen")
    metric = next(iter(found.values())).metric
    console.table(
        ["model", "trials", f"{metric} defaults", "best", "fresh: defaults", "best", "p", "kept"],
        [
            [
                name,
                r.trials,
                r.defaults,
                r.best,
                *((r.check.defaults, r.check.best, r.check.p) if r.check is not None else (None, None, None)),
                r.kept,
            ]
            for name, r in found.items()
        ],
    )

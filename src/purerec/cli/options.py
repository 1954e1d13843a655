"""Options shared by several commands, and their values; related options are in `groups`."""

from __future__ import annotations

import shlex
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from purerec.cli.completing import complete_model, complete_models, complete_setting
from purerec.errors import ConfigError

if TYPE_CHECKING:
    from purerec.evaluation.protocols import Protocol
    from purerec.models.contract.fitted_on import Stopwatch
    from purerec.models.contract.recommender import Recommender
    from purerec.training.history import Record
    from purerec.training.run import Callback

DataArg = Annotated[str, typer.Argument(metavar="DATA", help="A name from `purerec data list`, or a path.")]
DataOpt = Annotated[
    str | None, typer.Argument(metavar="DATA", help="A name from `purerec data list`, or a path.", show_default=False)
]
FolderArg = Annotated[Path, typer.Argument(metavar="DIR", help="A folder written by `purerec fit`.")]
SplitOpt = Annotated[
    str,
    typer.Option("--split", help="auto, u1 to u5, given, ratio, leave_n_out or temporal.", rich_help_panel="Split"),
]
_WORTH_TELLING_S = 2
"""Compile times above this are mentioned"""
_MODEL_HELP = "A name from `purerec models`, or your own as module:Class."
ModelArg = Annotated[str, typer.Option("--model", help=_MODEL_HELP, autocompletion=complete_model)]
ModelOpt = Annotated[str | None, typer.Option("--model", help=_MODEL_HELP, autocompletion=complete_model)]
MODELS_HELP = "Names, separated by commas, or all; your own as module:Class."
ModelsOpt = Annotated[str, typer.Option("--models", help=MODELS_HELP, autocompletion=complete_models)]
SetOpt = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="A setting of the model; may be repeated.",
        autocompletion=complete_setting,
    ),
]
SettingsOpt = Annotated[
    Path | None,
    typer.Option(
        "--settings", metavar="FILE", help="Settings written by `purerec tune --out`; --set overrides them."
    ),
]
JsonOpt = Annotated[
    str | None, typer.Option("--json", metavar="FILE|-", help="Write JSON to a file, or to stdout with -.")
]
ProtocolOpt = Annotated[
    str,
    typer.Option("--protocol", help="exact, sampled or as_published (defective; explains Tables 3 and 4)."),
]
MetricsOpt = Annotated[
    str | None,
    typer.Option("--metrics", metavar="NAME,NAME", help="What to measure, such as Recall@20,NDCG@20,MRR."),
]
SeedOpt = Annotated[int, typer.Option("--seed", help="Seed for the model and for breaking ties.")]
PoolOpt = Annotated[
    int | None, typer.Option("--pool", help="Candidates per user in the sampled protocol; by default 500.")
]
MemoryOpt = Annotated[float, typer.Option("--memory-mb", help="Memory for scores during evaluation.")]


def models_of(text: str) -> list[str]:
    """The listed models, each once; all of purerec's for `all`."""
    from purerec.models.registry import REGISTRY, model_class, model_name

    names = list(REGISTRY) if text == "all" else [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise ConfigError("give at least one model")
    names = list(dict.fromkeys(map(model_name, names)))
    for name in names:
        model_class(name)  # raises an error that explains what is wrong
    return names


def settings_of(assignments: list[str] | None, file: Path | None = None, model: str | None = None) -> dict[str, Any]:
    """The settings from --set, which override those in a settings file."""
    settings: dict[str, Any] = {}
    if file is not None and model is not None:
        from purerec.tuning.settings_file import settings_from

        settings |= settings_from(file, model)
    for text in assignments or []:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"--set takes NAME=VALUE, such as --set dim=8, not {text!r}")
        settings[name.strip().replace("-", "_")] = value.strip()
    return settings


def settings_of_each(names: list[str], assignments: list[str] | None) -> dict[str, dict[str, Any]]:
    """The settings from --set for each model; models without such a setting ignore it."""
    from purerec.models.registry import settings_for_each

    return settings_for_each(names, settings_of(assignments))


def settings_words(assignments: list[str] | None, file: Path | None) -> list[str]:
    """--set and --settings as given, for the next command to type."""
    return [word for text in assignments or [] for word in ("--set", text)] + (
        [] if file is None else ["--settings", str(file)]
    )


def told_settings(model: Recommender) -> str:
    """The settings of a fitted model in one line; those derived from the data are marked."""
    from purerec.output.settings import shown_settings

    shown = shown_settings(model.config, model.fitted_on.resolved)
    return f"{model.name}: {', '.join(f'{name} {value}' for name, value in shown.items()) or 'no settings'}"


def epoch_lines() -> tuple[Callback, ...]:
    """For `Run.callbacks`: with --verbose, a line for each epoch."""
    from purerec.output import console

    def tell(record: Record) -> None:
        values = ", ".join(f"{name} {value:.4g}" for name, value in record.values.items())
        console.detail(f"epoch {record.epoch} ({record.phase}): {values}")

    return (tell,)


def note_compiling(watch: Stopwatch) -> None:
    """Mention long compile times: the seconds that commands show exclude them."""
    from purerec.output import console

    if watch.compiling > _WORTH_TELLING_S:
        console.note(f"compiling took {watch.compiling:.0f} s more; later runs on this machine skip it")


def imports_of(model: Recommender) -> list[str]:
    """The option that commands on this model's folder need if the model is a custom one."""
    from purerec.models.contract.model_folder import class_path

    path = class_path(type(model))
    return [] if path is None else ["--import", path]


def as_typed(model: str) -> str:
    """How to name a model in another command: by its name, or as module:Class."""
    from purerec.models.contract.model_folder import class_path
    from purerec.models.registry import model_class

    return class_path(model_class(model)) or model


IMPORTED: ContextVar[list[str]] = ContextVar("IMPORTED")
"""The modules of --import, while a command runs"""


def command(name: str, *words: object) -> str:
    """The next command to type, quoted for the shell; one that reads data needs the same imports as this one."""
    typed = ["purerec", name, *map(str, words)]
    again = [] if name in ("recommend", "serve") else IMPORTED.get([])
    return shlex.join(typed + [word for module in again for word in ("--import", module)])


def limit_of(text: str | None) -> float | None:
    """The value of --limit in seconds."""
    from purerec.training.times import seconds_of

    return None if text is None else seconds_of(text)


def protocol_of(name: str) -> Protocol:
    if name.replace("-", "_") not in ("exact", "sampled", "as_published"):
        raise ConfigError(f"there is no protocol {name!r}; choose exact, sampled or as_published")
    return cast("Protocol", name.replace("-", "_"))


def pool_of(pool: int | None, protocol: Protocol) -> int:
    """The number of candidates per user."""
    if pool is not None and protocol == "exact":
        raise ConfigError("--pool goes with --protocol sampled; the exact protocol ranks all items")
    return 500 if pool is None else pool

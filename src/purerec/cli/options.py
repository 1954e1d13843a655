"""Options that several commands share, and what they mean."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from purerec import console
from purerec.errors import ConfigError

if TYPE_CHECKING:
    from purerec.evaluating import Protocol
    from purerec.interactions import Interactions
    from purerec.splitting import Split

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
SettingsOpt = Annotated[
    Path | None,
    typer.Option("--settings", metavar="FILE", help="Settings that `purerec tune --out` wrote; --set comes on top."),
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


def load_data(
    source: str,
    columns: dict[str, str | None] | None = None,
    *,
    min_rating: float | None = None,
    titles: Path | None = None,
    encoding: str = "utf-8",
    explain_positives: bool = True,
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
        user, item, rating, timestamp = (columns.get(role) for role in ("user", "item", "rating", "timestamp"))
        data = read(
            source,
            user=user,
            item=item,
            rating=rating,
            timestamp=timestamp,
            encoding=encoding,
            positive_rating=min_rating,
        )
        unsaid = explain_positives and data.rating is not None and min_rating is None
        if unsaid and data.rating is not None and data.rating.min() < data.rating.max():
            console.note(
                f"{source}: ratings from {data.rating.min():g} to {data.rating.max():g}; every row counts as a "
                "positive (--min-rating 4 would count those from 4 on)"
            )
    return data.with_labels(read_labels(titles)) if titles is not None else data


def split_data(data: Interactions, how: str, n: int | None, test: float | None, at: str | None, seed: int) -> Split:
    from purerec.splitting import split

    return split(data, how, n=n, test=test, at=at, seed=seed)


def settings_of(assignments: list[str] | None, file: Path | None = None, model: str | None = None) -> dict[str, Any]:
    """What --set says, on top of what a settings file has for the model."""
    settings: dict[str, Any] = {}
    if file is not None and model is not None:
        from purerec.tuned import settings_from

        settings |= settings_from(file, model)
    for text in assignments or []:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"--set takes NAME=VALUE, such as --set dim=8, not {text!r}")
        settings[name.strip().replace("-", "_")] = value.strip()
    return settings


def protocol_of(name: str) -> Protocol:
    if name.replace("-", "_") not in ("exact", "sampled", "as_published"):
        raise ConfigError(f"there is no protocol {name!r}; choose exact, sampled or as_published")
    return cast("Protocol", name.replace("-", "_"))

"""`purerec recommend`."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from purerec.cli.clusters.connecting import OnOpt
from purerec.cli.options import FolderArg, JsonOpt
from purerec.errors import ConfigError, DataError, counted
from purerec.output import console

if TYPE_CHECKING:
    import polars as pl

_REASONS = 2
"""Maximum number of own items named in a reason."""
_NAMED = 3
"""Maximum number of users without a list that are named"""
_SHOWN = 8
"""Minimum number of parts in a long run; the progress bar moves after each."""


def _rule(name: str, text: str, metavar: str | None = None) -> Any:
    return typer.Option(name, help=text, metavar=metavar, rich_help_panel="Rules")


@dataclass(frozen=True)
class Shaping:
    """Rules for lists."""

    where: Annotated[
        list[str] | None,
        _rule("--where", "A condition on the item table, such as 'year>=1990'; may be repeated.", "CONDITION"),
    ] = None
    at_most: Annotated[
        list[str] | None,
        _rule("--at-most", "At most N items with the same value, such as genre=3; may be repeated.", "COLUMN=N"),
    ] = None
    diversity: Annotated[float, _rule("--diversity", "Penalty for similarity to listed items, 0 to 1.")] = 0.0
    popularity_discount: Annotated[
        float, _rule("--popularity-discount", "Penalty for popular items, from 0 to 1.")
    ] = 0.0
    cold_items: Annotated[
        int, _rule("--cold-items", "Places for items not in training, chosen by their columns.")
    ] = 0

    def options(self) -> dict[str, Any]:
        """Arguments for `Recommender.recommend`."""
        return {
            "where": self.where or [],
            "at_most": dict(_cap(text) for text in self.at_most or []),
            "diversity": self.diversity,
            "popularity_discount": self.popularity_discount,
            "cold_items": self.cold_items,
        }


def _cap(text: str) -> tuple[str, int]:
    name, equals, most = text.rpartition("=")
    if not equals or not name.strip() or not most.strip().isdecimal():
        raise ConfigError(f"--at-most takes COLUMN=N, such as --at-most genre=3, not {text!r}")
    return name.strip(), int(most)


def recommend(
    folder: FolderArg,
    user: Annotated[list[str] | None, typer.Option("--user", help="A user id; may be repeated.")] = None,
    users: Annotated[
        Path | None, typer.Option("--users", metavar="FILE", help="A file with a user id on each line.")
    ] = None,
    everybody: Annotated[bool, typer.Option("--all", help="All users of the training data; needs --out.")] = False,
    history: Annotated[
        str | None,
        typer.Option(
            "--history",
            metavar="ITEM,ITEM",
            help="Items that a new person liked; an id with a comma goes into double quotes.",
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Number of items.")] = 10,
    include_seen: Annotated[
        bool, typer.Option("--include-seen", help="Also items that the user already has.")
    ] = False,
    only: Annotated[
        str | None, typer.Option("--only", metavar="ITEM,ITEM", help="Only these may be recommended.")
    ] = None,
    exclude: Annotated[
        str | None, typer.Option("--exclude", metavar="ITEM,ITEM", help="These may not be recommended.")
    ] = None,
    rules: Shaping = Shaping(),
    explain: Annotated[bool, typer.Option("--explain", help="Add a column with the reason for each item.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write to a .parquet, .csv or .jsonl file.")
    ] = None,
    on: OnOpt = None,
    json: JsonOpt = None,
) -> None:
    """Recommend items to users in the training data, or to a new person with a history.

    Examples:
      purerec recommend model --user 196 --user 22 -k 5
      purerec recommend model --history 50,181 --explain
      purerec recommend model --user 196 --where genre=Comedy --where 'year>=1990' --at-most genre=3
      purerec recommend model --user 196 --diversity 0.3 --popularity-discount 0.2 --cold-items 1
      purerec recommend model --all --out recs.parquet
      purerec recommend model --all --on ray --out recs
    """
    from purerec.models.registry import load_model
    from purerec.output.tables import check_target

    asked = [bool(user), users is not None, everybody, history is not None]
    if sum(asked) != 1:
        raise ConfigError("give one of --user ID (may be repeated), --users FILE, --all or --history ITEM,ITEM")
    if everybody and out is None:
        raise ConfigError("--all needs a file for the lists; add --out recs.parquet (or .csv, .jsonl)")
    if out is not None and json is not None:
        raise ConfigError("give either --out or --json, not both")
    if on is not None and not everybody:
        raise ConfigError("--on works only with --all; add --all, or leave --on out")
    if out is not None and on is None:
        check_target(out)
    named = _lines(users) if users is not None else user
    chosen = None if named is None else list(dict.fromkeys(named))  # one list for each, however often they are named
    options: dict[str, Any] = {
        "exclude_seen": not include_seen,
        "items": _ids(only),
        "exclude": _ids(exclude),
        "explain": _REASONS if explain else 0,
        **rules.options(),
    }
    if on is not None and out is not None:
        from purerec.cli.clusters.lists import lists_on_ray

        lists_on_ray(on, folder, out, k, options)
        return
    model = load_model(folder)
    if out is not None:
        n_users = len(model.users) if everybody else len(chosen or [None])
        parts = (
            iter([model.recommend_for(_ids(history) or [], k, **options)])
            if history is not None
            else model.recommend_blocks(chosen, k, **options, block_users=_block(n_users, k))
        )
        _write(out, parts, n_users)
        return
    found = (
        model.recommend_for(_ids(history) or [], k=k, **options)
        if history is not None
        else model.recommend(chosen, k=k, **options)
    )
    if json:
        console.write_json(found.to_dicts(), json)
    if json != "-":
        found = _with_cold_reasons(found)
        order = [c for c in ("user", "rank", "item", "label", "score", "reason") if c in found.columns]
        console.table(
            order,
            [[_id_text(c, v) for c, v in zip(order, row, strict=True)] for row in found.select(order).rows()],
        )
        _note_empty(found, chosen, include_seen=include_seen, conditions=bool(rules.where))


def _note_empty(found: pl.DataFrame, users: list[str] | None, *, include_seen: bool, conditions: bool) -> None:
    """Print a note if there is nothing to list, since a table without rows does not say so."""
    listed = set(map(str, found["user"])) if users is not None else set()
    without = [user for user in dict.fromkeys(users or []) if user not in listed]
    if not without and (users is not None or found.height):
        return
    more = f" and {len(without) - _NAMED:,} more" if len(without) > _NAMED else ""
    to = f" to {', '.join(map(repr, without[:_NAMED]))}{more}" if without else ""
    remedies = ["; loosen --where"] * conditions
    remedies += ["; --include-seen also lists what they have already"] * (not include_seen)
    console.note(f"nothing is left to recommend{to}{''.join(remedies)}")


def _with_cold_reasons(found: pl.DataFrame) -> pl.DataFrame:
    """Add the reason for items without a score, even if no reasons were requested."""
    import polars as pl

    from purerec.models.contract.listing import NEW

    cold = pl.col("score").is_null()
    if "reason" in found.columns or not found.select(cold.any()).item():
        return found
    return found.with_columns(reason=pl.when(cold).then(pl.lit(NEW)))


def _write(out: Path, parts: Iterator[pl.DataFrame], n_users: int) -> None:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from purerec.output.tables import write_parts

    columns = TextColumn("lists"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console.err, disable=not console.progress(), transient=True) as progress:
        task = progress.add_task("lists", total=n_users)

        def followed() -> Iterator[pl.DataFrame]:
            for part in parts:
                yield part
                progress.advance(task, part["user"].n_unique() if "user" in part.columns else 1)

        rows = write_parts(out, followed())
    console.say(f"{counted(rows, 'recommendation')} for {counted(n_users, 'person', 'people')} in {out}")


def _block(n_users: int, k: int) -> int:
    """Users per block: enough to keep threads busy, few enough for the progress bar and for memory."""
    return max(1, min(max(256, n_users // _SHOWN), (1 << 20) // max(1, k)))


def _ids(text: str | None) -> list[str] | None:
    """Ids separated by commas; an id that contains commas goes into double quotes, as in a CSV file."""
    if text is None:
        return None
    try:
        rows = list(csv.reader(text.splitlines(), skipinitialspace=True))
    except csv.Error as error:
        raise ConfigError(f"cannot parse these ids ({error}); separate them with commas") from None
    return _without_blanks(part for row in rows for part in row)


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise DataError(f"{path} cannot be read: {reason}") from None
    found = _without_blanks(text.splitlines())
    if not found:
        raise DataError(f"{path} names no users; write one id on each line")
    return found


def _without_blanks(lines: Iterable[str]) -> list[str]:
    return [line.strip() for line in lines if line.strip()]


def _id_text(column: str, value: Any) -> Any:
    return str(value) if column in ("user", "item") and value is not None else value

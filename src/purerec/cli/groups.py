"""Groups of options that belong together, as dataclasses that act on them."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from purerec.cli.options import IMPORTED
from purerec.cli.paths import check_paths, is_named
from purerec.data.plugins.named import IMPORT_FIRST
from purerec.errors import ConfigError, DataError
from purerec.output import console

if TYPE_CHECKING:
    from purerec.data.interactions import Interactions
    from purerec.data.items.table import ItemTable
    from purerec.data.splits import Split


def _option(name: str, text: str, panel: str) -> Any:
    return typer.Option(name, help=text, rich_help_panel=panel)


@dataclass(frozen=True)
class Common:
    """Options that every command has."""

    import_: Annotated[
        list[str] | None,
        typer.Option(
            "--import",
            metavar="MODULE",
            help="A module of your own to import first, or module:Model; may be repeated.",
            rich_help_panel="General",
        ),
    ] = None
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="Only the answer, warnings and errors.", rich_help_panel="General"),
    ] = False
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Also show input, settings and epochs.", rich_help_panel="General"),
    ] = False

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Apply these options for the duration of a command."""
        if self.quiet and self.verbose:
            raise ConfigError("give --quiet or --verbose, not both")
        before = os.environ.get(IMPORT_FIRST)
        imported = IMPORTED.set(self.import_ or [])
        try:
            for names in self.import_ or []:
                if not all(name.strip() for name in names.split(",")):
                    raise ConfigError(f"--import takes the name of a module, such as my_model, not {names!r}")
            if self.import_:
                from purerec.models.registry import register_imports

                os.environ[IMPORT_FIRST] = ",".join([*([before] if before else []), *self.import_])
                register_imports()
            with console.speaking("quiet" if self.quiet else "verbose" if self.verbose else "normal"):
                yield
        finally:
            IMPORTED.reset(imported)
            if before is None:
                os.environ.pop(IMPORT_FIRST, None)
            else:
                os.environ[IMPORT_FIRST] = before


@dataclass(frozen=True)
class FileColumns:
    """The columns of a file."""

    user: Annotated[str | None, _option("--user", "Column of the user.", "Reading")] = None
    item: Annotated[str | None, _option("--item", "Column of the item.", "Reading")] = None
    rating: Annotated[str | None, _option("--rating", "Column of the rating.", "Reading")] = None
    timestamp: Annotated[str | None, _option("--timestamp", "Column of the time.", "Reading")] = None
    encoding: Annotated[str, _option("--encoding", "Encoding of the text files.", "Reading")] = "utf-8"

    @property
    def given(self) -> dict[str, Any]:
        """The columns as arguments of `read` and `ingest`, None for those to be found."""
        return {role: getattr(self, role) for role in ("user", "item", "rating", "timestamp")}

    def tell_found(self, source: str | Path) -> None:
        """Report how columns were assigned; without a header, even without --verbose."""
        from purerec.data.readers import columns_found

        found = columns_found(source, encoding=self.encoding, **self.given)
        if found is not None and found.by_position:
            console.note(f"{source}: no header, so columns go by position: {', '.join(found.names)}")
        elif found is not None:
            roles = (f"{name!r} is the {role}" for role, name in found.names.items())
            console.detail(f"{source}: {', '.join(roles)}")


@dataclass(frozen=True)
class Reading(FileColumns):
    """How to read a file."""

    min_rating: Annotated[
        float | None, _option("--min-rating", "Ratings of at least this count as positive.", "Reading")
    ] = None

    def load(self, source: str, *, explain_positives: bool = True) -> Interactions:
        """A data set by its name or path."""
        data = self._read(source)
        console.detail(f"read {source}: {data!r}")
        if not is_named(source):
            self.tell_found(source)
            if explain_positives:
                self._explain_positives(source, data)
        return data

    def _read(self, source: str) -> Interactions:
        from purerec.data import catalog
        from purerec.data.readers import read

        if is_named(source):
            if given := [f"--{role}" for role, column in self.given.items() if column is not None]:
                raise ConfigError(f"leave out {', '.join(given)}: {source} is a named data set, not a file")
            data = catalog.load(source, progress=console.progress())
            return data if self.min_rating is None else data.with_positives(self.min_rating)
        if not os.path.exists(source) and not Path(source).suffix and os.sep not in source:  # never raises
            return catalog.load(source)  # raises an error that lists the names
        return read(source, **self._options)

    @property
    def _options(self) -> dict[str, Any]:
        """Arguments of `read`."""
        return self.given | {"encoding": self.encoding, "positive_rating": self.min_rating}

    def load_parts(self, train: Path, test: str, valid: Path | None, *, explain_positives: bool = True) -> Split:
        """A split given as files."""
        from purerec.data.given import given_split

        parts = given_split(train, test, valid, **self._options)
        console.detail(f"read {train} and {test}: {parts.describe()}")
        for part in filter(None, (train, Path(test), valid)):
            self.tell_found(part)
        if explain_positives:
            self._explain_positives(str(train), parts.train)
        return parts

    def _explain_positives(self, source: str, data: Interactions) -> None:
        if data.rating is not None:
            self._explain_ratings(source, data.rating.min(), data.rating.max())

    def _explain_ratings(self, source: str, lowest: float, highest: float) -> None:
        if self.min_rating is None and lowest < highest:
            high = highest if highest - lowest <= 1 else min(highest, round(lowest + 0.75 * (highest - lowest)))
            console.note(
                f"{source}: ratings from {lowest:g} to {highest:g}; every row counts as a "
                f"positive (to count only {high:g} and above, add --min-rating {high:g})"
            )


def warn_of_no_ratings(source: str, threshold: float | None) -> None:
    """For data of a model that was fitted on the rows above a threshold."""
    console.warn(
        f"{source}: no ratings were found, so every row counts as positive, although the model was fitted on ratings "
        f"of at least {threshold:g}; if there are ratings, say where with --rating NAME"
    )


@dataclass(frozen=True)
class ReadingWithTitles(Reading):
    """How to read a file, and information about its items."""

    titles: Annotated[Path | None, _option("--titles", "File with item ids and titles.", "Reading")] = None
    items: Annotated[
        Path | None, _option("--items", "Table of items: ids, titles and any other columns, for rules.", "Reading")
    ] = None

    def item_table(self) -> ItemTable | None:
        """The table of --items, if there is one."""
        if self.items is None:
            return None
        if self.titles is not None:
            raise ConfigError("give --titles or --items, not both: --items may have a title column")
        from purerec.data.items.reading import read_items

        return read_items(self.items, encoding=self.encoding)

    def load(self, source: str, *, explain_positives: bool = True) -> Interactions:
        from purerec.data.readers import read_labels

        data = super().load(source, explain_positives=explain_positives)
        if self.titles is None:
            return data
        labels = read_labels(self.titles, encoding=self.encoding)
        found = data.with_labels(labels)
        if found.item_labels is not None and found.item_labels.null_count() == len(data.items):
            ids = ", ".join(map(repr, list(labels)[:2]))
            there = ", ".join(map(repr, data.items.ids.head(2).to_list()))
            raise DataError(
                f"no id in {self.titles} is in {source}: it has {ids or 'none'}, and the "
                f"data has {there}; write them as in the data"
            )
        return found

    def load_together(self, source: str) -> Interactions | None:
        """A data set in parts, where each worker reads its own; None if it must be read whole."""
        columns = (self.user, self.item, self.rating, self.timestamp, self.titles)
        if any(value is not None for value in columns):
            return None
        from purerec.cli.workers import read_together

        found = read_together(source, self.min_rating)
        if found is None:
            return None
        data, read = found
        console.detail(f"read {source}, each worker its parts: {data!r}")
        self._explain_ratings(source, *read.ratings)
        return data


N_HELP = "Interactions held out per user, by leave_n_out."
AT_HELP = "When the test part of a temporal split begins, such as 2024-05-01."
SEED_HELP = "Seed of the split."


@dataclass(frozen=True)
class HoldingOut:
    """What a split holds out as its test part."""

    n: Annotated[int | None, _option("--n", N_HELP, "Split")] = None
    test: Annotated[str | None, _option("--test", "Share held out, such as 0.2.", "Split")] = None
    at: Annotated[str | None, _option("--at", AT_HELP, "Split")] = None
    split_seed: Annotated[int, _option("--split-seed", SEED_HELP, "Split")] = 0

    def split(self, data: Interactions, how: str) -> Split:
        from purerec.data.splits import split

        return split(data, how, n=self.n, test=self.share(), at=self.at, seed=self.split_seed)

    def share(self) -> float | None:
        try:
            return None if self.test is None else float(self.test)
        except ValueError:
            raise ConfigError(f"--test takes a share such as 0.2, not {self.test!r}") from None


@dataclass(frozen=True)
class Parts:
    """What to fit and evaluate on: how to split the data, or files with its parts."""

    train: Annotated[Path | None, _option("--train", "File with the train part, in place of DATA.", "Split")] = None
    test: Annotated[
        str | None, _option("--test", "Share held out; with --train, file with the test part.", "Split")
    ] = None
    valid: Annotated[Path | None, _option("--valid", "File with a validation part.", "Split")] = None
    n: Annotated[int | None, _option("--n", N_HELP, "Split")] = None
    at: Annotated[str | None, _option("--at", AT_HELP, "Split")] = None
    split_seed: Annotated[int, _option("--split-seed", SEED_HELP, "Split")] = 0
    warm: Annotated[bool, _option("--warm", "Evaluate only users with a positive in train.", "Split")] = False

    def load(
        self, data: str | None, how: str, reading: Reading, *, explain_positives: bool = True
    ) -> tuple[Interactions, Split]:
        """The data and its parts; if parts are given, the data is what a model is fitted on."""
        self.check(data, how)
        explain = {"explain_positives": explain_positives}
        if data is not None:
            log = reading.load(data, **explain)
            parts = self._holding_out.split(log, how)
        else:
            assert self.train is not None
            assert self.test is not None
            parts = reading.load_parts(self.train, self.test, self.valid, **explain)
            log = parts.full_train
        return log, parts.warm() if self.warm else parts

    def check(self, data: str | None, how: str) -> None:
        """Raise an error for contradictory options before anything is read."""
        if self.train is None:
            if data is None:
                raise ConfigError("give DATA (a name or a path), or its parts with --train FILE --test FILE")
            if self.valid is not None:
                raise ConfigError("--valid goes with --train and --test; a split of DATA makes its own")
            self._holding_out.share()
            return
        if self.test is None:
            raise ConfigError("--train needs --test FILE, the part to evaluate on")
        superfluous = {
            "DATA": data is not None,
            "--split": how != "auto",
            "--n": self.n is not None,
            "--at": self.at is not None,
            "--split-seed": self.split_seed != 0,
        }
        if any(superfluous.values()):
            named = " and ".join(name for name, given in superfluous.items() if given)
            raise ConfigError(f"--train and --test are a split already; leave out {named}")

    @property
    def _holding_out(self) -> HoldingOut:
        return HoldingOut(self.n, self.test, self.at, self.split_seed)


def as_given(group: Any) -> list[str]:
    """The options of a group that differ from their defaults, as words of a command line."""
    given = {f.name: getattr(group, f.name) for f in fields(group) if getattr(group, f.name) != f.default}
    options = ((f"--{name.replace('_', '-')}", value) for name, value in given.items())
    return [word for option, value in options for word in ([option] if value is True else [option, _typed(value)])]


def _typed(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """A command for typer, which has no option groups: each group parameter becomes single options."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {}
    flat: list[inspect.Parameter] = []
    own = {name: (hints[name], p.default) for name, p in inspect.signature(command).parameters.items()}
    for name, (kind, default) in (own | {"common": (Common, None)}).items():
        if is_dataclass(kind):
            groups[name] = kind
            options = get_type_hints(kind, include_extras=True)
            flat.extend(_keyword(field.name, options[field.name], field.default) for field in fields(kind))
        else:
            flat.append(_keyword(name, kind, default))

    @functools.wraps(command)
    def run(**given: Any) -> None:
        check_paths(given)
        made = {name: kind(**{f.name: given.pop(f.name) for f in fields(kind)}) for name, kind in groups.items()}
        with made.pop("common").applied():
            command(**given, **made)

    run.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    vars(run)["__signature__"] = inspect.Signature(flat)
    return run


def _keyword(name: str, kind: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)

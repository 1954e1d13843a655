"""More data for a fitted model: `model.update(new)` continues from what it knows, with more users and items.

    vocabularies    the old ones, with new ids appended: an id keeps its index, and so its row
    positives       those that the model has seen and the new ones, each pair once; likewise the pairs that are not
                    positive, which only lists use
    parameters      models trained in epochs keep theirs in the same rows and columns; new ones start at random, as in
                    a first fit. Then follow a few epochs over all positives at a lower rate.
    no epochs       models that count or solve (itempop, ease, itemknn, slopeone, coclustering), and nmf, whose zeros
                    would stay zeros, are fitted from scratch on all positives: there is nothing to continue from.

The model changes only when the update is complete: an interruption changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from purerec.data.interactions import Interactions
from purerec.data.pairs import Csr
from purerec.data.text.sniffing import CANONICAL_INTEGER
from purerec.data.vocabulary import Vocabulary
from purerec.errors import ConfigError, DataError
from purerec.models.contract.fitted_on import FittedOn, Known, LastUpdate, Stopwatch
from purerec.training.run import Run
from purerec.types import I64, Mask

if TYPE_CHECKING:
    from purerec.models.contract.model_folder import AnyModel
    from purerec.models.contract.recommender import Recommender


@dataclass(frozen=True, eq=False)
class Growth:
    """A model's data and new data as one log."""

    united: Interactions
    """All positives, one row each"""
    touched: Csr
    """Every pair, positive or not"""
    rows: int
    """Rows of the new log"""
    users: int
    """How many users are new"""
    items: int
    """How many items are new"""
    positives: int
    """How many positives are new"""

    @property
    def is_nothing(self) -> bool:
        return not (self.users or self.items or self.positives)


def update(model: AnyModel, new: Interactions, *, seed: int, run: Run | None, epochs: int | None) -> AnyModel:
    """See `Recommender.update`."""
    if not isinstance(new, Interactions):
        raise DataError(f"update() takes a log from pr.read, not a {type(new).__name__}")
    _check(model, epochs)
    growth = unite(model, new)
    if growth.is_nothing:
        if len(growth.touched) > len(model.known.touched):  # nothing to learn from, but lists leave it out
            model._commit(model.learned, replace(model.known, touched=growth.touched), model.fitted_on)
        return model
    watch, log = Stopwatch(), growth.united
    if model.continues:
        learned, used = model._continue(log, epochs, seed, run or Run())
    else:
        learned, used = model._fit(log, None, seed, run or Run()), None
    resolved = model.resolved(log.positives) | model._chosen(learned)
    found = FittedOn.of(log, seed=seed, seconds=watch.seconds, resolved=resolved)
    model._commit(learned, Known.of(log, growth.touched), _facts(model.fitted_on, found, new, growth, used))
    return model


def unite(model: Recommender, new: Interactions) -> Growth:
    """The positives that a model has seen and those of a log, with vocabularies that cover both."""
    log = _as_the_model_sees_it(model, new.compact())
    users, user_idx = append(model.users, log.users)
    items, item_idx = append(model.items, log.items)
    shape, seen, touched = (len(users), len(items)), model.seen, model.known.touched

    def with_new(old: Csr, new_rows: Mask) -> Csr:
        return Csr.of(
            np.concatenate([old.users, user_idx[log.user_idx[new_rows]]]),
            np.concatenate([old.indices, item_idx[log.item_idx[new_rows]]]),
            shape,
        )

    liked = log.is_positive
    pairs = with_new(seen, liked)
    all_liked = touched is seen and liked.all()
    touched = pairs if all_liked else with_new(touched, np.ones_like(liked))
    labels = _labels(model.labels, len(model.items), log.item_labels, item_idx, len(items))
    name = model.fitted_on.name
    united = Interactions(users, items, pairs.users, pairs.indices, item_labels=labels, name=name)
    return Growth(
        united.cache(pairs=pairs),
        touched,
        rows=len(new),
        users=len(users) - len(model.users),
        items=len(items) - len(model.items),
        positives=len(pairs) - len(seen),
    )


def append(old: Vocabulary, new: Vocabulary) -> tuple[Vocabulary, I64]:
    """The old ids followed by those of `new` not among them, and the position of each id of `new`."""
    if len(new) and old.is_integer != new.is_integer:
        kinds = ("integers", "text") if old.is_integer else ("text", "integers")
        odd = next((i for i in new if isinstance(i, str) and CANONICAL_INTEGER.match(i) is None), new[0])
        raise DataError(
            f"the model's {old.what} ids are {kinds[0]} (such as {old[0]!r}), those of the new data are {kinds[1]} "
            f"(such as {odd!r}); give ids of the same kind, or fit again with all data"
        )
    known = pl.DataFrame({"id": old.ids, "at": np.arange(len(old), dtype=np.int64)})
    found = new.ids.alias("id").to_frame().join(known, on="id", how="left", maintain_order="left")["at"]
    fresh = found.is_null().to_numpy()
    at = found.fill_null(-1).to_numpy().copy()
    at[fresh] = len(old) + np.arange(np.count_nonzero(fresh))
    if not fresh.any():
        return old, at
    return Vocabulary(pl.concat([old.ids, new.ids.filter(pl.Series(fresh))]), old.what), at


def _check(model: Recommender, epochs: int | None) -> None:
    model._check_update()
    if epochs is None:
        return
    if not model.continues:
        raise ConfigError(f"{model.name} is fitted from scratch by an update, by its own settings; leave epochs out")
    if epochs < 1:
        raise ConfigError(f"epochs must be at least 1, not {epochs!r}")


def _as_the_model_sees_it(model: Recommender, log: Interactions) -> Interactions:
    """Ratings without a threshold of their own get that of the first fit."""
    threshold = model.fitted_on.positive_rating
    if log.rating is not None and log.positive_rating is None and threshold is not None:
        return replace(log, positive_rating=threshold)
    return log


def _labels(old: pl.Series | None, n_old: int, new: pl.Series | None, new_at: I64, n: int) -> pl.Series | None:
    """(n,) the old titles; for items that had none, the new ones."""
    if old is None and new is None:
        return None
    kept = pl.Series([None] * n_old, dtype=pl.String) if old is None else old.cast(pl.String)
    found = pl.concat([kept.alias("label"), pl.Series("label", [None] * (n - n_old), dtype=pl.String)])
    if new is None:
        return found
    given = pl.DataFrame({"at": new_at, "new": new.cast(pl.String)})
    table = pl.DataFrame({"at": np.arange(n, dtype=np.int64), "label": found})
    return table.join(given, on="at", how="left", maintain_order="left").select(pl.coalesce("label", "new"))["label"]


def _facts(old: FittedOn, found: FittedOn, new: Interactions, growth: Growth, epochs: int | None) -> FittedOn:
    """Describes the first fit, the current size of the data, and what the last update added."""
    last = LastUpdate(
        times=(old.updated.times if old.updated is not None else 0) + 1,
        name=new.name,
        fingerprint=new.fingerprint,
        interactions=growth.rows,
        new_users=growth.users,
        new_items=growth.items,
        new_positives=growth.positives,
        epochs=epochs,
        seed=found.seed,
        seconds=found.fit_seconds,
    )
    changes = {name: getattr(found, name) for name in ("fingerprint", "users", "items", "positives")}
    changes |= {"interactions": old.interactions + growth.rows, "resolved": found.resolved, "updated": last}
    return old.model_copy(update=changes)

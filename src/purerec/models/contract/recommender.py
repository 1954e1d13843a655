"""The contract of every model. Its public methods translate external ids; everything else sees indices only."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self, Unpack

import numpy.typing as npt
import polars as pl

from purerec import storage
from purerec.data.interactions import Interactions
from purerec.data.items.table import ItemTable
from purerec.data.pairs import Csr
from purerec.data.vocabulary import Id, Vocabulary, index_of, indices_of
from purerec.engines.closed_form import ItemWeights
from purerec.errors import ConfigError, NotFittedError
from purerec.models.contract import answering, explaining, listing, model_folder, similar
from purerec.models.contract.answering import TopOptions
from purerec.models.contract.config import Config, make_config
from purerec.models.contract.derived import Derived, derived_of
from purerec.models.contract.explaining import Explanation, Person
from purerec.models.contract.fitted_on import Fit, FittedOn, Known, Stopwatch, check_data
from purerec.models.contract.foldin import Folding
from purerec.models.contract.rules import ListRules, RuleOptions
from purerec.models.contract.updating import update
from purerec.ranking.ranks import TopK
from purerec.ranking.scorers import Factors
from purerec.training.run import Run
from purerec.types import F32, I32, I64, State


class Recommender(ABC):
    """Base of all models. Its queries are functions of a model: see `answering`, `similar`, `explaining`, `updating`.

    config, config_class   its settings, and their class
    users, items, labels   ids and titles by internal index
    is_fitted              whether it can answer
    """

    name: ClassVar[str]
    """Its name on the command line."""
    config_class: ClassVar[type[Config]] = Config
    personalised: ClassVar[bool] = True
    """Whether different people may get different lists."""
    deterministic: ClassVar[bool] = False
    """Whether a fit is the same for every seed, so that comparisons fit the model only once."""
    continues: ClassVar[bool] = False
    """Whether an update continues from the last fit; otherwise it fits from scratch."""
    item_table: ItemTable | None = None
    """What is known about items: see `set_items`."""

    def __init__(self, config: Config | None = None, **settings: Any) -> None:
        if config is not None and settings:
            raise ConfigError("give either a config or single settings, not both")
        self.config = config if config is not None else make_config(type(self), settings)
        if not isinstance(self.config, self.config_class):
            raise ConfigError(f"{self.name} takes a {self.config_class.__name__}, not a {type(config).__name__}")
        self._fitted: Fit | None = None
        self._derived: Derived | None = None

    def __repr__(self) -> str:
        changed = {k: v for k, v in self.config if v != type(self.config).model_fields[k].default}
        settings = ", ".join(f"{k}={v!r}" for k, v in changed.items())
        return f"{type(self).__name__}({settings}){'' if self.is_fitted else ', not fitted'}"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings by name, as in scikit-learn."""
        return dict(self.config)

    def set_params(self, **settings: Any) -> Self:
        """Change settings, as in scikit-learn; the model has to be fitted again."""
        self.config = make_config(type(self), self.get_params() | settings)
        self._fitted = self._derived = None
        return self

    # ------------------------------------------------------------------ every model implements
    @abstractmethod
    def _fit(self, train: Interactions, valid: Interactions | None, seed: int, run: Run) -> Any:
        """Learn from `train` and return the result, without changing the model."""

    @abstractmethod
    def _state(self) -> State:
        """`learned`, as arrays."""

    @abstractmethod
    def _from_state(self, state: State, known: Known) -> Any:
        """The inverse of `_state`: `learned`, of a model that knows these people and items."""

    @abstractmethod
    def _layout(self) -> storage.Layout:
        """What `_state` looks like: the type and shape of each array, in `users`, `items` and names of settings."""

    @abstractmethod
    def _score(self, user_idx: I64) -> F32:
        """(len(user_idx), n_items) float32"""

    # ------------------------------------------------------------------ a model may override
    def factors(self) -> Factors | None:
        """User vectors, item vectors and item bias, if the score is their dot product; else None."""
        return None

    def _vector_part(self) -> Factors | None:
        """The part of the score that is a dot product, if something else adds to it: see `_history_part`."""
        return self.factors()

    def _history_part(self) -> ItemWeights | None:
        """Item-to-item weights through which a person's own items add to the vector part of the score, if any."""
        return None

    def _folding(self) -> Folding | None:
        """How to find the vector of a person who was not in training, if there is a vector part."""
        return None

    def _score_history(self, item_idx: I32) -> F32:
        """(n_items,) scores for a person with only these items, for models without `_folding`."""
        raise ConfigError(f"{self.name} cannot recommend for people who were not in training")

    def _shares(self, person: Person, target_idx: I64) -> F32 | None:
        """(n, len(target_idx)) what each of a person's own items adds to the scores of others, if that is defined."""
        return None

    def _item_weights(self, item_idx: int) -> F32 | None:
        """(n_items,) the model's own weights between this item and the others, if it has such weights."""
        return None

    def _continue(self, train: Interactions, epochs: int | None, seed: int, run: Run) -> tuple[Any, int]:
        """Continue training on a log that has grown; return the new `learned` and the number of epochs."""
        raise NotImplementedError(f"{self.name} sets `continues` but does not implement `_continue`")

    def resolved(self, positives: Csr) -> dict[str, int | float]:
        """The settings that are None in the config and follow from the data. After a fit: `fitted_on.resolved`."""
        space = self.config.search_space
        starts = {name: space[name].start for name, value in self.config if value is None and name in space}
        return {name: start(positives) for name, start in starts.items() if callable(start)}

    def _chosen(self, learned: Any) -> dict[str, int | float]:
        """Those of them that the fit has chosen."""
        return {}

    def _check_update(self) -> None:  # noqa: B027  # most models can
        """Raise an error if the model cannot learn from more data."""

    # ------------------------------------------------------------------ fitting
    def fit(
        self, train: Interactions, *, valid: Interactions | None = None, seed: int = 0, run: Run | None = None
    ) -> Self:
        """Fit on the positives of `train`; `valid`, if given, decides only when to stop."""
        check_data(train, valid, self.item_table)
        watch = Stopwatch()
        learned = self._fit(train, valid, seed, run or Run())
        self._finish_fit(learned, train, seed, watch.seconds)
        return self

    def update(self, new: Interactions, *, seed: int = 0, run: Run | None = None, epochs: int | None = None) -> Self:
        """Learn from new interactions as well; models trained in epochs continue for `epochs` (None: a few).

        See `purerec.models.contract.updating`.
        """
        return update(self, new, seed=seed, run=run, epochs=epochs)

    def _finish_fit(self, learned: Any, train: Interactions, seed: int, seconds: float) -> None:
        resolved = self.resolved(train.positives) | self._chosen(learned)
        self._commit(learned, Known.of(train), FittedOn.of(train, seed=seed, seconds=seconds, resolved=resolved))

    def _commit(self, learned: Any, known: Known, fitted_on: FittedOn) -> None:
        """Replace the last fit. Until here, nothing has changed: a failure or an interruption leaves it as it was."""
        if learned is None:
            raise ConfigError(f"{self.name} learned nothing: its _fit has to return what was learned")
        table = self.item_table
        if table is not None:
            known, table = known.with_table(table)
        self._fitted, self.item_table, self._derived = Fit(learned, known, fitted_on), table, None

    def _amend(self, **facts: Any) -> None:
        """Correct the record of the fit."""
        self._fitted = replace(self.fitted, fitted_on=self.fitted_on.model_copy(update=facts))

    def set_items(self, table: ItemTable) -> Self:
        """Attach an item table, for rules; titles in the table replace those of the items."""
        known, self.item_table = self.known.with_table(table)
        self._fitted = replace(self.fitted, known=known)
        return self

    @property
    def is_fitted(self) -> bool:
        return self._fitted is not None

    @property
    def derived(self) -> Derived:
        """What follows from the parameters, computed on first use."""
        self._derived = derived_of(self, self._derived)
        return self._derived

    @property
    def fitted(self) -> Fit:
        """All that the last fit left."""
        if self._fitted is None:
            raise NotFittedError(f"{self.name} is not fitted yet; call fit(train) first")
        return self._fitted

    @property
    def learned(self) -> Any:
        """What `_fit` returned; a subclass says what it is."""
        return self.fitted.learned

    @property
    def known(self) -> Known:
        """The people, items and pairs that the model knows."""
        return self.fitted.known

    @property
    def fitted_on(self) -> FittedOn:
        """The data of the fit, and how it went."""
        return self.fitted.fitted_on

    @property
    def users(self) -> Vocabulary:
        return self.known.users

    @property
    def items(self) -> Vocabulary:
        return self.known.items

    @property
    def labels(self) -> pl.Series | None:
        return self.known.labels

    @property
    def seen(self) -> Csr:
        """The positives that the model was fitted on."""
        return self.known.seen

    # ------------------------------------------------------------------ answering
    def score(self, user_idx: npt.ArrayLike) -> F32:
        """Scores of all items for users by internal index: (len(user_idx), n_items) float32."""
        return self._score(indices_of(user_idx, len(self.users), "user"))

    def recommend(
        self,
        users: Iterable[Id] | Id | None = None,
        k: int = 10,
        *,
        exclude_seen: bool = True,
        items: Iterable[Id] | None = None,
        exclude: Iterable[Id] | None = None,
        explain: int = 0,
        **rules: Unpack[RuleOptions],
    ) -> pl.DataFrame:
        """The k best items of some users, or of all: a table of user, item, score, rank (and label).

        `exclude_seen` leaves out all that is in a person's log. `items`, if given, are the only candidates; items in
        `exclude` are never listed (unknown ones are ignored). With `explain`, a column gives reasons: at most this
        many of the person's own items. For rules, see `rules`.
        """
        options = listing.ListOptions(exclude_seen, items, exclude, explain, ListRules.of(rules))
        return pl.concat(listing.blocks_for_users(self, users, k, options, None), rechunk=False)

    def recommend_blocks(
        self,
        users: Iterable[Id] | Id | None = None,
        k: int = 10,
        *,
        exclude_seen: bool = True,
        items: Iterable[Id] | None = None,
        exclude: Iterable[Id] | None = None,
        explain: int = 0,
        block_users: int | None = None,
        **rules: Unpack[RuleOptions],
    ) -> Iterator[pl.DataFrame]:
        """The same table in blocks of `block_users` users, one in memory at a time; at least one block."""
        options = listing.ListOptions(exclude_seen, items, exclude, explain, ListRules.of(rules))
        return listing.blocks_for_users(self, users, k, options, block_users)

    def recommend_for(
        self,
        history: Iterable[Id] | Id,
        k: int = 10,
        *,
        exclude_seen: bool = True,
        items: Iterable[Id] | None = None,
        exclude: Iterable[Id] | None = None,
        explain: int = 0,
        **rules: Unpack[RuleOptions],
    ) -> pl.DataFrame:
        """The same for a person who was not in training, from the items they liked (if none, popular items)."""
        options = listing.ListOptions(exclude_seen, items, exclude, explain, ListRules.of(rules))
        return listing.for_history(self, history, k, options)

    def top_for_users(self, user_idx: I64, k: int, **options: Unpack[TopOptions]) -> TopK:
        """(len(user_idx), k) best items by internal index; lists that are too short end in -1."""
        return answering.top_for_users(self, user_idx, k, **options)

    def top_for_history(self, item_idx: I32, k: int, **options: Unpack[TopOptions]) -> TopK:
        """(1, k) best items for a new person with this history, by internal index; repeated items count once."""
        return answering.top_for_history(self, item_idx, k, **options)

    def score_history(self, item_idx: I32) -> F32:
        """(n_items,) scores for a new person with this history, by internal index; repeated items count once."""
        return answering.scores_of_history(self, answering.history_indices(self, item_idx))

    def fold_in(self, item_idx: I32) -> F32 | None:
        """(dim,) the vector of a new person; None without one, or without a history."""
        return self.derived.vector_of(answering.history_indices(self, item_idx))

    def popularity(self) -> F32:
        """(n_items,) how many positives each item had in training."""
        return self.derived.popularity

    def similar_items(self, item: Id, k: int = 10) -> pl.DataFrame:
        """The k items most similar to one: a table of item, score, rank (and label). See `similar`."""
        return listing.table(self, similar.top_similar(self, self.items.index(item), k))

    def top_similar(self, item_idx: int, k: int) -> TopK:
        """(1, k) by internal index."""
        return similar.top_similar(self, item_idx, k)

    def explain(self, user: Id, item: Id, k: int = 5) -> Explanation:
        """Why an item is in a person's list, with at most k own items that explain its score; see `explaining`."""
        return self.reasons_for_user(self.users.index(user), self.items.index(item), k)[0]

    def explain_for(self, history: Iterable[Id] | Id, item: Id, k: int = 5) -> Explanation:
        """The same for a person who was not in training."""
        return self.reasons_for_history(listing.history_of(self, history), self.items.index(item), k)[0]

    def reasons_for_user(self, user_idx: int, target_idx: npt.ArrayLike, k: int = 2) -> list[Explanation]:
        """Reasons for a whole list by internal index, which avoid repeating the same own items."""
        user_idx = index_of(user_idx, len(self.users), "user")
        return explaining.explain_list(self, explaining.person_of(self, user_idx), target_idx, k)

    def reasons_for_history(self, item_idx: I32, target_idx: npt.ArrayLike, k: int = 2) -> list[Explanation]:
        """The same for a new person; repeated items of the history count once."""
        return explaining.explain_list(self, explaining.somebody_new(self, item_idx), target_idx, k)

    # ------------------------------------------------------------------ storing
    def save(self, path: str | os.PathLike[str], *, files: Mapping[str, bytes] | None = None, **facts: Any) -> Path:
        """Write the fitted model to a folder; `facts` (such as metrics) go into its manifest."""
        return model_folder.write(self, path, files=files, facts=facts)

    @classmethod
    def _upgraded(cls, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """The settings of a folder written by an earlier version, with newer settings at the values it implies."""
        return settings

    def _check_state(self, state: State, sizes: Mapping[str, int]) -> None:
        storage.check_layout(state, self._layout(), sizes)
